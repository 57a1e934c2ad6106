"""Datasets over a store that a test made, and what they hold as plain Python.

`tl.create` and `tl.open` take URLs; a test that counts requests, or lets some fail, has a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import Schema
from tensorlake.reading import Reader, Snapshot
from tensorlake.storage import MemoryStore, Store, runtime
from tensorlake.versions import create_dataset, resolve

HINT_TIMEOUT_S = 60.0


def create_on(store: Store, schema: Mapping[str, Any]) -> Dataset:
    """Make a dataset in a store."""
    created = create_dataset(store, Schema.new(schema).to_json(), grace_s=86_400, exist_ok=False)
    return Dataset(Session(store, runtime.run(created)))


def open_on(store: Store, version: str | None = None) -> Dataset:
    """Open the dataset in a store."""
    return Dataset(Session(store, runtime.run(resolve(store, version))))


def reopened(dataset: Dataset) -> Dataset:
    """Open the newest version of a handle's dataset, as another would."""
    return open_on(session_of(dataset).store)


def labelled_store(rows: int) -> MemoryStore:
    """Make a dataset of numbers, texts and labels in a store: row ``n`` has ``x == y == n``."""
    store = MemoryStore()
    labels = tl.ClassLabel(["cat", "dog"])
    dataset = create_on(store, {"x": "int64", "y": "int64", "text": "str", "label": labels})
    n = np.arange(rows)
    dataset.extend({"x": n, "y": n, "text": [f"row {i}" for i in n], "label": n % 2})
    dataset.commit()
    return store


def wait_for_storage() -> None:
    """Wait for what calls leave running behind them: packs being sent, `HEAD` being put."""
    runtime.run(_idle(), timeout_s=HINT_TIMEOUT_S)


async def _idle() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


def rows_of(data: tl.Dataset | tl.View, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Read everything, as plain Python values."""
    chosen = list(data.schema) if names is None else names
    return [{name: plain(row[name]) for name in chosen} for row in data]


def plain(value: Any) -> Any:
    """Bring a value to lists, numbers and texts, which compare by ==."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def reader_without_totals(dataset: Dataset) -> Reader:
    """Read a version as if its writer had not stated what the chunks below a page weigh."""
    head = session_of(dataset).head
    roots = {
        tensor: replace(
            root, children=tuple(replace(child, stored_nbytes=None) for child in root.children)
        )
        for tensor, root in head.roots.items()
    }
    packs = session_of(dataset).packs
    return Reader(Snapshot.of_entry(head.changed(roots=roots), packs, branch="main"))
