"""``tl.graphs.partition``: nodes in parts with few edges between them, by METIS.

Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
graphs", SIAM Journal on Scientific Computing 20 (1998).
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError, SchemaError, missing_extra
from tensorlake.quantities import checked_integer
from tensorlake.types import Scalar
from tensorlake.workloads.graphs.convert import check_graph, edges_of

__all__ = ["partition"]

Int64Array = npt.NDArray[np.int64]

PART = "part"


def partition(ds: Dataset, parts: int) -> int:
    """Stage a tensor ``part``, int32: parts of about as many nodes, with few edges between them.

    Directions and repeats of edges, and edges from a node to itself, do not count. All edges are
    in memory.

    Args:
        ds: The graph.
        parts: The number of parts; nodes get a number below it.

    Returns:
        The number of edges between different parts, as they are in ``neighbors``.

    Raises:
        InvalidInputError: There are fewer nodes than parts.
        SchemaError: ``part`` is a tensor of another type.
        MissingExtraError: pymetis is not installed.
    """
    check_graph(ds)
    if not isinstance(ds, Dataset):
        raise InvalidInputError(
            "partition() stages a tensor, and a view is read only\ngive the dataset"
        )
    parts = checked_integer(parts, name="parts", least=1)
    if parts > len(ds):
        raise InvalidInputError(
            f"{ds.url!r} has {len(ds):,} nodes, fewer than parts={parts:,}", argument="parts"
        )
    kind = ds.schema.get(PART)
    if kind is not None and kind != Scalar("int32"):
        raise SchemaError(
            f"{PART!r} is {kind.describe()} already, not the int32 that partition() stages\nrename"
            f" it: ds.rename_tensor({PART!r}, …)",
            tensor=PART,
        )
    try:
        pymetis = import_module("pymetis")
    except ImportError as error:
        raise missing_extra("partition()", "graphs") from error
    ends, _ = edges_of(ds)
    offsets, neighbors = _undirected(ends, len(ds))
    if parts == 1:  # METIS refuses it
        found = np.zeros(len(ds), np.int32)
    else:
        _, labels = pymetis.part_graph(parts, xadj=offsets, adjncy=neighbors)
        found = np.asarray(labels, np.int32)
    if kind is None:
        ds.add_tensor(PART, Scalar("int32"), fill=0)
    ds[PART][:] = found
    return int(np.count_nonzero(found[ends[0]] != found[ends[1]]))


def _undirected(ends: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
    """Return each pair of neighbors in both directions, once, as offsets and ids."""
    both = np.concatenate([ends, ends[::-1]], axis=1)
    both = both[:, both[0] != both[1]]
    order = np.lexsort((both[1], both[0]))
    both = both[:, order]
    is_first = np.ones(both.shape[1], np.bool_)
    is_first[1:] = (np.diff(both) != 0).any(axis=0)
    both = both[:, is_first]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(both[0], minlength=count), out=offsets[1:])
    return offsets, both[1]
