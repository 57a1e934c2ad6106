"""Graphs in and out: edge lists and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset, View, create, infer_schema
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    MissingTensorError,
    SchemaError,
    ShapeMismatchError,
    UnsupportedFeatureError,
    missing_extra,
)
from tensorlake.quantities import checked_integer
from tensorlake.types import Array, Ragged, as_type

__all__ = [
    "NEIGHBORS",
    "check_ends",
    "check_graph",
    "check_ids",
    "checked_edges",
    "edges_of",
    "from_edges",
    "from_pyg",
    "rows_of",
    "to_pyg",
    "values_of",
    "write_nodes",
]

Int64Array = npt.NDArray[np.int64]

NEIGHBORS = "neighbors"
ENDS = 2  # source and target: axes of an edge index, and its first length
ROWS = 65_536
"""Rows that are staged together."""


MAX_NODES = 1 << 32
"""Tables by id have 8 bytes for each node, here and in samplers."""
SPARSE, MIN_SPARSE = 100, 100_000
"""With more nodes than SPARSE for each that has an edge, ids are names of nodes, not numbers."""


def from_edges(
    edge_index: Any,
    url: str | PathLike[str],
    x: Any = None,
    y: Any = None,
    num_nodes: int | None = None,
    *,
    edges: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **tensors: Any,
) -> Dataset:
    """Write a graph, given by its edges, as a dataset of nodes; one commit.

    Args:
        edge_index: Integers (2, edges): the source and the target of each edge. Edges may repeat,
            and lead from a node to itself; an undirected graph has each edge in both directions.
        url: The new dataset.
        x: Features of the nodes, (nodes, …).
        y: Labels of the nodes, (nodes, …).
        num_nodes: By default as many as other tensors have rows, or 1 more than the largest id.
        edges: Tensors with a row for each edge, by name: ``{"edge_attr": weights}``.
        schema: Types of some tensors; by default those that `tl.infer_schema` finds.
        storage_options: Credentials and endpoint of the dataset.
        **tensors: Further tensors, with a row for each node.

    Raises:
        InvalidInputError: An id is negative, or not below ``num_nodes``; or there is a dataset.
        ShapeMismatchError: A tensor does not have a row for each node, or edge.
        DTypeMismatchError: The ids are not integers.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.graphs.from_edges([[0, 1, 2], [1, 2, 1]], "memory://doc-edges", y=[5, 6, 7])
        >>> [ids.tolist() for ids in ds["neighbors"][:]]
        [[], [0, 2], [1]]
    """
    ends = checked_edges(edge_index)
    named = {"x": x, "y": y, **tensors}
    nodes = {name: rows_of(value) for name, value in named.items() if value is not None}
    count = _count_of(ends, nodes, num_nodes)
    own = {name: rows_of(value) for name, value in (edges or {}).items()}
    return write_nodes(url, count, nodes, [(NEIGHBORS, ends, own)], schema, storage_options)


def write_nodes(
    url: str | PathLike[str],
    count: int,
    nodes: Mapping[str, Any],
    edges: Sequence[tuple[str, Int64Array, Mapping[str, Any]]],
    schema: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
) -> Dataset:
    """Write nodes, with the edges into them as lists; one commit.

    Args:
        url: The new dataset.
        count: The number of nodes.
        nodes: Tensors with a row for each node.
        edges: For each type of edges the tensor of sources, sources and targets (2, edges), and
            tensors with a row for each edge.
        schema: Types of some tensors.
        storage_options: Credentials and endpoint of the dataset.
    """
    types: dict[str, Any] = {name: Array("int64", (None,)) for name, _, _ in edges}
    twice = next((name for name in nodes if name in types), None)
    types |= infer_schema(nodes) if nodes else {}
    lists: list[tuple[Int64Array, Int64Array, dict[str, Any]]] = []
    for neighbors, ends, tensors in edges:
        for name, values in tensors.items():
            if len(values) != ends.shape[1]:
                raise ShapeMismatchError(
                    f"{name!r} has {len(values):,} rows, and the graph {ends.shape[1]:,} edges",
                    tensor=name,
                    expected=ends.shape[1],
                    actual=len(values),
                )
        twice = next((name for name in tensors if name in types), twice)
        if twice is not None:
            raise SchemaError(f"{twice!r} names two tensors of the graph", tensor=twice)
        for name, values in tensors.items():
            types[name] = Array(str(values.dtype), (None, *values.shape[1:]))
        named = {neighbors: ends[0], **tensors}
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(ends[1], minlength=count), out=offsets[1:])
        lists.append((np.argsort(ends[1], kind="stable"), offsets, named))
    for name, kind in (schema or {}).items():
        if name not in types:
            raise SchemaError(
                f"schema= names {name!r}; tensors are {', '.join(types)}", tensor=name
            )
        types[name] = as_type(kind)
    dataset = create(url, types, storage_options=storage_options)
    for start in range(0, count, ROWS):
        stop = min(count, start + ROWS)
        rows: dict[str, Any] = {name: values[start:stop] for name, values in nodes.items()}
        for order, offsets, named in lists:
            part = order[offsets[start] : offsets[stop]]
            cuts = offsets[start + 1 : stop] - offsets[start]
            rows |= {name: np.split(values[part], cuts) for name, values in named.items()}
        dataset.extend(rows)
    dataset.commit(f"{count:,} nodes, {sum(ends.shape[1] for _, ends, _ in edges):,} edges")
    return dataset


def from_pyg(
    data: Any,
    url: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Write a ``torch_geometric.data.Data`` as a dataset of nodes; one commit.

    Args:
        data: A graph with ``edge_index``; tensors of nodes and of edges keep their names.
        url: The new dataset.
        schema: Types of some tensors.
        storage_options: Credentials and endpoint of the dataset.

    Raises:
        UnsupportedFeatureError: The graph has several types of nodes, or a value that is neither
            of nodes nor of edges.
        InvalidInputError: As `from_edges`.
    """
    if not hasattr(data, "edge_index") or not hasattr(data, "is_node_attr"):
        raise UnsupportedFeatureError(
            f"from_pyg() takes a torch_geometric.data.Data, got {type(data).__name__}\nwrite"
            " HeteroData by from_hetero()"
        )
    nodes: dict[str, Any] = {}
    edges: dict[str, Any] = {}
    for name, value in data.to_dict().items():
        if name in ("edge_index", "num_nodes"):
            continue
        if data.is_edge_attr(name):
            edges[name] = value
        elif data.is_node_attr(name):
            nodes[name] = value
        else:
            raise UnsupportedFeatureError(
                f"{name!r} has no row for each node or edge\nwrite the graph without it: del"
                f" data[{name!r}]",
                tensor=name,
            )
    ends, count = data.edge_index, data.num_nodes
    if ends is None:
        raise InvalidInputError(
            "from_pyg() takes a graph with edges, and its edge_index is None\nset data.edge_index,"
            " to torch.zeros((2, 0), dtype=torch.long) where there are none"
        )
    own = {"edges": edges, "schema": schema, "storage_options": storage_options}
    return from_edges(ends, url, num_nodes=count, **own, **nodes)


