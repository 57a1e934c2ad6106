"""Prefetched row locations, found again without the tree.

A loader reads all index pages of its first batch together, and then looks the same rows up several
times, all at once and a few at a time: to choose how each tensor is read, where its rows are, which
units contain them. Each lookup would search the tree again, at the cost of its leaves, dozens for
random rows, even with every page in memory.

    looked up    rows 17 · 90 061 · 4 · …     once, in the tree: ``FoundAhead``
    later        90 061 · 4                   binary search in the results; None for other rows
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlake.format import Extents, tree
from tensorlake.reading.index.extent_table import (
    ChunkKeys,
    Located,
    canonical,
    distinct,
    first_of_chunk,
)

__all__ = ["FoundAhead", "located_in"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FoundAhead:
    """Locations of some rows: ascending, each once."""

    rows: Int64Array
    found: tree.Located[Extents]

    def locate(self, physical: Int64Array) -> Located | None:
        """Find physical rows, in any order, repeats allowed; None where one was not prefetched."""
        at = _places(self.rows, physical)
        if at is None:
            return None
        return located_in(self.found, self.found.entry[at], self.found.offset[at])

    def entries(self, starts: Int64Array) -> Int64Array | None:
        """Find the extents that begin at some physical rows; None where one is missing."""
        return _places(self.found.starts, starts)


def located_in(found: tree.Located[Extents], entry: Int64Array, offset: Int64Array) -> Located:
    """Build the locations of rows from their extents and their offsets in these."""
    extents = found.table
    touched, chunk = distinct(canonical(first_of_chunk(extents), entry), len(extents))
    return Located(
        chunk=chunk.astype(np.int32),
        row_in_chunk=offset + extents.skip[entry],
        chunks=ChunkKeys(extents, touched, {}),
        starts=found.starts[touched],
        rows=extents.rows[touched].astype(np.int64),
    )


def _places(values: Int64Array, wanted: Int64Array) -> Int64Array | None:
    """Find each of some values among others, which are ascending; None where one is missing."""
    if not len(values):
        return None
    at = np.minimum(values.searchsorted(wanted), len(values) - 1)
    return at if np.array_equal(values[at], wanted) else None
