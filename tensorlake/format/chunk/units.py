"""Units: the smallest parts of a chunk that can be read and verified alone.

A unit is one sample of a raw encoded chunk (where samples have 4 KiB on average), or a block of
whole rows of a raw uniform chunk without NULLs. Units are stored end to end from the start of the
payload;
each has a length and a checksum, the low 32 bits of xxh3-64. They are in the index; while a chunk's
extent is still in a tail, they are read from the chunk's header.

A NULL sample is a unit of length 0 and checksum 0. An empty sample has the checksum of no bytes,
which is not 0, so the two differ without the header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import xxhash

from tensorlake.format.chunk.header import ChunkHeader, ChunkKind
from tensorlake.format.spec.integrity import damaged
from tensorlake.types import Buffer, Column, EncodedColumn, UniformColumn, offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensorlake.format.chunk.layout import ChunkLayout

__all__ = [
    "Units",
    "checked_units",
    "checksums_of",
    "decode_units",
    "header_units",
    "row_in_unit",
    "rows_in_units",
    "rows_per_unit",
    "unit_of_rows",
    "unit_ranges",
    "unit_starts",
    "usual_units",
]

# Below this mean a sample is read with its chunk: a range request costs more than its bytes
# (design: format.md, Chunk index pages).
UNIT_MEAN_NBYTES = 4096
UNIT_NBYTES = 8192  # a block of whole rows, as many as fit (same section)

_LOW_32 = 0xFFFFFFFF
_MAX_UNIT_NBYTES = _LOW_32


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Length and checksum, u32 each, of every unit of a chunk, in payload order."""

    lengths: np.ndarray
    checksums: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def concat(cls, units: Sequence[Self]) -> Self:
        """Join the units of several chunks."""
        if len(units) == 1:
            return units[0]
        return cls(
            np.concatenate([one.lengths for one in units]),
            np.concatenate([one.checksums for one in units]),
        )

    @classmethod
    def of_samples(
        cls, samples: Sequence[Buffer], lengths: np.ndarray, valid: np.ndarray | None
    ) -> Self | None:
        """Return the units of encoded samples; None when one is too long to be a unit."""
        if len(lengths) and int(lengths.max()) > _MAX_UNIT_NBYTES:
            return None
        hashes = (xxhash.xxh3_64_intdigest(sample) & _LOW_32 for sample in samples)
        checksums = np.fromiter(hashes, np.uint32, len(samples))
        if valid is not None:
            checksums[~valid] = 0
        return cls(lengths.astype(np.uint32), checksums)


def checksums_of(payload: Buffer, unit_nbytes: int) -> Units | None:
    """Return the units of a payload cut every `unit_nbytes`; None when that is too long."""
    if unit_nbytes > _MAX_UNIT_NBYTES:
        return None
    view = memoryview(payload)
    starts = range(0, len(view), unit_nbytes)
    hashes = (xxhash.xxh3_64_intdigest(view[at : at + unit_nbytes]) & _LOW_32 for at in starts)
    lengths = np.full(len(starts), unit_nbytes, dtype=np.uint32)
    lengths[-1:] = len(view) - starts[-1] if starts else 0
    return Units(lengths, np.fromiter(hashes, np.uint32, len(starts)))


