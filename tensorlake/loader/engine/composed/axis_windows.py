"""Windows of the rows' own arrays, along their first axis: parts of long recordings.

The axis of a row's arrays has one length, known from the headers of chunks. Values without an axis,
such as a label or a text, come once for each window of their row. Elements are copied from their
chunks straight into the batch, as ranges (``stages/sample_ranges.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.loader.config.arrangement import AS_GIVEN, Arrangement
from tensorlake.loader.config.column_plan import ROW, VALID, ColumnPlan
from tensorlake.loader.engine.composed.window_items import leave_windows_out, window_items
from tensorlake.loader.engine.composed.window_units import Steps, Use, WindowUnits, members_of
from tensorlake.loader.sources.column_values import row_lengths
from tensorlake.loader.stages.sample_ranges import SampleRanges

if TYPE_CHECKING:
    from tensorlake.loader.engine.composed.rows import ComposedShare
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.arrangement import Items
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["AxisWindows"]


@dataclass(frozen=True, slots=True)
class AxisWindows:
    """Windows of the arrays of a row (``Form``).

    Attributes:
        shapes: The columns of arrays, and the shape of one element of each.
        steps: Which elements windows have.
    """

    shapes: Mapping[str, tuple[int, ...]]
    steps: Steps

    made, noun = "cut into windows", "windows"
    is_flat = False
    place_bits = 0
    growth = extent = 1
    is_cut = False

    @property
    def suffix(self) -> str:
        """The end of a state's selection: all that decides which elements a window has."""
        return f"+windows of {next(iter(self.shapes))} {self.steps}"

    def members(self, uses: Use) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return, for each window its number, its row, and 1."""
        return members_of(uses)

    @property
    def joins(self) -> frozenset[str]:
        """The columns of which it takes ranges."""
        return frozenset(self.shapes)

    def shown(self, columns: tuple[ColumnPlan, ...]) -> tuple[ColumnPlan, ...]:
        """Describe the entries of a batch of windows."""
        own = [self._shown(one) for one in columns if one.name != ROW]
        return (*own, *self.steps.shown_entries())

    def _shown(self, column: ColumnPlan) -> ColumnPlan:
        if column.name not in self.shapes:
            return column
        shape = self.shapes[column.name]
        return self.steps.shown(replace(column, kind="uniform", shape=shape, collate=None))

    def units(self, rows: SelectedRows, arrangement: Arrangement = AS_GIVEN) -> WindowUnits:
        """Look the lengths of all rows up, and number their windows.

        Raises:
            InvalidInputError: The arrays of a row have different lengths.
        """
        first, *others = self.shapes
        lengths = row_lengths(rows.selection, rows.reader, first)
        for name in others:
            own = row_lengths(rows.selection, rows.reader, name)
            different = np.flatnonzero(own != lengths)
            if len(different):
                at = int(different[0])
                raise InvalidInputError(
                    f"{first!r} and {name!r} have different lengths at place {at} of the view, so"
                    " windows of both do not exist\nleave one out of windows(columns=…), or make"
                    " windows of each",
                    tensor=name,
                )
        return WindowUnits.numbered(rows, arrangement, self.steps, lengths, _ByRow(), f"{first!r}")

    def items(self, rows: SelectedRows, units: WindowUnits) -> Items:
        """Return the items of a pass over windows."""
        return window_items(self, rows, units)

    def combine(
        self, share: ComposedShare, batch: Mapping[str, Any], slabs: SlabPool
    ) -> dict[str, Any]:
        """Make the batch of a share's windows from its rows."""
        use: Use = share.uses
        made: dict[str, Any] = {}
        for name, values in batch.items():
            if isinstance(values, SampleRanges):
                made[name] = self._cut(name, values, use, slabs)
            elif isinstance(values, np.ndarray):
                made[name] = values[use.rows]
            else:
                made[name] = [values[at] for at in use.rows.tolist()]
        made |= self.steps.entries(use)
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

    def _cut(self, name: str, samples: SampleRanges, use: Use, slabs: SlabPool) -> Any:
        """Copy the elements of windows; those past the end are the last one again."""
        shape, steps = self.shapes[name], self.steps
        width = math.prod(shape)
        extents = (use.counts - 1) * steps.stride + 1  # from the first element to the last within
        stops = (use.starts + extents) * width
        if bool((stops > samples.lengths[use.rows]).any()):
            raise CorruptionError(
                f"a chunk of {name!r} has a shorter array than its header lists"
                "\nthe dataset is damaged: run ds.check()",
                tensor=name,
            )
        joined = slabs.array((int(extents.sum()) * width,), samples.dtype)
        samples.join(use.rows, use.starts * width, stops, (), joined)
        elements = joined.reshape(-1, *shape)
        begins = np.cumsum(extents) - extents
        if steps.tail == "keep":
            return [
                elements[begin : begin + extent : steps.stride].copy()
                for begin, extent in zip(begins.tolist(), extents.tolist(), strict=True)
            ]
        if steps.tail in ("drop", "shift"):  # all have one extent
            whole = elements.reshape(len(use.rows), steps.extent, *shape)
            return whole if steps.stride == 1 else np.ascontiguousarray(whole[:, :: steps.stride])
        index = np.minimum(np.arange(steps.size), use.counts[:, None] - 1) * steps.stride
        return elements[begins[:, None] + index]


@dataclass(frozen=True, slots=True)
class _ByRow:
    """The group of a window is its row."""

    def firsts(self, groups: Int64Array, starts: Int64Array) -> Int64Array:
        """Return the position of each window's row."""
        del starts
        return groups

    def __call__(
        self, groups: Int64Array, starts: Int64Array, counts: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the positions of the rows, each once, and the windows' rows among these."""
        del starts, counts
        return np.unique(groups, return_inverse=True)
