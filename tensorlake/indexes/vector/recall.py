"""Recall, measured while an index is built: how much of the truth a search of each effort finds.

Some of the vectors are queries, compared with all others as they pass by. Recall is the share of a
query's ten nearest vectors among the candidates that a search would compare exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.parts import MemoryParts
from tensorlake.indexes.vector.lists import Lists
from tensorlake.indexes.vector.search import DEFAULT_RECALL, Effort, probe

if TYPE_CHECKING:
    from tensorlake.indexes.kind import Int64Array
    from tensorlake.indexes.parts import Built
    from tensorlake.indexes.vector.space import Space

__all__ = ["Truth", "measured"]

Floats = npt.NDArray[np.float32]

QUERIES = 100  # a share of .95 is then known to about .01
NEAREST = 10  # as in most published figures
ENOUGH = 0.998  # recall from which a larger effort is not measured
OTHER_STREAM = 1 << 64
LOST = 0.015  # of the truth: in the probed lists, and yet not found
WIDEST = 64


@dataclass(slots=True)
class Truth:
    """Queries, and the nearest vectors of each that passed by."""

    queries: Int64Array  # their own rows
    directions: Floats
    halved: bool  # by distance: scores are less by half of the squared length
    rows: Int64Array = field(init=False)
    scores: Floats = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        shape = (len(self.queries), NEAREST)
        self.rows = np.full(shape, -1, np.int64)
        self.scores = np.full(shape, -np.inf, np.float32)

    @classmethod
    def of(cls, rows: Int64Array, sample: Floats, space: Space, seed: int) -> Truth:
        """Choose queries from a sample of vectors."""
        # Not the stream of k-means, or the queries would be its first centroids.
        random = np.random.Generator(np.random.Philox(key=seed + OTHER_STREAM))
        chosen = np.sort(random.permutation(len(rows))[:QUERIES])
        return cls(rows[chosen], space.directions(sample[chosen]), space.metric != "dot")

    def add(self, rows: Int64Array, points: Floats) -> None:
        """Compare points with the queries; a query is not its own neighbour."""
        if not len(self.queries) or not len(rows):
            return
        scores = self.directions @ points.T
        if self.halved:
            scores -= np.square(points).sum(axis=1) / 2
        first, last = (np.searchsorted(rows, self.queries, side=side) for side in ("left", "right"))
        for at in np.flatnonzero(first < last).tolist():
            scores[at, first[at] : last[at]] = -np.inf
        count = min(NEAREST, len(rows))
        best = np.argpartition(scores, len(rows) - count, axis=1)[:, len(rows) - count :]
        with self._lock:
            every = np.concatenate((self.scores, np.take_along_axis(scores, best, 1)), axis=1)
            both = np.concatenate((self.rows, rows[best]), axis=1)
            kept = np.argsort(-every, axis=1, kind="stable")[:, :NEAREST]
            self.scores = np.take_along_axis(every, kept, 1)
            self.rows = np.take_along_axis(both, kept, 1)


def measured(built: Built, truth: Truth) -> dict[str, Any]:
    """Search at rising efforts; return ``efforts`` [[lists, widening, recall], …] and ``recall``.

    Each step probes more lists, or widens the candidates where the lists hold much that the codes
    lose. Recall rises along the efforts; ``recall`` is that of the default one.
    """
    lists = Lists(MemoryParts.of(built))
    steps = _steps(len(lists.centroids))
    step, widening = 0, 1
    found: list[tuple[int, int, float]] = []
    while step < len(steps) and widening <= WIDEST:
        recall, held = _recall(lists, truth, Effort(steps[step], widening, 0.0))
        if not found or recall > found[-1][2]:
            found.append((steps[step], widening, round(recall, 4)))
        if recall >= ENOUGH:
            break
        if held - recall > LOST or step == len(steps) - 1:
            widening *= 2
        else:
            step += 1
    default = next((one for one in found if one[2] >= DEFAULT_RECALL), found[-1])
    return {"efforts": [list(one) for one in found], "recall": default[2]}


def _recall(lists: Lists, truth: Truth, effort: Effort) -> tuple[float, float]:
    """Return the share of the truth that is found, and that the probed lists hold."""
    hits = held = total = 0
    for direction, query, nearest in zip(truth.directions, truth.queries, truth.rows, strict=True):
        wanted = nearest[nearest >= 0]
        found, probed = probe(lists, direction, NEAREST, effort, None)
        hits += int(np.isin(wanted, found[found != query]).sum())
        held += int(np.isin(wanted, probed.rows).sum())
        total += len(wanted)
    return (hits / total, held / total) if total else (1.0, 1.0)


def _steps(count: int) -> list[int]:
    """Return numbers of lists to try: 1, 2, 3, 4, 6, 8, 12, … and all."""
    steps = sorted({1 << power for power in range(32)} | {3 << power for power in range(31)})
    return [each for each in steps if each < count] + [count]
