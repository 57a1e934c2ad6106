"""Dropping computed columns beside other writers: nothing is lost, so nothing conflicts."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on


def square(row: dict[str, Any]) -> int:
    return row["x"] ** 2


def dataset_on(store: MemoryStore) -> Dataset:
    """Make a dataset with a column of a function and one of an expression."""
    ds = create_on(store, {"x": "int64"})
    ds.extend({"x": [0, 1]})
    ds.add_tensor("square", "int64", compute=square, inputs=["x"])
    ds.add_tensor("double", "int64", compute="2 * x")
    ds.commit("two computed columns")
    return ds


@pytest.mark.parametrize("name", ["square", "double"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_computed_column_can_be_dropped_while_others_append(name: str, *, is_first: bool) -> None:
    store = MemoryStore(f"computed-dropped-{name}-{is_first}")
    dataset_on(store)
    one, other = open_on(store), open_on(store)
    one.drop_tensor(name)
    other.append({"x": 9})
    other["x"][0] = 5
    other.refresh_columns()
    for writer in (one, other) if is_first else (other, one):
        writer.commit("a change")

    last = open_on(store)
    assert name not in last[0]
    assert last["x"][:].tolist() == [5, 1, 9]


@pytest.mark.parametrize("name", ["square", "double"])
def test_a_branch_that_dropped_a_computed_column_is_merged(name: str) -> None:
    ds = dataset_on(MemoryStore(f"computed-dropped-there-{name}"))
    other = ds.branch("other")
    other.drop_tensor(name)
    other.commit("dropped")
    ds.append({"x": 9})
    ds.refresh_columns()
    ds.commit("appended")
    ds.merge("other")

    assert name not in ds[0]
    assert ds["x"][-1] == 9


def test_a_group_goes_with_the_reasons_of_its_columns_or_stays_whole() -> None:
    ds = create_on(MemoryStore("computed-dropped-group"), {"g": tl.Struct({"x": "int64"})})
    ds.append({"g": {"x": 1}})

    def failing(row: dict[str, Any]) -> int:
        raise ValueError("no")

    ds.add_tensor("g/z", "int64", compute=failing, inputs=["g/x"])
    with pytest.warns(tl.SkippedRowsWarning):
        ds.refresh_columns()
    names = ["g/x", "g/z", "g/z.error"]
    assert list(ds.schema) == names
    with pytest.raises(tl.SchemaError, match="'g' has all tensors of"):
        ds.drop_tensor("g")
    assert list(ds.schema) == names

    ds.add_tensor("other", "int64", fill=0)
    ds.drop_tensor("g")
    assert list(ds.schema) == ["other"]
