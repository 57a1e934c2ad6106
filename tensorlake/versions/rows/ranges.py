"""Sets of rows as sorted, disjoint half-open ranges: arrays of shape (k, 2), int64.

Changes are stored in this form: a relabelled block of a million rows is one range.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChangedRows

__all__ = [
    "Ranges",
    "clip",
    "distinct",
    "intersect",
    "known_ranges",
    "known_union",
    "no_ranges",
    "ranges_of",
    "rows_in",
    "union",
]

Ranges = npt.NDArray[np.int64]


def no_ranges() -> Ranges:
    """Make the empty set."""
    return np.empty((0, 2), dtype=np.int64)


def ranges_of(rows: npt.NDArray[np.int64]) -> Ranges:
    """Group rows (any order, repeats allowed) into ranges.

    >>> ranges_of(np.array([7, 3, 4, 5])).tolist()
    [[3, 6], [7, 8]]
    """
    if len(rows) == 0:
        return no_ranges()
    rows = distinct(rows)
    breaks = np.flatnonzero(np.diff(rows) != 1)
    starts = rows[np.concatenate(([0], breaks + 1))]
    stops = rows[np.concatenate((breaks, [len(rows) - 1]))] + 1
    return np.stack((starts, stops), axis=1)


def distinct(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sort rows and drop repeats; rows already sorted and distinct, the usual case, cost one check.

    >>> distinct(np.array([7, 3, 7])).tolist()
    [3, 7]
    """
    if bool(np.all(rows[1:] > rows[:-1])):
        return rows
    rows = np.sort(rows)  # np.unique hashes: ten times slower on a million rows
    return rows[np.concatenate(([True], rows[1:] != rows[:-1]))]


def known_ranges(recorded: ChangedRows) -> Ranges | None:
    """Return rows as a log records them; None if it records only that they are many."""
    return None if recorded == "many" else np.array(recorded, np.int64).reshape(-1, 2)


def known_union(recorded: Iterable[ChangedRows]) -> Ranges | None:
    """Unite sets of rows that a log records; None if one is recorded only as "many"."""
    known = [known_ranges(rows) for rows in recorded]
    found = [ranges for ranges in known if ranges is not None]
    return union(found) if len(found) == len(known) else None


def rows_in(ranges: Ranges) -> npt.NDArray[np.int64]:
    """List the rows of ranges, in order."""
    if len(ranges) == 0:
        return np.empty(0, dtype=np.int64)
    lengths = ranges[:, 1] - ranges[:, 0]
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1])) + np.repeat(ranges[:, 0] - (ends - lengths), lengths)


def union(sets: Iterable[Ranges]) -> Ranges:
    """Unite sets; ranges that touch become one."""
    parts = [part for part in sets if len(part)]
    if not parts:
        return no_ranges()
    ranges = np.concatenate(parts)
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ranges[:, 1])
    is_first = np.concatenate(([True], ranges[1:, 0] > reach[:-1]))
    firsts = np.flatnonzero(is_first)
    lasts = np.concatenate((firsts[1:], [len(ranges)])) - 1
    return np.stack((ranges[firsts, 0], reach[lasts]), axis=1)


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """Return the rows in both sets.

    >>> intersect(np.array([[0, 5], [8, 9]]), np.array([[3, 9]])).tolist()
    [[3, 5], [8, 9]]
    """
    if len(a) == 0 or len(b) == 0:
        return no_ranges()
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    stop = np.searchsorted(b[:, 0], a[:, 1], side="left")
    counts = np.maximum(stop - first, 0)
    of_a = np.repeat(np.arange(len(a)), counts)
    ends = np.cumsum(counts)
    of_b = np.arange(int(ends[-1])) + np.repeat(first - (ends - counts), counts)
    starts = np.maximum(a[of_a, 0], b[of_b, 0])
    stops = np.minimum(a[of_a, 1], b[of_b, 1])
    return np.stack((starts, stops), axis=1)


def clip(ranges: Ranges, stop: int) -> Ranges:
    """Return the rows below ``stop``."""
    return intersect(ranges, np.array([[0, stop]], dtype=np.int64)) if len(ranges) else ranges
