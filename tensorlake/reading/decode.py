"""Turn a chunk's bytes into samples of the tensor: verify, decode, convert, join.

Each step is a function of its own, because intermediate results are cached: decoded chunks do not
depend on the version that they are read in, so handles at other versions share them.

Class codes decode as int64, the type that NumPy and torch index with, and few datasets have more
than 256 classes. They are cached as uint8, which takes an eighth of the memory (a scan that
compares them reads an eighth of the bytes), and widened when returned.

Rows requested in any order are read chunk by chunk, and returned in the requested order:

    requested   chunk 1 row 4   chunk 0 row 7   chunk 1 row 0
    by chunk    chunk 0: [7]    chunk 1: [4, 0]                   ``rows_by_chunk``
    joined      chunk 1 row 4   chunk 0 row 7   chunk 1 row 0     ``joined``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError
from tensorlake.format import (
    ChunkHeader,
    ChunkKind,
    TensorSpec,
    checksum_of,
    decode_chunk,
    header_rows,
    header_units,
    read_header,
    rows_in_units,
    unit_ranges,
)
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.storage import Buffer
from tensorlake.types import Column, EncodedColumn, UniformColumn, concat, offsets_of, take

if TYPE_CHECKING:
    from tensorlake.reading.index.extent_table import Located

__all__ = [
    "Fetched",
    "adapted",
    "as_handed_out",
    "decoded",
    "decoded_and_kept",
    "joined",
    "narrowed",
    "rows_by_chunk",
    "salvaged",
    "too_short",
    "verified",
    "verify_pieces",
    "widened",
]

Int64Array = npt.NDArray[np.int64]


def verified(key: ChunkKey, blob: Buffer) -> Buffer:
    """Return a chunk's bytes after verifying their checksum.

    Raises:
        CorruptionError: The checksum is wrong.
    """
    if xxh3_64_intdigest(blob) != key.checksum:
        raise _damaged(key)
    return blob


def verify_pieces(key: ChunkKey, pieces: Sequence[Buffer]) -> None:
    """Verify the checksum of a chunk's bytes, which are in several buffers.

    Raises:
        CorruptionError: The checksum is wrong.
    """
    if checksum_of(pieces) != key.checksum:
        raise _damaged(key)


def decoded(spec: TensorSpec, key: ChunkKey, blob: Buffer, rest: Sequence[Buffer] = ()) -> Column:
    """Decode a chunk's verified bytes, independent of the tensor's type in this version.

    Caches store this form: handles at other versions of the dataset share it.
    """
    return decode_chunk(
        blob,
        header_nbytes=key.header_nbytes,
        rows=header_rows(blob),
        layout=spec.encoding(key.read_as),
        verify=None,
        where=str(key),
        rest=rest,
    )


def salvaged(
    spec: TensorSpec, key: ChunkKey, blob: Buffer
) -> tuple[Column, npt.NDArray[np.bool_]] | None:
    """Recover the rows of a damaged chunk that its header can verify, and a mask of lost rows.

    None where the header is damaged, or records no units. A chunk that is intact by its own header
    is a different one, written in this one's place: none of its rows belong to this tensor.
    """
    layout, view = spec.encodings[key.read_as], memoryview(blob)
    try:
        header = read_header(
            blob, header_nbytes=key.header_nbytes, rows=header_rows(blob), where=str(key)
        )
        units = header_units(header, layout=layout, where=str(key))
    except CorruptionError:
        return None
    payload = view[key.header_nbytes :]
    if header.parts is not None and len(payload) == header.payload_nbytes:
        return _salvaged_parts(header, payload)
    if units is None or xxh3_64_intdigest(payload) == header.payload_checksum:
        return None
    ranges = unit_ranges(units, np.arange(len(units)), header_nbytes=key.header_nbytes)
    parts = [view[start:stop] for start, stop in ranges.tolist()]
    low = np.fromiter(map(xxh3_64_intdigest, parts), np.uint64, len(parts)).astype(np.uint32)
    is_null = (units.lengths == 0) & (units.checksums == 0)
    is_lost = (low != units.checksums) & ~is_null
    if layout.kind is ChunkKind.ENCODED:
        samples: list[Buffer] = [
            b"" if lost else bytes(one) for one, lost in zip(parts, is_lost, strict=True)
        ]
        return EncodedColumn(samples, header.shapes, header.valid), is_lost
    dtype = layout.element_dtype.newbyteorder("<")
    shape = tuple(length or 0 for length in layout.shape)
    values = np.frombuffer(payload, dtype).reshape(header.rows, *shape)
    row_lost = np.repeat(is_lost, rows_in_units(layout, units.lengths))
    values = np.where(row_lost.reshape(-1, *(1 for _ in shape)), np.zeros((), dtype), values)
    return UniformColumn(values), row_lost


def _salvaged_parts(
    header: ChunkHeader, payload: memoryview
) -> tuple[Column, npt.NDArray[np.bool_]] | None:
    """Recover the samples of which every part is intact; None where all are."""
    assert header.parts is not None
    assert header.lengths is not None
    is_lost = header.parts.lost(payload)
    if not is_lost.any():
        return None
    bounds = pairwise(offsets_of(header.lengths).tolist())
    samples: list[Buffer] = [
        b"" if lost else bytes(payload[start:stop])
        for (start, stop), lost in zip(bounds, is_lost, strict=True)
    ]
    maps = [None if lost else header.parts.map(row) for row, lost in enumerate(is_lost)]
    return EncodedColumn(samples, header.shapes, header.valid, maps), is_lost


def decoded_and_kept(cache: ChunkCache, spec: TensorSpec, key: ChunkKey, blob: Buffer) -> Column:
    """Decode a chunk's verified bytes and cache the column, class codes in a narrow dtype."""
    made = decoded(spec, key, blob)
    column = narrowed(made) if spec.holds_codes else made
    cache.keep(key, column)
    return column


