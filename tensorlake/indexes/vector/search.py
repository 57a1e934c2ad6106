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
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.vector.blas import in_threads
from tensorlake.indexes.vector.codes import Question, estimates, refined
from tensorlake.indexes.vector.lists import Lists

if TYPE_CHECKING:
    from tensorlake.indexes.parts import PartsReader

__all__ = ["Effort", "Estimated", "effort_for", "nearest_candidates", "probe"]

Int64Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Allowed = npt.NDArray[np.bool_] | None

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
    efforts = [Effort(int(a), int(b), float(c)) for a, b, c in parameters["efforts"]]
    return next((one for one in efforts if one.recall >= wanted), efforts[-1])


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
) -> tuple[Int64Array, Estimated]:
    """Find candidates of one query, given as a direction, and all codes that were compared."""
    question = Question.of(direction, lists.seed)
    near = lists.nearness(direction)
    order = _best(near, min(effort.lists, len(near)))
    found = _estimated(lists, order, near, question, allowed)
    while len(found.rows) < k and len(order) < len(near):  # a filter leaves few, or lists are short
        wanted = min(len(near), max(len(order) * 4, 16))
        more = _best(near, wanted)[len(order) :]
        order = np.concatenate((order, more))
        found = found.with_more(_estimated(lists, more, near, question, allowed))
    wide = max(ESTIMATED_MIN, ESTIMATED_PER_RESULT * k) * effort.widening
    chosen = found.take(_best(found.scores, min(wide, len(found.rows))))
    few = max(REFINED_MIN, REFINED_PER_RESULT * k)
    if len(chosen.rows) <= few or not lists.has_numbers:
        return chosen.rows, found
    scores = _refined(lists, chosen, question)
    return chosen.rows[_best(scores, few)], found


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """Codes with their estimates: row, list, and place in the order of all lists."""

    rows: Int64Array
    lists: Int64Array
    places: Int64Array
    steps: Floats
    scores: Floats

    def take(self, chosen: Int64Array) -> Estimated:
        """Select some."""
        return Estimated(
            self.rows[chosen], self.lists[chosen], self.places[chosen],
            self.steps[chosen], self.scores[chosen],
        )  # fmt: skip

    def with_more(self, other: Estimated) -> Estimated:
        """Append others."""
        return Estimated(
            np.concatenate((self.rows, other.rows)),
            np.concatenate((self.lists, other.lists)),
            np.concatenate((self.places, other.places)),
            np.concatenate((self.steps, other.steps)),
            np.concatenate((self.scores, other.scores)),
        )


def _estimated(
    lists: Lists, numbers: Int64Array, near: Floats, question: Question, allowed: Allowed
) -> Estimated:
    """Estimate the scores of all codes of some lists."""
    codes = lists.codes(numbers.tolist())
    sizes = np.array([len(each.rows) for each in codes], np.int64)
    words = np.concatenate([each.words for each in codes], axis=1)
    factors = np.concatenate([each.factors for each in codes], axis=1)
    rows = np.concatenate([each.rows for each in codes])
    scores = estimates(words, factors, np.repeat(near[numbers], sizes), question)
    owners = np.repeat(numbers, sizes)
    places = np.arange(len(rows)) + np.repeat(
        lists.starts[numbers] - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes
    )
    found = Estimated(rows, owners, places, factors[2], scores)
    return found if allowed is None else found.take(np.flatnonzero(allowed[rows]))


def _refined(lists: Lists, found: Estimated, question: Question) -> Floats:
    numbers = lists.parts.hot("numbers", found.places)
    centroids = lists.centroids[found.lists]
    return refined(numbers, found.steps, centroids, question, lists.space.metric)


def _best(scores: Floats, count: int) -> Int64Array:
    """Return the places of the largest scores, largest first."""
    if count < len(scores):
        chosen = np.argpartition(scores, len(scores) - count)[len(scores) - count :]
    else:
        chosen = np.arange(len(scores))
    return chosen[np.argsort(-scores[chosen], kind="stable")]
