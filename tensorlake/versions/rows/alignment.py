"""Rows of several versions matched by row id, in ranges: never one number per row.

Each branch has its own axis of physical rows; the rows that two of them share are found by
comparing the runs of their row ids (``shared_rows``). A bulk append is one run, so a billion rows
are compared by a few numbers, and the cost of merges and diffs depends on the changes.

    base axis   0 ─────────── 800 ── 1000          runs (T1, 0…800) (T2, 0…200)
    theirs      0 ─────────── 800 ────── 1050      runs (T1, 0…800) (T3, 0…250)
    shared      at 0, other 0, count 800

``Matched`` adds the two sides of a comparison to their common axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tensorlake.format import Extents, PackId, RowIdRuns, RowSegments
from tensorlake.versions.rows.ranges import Ranges, no_ranges, union

__all__ = [
    "Matched",
    "SharedRows",
    "Shown",
    "differing_places",
    "kept_in_order",
    "match",
    "ranges_between",
    "shared_rows",
    "subtract",
    "windows",
]

Int64Array = npt.NDArray[np.int64]

OFFSET_BITS = 40
"""A row id as one number: the transaction's ordinal above 2^40 rows of one transaction."""


def ranges_between(starts: Int64Array, stops: Int64Array) -> Ranges:
    """Make a set of sorted, disjoint [start, stop)."""
    return np.stack((starts, stops), axis=1)


def subtract(a: Ranges, b: Ranges) -> Ranges:
    """Return the rows of a set that another lacks.

    >>> subtract(np.array([[0, 9]]), np.array([[2, 4], [6, 7]])).tolist()
    [[0, 2], [4, 6], [7, 9]]
    """
    if len(a) == 0 or len(b) == 0:
        return a
    gaps = np.empty((len(b) + 1, 2), dtype=np.int64)
    gaps[0, 0], gaps[-1, 1] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    gaps[1:, 0], gaps[:-1, 1] = b[:, 1], b[:, 0]
    _, _, starts, stops = _overlaps(a[:, 0], a[:, 1], gaps)
    return ranges_between(starts, stops)


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Ranges that two axes share: rows ``at + i`` of one are rows ``other + i`` of the other.

    Sorted by ``at``; a row occurs once on either axis.
    """

    at: Int64Array
    other: Int64Array
    count: Int64Array

    @classmethod
    def identity(cls, rows: int) -> Self:
        """Match an axis with itself."""
        length = np.array([rows] if rows else [], dtype=np.int64)
        return cls(np.zeros_like(length), np.zeros_like(length), length)

    @property
    def ranges(self) -> Ranges:
        """The rows of the first axis that the other also has."""
        return union([ranges_between(self.at, self.at + self.count)])

    @property
    def other_ranges(self) -> Ranges:
        """The same rows, on the other axis."""
        return union([ranges_between(self.other, self.other + self.count)])

    def swapped(self) -> Self:
        """Return the same ranges with the two axes swapped."""
        order = np.argsort(self.other, kind="stable")
        return type(self)(self.other[order], self.at[order], self.count[order])

    def within(self, ranges: Ranges) -> Self:
        """Select some rows of the first axis."""
        which, _, starts, stops = _overlaps(self.at, self.at + self.count, ranges)
        return type(self)(starts, self.other[which] + starts - self.at[which], stops - starts)

    def within_other(self, ranges: Ranges) -> Self:
        """Select some rows of the other axis."""
        return self.swapped().within(ranges).swapped()

    def along(self, starts: Int64Array, stops: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Map ranges of the first axis, in any order, to the other axis, in that order."""
        ranges = ranges_between(self.at, self.at + self.count)
        _, piece, begin, end = _overlaps(starts, stops, ranges)
        there = self.other[piece] + begin - self.at[piece]
        return there, there + end - begin

    def images(self, ranges: Ranges) -> Ranges:
        """Map some rows of the first axis to the other axis."""
        return self.within(ranges).other_ranges


def kept_in_order(
    starts: Int64Array, stops: Int64Array, ranges: Ranges
) -> tuple[Int64Array, Int64Array]:
    """Intersect ranges, in any order, with a set; their order is kept."""
    _, _, begin, end = _overlaps(starts, stops, ranges)
    return begin, end


def shared_rows(one: RowIdRuns, other: RowIdRuns) -> SharedRows:
    """Match the physical rows of two axes that have the same row id; dead rows have none."""
    ordinals: dict[tuple[int, int], int] = {}
    starts, keys, counts = _keyed(one, ordinals)
    other_starts, other_keys, other_counts = _keyed(other, ordinals)
    order = np.argsort(other_keys, kind="stable")
    ranges = ranges_between(other_keys[order], (other_keys + other_counts)[order])
    which, there, begin, end = _overlaps(keys, keys + counts, ranges)
    at = starts[which] + begin - keys[which]
    shared = SharedRows(at, other_starts[order][there] + begin - ranges[there, 0], end - begin)
    by_row = np.argsort(at, kind="stable")
    return SharedRows(shared.at[by_row], shared.other[by_row], shared.count[by_row])


