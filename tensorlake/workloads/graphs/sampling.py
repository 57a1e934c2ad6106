"""Uniform sampling of neighborhoods, hop by hop, of several batches at once.

Each hop takes up to ``fanout`` neighbors, without repeats, of the nodes that the hop before found:
GraphSAGE's sampling (Hamilton, Ying and Leskovec, https://arxiv.org/abs/1706.02216), with the nodes
and edges in the order of PyTorch Geometric's ``NeighborLoader``. A hop reads the lists of
all batches together; what a batch draws depends on its own generator alone. A hop takes up
to ``fanout`` neighbors of each type of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.versions import distinct

__all__ = ["Sample", "choose", "sample"]

Int64Array = npt.NDArray[np.int64]
Read = Callable[[Int64Array], tuple[Int64Array, Int64Array]]
"""From sorted ids to their lists, one after another, and the offsets of these (ids + 1)."""


class Sample:
    """The neighborhood of some seeds.

    Attributes:
        nodes: Ids: the seeds, then others as they were found.
        sources: For each edge the position of its source in ``nodes``.
        targets: Likewise of its target.
        places: For each edge its place in the list of its target.
        kinds: For each edge the number of its type.
    """

    def __init__(self, seeds: Int64Array, random: np.random.Generator) -> None:
        self.nodes = seeds
        self.random = random
        self.sources = self.targets = self.places = self.kinds = np.zeros(0, np.int64)
        self.first = 0  # of the nodes that the last hop found

    @property
    def frontier(self) -> Int64Array:
        """The nodes whose neighbors are sampled next."""
        return self.nodes[self.first :]

    def add(self, edges: Sequence[tuple[Int64Array, Int64Array, Int64Array]]) -> None:
        """Add neighbors of the frontier: of each type of edges ids, counts of nodes, and places."""
        before = len(self.nodes)
        frontier = np.arange(self.first, before)
        found = np.concatenate([ids for ids, _, _ in edges])
        unique, at = np.unique(found, return_index=True)
        is_new = ~np.isin(unique, self.nodes)
        new = unique[is_new][np.argsort(at[is_new])]
        self.nodes = np.concatenate([self.nodes, new])
        order = np.argsort(self.nodes)
        sources = order[np.searchsorted(self.nodes, found, sorter=order)]
        self.sources = np.concatenate([self.sources, sources])
        targets = [np.repeat(frontier, counts) for _, counts, _ in edges]
        self.targets = np.concatenate([self.targets, *targets])
        self.places = np.concatenate([self.places, *(places for _, _, places in edges)])
        kinds = np.repeat(np.arange(len(edges)), [len(ids) for ids, _, _ in edges])
        self.kinds = np.concatenate([self.kinds, kinds])
        self.first = before


def sample(
    batches: Sequence[Int64Array],
    fanouts: Sequence[int],
    randoms: Sequence[np.random.Generator],
    reads: Sequence[Read],
) -> list[Sample]:
    """Sample the neighborhoods of the seeds of several batches.

    Args:
        batches: Seeds of each, without repeats.
        fanouts: Neighbors at each hop, of each type of edges; -1: all.
        randoms: The generator of each batch.
        reads: Read lists of neighbors, of each type of edges.
    """
    made = [Sample(seeds, random) for seeds, random in zip(batches, randoms, strict=True)]
    for fanout in fanouts:
        ids = distinct(np.concatenate([one.frontier for one in made]))
        if not len(ids):
            break
        lists = [read(ids) for read in reads]
        for one in made:
            at = np.searchsorted(ids, one.frontier)
            edges: list[tuple[Int64Array, Int64Array, Int64Array]] = []
            for values, offsets in lists:
                starts = offsets[at]
                places, counts = choose(offsets[at + 1] - starts, fanout, one.random)
                edges.append((values[np.repeat(starts, counts) + places], counts, places))
            one.add(edges)
    return made


def choose(
    degrees: Int64Array, fanout: int, random: np.random.Generator
) -> tuple[Int64Array, Int64Array]:
    """Choose up to ``fanout`` places in lists of given lengths: every subset is equally likely.

    R. W. Floyd's algorithm, for all lists at once (Bentley and Floyd, "A sample of brilliance",
    Communications of the ACM 30, 1987).

    Returns:
        The places, of one list after another, and their number in each list.
    """
    counts = degrees.copy() if fanout < 0 else np.minimum(degrees, fanout)
    stops = np.cumsum(counts)
    places = np.arange(int(stops[-1]) if len(stops) else 0) - np.repeat(stops - counts, counts)
    large = degrees > counts
    sizes = degrees[large]
    chosen: npt.NDArray[Any] = np.full((len(sizes), max(fanout, 0)), -1, np.int64)
    for at in range(chosen.shape[1]):
        last = sizes - fanout + at
        drawn = random.integers(0, last + 1)
        is_taken = (chosen[:, :at] == drawn[:, None]).any(axis=1)
        chosen[:, at] = np.where(is_taken, last, drawn)
    places[np.repeat(large, counts)] = chosen.reshape(-1)
    return places, counts
