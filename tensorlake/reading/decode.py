"""From a chunk's bytes to samples of the tensor: verified, decoded, brought to its type.

Each step is a function of its own, because what lies between is kept: decoded chunks do not depend
on the version that they are read in, so handles at other versions share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.storage import Buffer
from tensorlake.types import Column, EncodedColumn, SampleType, UniformColumn, concat, take

if TYPE_CHECKING:
    from tensorlake.reading.index.extent_table import Located

__all__ = [
    "Fetched",
    "adapted",
    "as_handed_out",
    "decoded",
    "decoded_and_kept",
    "holds_codes",
    "joined",
    "narrowed",
    "rows_by_chunk",
    "run_of",
    "salvaged",
    "too_short",
    "verified",
    "verify_pieces",
    "widened",
]

Int64Array = npt.NDArray[np.int64]


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


def holds_codes(sample_type: SampleType) -> bool:
    """Tell whether samples are classes."""
    return sample_type.query_kind == "label"


def narrowed(column: Column) -> Column:
    """Return a column of whole numbers in the narrowest unsigned dtype that holds them.

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
    """Return a column of whole numbers in the dtype that they had before they were narrowed."""
    if isinstance(column, EncodedColumn) or column.values.dtype == dtype:
        return column
    return replace(column, values=column.values.astype(dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """What came of some chunks, by their places among all; ``columns`` verifies and decodes it."""

    places: Sequence[int]
    columns: Callable[[], list[Column]]


def run_of(physical: Int64Array) -> tuple[int, int] | None:
    """Say where rows start and stop that follow each other without a gap; None of any others."""
    start, stop = int(physical[0]), int(physical[-1]) + 1
    if stop - start != len(physical) or bool((physical[1:] <= physical[:-1]).any()):
        return None
    return start, stop


def rows_by_chunk(located: Located) -> tuple[list[Int64Array], Int64Array | None]:
    """Divide rows by the chunks they are in; None where they lie in the chunks' order already."""
    is_in_order = bool(np.all(located.chunk[1:] >= located.chunk[:-1]))
    order = None if is_in_order else np.argsort(located.chunk, kind="stable")
    counts = np.bincount(located.chunk, minlength=len(located.chunks))
    rows = located.row_in_chunk if order is None else located.row_in_chunk[order]
    return np.split(rows, np.cumsum(counts)[:-1]), order


def joined(
    parts: Sequence[Column | None], fetched: Sequence[Fetched], order: Int64Array | None
) -> Column:
    """Make what was fetched, and put all rows in the order asked for."""
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
