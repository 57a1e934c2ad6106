"""The windows of groups of elements: their numbers, starts and rows.

    group          e0 e1 e2 e3 e4 e5 e6
    size 3 step 2  [e0 e1 e2]
                         [e2 e3 e4]
                               [e4 e5 e6]
                                     [e6 – –]    the tail: dropped, padded, kept, or shifted

A window has the elements start + stride · (0 … size - 1) of its group, and starts are the multiples
of step; a tail that is shifted ends with the group. No window crosses a group. How many windows a
group has follows from its length, so a place of the epoch is found by the running sum of these
numbers: 16 bytes per group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.config.column_plan import ROW, ColumnPlan
from tensorlake.loader.sources.arrangement import Arranger, values_of

if TYPE_CHECKING:
    from tensorlake.loader.config.arrangement import Arrangement
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = [
    "MASK",
    "START",
    "GroupedRows",
    "Steps",
    "Tail",
    "Use",
    "WindowEpoch",
    "WindowSteps",
    "WindowUnits",
    "members_of",
]

Tail: TypeAlias = Literal["drop", "pad", "keep", "shift"]
START, MASK = "_start", "_mask"


@dataclass(frozen=True, slots=True)
class Steps:
    """Which elements windows have.

    Attributes:
        size: Elements of a window.
        stride: Distance of its elements.
        step: Distance of the starts of windows.
        tail: Treatment of windows that extend past the end of their group.
    """

    size: int
    stride: int
    step: int
    tail: Tail

    def __str__(self) -> str:
        return f"{self.size} stride={self.stride} step={self.step} tail={self.tail}"

    @property
    def extent(self) -> int:
        """Elements from the first of a window to its last."""
        return (self.size - 1) * self.stride + 1

    def windows(self, lengths: Int64Array) -> Int64Array:
        """Return the number of windows of groups of some lengths."""
        if self.tail == "drop":
            return np.maximum((lengths - self.extent) // self.step + 1, 0)
        if self.tail == "shift":
            return np.where(lengths < self.extent, 0, -(-(lengths - self.extent) // self.step) + 1)
        return -(-lengths // self.step)

    def starts(self, numbers: Int64Array, lengths: Int64Array) -> Int64Array:
        """Return the first element of windows, by their numbers in groups of some lengths."""
        starts = numbers * self.step
        return np.minimum(starts, lengths - self.extent) if self.tail == "shift" else starts

    def short(self, lengths: Int64Array) -> NDArray[np.bool_]:
        """Return which groups, not empty, are too short for a window that is shifted."""
        return (lengths > 0) & (lengths < self.extent) & (self.tail == "shift")

    def within(self, lengths: Int64Array, starts: Int64Array) -> Int64Array:
        """Return how many elements of each window are within its group."""
        return np.minimum(self.size, -(-(lengths - starts) // self.stride))

    def entries(self, use: Use) -> dict[str, NDArray[Any]]:
        """Return the entries that describe the windows of a batch."""
        if self.tail != "pad":
            return {START: use.starts}
        return {START: use.starts, MASK: np.arange(self.size) < use.counts[:, None]}

    def shown(self, column: ColumnPlan) -> ColumnPlan:
        """Describe the entry of a column of elements."""
        if column.dtype is None:
            return column
        if self.tail == "keep":
            return replace(column, kind="ragged", shape=(None, *column.shape), collate="list")
        return replace(column, shape=(self.size, *column.shape))

    def shown_entries(self) -> tuple[ColumnPlan, ...]:
        """Describe the entries that describe windows."""
        number = np.dtype(np.int64)
        own = [ColumnPlan(name, None, "row", (), number) for name in (ROW, START)]
        if self.tail == "pad":
            own.append(ColumnPlan(MASK, None, "row", (self.size,), np.dtype(np.bool_)))
        return tuple(own)


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """The windows of a share."""

    rows: Int64Array  # of the batch: (windows, size), or (windows,) that have their elements
    starts: Int64Array  # the first element of each in its group; of several axes (windows, axes)
    counts: Int64Array  # elements within the group
    numbers: Int64Array  # of each among those of its group


def members_of(use: Use) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return, for each row of windows its window, its number, and 1."""
    windows = np.arange(len(use.rows)).reshape(-1, *([1] * (use.rows.ndim - 1)))
    rows = use.rows.ravel()
    return np.broadcast_to(windows, use.rows.shape).ravel(), rows, np.ones_like(rows)


