"""Windows of samples in parts: clips of videos, boxes of volumes, regions of arrays in tiles.

    ct (300, 512, 512)   size 96, step 64, "shift"   ─► 5 · 8 · 8 windows
    unit                 a row and the number of one of its windows: the row's place in the plan
    decode               `WindowPart` makes the region of the place; its parts alone are read

A row comes once for each of its windows in a batch, with another part each time; columns without
parts come with each of them. Shapes are known from the headers of chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.arrangement import AS_GIVEN, Arrangement
from tensorlake.loader.config.column_plan import ROW, VALID, ColumnPlan
from tensorlake.loader.decode import WINDOW_BITS, WindowPart, starts_of
from tensorlake.loader.engine.composed.window_items import leave_windows_out, window_items
from tensorlake.loader.engine.composed.window_units import (
    MASK,
    START,
    Steps,
    Use,
    WindowUnits,
    members_of,
)

if TYPE_CHECKING:
    from tensorlake.loader.engine.composed.rows import ComposedShare
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.arrangement import Items
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["Grid", "PartWindows"]

_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class Grid:
    """Windows along one axis or several (``WindowSteps``).

    Attributes:
        axes: The windows along each; all have one tail.
    """

    axes: tuple[Steps, ...]

    def __str__(self) -> str:
        return " x ".join(map(str, self.axes))

    @property
    def tail(self) -> str:
        """Treatment of windows that extend past an end."""
        return self.axes[0].tail

    @property
    def extent(self) -> tuple[int, ...]:
        """Elements from the first of a window to its last, along each axis."""
        return tuple(one.extent for one in self.axes)

    def windows(self, lengths: Int64Array) -> Int64Array:
        """Return the number of windows of samples of some lengths, int64 (samples, axes)."""
        each = [one.windows(own) for one, own in zip(self.axes, lengths.T, strict=True)]
        return np.prod(each, axis=0, dtype=np.int64)

    def starts(self, numbers: Int64Array, lengths: Int64Array) -> Int64Array:
        """Return where windows begin, int64 (windows, axes)."""
        return starts_of(self.axes, numbers, lengths)

    def short(self, lengths: Int64Array) -> NDArray[np.bool_]:
        """Return which samples, not empty, are too short along an axis."""
        each = [one.short(own) for one, own in zip(self.axes, lengths.T, strict=True)]
        return np.any(each, axis=0) & (lengths > 0).all(axis=1)

    def within(self, lengths: Int64Array, starts: Int64Array) -> Int64Array:
        """Return how many elements of each window its sample has, int64 (windows, axes)."""
        triples = zip(self.axes, lengths.T, starts.T, strict=True)
        return np.stack([one.within(own, start) for one, own, start in triples], axis=1)

    def entries(self, use: Use) -> dict[str, NDArray[Any]]:
        """Return the entries that describe the windows of a batch."""
        is_flat = len(self.axes) == 1
        made: dict[str, NDArray[Any]] = {START: use.starts[:, 0] if is_flat else use.starts}
        if self.tail == "pad":
            mask = np.ones((len(use.starts), *(one.size for one in self.axes)), np.bool_)
            for at, one in enumerate(self.axes):
                is_within = np.arange(one.size) < use.counts[:, at, None]
                sides = [1] * len(self.axes)
                sides[at] = one.size
                mask &= is_within.reshape(len(mask), *sides)
            made[MASK] = mask
        return made

    def shown_entries(self) -> tuple[ColumnPlan, ...]:
        """Describe the entries that describe windows."""
        number, count = np.dtype(np.int64), len(self.axes)
        shape = () if count == 1 else (count,)
        own = [
            ColumnPlan(ROW, None, "row", (), number),
            ColumnPlan(START, None, "row", shape, number),
        ]
        if self.tail == "pad":
            sizes = tuple(one.size for one in self.axes)
            own.append(ColumnPlan(MASK, None, "row", sizes, np.dtype(np.bool_)))
        return tuple(own)


@dataclass(frozen=True, slots=True)
class PartWindows:
    """Windows of the samples of columns in parts (``Form``).

    Attributes:
        parts: The columns that are cut, each with whether its samples are videos.
        steps: Which elements windows have.
        shapes: Arrays beside them that are cut too, along their first axis, and the shape of one
            element of each; of windows along one axis.
    """

    parts: Mapping[str, bool]
    steps: Grid
    shapes: Mapping[str, tuple[int, ...]]

    made, noun = "cut into windows", "windows"
    is_flat = False
    place_bits = WINDOW_BITS
    growth = extent = 1
    is_cut = False
    joins: frozenset[str] = frozenset()

    @property
    def suffix(self) -> str:
        """The end of a state's selection: all that decides which elements a window has."""
        return f"+windows of {next(iter(self.parts))} {self.steps}"

    def members(self, uses: Use) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return, for each window its number, its row, and 1."""
        return members_of(uses)

    @property
    def decode(self) -> dict[str, WindowPart]:
        """The step that reads a window, of each column that is cut."""
        axes = self.steps.axes
        return {name: WindowPart(axes, gives_images=own) for name, own in self.parts.items()}

    def shown(self, columns: tuple[ColumnPlan, ...]) -> tuple[ColumnPlan, ...]:
        """Describe the entries of a batch of windows."""
        own = [self._shown(one) for one in columns if one.name != ROW]
        return (*own, *self.steps.shown_entries())

    def _shown(self, column: ColumnPlan) -> ColumnPlan:
        if column.name not in self.shapes:
            return column
        element = replace(column, kind="uniform", shape=self.shapes[column.name], collate=None)
        return self.steps.axes[0].shown(element)

    def units(self, rows: SelectedRows, arrangement: Arrangement = AS_GIVEN) -> WindowUnits:
        """Look the shapes of all samples up, and number their windows.

        Raises:
            InvalidInputError: The samples of a row have different lengths, or are too short.
        """
        first, *others = (*self.parts, *self.shapes)
        lengths = self._lengths(rows, first)
        for name in others:
            own = self._lengths(rows, name)
            different = np.flatnonzero((own != lengths).any(axis=1))
            if len(different):
                at = int(different[0])
                pairs = zip((first, name), (lengths[at], own[at]), strict=True)
                each = " and ".join(f"{one!r} {_described(length)}" for one, length in pairs)
                row = int(rows.selection.row_numbers(different[:1])[0])
                raise InvalidInputError(
                    f"row {row}: {each}, so windows of both do not exist\nleave one out of"
                    " windows(columns=…), or leave the row out by a query",
                    tensor=name,
                )
        return WindowUnits.numbered(
            rows, arrangement, self.steps, lengths, _EachWindow(), f"{first!r}"
        )

    def _lengths(self, rows: SelectedRows, name: str) -> Int64Array:
        """Return the lengths of samples along the axes that are cut; 0 where NULL."""
        selection = rows.selection
        lengths = np.zeros((selection.num_rows, len(self.steps.axes)), np.int64)
        for start in range(0, len(lengths), _ROWS_AT_ONCE):
            positions = np.arange(start, min(start + _ROWS_AT_ONCE, len(lengths)))
            shapes = rows.reader.shapes(name, selection.physical(positions))
            lengths[positions] = np.maximum(shapes[:, : lengths.shape[1]], 0)
        return lengths

    def items(self, rows: SelectedRows, units: WindowUnits) -> Items:
        """Return the items of a pass over windows."""
        return window_items(self, rows, units)

    def combine(
        self, share: ComposedShare, batch: Mapping[str, Any], slabs: SlabPool
    ) -> dict[str, Any]:
        """Return the rows of a batch, each of which has a window, with where these begin."""
        del slabs
        made = {**batch, **self.steps.entries(share.uses)}
        for name in self.shapes:
            made[name] = self._cut(batch[name], share.uses)
        if VALID in batch:
            made[VALID] = np.full(share.units, share.valid > 0)
        return made

    def _cut(self, arrays: Sequence[NDArray[Any]], use: Use) -> Any:
        """Return the windows of arrays, of which each has its row's whole one."""
        (steps,) = self.steps.axes
        starts, counts = use.starts[:, 0].tolist(), use.counts[:, 0].tolist()
        if steps.tail == "keep":
            triples = zip(arrays, starts, counts, strict=True)
            return [own[at : at + n * steps.stride : steps.stride] for own, at, n in triples]
        index = np.minimum(np.arange(steps.size), use.counts - 1) * steps.stride + use.starts
        return np.stack([own[at] for own, at in zip(arrays, index, strict=True)])

    def leave_out(self, share: ComposedShare, batch: dict[str, Any]) -> None:
        """Make holes of the windows that have a row that is left out."""
        leave_windows_out(share, batch)

    def filled(self, share: ComposedShare) -> dict[str, int]:
        """Count nothing: windows have elements, not tokens."""
        del share
        return {}


@dataclass(frozen=True, slots=True)
class _EachWindow:
    """The row of a window comes for it alone."""

    def firsts(self, groups: Int64Array, starts: Int64Array) -> Int64Array:
        """Return the position of each window's row."""
        del starts
        return groups

    def __call__(
        self, groups: Int64Array, starts: Int64Array, counts: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the position of the row of each window."""
        del starts, counts
        return groups, np.arange(len(groups))


def _described(lengths: Int64Array) -> str:
    return f"has the lengths {tuple(lengths.tolist())}" if lengths.all() else "is empty or NULL"
