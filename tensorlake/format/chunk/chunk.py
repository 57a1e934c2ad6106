"""Chunks: columns to blobs and back.

    blob = header (chunk/header.py) + payload

    kind      payload                                                     alone readable (unit)
    uniform   codecs applied to the array (rows, *shape)                  raw, no NULL: whole rows
    ragged    codecs applied to the elements of all samples, C order      no
    encoded   codecs applied to the samples, one after another            raw, mean ≥ 4 KiB: one;
                                                                          of samples with maps their
                                                                          parts (chunk/parts.py)

A NULL is zeros, no elements or no bytes. The payload starts at a multiple of 64 bytes, so that a
raw uniform chunk is decoded without a copy, also from a memory map. Units of a uniform chunk hold
``max(1, 8192 // bytes of a row)`` rows each, the last the remaining rows.

Decoding validates everything: a blob that differs from the encoded one raises `CorruptionError`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.format.chunk.codec import (
    GROWING_NBYTES,
    MAX_COMPRESSED_NBYTES,
    decode,
    encode,
    raw_codecs,
)
from tensorlake.format.chunk.header import (
    MAX_CHUNK_ROWS,
    ChunkHeader,
    ChunkKind,
    read_header,
    write_header,
)
from tensorlake.format.chunk.layout import KIND_NAMES, ChunkLayout
from tensorlake.format.chunk.parts import PartTable
from tensorlake.format.chunk.units import UNIT_MEAN_NBYTES, Units, checksums_of, rows_per_unit
from tensorlake.format.pages.statistics import Statistics, statistics_of
from tensorlake.format.spec.integrity import checksum_of, damaged
from tensorlake.types import (
    Buffer,
    Column,
    EncodedColumn,
    PackedSamples,
    RaggedColumn,
    UniformColumn,
    as_ragged,
    join_adjoining,
    offsets_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["ChunkBlob", "decode_chunk", "decode_payload", "encode_chunk"]

_COLUMNS = {UniformColumn: "uniform", RaggedColumn: "ragged", EncodedColumn: "encoded"}


@dataclass(frozen=True, slots=True, eq=False)
class ChunkBlob:
    """An encoded chunk, ready to be placed in a pack.

    Attributes:
        pieces: The bytes, in order; samples are not joined in memory.
        checksum: xxh3-64 of all bytes.
        units: The separately readable parts, for the index; None where only the whole is readable.
    """

    pieces: tuple[Buffer, ...]
    nbytes: int
    header_nbytes: int
    checksum: int
    rows: int
    kind: ChunkKind
    units: Units | None
    statistics: Statistics


def encode_chunk(column: Column, layout: ChunkLayout, *, has_bounds: bool = True) -> ChunkBlob:
    """Encode a column as one chunk.

    Args:
        column: The samples.
        layout: How they are stored.
        has_bounds: Whether its statistics have bounds of values.

    Raises:
        InvalidInputError: The column is not of this layout, or has too many rows.
    """
    if isinstance(column, UniformColumn) and layout.kind is ChunkKind.RAGGED:
        column = as_ragged(column)
    _check_column(column, layout)
    table: PartTable | None = None
    match column:
        case UniformColumn():
            payload, is_stored = _encode_payload(column.values, layout)
            units = _uniform_units(column, payload, layout)
            decoded, lengths, shapes = column.values.nbytes, None, None
        case RaggedColumn():
            payload, is_stored = _encode_payload(column.values, layout)
            decoded, lengths, shapes, units = column.values.nbytes, None, column.shapes, None
        case EncodedColumn():
            lengths = np.fromiter(map(len, column.samples), np.int64, len(column))
            decoded, shapes, units = int(lengths.sum()), column.shapes, None
            payload, is_stored = _encode_samples(column, decoded, layout)
            if column.maps is not None:
                table = _parts_of(column)
            elif isinstance(payload, list):
                units = Units.of_samples(payload, lengths, column.valid)
    pieces = tuple(join_adjoining(payload)) if isinstance(payload, list) else (payload,)
    payload_nbytes = sum(map(len, pieces))
    header = write_header(
        ChunkHeader(
            layout.kind,
            len(column),
            payload_nbytes,
            decoded,
            checksum_of(pieces),
            column.valid,
            lengths,
            shapes,
            None if units is None else units.checksums,
            is_stored,
            table,
        )
    )
    return ChunkBlob(
        (header, *pieces),
        len(header) + payload_nbytes,
        len(header),
        checksum_of((header, *pieces)),
        len(column),
        layout.kind,
        units,
        statistics_of(column, has_bounds=has_bounds),
    )


def decode_chunk(
    blob: Buffer,
    *,
    header_nbytes: int,
    rows: int,
    layout: ChunkLayout,
    verify: int | None,
    where: str = "a chunk",
    rest: Sequence[Buffer] = (),
) -> Column:
    """Decode a whole chunk; a raw uniform one is a view of `blob`.

    Args:
        blob: The chunk's bytes.
        header_nbytes: Length of its header, as the index has it.
        rows: Number of its samples, as the index has it.
        layout: How it was encoded.
        verify: xxh3-64 of the blob, as the index has it; None when the caller has verified these
            bytes before (a memory map, once per process).
        where: The object's name, for errors.
        rest: The bytes after `blob`, for a chunk that was read in parts. Raw encoded samples are
            views of their part; other chunks are joined.

    Raises:
        CorruptionError: The blob is not what was encoded.
    """
    parts = [memoryview(part) for part in (blob, *rest)]
    if verify is not None and checksum_of(parts) != verify:
        nbytes = sum(map(len, parts))
        raise damaged(where, f"the checksum of its {nbytes:,} bytes is wrong")
    if len(parts[0]) < header_nbytes:
        parts = [_joined(parts)]
    header = read_header(parts[0], header_nbytes=header_nbytes, rows=rows, where=where)
    payload = [parts[0][header_nbytes:], *parts[1:]]
    nbytes = sum(map(len, payload))
    if nbytes != header.payload_nbytes:
        found = f"{nbytes:,} bytes of samples instead of {header.payload_nbytes:,}"
        raise damaged(where, found)
    is_compressed = not (layout.is_raw or header.is_stored)
    if (
        verify is None
        and not layout.is_raw  # decompressors cannot be trusted with damaged bytes
        and checksum_of(payload) != header.payload_checksum
    ):
        raise damaged(where, "the checksum of its samples is wrong")
    try:
        return decode_payload(payload, header, layout, is_compressed=is_compressed)
    except ValueError as error:
        raise damaged(where, str(error)) from error


def _check_column(column: Column, layout: ChunkLayout) -> None:
    name = _COLUMNS[type(column)]
    problem = ""
    if name != KIND_NAMES.get(layout.kind):
        problem = f"is {name}"
    elif len(column) > MAX_CHUNK_ROWS:
        problem = f"has {len(column):,} rows; a chunk has at most {MAX_CHUNK_ROWS:,}"
    elif isinstance(column, EncodedColumn):
        if column.maps is not None and not layout.is_raw:
            problem = "has parts, which are stored as they are, without a codec"
        elif column.shapes is not None and column.shapes.shape != (len(column), len(layout.shape)):
            problem = f"has shapes {column.shapes.shape}"
    elif column.values.dtype != layout.element_dtype:
        problem = f"is {column.values.dtype}"
    elif isinstance(column, UniformColumn):
        if column.values.shape[1:] != layout.shape:
            problem = f"has samples of shape {column.values.shape[1:]}"
    elif column.shapes.shape != (len(column), len(layout.shape)):
        problem = f"has shapes {column.shapes.shape}"
    if problem:
        raise InvalidInputError(
            f"a column for {KIND_NAMES.get(layout.kind)} chunks of {layout.dtype} {layout.shape} "
            f"{problem}\nconvert it by the tensor's type first",
            expected=layout.to_json(),
            actual=problem,
        )


def _encode_payload(values: np.ndarray, layout: ChunkLayout) -> tuple[Buffer, bool]:
    nbytes = values.nbytes
    pays = layout.is_raw or not nbytes or GROWING_NBYTES < nbytes <= MAX_COMPRESSED_NBYTES
    return encode(values, layout.codecs if pays else raw_codecs(values.dtype)), not pays


def _uniform_units(column: UniformColumn, payload: Buffer, layout: ChunkLayout) -> Units | None:
    if not layout.is_raw or column.valid is not None or not len(payload):
        return None
    return checksums_of(payload, layout.row_nbytes * rows_per_unit(layout.row_nbytes))


def _encode_samples(
    column: EncodedColumn, nbytes: int, layout: ChunkLayout
) -> tuple[Buffer | list[Buffer], bool]:
    """Return the payload, or the samples that can be read alone, and whether it is stored raw."""
    if not layout.is_raw:
        joined = np.frombuffer(b"".join(column.samples), dtype=np.uint8)
        return _encode_payload(joined, layout)
    if nbytes < UNIT_MEAN_NBYTES * len(column) or not len(column):
        return b"".join(column.samples), False
    return list(column.samples), False


def _parts_of(column: EncodedColumn) -> PartTable:
    try:
        return PartTable.of(column)
    except ValueError as error:
        raise InvalidInputError(
            f"samples cannot be stored in parts: {error}"
            "\nthe cuts of a sample's map end at its length: see SampleMap"
        ) from error


def _joined(parts: Sequence[memoryview]) -> memoryview:
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _cut(parts: Sequence[memoryview], lengths: np.ndarray) -> list[Buffer]:
    """Cut samples out of their parts; a sample across several parts is joined."""
    samples: list[Buffer] = []
    number, begin, end = 0, 0, len(parts[0])
    for start, stop in pairwise(offsets_of(lengths).tolist()):
        while start >= end and number + 1 < len(parts):
            number += 1
            begin, end = end, end + len(parts[number])
        sample: Buffer = parts[number][start - begin : stop - begin]
        if stop > end:
            sample = bytes(sample) + _start_of(parts[number + 1 :], stop - end)
        samples.append(sample)
    return samples


def _start_of(parts: Sequence[memoryview], nbytes: int) -> bytes:
    start = b""
    for part in parts:
        start += part[: nbytes - len(start)]
    return start


def decode_payload(
    payload: Sequence[memoryview], header: ChunkHeader, layout: ChunkLayout, *, is_compressed: bool
) -> Column:
    """Decode what follows a header, which was verified as the bytes were.

    Args:
        payload: The bytes after the header, in parts.
        header: The header.
        layout: How the chunk was encoded.
        is_compressed: Whether its codecs were applied.

    Raises:
        ValueError: The bytes do not fit the header, or the header does not fit the layout.
    """
    if header.kind is not layout.kind:
        raise ValueError(f"it is {KIND_NAMES[header.kind]}, not {KIND_NAMES.get(layout.kind)}")
    codecs = layout.codecs if is_compressed else layout.codecs[:1]
    dtype = layout.element_dtype
    if header.kind is ChunkKind.UNIFORM:
        shape = (header.rows, *(length or 0 for length in layout.shape))
        if header.decoded_nbytes != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{header.decoded_nbytes:,} bytes are not {shape} of {dtype}")
        return UniformColumn(decode(_joined(payload), codecs, dtype, shape), header.valid)
    _check_shapes(header, layout)
    if header.kind is ChunkKind.RAGGED:
        assert header.shapes is not None
        # products of damaged shapes may wrap: floats tell whether int64 can hold the sum
        bound = float(np.multiply.reduce(header.shapes, axis=1, dtype=np.float64).sum())
        elements = header.decoded_nbytes // dtype.itemsize
        column = RaggedColumn(np.zeros(0, dtype=dtype), header.shapes, header.valid)
        if bound > float(1 << 60) or int(column.lengths.sum()) != elements:
            raise ValueError(f"its shapes do not add up to {elements:,} elements")
        return replace(column, values=decode(_joined(payload), codecs, dtype, (elements,)))
    assert header.lengths is not None
    lengths = header.lengths
    small = len(lengths) == 0 or (int(lengths.min()) >= 0 and int(lengths.max()) < 1 << 40)
    if not small or int(lengths.sum()) != header.decoded_nbytes:
        raise ValueError(f"its samples do not add up to {header.decoded_nbytes:,} bytes")
    nbytes = sum(map(len, payload))
    if not is_compressed and header.decoded_nbytes != nbytes:
        raise ValueError(f"{nbytes:,} bytes instead of {header.decoded_nbytes:,}")
    maps = None if header.parts is None else header.parts.maps(header.valid)
    are_small = header.decoded_nbytes < UNIT_MEAN_NBYTES * header.rows
    if len(payload) > 1 and not (is_compressed or are_small):
        return EncodedColumn(_cut(payload, lengths), header.shapes, header.valid, maps)
    plain: Buffer = _joined(payload)
    if is_compressed:
        plain = decode(plain, codecs, dtype, (header.decoded_nbytes,)).data
    if are_small:  # bytes do not keep the chunk alive
        samples = PackedSamples(bytes(plain), offsets_of(lengths))
        return EncodedColumn(samples, header.shapes, header.valid, maps)
    cut: list[Buffer] = [
        plain[start:stop] for start, stop in pairwise(offsets_of(lengths).tolist())
    ]
    return EncodedColumn(cut, header.shapes, header.valid, maps)


def _check_shapes(header: ChunkHeader, layout: ChunkLayout) -> None:
    shapes = header.shapes
    if shapes is None:
        if header.kind is ChunkKind.RAGGED:
            raise ValueError("it has no shapes")
        return
    if shapes.shape[1] != len(layout.shape):
        raise ValueError(f"its shapes have {shapes.shape[1]} axes instead of {len(layout.shape)}")
    for axis, length in enumerate(layout.shape):
        column = shapes[:, axis]
        if bool((column < 0).any() if length is None else (column != length).any()):
            raise ValueError(f"its shapes do not match {layout.shape}")
