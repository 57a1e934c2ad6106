"""Computed columns: which rows are computed, what failures leave, and two writers at once."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.transform import refresh
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on

_numbers = itertools.count()


def square(row: dict[str, Any]) -> int:
    return row["x"] ** 2


def negative(row: dict[str, Any]) -> int | None:
    return None if row["square"] is None else -row["square"]


def dataset_of(count: int, store: MemoryStore | CountingStore | None = None) -> Dataset:
    """Make a dataset with a computed column, every row of which is stale."""
    ds = create_on(
        store or MemoryStore(f"computed-{next(_numbers)}"), {"x": "int64", "name": "str"}
    )
    ds.extend({"x": np.arange(count), "name": [f"n{row}" for row in range(count)]})
    ds.add_tensor("square", "int64", compute=square, inputs=["x"])
    ds.commit("declared")
    return ds


@pytest.fixture
def ds() -> Dataset:
    return dataset_of(6)


def stale(ds: Dataset, name: str = "square") -> list[int]:
    return ds.stale(name).rows.tolist()


def test_only_rows_whose_inputs_changed_are_computed_again(ds: Dataset) -> None:
    assert str(ds.refresh_columns()) == "computed square of 6 rows"
    ds.commit("computed")
    assert stale(ds) == []
    assert str(ds.refresh_columns()) == "computed square of 0 rows"
    assert not ds.has_changes

    ds["x"][4] = 10
    ds["name"][3] = "not an input"

    assert stale(ds) == [4]
    assert str(ds.refresh_columns()) == "computed square of 1 row"
    assert ds["square"][:].tolist() == [0, 1, 4, 9, 100, 25]


def test_appended_rows_are_null_and_stale(ds: Dataset) -> None:
    ds.refresh_columns()
    ds.append({"x": 7, "name": "new"})
    ds.extend({"x": [8], "name": ["given"], "square": [64]})

    assert stale(ds) == [6, 7]
    assert ds["square"].to_list() == [0, 1, 4, 9, 16, 25, None, 64]
    ds.commit("appended")
    assert stale(ds) == [6, 7]


def test_a_condition_is_of_the_rows_as_they_were_before(ds: Dataset) -> None:
    ds.add_tensor("negative", "int64", compute=negative, inputs=["square"])

    report = ds.refresh_columns(["negative"], where="square IS NULL AND x > 2")

    assert report.computed == {"square": 3, "negative": 3}
    assert ds["negative"].to_list() == [None, None, None, -9, -16, -25]
    assert ds.refresh_columns(["negative"], where="square < 9").computed["negative"] == 0


def test_a_value_assigned_by_hand_is_stale_and_replaced(ds: Dataset) -> None:
    ds.refresh_columns()
    ds.commit("computed")
    ds["square"][2] = 5
    ds.commit("by hand")

    assert stale(ds) == [2]
    ds.refresh_columns()
    assert ds["square"][2] == 4


def test_a_condition_limits_the_rows_that_are_computed(ds: Dataset) -> None:
    ds.refresh_columns(where="x >= 4")

    assert stale(ds) == [0, 1, 2, 3]
    assert ds.query("WHERE FRESH(square)")["square"][:].tolist() == [16, 25]
    assert ds.where("NOT FRESH('square')").rows.tolist() == [0, 1, 2, 3]


def test_columns_are_computed_after_those_they_are_computed_from(ds: Dataset) -> None:
    ds.add_tensor("neg", "int64", compute=negative, inputs=["square"])
    report = ds.refresh_columns(["neg"])

    assert report.computed == {"square": 6, "neg": 6}
    assert ds["neg"][:].tolist() == [0, -1, -4, -9, -16, -25]
    ds["x"][1] = 3
    assert stale(ds, "neg") == [1]


def test_another_function_or_version_makes_all_rows_stale(ds: Dataset) -> None:
    ds.refresh_columns()
    ds.commit("computed")
    ds.alter_tensor("square", compute=square)
    assert not ds.has_changes
    ds.alter_tensor("square", version="2")
    assert stale(ds) == [*range(6)]
    ds.refresh_columns(where="x < 3")
    assert stale(ds) == [3, 4, 5]
    ds.alter_tensor("square", compute=lambda row: row["x"] + 1)
    ds.refresh_columns()
    assert ds["square"][:].tolist() == [1, 2, 3, 4, 5, 6]


def failing(row: dict[str, Any]) -> Any:
    if row["x"] in BAD:
        raise ValueError(f"no {row['x']}\nmore")
    return np.zeros(3) if row["x"] == 5 else row["x"]


BAD: set[int] = set()


def test_a_failure_leaves_null_and_its_reason_until_it_is_retried(ds: Dataset) -> None:
    BAD.update({2, 3})
    ds.add_tensor("y", "int64", compute=failing, inputs=["x"])
    with pytest.warns(tl.SkippedRowsWarning, match=r"'y' failed for 3 rows; .* 'y\.error'"):
        report = ds.refresh_columns(["y"])
    ds.commit("some failed")

    assert (report.computed, report.failed) == ({"y": 6}, {"y": 3})
    assert str(report) == "computed y of 6 rows (3 failed)"
    assert ds["y"].to_list() == [0, 1, None, None, 4, None]
    reasons = ds["y.error"].to_list()
    assert reasons[:4] == [None, None, "ValueError: no 2", "ValueError: no 3"]
    assert reasons[5].startswith("'y' expects")
    assert ds.where('"y.error" IS NOT NULL').rows.tolist() == [2, 3, 5]
    assert stale(ds, "y") == []
    BAD.clear()
    with pytest.warns(tl.SkippedRowsWarning, match="1 row"):
        ds.refresh_columns(["y"], retry=True)
    assert ds["y"].to_list() == [0, 1, 2, 3, 4, None]
    assert [reason is None for reason in ds["y.error"].to_list()] == [True] * 5 + [False]


def test_the_reasons_go_and_are_renamed_with_their_column(ds: Dataset) -> None:
    BAD.add(1)
    ds.add_tensor("y", "int64", compute=failing, inputs=["x"])
    with pytest.warns(tl.SkippedRowsWarning):
        ds.refresh_columns(["y"])
    ds.rename_tensor("y", "other")
    assert "other.error" in ds.schema
    assert stale(ds, "other") == []
    ds.drop_tensor("other")
    BAD.clear()

    assert list(ds.schema) == ["x", "name", "square"]


def test_the_reasons_are_not_dropped_alone(ds: Dataset) -> None:
    BAD.add(1)
    ds.add_tensor("y", "int64", compute=failing, inputs=["x"])
    with pytest.warns(tl.SkippedRowsWarning):
        ds.refresh_columns(["y"])
    BAD.clear()

    with pytest.raises(tl.SchemaError, match=r"'y\.error' cannot be dropped: it has the reasons"):
        ds.drop_tensor("y.error")
    with pytest.warns(tl.SkippedRowsWarning, match="1 row"):
        assert ds.refresh_columns(["y"], retry=True).computed == {"y": 2}


def test_a_tensor_in_the_place_of_the_reasons_is_refused_before_anything_is_computed(
    ds: Dataset,
) -> None:
    ds.add_tensor("y.error", "int64", fill=0)
    with pytest.raises(tl.SchemaError, match=r"need the name 'y\.error', which is in use"):
        ds.add_tensor("y", "int64", compute=square, inputs=["x"])
    assert "y" not in ds.schema
    ds.add_tensor("square.error", "int64", fill=0)
    with pytest.raises(tl.SchemaError, match=r"need the name 'square\.error'"):
        ds.refresh_columns()


def test_a_batch_of_another_length_fails_as_a_whole(ds: Dataset) -> None:
    def sums(batch: dict[str, Any]) -> Any:
        if 0 in batch["x"]:
            return [1]
        return 5 if 4 in batch["x"] else batch["x"] * 2

    ds.add_tensor("y", "int64", compute=sums, inputs=["x"], batch_size=2)
    with pytest.warns(tl.SkippedRowsWarning, match="failed for 4 rows"):
        ds.refresh_columns(["y"])

    assert ds["y"].to_list() == [None, None, 4, 6, None, None]
    assert ds["y.error"].to_list()[0] == "the function returned 1 value for 2 rows"
    assert ds["y.error"].to_list()[4] == "the function returned a single value for 2 rows"


def test_null_inputs_are_none() -> None:
    ds = create_on(MemoryStore("computed-nulls"), {"x": tl.Scalar("float32", nullable=True)})
    ds.extend({"x": [1.5, None]})
    ds.add_tensor("known", "bool", compute=lambda row: row["x"] is not None, inputs=["x"])
    ds.add_tensor("same", "float32", compute=lambda row: row["x"], inputs=["x"])

    ds.refresh_columns()

    assert ds["known"][:].tolist() == [True, False]
    assert ds["same"].to_list() == [1.5, None]
    assert stale(ds, "same") == []


def test_what_was_computed_before_an_interruption_is_kept(
    ds: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "STAGED_ROWS", 2)
    calls: list[int] = []

    def interrupted(batch: dict[str, Any]) -> Any:
        calls.extend(batch["x"].tolist())
        if calls.count(4) == 1 and 4 in batch["x"]:
            raise KeyboardInterrupt
        return batch["x"]

    ds.add_tensor("y", "int64", compute=interrupted, inputs=["x"], batch_size=2)
    with pytest.raises(KeyboardInterrupt):
        ds.refresh_columns(["y"])
    assert stale(ds, "y") == [4, 5]
    ds.commit("what there is")
    calls[:] = [4]
    ds.refresh_columns(["y"])

    assert calls == [4, 4, 5]
    assert ds["y"][:].tolist() == [0, 1, 2, 3, 4, 5]


def test_an_interruption_keeps_what_was_computed_and_not_yet_staged(ds: Dataset) -> None:
    def interrupted(batch: dict[str, Any]) -> Any:
        if 4 in batch["x"]:
            raise KeyboardInterrupt
        return batch["x"]

    ds.add_tensor("y", "int64", compute=interrupted, inputs=["x"], batch_size=2)
    with pytest.raises(KeyboardInterrupt):
        ds.refresh_columns(["y"])

    assert stale(ds, "y") == [4, 5]
    assert ds["y"].to_list() == [0, 1, 2, 3, None, None]


def test_slow_results_are_staged_after_some_time(
    ds: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []

    def watching(batch: dict[str, Any]) -> Any:
        if 0 not in batch["x"]:
            is_staged.wait(10)
        seen.append(batch["x"].tolist())
        return batch["x"]

    is_staged = threading.Event()
    monkeypatch.setattr(refresh, "STAGED_S", 0.0)
    ds.add_tensor("y", "int64", compute=watching, inputs=["x"], batch_size=2)
    thread = threading.Thread(target=ds.refresh_columns, args=(["y"],))
    thread.start()
    while thread.is_alive() and stale(ds, "y") != [2, 3, 4, 5]:
        pass
    before = list(seen)
    is_staged.set()
    thread.join()

    assert before == [[0, 1]]
    assert stale(ds, "y") == []


@pytest.mark.parametrize("is_discarded", [False, True])
def test_changes_staged_during_a_refresh_make_their_own_rows_stale(
    ds: Dataset, *, is_discarded: bool
) -> None:
    started, changed = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def waiting(row: dict[str, Any]) -> int:
        started.set()
        changed.wait(10)
        return row["x"]

    def compute() -> None:
        try:
            ds.refresh_columns(["y"])
        except tl.StaleViewError as error:
            errors.append(error)

    ds.add_tensor("y", "int64", compute=waiting, inputs=["x"])
    ds.commit("declared")
    ds["x"][1] = 5
    ds.append({"x": 10, "name": "a"})
    thread = threading.Thread(target=compute)
    thread.start()
    started.wait(10)
    if is_discarded:
        ds.discard()
        ds.append({"x": 20, "name": "b"})
    ds["x"][3] = 777
    changed.set()
    thread.join()

    # A row assigned before is computed again where another is assigned meanwhile.
    assert stale(ds, "y") == ([*range(7)] if is_discarded else [1, 3])
    assert len(errors) == is_discarded
    ds.commit("computed")
    ds.refresh_columns(["y"])
    assert ds["y"].to_list() == ds["x"].to_list()


def test_functions_run_in_processes(ds: Dataset) -> None:
    ds.refresh_columns(engine="processes")

    assert ds["square"][:].tolist() == [0, 1, 4, 9, 16, 25]


def test_two_writers_that_compute_different_rows_combine() -> None:
    store = MemoryStore("computed-two-writers")
    dataset_of(64, store)
    one, other = open_on(store), open_on(store)
    one.refresh_columns(where="x % 3 = 0")
    other.refresh_columns(where="x % 3 = 1")
    one.commit("a third")
    other.commit("another third")

    assert stale(other) == [row for row in range(64) if row % 3 == 2]
    one.refresh()
    assert stale(one) == stale(other)
    assert one.where("FRESH(square)")["square"][:].tolist() == [
        x * x for x in range(64) if x % 3 != 2
    ]


def test_two_writers_that_compute_the_same_rows_do_not_conflict() -> None:
    store = MemoryStore("computed-same-rows")
    dataset_of(9, store)
    one, other = open_on(store), open_on(store)
    one.refresh_columns(where="x < 6")
    other.refresh_columns(where="x > 2")
    one.commit("rows 0 to 5")
    other.commit("rows 3 to 8")

    assert stale(other) == []
    assert other["square"][:].tolist() == [x * x for x in range(9)]


def test_inputs_changed_by_another_writer_meanwhile_are_stale() -> None:
    store = MemoryStore("computed-meanwhile")
    dataset_of(8, store)
    one, other = open_on(store), open_on(store)
    one.refresh_columns()
    other["x"][3] = 30
    other.delete([6])
    other.append({"x": 9, "name": "new"})
    other.commit("corrections")
    one.commit("computed")

    assert one["x"][:].tolist() == [0, 1, 2, 30, 4, 5, 7, 9]
    assert stale(one) == [3, 7]


def test_appended_and_computed_rows_keep_their_values_after_a_lost_race() -> None:
    store = MemoryStore("computed-appended")
    dataset_of(2, store)
    one, other = open_on(store), open_on(store)
    one.extend({"x": [10, 11], "name": ["a", "b"]})
    one.refresh_columns()
    other.extend({"x": [20], "name": ["c"]})
    other.commit("first")
    one.commit("second")

    assert one["x"][:].tolist() == [0, 1, 20, 10, 11]
    assert stale(one) == [2]
    assert one["square"].to_list() == [0, 1, None, 100, 121]


def test_two_writers_may_both_have_failures() -> None:
    store = MemoryStore("computed-failures")
    ds = dataset_of(6, store)
    BAD.update({1, 4})
    ds.add_tensor("y", "int64", compute=failing, inputs=["x"])
    ds.commit("declared")
    one, other = open_on(store), open_on(store)
    with pytest.warns(tl.SkippedRowsWarning):
        one.refresh_columns(["y"], where="x < 3")
    with pytest.warns(tl.SkippedRowsWarning):
        other.refresh_columns(["y"], where="x >= 3")
    one.commit("the first half")
    other.commit("the second half")
    BAD.clear()

    assert stale(other, "y") == []
    assert other["y"].to_list() == [0, None, 2, 3, None, None]
    assert [reason is None for reason in other["y.error"].to_list()] == [
        True, False, True, True, False, False
    ]  # fmt: skip


def test_a_handle_that_moves_while_it_computes_refuses_the_results(ds: Dataset) -> None:
    started, moved = threading.Event(), threading.Event()

    def waiting(row: dict[str, Any]) -> int:
        started.set()
        moved.wait(10)
        return row["x"]

    ds.add_tensor("y", "int64", compute=waiting, inputs=["x"])
    ds.commit("declared")
    errors: list[Exception] = []

    def compute() -> None:
        try:
            ds.refresh_columns(["y"])
        except tl.InvalidStateError as error:
            errors.append(error)

    thread = threading.Thread(target=compute)
    thread.start()
    started.wait(10)
    ds["name"][0] = "changed"
    ds.commit("meanwhile")
    moved.set()
    thread.join()

    assert "moved to main@3 while 'y' was computed on main@2" in str(errors[0])


def test_finding_stale_rows_reads_no_chunk() -> None:
    store = CountingStore(MemoryStore("computed-counted"))
    ds = dataset_of(5000, store)
    ds.refresh_columns()
    ds.commit("computed")
    ds["x"][[7, 4000]] = 1
    ds.commit("changed")
    fresh = open_on(store)
    store.reset()

    assert stale(fresh) == [7, 4000]
    assert store.count() == 0  # the trees of so few chunks are in the entry


def test_share_of_fresh_rows_is_shown(ds: Dataset) -> None:
    assert "square   Scalar(int64), computed, 0 % fresh   () int64" in repr(ds)
    ds.refresh_columns(where="x > 0")
    assert "Scalar(int64), computed, 83.3 % fresh" in repr(ds)
    ds.refresh_columns()
    ds.commit("all")
    assert "square   Scalar(int64), computed   () int64" in repr(ds)
    assert "Scalar(int64), computed " in repr(ds.summary())


def test_a_view_of_stale_rows_is_a_query(ds: Dataset) -> None:
    ds.refresh_columns(where="x < 4")
    ds.commit("some")
    view = ds.stale("square")
    assert view.tql == "WHERE NOT FRESH(square)" or view.tql is None
    view.save("to-do")
    ds.refresh_columns(where="x < 5")
    ds.commit("more")

    assert ds.views["to-do"].rerun().rows.tolist() == [5]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"engine": "slurm"}, "engine='slurm'.*'threads' or 'processes'"),
        ({"engine": ["threads"]}, "engine="),
        ({"retry": "yes"}, "retry is True or False"),
        ({"names": "y"}, "names is a list"),
    ],
)
def test_arguments_are_checked_where_nothing_is_computed(given: Any, told: str) -> None:
    ds = create_on(MemoryStore(), {"x": "int64"})

    with pytest.raises(tl.InvalidInputError, match=told):
        ds.refresh_columns(**given)
