"""Indexes of a version as the query engine sees them: positions instead of physical rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.indexes import (
    OPERATORS,
    Condition,
    OpenIndex,
    index_names,
    open_index,
    rows_where,
    scan_where_damaged,
)
from tensorlake.reading import Reader, Selection
from tensorlake.types import Column

__all__ = ["PositionIndex", "position_indexes"]

Int64Array = npt.NDArray[np.int64]

MOST_UNCOVERED = 1 << 22
"""Rows that an index does not cover, beyond which they are not listed to find their positions."""

ToBatch = Callable[[Column], tql.SourceBatch]


class PositionIndex:
    """An index of a column of selected rows (``tensorlake_query.ColumnIndex``)."""

    def __init__(self, opened: OpenIndex, selection: Selection, to_batch: ToBatch) -> None:
        self._opened = opened
        self._selection = selection
        self._snapshot = selection.snapshot
        self._to_batch = to_batch

    @property
    def name(self) -> str:
        """Its name and kind."""
        return f"{self._opened.name!r} ({self._opened.kind})"

    @property
    def unindexed(self) -> Int64Array:
        """Positions that it does not cover, as ranges."""
        return self._unindexed

    def answers(self, op: tql.IndexOperator | tql.IndexOrder, path: tuple[str, ...] = ()) -> bool:
        """Return whether it may answer conditions of an operator, or find the first of an order."""
        own = self._opened.path
        return path[: len(own)] == own and op in OPERATORS.get(self._opened.kind, frozenset[str]())

    @cached_property
    def _chosen(self) -> Int64Array:
        """The physical rows of chosen rows, in order."""
        return self._selection.physical(self._selection.all_positions())

    @cached_property
    def _unindexed(self) -> Int64Array:
        ranges = self._opened.uncovered
        first, shown = self._snapshot.first_physical, self._snapshot.num_rows
        if not len(ranges):
            return ranges
        if self._selection.rows is not None:
            return _ranges(np.flatnonzero(~self._opened.covers()[self._chosen]))
        if first is not None:
            ranges = np.clip(ranges - first, 0, shown)
            return ranges[ranges[:, 0] < ranges[:, 1]]
        if int((ranges[:, 1] - ranges[:, 0]).sum()) > MOST_UNCOVERED:
            return np.array([[0, shown]])
        physical = np.concatenate([np.arange(start, stop) for start, stop in ranges.tolist()])
        return _ranges(self._positions(physical))

    def rows(self, conditions: Sequence[tql.IndexCondition], most: int) -> Int64Array | None:
        """Return positions of covered rows that meet conditions, ascending."""
        asked = [
            Condition(one.op, one.values, partial(self._matches, one), one.key)
            for one in conditions
        ]
        wide = most
        if self._selection.rows is not None:  # as many in the version as there are here by chance
            wide = most * self._snapshot.num_rows // max(len(self._selection.rows), 1)
        with scan_where_damaged(self._opened.name, url=self._snapshot.url):
            physical = rows_where(self._opened, asked, wide)
            positions = None if physical is None else self._positions(physical)
            return None if positions is None or len(positions) > most else positions
        return None

    def _matches(self, condition: tql.IndexCondition, column: Column) -> npt.NDArray[np.bool_]:
        return condition.matches(self._to_batch(column))

    def _positions(self, physical: Int64Array) -> Int64Array:
        """Return the positions of physical rows (ascending) that are shown, ascending."""
        if self._selection.rows is not None:
            is_found = np.zeros(self._opened.physical, np.bool_)
            is_found[physical] = True
            return np.flatnonzero(is_found[self._chosen])
        first = self._snapshot.first_physical
        if first is None:
            positions = self._snapshot.rows_of(physical)
            return np.sort(positions[positions >= 0])
        start, stop = np.searchsorted(physical, [first, first + self._snapshot.num_rows])
        return physical[start:stop] - first if first else physical[start:stop]


def _ranges(positions: Int64Array) -> Int64Array:
    """Return ascending positions as ranges."""
    is_first = np.concatenate(([True], np.diff(positions) != 1))[: len(positions)]
    is_last = np.append(is_first[1:], [True])[: len(positions)]
    return np.stack((positions[is_first], positions[is_last] + 1), axis=1)


def position_indexes(
    reader: Reader, selection: Selection, column: str, to_batch: ToBatch
) -> list[PositionIndex]:
    """Return the indexes of a column that can be read; a damaged one warns, and is left out."""
    snapshot = reader.snapshot
    found: list[PositionIndex] = []
    for name in index_names(snapshot, snapshot.spec(column).id):
        with scan_where_damaged(name, url=snapshot.url):
            found.append(PositionIndex(open_index(reader, name), selection, to_batch))
    return found
