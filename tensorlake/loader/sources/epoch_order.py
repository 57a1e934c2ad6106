"""``loader.plan``: which rows an epoch gives at which positions, and the inverse, without reading.

    position_of   row ─► place in the selection ─► position in the epoch's order
    rows_at       position ─► place in the selection ─► row

Here, as in a state, a *position* is a place in the order of the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.passes import GroupsPlan, PassesPlan
from tensorlake.loader.plan.plan import AccessPlan, Plan
from tensorlake.loader.plan.splice import SplicedPlan
from tensorlake.loader.sources.mix.plan import MixPlan, SplicedMixPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.loader.plan.selection import Int64Array, Selection

__all__ = ["EpochOrder"]

SCANNED_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class EpochOrder:
    """The order of one epoch of a loader.

    Attributes:
        plan: The plan of the epoch.
        selection: The rows.
    """

    plan: Plan
    selection: Selection

    def __len__(self) -> int:
        return self.plan.num_rows

    def rows_at(self, positions: Sequence[int] | Int64Array) -> Int64Array:
        """Return the row numbers, int64, that the epoch gives at some positions.

        Raises:
            InvalidInputError: A position is not within the epoch.
        """
        places = _integers(positions, "positions")
        if not len(places):
            return places
        return self.selection.row_numbers(self.plan.at(places))

    def places_with(self, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return every position at which the epoch gives one of some rows, ascending.

        There is none of rows that the loader does not read. Orders without an inverse are passed
        over once, for all rows.

        Returns:
            For each, which of the rows it is; and the position.

        Raises:
            InvalidInputError: The loader is of a mix, in which a number does not name a row.
        """
        self.refuse_mix("places_with()")
        which, own = self._positions_with(rows)
        if isinstance(self.plan, AccessPlan | SplicedPlan):
            places = self.plan.places_of(own)
            is_there = places >= 0
            which, places = which[is_there], places[is_there]
        else:
            by_position = np.argsort(own, kind="stable")
            sorted_own, found = own[by_position], [np.zeros((2, 0), dtype=np.int64)]
            stop = self.plan.num_rows if len(own) else 0
            for start in range(self._first_place, stop, SCANNED_ROWS):
                some = np.arange(start, min(start + SCANNED_ROWS, stop))
                given = self.plan.at(some)
                first = np.searchsorted(sorted_own, given, "left")
                counts = np.searchsorted(sorted_own, given, "right") - first
                at = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
                at = by_position[at + np.repeat(first, counts)]
                found.append(np.stack((which[at], np.repeat(some, counts))))
            which, places = np.concatenate(found, axis=1)
        order = np.argsort(places, kind="stable")
        return which[order], places[order]

    @property
    def has_inverse(self) -> bool:
        """Whether positions of rows are computed; otherwise the order is passed over."""
        return isinstance(self.plan, AccessPlan | SplicedPlan)

    def _positions_with(self, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the positions of rows in the selection, and which of the rows each has."""
        if self._listed is None:
            which = np.flatnonzero((rows >= 0) & (rows < self.selection.num_rows))
            return which, rows[which]
        ranked, values = self._listed
        first = np.searchsorted(values, rows, "left")
        counts = np.searchsorted(values, rows, "right") - first
        at = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(np.arange(len(rows)), counts), ranked[at + np.repeat(first, counts)]

    @property
    def _first_place(self) -> int:
        """The first place of which the rows are known: of a spliced epoch, that of the splice."""
        if isinstance(self.plan, SplicedPlan | PassesPlan | GroupsPlan):
            return self.plan.first_place
        return 0

    def position_of(self, rows: Sequence[int] | Int64Array) -> Int64Array:
        """Return the position, int64, at which the epoch gives each of some rows.

        A row that comes several times has its first position; one that the epoch does not give,
        because of weights or a limit, or gave before a splice, −1. Orders that need a column are
        passed over once.

        Raises:
            InvalidInputError: The view does not have a row; or the loader is of a mix, in which a
                row number does not name a row.
        """
        self.refuse_mix("position_of()")
        numbers = _integers(rows, "rows")
        if self._listed is None:
            found = numbers
            known = (numbers >= 0) & (numbers < self.selection.num_rows)
            self._refuse_unknown(numbers, known)
            return self._places_of(found)
        ranked, values = self._listed
        start = np.searchsorted(values, numbers, "left")
        stop = np.searchsorted(values, numbers, "right")
        self._refuse_unknown(numbers, start < stop)
        first = self._places_of(ranked[start])
        for more in range(1, int((stop - start).max(initial=0))):
            again = np.flatnonzero(start + more < stop)
            others = self._places_of(ranked[start[again] + more])
            known = np.where(first[again] < 0, others, first[again])
            first[again] = np.minimum(known, np.where(others < 0, known, others))
        return first

    def refuse_mix(self, what: str) -> None:
        """Refuse rows of a mix, whose numbers do not identify them."""
        if isinstance(self.plan, MixPlan | SplicedMixPlan):
            raise InvalidInputError(
                f"{what}: a row number does not identify a row of a mix\nuse rows_at()"
            )

    def _places_of(self, positions: Int64Array) -> Int64Array:
        """Return the first place of each of some positions of the selection; −1 for none."""
        if isinstance(self.plan, AccessPlan | SplicedPlan):
            return self.plan.places_of(positions)
        return self._first_places[positions]

    @cached_property
    def _first_places(self) -> Int64Array:
        """The first place of every position, found by one pass: not all orders have an inverse."""
        first = np.full(self.selection.num_rows, -1, dtype=np.int64)
        begin = self._first_place
        for stop in range(self.plan.num_rows, begin, -SCANNED_ROWS):  # the first is written last
            places = np.arange(max(begin, stop - SCANNED_ROWS), stop)[::-1]
            first[self.plan.at(places)] = places
        return first

    def _refuse_unknown(self, numbers: Int64Array, known: Any) -> None:
        if not known.all():
            row = int(numbers[~known][0])
            raise InvalidInputError(
                f"position_of(): row {row} is not one of the {self.selection.num_rows} rows that"
                " this loader reads\ngive row numbers as in '_row'",
                actual=row,
            )

    @cached_property
    def _listed(self) -> tuple[Int64Array, Int64Array] | None:
        """The selection's places by ascending row, and these rows; None if rows are places."""
        if self.selection.is_whole:
            return None
        count = self.selection.num_rows
        starts = range(0, count, SCANNED_ROWS)
        parts = (np.arange(start, min(start + SCANNED_ROWS, count)) for start in starts)
        if all(np.array_equal(self.selection.row_numbers(part), part) for part in parts):
            return None
        rows = self.selection.row_numbers(np.arange(count))
        ranked = np.argsort(rows, kind="stable")
        return ranked, rows[ranked]


def _integers(values: Any, name: str) -> Int64Array:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} is a list or array of integers, got {shown(values)}", argument=name
        )
    if array.dtype.kind == "u" and int(array.max()) > np.iinfo(np.int64).max:
        raise InvalidInputError(
            f"{name} are integers below 2**63, got {int(array.max())}", argument=name
        )
    return array.astype(np.int64)
