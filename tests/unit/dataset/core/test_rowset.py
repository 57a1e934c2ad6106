"""Handles are one level above RowSet, a value that everything below them takes and returns."""

import pickle

import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of, session_of


def new(url: str) -> tl.Dataset:
    ds = tl.create(url, {"x": "int64"})
    ds.extend({"x": [1, 2, 3]})
    ds.commit("three rows")
    return ds


@pytest.mark.parametrize("kind", [tl.Dataset, tl.View])
def test_a_handle_is_one_level_above_what_it_inherits(kind):
    assert len(kind.__mro__) <= 3


def test_the_rows_of_a_dataset_stay_when_it_moves_on():
    ds = new("memory://rowset-stays")
    rows = rowset_of(ds)

    ds.append({"x": 4})

    assert rows.read("x").values.tolist() == [1, 2, 3]
    assert len(rowset_of(ds)) == 4


def test_a_rowset_shows_itself():
    rows = rowset_of(new("memory://rowset-itself"))

    assert rowset_of(rows) is rows


def test_a_view_takes_no_changes():
    ds = new("memory://rowset-view")

    assert session_of(ds) is rowset_of(ds).session
    assert not hasattr(ds.where("x > 1"), "__session__")


def test_a_pickled_rowset_has_the_same_rows_columns_and_steps(tmp_path):
    ds = new(str(tmp_path / "lake"))
    rows = rowset_of(ds.query("SELECT x, x * 2 AS twice WHERE x > 1"))

    again = pickle.loads(pickle.dumps(rows))

    assert again.rows.tolist() == rows.rows.tolist() == [1, 2]
    assert again.columns == rows.columns == ("x", "twice")
    assert again.computed["twice"].present().tolist() == [4, 6]
    assert [step.tql for step in again.steps] == [step.tql for step in rows.steps]


def test_rows_without_columns_of_the_dataset_have_their_ids_in_a_frame():
    ds = new("memory://rowset-ids")

    assert ds.to_pandas(columns=["_row_id"])["_row_id"].tolist() == ds.row_ids
