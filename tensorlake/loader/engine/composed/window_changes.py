"""How the windows of two versions differ.

    of rows              a window is the same if it has the same rows, in one group
    of rows' own arrays  if it is of the same row, with as many elements from the same start

Groups, or rows, that are as they were keep all windows, by arithmetic; of the others each window is
looked at. A window of rows that are all there, but which is none of the new ones (rows before it
are gone, and the new ones start elsewhere), is *kept*: it comes as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.loader.engine.composed.window_units import GroupedRows, WindowUnits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.plan.selection import Int64Array

__all__ = ["Images", "Kept", "Windows", "compare"]

GONE, KEPT = -1, -2
ELEMENTS = 1 << 20  # of windows that are looked at together
Moved = Callable[["Int64Array"], "Int64Array"]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows of a selection, and those that were kept of the one before, numbered after them.

    Attributes:
        units: Those of the selection.
        kept: Windows that are none of these; None: there are none.
    """

    units: WindowUnits
    kept: Kept | None = None

    @property
    def count(self) -> int:
        """Number of windows of the selection."""
        return int(self.units.firsts[-1])

    @property
    def located(self) -> GroupedRows:
        """Where the rows of windows are."""
        assert isinstance(self.units.locate, GroupedRows), "of rows"
        return self.units.locate

    def rows(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return rows of windows by position, int64 (windows, size), with starts and counts."""
        at = np.flatnonzero(numbers >= self.count)
        own = numbers.copy()
        own[at] = 0
        if len(at) == len(numbers):
            starts, counts = np.zeros_like(numbers), np.zeros_like(numbers)
            positions = np.zeros((len(numbers), self.located.steps.size), np.int64)
        else:
            groups, starts, counts = self.units.elements(own)
            positions = self.located.positions(groups, starts, counts)
        if len(at):
            assert self.kept is not None, "numbered here"
            positions[at], starts[at], counts[at] = self.kept.rows(numbers[at] - self.count)
        return positions, starts, counts


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Windows of the selection before that come as they were.

    Attributes:
        windows: The windows before.
        numbers: Which of them.
        moved: Returns the positions that their rows have now.
        starts: Where the first row of each is now in its group.
    """

    windows: Windows
    numbers: Int64Array
    moved: Moved
    starts: Int64Array

    def rows(self, which: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the rows of some of them by their positions now, with starts and counts."""
        positions, _, counts = self.windows.rows(self.numbers[which])
        return self.moved(positions.ravel()).reshape(positions.shape), self.starts[which], counts


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images of windows among those of another version.

    Attributes:
        firsts: The first window of each group, and the number of all.
        first_images: The image of that, of a group that is as it was; −1 of others.
        listed: Windows of other groups, ascending; those that were kept too.
        images: The image of each of them; −1 for none.
    """

    firsts: Int64Array
    first_images: Int64Array
    listed: Int64Array
    images: Int64Array

    def __call__(self, numbers: Int64Array) -> Int64Array:
        """Return the images of some windows; −1 for none."""
        found = np.full_like(numbers, GONE)
        if len(self.first_images):
            groups = np.searchsorted(self.firsts, numbers, "right") - 1
            groups = np.minimum(groups, len(self.first_images) - 1)
            first = self.first_images[groups]
            is_as_it_was = (first >= 0) & (numbers < self.firsts[-1])
            found[is_as_it_was] = (first + numbers - self.firsts[groups])[is_as_it_was]
        if len(self.listed):
            at = np.minimum(np.searchsorted(self.listed, numbers), len(self.listed) - 1)
            is_listed = self.listed[at] == numbers
            found[is_listed] = self.images[at[is_listed]]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The windows of two versions, compared.

    Attributes:
        moved: The images of old windows among the new ones and those that are kept.
        back: The reverse.
        added: New windows that come, ascending.
        kept: Old windows that are kept.
        starts: Where the first row of each of them is now in its group.
    """

    moved: Images
    back: Images
    added: Int64Array
    kept: Int64Array
    starts: Int64Array

    @property
    def gone(self) -> Int64Array:
        """Old windows that are neither there nor kept, ascending."""
        return self.moved.listed[self.moved.images == GONE]


def compare(
    old: Windows,
    new: Windows,
    there: Moved,
    back: Moved,
    is_left: Callable[[Int64Array], NDArray[np.bool_]],
) -> Compared:
    """Compare the windows of two versions.

    Args:
        old: Those before.
        new: Those now, none of which is kept.
        there: Returns the new positions of rows at old ones; −1 for none.
        back: The reverse.
        is_left: Returns which old windows have not been given; others are not kept.
    """
    is_of_rows = isinstance(new.units.locate, GroupedRows)
    find = _by_rows if is_of_rows else _by_start
    found = find(old, new, there, back)
    groups, listed, images = found.groups, found.listed, found.images
    kept = np.flatnonzero(images == KEPT)
    kept = kept[is_left(listed[kept])] if len(kept) else kept
    images = np.where(images == KEPT, GONE, images)
    images[kept] = new.count + np.arange(len(kept))
    is_there = np.flatnonzero(images >= 0)
    ranked = is_there[np.argsort(images[is_there])]
    firsts = np.where(groups >= 0, new.units.firsts[groups], GONE)
    returned = np.full(len(new.units.firsts) - 1, GONE)
    same = np.flatnonzero(groups >= 0)
    returned[groups[same]] = old.units.firsts[same]
    return Compared(
        Images(old.units.firsts, firsts, listed, images),
        Images(new.units.firsts, returned, images[ranked], listed[ranked]),
        found.added,
        listed[kept],
        found.starts[kept],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Matched:
    """Old windows, matched with new ones."""

    groups: Int64Array  # by old group, the new one that has the same rows; −1 for none
    listed: Int64Array  # old windows of other groups
    images: Int64Array  # of each of them
    added: Int64Array  # new windows that come
    starts: Int64Array  # of the listed ones in their new groups


def _by_rows(old: Windows, new: Windows, there: Moved, back: Moved) -> _Matched:
    """Compare windows of rows by their rows."""
    before, now = _Placed.of(old.units), _Placed.of(new.units)
    moved = there(before.listed)
    begins = before.begins
    groups = now.group[moved[begins]]
    is_same = now.group[moved] == np.repeat(groups, before.lengths)
    is_same &= (moved >= 0) & (now.index[moved] == before.index[before.listed])
    if len(begins):
        is_same = np.logical_and.reduceat(is_same, begins)
        is_same &= np.append(now.lengths, -1)[groups] == before.lengths
    groups = np.where(is_same, groups, GONE)
    kept = np.arange(0 if old.kept is None else len(old.kept.numbers)) + old.count
    listed = np.concatenate([_windows_of(old.units, np.flatnonzero(groups < 0)), kept])
    is_other = np.ones(len(now.lengths), np.bool_)
    is_other[groups[groups >= 0]] = False
    others = _windows_of(new.units, np.flatnonzero(is_other))
    images, starts = np.full_like(listed, GONE), np.zeros_like(listed)
    size = old.located.steps.size
    within = np.arange(size)
    for part in _parts(len(listed), size):
        rows, _, counts = old.rows(listed[part])
        rows = there(rows.ravel()).reshape(rows.shape)
        of = now.group[rows]
        is_whole = (rows >= 0).all(axis=1) & (of == of[:, :1]).all(axis=1)
        starts[part] = now.index[rows[:, 0]]
        found = _with_start(new.units, of[:, 0], starts[part])
        own, _, lengths = new.rows(np.maximum(found, 0)) if new.count else (rows, counts, counts)
        is_alike = ((own == rows) | (within >= counts[:, None])).all(axis=1)
        is_alike &= is_whole & (found >= 0) & (lengths >= counts)  # a short one may be longer now
        images[part] = np.where(is_whole & ~is_alike, KEPT, GONE)
        images[part] = np.where(is_alike & (lengths == counts), found, images[part])
    added = ~np.isin(others, images)
    for part in _parts(len(others), size):
        rows, _, _ = new.rows(others[part])
        rows = back(rows.ravel()).reshape(rows.shape)
        of = before.group[rows]
        added[part] &= (rows < 0).any(axis=1) | (of != of[:, :1]).any(axis=1)
    return _Matched(groups, listed, images, others[added], starts)


def _by_start(old: Windows, new: Windows, there: Moved, back: Moved) -> _Matched:
    """Compare windows of rows' own arrays by row, start and elements."""
    del back
    lengths, now = (one.units.lengths.reshape(len(one.units.lengths), -1) for one in (old, new))
    rows = there(np.arange(len(lengths)))
    is_same = rows >= 0
    is_same[is_same] = (now[rows[is_same]] == lengths[is_same]).all(axis=1)
    groups = np.where(is_same, rows, GONE)
    listed = _windows_of(old.units, np.flatnonzero(groups < 0))
    is_other = np.ones(len(now), np.bool_)
    is_other[groups[groups >= 0]] = False
    others = _windows_of(new.units, np.flatnonzero(is_other))
    keys = _keys(old.units, listed, rows)
    new_keys = _keys(new.units, others, np.arange(len(now)))
    _, numbers = np.unique(np.concatenate([keys, new_keys]), axis=0, return_inverse=True)
    numbers = numbers.ravel()
    by_key = np.full(len(numbers), GONE)
    by_key[numbers[len(listed) :]] = others
    images = by_key[numbers[: len(listed)]]
    added = others[~np.isin(others, images)]
    return _Matched(groups, listed, images, added, np.zeros_like(listed))


def _keys(units: WindowUnits, numbers: Int64Array, rows: Int64Array) -> Int64Array:
    """Return row, start and elements of some windows, by the rows of their groups."""
    groups, starts, counts = units.elements(numbers)
    return np.column_stack([rows[groups], starts, counts])


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """The rows of a selection by group; arrays by position end with −1, for no position."""

    listed: Int64Array  # positions, group by group
    begins: Int64Array  # of groups in them
    lengths: Int64Array
    group: Int64Array  # by position
    index: Int64Array  # in the group

    @classmethod
    def of(cls, units: WindowUnits) -> _Placed:
        """Find the group of each row."""
        located, lengths = units.locate, units.lengths
        assert isinstance(located, GroupedRows), "of rows"
        count = int(lengths.sum())
        listed = np.arange(count) if located.listed is None else located.listed
        group, index = (np.full(count + 1, GONE) for _ in range(2))
        group[listed] = np.repeat(np.arange(len(lengths)), lengths)
        index[listed] = np.arange(count) - np.repeat(located.begins, lengths)
        return cls(listed, located.begins, lengths, group, index)


def _windows_of(units: WindowUnits, groups: Int64Array) -> Int64Array:
    """Return the windows of some groups, ascending."""
    firsts, counts = units.firsts[groups], np.diff(units.firsts)[groups]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(firsts, counts) + within


def _with_start(units: WindowUnits, groups: Int64Array, starts: Int64Array) -> Int64Array:
    """Return the window of each group that has a start; −1 for none."""
    step = units.steps
    assert isinstance(units.locate, GroupedRows), "of rows"
    each = np.append(np.diff(units.firsts), 0)[groups]
    lengths = np.append(units.lengths, 0)[groups]
    numbers = np.where(starts % units.locate.steps.step == 0, starts // units.locate.steps.step, -1)
    numbers = np.where((numbers < 0) | (numbers >= each), each - 1, numbers)  # the last is shifted
    is_there = (numbers >= 0) & (step.starts(numbers, lengths) == starts)
    return np.where(is_there, np.append(units.firsts[:-1], 0)[groups] + numbers, GONE)


def _parts(count: int, size: int) -> Iterator[slice]:
    """Divide windows of some size into parts that are looked at together."""
    each = max(1, ELEMENTS // size)
    return (slice(start, min(start + each, count)) for start in range(0, count, each))
