"""Windows of rows that have one value of a column.

Rows of a group are in the order of the selection, whether they are adjacent or not (8 bytes per row
if they are not). A row that several windows of a batch have is read and decoded once.
``axis_windows.py`` and ``part_windows.py`` have windows of the rows' own arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.config.arrangement import AS_GIVEN, Arrangement
from tensorlake.loader.config.column_plan import ROW, VALID, ColumnPlan
from tensorlake.loader.engine.composed.window_items import leave_windows_out, window_items
from tensorlake.loader.engine.composed.window_units import (
    GroupedRows,
    Steps,
    Use,
    WindowUnits,
    members_of,
)
from tensorlake.loader.sources.arrangement import class_numbers
from tensorlake.loader.sources.column_values import column_values
from tensorlake.quantities import plural

if TYPE_CHECKING:
    from tensorlake.loader.engine.composed.rows import ComposedShare
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.arrangement import Items
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["RowWindows"]


@dataclass(frozen=True, slots=True)
class RowWindows:
    """Windows of rows that have one value of a column (``Form``)."""

    by: str
    steps: Steps

    made, noun = "cut into windows", "windows"
    is_flat = False
    place_bits = 0
    joins: frozenset[str] = frozenset()
    is_cut = False

    @property
    def suffix(self) -> str:
        """The end of a state's selection: all that decides which rows a window has."""
        return f"+windows by {self.by} {self.steps}"

    @property
    def extent(self) -> int:
        """Rows of a window, from its first to its last."""
        return self.steps.extent

    def members(self, uses: Use) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return, for each element its window, its row, and 1."""
        return members_of(uses)

    @property
    def growth(self) -> int:
        """The memory of a batch over that of its rows, about."""
        return max(1, self.steps.size // self.steps.step)

    def shown(self, columns: tuple[ColumnPlan, ...]) -> tuple[ColumnPlan, ...]:
        """Describe the entries of a batch of windows."""
        own = [self.steps.shown(one) for one in columns if one.name != ROW]
        return (*own, *self.steps.shown_entries())

    def units(self, rows: SelectedRows, arrangement: Arrangement = AS_GIVEN) -> WindowUnits:
        """Read the column of groups, and number their windows."""
        groups, firsts = class_numbers(column_values(rows, self.by))
        lengths = np.bincount(groups, minlength=len(firsts))
        begins = np.cumsum(lengths) - lengths
        listed = np.argsort(groups, kind="stable")
        is_sorted = bool((np.diff(groups) >= 0).all())
        locate = GroupedRows(self.steps, begins, None if is_sorted else listed)
        of = f"rows by {self.by!r} ({plural(len(lengths), 'group')})"
        return WindowUnits.numbered(rows, arrangement, self.steps, lengths, locate, of)

    def items(self, rows: SelectedRows, units: WindowUnits) -> Items:
        """Return the items of a pass over windows."""
        return window_items(self, rows, units)

    def combine(
        self, share: ComposedShare, batch: Mapping[str, Any], slabs: SlabPool
    ) -> dict[str, Any]:
        """Make the batch of a share's windows from its rows."""
        use: Use = share.uses
        counts = use.counts if self.steps.tail == "keep" else None
        made = {
            name: _windows_of(values, use.rows, counts, slabs)
            for name, values in batch.items()
            if name not in (ROW, VALID)
        }
        made |= {ROW: batch[ROW][use.rows[:, 0]], **self.steps.entries(use)}
        if VALID in batch:
            made[VALID] = np.full(share.units, share.valid > 0)
        return made

    def leave_out(self, share: ComposedShare, batch: dict[str, Any]) -> None:
        """Make holes of the windows that have a row that is left out."""
        leave_windows_out(share, batch)

    def filled(self, share: ComposedShare) -> dict[str, int]:
        """Count nothing: windows have rows, not tokens."""
        del share
        return {}


def _windows_of(values: Any, rows: Int64Array, counts: Int64Array | None, slabs: SlabPool) -> Any:
    """Gather the rows of windows; ``counts`` of each are listed, where these are given."""
    if counts is not None:
        kept = [own[:count] for own, count in zip(rows, counts.tolist(), strict=True)]
        return [_taken(values, own) for own in kept]
    if not isinstance(values, np.ndarray):
        return [_taken(values, own) for own in rows]
    shape = cast("NDArray[Any]", values).shape[1:]
    out = slabs.array((*rows.shape, *shape), values.dtype)
    flat = out.reshape(rows.size, *shape)
    np.take(values, rows.ravel(), axis=0, out=flat, mode="clip")  # without a buffer
    return out


def _taken(values: Any, rows: Int64Array) -> Any:
    return values[rows] if isinstance(values, np.ndarray) else [values[at] for at in rows.tolist()]
