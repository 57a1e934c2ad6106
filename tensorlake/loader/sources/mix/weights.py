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

Constant weights have one *span*, from place 0 on. Weights that are functions are evaluated at every
65,536th place, and each range between is a span that stores the number of rows each source yielded
before it; so any place is computed by arithmetic within its span. Spans are computed in order and
kept, from the start or from the span that a state recorded.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from numbers import Real
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, InvalidStateError, shown
from tensorlake.loader.plan.mix_order import Span, Weight

__all__ = [
    "SPAN_PLACES",
    "Spans",
    "assign_places",
    "count_taken",
    "places_until",
    "units_of",
    "weights_at",
]

Int64Array = NDArray[np.int64]

SPAN_PLACES = 1 << 16
SPANS_END = 1 << 62
UNIT_BITS = 30  # products with a remainder below 2³¹ stay within 63 bits


def units_of(weights: Sequence[float]) -> tuple[int, ...]:
    """Turn weights into integer units that add up to about 2³⁰; weights above 0 get at least 1.

    >>> units_of([3, 1])
    (805306368, 268435456)
    """
    total = math.fsum(weights)
    if not weights or not math.isfinite(total) or total <= 0 or min(weights) < 0:
        raise InvalidInputError(
            f"weights must be numbers >= 0, not all 0, got {shown(list(weights))}",
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


class Spans:
    """The spans of one epoch of a mix; safe to use from many threads."""

    def __init__(self, weights: Sequence[Weight], first: Span) -> None:
        self._weights = weights
        self._are_constant = not any(callable(weight) for weight in weights)
        self._spans = [first]
        self._lock = threading.Lock()

    def at(self, place: int) -> Span:
        """Return the span that contains a place."""
        if self._are_constant:
            return self._spans[0]
        with self._lock:
            if place < self._spans[0].start:
                raise InvalidStateError(
                    f"place {place} of this mix is before the {self._spans[0].start} that its"
                    " state recorded, and its weights are functions"
                    "\nmake a new loader to start again"
                )
            while place >= self._spans[-1].start + SPAN_PLACES:
                self._spans.append(self._next(self._spans[-1]))
            return self._spans[bisect_right(self._spans, place, key=attrgetter("start")) - 1]

    def end_of(self, span: Span) -> int:
        """Return the first place after a span."""
        return SPANS_END if self._are_constant else span.start + SPAN_PLACES

    def between(self, start: int, stop: int) -> Iterator[tuple[Span, int, int]]:
        """Divide places start … stop - 1 by span."""
        while start < stop:
            span = self.at(start)
            end = stop if self._are_constant else min(stop, span.start + SPAN_PLACES)
            yield span, start, end
            start = end

    def _next(self, span: Span) -> Span:
        counts = count_taken(units_of(span.weights), SPAN_PLACES)
        start = span.start + SPAN_PLACES
        taken = tuple(map(sum, zip(span.taken, counts, strict=True)))
        return Span(start, taken, weights_at(self._weights, start))


def weights_at(weights: Sequence[Weight], place: int) -> tuple[float, ...]:
    """Evaluate the weights at a place.

    Raises:
        InvalidInputError: A function returned an invalid weight, or all weights are 0.
    """
    asked = tuple(_asked(weight, place) if callable(weight) else weight for weight in weights)
    if not any(asked):
        raise InvalidInputError(
            f"all weights of the mix are 0 at place {place}\nkeep at least one of them above 0",
            actual=place,
        )
    return asked


def _asked(weight: Callable[[int], float], place: int) -> float:
    value = weight(place)
    if not isinstance(value, Real) or not 0 <= value < math.inf:
        raise InvalidInputError(
            "a weight must be a number >= 0, but its function returned"
            f" {shown(value)} at place {place}",
            actual=value,
        )
    return float(value)