def _keyed(
    runs: RowIdRuns, ordinals: dict[tuple[int, int], int]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (first physical row, first id as a number, rows) of the live runs."""
    pairs = list(zip(runs.txid_high.tolist(), runs.txid_low.tolist(), strict=True))
    alive = np.array([pair != (0, 0) for pair in pairs], dtype=np.bool_) & (runs.rows > 0)
    ordinal = np.array([ordinals.setdefault(pair, len(ordinals)) for pair in pairs], dtype=np.int64)
    counts = runs.rows.astype(np.int64)
    keys = (ordinal << OFFSET_BITS) | runs.offset.astype(np.int64)
    return (runs.stops - counts)[alive], keys[alive], counts[alive]


class Shown:
    """The physical rows that a version shows, in its order, as ranges."""

    def __init__(self, segments: RowSegments) -> None:
        self.starts, self.stops = segments.to_ranges()
        order = np.argsort(self.starts, kind="stable")
        self._sorted = ranges_between(self.starts[order], self.stops[order])
        ends = np.cumsum(self.stops - self.starts)
        self._positions = (ends - (self.stops - self.starts))[order]

    @property
    def ranges(self) -> Ranges:
        """The rows shown, sorted."""
        return union([self._sorted]) if len(self._sorted) else no_ranges()

    def in_order(self, ranges: Ranges) -> tuple[Int64Array, Int64Array]:
        """Return the starts and stops of the shown ones of some rows, in the version's order."""
        return kept_in_order(self.starts, self.stops, ranges)

    def keeps_order(self, shared: SharedRows, other: Shown) -> bool:
        """Return whether the rows shared with another version have the same order there.

        Args:
            shared: From this axis to the other's; all of its rows are shown by both.
            other: The shown rows of the other version.
        """
        along = ranges_between(shared.at, shared.at + shared.count)
        _, piece, starts, stops = _overlaps(self.starts, self.stops, along)
        there = shared.other[piece] + starts - shared.at[piece]
        which, run, begin, end = _overlaps(there, there + stops - starts, other._sorted)
        del which
        position = other._positions[run] + begin - other._sorted[run, 0]
        return bool(np.all(position[1:] >= (position + end - begin)[:-1]))


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Rows of an axis, and their places on the axes of two compared versions."""

    at: Int64Array
    one: Int64Array
    other: Int64Array
    count: Int64Array

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join several, sorted by the rows of the first version."""
        none = np.empty(0, dtype=np.int64)
        at, one, other, count = (
            np.concatenate([none, *(getattr(part, name) for part in parts)])
            for name in ("at", "one", "other", "count")
        )
        order = np.argsort(one, kind="stable")
        return cls(at[order], one[order], other[order], count[order])

    @property
    def ranges(self) -> Ranges:
        """The rows, on the common axis."""
        return union([ranges_between(self.at, self.at + self.count)])

    @property
    def of_one(self) -> Ranges:
        """The rows, on the axis of the first version."""
        return union([ranges_between(self.one, self.one + self.count)])

    @property
    def of_other(self) -> Ranges:
        """The rows, on the axis of the second version."""
        return union([ranges_between(self.other, self.other + self.count)])

    def chosen(self, is_chosen: npt.NDArray[np.bool_]) -> Self:
        """Select some ranges."""
        return type(self)(
            *(part[is_chosen] for part in (self.at, self.one, self.other, self.count))
        )

    def within(self, ranges: Ranges) -> Self:
        """Select some rows of the axis."""
        which, _, starts, stops = _overlaps(self.at, self.at + self.count, ranges)
        return self.taken(which, starts - self.at[which], stops - starts)

    def within_one(self, ranges: Ranges) -> Self:
        """Select some rows of the first version."""
        which, _, starts, stops = _overlaps(self.one, self.one + self.count, ranges)
        return self.taken(which, starts - self.one[which], stops - starts)

    def rows(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the number of each row on the axis and on the two others."""
        ends = np.cumsum(self.count)
        total = int(ends[-1]) if len(ends) else 0
        along = np.arange(total) - np.repeat(ends - self.count, self.count)
        return (
            np.repeat(self.at, self.count) + along,
            np.repeat(self.one, self.count) + along,
            np.repeat(self.other, self.count) + along,
        )

    def taken(self, which: Int64Array, ahead: Int64Array, count: Int64Array) -> Self:
        """Return parts of some ranges: ``count`` rows each, ``ahead`` rows after the beginning."""
        at, one, other = (column[which] + ahead for column in (self.at, self.one, self.other))
        return type(self)(at, one, other, count)

    def cut_by(self, one: Extents, other: Extents) -> tuple[Self, Int64Array, Int64Array]:
        """Cut the ranges where an extent of either begins; return the pieces with their extents."""
        which, of_one, starts, stops = _overlaps(self.one, self.one + self.count, _spans(one))
        first = self.taken(which, starts - self.one[which], stops - starts)
        which, of_other, starts, stops = _overlaps(
            first.other, first.other + first.count, _spans(other)
        )
        second = first.taken(which, starts - first.other[which], stops - starts)
        return second, of_one[which], of_other


def match(one: SharedRows, other: SharedRows) -> Matched:
    """Join two matches on the same axis: the rows that all three have."""
    ranges = ranges_between(other.at, other.at + other.count)
    which, there, starts, stops = _overlaps(one.at, one.at + one.count, ranges)
    return Matched(
        starts,
        one.other[which] + starts - one.at[which],
        other.other[there] + starts - other.at[there],
        stops - starts,
    )


def differing_places(
    matched: Matched,
    one: Extents,
    other: Extents,
    *,
    numbers: Int64Array | None = None,
    same_fill: bool = True,
) -> Ranges:
    """Return rows whose samples are stored in different places, so that their values may differ.

    Args:
        matched: The rows compared.
        one: Index of the tensor on the first side.
        other: And on the second.
        numbers: The ``read_as`` of the second side for each of the first; None: the same.
        same_fill: Whether a fill has the same value on both.
    """
    pieces, of_one, of_other = matched.cut_by(one, other)
    packs: dict[PackId, int] = {}
    left = _places(one, of_one, pieces.one, packs, numbers)
    right = _places(other, of_other, pieces.other, packs, None)
    differs = np.any(left != right, axis=0)
    if not same_fill:
        differs |= (one.nbytes[of_one] == 0) | (other.nbytes[of_other] == 0)
    return union([ranges_between(pieces.at, pieces.at + pieces.count)[differs]])


def _places(
    extents: Extents,
    entry: Int64Array,
    rows: Int64Array,
    packs: dict[PackId, int],
    numbers: Int64Array | None,
) -> npt.NDArray[Any]:
    """Return (pack, offset, row in the chunk, read_as) of the first row of each piece."""
    known = [packs.setdefault(pack, len(packs)) for pack in extents.packs]
    pack = np.array([*known, -1], dtype=np.int64)[
        np.minimum(extents.pack[entry], len(extents.packs))
    ]
    starts = extents.stops - extents.rows.astype(np.int64)
    in_chunk = extents.skip[entry].astype(np.int64) + rows - starts[entry]
    read_as = extents.read_as[entry].astype(np.int64)
    has_bytes = extents.nbytes[entry] > 0
    return np.stack(
        (
            pack,
            extents.offset[entry].astype(np.int64),
            np.where(has_bytes, in_chunk, extents.kind[entry].astype(np.int64)),
            np.where(has_bytes, read_as if numbers is None else numbers[read_as], 0),
        )
    )


def windows(extents: Extents, starts: Int64Array, stops: Int64Array) -> Extents:
    """Cut ranges of rows out of an index and concatenate them in this order."""
    _, entry, begin, end = _overlaps(starts, stops, _spans(extents))
    part = extents.take(entry)
    first, last = _spans(extents)[entry].T
    return replace(
        part,
        rows=(end - begin).astype(np.uint32),
        skip=(part.skip.astype(np.int64) + begin - first).astype(np.uint32),
        units=part.units.keep((begin == first) & (end == last)),
    ).united()


def _spans(extents: Extents) -> Ranges:
    return ranges_between(extents.stops - extents.rows.astype(np.int64), extents.stops)


def _overlaps(
    starts: Int64Array, stops: Int64Array, ranges: Ranges
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Cut intervals (any order) by sorted, disjoint ranges.

    Returns:
        For each piece, in the intervals' order: the interval, the range, its start and stop.
    """
    first = np.searchsorted(ranges[:, 1], starts, side="right")
    last = np.searchsorted(ranges[:, 0], stops, side="left")
    counts = np.maximum(last - first, 0)
    which = np.repeat(np.arange(len(starts)), counts)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    there = np.arange(total) + np.repeat(first - (ends - counts), counts)
    begin = np.maximum(starts[which], ranges[there, 0])
    end = np.minimum(stops[which], ranges[there, 1])
    return which, there, begin, end
