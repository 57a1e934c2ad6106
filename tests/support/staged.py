"""A dataset with one committed and one staged row, in a store that can be made to fail."""

from __future__ import annotations

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import Store
from tensorlake.testing import FaultyStore
from tests.support.handles import create_on, open_on


def with_staged_row(store: FaultyStore) -> Dataset:
    """Create it: ``x`` is 0 in the committed row and 1 in the staged one."""
    dataset = create_on(store, {"x": "int64"})
    dataset.append({"x": 0})
    dataset.commit("first")
    dataset.append({"x": 1})
    return dataset


def add_row(store: FaultyStore, x: int) -> None:
    """Commit a row through another handle."""
    other = open_on(store)
    other.append({"x": x})
    other.commit(f"row {x}")


async def packs_in(store: Store) -> list[str]:
    """List the paths of the packs."""
    return [meta.path async for meta in store.list("packs/")]


def values(store: FaultyStore) -> list[int]:
    """Read ``x`` of the newest version."""
    return open_on(store)["x"][:].tolist()
