"""Checks and unique keys: no commit, rebase or merge publishes rows that break them."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.handles.open import create
from tensorlake.format import Features, Schema
from tests.support.handles import open_on

_numbers = itertools.count()


def made(count: int = 3, **arguments: Any) -> Dataset:
    types = {"id": "int64", "low": "int64", "high": "int64"}
    ds = create(f"memory://constraints-{next(_numbers)}", types, **arguments)
    ds.extend({"id": np.arange(count), "low": np.zeros(count, int), "high": np.ones(count, int)})
    ds.commit("rows")
    return ds


@pytest.fixture
def ds() -> Dataset:
    ds = made()
    ds.add_check("ordered", "low <= high")
    ds.commit("a check")
    return ds


def row(number: int, low: int = 0, high: int = 1) -> dict[str, int]:
    return {"id": number, "low": low, "high": high}


def test_a_commit_that_breaks_a_check_publishes_nothing(ds: Dataset) -> None:
    ds.append(row(3))
    ds.append(row(4, low=5))
    ds["low"][1] = 9

    with pytest.raises(tl.ConstraintError, match=r"row 1, and 1 other row .*'ordered': low") as e:
        ds.commit("bad")

    assert (e.value.check, e.value.rows) == ("ordered", (1, 4))
    assert e.value.code == "constraint"
    assert open_on(ds.__session__.store).version == "main@2"
    ds["low"][1] = 0
    ds["low"][4] = 1
    ds.commit("corrected")
    assert len(ds) == 5


def test_null_and_other_columns_break_nothing(ds: Dataset) -> None:
    ds.alter_tensor("low", nullable=True)
    ds["low"][0] = None
    ds["id"][1] = 77
    ds.commit("fine")

    assert ds.validate().ok


def test_existing_rows_must_meet_a_new_check_unless_it_is_not_valid(ds: Dataset) -> None:
    with pytest.raises(tl.ConstraintError) as e:
        ds.add_check("positive", "id > 0")
    assert e.value.rows == (0,)
    assert not ds.has_changes
    ds.add_check("positive", "id > 0", valid=False)
    ds.commit("for new rows")
    ds.append(row(-1))
    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("bad")
    assert e.value.rows == (3,)
    ds.discard()

    report = ds.validate()
    assert not report.ok
    assert {name: view.rows.tolist() for name, view in report.violations.items()} == {
        "positive": [0]
    }
    assert str(report) == "positive: 1 row"
    assert str(ds.checks["ordered"]) == "low <= high"


def test_checks_are_dropped_and_keep_their_columns(ds: Dataset) -> None:
    for call in (lambda: ds.drop_tensor("low"), lambda: ds.rename_tensor("low", "least")):
        with pytest.raises(tl.SchemaError, match=r"the check 'ordered' \(low <= high\) reads it"):
            call()
    with pytest.raises(tl.InvalidInputError, match="has no check 'other'\nchecks: 'ordered'"):
        ds.drop_check("other")
    with pytest.raises(tl.InvalidInputError, match="has a check 'ordered' already"):
        ds.add_check("ordered", "low = 0")
    ds.drop_check("ordered")
    ds["low"][0] = 9
    ds.commit("no check")

    assert dict(ds.checks) == {}


@pytest.mark.parametrize("condition", ["1 < 2", "low < (SELECT AVG(low))", "RANDOM() < low"])
def test_conditions_depend_on_one_row_alone(ds: Dataset, condition: str) -> None:
    with pytest.raises((tl.InvalidInputError, tl.QueryError)):
        ds.add_check("other", condition)
    assert not ds.has_changes


def test_two_valid_edits_of_a_row_do_not_combine_to_an_invalid_one(ds: Dataset) -> None:
    other = open_on(ds.__session__.store)
    ds["low"][0] = 1
    other["high"][0] = 0
    ds.commit("low")

    with pytest.raises(tl.ConstraintError) as e:
        other.commit("high")

    assert e.value.rows == (0,)
    assert open_on(ds.__session__.store).validate().ok
    assert other.has_changes


def test_a_check_that_another_writer_adds_meanwhile_is_evaluated(ds: Dataset) -> None:
    other = open_on(ds.__session__.store)
    other.append(row(50))
    ds.add_check("small", "id < 10")
    ds.commit("another check")
    with pytest.raises(tl.ConstraintError) as e:
        other.commit("a large id")
    assert e.value.check == "small"
    other.discard()

    third = open_on(ds.__session__.store)
    third.add_check("even smaller", "id < 5")
    ds.append(row(7))
    ds.commit("seven")
    with pytest.raises(tl.ConstraintError) as e:
        third.commit("too late")
    assert (e.value.check, e.value.rows) == ("even smaller", (3,))


def test_merges_evaluate_the_checks_of_both_branches(ds: Dataset) -> None:
    other = ds.branch("other")
    other["low"][0] = 1
    other.append(row(7))
    other.commit("there")
    ds["high"][0] = 0
    ds.commit("here")
    with pytest.raises(tl.ConstraintError) as e:
        ds.merge("other")
    assert (e.value.check, e.value.rows) == ("ordered", (0,))
    ds["high"][0] = 2
    ds.add_check("small", "id < 5")
    ds.commit("another check")
    with pytest.raises(tl.ConstraintError) as e:
        ds.merge("other")
    assert e.value.check == "small"
    other["id"][3] = 4
    other.commit("small")
    ds.merge("other")

    assert ds["id"][:].tolist() == [0, 1, 2, 4]
    assert list(ds.checks) == ["ordered", "small"]
    third = ds.branch("third")
    third.add_check("not two", "id != 3")
    third.commit("a check there")
    ds.append(row(3))
    ds.commit("three")
    with pytest.raises(tl.ConstraintError) as e:
        ds.merge("third")
    assert (e.value.check, e.value.rows) == ("not two", (4,))


def test_a_unique_key_occurs_once() -> None:
    ds = made(unique="id")
    assert str(ds.checks["unique(id)"]) == "unique (id)"
    ds.append(row(1))
    with pytest.raises(tl.ConstraintError, match="'unique\\(id\\)': unique \\(id\\)") as e:
        ds.commit("again")
    assert e.value.rows == (3,)
    ds["id"][1] = 9
    ds.commit("moved")
    ds["id"][[0, 2]] = 5
    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("twice")
    assert e.value.rows == (0, 2)
    ds.discard()
    ds.delete([3])
    ds.append(row(1))
    ds.upsert([row(9), row(12)], on="id")
    ds.commit("once")
    assert ds.validate().ok


def test_keys_of_several_columns_and_of_text_with_nulls() -> None:
    types = {"site": "str", "n": tl.Scalar("int64", nullable=True)}
    ds = create(f"memory://constraints-{next(_numbers)}", types, unique=("site", "n"))
    ds.extend({"site": ["a", "a", "b"], "n": [1, 2, 1]})
    ds.extend({"site": ["a", "a"], "n": [None, None]})
    ds.commit("nulls are not compared")
    ds.append({"site": "b", "n": 1})
    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("again")
    assert e.value.rows == (5,)
    with pytest.raises(tl.SchemaError, match="cannot be a key"):
        create("memory://constraints-key", {"image": tl.Image("png")}, unique="image")


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("kind", ["int64", "str"])
def test_keys_among_many_rows_are_found_as_by_comparing_all(kind: str, *, is_indexed: bool) -> None:
    rng = np.random.default_rng(3)
    keys = rng.permutation(1 << 20)[:70_000]
    ds = create(f"memory://constraints-{next(_numbers)}", {"key": kind, "n": "int64"}, unique="key")

    def values(some: Any) -> Any:
        return some if kind == "int64" else [f"key {one}" for one in some]

    ds.extend({"key": values(keys), "n": np.arange(len(keys))})
    ds.commit("keys")
    if is_indexed:
        ds.create_index("key", "btree")
        ds.commit("an index")
    free = np.setdiff1d(np.arange(1 << 20), keys)[::9_000].tolist()
    ds["key"][7] = values(free[:1])[0]
    ds.delete([9])
    ds.commit("one moved, one deleted")
    had = [int(keys[7]), int(keys[9]), free[1]]
    ds.extend({"key": values(had), "n": [0, 0, 0]})
    ds.commit("keys that were free again")

    for taken, at in ((free[0], 7), (had[0], 69_999), (int(keys[60_000]), 59_999)):
        ds.extend({"key": values([free[2], taken]), "n": [0, 0]})
        with pytest.raises(tl.ConstraintError) as e:
            ds.commit("again")
        assert e.value.rows == (70_003,), at
        ds.discard()
    ds["key"][[3, 4]] = values(free[3:5])
    ds.commit("others")
    assert ds.validate().ok


def test_conditions_are_checked_together_and_named_alone() -> None:
    ds = made()
    ds.alter_tensor("low", nullable=True)
    ds.add_check("small", "low < 10 -- of a comment")
    ds.add_check("not odd", "high % 2 = 1 OR low IS NULL")
    ds.add_check("high", "high >= 0")
    ds.commit("three checks")
    ds.append({"id": 3, "low": None, "high": 2})
    ds.append({"id": 4, "low": None, "high": -2})
    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("bad")
    assert (e.value.check, e.value.rows) == ("high", (4,))
    ds["high"][4] = 1
    ds["low"][4] = 11
    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("bad")
    assert (e.value.check, e.value.rows) == ("small", (4,))


def test_a_dry_run_of_a_merge_tells_that_a_check_would_be_broken(ds: Dataset) -> None:
    other = ds.branch("other")
    other["low"][0] = 1
    other.commit("there")
    ds["high"][0] = 0
    ds.commit("here")
    objects = len(asyncio.run(_listed(ds)))

    report = ds.merge("other", dry_run=True)

    assert report.is_refused
    assert "would conflict" in repr(report)
    assert "would break the check 'ordered': low <= high" in report.conflicts[0]
    assert len(asyncio.run(_listed(ds))) == objects
    ds["high"][0] = 1
    ds.commit("corrected")
    report = ds.merge("other", dry_run=True)
    assert (report.is_refused, report.conflicts, report.published) == (False, (), None)


async def _listed(ds: Dataset) -> list[str]:
    return [one.path async for one in ds.__session__.store.list("")]


def test_a_key_names_each_tensor_once() -> None:
    with pytest.raises(tl.SchemaError, match="a key has tensors, each once"):
        made(unique=("id", "id"))


@pytest.mark.parametrize("unique", ["nope", 5, True, b"id", {"id": 1}, [5], ["id", "id"], "image"])
def test_an_invalid_key_is_refused_before_anything_is_written(unique: Any) -> None:
    url = f"memory://constraints-{next(_numbers)}"

    with pytest.raises((tl.SchemaError, tl.TensorNotFoundError), match=r"unique=|no tensor 'nope'"):
        create(url, {"id": "int64", "image": tl.Image("png")}, unique=unique)

    assert not tl.exists(url)


def test_two_branches_with_one_key_cannot_be_merged() -> None:
    ds = made(unique="id")
    other = ds.branch("other")
    for handle in (ds, other):
        handle.append(row(7))
        handle.commit("seven")

    with pytest.raises(tl.ConstraintError) as e:
        ds.merge("other")

    assert e.value.rows == (4,)


def test_32_writers_never_publish_a_violation() -> None:
    store = made(unique="id").__session__.store
    with open_on(store) as ds:
        ds.add_check("ordered", "low <= high")
        ds.commit("a check")

    def write(number: int) -> int:
        with open_on(store) as ds:
            ds["low" if number % 2 else "high"][0] = number % 2
            ds.append(row(100 + number % 10))
            try:
                ds.commit(f"writer {number}")
            except (tl.ConstraintError, tl.ConflictError):
                ds.discard()
                return 1
        return 0

    with ThreadPoolExecutor(32) as pool:
        refused = sum(pool.map(write, range(32)))

    assert refused > 0
    with open_on(store) as ds:
        assert len(ds) > 3
        for commit in ds.log():
            found = ds.at(commit.version)
            ids = found["id"][:].tolist()
            assert len({*ids}) == len(ids)
            if commit.num_rows and "ordered" in found.checks:
                assert (found["low"][:] <= found["high"][:]).all()


def test_writers_that_know_no_constraints_refuse_to_write(ds: Dataset) -> None:
    entry = ds.__session__.head
    assert entry.features == Features((), ("constraints",))
    assert entry.schema is not None
    assert Schema.from_json(entry.schema).to_json() == entry.schema
    assert ds.log()[0].summary() == "check ordered"


def test_checks_of_many_new_rows_find_those_that_no_bound_excludes() -> None:
    types = {"x": "float32", "n": "int64"}
    ds = create(f"memory://constraints-{next(_numbers)}", types)
    ds.extend({"x": np.full(9_000, -1, np.float32), "n": np.arange(9_000)})
    ds.commit("before the checks")
    ds.add_check("positive", "x >= 0", valid=False)
    ds.add_check("small", "n < 100000 AND n != 7", valid=False)
    ds.commit("two checks")
    x = np.linspace(0, 1, 9_000, dtype=np.float32)
    ds.extend({"x": x, "n": np.arange(9_000, 18_000)})
    ds.commit("correct rows")

    ds.extend({"x": np.where(np.arange(9_000) == 8_000, np.nan, x), "n": np.arange(9_000) + 8})
    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("a NaN")
    assert (e.value.check, e.value.rows) == ("positive", (26_000,))
    ds["x"][26_000] = 1
    ds["n"][20_000] = 7
    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("a number")
    assert (e.value.check, e.value.rows) == ("small", (20_000,))


def test_conditions_are_refuted_by_the_bounds_of_a_run_of_rows() -> None:
    ds = create(f"memory://constraints-{next(_numbers)}", {"x": "float32"})
    for start in range(0, 30_000, 5_000):
        ds.extend({"x": np.arange(start, start + 5_000, dtype=np.float32)})
        ds.commit("a chunk")
    run = ds[7_000:27_000]

    found = run.query("WHERE NOT x < 26000")

    assert found.rows.tolist() == list(range(26_000, 27_000))
    assert "scans 2,000 of 20,000 rows" in run.query("WHERE NOT x < 26000").explain()
    assert "scans 0 of 20,000 rows" in run.query("WHERE NOT x < 30000").explain()
