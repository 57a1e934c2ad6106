"""Sets of physical rows as ranges, for indexes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["apart_from", "common", "united", "within"]


def within(ranges: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each row whether it is in one of the ranges (ascending, disjoint).

    >>> within(np.array([[2, 4], [7, 8]]), np.array([1, 2, 4, 7])).tolist()
    [False, True, False, True]
    """
    if len(ranges) == 1:
        return (rows >= ranges[0, 0]) & (rows < ranges[0, 1])
    # An odd number of borders up to a row: it is inside.
    borders = ranges.reshape(-1)
    return np.searchsorted(borders, rows, side="right") % 2 == 1


def apart_from(ranges: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    """Return the ranges of rows 0 … ``rows`` - 1 that are in none of the given ones.

    >>> apart_from(np.array([[0, 2], [5, 6]]), 9).tolist()
    [[2, 5], [6, 9]]
    """
    edges = np.concatenate(([0], ranges.reshape(-1), [rows])).reshape(-1, 2)
    return edges[edges[:, 0] < edges[:, 1]]


def common(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows that are in both.

    >>> common(np.array([[0, 4], [6, 9]]), np.array([[2, 7]])).tolist()
    [[2, 4], [6, 7]]
    """
    return _with_depth(one, other, 2)


def united(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows that are in either.

    >>> united(np.array([[0, 4], [6, 9]]), np.array([[4, 5], [8, 10]])).tolist()
    [[0, 5], [6, 10]]
    """
    return _with_depth(one, other, 1)


def _with_depth(
    one: npt.NDArray[np.int64], other: npt.NDArray[np.int64], least: int
) -> npt.NDArray[np.int64]:
    """Return the rows that are in one of two, or in both, by the least number."""
    starts, stops = np.concatenate((one, other)).reshape(-1, 2).T
    edges, place = np.unique(np.concatenate((starts, stops)), return_inverse=True)
    steps = np.bincount(place[: len(starts)], minlength=len(edges))
    steps = steps - np.bincount(place[len(starts) :], minlength=len(edges))
    is_in = np.cumsum(steps) >= least
    before = np.concatenate(([False], is_in[:-1]))
    return np.stack((edges[is_in & ~before], edges[before & ~is_in]), axis=1)
