"""Column groups as plain Python: what a test stages, and what a handle reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.types import Column, UniformColumn, as_type

TYPES = {"item": "str", "size": "int64"}
"""The parts of a small ledger."""

Item = tuple[str, int]


def columns(items: Sequence[Item]) -> dict[str, Column]:
    """Convert items to columns of the parts."""
    given = {"item": [item for item, _ in items], "size": [size for _, size in items]}
    return {
        name: as_type(TYPES[name]).convert(values, tensor=name) for name, values in given.items()
    }


def replace_group(dataset: Dataset, name: str, items: Sequence[Item]) -> None:
    """Stage a group with these items alone."""
    session_of(dataset).stage_group(name, "ledger", columns(items), types=TYPES)


def append_to_group(dataset: Dataset, name: str, items: Sequence[Item]) -> None:
    """Stage more items of a group."""
    session_of(dataset).stage_group(name, "ledger", columns(items))


def group_of(dataset: Dataset, name: str) -> list[Item] | None:
    """Read a group; None without one."""
    reader = session_of(dataset).group(name)
    if reader is None:
        return None
    rows = np.arange(reader.snapshot.num_rows)
    items: Any = reader.read("item", rows)
    sizes = reader.read("size", rows)
    assert isinstance(sizes, UniformColumn)
    return [
        (bytes(item).decode(), size)
        for item, size in zip(items.samples, sizes.values.tolist(), strict=True)
    ]


def groups_of(dataset: Dataset) -> dict[str, list[Item] | None]:
    """Read all groups."""
    return {name: group_of(dataset, name) for name in session_of(dataset).snapshot().state.groups}
