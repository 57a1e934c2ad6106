"""A dataset made by many small commits: what optimizing is for; and how to look at its index."""

from __future__ import annotations

import numpy as np

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import Extents
from tensorlake.storage import Store, runtime
from tensorlake.versions import stored_chunks, table_of
from tests.support.handles import create_on, rows_of

SCHEMA = {
    "label": "int64",
    "vector": tl.Embedding(96),  # 384 B: raw, addressed by row
    "boxes": tl.BBox(format="xyxy"),
    "text": tl.Text(nullable=True),
    "data": tl.Bytes(),
}


def row(number: int) -> dict[str, object]:
    """One row, which follows from its number."""
    return {
        "label": number,
        "vector": np.full(96, number, np.float32),
        "boxes": np.full((number % 3, 4), number, np.float32),
        "text": None if number % 5 == 0 else f"text {number}",
        "data": bytes([number % 256]) * (100 + number),
    }


def extend(ds: Dataset, start: int, stop: int) -> None:
    """Stage the rows of some numbers."""
    rows = [row(number) for number in range(start, stop)]
    ds.extend({name: [one[name] for one in rows] for name in SCHEMA})


def many_small_commits(store: Store, commits: int = 12, rows: int = 3) -> Dataset:
    """Fill a new dataset, a few rows a commit."""
    ds = create_on(store, SCHEMA)
    for number in range(commits):
        extend(ds, number * rows, (number + 1) * rows)
        ds.commit(f"commit {number}")
    return ds


def content(ds: Dataset) -> tuple[list[str], list[dict[str, object]]]:
    """Row ids and rows, in order."""
    return ds.row_ids, rows_of(ds)


def extents_of(ds: Dataset, name: str) -> Extents:
    """Read a tensor's whole index."""
    snapshot = rowset_of(ds).selection.snapshot
    root = snapshot.state.roots[snapshot.spec(name).id]
    return runtime.run(table_of(root, snapshot.packs.pages))


def chunk_count(ds: Dataset, name: str) -> int:
    """How many chunks a tensor's index refers to."""
    return len(stored_chunks(extents_of(ds, name)))
