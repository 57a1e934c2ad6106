"""``tl.graphs.NeighborLoader``: batches of sampled neighborhoods, with features cached by plan.

    seeds in order ──sample──► neighborhoods of a superbatch ──nodes──► planned cache ──► batches

The superbatch is sampled first, from adjacency lists alone. So the cache knows which rows of
features its batches need, in which order, and fetches the fewest (Park, Min and Lee, "Ginex",
VLDB 2022, https://arxiv.org/abs/2208.09151).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset, View
from tensorlake.errors import (
    InvalidInputError,
    StateMismatchError,
    missing_extra,
    shown,
)
from tensorlake.loader import PlannedCache
from tensorlake.quantities import check_flags, checked_integer, parse_nbytes
from tensorlake.versions import distinct
from tensorlake.workloads.graphs.node_types import EdgeType, NodeType, types_of
from tensorlake.workloads.graphs.sampling import Sample, sample

__all__ = ["HeteroSubgraph", "NeighborLoader", "Subgraph"]

Int64Array = npt.NDArray[np.int64]

SUPERBATCH = 32
"""Batches that are sampled together: each hop reads adjacency once for all of them."""


@dataclass(slots=True)
class Subgraph:
    """A batch: seeds and their sampled neighborhood. Arrays are torch tensors, or NumPy's.

    Attributes:
        n_id: Ids of the nodes, int64 (nodes,): the seeds first.
        edge_index: Positions in ``n_id`` of the source and target of each edge, int64 (2, edges).
        batch_size: The number of seeds.
        x: Features of the nodes, (nodes, …); None where the graph has none.
        y: Labels of the nodes, (nodes, …); likewise.
        edge_attr: Features of the edges, (edges, …); likewise.
    """

    n_id: Any
    edge_index: Any
    batch_size: int
    x: Any = None
    y: Any = None
    edge_attr: Any = None

    def to(self, device: Any) -> Subgraph:
        """Copy the tensors to a device of torch."""
        names = ("n_id", "edge_index", "x", "y", "edge_attr")
        moved = {name: getattr(self, name) for name in names}
        moved = {name: one if one is None else one.to(device) for name, one in moved.items()}
        return Subgraph(batch_size=self.batch_size, **moved)


@dataclass(slots=True)
class HeteroSubgraph:
    """A batch of a graph of several types: what models of PyTorch Geometric take by type.

    Attributes:
        n_id_dict: Ids of the nodes of each type; of that of the seeds, the seeds first.
        edge_index_dict: For each type of edges, (source, relation, target), positions in
            ``n_id_dict`` of its source and its target, int64 (2, edges).
        batch_size: The number of seeds.
        x_dict: Features of the nodes of types that have any.
        y_dict: Labels, likewise.
        edge_attr_dict: Features of edges, likewise.
    """

    n_id_dict: dict[str, Any]
    edge_index_dict: dict[EdgeType, Any]
    batch_size: int
    x_dict: dict[str, Any]
    y_dict: dict[str, Any]
    edge_attr_dict: dict[EdgeType, Any]


class NeighborLoader:
    """Batches of seeds with sampled neighborhoods, as PyTorch Geometric's ``NeighborLoader``.

    An epoch has every seed once, on one of the ranks; where they do not divide evenly, some come
    twice, so that all ranks have as many batches. Iterating again makes the next epoch. Batches
    follow from the version, the seeds, ``seed``, the epoch and their place in it.

    Args:
        view: The graph: a dataset of nodes, or a view of its columns; of several types of nodes a
            dict of one for each.
        seeds: The nodes that batches are of: ids, a mask, or a view such as
            ``ds.where("split = 'train'")``; of several types, ``("paper", ids)``.
        fanouts: Neighbors that are sampled at each hop, of each type of edges; -1 takes all.
        batch_size: Seeds per batch, and per rank.
        shuffle: Whether each epoch has another order.
        seed: The seed of orders and samples.
        cache: Bytes of features kept, ``"1GiB"``; of several types, of each.
        rank: This process; with ``world_size``.
        world_size: The number of processes.
        framework: "torch" or "numpy".

    Attributes:
        epoch: The epoch that is, or comes, under way.
        cache: The planned cache of features, with ``hits`` and ``misses``; of several types, of the
            type of the seeds.

    Raises:
        InvalidInputError: An argument is invalid, or a seed is not a node.
        MissingTensorError: The dataset is not a graph.

    Example:
        >>> import tensorlake as tl
        >>> edges, x = [[0, 1, 2], [1, 2, 1]], [[1], [2], [3]]
        >>> ds = tl.graphs.from_edges(edges, "memory://doc-neighbors", x=x)
        >>> for batch in tl.graphs.NeighborLoader(ds, [1], [-1], batch_size=1, framework="numpy"):
        ...     print(batch.n_id.tolist(), batch.edge_index.tolist(), batch.x.tolist())
        [1, 0, 2] [[1, 2], [0, 0]] [[2], [1], [3]]
    """

    def __init__(
        self,
        view: Dataset | View | Mapping[str, Dataset | View],
        seeds: Any,
        fanouts: Sequence[int] = (15, 10),
        *,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        cache: int | str = "256MiB",
        rank: int | None = None,
        world_size: int | None = None,
        framework: Literal["torch", "numpy"] = "torch",
    ) -> None:
        check_flags(shuffle=shuffle)
        nbytes = parse_nbytes(cache, name="cache")
        self._types, self._edge_types = types_of(view, nbytes)
        self._is_hetero = isinstance(view, Mapping)
        self._seed_type, of_type = _seeds_of_type(seeds, self._types, view)
        own = self._types[self._seed_type]
        self._seeds = _checked_seeds(of_type, own.view) + own.start
        self._fanouts = [
            checked_integer(one, name="fanouts", least=-1) for one in _list_of(fanouts)
        ]
        self._batch_size = checked_integer(batch_size, name="batch_size", least=1)
        self._shuffle = shuffle
        self._seed = checked_integer(seed, name="seed", least=0)
        if (rank is None) != (world_size is None):
            raise InvalidInputError("rank= and world_size= go together\ngive both, or neither")
        self._ranks = (
            1 if world_size is None else checked_integer(world_size, name="world_size", least=1)
        )
        self._rank = checked_integer(rank or 0, name="rank", least=0, most=self._ranks - 1)
        if framework not in ("torch", "numpy"):
            raise InvalidInputError(f"framework={shown(framework)}: give 'torch' or 'numpy'")
        self._torch = _torch() if framework == "torch" else None
        self.cache: PlannedCache = own.cache
        self.epoch = 0
        self._batch = 0  # the next one of the epoch

    def __len__(self) -> int:
        """Return the number of batches in an epoch, the same on every rank."""
        return ceil(self._per_rank / self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of an epoch, or those that are left of it.

        They are `Subgraph`; of a graph of several types, `HeteroSubgraph`.
        """
        order = self._order()
        while self._batch < len(self):
            numbers = range(self._batch, min(len(self), self._batch + SUPERBATCH))
            batches = [order[n * self._batch_size :][: self._batch_size] for n in numbers]
            randoms = [self._random(1 + self._rank, number) for number in numbers]
            reads = [one.read for one in self._edge_types]
            samples = sample(batches, self._fanouts, randoms, reads)
            for kind in self._types.values():
                kind.cache.follow([kind.own(one.nodes)[1] for one in samples])
            for seeds, one in zip(batches, samples, strict=True):
                made = self._subgraph(one, len(seeds))
                self._batch += 1
                yield made
        self.epoch, self._batch = self.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch, and what it depends on, as JSON values."""
        return {
            "epoch": self.epoch,
            "batch": self._batch,
            "version": " ".join(kind.view.version for kind in self._types.values()),
            "seeds": hashlib.sha256(self._seeds.tobytes()).hexdigest()[:16],
            "fanouts": self._fanouts,
            "batch_size": self._batch_size,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "world_size": self._ranks,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the last batch of a state.

        Raises:
            StateMismatchError: It is the state of another version, of other seeds or arguments.
        """
        own = self.state_dict()
        for name, value in own.items():
            if not isinstance(state, Mapping) or name not in state:  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
                raise StateMismatchError(f"the state has no {name!r}\ngive what state_dict() made")
            if name not in ("epoch", "batch") and state[name] != value:
                raise StateMismatchError(
                    f"the state is of {name} {shown(state[name])}, this loader of {shown(value)}"
                    "\nmake the loader as the one that the state is of",
                    expected=state[name],
                    actual=value,
                )
        self.epoch = checked_integer(state["epoch"], name="epoch", least=0)
        self._batch = checked_integer(state["batch"], name="batch", least=0, most=len(self))

    @property
    def _per_rank(self) -> int:
        return ceil(len(self._seeds) / self._ranks)

    def _order(self) -> Int64Array:
        """Return this rank's seeds in the order of the epoch."""
        seeds = self._seeds
        if self._shuffle:
            seeds = self._random(0, 0).permutation(seeds)
        places = np.arange(self._rank, self._per_rank * self._ranks, self._ranks)
        return seeds[places % max(1, len(seeds))]

    def _random(self, stream: int, number: int) -> np.random.Generator:
        sequence = np.random.SeedSequence(self._seed, spawn_key=(self.epoch, stream, number))
        return np.random.Generator(np.random.Philox(sequence))

    def _subgraph(self, one: Sample, seeds: int) -> Subgraph | HeteroSubgraph:
        nodes: dict[str, Any] = {}
        features: dict[str, Any] = {}
        labels: dict[str, Any] = {}
        edges: dict[EdgeType, Any] = {}
        edge_features: dict[EdgeType, Any] = {}
        position = np.zeros(len(one.nodes), np.int64)  # of each node among those of its type
        for name, kind in self._types.items():
            at, ids = kind.own(one.nodes)
            position[at] = np.arange(len(ids))
            nodes[name] = self._array(ids)
            if "x" in kind.view.schema:
                features[name] = self._array(kind.gather(ids))
            if "y" in kind.view.schema:
                labels[name] = self._array(np.array(kind.view["y"][ids], subok=False))
        for number, kind in enumerate(self._edge_types):
            is_own = one.kinds == number if self._is_hetero else slice(None)
            ends = np.stack([one.sources[is_own], one.targets[is_own]])
            edges[kind.name] = self._array(position[ends])
            values = kind.features(one.nodes[ends[1]], one.places[is_own])
            if values is not None:
                edge_features[kind.name] = self._array(values)
        if self._is_hetero:
            return HeteroSubgraph(nodes, edges, seeds, features, labels, edge_features)
        (n_id,), (ends,) = nodes.values(), edges.values()
        first = (next(iter(one.values()), None) for one in (features, labels, edge_features))
        return Subgraph(n_id, ends, seeds, *first)

    def _array(self, values: npt.NDArray[Any]) -> Any:
        return values if self._torch is None else self._torch.from_numpy(values)


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise missing_extra("framework='torch'", "torch") from error