class WindowSteps(Protocol):
    """Which elements windows have, along one axis or several: `Steps`, or `Grid`."""

    @property
    def extent(self) -> Any:
        """Elements from the first of a window to its last."""
        ...

    def windows(self, lengths: Int64Array) -> Int64Array:
        """Return the number of windows of groups of some lengths."""
        ...

    def starts(self, numbers: Int64Array, lengths: Int64Array) -> Int64Array:
        """Return the first element of windows, by their numbers in groups of some lengths."""
        ...

    def short(self, lengths: Int64Array) -> NDArray[np.bool_]:
        """Return which groups are too short for a window."""
        ...

    def within(self, lengths: Int64Array, starts: Int64Array) -> Int64Array:
        """Return how many elements of each window are within its group."""
        ...


class Locate(Protocol):
    """Where the rows of windows are, by the windows' groups and starts."""

    def firsts(self, groups: Int64Array, starts: Int64Array) -> Int64Array:
        """Return the position of the row that has the first element of each window."""
        ...

    def __call__(
        self, groups: Int64Array, starts: Int64Array, counts: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return positions, each once, and the windows' rows among these."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class WindowUnits:
    """The windows of a selection, numbered group by group (``Units``)."""

    arranger: Arranger
    steps: WindowSteps
    lengths: Int64Array  # of groups; of several axes (groups, axes)
    firsts: Int64Array  # the first window of each group, and the number of all
    locate: Locate
    of: str  # what has the elements, for ``explain()``

    @classmethod
    def numbered(
        cls,
        rows: SelectedRows,
        arrangement: Arrangement,
        steps: WindowSteps,
        lengths: Int64Array,
        locate: Locate,
        of: str,
    ) -> WindowUnits:
        """Number the windows of groups of some lengths; one has the value of its first row."""
        if (short := steps.short(lengths)).any():
            at = int(np.argmax(short))
            raise InvalidInputError(
                f"{of}: number {at} of the view has {shown(lengths[at].tolist())} elements, and"
                f" windows have {steps.extent}: with tail='shift' they do not fit\ngive tail='pad'"
                " or 'drop', or leave short ones out by a query",
                argument="tail",
            )
        each = steps.windows(lengths)
        firsts = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(each, out=firsts[1:])

        def values() -> NDArray[Any]:
            groups = np.repeat(np.arange(len(each)), each)
            starts = steps.starts(np.arange(len(groups)) - firsts[groups], lengths[groups])
            return values_of(rows, arrangement)[locate.firsts(groups, starts)]

        arranger = Arranger(rows, arrangement, int(firsts[-1]), "window", values)
        return cls(arranger, steps, lengths, firsts, locate, of)

    @property
    def count(self) -> int:
        """Windows of an epoch."""
        return self.arranger.num_places

    def elements(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the group of each of some windows, its start there, and how many elements."""
        groups = np.searchsorted(self.firsts, numbers, "right") - 1
        lengths = self.lengths[groups]
        starts = self.steps.starts(numbers - self.firsts[groups], lengths)
        return groups, starts, self.steps.within(lengths, starts)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> WindowEpoch:
        """Return the windows of one epoch."""
        return WindowEpoch(self, self.arranger.plan(order, seed=seed, epoch=epoch))

    def describe(self, order: AnyOrder) -> str:
        """Describe the windows and their order."""
        ordered = self.arranger.describe(order)
        return f"{self.arranger.count:,} windows of {self.of}: {self.steps}; {ordered}"


@dataclass(frozen=True, slots=True, eq=False)
class WindowEpoch:
    """The windows of one epoch (``EpochUnits``)."""

    windows: WindowUnits
    order: Plan

    def find(self, places: Int64Array) -> tuple[Int64Array, Use]:
        """Return the positions of the rows that some windows need, each once, and their use."""
        own, numbers = self.windows, self.order.at(places)
        groups, starts, counts = own.elements(numbers)
        positions, rows = own.locate(groups, starts, counts)
        return positions, Use(rows, starts, counts, numbers - own.firsts[groups])


@dataclass(frozen=True, slots=True, eq=False)
class GroupedRows:
    """Rows listed group by group."""

    steps: Steps
    begins: Int64Array  # of each group in the list
    listed: Int64Array | None  # positions; None: they are listed in the selection's own order

    def firsts(self, groups: Int64Array, starts: Int64Array) -> Int64Array:
        """Return the position of the first row of each window."""
        places = self.begins[groups] + starts
        return places if self.listed is None else self.listed[places]

    def __call__(
        self, groups: Int64Array, starts: Int64Array, counts: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return positions and the index of each element; those past the end are the last."""
        positions = self.positions(groups, starts, counts)
        unique, rows = np.unique(positions, return_inverse=True)
        return unique, rows.reshape(positions.shape)

    def positions(self, groups: Int64Array, starts: Int64Array, counts: Int64Array) -> Int64Array:
        """Return the positions of the rows of windows, int64 (windows, size)."""
        steps = np.minimum(np.arange(self.steps.size), counts[:, None] - 1)
        places = (self.begins[groups] + starts)[:, None] + steps * self.steps.stride
        return places if self.listed is None else self.listed[places]