def adapted(spec: TensorSpec, key: ChunkKey, column: Column) -> Column:
    """Convert a cached column to the tensor's type in this version."""
    if spec.holds_codes:
        column = widened(column, spec.encoding(key.read_as).element_dtype)
    return spec.adapt(column, key.read_as, where=str(key))


def as_handed_out(spec: TensorSpec, column: Column) -> Column:
    """Return samples in the tensor's own dtype: class codes are widened."""
    return widened(column, spec.layout.element_dtype) if spec.holds_codes else column


def narrowed(column: Column) -> Column:
    """Return a column of integers in the narrowest unsigned dtype that holds them.

    >>> from tensorlake.types import UniformColumn
    >>> narrowed(UniformColumn(np.array([3, 255]))).values.dtype
    dtype('uint8')
    """
    if isinstance(column, EncodedColumn) or not column.values.size:
        return column
    low, high = int(column.values.min()), int(column.values.max())
    narrow = np.min_scalar_type(high)
    if low < 0 or narrow.itemsize >= column.values.dtype.itemsize:
        return column
    return replace(column, values=column.values.astype(narrow))


def widened(column: Column, dtype: npt.DTypeLike) -> Column:
    """Return a narrowed column of integers in its original dtype."""
    if isinstance(column, EncodedColumn) or column.values.dtype == dtype:
        return column
    return replace(column, values=column.values.astype(dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """Bytes of some chunks by their positions among all; ``columns`` verifies and decodes them."""

    places: Sequence[int]
    columns: Callable[[], list[Column]]


def rows_by_chunk(located: Located) -> tuple[list[Int64Array], Int64Array | None]:
    """Group rows by chunk, with their order; None where they are in the chunks' order already."""
    is_in_order = bool(np.all(located.chunk[1:] >= located.chunk[:-1]))
    order = None if is_in_order else np.argsort(located.chunk, kind="stable")
    counts = np.bincount(located.chunk, minlength=len(located.chunks))
    rows = located.row_in_chunk if order is None else located.row_in_chunk[order]
    return np.split(rows, np.cumsum(counts)[:-1]), order


def joined(
    parts: Sequence[Column | None], fetched: Sequence[Fetched], order: Int64Array | None
) -> Column:
    """Decode the fetched chunks, and return all rows in the requested order."""
    found = [*parts]
    for one in fetched:
        for place, column in zip(one.places, one.columns(), strict=True):
            found[place] = column
    column = concat([part for part in found if part is not None])
    if order is None:
        return column
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.arange(len(order))
    return take(column, inverse)


def too_short(key: ChunkKey, part: str | None = None) -> CorruptionError:
    """Build the error for a chunk, or a part of one, that has fewer rows than its index records."""
    return CorruptionError(
        f"{part or key} is damaged: it has fewer rows than its index records"
        "\nrestore the object from a copy, or run check() to see what is lost",
        object=key.pack.path,
        offset=key.offset,
    )


def _damaged(key: ChunkKey) -> CorruptionError:
    return CorruptionError(
        f"{key} is damaged: the checksum of its {key.nbytes:,} bytes is wrong\n"
        "restore the object from a copy, or run check() to see what is lost",
        object=key.pack.path,
        offset=key.offset,
    )
