"""Columns of expressions wherever rows are read from another place than their own handle."""

import pickle

import numpy as np
import pytest

import tensorlake as tl

NUMBER = tl.Scalar("float64", nullable=True)
DOUBLES = [2.0, 4.0, None, 8.0]


@pytest.fixture
def ds(tmp_path):
    made = tl.create(tmp_path / "numbers", {"id": "int64", "v": NUMBER})
    made.extend({"id": [0, 1, 2, 3], "v": [1.0, 2.0, None, 4.0]})
    made.add_tensor("d", NUMBER, compute="v * 2")
    made.commit("numbers")
    return made


def test_a_query_of_another_dataset_reads_them(ds, tmp_path):
    other = tl.create(tmp_path / "other", {"id": "int64", "d": NUMBER})
    other.extend({"id": [3, 1], "d": [0.0, 0.0]})
    other.commit("two")

    assert other.query('SELECT d FROM "numbers"')["d"].to_list() == DOUBLES
    assert other.query('SELECT * FROM "numbers"').to_arrow()["d"].to_pylist() == DOUBLES
    joined = other.query(
        "SELECT this.id AS id, n.d AS n FROM this JOIN numbers AS n ON this.id = n.id"
    )
    assert [(row["id"], row["n"]) for row in joined] == [(3, 8.0), (1, 4.0)]
    assert other.execute("INSERT INTO this (id, d) SELECT id, d FROM numbers WHERE d > 4") == 1
    assert other[-1]["d"] == 8.0
    other.discard()


def test_map_into_a_new_dataset_follows_them(ds, tmp_path):
    calls: list[float | None] = []

    def halve(row):
        calls.append(row["d"])
        return {"half": None if row["d"] is None else row["d"] / 2}

    def run():
        calls.clear()
        made = ds.map(
            halve, columns=["d"], schema={"half": NUMBER}, to=tmp_path / "halves", workers=1
        )
        return made["half"].to_list()

    assert run() == [1.0, 2.0, None, 4.0]
    assert run() == [1.0, 2.0, None, 4.0]
    assert calls == []
    ds["v"][0] = 10.0
    ds["id"][3] = 33
    ds.commit("one value of d changes")
    assert run() == [10.0, 2.0, None, 4.0]
    assert calls == [20.0]
    ds.alter_tensor("d", compute="v * 20")
    ds.commit("all values of d change")
    assert run() == [100.0, 20.0, None, 40.0]
    assert len(calls) == 3  # NULL stays NULL


def test_map_of_batches_reads_them(ds):
    def halve(batch):
        return {"half": [0.0 if d is None else d / 2 for d in batch["d"]]}

    made = ds.map(halve, schema={"half": "float64"}, to="memory://halves-of-batches", batch_size=3)

    assert made["half"][:].tolist() == [1.0, 2.0, 0.0, 4.0]


def test_a_loader_from_a_state_has_them(ds):
    loader = ds.where("d > 0").loader(batch_size=1)
    batches = iter(loader)
    next(batches)

    rest = tl.loader_from_state(loader.state_dict(), batch_size=1)

    assert [batch["d"].tolist() for batch in rest] == [[4.0], [8.0]]
    batches.close()


def test_rows_that_were_pickled_are_concatenated_with_them(ds):
    first, last = (pickle.loads(pickle.dumps(one)) for one in (ds[:1], ds[3:]))

    assert tl.concat([first, last])["d"].to_list() == [2.0, 8.0]


def test_a_copy_has_them_as_stored_tensors(ds):
    made = ds.query("SELECT *").materialize("memory://numbers-copied")

    assert made.schema["d"] == NUMBER
    assert made["d"].to_list() == DOUBLES


@pytest.mark.parametrize("text", ["v * 2", "v", "CASE WHEN id = 0 THEN 1.0 END"])
def test_one_that_may_be_null_is_declared_as_nullable(ds, text):
    with pytest.raises(tl.SchemaError, match=r"may be NULL(.|\n)*nullable=True"):
        ds.add_tensor("e", "float64", compute=text)
    ds.add_tensor("e", "float64", compute=f"COALESCE({text}, 0.0)")
    ds.add_tensor("f", NUMBER, compute=text)

    assert np.isfinite(ds["e"][:]).all()
    assert None in ds["f"].to_list()
    ds.discard()