def rows_per_unit(row_nbytes: int) -> int:
    """Return how many rows of a uniform chunk one unit holds."""
    return max(1, UNIT_NBYTES // max(1, row_nbytes))


def unit_of_rows(layout: ChunkLayout, rows: np.ndarray) -> np.ndarray:
    """Return the unit that holds each of these rows of a chunk."""
    if layout.kind is ChunkKind.ENCODED:
        return rows
    return rows // rows_per_unit(layout.row_nbytes)


def row_in_unit(layout: ChunkLayout, rows: np.ndarray) -> np.ndarray:
    """Return where in its unit each of these rows of a chunk is."""
    if layout.kind is ChunkKind.ENCODED:
        return np.zeros_like(rows)
    return rows % rows_per_unit(layout.row_nbytes)


def rows_in_units(layout: ChunkLayout, lengths: np.ndarray) -> np.ndarray:
    """Return how many rows units of these lengths hold."""
    if layout.kind is ChunkKind.ENCODED:
        return np.ones(len(lengths), np.int64)
    return lengths.astype(np.int64) // max(1, layout.row_nbytes)


def unit_starts(
    layout: ChunkLayout, units: Units, wanted: np.ndarray, first_unit: np.ndarray
) -> np.ndarray:
    """Return where in its chunk's payload each wanted unit begins, int64.

    Args:
        layout: How the chunks are encoded.
        units: Their units, end to end.
        wanted: The numbers of the units.
        first_unit: For each of them, which is the first of its chunk.
    """
    if layout.kind is ChunkKind.ENCODED:
        offsets = offsets_of(units.lengths)
        return offsets[wanted] - offsets[first_unit]
    return (wanted - first_unit) * (rows_per_unit(layout.row_nbytes) * layout.row_nbytes)


def unit_ranges(units: Units, wanted: np.ndarray, *, header_nbytes: int) -> np.ndarray:
    """Return the byte range in the blob of each wanted unit: int64 (n, 2), [start, stop)."""
    offsets = offsets_of(units.lengths) + header_nbytes
    return np.stack((offsets[wanted], offsets[wanted + 1]), axis=1)


def header_units(
    header: ChunkHeader, *, layout: ChunkLayout, where: str = "a chunk"
) -> Units | None:
    """Return a chunk's units, as its header has them; None where it has none.

    Raises:
        CorruptionError: The header is damaged.
    """
    checksums = header.unit_checksums
    if checksums is None:
        return None
    if header.lengths is not None:
        lengths = header.lengths.astype(np.uint32)
    else:
        lengths = _block_lengths(layout, header.rows)
    if len(lengths) != len(checksums) or int(lengths.sum(dtype=np.int64)) != header.payload_nbytes:
        raise damaged(where, f"{len(checksums):,} units do not make up its samples")
    return Units(lengths, checksums)


def usual_units(layout: ChunkLayout, payload_nbytes: int) -> Units | None:
    """Return the units that a chunk of this payload has unless it has NULLs, without checksums.

    None where they depend on its samples: those of raw uniform chunks alone do not.
    """
    if layout.kind is not ChunkKind.UNIFORM or not layout.is_raw or not layout.row_nbytes:
        return None
    rows, rest = divmod(payload_nbytes, layout.row_nbytes)
    if rest:
        return None
    lengths = _block_lengths(layout, rows)
    return Units(lengths, np.zeros_like(lengths))


def _block_lengths(layout: ChunkLayout, rows: int) -> np.ndarray:
    count = rows_per_unit(layout.row_nbytes)
    lengths = np.full(-(-rows // count), count * layout.row_nbytes, dtype=np.uint32)
    lengths[-1:] = layout.row_nbytes * (rows - count * (len(lengths) - 1))
    return lengths


def checked_units(
    hashes: Iterable[int],
    wanted: np.ndarray,
    *,
    units: Units,
    layout: ChunkLayout,
    name: Callable[[int], str] = "part {} of a chunk".format,
) -> np.ndarray:
    """Verify units that were read alone and have the right length; return which are not NULL.

    Args:
        hashes: xxh3-64 of each.
        wanted: The numbers of these units.
        units: All units of the chunk, or of several chunks of one layout, end to end.
        layout: How the chunk was encoded.
        name: Returns a unit's name, for errors.

    Raises:
        CorruptionError: A unit is damaged.
    """
    count = len(wanted)
    is_encoded = layout.kind is ChunkKind.ENCODED
    lengths, checksums = units.lengths[wanted], units.checksums[wanted]
    is_valid = (lengths != 0) | (checksums != 0) if is_encoded else np.ones(count, np.bool_)
    low = np.fromiter(hashes, np.uint64, count).astype(np.uint32)
    _refuse(is_valid & (low != checksums), wanted, "its checksum is wrong", name)
    if not is_encoded:
        is_cut = lengths % max(1, layout.row_nbytes) != 0
        _refuse(is_cut, wanted, "it does not hold whole rows", name)
    return is_valid


def decode_units(
    buffers: Sequence[Buffer],
    wanted: np.ndarray,
    *,
    units: Units,
    layout: ChunkLayout,
    name: Callable[[int], str] = "part {} of a chunk".format,
) -> Column:
    """Verify and decode units that were read alone; returns their rows in the order given.

    Encoded samples come without shapes: those are in the header.

    Args:
        buffers: The bytes of each wanted unit.
        wanted: The numbers of these units.
        units: All units of the chunk, or of several chunks of one layout, end to end.
        layout: How the chunk was encoded.
        name: Returns a unit's name, for errors.

    Raises:
        CorruptionError: A unit is damaged.
    """
    nbytes = np.fromiter(map(len, buffers), np.int64, len(buffers))
    _refuse(nbytes != units.lengths[wanted], wanted, "its length is wrong", name)
    hashes = map(xxhash.xxh3_64_intdigest, buffers)
    is_valid = checked_units(hashes, wanted, units=units, layout=layout, name=name)
    if layout.kind is ChunkKind.ENCODED:
        return EncodedColumn(list(buffers), None, None if is_valid.all() else is_valid)
    dtype = layout.element_dtype.newbyteorder("<")
    shape = tuple(length or 0 for length in layout.shape)
    values = b"".join(buffers) if len(buffers) > 1 else buffers[0]
    return UniformColumn(np.frombuffer(values, dtype=dtype).reshape(-1, *shape))


def _refuse(is_wrong: np.ndarray, wanted: np.ndarray, why: str, name: Callable[[int], str]) -> None:
    if is_wrong.any():
        raise damaged(name(int(wanted[np.argmax(is_wrong)])), why)
