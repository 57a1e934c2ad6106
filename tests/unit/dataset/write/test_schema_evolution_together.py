"""Altered types beside what other writers and branches do."""

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tests.support.handles import rows_of

_names = itertools.count()


def new(schema, **columns):
    ds = tl.create(f"memory://altered-together-{next(_names)}", schema)
    ds.extend(columns)
    ds.commit("first")
    return ds


@pytest.mark.parametrize("is_wider_first", [True, False])
def test_a_widening_combines_with_rows_that_another_appends(is_wider_first):
    ds = new({"x": "int8"}, x=[1])
    widening, appending = tl.open(ds.url), tl.open(ds.url)
    widening.alter_tensor("x", dtype="int32")
    widening.append({"x": 70_000})
    appending.append({"x": 2})
    first, second = (widening, appending) if is_wider_first else (appending, widening)
    first.commit()
    second.commit()

    again = tl.open(ds.url)
    assert again["x"].dtype == np.int32
    assert sorted(again["x"][:].tolist()) == [1, 2, 70_000]
    assert again.query("WHERE x > 1000").rows.tolist() == [1 if is_wider_first else 2]


def test_two_changes_of_one_tensor_conflict_and_equal_ones_do_not():
    ds = new({"x": "int8", "y": "int8"}, x=[1], y=[1])
    first, second, third, fourth = (tl.open(ds.url) for _ in range(4))
    first.alter_tensor("x", dtype="int32")
    second.alter_tensor("x", dtype="int64")
    third.alter_tensor("y", dtype="int64")
    fourth.alter_tensor("x", dtype="int32")
    first.commit()
    with pytest.raises(tl.ConflictError):
        second.commit()
    second.discard()
    third.commit()
    fourth.commit()

    assert [one.dtype for one in tl.open(ds.url).schema.values()] == [np.int32, np.int64]


def test_a_branch_that_widened_and_one_that_appended_are_merged():
    ds = new({"x": "uint8", "y": tl.Array("uint8", (2,))}, x=[1], y=[[1, 1]])
    side = ds.branch("side")
    side.alter_tensor("x", dtype="float32")
    side.alter_tensor("y", shape=(None,))
    side.append({"x": 0.5, "y": [7]})
    side.commit()
    ds.append({"x": 255, "y": [2, 2]})
    ds.commit()

    ds.merge("side")

    again = tl.open(ds.url)
    assert again["x"][:].tolist() == [1.0, 255.0, 0.5]
    assert [one.tolist() for one in again["y"][:]] == [[1, 1], [2, 2], [7]]
    assert tl.open(ds.url, "side")["x"][:].tolist() == [1.0, 0.5]


def test_a_restored_version_has_its_type_again_and_may_widen_another_way():
    ds = new({"x": "int8"}, x=[1, 2])
    ds.alter_tensor("x", dtype="int32")
    ds.append({"x": 70_000})
    ds.commit()
    ds.restore("main@1")
    assert (ds["x"].dtype, ds["x"][:].tolist()) == (np.int8, [1, 2])
    ds.alter_tensor("x", dtype="float64")
    ds.append({"x": 0.5})
    ds.commit()

    assert tl.open(ds.url)["x"][:].tolist() == [1.0, 2.0, 0.5]
    assert tl.open(ds.url, "main@2")["x"][:].tolist() == [1, 2, 70_000]
    assert tl.open(ds.url, "main@2")["x"].dtype == np.int32


def test_old_and_new_chunks_are_optimized_into_ones_of_the_new_type():
    """format.md 11: no value changes."""
    ds = new({"x": "uint8", "y": tl.Array("uint8", (2,), nullable=True)}, x=[1], y=[[1, 1]])
    ds.append({"x": 2, "y": None})
    ds.commit()
    ds.alter_tensor("x", dtype="int16")
    ds.alter_tensor("y", shape=(None,))
    ds.append({"x": -3, "y": [5]})
    ds.commit()
    before = rows_of(ds)

    ds.optimize()

    again = tl.open(ds.url)
    assert rows_of(again) == before
    assert again["x"][:].dtype == np.int16
