"""Uniform sampling of neighborhoods, hop by hop, of several batches at once.

Each hop takes up to ``fanout`` neighbors, without repeats, of the nodes that the hop before found:
GraphSAGE's sampling (Hamilton, Ying and Leskovec, https://arxiv.org/abs/1706.02216), with the nodes
and edges in the order of PyTorch Geometric's ``NeighborLoader``. A hop reads the lists of
all batches together; what a batch draws depends on its own generator alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """

    def __init__(self, seeds: Int64Array, random: np.random.Generator) -> None:
        self.nodes = seeds
        self.random = random
        self.sources = self.targets = self.places = np.zeros(0, np.int64)
        self.first = 0  # of the nodes that the last hop found

    @property
    def frontier(self) -> Int64Array:
        """The nodes whose neighbors are sampled next."""
        return self.nodes[self.first :]

    def add(self, found: Int64Array, counts: Int64Array, places: Int64Array) -> None:
        """Add neighbors of the frontier: ``counts`` of each of its nodes, one after another."""
        before = len(self.nodes)
        targets = np.repeat(np.arange(self.first, before), counts)
        unique, at = np.unique(found, return_index=True)
        is_new = ~np.isin(unique, self.nodes)
        new = unique[is_new][np.argsort(at[is_new])]
        self.nodes = np.concatenate([self.nodes, new])
        order = np.argsort(self.nodes)
        sources = order[np.searchsorted(self.nodes, found, sorter=order)]
        self.sources = np.concatenate([self.sources, sources])
        self.targets = np.concatenate([self.targets, targets])
        self.places = np.concatenate([self.places, places])
        self.first = before


def sample(
    batches: Sequence[Int64Array],
    fanouts: Sequence[int],
    randoms: Sequence[np.random.Generator],
    read: Read,
) -> list[Sample]:
    """Sample the neighborhoods of the seeds of several batches.

    Args:
        batches: Seeds of each, without repeats.
        fanouts: Neighbors at each hop; -1: all.
        randoms: The generator of each batch.
        read: Reads lists of neighbors.
    """
    made = [Sample(seeds, random) for seeds, random in zip(batches, randoms, strict=True)]
    for fanout in fanouts:
        ids = np.unique(np.concatenate([one.frontier for one in made]))
        if not len(ids):
            break
        values, offsets = read(ids)
        for one in made:
            at = np.searchsorted(ids, one.frontier)
            degrees = offsets[at + 1] - offsets[at]
            places, counts = choose(degrees, fanout, one.random)
            one.add(values[np.repeat(offsets[at], counts) + places], counts, places)
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
