"""The source of each place of a mix: a pure function of the weights, evenly distributed.

    place n ─► does source 0 take it?  yes ─► its row number c(n)
                 │ no: it is place n - c(n) of the rest
                 ▼
               does source 1 take it?  …

A source takes ``c(n) = (n · u + U // 2) // U`` of the first n places that reach it, where *u* is
its own units and *U* the units of all remaining sources: always the nearest integer to its share.
So any range of the order keeps the weights to within a row or two, and the source of a place and
the number of its earlier rows are integer arithmetic. Specified byte for byte in
docs/reference/plan.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError

__all__ = ["assign_places", "count_taken", "places_until", "units_of"]

Int64Array = NDArray[np.int64]

UNIT_BITS = 30  # products with a remainder below 2³¹ stay within 63 bits


def units_of(weights: Sequence[float]) -> tuple[int, ...]:
    """Turn weights into integer units that add up to about 2³⁰; weights above 0 get at least 1.

    >>> units_of([3, 1])
    (805306368, 268435456)
    """
    total = math.fsum(weights)
    if not weights or not math.isfinite(total) or total <= 0 or min(weights) < 0:
        raise InvalidInputError(
            f"weights must be numbers >= 0, not all 0, got {list(weights)!r}",
            actual=list(weights),
        )
    return tuple(
        max(1, math.floor(weight / total * (1 << UNIT_BITS) + 0.5)) if weight else 0
        for weight in weights
    )


def assign_places(units: Sequence[int], places: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the source of each place, and the number of places it has taken before."""
    source = np.empty(len(places), dtype=np.int64)
    taken = np.empty(len(places), dtype=np.int64)
    here = np.arange(len(places))  # which of the places reach this source
    reached = places
    for number, (own, left) in enumerate(zip(units, _left(units), strict=True)):
        before = _share(reached, own, left)
        is_own = _share(reached + 1, own, left) > before
        source[here[is_own]] = number
        taken[here[is_own]] = before[is_own]
        rest = ~is_own
        here, reached = here[rest], (reached - before)[rest]
    return source, taken


def count_taken(units: Sequence[int], places: int) -> tuple[int, ...]:
    """Return how many of the first ``places`` places each source takes; they add up to all."""
    counts: list[int] = []
    for own, left in zip(units, _left(units), strict=True):
        count = (places * own + left // 2) // left if own else 0
        counts.append(count)
        places -= count
    return tuple(counts)


def places_until(units: Sequence[int], source: int, rows: int) -> int:
    """Return the least number of places after which a source with units has taken ``rows``."""
    low, high = rows, 1 + rows
    while count_taken(units, high)[source] < rows:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if count_taken(units, middle)[source] < rows:
            low = middle + 1
        else:
            high = middle
    return low


def _left(units: Sequence[int]) -> list[int]:
    """Add up the units from each source on."""
    return list(accumulate(reversed(units)))[::-1]


def _share(places: Int64Array, own: int, left: int) -> Int64Array:
    if own == 0:
        return np.zeros_like(places)
    whole, rest = np.divmod(places, left)
    # the rounding term may carry, so it is added to the divided part
    return whole * own + (rest * own + left // 2) // left