def to_pyg(ds: Dataset | View) -> Any:
    """Read a graph as a ``torch_geometric.data.Data``; all of it, in memory.

    Edges are in the order of their targets.

    Raises:
        MissingTensorError: The dataset has no ``neighbors``.
        MissingExtraError: PyTorch Geometric is not installed.
        UnsupportedFeatureError: A tensor is not an array of one shape.
    """
    check_graph(ds)
    try:
        torch, geometric = import_module("torch"), import_module("torch_geometric.data")
    except ImportError as error:
        raise missing_extra("to_pyg()", "graphs") from error
    ends, counts = edges_of(ds)
    data = geometric.Data(edge_index=torch.from_numpy(ends), num_nodes=len(ds))
    for name in ds.schema:
        if name != NEIGHBORS:
            data[name] = torch.from_numpy(values_of(ds, name, counts))
    return data


def values_of(ds: Dataset | View, name: str, counts: Int64Array) -> npt.NDArray[Any]:
    """Return a tensor of nodes, or of edges of which ``counts`` lead into each node.

    Raises:
        UnsupportedFeatureError: It is neither.
    """
    values = ds[name][:]
    if isinstance(values, Ragged) and np.array_equal(values.lengths.reshape(-1), counts):
        return np.array(values.values)
    if isinstance(values, np.ndarray):
        return np.array(values, subok=False)
    raise UnsupportedFeatureError(
        f"{name!r} is {ds.schema[name].describe()}, which is not an array\nchoose columns:"
        " to_pyg(ds[['neighbors', 'x']])",
        tensor=name,
    )


def edges_of(
    ds: Dataset | View, neighbors: str = NEIGHBORS, sources: int | None = None
) -> tuple[Int64Array, Int64Array]:
    """Return the edges (2, edges), by target, and the number of edges into each node."""
    lists = ds[neighbors][:]
    counts = np.asarray(lists.lengths, np.int64).reshape(-1)
    targets = np.repeat(np.arange(len(ds)), counts)
    ends = np.stack([np.asarray(lists.values, np.int64).reshape(-1), targets])
    check_ids(ends[0], ends[1], len(ds) if sources is None else sources)
    return ends, counts


