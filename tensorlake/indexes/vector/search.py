"""Search of a vector index: candidates of a question, best first, by three looks of rising cost.

    1  the nearest lists' bits, one round trip      → the best some hundred by estimate
    2  int8 numbers of these, another               → the best few by distance to 1 % or so
    3  the stored vectors of these, the caller's    → exact scores

Rows that are not allowed are left out before the best are taken, and more lists are read where too
few are allowed, so that k rows are found where the index has them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.vector.blas import in_threads
from tensorlake.indexes.vector.codes import Question, estimates, refined
from tensorlake.indexes.vector.lists import Lists

if TYPE_CHECKING:
    from tensorlake.indexes.parts import PartsReader

__all__ = ["Effort", "Probed", "effort_for", "nearest_candidates", "probe"]

Int64Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Allowed = npt.NDArray[np.bool_] | None
Int8s = npt.NDArray[np.int8]

SEVERAL = 8  # queries that are worth threads
DEFAULT_RECALL = 0.95
ESTIMATED_MIN, ESTIMATED_PER_RESULT = 100, 10  # candidates by bits that are looked at closer
REFINED_MIN, REFINED_PER_RESULT = 20, 2  # of these, compared by the stored vectors


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a search looks at.

    Attributes:
        lists: Lists probed.
        widening: Times as many candidates by bits as by default.
        recall: The share of the ten nearest that this found when the index was built.
    """

    lists: int
    widening: int
    recall: float


def effort_for(parameters: Mapping[str, Any], recall: float | None) -> Effort:
    """Choose the least effort that reached a recall when the index was built; else the largest."""
    wanted = DEFAULT_RECALL if recall is None else recall
    efforts: list[tuple[int, int, float]] = parameters["efforts"]
    lists, widening, reached = next((one for one in efforts if one[2] >= wanted), efforts[-1])
    return Effort(int(lists), int(widening), float(reached))


def nearest_candidates(
    parts: PartsReader, queries: Floats, k: int, effort: Effort, allowed: Allowed = None
) -> list[Int64Array]:
    """Find the physical rows of the likely k nearest of each query, more than k, best first.

    Args:
        parts: The index.
        queries: float32 (n, dim), finite; for cosine not zero.
        k: How many rows are wanted in the end.
        effort: How much to look at.
        allowed: Which physical rows may be found; None: all.
    """
    lists = Lists.of(parts)
    directions = lists.space.directions(queries)
    if len(queries) < SEVERAL:
        return [probe(lists, each, k, effort, allowed)[0] for each in directions]

    def some(block: Floats) -> list[Int64Array]:
        return [probe(lists, each, k, effort, allowed)[0] for each in block]

    blocks = in_threads(some, np.array_split(directions, os.cpu_count() or 1))
    return [rows for block in blocks for rows in block]


def probe(
    lists: Lists, direction: Floats, k: int, effort: Effort, allowed: Allowed
) -> tuple[Int64Array, Probed]:
    """Find candidates of one query, given as a direction, and all codes that were compared."""
    question = Question.of(direction, lists.seed)
    near = lists.nearness(direction)
    numbers = _best(near, min(effort.lists, len(near)))
    probed = Probed.of(lists, numbers, near, question, allowed)
    while probed.count < k and len(numbers) < len(near):  # a filter leaves few, or lists are short
        more = _best(near, min(len(near), max(len(numbers) * 4, 16)))[len(numbers) :]
        numbers = np.concatenate((numbers, more))
        probed = probed.with_more(Probed.of(lists, more, near, question, allowed))
    wide = max(ESTIMATED_MIN, ESTIMATED_PER_RESULT * k) * effort.widening
    chosen = _best(probed.scores, min(wide, probed.count))
    few = max(REFINED_MIN, REFINED_PER_RESULT * k)
    if len(chosen) > few and lists.has_numbers:
        chosen = chosen[_best(_refined(lists, probed, chosen, near, direction), few)]
    return probed.rows[chosen], probed


@dataclass(frozen=True, slots=True, eq=False)
class Probed:
    """The codes of some lists, list by list, with their estimated scores.

    Attributes:
        numbers: The lists.
        stops: Where the codes of each list end.
        rows: Physical rows.
        steps: The step of the int8 numbers of each.
        scores: Estimates; −∞ where a row is not allowed.
        count: The number of rows that are allowed.
        int8: The int8 numbers of each list, where they came with its codes.
    """

    numbers: Int64Array
    stops: Int64Array
    rows: Int64Array
    steps: Floats
    scores: Floats
    count: int
    int8: list[Int8s | None]

    @classmethod
    def of(
        cls, lists: Lists, numbers: Int64Array, near: Floats, question: Question, allowed: Allowed
    ) -> Probed:
        """Estimate the scores of all codes of some lists."""
        codes = lists.codes(numbers.tolist())
        words = _joined([each.words for each in codes])
        factors = _joined([each.factors for each in codes])
        rows = _joined([each.rows for each in codes])
        sizes = lists.starts[numbers + 1] - lists.starts[numbers]
        scores = estimates(words, factors, np.repeat(near[numbers], sizes), question)
        count = len(rows)
        if allowed is not None:
            is_allowed = allowed[rows]
            scores[~is_allowed] = -np.inf
            count = int(np.count_nonzero(is_allowed))
        int8 = [each.numbers for each in codes]
        return cls(numbers, np.cumsum(sizes), rows, factors[2], scores, count, int8)

    def with_more(self, other: Probed) -> Probed:
        """Append other lists."""
        return Probed(
            np.concatenate((self.numbers, other.numbers)),
            np.concatenate((self.stops, len(self.rows) + other.stops)),
            np.concatenate((self.rows, other.rows)),
            np.concatenate((self.steps, other.steps)),
            np.concatenate((self.scores, other.scores)),
            self.count + other.count,
            self.int8 + other.int8,
        )


def _joined(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


def _refined(
    lists: Lists, probed: Probed, chosen: Int64Array, near: Floats, direction: Floats
) -> Floats:
    """Score some codes by their int8 numbers, which are stored in the order of all lists."""
    stops, numbers = probed.stops, probed.numbers
    which = stops.searchsorted(chosen, side="right")
    own = numbers[which]
    behind = chosen - stops[which]  # the end of its list: starts[list + 1] of all codes
    some = {at: probed.int8[at] for at in which.tolist()}
    if all(each is not None for each in some.values()):
        own_numbers = zip(which.tolist(), behind.tolist(), strict=True)
        read = np.stack([cast("Int8s", some[at])[place] for at, place in own_numbers])
    else:
        read = lists.parts.hot("numbers", behind + lists.starts[numbers + 1][which])
    metric = lists.space.metric
    towards = direction
    if metric != "dot":
        towards = direction - lists.centroids[own[0] if len(numbers) == 1 else own]
    return refined(read, probed.steps[chosen], near[own], towards, metric)


def _best(scores: Floats, count: int) -> Int64Array:
    """Return the places of the largest scores, largest first."""
    left = len(scores) - count
    if count == 1:
        return np.array([scores.argmax()])
    chosen = np.arange(len(scores)) if left <= 0 or not count else scores.argpartition(left)[left:]
    return chosen[(-scores[chosen]).argsort(kind="stable")][:count]
