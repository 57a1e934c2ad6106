"""Units of extents: the parts of their chunks that can be read and verified alone.

An extent has one unit per encoded sample, or per block of raw rows, or none recorded here (count
0: the chunk's header has them). Three columns of a leaf page: ``units.count`` u32 per extent, then
``units.lengths`` and ``units.checksums`` u32 (low 32 bits of xxh3-64), one per unit, end to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from tensorlake.format.spec.integrity import damaged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorlake.format.pages.pages import SectionArray

_U32 = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class UnitTable:
    """Units of some extents."""

    counts: _U32
    lengths: _U32
    checksums: _U32

    @classmethod
    def none(cls, entries: int) -> Self:
        """Return a table in which no extent has units."""
        return cls(np.zeros(entries, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint32))

    @classmethod
    def of(cls, units: Sequence[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]) -> Self:
        """Return the table of (lengths, checksums) of each extent."""
        return cls(
            np.array([len(lengths) for lengths, _ in units], np.uint32),
            np.concatenate([lengths for lengths, _ in units]).astype(np.uint32),
            np.concatenate([checksums for _, checksums in units]).astype(np.uint32),
        )

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Join the units of several runs of extents."""
        return cls(
            np.concatenate([table.counts for table in tables]),
            np.concatenate([table.lengths for table in tables]),
            np.concatenate([table.checksums for table in tables]),
        )

    def take(self, entries: npt.NDArray[np.int64]) -> Self:
        """Return the units of some extents."""
        counts = self.counts[entries]
        if not len(self.lengths):
            return type(self)(counts, self.lengths, self.checksums)
        if bool((entries[1:] > entries[:-1]).all()):  # as a look-up asks: no number for each unit
            is_taken = np.zeros(len(self.counts), np.bool_)
            is_taken[entries] = True
            is_unit_taken = np.repeat(is_taken, self.counts)
            return type(self)(counts, self.lengths[is_unit_taken], self.checksums[is_unit_taken])
        starts = (np.cumsum(self.counts, dtype=np.int64) - self.counts)[entries]
        placed = np.cumsum(counts, dtype=np.int64) - counts
        units = np.arange(int(counts.sum(dtype=np.int64))) + np.repeat(starts - placed, counts)
        return type(self)(counts, self.lengths[units], self.checksums[units])

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> Self:
        """Return the table in which the other extents have no units."""
        is_kept_unit = np.repeat(is_kept, self.counts)
        return type(self)(
            np.where(is_kept, self.counts, 0).astype(np.uint32),
            self.lengths[is_kept_unit],
            self.checksums[is_kept_unit],
        )

    def entry(self, entry: int) -> tuple[_U32, _U32] | None:
        """Return (lengths, checksums) of one extent; None where they are not recorded here."""
        return self.each(np.array([entry]))[0]

    def each(self, entries: npt.NDArray[np.int64]) -> list[tuple[_U32, _U32] | None]:
        """Return what ``entry`` does, of several extents."""
        stops = np.cumsum(self.counts, dtype=np.int64)[entries]
        starts = (stops - self.counts[entries]).tolist()
        return [
            (self.lengths[start:stop], self.checksums[start:stop]) if start < stop else None
            for start, stop in zip(starts, stops.tolist(), strict=True)
        ]

    def to_columns(self) -> dict[str, SectionArray]:
        """Return the columns of a leaf page; none where no extent has units."""
        if not len(self.lengths):
            return {}
        return {
            "units.count": self.counts,
            "units.lengths": self.lengths,
            "units.checksums": self.checksums,
        }

    @classmethod
    def from_columns(cls, columns: Mapping[str, SectionArray], *, entries: int, where: str) -> Self:
        """Read the columns that ``to_columns`` wrote; no units where they are absent."""
        if "units.count" not in columns:
            return cls.none(entries)
        counts = columns["units.count"].astype(np.uint32, copy=False)
        lengths = columns.get("units.lengths", counts[:0]).astype(np.uint32, copy=False)
        checksums = columns.get("units.checksums", counts[:0]).astype(np.uint32, copy=False)
        total = int(counts.sum(dtype=np.int64))
        if counts.shape != (entries,) or lengths.shape != (total,) or checksums.shape != (total,):
            raise damaged(where, f"its units are not the {total} that its extents count")
        return cls(counts, lengths, checksums)
