"""Clusters: items connected by pairs, and pairs of items that have one key in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["Check", "Int64Array", "UInt64Array", "clusters_of", "pairs_of_equal"]

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
Check = Callable[[int, int], None]

MOST_PAIRS = 1 << 22  # compared together


def pairs_of_equal(keys: UInt64Array) -> Iterator[Int64Array]:
    """Yield all pairs of items with equal keys, int64 (n, 2), in bounded parts.

    Each item is paired with those of its key that follow it.
    """
    order = np.argsort(keys, kind="stable")
    ends = np.searchsorted(keys[order], keys[order], side="right")
    counts = ends - np.arange(len(keys)) - 1
    done = np.concatenate(([0], np.cumsum(counts)))
    start = 0
    while start < len(keys):
        stop = max(
            start + 1, int(np.searchsorted(done, done[start] + MOST_PAIRS, side="right")) - 1
        )
        part = counts[start:stop]
        one = np.repeat(np.arange(start, stop), part)
        ahead = np.arange(len(one)) - np.repeat(np.cumsum(part) - part, part) + 1
        yield np.stack([order[one], order[one + ahead]], axis=1)
        start = stop


def clusters_of(count: int, pairs: Iterable[Int64Array]) -> Int64Array:
    """Return for each item the first one that it is connected with by pairs, int64 (count,)."""
    first = np.arange(count)
    kept = [part for part in pairs if len(part)]
    if not kept:
        return first
    one, other = np.concatenate(kept).T
    while True:
        before = first.copy()
        least = np.minimum(first[one], first[other])
        np.minimum.at(first, one, least)
        np.minimum.at(first, other, least)
        first = first[first]
        if np.array_equal(first, before):
            return first
