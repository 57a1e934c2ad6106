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

Constant weights have one *span*, from place 0 on. Those that depend on the place are evaluated
where they may differ (``shares.py``), and each range between is a span that stores the number of
rows each source yielded before it; so any place is computed by arithmetic within its span. Spans
are computed in order and kept, from the start or from the span that a state recorded.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, InvalidStateError, shown
from tensorlake.loader.plan.mix_order import Span

__all__ = [
    "SPANS_END",
    "SPAN_PLACES",
    "Spans",
    "Weights",
    "assign_places",
    "count_taken",
    "places_until",
    "units_of",
]

Int64Array = NDArray[np.int64]

SPAN_PLACES = 1 << 16
SPANS_END = 1 << 62
LARGE = 2.0**960  # a power of two: dividing by it is exact
UNIT_BITS = 30  # products with a remainder below 2³¹ stay within 63 bits


def units_of(weights: Sequence[float]) -> tuple[int, ...]:
    """Turn weights into integer units that add up to about 2³⁰; weights above 0 get at least 1.

    >>> units_of([3, 1])
    (805306368, 268435456)
    """
    if weights and LARGE < max(weights) < math.inf:  # their sum would not be a number
        weights = [weight / LARGE for weight in weights]
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


class Weights(Protocol):
    """Weights that are constant from one start to the next."""

    def at(self, place: int) -> tuple[float, ...]:
        """Return the weight of each source at a place."""
        ...

    def next_start(self, place: int) -> int:
        """Return the first place after a place from which weights may differ."""
        ...


class Spans:
    """The spans of one epoch of a mix; safe to use from many threads."""

    def __init__(self, weights: Weights, first: Span) -> None:
        self._weights = weights
        self._spans = [first]
        self._end = weights.next_start(first.start)  # of the last of them
        self._lock = threading.Lock()

    def at(self, place: int) -> Span:
        """Return the span that contains a place."""
        with self._lock:
            if place < self._spans[0].start:
                raise InvalidStateError(
                    f"place {place} of this mix is before the {self._spans[0].start} that its"
                    " state recorded, and its weights depend on the place"
                    "\nmake a new loader to start again"
                )
            while place >= self._end:
                self._spans.append(self._next(self._spans[-1]))
                self._end = self._weights.next_start(self._end)
            return self._spans[bisect_right(self._spans, place, key=attrgetter("start")) - 1]

    def end_of(self, span: Span) -> int:
        """Return the first place after a span."""
        return self._weights.next_start(span.start)

    def between(self, start: int, stop: int) -> Iterator[tuple[Span, int, int]]:
        """Divide places start … stop - 1 by span."""
        while start < stop:
            span = self.at(start)
            end = min(stop, self.end_of(span))
            yield span, start, end
            start = end

    def _next(self, span: Span) -> Span:
        counts = count_taken(units_of(span.weights), self._end - span.start)
        taken = tuple(map(sum, zip(span.taken, counts, strict=True)))
        return Span(self._end, taken, self._weights.at(self._end))