def check_graph(ds: Any, *, is_typed: bool = False) -> None:
    """Refuse what is not a dataset of nodes; of one of several types ``neighbors`` may be missing.

    Raises:
        InvalidInputError: It is not a dataset, or not all of its rows in their order.
        MissingTensorError: It has no ``neighbors``.
    """
    if not isinstance(ds, Dataset | View):
        raise InvalidInputError(f"a graph is a dataset, got {type(ds).__name__}", actual=ds)
    if NEIGHBORS not in ds.schema and not is_typed:
        raise MissingTensorError(
            f"{ds.url!r} has no tensor {NEIGHBORS!r}, and a graph has its edges there\nwrite it by"
            " tl.graphs.from_edges()",
            tensor=NEIGHBORS,
        )
    if isinstance(ds, View) and not np.array_equal(ds.rows, np.arange(len(ds))):
        raise InvalidInputError(
            f"the view has {len(ds):,} rows chosen of {ds.url!r}, and ids of nodes are row numbers"
            "\ngive the dataset, and the nodes as seeds="
        )


def check_ids(ids: Int64Array, nodes: Int64Array, count: int) -> None:
    """Refuse neighbors that are not nodes: rows were deleted, or appended without their own.

    Raises:
        InvalidInputError: A neighbor is not a row.
    """
    wrong = np.flatnonzero((ids < 0) | (ids >= count))
    if len(wrong):
        raise InvalidInputError(
            f"row {nodes[wrong[0]]} of {NEIGHBORS!r} has the node {ids[wrong[0]]}, and there are"
            f" {count:,}\nids are row numbers: write the graph again when rows were deleted",
            row=int(nodes[wrong[0]]),
            actual=int(ids[wrong[0]]),
        )


def checked_edges(edge_index: Any) -> Int64Array:
    """Return sources and targets, (2, edges).

    Raises:
        ShapeMismatchError: They have another shape.
        DTypeMismatchError: They are not integers.
        InvalidInputError: An id is above those of int64.
    """
    ends = np.asarray(edge_index)
    if ends.size == 0 and ends.ndim <= ENDS:
        return np.zeros((2, 0), np.int64)
    if ends.ndim != ENDS or ends.shape[0] != ENDS:
        raise ShapeMismatchError(
            f"edge_index has shape {ends.shape}, not (2, edges): sources and targets\nturn a list"
            " of pairs: np.transpose(pairs)",
            expected="(2, edges)",
            actual=ends.shape,
        )
    if ends.dtype.kind not in "iu":
        raise DTypeMismatchError(
            f"edge_index has {ends.dtype}, and ids of nodes are integers", actual=str(ends.dtype)
        )
    most = np.iinfo(np.int64).max
    if ends.dtype.kind == "u" and int(ends.max()) > most:
        raise InvalidInputError(f"edge_index has the id {ends.max()}, above {most}")
    return ends.astype(np.int64)


def rows_of(value: Any) -> Any:
    """Return an array of what NumPy knows; lists of other things as they are."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array = np.asarray(value)
    return array if array.dtype != object else value


def _count_of(ends: Int64Array, nodes: Mapping[str, Any], num_nodes: int | None) -> int:
    if num_nodes is not None:
        count = checked_integer(num_nodes, name="num_nodes", least=0, most=MAX_NODES)
    elif nodes:
        count = len(next(iter(nodes.values())))
    else:
        count = int(ends.max()) + 1 if ends.size else 0
        used = len(np.unique(ends)) if count > MIN_SPARSE else count
        if count > SPARSE * used:
            raise InvalidInputError(
                f"edge_index has the id {count - 1:,}, and {used:,} different ids: the graph would"
                f" have {count:,} nodes, almost all without an edge\nnumber nodes from 0:"
                " names, ids = np.unique(edge_index, return_inverse=True); or give num_nodes=",
                actual=count - 1,
            )
    for name, values in nodes.items():
        if len(values) != count:
            raise ShapeMismatchError(
                f"{name!r} has {len(values):,} rows, and the graph {count:,} nodes",
                tensor=name,
                expected=count,
                actual=len(values),
            )
    check_ends(ends, count, count)
    return count


def check_ends(ends: Int64Array, sources: int, targets: int) -> None:
    """Refuse edges that lead from or to nodes that there are not.

    Raises:
        InvalidInputError: An end is not a node.
    """
    wrong = np.argwhere((ends < 0) | (ends >= np.array([[sources], [targets]])))
    if len(wrong):
        end, edge = wrong[np.argmin(wrong[:, 1])]
        node, how, count = int(ends[end, edge]), ("from", "to")[end], (sources, targets)[end]
        raise InvalidInputError(
            f"edge {edge} leads {how} the node {node}, and the graph has {count:,} nodes\nids are"
            f" from 0 to {count - 1:,}; num_nodes= gives more",
            edge=int(edge),
            actual=node,
        )
