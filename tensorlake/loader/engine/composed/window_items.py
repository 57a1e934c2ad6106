"""The rest of an epoch of windows, at a splice.

    rest     windows that have not come, of which no element is gone, as they were
    added    windows of the new rows that have a new element, and have not come

Windows are numbered, and their numbers are spliced as positions of rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.loader.config.column_plan import VALID
from tensorlake.loader.engine.composed.rows import ComposedPlan
from tensorlake.loader.engine.composed.window_changes import Compared, Kept, Windows, compare
from tensorlake.loader.engine.composed.window_units import (
    GroupedRows,
    Use,
    WindowEpoch,
    WindowUnits,
)
from tensorlake.loader.plan.splice import Changes
from tensorlake.loader.sources.arrangement import (
    Given,
    SpliceKey,
    class_numbers,
    edits_of,
    rest_of,
    values_of,
)
from tensorlake.loader.stages.holes import empty_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.engine.composed.rows import ComposedShare, Form
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.passes import PassesPlan
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.splice import Cut
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["WindowItems", "leave_windows_out", "window_items"]

LISTED = 1 << 20


def window_items(form: Form, rows: SelectedRows, units: WindowUnits) -> WindowItems:
    """Return the items of a pass over windows."""
    return WindowItems(form, rows, Windows(units))


def leave_windows_out(share: ComposedShare, batch: dict[str, Any]) -> None:
    """Make holes of the windows of a batch that have a row that is left out."""
    assert share.holes is not None, "asked for then"
    use: Use = share.uses
    of_window = share.holes[use.rows].reshape(share.units, -1)
    is_hole = np.logical_or.reduce(of_window, axis=1)
    empty_units(batch, is_hole)
    batch[VALID] = batch.get(VALID, np.full(share.units, share.valid > 0)) & ~is_hole


@dataclass(frozen=True, eq=False)
class WindowItems:
    """The windows of a selection (``Items``)."""

    form: Form
    rows: SelectedRows
    windows: Windows

    @property
    def length(self) -> int:
        """Windows of a pass."""
        return self.windows.count

    def once(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the order of a pass."""
        return self.windows.units.arranger.once(order, seed=seed, epoch=epoch)

    def rest(self, given: Sequence[Given], cut: Cut, key: SpliceKey) -> tuple[WindowItems, Plan]:
        """Return the windows, with those that are kept, and the order of the rest of a pass."""
        old, plan = given[-1].items, given[-1].plan
        left = _left(plan, cut)
        compared = self._compared(old, lambda numbers: np.isin(numbers, left()))
        items = self
        if len(compared.kept):
            moved = edits_of(self.rows).moved(old.rows.selection, self.rows.selection)
            kept = Kept(old.windows, compared.kept, moved, compared.starts)
            items = replace(self, windows=replace(self.windows, kept=kept))
        changes = Changes(compared.gone, compared.added, compared.moved, compared.back)

        def moved_from(earlier: WindowItems) -> Callable[[Int64Array], Int64Array]:
            return self._compared(earlier, lambda numbers: np.zeros(len(numbers), np.bool_)).moved

        def groups() -> tuple[Int64Array, Int64Array]:
            rest = changes.moved(left())
            return items.grouped(np.union1d(rest[rest >= 0], changes.added))

        return items, rest_of(given, changes, moved_from, groups, cut, key)

    def grouped(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Sort some windows by the group of their first row, and by start; with borders."""
        units, arranger = self.windows.units, self.windows.units.arranger
        if isinstance(units.locate, GroupedRows):
            positions, starts, _ = self.windows.rows(numbers)
            rows = positions[:, 0]
        else:
            groups, starts, _ = units.elements(numbers)
            rows = units.locate.firsts(groups, starts)
        classes, firsts = class_numbers(values_of(self.rows, arranger.arrangement)[rows])
        starts = starts.reshape(len(numbers), -1)[:, 0]
        ranked = np.lexsort((numbers, starts, classes))
        counts = np.bincount(classes, minlength=len(firsts))
        return numbers[ranked], np.concatenate([[0], np.cumsum(counts)])

    def plan(self, passes: PassesPlan, *, is_one: bool) -> ComposedPlan:
        """Return the plan of an epoch from a splice on."""
        order = passes.tail.plan if is_one else passes
        units = WindowEpoch(self.windows.units, order)
        if self.windows.kept is not None:
            units = KeptWindows(self.windows, order)
        return ComposedPlan(self.rows.selection.num_rows, units, self.form)

    def _compared(
        self, old: WindowItems, is_left: Callable[[Int64Array], NDArray[np.bool_]]
    ) -> Compared:
        edits, was, now = edits_of(self.rows), old.rows.selection, self.rows.selection
        return compare(
            old.windows, self.windows, edits.moved(was, now), edits.moved(now, was), is_left
        )


def _left(plan: Plan, cut: Cut) -> Callable[[], Int64Array]:
    """Return a function that lists the windows of a pass that have not come."""
    found: list[Int64Array] = []

    def left() -> Int64Array:
        if not found:
            starts = range(cut.place, plan.num_rows, LISTED)
            parts = (np.arange(one, min(one + LISTED, plan.num_rows)) for one in starts)
            found.append(np.concatenate([np.zeros(0, np.int64), *map(plan.at, parts)]))
        return found[0]

    return left


@dataclass(frozen=True, slots=True, eq=False)
class KeptWindows:
    """The windows of an epoch from a splice on, some of which are kept (``EpochUnits``)."""

    windows: Windows
    order: Plan

    def find(self, places: Int64Array) -> tuple[Int64Array, Use]:
        """Return the positions of the rows that some windows need, each once, and their use."""
        numbers = self.order.at(places)
        positions, starts, counts = self.windows.rows(numbers)
        unique, rows = np.unique(positions, return_inverse=True)
        return unique, Use(rows.reshape(positions.shape), starts, counts, numbers)
