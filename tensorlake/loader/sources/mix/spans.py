"""Spans: ranges of places of a mix with constant weights.

Constant weights have one span, from place 0 on. Weights that are functions are evaluated at every
65,536th place, and each range between is a span that stores the number of rows each source yielded
before it; so any place is computed by arithmetic within its span. Spans are computed in order and
kept, from the start or from the span that a state recorded.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from operator import attrgetter

from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.loader.plan.mix_order import Span, Weight
from tensorlake.loader.sources.mix.weights import count_taken, units_of

__all__ = ["SPAN_PLACES", "Spans", "weights_at"]

SPAN_PLACES = 1 << 16


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
            f"a weight must be a number >= 0, but its function returned {value!r} at place {place}",
            actual=value,
        )
    return float(value)
