"""Parts of chunks: where few rows are wanted, the units that hold them and nothing else.

    chunks    [c0: u0 u1 u2 u3][c1: u0 u1 u2 …]      of one encoding
    rows      c0: 3, 17     c1: 5, 4                 counted inside their chunk
    wanted    u0, u1 of c0; u0 of c1                 each once, as units of all chunks, end to end
    ranges    [start, stop) of each in its pack      read by as few calls as the store needs
    column    verified, decoded, gathered: the rows in the order given, chunk by chunk

Chunks are planned and decoded together, because a thousand scattered rows lie in hundreds of them
and whatever is done for each costs as much as its request. Pure: whoever reads is elsewhere.
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
    decode_units,
    row_in_unit,
    rows_in_units,
    unit_of_rows,
    unit_ranges,
)
from tensorlake.reading.chunks import ChunkKey
from tensorlake.reading.decoding import too_short
from tensorlake.storage import Buffer
from tensorlake.types import Column, UniformColumn, slice_rows, take

__all__ = ["ChunkRows", "Parts", "gathered"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """Rows that are wanted of a chunk, counted inside it, and the units it is divided into."""

    key: ChunkKey
    rows: Int64Array
    units: Units


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The units that hold some rows of chunks of one layout.

    Attributes:
        keys: The chunks.
        layout: How they are encoded.
        units: Theirs, end to end.
        first_unit: For each chunk, which of the units is its first.
        chunk: For each row, chunk by chunk, which chunk holds it.
        rows: Each row, counted inside its chunk.
        wanted: Which units are wanted, ascending.
        unit_of_row: For each row, which of the wanted holds it.
        ranges: (wanted, 2), where they lie in their packs.
    """

    keys: Sequence[ChunkKey]
    layout: ChunkLayout
    units: Units
    first_unit: Int64Array
    chunk: Int64Array
    rows: Int64Array
    wanted: Int64Array
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
        """Find the units that hold rows, of arrays alone: nothing is done for each chunk.

        Args:
            keys: The chunks; looked at where one is damaged.
            layout: How they are encoded.
            units: Theirs, end to end.
            counts: How many each has.
            payload: Where in its pack the first unit of each lies.
            chunk: Which chunk holds each row, ascending.
            rows: Each row, counted inside its chunk.

        Raises:
            CorruptionError: A row is beyond the units that its chunk has.
        """
        first_unit = np.cumsum(counts) - counts
        unit = unit_of_rows(layout, rows)
        is_beyond = unit >= counts[chunk]
        if is_beyond.any():
            raise too_short(keys[int(chunk[np.argmax(is_beyond)])])
        wanted, unit_of_row = np.unique(unit + first_unit[chunk], return_inverse=True)
        ranges = unit_ranges(units, wanted, header_nbytes=0)
        before = unit_ranges(units, first_unit, header_nbytes=0)[:, 0]
        ranges += (payload - before)[_chunk_of(wanted, first_unit), None]
        return cls(keys, layout, units, first_unit, chunk, rows, wanted, unit_of_row, ranges)

    @property
    def chunk_of_wanted(self) -> npt.NDArray[np.intp]:
        """Of which chunk each wanted unit is."""
        return _chunk_of(self.wanted, self.first_unit)

    def nbytes_by_chunk(self) -> Int64Array:
        """Add up the wanted units of each chunk."""
        nbytes = np.zeros(len(self.units), np.int64)
        nbytes[self.wanted] = self.units.lengths[self.wanted]
        return np.add.reduceat(nbytes, self.first_unit)

    def places(self) -> tuple[Int64Array, Int64Array]:
        """Where each row is among the rows of the wanted units, end to end, and where each begins.

        Raises:
            CorruptionError: A unit holds fewer rows than its chunk's others.
        """
        layout, wanted = self.layout, self.wanted
        count = rows_in_units(layout, self.units.lengths[wanted])
        offset = row_in_unit(layout, self.rows)
        is_beyond = offset >= count[self.unit_of_row]
        if is_beyond.any():
            unit = int(wanted[self.unit_of_row[np.argmax(is_beyond)]])
            raise too_short(self._key(unit), self._name(unit))
        starts = np.cumsum(count) - count
        return starts[self.unit_of_row] + offset, starts

    def columns(self, buffers: Sequence[Buffer]) -> list[Column]:
        """Verify and decode what the ranges brought; the rows of each chunk.

        Raises:
            CorruptionError: A unit is damaged.
        """
        decoded = self.decoded(0, buffers)
        column = gathered(decoded, self.places()[0])
        borders = np.searchsorted(self.chunk, np.arange(len(self.keys) + 1)).tolist()
        return [slice_rows(column, start, stop) for start, stop in pairwise(borders)]

    def decoded(
        self, first: int, buffers: Sequence[Buffer], joined: Buffer | None = None
    ) -> Column:
        """Verify and decode some wanted units; all rows that they hold.

        Args:
            first: Which of the wanted is the first of them.
            buffers: Their bytes.
            joined: The same, end to end, where they lie so in memory.

        Raises:
            CorruptionError: A unit is damaged.
        """
        return decode_units(
            buffers,
            self.wanted[first : first + len(buffers)],
            units=self.units,
            layout=self.layout,
            name=self._name,
            joined=joined,
        )

    def _name(self, unit: int) -> str:
        chunk = int(_chunk_of(np.array([unit]), self.first_unit)[0])
        return f"part {unit - int(self.first_unit[chunk])} of {self.keys[chunk]}"

    def _key(self, unit: int) -> ChunkKey:
        return self.keys[int(_chunk_of(np.array([unit]), self.first_unit)[0])]


def _chunk_of(units: Int64Array, first_unit: Int64Array) -> npt.NDArray[np.intp]:
    return np.searchsorted(first_unit, units, side="right") - 1


def gathered(column: Column, rows: Int64Array) -> Column:
    """Take rows, copied out of what was read: nobody keeps the rest of it, or may not write."""
    if isinstance(column, UniformColumn):
        return UniformColumn(column.values[rows], column.valid)
    return take(column, rows)
