"""Graphs of the Open Graph Benchmark, from the files that it unpacks: ``tl.graphs.from_ogb``.

    raw/edge.csv.gz           sources and targets        raw/num-node-list.csv.gz  one number
    raw/node-feat.csv.gz      features                   raw/node-label.csv.gz     labels
    raw/edge-feat.csv.gz      features of edges          raw/node_year.csv.gz, …   further tensors
    split/SCHEME/train.csv.gz, valid.csv.gz, test.csv.gz     nodes of the parts
    raw/data.npz, raw/node-label.npz                         the same as arrays, of the largest

Source: Hu et al., https://arxiv.org/abs/2005.00687, and ``ogb/io/read_graph_raw.py`` for the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError
from tensorlake.types import ClassLabel
from tensorlake.workloads.graphs.convert import from_edges

__all__ = ["from_ogb"]

Array = npt.NDArray[Any]

PARTS = ("train", "valid", "test")
NAMES = {"node-feat": "x", "node-label": "y", "node_feat": "x", "node_label": "y"}


def from_ogb(
    folder: str | PathLike[str],
    url: str | PathLike[str],
    *,
    inverse: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Write a graph of OGB's node properties as a dataset of nodes; one commit.

    Nodes have ``x``, ``y``, ``split`` (train, valid or test) and what else the files have.

    Args:
        folder: The unpacked dataset, such as ``dataset/ogbn_arxiv``.
        url: The new dataset.
        inverse: Add each edge in the other direction, as OGB's loader does of undirected graphs
            such as ogbn-products.
        storage_options: Credentials and endpoint of the dataset.

    Raises:
        InvalidInputError: A file is missing, or is not a table of numbers; there are several
            graphs; or as `from_edges`.
    """
    raw = Path(folder) / "raw"
    arrays = _of_archives(raw) if (raw / "data.npz").exists() else _of_tables(raw)
    counts = arrays.pop("counts").reshape(-1)
    if len(counts) != 1:
        raise InvalidInputError(
            f"{str(raw)!r} has {len(counts):,} graphs, and from_ogb() reads one\nwrite a row for"
            " each graph: ds.extend(…)"
        )
    ends, edge_attr = arrays.pop("edges"), arrays.pop("edge_attr", None)
    if inverse:
        ends = np.concatenate([ends, ends[::-1]], axis=1)
        edge_attr = None if edge_attr is None else np.concatenate([edge_attr, edge_attr])
    nodes: dict[str, Any] = {
        name: one[:, 0] if name == "y" and one.ndim > 1 and one.shape[1] == 1 else one
        for name, one in arrays.items()
    }
    nodes |= _split(Path(folder), int(counts[0]))
    schema = {"split": ClassLabel([*PARTS], nullable=True)} if "split" in nodes else None
    edges = {} if edge_attr is None else {"edge_attr": edge_attr}
    own = {"edges": edges, "schema": schema, "storage_options": storage_options}
    return from_edges(ends, url, num_nodes=int(counts[0]), **own, **nodes)


def _of_tables(raw: Path) -> dict[str, Array]:
    found = {
        "edges": _table(raw / "edge.csv.gz").T,
        "counts": _table(raw / "num-node-list.csv.gz"),
    }
    if (raw / "edge-feat.csv.gz").exists():
        found["edge_attr"] = _table(raw / "edge-feat.csv.gz")
    for path in sorted((*raw.glob("node-*.csv.gz"), *raw.glob("node_*.csv.gz"))):
        name = path.name.removesuffix(".csv.gz")
        found[NAMES.get(name, name)] = _table(path)
    return found


def _of_archives(raw: Path) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for path in (raw / "data.npz", raw / "node-label.npz"):
        with np.load(path) as archive:
            found |= {name: archive[name] for name in archive.files}
    found = {NAMES.get(name, name): values for name, values in found.items()}
    renamed = {"edge_index": "edges", "num_nodes_list": "counts", "edge_feat": "edge_attr"}
    found.pop("num_edges_list", None)
    return {renamed.get(name, name): values for name, values in found.items() if values.ndim}


def _split(folder: Path, count: int) -> dict[str, list[str | None]]:
    schemes = sorted(path for path in (folder / "split").glob("*") if path.is_dir())
    if not schemes:
        return {}
    parts: list[str | None] = [None] * count
    for part in PARTS:
        path = schemes[0] / f"{part}.csv.gz"
        for node in _table(path).reshape(-1).tolist() if path.exists() else ():
            if not 0 <= node < count:
                raise InvalidInputError(
                    f"{str(path)!r} has the node {node}, and the graph has {count:,}", actual=node
                )
            parts[node] = part
    return {"split": parts}


def _table(path: Path) -> Array:
    """Read numbers, (rows, columns)."""
    import pyarrow as pa
    from pyarrow import csv

    if not path.exists():
        raise InvalidInputError(
            f"there is no {str(path)!r}\ngive the folder that has raw/, as OGB unpacked it"
        )
    try:
        table = csv.read_csv(path, read_options=csv.ReadOptions(autogenerate_column_names=True))
        columns = [np.asarray(column) for column in table.columns]
    except (pa.ArrowInvalid, OSError) as error:
        if not path.stat().st_size or "Empty CSV" in str(error):
            return np.zeros((0, 1), np.int64)
        raise InvalidInputError(f"{str(path)!r} is not a CSV file: {error}") from error
    odd = next((one.dtype for one in columns if one.dtype.kind not in "iuf"), None)
    if odd is not None:
        raise InvalidInputError(f"{str(path)!r} has {odd}, and OGB's tables have numbers")
    values = np.stack(columns, axis=1)
    return values.astype(np.float32) if values.dtype == np.float64 else values
