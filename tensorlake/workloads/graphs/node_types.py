"""The types of nodes and edges of a graph, as samplers and loaders read them.

A graph of several types is a dataset for each type of nodes. Edges (source, relation, target) are
in that of the target: ``neighbors.source.relation`` has ids in that of the source, and
``edge_attr.source.relation`` their features. A graph of one type has ``neighbors`` and
``edge_attr``.

A sampler sees one space of ids: those of a type are shifted by the nodes of the types before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset, View
from tensorlake.errors import InvalidInputError, MissingTensorError, UnsupportedFeatureError
from tensorlake.loader import PlannedCache
from tensorlake.types import SampleType
from tensorlake.workloads.graphs.convert import NEIGHBORS, check_graph, check_ids

__all__ = ["EdgeType", "Edges", "NodeType", "types_of"]

Int64Array = npt.NDArray[np.int64]
EdgeType = tuple[str, str, str]
"""(source, relation, target), as in PyTorch Geometric."""

EDGE_ATTR = "edge_attr"


@dataclass(frozen=True, slots=True)
class NodeType:
    """Nodes of one type: those from ``start`` on, in the ids of all types."""

    view: View
    start: int
    count: int
    cache: PlannedCache

    def own(self, nodes: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return where nodes of this type are, and their ids in the type."""
        ids = nodes - self.start
        at = np.flatnonzero((ids >= 0) & (ids < self.count))
        return at, ids[at]

    def gather(self, ids: Int64Array) -> npt.NDArray[Any]:
        """Return features, (ids, …)."""
        return self.cache.gather(ids, lambda missing: self.view["x"][missing])


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges of one type."""

    name: EdgeType
    source: NodeType
    target: NodeType
    neighbors: str
    edge_attr: str | None

    def read(self, ids: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Read the neighbors of sorted nodes, one list after another, and the lists' offsets."""
        at, own = self.target.own(ids)
        lists = self.target.view[self.neighbors][own]
        values = np.asarray(lists.values, np.int64).reshape(-1)
        counts = np.zeros(len(ids), np.int64)
        counts[at] = np.diff(np.asarray(lists.offsets, np.int64))
        check_ids(values, np.repeat(ids, counts) - self.target.start, self.source.count)
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        return values + self.source.start, offsets

    def features(self, targets: Int64Array, places: Int64Array) -> npt.NDArray[Any] | None:
        """Return features of edges, by target and the place in its list; None without any."""
        if self.edge_attr is None:
            return None
        unique, at = np.unique(targets - self.target.start, return_inverse=True)
        lists = self.target.view[self.edge_attr][unique]
        return np.asarray(lists.values)[np.asarray(lists.offsets)[at] + places]


def types_of(
    graph: Dataset | View | Mapping[str, Dataset | View], cache_nbytes: int
) -> tuple[dict[str, NodeType], list[Edges]]:
    """Return the types of a graph, with a cache of features for each type of nodes.

    Raises:
        InvalidInputError: It is not a graph, or has no types.
        MissingTensorError: A graph has no edges, or they come from a type that it does not have.
        UnsupportedFeatureError: Features or labels are not arrays of one shape.
    """
    if not isinstance(graph, Mapping):
        check_graph(graph)
        own = _node_type(graph, 0, cache_nbytes)
        edge_attr = EDGE_ATTR if EDGE_ATTR in graph.schema else None
        return {"": own}, [Edges(("", "", ""), own, own, NEIGHBORS, edge_attr)]
    types: dict[str, NodeType] = {}
    start = 0
    for name, view in graph.items():
        check_graph(view, is_typed=True)
        types[name] = _node_type(view, start, cache_nbytes)
        start += len(view)
    edges: list[Edges] = []
    for name, target in types.items():
        for column in target.view.schema:
            if not column.startswith(f"{NEIGHBORS}."):
                continue
            source, _, relation = column.removeprefix(f"{NEIGHBORS}.").partition(".")
            if source not in types:
                raise MissingTensorError(
                    f"{column!r} of {name!r} has nodes of type {source!r}, and the graph has"
                    f" {', '.join(map(repr, types))}\nadd it to the dict",
                    tensor=column,
                )
            edge_attr = f"{EDGE_ATTR}.{source}.{relation}"
            known = edge_attr if edge_attr in target.view.schema else None
            edges.append(Edges((source, relation, name), types[source], target, column, known))
    if not edges:
        raise InvalidInputError(
            "the graph has no edges: no dataset has a tensor 'neighbors.source.relation'\nwrite it"
            " by tl.graphs.from_hetero()"
        )
    return types, edges


def _node_type(graph: Dataset | View, start: int, cache_nbytes: int) -> NodeType:
    names = ("x", "y", NEIGHBORS, EDGE_ATTR)
    view = graph[[name for name in graph.schema if name.split(".")[0] in names]]
    for name in ("x", "y"):
        kind = view.schema.get(name)
        if kind is not None and (kind.dtype is None or None in kind.shape or kind.nullable):
            raise UnsupportedFeatureError(
                f"{name!r} is {kind.describe()}: nodes have arrays of one shape there, without"
                " NULL\nname the tensor otherwise, or write the graph with another",
                tensor=name,
            )
    capacity = cache_nbytes // max(1, _row_nbytes(view.schema.get("x")))
    return NodeType(view, start, len(view), PlannedCache(min(len(view), capacity)))


def _row_nbytes(kind: SampleType | None) -> int:
    if kind is None or kind.dtype is None:
        return 0
    return kind.dtype.itemsize * int(np.prod([size or 0 for size in kind.shape], dtype=np.int64))
