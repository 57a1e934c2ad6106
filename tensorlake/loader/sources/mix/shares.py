"""The weights of a mix's sources at a place: of mixes inside mixes, of stages, and by tokens.

    {"a": (view, 0.7), "b": (mix of c and d, 0.3)}     a  0.7 · b/c  0.3 c / (c + d) · b/d  …
    stages=[(place, mix), …]                           the weights of that mix from the place on
    by="tokens"                                        weight ÷ mean tokens of a row of the source

A mix inside a mix has no order of its own: its sources are sources of the whole, in the proportions
that it gives them, and each yields all its rows before any again. Weights are constant from one
*start* to the next: the places of stages, and every 65,536th place if some are functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.mix_order import MixStop, Weight
from tensorlake.loader.sources.mix.weights import SPAN_PLACES, SPANS_END, places_until, units_of

__all__ = ["ENDLESS", "MixNode", "Shares"]

ENDLESS = 1 << 62
"""Places of a mix that never stops: more than will ever be requested."""


@dataclass(frozen=True, slots=True, eq=False)
class MixNode:
    """A mix: its sources, their weights, and when it ends.

    Attributes:
        parts: The number of each source among those of the whole mix, or a mix.
        weights: Their weights.
        stop: The end of an epoch.
        by_tokens: Whether weights are shares of tokens; otherwise they are of rows.
        stages: From which place on which mix replaces this one, ascending.
    """

    parts: tuple[int | MixNode, ...]
    weights: tuple[Weight, ...]
    stop: MixStop = "first"
    by_tokens: bool = False
    stages: tuple[tuple[int, MixNode], ...] = ()

    @property
    def varies(self) -> bool:
        """Whether weights depend on the place."""
        return any(node.stages or node.has_functions for node in self.all())

    @property
    def has_functions(self) -> bool:
        """Whether its own weights are functions."""
        return any(callable(weight) for weight in self.weights)

    def all(self) -> Iterator[MixNode]:
        """Return this mix, those inside it, and those of stages."""
        yield self
        for one in (*self.parts, *(node for _, node in self.stages)):
            if isinstance(one, MixNode):
                yield from one.all()

    def at(self, place: int) -> MixNode:
        """Return the mix that replaces this one at a place, or this one."""
        begun = [node for start, node in self.stages if start <= place]
        return begun[-1] if begun else self


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The weights of all sources at any place.

    Attributes:
        root: The mix.
        means: Mean number of tokens in a row of each source; None if no weight is by tokens.
        count: Number of sources.
    """

    root: MixNode
    count: int
    means: Sequence[float] | None = None

    def at(self, place: int) -> tuple[float, ...]:
        """Return the weight of each source, by rows.

        Raises:
            InvalidInputError: A function returned an invalid weight, or all weights are 0.
        """
        weights = [0.0] * self.count
        for number, weight in self._by_rows(self.root, place):
            weights[number] = weight
        return tuple(weights)

    def next_start(self, place: int) -> int:
        """Return the first place after a place from which weights may differ."""
        starts = [SPANS_END]
        for node in self.root.all():
            starts += [start for start, _ in node.stages if start > place]
            if node.has_functions:
                starts.append((place // SPAN_PLACES + 1) * SPAN_PLACES)
        return min(starts)

    def num_places(self, rows: Sequence[int]) -> int:
        """Return the places of an epoch of constant weights.

        Args:
            rows: The rows of each source.

        Raises:
            InvalidInputError: It would never end.
        """
        if self.root.stop == "never":
            return ENDLESS
        units = units_of(self.at(0))
        end = _end(self.root, units, rows)
        if end is None:
            raise InvalidInputError(
                f"stop={self.root.stop!r} waits for a mix with stop='never'\ngive stop='never', or"
                " give that mix another stop=",
                argument="stop",
            )
        return end

    def _by_rows(self, node: MixNode, place: int) -> list[tuple[int, float]]:
        """Return the sources of a mix that have rows at a place, with their weights by rows."""
        node = node.at(place)
        asked = [_asked(one, place) if callable(one) else one for one in node.weights]
        if not any(asked):
            raise InvalidInputError(
                f"all weights of the mix are 0 at place {place}\nkeep at least one of them above 0",
                actual=place,
            )
        found: list[tuple[int, float]] = []
        for part, given in zip(node.parts, asked, strict=True):
            if not given:
                continue
            inner = [(part, 1.0)] if isinstance(part, int) else self._proportions(part, place)
            weight = given / self._mean(inner) if node.by_tokens else given
            found += [(number, weight * share) for number, share in inner]
        return found

    def _proportions(self, node: MixNode, place: int) -> list[tuple[int, float]]:
        """Return the sources of a mix inside a mix with their proportions, which add up to 1."""
        found = self._by_rows(node, place)
        largest = max(weight for _, weight in found)
        total = math.fsum(weight / largest for _, weight in found)
        return [(number, weight / largest / total) for number, weight in found]

    def _mean(self, proportions: list[tuple[int, float]]) -> float:
        """Return the mean tokens of a row of some sources."""
        assert self.means is not None, "read for weights by tokens"
        return math.fsum(share * self.means[number] for number, share in proportions)


def _end(node: MixNode, units: Sequence[int], rows: Sequence[int]) -> int | None:
    """Return the place at which a mix's sources are used up by its stop; None: never."""
    if node.stop == "never":
        return None
    ends = [
        _end(part, units, rows)
        if isinstance(part, MixNode)
        else places_until(units, part, rows[part])
        for part in node.parts
    ]
    if node.stop == "first":
        return min((end for end in ends if end is not None), default=None)
    return None if None in ends else max(end for end in ends if end is not None)


def _asked(weight: Callable[[int], float], place: int) -> float:
    try:
        value = weight(place)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"the weight function {getattr(weight, '__name__', weight)} raised"
            f" {type(error).__name__} at place {place}: {error}"
            "\ngive a function of the position that returns a number >= 0",
            actual=place,
        ) from error
    if not isinstance(value, Real) or not 0 <= value < math.inf:
        raise InvalidInputError(
            "a weight must be a number >= 0, but its function returned"
            f" {shown(value)} at place {place}",
            actual=value,
        )
    return float(value)