def _list_of(fanouts: Any) -> list[Any]:
    if isinstance(fanouts, int) or not isinstance(fanouts, Sequence | np.ndarray):
        raise InvalidInputError(
            f"fanouts={shown(fanouts)}: give the neighbors at each hop, fanouts=[15, 10]"
        )
    return list(fanouts)


def _seeds_of_type(seeds: Any, types: Mapping[str, NodeType], view: Any) -> tuple[str, Any]:
    """Return the type that seeds are of, and the seeds."""
    if not isinstance(view, Mapping):
        return next(iter(types)), seeds
    if not isinstance(seeds, tuple) or len(seeds) != 2 or seeds[0] not in types:  # noqa: PLR2004 - a pair
        raise InvalidInputError(
            f"seeds={shown(seeds)}: a graph of several types takes a type of"
            f" {', '.join(map(repr, types))} with its nodes\nwrite"
            f" seeds=({next(iter(types), 'paper')!r}, ids)",
            argument="seeds",
        )
    return seeds


def _checked_seeds(seeds: Any, graph: Dataset | View) -> Int64Array:
    if isinstance(seeds, View | Dataset):
        if (seeds.url, seeds.version) != (graph.url, graph.version):
            raise InvalidInputError(
                f"seeds= is a view of {seeds.url!r} {seeds.version}, and the graph of {graph.url!r}"
                f" {graph.version}\nselect it from the graph"
            )
        return np.asarray(seeds.rows, np.int64)
    ids = np.asarray(seeds)
    if ids.ndim == 1 and ids.dtype == np.bool_ and len(ids) == len(graph):
        return np.flatnonzero(ids)
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"seeds= is {ids.dtype} {ids.shape}: give ids of nodes, a mask of {len(graph):,}, or a"
            " view of the graph",
            argument="seeds",
        )
    wrong = ids[(ids < 0) | (ids >= len(graph))]
    if len(wrong):
        raise InvalidInputError(
            f"seeds= has the node {wrong[0]}, and the graph has {len(graph):,}",
            argument="seeds",
            actual=int(wrong[0]),
        )
    if len(distinct(ids)) < len(ids):
        raise InvalidInputError(
            "seeds= has a node twice\ngive each once: np.unique(seeds)", argument="seeds"
        )
    return ids.astype(np.int64)
