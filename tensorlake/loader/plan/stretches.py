"""The source of each place of a mix: even counts in short stretches, arranged at random inside.

    stretch    a power of two of places, at least four for each source
    its rows   of each source the difference of two counts, each the nearest integer to its share
    arranged   the sources, in ascending order, at the places sorted by a hash

So any number of stretches has the weights to within a few rows (a shorter section, as a shuffle of
its stretch has them), no source is always at the same place of a batch, and each source yields its
rows in the order of places. Counts are integers; they cost one step for each source and border of a
stretch, and are kept for the next call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorlake.loader.plan.selection import Int64Array
from tensorlake.loader.plan.shuffle import hashed
from tensorlake.versions import distinct

__all__ = ["assign_in_stretches", "counts_at", "places_in_stretches", "stretch_of"]

STRETCH_SHARE = 4  # places for each source
STRETCH_STOP = 1 << 16  # spans of weights that vary are whole stretches
FEW_PLACES = 16
BORDERS_KEPT = 2  # with a number for each source
PLACES_STOP = 1 << 31  # of two sources: products of two numbers of places fit 62 bits


def stretch_of(sources: int) -> int:
    """Return how many places are arranged together in a mix of some sources.

    >>> stretch_of(2), stretch_of(1000)
    (8, 4096)
    """
    return min(1 << (STRETCH_SHARE * sources - 1).bit_length(), STRETCH_STOP)


def counts_at(units: Sequence[int], places: Int64Array) -> Int64Array:
    """Return how many of the first ``places`` places each source takes, for each number of places.

    Returns:
        Counts of shape (numbers of places, sources); those of a row add up to its places.
    """
    if len(places) <= FEW_PLACES:  # plain integers are faster than short arrays
        listed = [_counts_at(units, place) for place in places.tolist()]
        return np.array(listed, dtype=np.int64).reshape(len(places), len(units))
    counts = np.zeros((len(places), len(units)), dtype=np.int64)
    reached, left = places, sum(units)
    for number, own in enumerate(units):
        if own:
            whole, rest = np.divmod(reached, left)
            # the rounding term may carry, so it is added to the divided part
            counts[:, number] = whole * own + (rest * own + left // 2) // left
            reached, left = reached - counts[:, number], left - own
    return counts


def _counts_at(units: Sequence[int], place: int) -> list[int]:
    counts: list[int] = []
    left = sum(units)
    for own in units:
        count = (place * own + left // 2) // left if own else 0
        counts.append(count)
        place, left = place - count, left - own
    return counts


def assign_in_stretches(
    units: Sequence[int],
    places: Int64Array,
    *,
    start: int,
    stop: int,
    keys: tuple[int, ...],
    known: dict[int, Int64Array] | None = None,
) -> tuple[Int64Array, Int64Array]:
    """Return the source of each place, and how many rows it has yielded since ``start``.

    Args:
        units: The sources' shares.
        places: Places start … stop - 1, in any order.
        start: First place of a span of constant units; a multiple of the stretch.
        stop: Its end.
        keys: Keys of the hash by which sources are arranged.
        known: Counts at borders of stretches from earlier calls, to which some of this are added.
    """
    length = stretch_of(len(units))
    stretches, which = np.unique((places - start) // length, return_inverse=True)
    ends = np.minimum((stretches + 1) * length, stop - start)
    before, after = _counts_between(units, stretches * length, ends, {} if known is None else known)
    taken = (after - before).ravel()
    firsts = np.concatenate([[0], np.cumsum((after - before).sum(axis=1))])
    stretch = np.repeat(np.arange(len(stretches)), np.diff(firsts))
    every = np.arange(firsts[-1]) - firsts[stretch] + stretches[stretch] * length + start
    source = np.empty_like(every)
    source[np.lexsort((hashed(every, keys), stretch))] = np.repeat(
        np.tile(np.arange(len(units)), len(stretches)), taken
    )
    runs = np.cumsum(taken) - taken
    given = np.empty_like(every)
    given[np.lexsort((every, source, stretch))] = (
        np.arange(len(every)) - np.repeat(runs, taken) + np.repeat(before.ravel(), taken)
    )
    at = firsts[which] + (places - start) % length
    return source[at], given[at]


def places_in_stretches(
    units: tuple[int, int],
    source: Int64Array,
    taken: Int64Array,
    *,
    start: int,
    keys: tuple[int, ...],
) -> Int64Array:
    """Return the place of each of some rows of two sources: the inverse of the assignment.

    Args:
        units: The sources' shares, which are also their rows; below 2**31 together.
        source: Source of each row, 0 or 1.
        taken: Its number among the rows of its source.
        start: First place.
        keys: Keys of the hash by which sources are arranged.
    """
    if not len(source):
        return source
    total, length = sum(units), stretch_of(2)
    half = total // 2
    # the first number of places with one more row of the source than ``taken``
    first = -(((taken + 1) * total - half) // -max(units[0], 1))
    second = (taken * total + half) // max(units[1], 1) + 1
    stretches = distinct((np.where(source == 0, first, second) - 1) // length)
    places = (stretches[:, None] * length + np.arange(length)).ravel()
    places = places[places < total] + start
    of, numbers = assign_in_stretches(units, places, start=start, stop=start + total, keys=keys)
    ranked = np.argsort(of * PLACES_STOP + numbers)
    at = np.searchsorted(of[ranked] * PLACES_STOP + numbers[ranked], source * PLACES_STOP + taken)
    return places[ranked[at]]


def _counts_between(
    units: Sequence[int], starts: Int64Array, ends: Int64Array, known: dict[int, Int64Array]
) -> tuple[Int64Array, Int64Array]:
    """Return the counts at the starts and ends of stretches, most of which are both."""
    borders = distinct(np.concatenate([starts, ends]))
    listed = borders.tolist()
    new = [border for border in listed if border not in known]
    found = dict(zip(new, counts_at(units, np.array(new, dtype=np.int64)), strict=True))
    counts = np.stack([known[border] if border in known else found[border] for border in listed])
    known.clear()
    known.update(zip(listed[-BORDERS_KEPT:], counts[-BORDERS_KEPT:].copy(), strict=False))
    return counts[np.searchsorted(borders, starts)], counts[np.searchsorted(borders, ends)]
