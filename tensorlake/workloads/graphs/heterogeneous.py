"""Graphs of several types of nodes and edges: ``HeteroData`` of PyTorch Geometric in and out.

Each type of nodes is a dataset (``node_types.py``), with a history of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from os import PathLike, fspath
from typing import Any

import numpy as np

from tensorlake.dataset import Dataset, View
from tensorlake.errors import (
    InvalidInputError,
    UnsupportedFeatureError,
    missing_extra,
)
from tensorlake.workloads.graphs.convert import (
    NEIGHBORS,
    check_ends,
    checked_edges,
    edges_of,
    rows_of,
    values_of,
    write_nodes,
)
from tensorlake.workloads.graphs.node_types import types_of

__all__ = ["from_hetero", "to_hetero"]


def from_hetero(
    data: Any,
    url: str | PathLike[str],
    *,
    schema: Mapping[str, Mapping[str, Any]] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Dataset]:
    """Write a ``torch_geometric.data.HeteroData``: a dataset, and a commit, for each type of nodes.

    Args:
        data: The graph. Its tensors keep their names, those of edges with the source and the
            relation: ``neighbors.author.writes`` and ``edge_attr.author.writes`` of papers. A type
            with neither has ``id``.
        url: A folder, where each type has a dataset of its name.
        schema: Types of some tensors, for each type of nodes.
        storage_options: Credentials and endpoint of the datasets.

    Raises:
        UnsupportedFeatureError: A value is neither of nodes nor of edges, or a name has a dot or a
            slash.
        InvalidInputError: An edge leads to a node that there is not; or there is a dataset.
    """
    if not hasattr(data, "node_types") or not hasattr(data, "edge_types"):
        raise InvalidInputError(
            f"from_hetero() takes a torch_geometric.data.HeteroData, got {type(data).__name__}"
            "\nwrite a graph of one type by from_pyg()"
        )
    for name in (*data.node_types, *(part for one in data.edge_types for part in one)):
        if "." in name or "/" in name:
            raise UnsupportedFeatureError(
                f"the type {name!r} has a dot or a slash, which part names of tensors and folders"
                "\nrename it"
            )
    counts = {name: int(data[name].num_nodes or 0) for name in data.node_types}
    edges: dict[str, list[tuple[str, Any, dict[str, Any]]]] = {name: [] for name in counts}
    for kind in data.edge_types:
        source, relation, target = kind
        own = {name: rows_of(value) for name, value in data[kind].items()}
        ends = checked_edges(own.pop("edge_index", np.zeros((2, 0), np.int64)))
        try:
            check_ends(ends, counts[source], counts[target])
        except InvalidInputError as error:
            error.add_note(f"in the edges {kind}")
            raise
        suffix = f"{source}.{relation}"
        tensors = {f"{name}.{suffix}": values for name, values in own.items()}
        edges[target].append((f"{NEIGHBORS}.{suffix}", ends, tensors))
    made: dict[str, Dataset] = {}
    for name, count in counts.items():
        nodes = {key: value for key, value in data[name].items() if key != "num_nodes"}
        odd = next((key for key in nodes if not data[name].is_node_attr(key)), None)
        if odd is not None:
            raise UnsupportedFeatureError(
                f"{odd!r} of {name!r} has no row for each node\nwrite the graph without it: del"
                f" data[{name!r}][{odd!r}]",
                tensor=odd,
            )
        rows = {key: rows_of(value) for key, value in nodes.items()}
        if not rows and not edges[name]:
            rows = {"id": np.arange(count)}  # a dataset has a tensor
        where = f"{fspath(url).rstrip('/')}/{name}"
        own = (schema or {}).get(name)
        made[name] = write_nodes(where, count, rows, edges[name], own, storage_options)
    return made


def to_hetero(graph: Mapping[str, Dataset | View]) -> Any:
    """Read a graph of several types as a ``torch_geometric.data.HeteroData``, into memory.

    Args:
        graph: The dataset of each type of nodes, by name.

    Raises:
        MissingTensorError: Edges come from a type that is not there.
        MissingExtraError: PyTorch Geometric is not installed.
        UnsupportedFeatureError: A tensor is not an array of one shape.
    """
    _, edges = types_of(graph, 0)
    try:
        torch, geometric = import_module("torch"), import_module("torch_geometric.data")
    except ImportError as error:
        raise missing_extra("to_hetero()", "graphs") from error
    data = geometric.HeteroData()
    for name, ds in graph.items():
        data[name].num_nodes = len(ds)
    for kind in edges:
        source, relation, target = kind.name
        ds, suffix = graph[target], f".{source}.{relation}"
        ends, counts = edges_of(ds, kind.neighbors, len(graph[source]))
        data[kind.name].edge_index = torch.from_numpy(ends)
        for name in ds.schema:
            if name.endswith(suffix) and name != kind.neighbors:
                values = values_of(ds, name, counts)
                data[kind.name][name.removesuffix(suffix)] = torch.from_numpy(values)
    for name, ds in graph.items():
        of_edges = tuple(f".{kind.name[0]}.{kind.name[1]}" for kind in edges)
        for tensor in ds.schema:
            if not tensor.endswith(of_edges):
                counts = np.zeros(0, np.int64)
                data[name][tensor] = torch.from_numpy(values_of(ds, tensor, counts))
    return data
