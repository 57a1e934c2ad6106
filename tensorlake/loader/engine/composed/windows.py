"""Windows: elements at equal distances, of groups of rows or of the rows' own arrays.

    group          e0 e1 e2 e3 e4 e5 e6
    size 3 step 2  [e0 e1 e2]
                         [e2 e3 e4]
                               [e4 e5 e6]
                                     [e6 – –]    the tail: dropped, padded or kept

A window has the elements start + stride · (0 … size - 1) of its group, and starts are the multiples
of step. No window crosses a group. How many windows a group has follows from its length, so a place
of the epoch is found by the running sum of these numbers: 16 bytes per group.

``RowWindows`` has groups of rows with one value of a column, in the order of the selection, whether
they are adjacent or not (8 bytes per row if they are not). A row that several windows of a batch
have is read and decoded once. ``axis_windows.py`` has the other kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.config.arrangement import AS_GIVEN, Arrangement
from tensorlake.loader.config.column_plan import ROW, VALID, ColumnPlan
from tensorlake.loader.sources.arrangement import Arranger, class_numbers, values_of
from tensorlake.loader.sources.column_values import column_values
from tensorlake.quantities import plural

if TYPE_CHECKING:
    from tensorlake.loader.engine.composed.rows import ComposedShare
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["MASK", "START", "RowWindows", "Steps", "Tail", "Use", "WindowUnits"]

Tail: TypeAlias = Literal["drop", "pad", "keep"]
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
        return -(-lengths // self.step)

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
    starts: Int64Array  # the first element of each in its group
    counts: Int64Array  # elements within the group


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
    steps: Steps
    lengths: Int64Array  # of groups
    firsts: Int64Array  # the first window of each group, and the number of all
    locate: Locate
    of: str  # what has the elements, for ``explain()``

    @classmethod
    def numbered(
        cls,
        rows: SelectedRows,
        arrangement: Arrangement,
        steps: Steps,
        lengths: Int64Array,
        locate: Locate,
        of: str,
    ) -> WindowUnits:
        """Number the windows of groups of some lengths; one has the value of its first row."""
        each = steps.windows(lengths)
        firsts = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(each, out=firsts[1:])

        def values() -> NDArray[Any]:
            groups = np.repeat(np.arange(len(each)), each)
            starts = (np.arange(len(groups)) - firsts[groups]) * steps.step
            return values_of(rows, arrangement)[locate.firsts(groups, starts)]

        arranger = Arranger(rows, arrangement, int(firsts[-1]), "window", values)
        return cls(arranger, steps, lengths, firsts, locate, of)

    @property
    def count(self) -> int:
        """Windows of an epoch."""
        return self.arranger.num_places

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
        own = self.windows
        numbers = self.order.at(places)
        groups = np.searchsorted(own.firsts, numbers, "right") - 1
        starts = (numbers - own.firsts[groups]) * own.steps.step
        counts = own.steps.within(own.lengths[groups], starts)
        positions, rows = own.locate(groups, starts, counts)
        return positions, Use(rows, starts, counts)


@dataclass(frozen=True, slots=True)
class RowWindows:
    """Windows of rows that have one value of a column (``Form``)."""

    by: str
    steps: Steps

    made, noun = "cut into windows", "windows"
    is_flat = False
    joins: frozenset[str] = frozenset()

    @property
    def suffix(self) -> str:
        """The end of a state's selection: all that decides which rows a window has."""
        return f"+windows by {self.by} {self.steps}"

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
        locate = _Grouped(self.steps, begins, None if is_sorted else listed)
        of = f"rows by {self.by!r} ({plural(len(lengths), 'group')})"
        return WindowUnits.numbered(rows, arrangement, self.steps, lengths, locate, of)

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

    def filled(self, share: ComposedShare) -> dict[str, int]:
        """Count nothing: windows have rows, not tokens."""
        del share
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class _Grouped:
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
        steps = np.minimum(np.arange(self.steps.size), counts[:, None] - 1)
        places = (self.begins[groups] + starts)[:, None] + steps * self.steps.stride
        positions = places if self.listed is None else self.listed[places]
        unique, rows = np.unique(positions, return_inverse=True)
        return unique, rows.reshape(positions.shape)


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
