"""k-means: centroids of lists, from a sample of points, and the nearest one of each point.

Lloyd's algorithm over blocks of points, by matrix products. Many centroids are found, and searched,
by groups: about the square root of them have a centroid of their own, and a point is compared with
the members of the few groups nearest to it. Centroids without points take a place in the largest
list, and lists much larger than the mean are split afterwards, so that no query reads a list out of
proportion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.vector.blas import in_threads

__all__ = ["Centroids", "centroids_of"]

Floats = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]

BLOCK_NBYTES = 4 << 20  # of distances computed at once
ITERATIONS = 8  # after which centroids move by less than the sample's noise (measured)
SAMPLES = 96  # points a centroid: more move it less than a point of the data does
REFINED = 2  # iterations over all centroids after those within groups
GROUPED_FROM = 256  # centroids; fewer are compared with every point
GROUPS_PROBED = 6  # 99.5 % of the points find their nearest centroid of 1,500 (measured)
LARGE = 4  # times the mean: a list that is split
APART = np.float32(1e-3)  # of the spread: two halves of a list begin so far apart


@dataclass(frozen=True, slots=True, eq=False)
class Centroids:
    """Centroids, and the groups by which points find the nearest one.

    Attributes:
        points: float32 (n, dim).
        tops: float32 (groups, dim): centroids of the centroids.
        groups: Members of each group: numbers of centroids.
    """

    points: Floats
    tops: Floats
    groups: tuple[npt.NDArray[np.int64], ...]

    @classmethod
    def of(cls, points: Floats) -> Centroids:
        """Group centroids."""
        if len(points) < GROUPED_FROM:
            return cls(points, points[:1], (np.arange(len(points)),))
        count = round(len(points) ** 0.5)
        begun = points[np.linspace(0, len(points) - 1, count).astype(np.int64)]
        tops = _lloyd(points, begun, ITERATIONS)
        own = _nearest(points, tops)
        return cls(points, tops, tuple(np.flatnonzero(own == each) for each in range(count)))

    def nearest(self, points: Floats) -> Int32Array:
        """Return the nearest centroid of each point, int32 (n,)."""
        if len(self.groups) == 1:
            return _nearest(points, self.points)
        probed = _nearest_some(points, self.tops, GROUPS_PROBED)
        order = np.argsort(probed.ravel(), kind="stable")
        stops = np.cumsum(np.bincount(probed.ravel(), minlength=len(self.groups)))
        best = np.full(len(points), -np.inf, np.float32)
        lists = np.zeros(len(points), np.int32)
        for members, start, stop in zip(self.groups, np.append(0, stops[:-1]), stops, strict=True):
            if start == stop or not len(members):
                continue
            near = order[start:stop] // GROUPS_PROBED
            scores = _scores(points[near], self.points[members])
            chosen = scores.argmax(axis=1)
            score = scores[np.arange(len(near)), chosen]
            is_nearer = score > best[near]
            best[near[is_nearer]] = score[is_nearer]
            lists[near[is_nearer]] = members[chosen[is_nearer]]
        return lists


def centroids_of(points: Floats, count: int, seed: int) -> Centroids:
    """Find about ``count`` centroids of points, float32 (n, dim)."""
    if not len(points):
        return Centroids.of(np.zeros((1, points.shape[1]), np.float32))
    count = max(1, min(count, len(points)))
    random = np.random.Generator(np.random.Philox(key=seed))
    if count < GROUPED_FROM:
        found = _lloyd(points, _chosen(points, count, random), ITERATIONS)
        return Centroids.of(_split_large(points, found, _nearest(points, found)))
    groups = round(count**0.5)
    some = _chosen(points, groups * SAMPLES, random)
    tops = _lloyd(some, _chosen(some, groups, random), ITERATIONS)
    own = _nearest(points, tops)
    begun: list[tuple[Floats, Floats]] = []
    for group in range(len(tops)):
        members = points[own == group]
        share = min(len(members), round(count * len(members) / len(points)))
        if share:
            begun.append((members, _chosen(members, share, random)))
    parts = in_threads(lambda each: _lloyd(*each, ITERATIONS), begun)
    found = Centroids.of(np.concatenate(parts))
    for _ in range(REFINED):
        found = Centroids.of(_means(points, found.nearest(points), found.points))
    return Centroids.of(_split_large(points, found.points, found.nearest(points)))


def _chosen(points: Floats, count: int, random: np.random.Generator) -> Floats:
    return points[np.sort(random.permutation(len(points))[:count])]


def _scores(points: Floats, centroids: Floats) -> Floats:
    """Return half of the squared length of each point less half of the squared distance."""
    scores = points @ centroids.T
    scores -= np.square(centroids).sum(axis=1) / 2
    return scores


def _blocks(points: Floats, centroids: Floats) -> range:
    return range(0, len(points), max(1, BLOCK_NBYTES // (4 * max(1, len(centroids)))))


def _nearest(points: Floats, centroids: Floats) -> Int32Array:
    lists = np.empty(len(points), np.int32)
    blocks = _blocks(points, centroids)
    for start in blocks:
        stop = start + blocks.step
        lists[start:stop] = _scores(points[start:stop], centroids).argmax(axis=1)
    return lists


def _nearest_some(points: Floats, centroids: Floats, count: int) -> Int32Array:
    lists = np.empty((len(points), count), np.int32)
    blocks = _blocks(points, centroids)
    for start in blocks:
        stop = start + blocks.step
        scores = _scores(points[start:stop], centroids)
        lists[start:stop] = np.argpartition(scores, -count, axis=1)[:, -count:]
    return lists


def _lloyd(points: Floats, centroids: Floats, iterations: int) -> Floats:
    for _ in range(iterations):
        centroids = _means(points, _nearest(points, centroids), centroids)
    return centroids


def _means(points: Floats, lists: Int32Array, centroids: Floats) -> Floats:
    counts = np.bincount(lists, minlength=len(centroids))
    order = np.argsort(lists, kind="stable")
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    filled = np.flatnonzero(counts)
    means = centroids.copy()
    for each in filled:
        members = order[starts[each] : starts[each] + counts[each]]
        means[each] = points[members].mean(axis=0)
    fullest = np.argsort(-counts, kind="stable")[: len(filled)]
    for empty, full in zip(np.flatnonzero(counts == 0), fullest, strict=False):
        means[empty] = points[order[starts[full]]]  # one of the points of a large list
    return means


def _split_large(points: Floats, centroids: Floats, lists: Int32Array) -> Floats:
    limit = LARGE * max(1, len(points) / len(centroids))
    made = [centroids.copy()]
    counts = np.bincount(lists, minlength=len(centroids))
    for large in np.flatnonzero(counts > limit):
        members = points[lists == large]
        pieces = int(np.ceil(len(members) / (limit / 2)))
        if (members == members[0]).all():
            continue  # equal points stay together
        spread = members.std(axis=0) * APART
        turns = np.linspace(-1, 1, pieces, dtype=np.float32)[:, None]
        begun = members[np.linspace(0, len(members) - 1, pieces).astype(int)] + turns * spread
        split = _lloyd(members, begun, ITERATIONS)
        made[0][large] = split[0]
        made.append(split[1:])
    return np.concatenate(made)
