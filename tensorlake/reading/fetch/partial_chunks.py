"""Partial reads of chunks: for few rows, only the units that contain them.

    chunks    [c0: u0 u1 u2 u3][c1: u0 u1 u2 …]      of one encoding
    rows      c0: 3, 17     c1: 5, 4                 counted inside their chunk
    wanted    u0, u1 of c0; u0 of c1                 each once, as units of all chunks, end to end
    ranges    [start, stop) of each in its pack      read by as few calls as the store needs
    column    verified, decoded, gathered: the rows in the order given, chunk by chunk

Chunks are planned and decoded together, because a thousand random rows are in hundreds of them, and
any work per chunk costs as much as its request. Pure: other modules do the reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    ChunkLayout,
    Units,
    checked_units,
    decode_units,
    row_in_unit,
    rows_in_units,
    unit_of_rows,
    unit_starts,
)
from tensorlake.reading.decode import too_short
from tensorlake.reading.index.chunk_cache import ChunkKey
from tensorlake.reading.index.extent_table import distinct
from tensorlake.storage import Buffer
from tensorlake.types import Column, UniformColumn, slice_rows, take

__all__ = ["ChunkRows", "Parts"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """Requested rows of a chunk, counted inside it, and its units."""

    key: ChunkKey
    rows: Int64Array
    units: Units


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The units that hold some rows of chunks of one layout.

    Attributes:
        keys: The chunks.
        layout: How they are encoded.
        units: Their units, end to end.
        first_unit: For each chunk, which of the units is its first.
        chunk: For each row, chunk by chunk, the chunk that contains it.
        rows: Each row, counted inside its chunk.
        wanted: The requested units, ascending.
        chunk_of_wanted: The chunk of each.
        unit_of_row: For each row, which of the requested units contains it.
        ranges: (wanted, 2), their byte ranges in their packs.
    """

    keys: Sequence[ChunkKey]
    layout: ChunkLayout
    units: Units
    first_unit: Int64Array
    chunk: Int64Array
    rows: Int64Array
    wanted: Int64Array
    chunk_of_wanted: npt.NDArray[np.intp]
    unit_of_row: Int64Array
    ranges: Int64Array

    @classmethod
    def of(cls, chunks: Sequence[ChunkRows], layout: ChunkLayout) -> Parts:
        """Find the units that hold some rows of each chunk.

        Raises:
            CorruptionError: A row is beyond the units that its chunk has.
        """
        keys = [one.key for one in chunks]
        return cls.found(
            keys,
            layout,
            units=Units.concat([one.units for one in chunks]),
            counts=np.array([len(one.units) for one in chunks], np.int64),
            payload=np.array([key.offset + key.header_nbytes for key in keys], np.int64),
            chunk=np.repeat(np.arange(len(chunks)), [len(one.rows) for one in chunks]),
            rows=np.concatenate([one.rows for one in chunks]),
        )

    @classmethod
    def found(
        cls,
        keys: Sequence[ChunkKey],
        layout: ChunkLayout,
        *,
        units: Units,
        counts: Int64Array,
        payload: Int64Array,
        chunk: Int64Array,
        rows: Int64Array,
    ) -> Parts:
        """Find the units that contain rows, with array operations only: no work per chunk.

        Args:
            keys: The chunks; for error messages.
            layout: How they are encoded.
            units: Their units, end to end.
            counts: The number of units of each.
            payload: Offset in its pack of each chunk's first unit.
            chunk: The chunk that contains each row, ascending.
            rows: Each row, counted inside its chunk.

        Raises:
            CorruptionError: A row is beyond the units that its chunk has.
        """
        first_unit = np.cumsum(counts) - counts
        unit = unit_of_rows(layout, rows)
        is_beyond = unit >= counts[chunk]
        if is_beyond.any():
            raise too_short(keys[int(chunk[np.argmax(is_beyond)])])
        wanted, unit_of_row = distinct(unit + first_unit[chunk], len(units))
        chunk_of_wanted = _chunk_of(wanted, first_unit)
        starts = unit_starts(layout, units, wanted, first_unit[chunk_of_wanted])
        starts += payload[chunk_of_wanted]
        ranges = np.stack((starts, starts + units.lengths[wanted]), axis=1)
        return cls(
            keys,
            layout,
            units,
            first_unit,
            chunk,
            rows,
            wanted,
            chunk_of_wanted,
            unit_of_row,
            ranges,
        )

    def nbytes_by_chunk(self) -> Int64Array:
        """Return the bytes of the requested units of each chunk."""
        lengths = self.ranges[:, 1] - self.ranges[:, 0]
        nbytes = np.zeros(len(self.keys), np.int64)
        np.add.at(nbytes, self.chunk_of_wanted, lengths)
        return nbytes

    def row_in_unit(self) -> Int64Array:
        """Return the position of each row in its unit.

        Raises:
            CorruptionError: A unit holds fewer rows than its chunk's others.
        """
        count = rows_in_units(self.layout, self.units.lengths[self.wanted])
        offset = row_in_unit(self.layout, self.rows)
        is_beyond = offset >= count[self.unit_of_row]
        if is_beyond.any():
            unit = int(self.wanted[self.unit_of_row[np.argmax(is_beyond)]])
            raise too_short(self._key(unit), self._name(unit))
        return offset

    def columns(self, buffers: Sequence[Buffer]) -> list[Column]:
        """Verify and decode the bytes of the ranges; return the rows of each chunk.

        Raises:
            CorruptionError: A unit is damaged.
        """
        decoded = decode_units(
            buffers, self.wanted, units=self.units, layout=self.layout, name=self._name
        )
        count = rows_in_units(self.layout, self.units.lengths[self.wanted])
        places = (np.cumsum(count) - count)[self.unit_of_row] + self.row_in_unit()
        column = _gathered(decoded, places)
        borders = np.searchsorted(self.chunk, np.arange(len(self.keys) + 1)).tolist()
        return [slice_rows(column, start, stop) for start, stop in pairwise(borders)]

    def check(self, hashes: Sequence[int]) -> BoolArray:
        """Verify the bytes of all ranges by their hashes; return which are not NULL.

        Raises:
            CorruptionError: A unit is damaged.
        """
        return checked_units(
            hashes, self.wanted, units=self.units, layout=self.layout, name=self._name
        )

    def _name(self, unit: int) -> str:
        chunk = int(_chunk_of(np.array([unit]), self.first_unit)[0])
        return f"part {unit - int(self.first_unit[chunk])} of {self.keys[chunk]}"

    def _key(self, unit: int) -> ChunkKey:
        return self.keys[int(_chunk_of(np.array([unit]), self.first_unit)[0])]


def _chunk_of(units: Int64Array, first_unit: Int64Array) -> npt.NDArray[np.intp]:
    return np.searchsorted(first_unit, units, side="right") - 1


def _gathered(column: Column, rows: Int64Array) -> Column:
    """Copy rows out of the bytes read, so that the result is writable and the rest is freed."""
    if isinstance(column, UniformColumn):
        return UniformColumn(column.values[rows], column.valid)
    return take(column, rows)
