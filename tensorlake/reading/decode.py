"""From a chunk's bytes to samples of the tensor: verified, decoded, brought to its type.

Each step is a function of its own, because what lies between is kept: decoded chunks do not depend
on the version that they are read in, so handles at other versions share them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError
from tensorlake.format import (
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
from tensorlake.reading.codes import holds_codes, narrowed, widened
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.storage import Buffer
from tensorlake.types import Column, EncodedColumn, UniformColumn

__all__ = [
    "adapted",
    "as_handed_out",
    "decoded",
    "decoded_and_kept",
    "salvaged",
    "too_short",
    "verified",
    "verify_pieces",
]


def verified(key: ChunkKey, blob: Buffer) -> Buffer:
    """Return a chunk's bytes, whose checksum is right.

    Raises:
        CorruptionError: It is not.
    """
    if xxh3_64_intdigest(blob) != key.checksum:
        raise _damaged(key)
    return blob


def verify_pieces(key: ChunkKey, pieces: Sequence[Buffer]) -> None:
    """See that a chunk's bytes, which lie in several places, have the right checksum.

    Raises:
        CorruptionError: They have not.
    """
    if checksum_of(pieces) != key.checksum:
        raise _damaged(key)


def decoded(spec: TensorSpec, key: ChunkKey, blob: Buffer, rest: Sequence[Buffer] = ()) -> Column:
    """What a chunk's verified bytes are, whatever type the tensor has in this version.

    This is what caches keep: handles at other versions of the dataset share them.
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
    """What of a damaged chunk its header lets one verify: its rows, and which of them are lost.

    None where the header is damaged, or records no units. A chunk that is whole by its own header
    is another one, written in this one's place: none of its rows is this tensor's.
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


def decoded_and_kept(cache: ChunkCache, spec: TensorSpec, key: ChunkKey, blob: Buffer) -> Column:
    """Decode a chunk's verified bytes and keep what they hold, class codes as narrow as can be."""
    made = decoded(spec, key, blob)
    column = narrowed(made) if holds_codes(spec.type) else made
    cache.keep(key, column)
    return column


def adapted(spec: TensorSpec, key: ChunkKey, column: Column) -> Column:
    """Bring samples of a chunk, as they are kept, to the tensor's type in this version."""
    if holds_codes(spec.type):
        column = widened(column, spec.encoding(key.read_as).element_dtype)
    return spec.adapt(column, key.read_as, where=str(key))


def as_handed_out(spec: TensorSpec, column: Column) -> Column:
    """Return samples of the tensor's type as others see them: class codes in their own dtype."""
    return widened(column, spec.layout.element_dtype) if holds_codes(spec.type) else column


def too_short(key: ChunkKey, part: str | None = None) -> CorruptionError:
    """Build the error for a chunk, or a part of one, that lacks rows which its index speaks of."""
    return CorruptionError(
        f"{part or key} is damaged: it has fewer rows than its index says"
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
