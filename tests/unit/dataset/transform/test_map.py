"""map: outputs land at their rows, in order; errors leave all as it was; a killed run goes on."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.transform.map import dataset as map_to
from tensorlake.dataset.transform.map import tensors as mapping
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    MissingTensorError,
    SchemaError,
    ShapeMismatchError,
)


@pytest.fixture
def ds(request):
    made = tl.create(
        f"memory://map-{abs(hash(request.node.name))}",
        {"x": "int64", "text": "str", "maybe": tl.Scalar("float32", nullable=True)},
    )
    rows = range(200)
    made.extend(
        {
            "x": rows,
            "text": [f"t {i}" for i in rows],
            "maybe": [None if i % 3 else i for i in rows],
        }
    )
    made.commit("rows")
    return made


def double(row):
    return {"y": row["x"] * 2}


def double_columns(batch):
    return {"y": batch["x"] * 2}


@pytest.mark.parametrize("engine", ["threads", "processes"])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_outputs_are_staged_at_their_rows(ds, engine, batch_size):
    function = double if batch_size is None else double_columns

    same = ds.map(function, schema={"y": "int64"}, engine=engine, workers=2, batch_size=batch_size)

    assert same is ds
    assert ds["y"].read().tolist() == [2 * i for i in range(200)]
    assert ds.schema["y"] == tl.Scalar("int64", nullable=True)
    ds.commit("mapped")
    assert tl.open(ds.url)["y"].read()[7] == 14


def test_lambda_runs_in_other_processes(ds):
    here = os.getpid()

    ds.map(lambda row: {"pid": os.getpid()}, schema={"pid": "int64"}, engine="processes", workers=2)

    assert here not in set(ds["pid"].read().tolist())
    ds.discard()


def test_function_gets_only_the_columns_named_and_nulls_as_none(ds):
    seen = []

    ds.map(
        lambda batch: seen.append(batch) or {"n": batch["_row"]},
        schema={"n": "int64"},
        columns=["maybe", "_row"],
        batch_size=100,
        workers=1,
    )

    assert [list(batch) for batch in seen] == [["maybe", "_row"]] * 2
    assert seen[0]["maybe"][:4] == [0, None, None, 3]
    ds.discard()


def test_where_fills_its_rows_and_leaves_others(ds):
    ds.map(double, schema={"y": "int64"})
    ds.map(lambda row: {"y": -1}, schema={"y": "int64"}, where="x < 3")

    assert ds["y"].read()[:5].tolist() == [-1, -1, -1, 6, 8]
    ds.discard()
    ds.map(double, schema={"y": "int64", "z": "int64"}, where="x < 0")
    assert ds["z"].read(null=7).tolist() == [7] * 200
    ds.discard()


def test_where_may_ask_for_rows_that_lack_what_is_made_the_first_time_too(ds):
    ds.map(double, schema={"y": "int64"}, where="y IS NULL AND x < 3")
    assert ds["y"].read(slice(0, 5), null=-1).tolist() == [0, 2, 4, -1, -1]

    ds.map(lambda row: {"y": 7}, schema={"y": "int64"}, where="y IS NULL")

    assert ds["y"].read()[:5].tolist() == [0, 2, 4, 7, 7]
    ds.discard()


def test_a_condition_that_is_none_leaves_the_handle_as_it_was(ds):
    with pytest.raises(tl.QueryNameError, match="nope"):
        ds.map(double, schema={"y": "int64"}, where="nope IS NULL")

    assert not ds.has_changes
    assert "y" not in ds.schema


def test_outputs_are_staged_in_groups_that_are_in_order(ds, monkeypatch):
    monkeypatch.setattr(mapping, "STAGED_ROWS", 30)

    ds.map(double, schema={"y": "int64"}, workers=3)

    assert ds["y"].read().tolist() == [2 * i for i in range(200)]
    ds.discard()


def test_slow_consumer_holds_the_readers_back(ds):
    running = []

    def count(batch):
        running.append(len(batch["x"]))
        return {"y": batch["x"]}

    from tensorlake.dataset.transform.map.calls import Call, pieces_of
    from tensorlake.dataset.transform.map.workers import results

    call = Call(count, ("x",), 1, "threads", 2, may_skip=False)
    pieces = results(rowset_of(ds), call, pieces_of(200, call))
    first = next(pieces)

    assert first.positions.tolist() == [0]
    assert len(running) <= 5  # two a worker, and the one that was taken
    pieces.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("tensorlake-map")]


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda row: 1 / (int(row["x"]) - 150), ZeroDivisionError, "division"),
        (lambda row: {"y": "a" if row["x"] == 150 else 1}, DTypeMismatchError, "'y'"),
        (lambda row: {"z": 1}, MissingTensorError, r"returned \['z'\], and schema= names \['y'\]"),
        (lambda row: row["x"], InvalidInputError, "not a dict"),
    ],
)
def test_error_leaves_the_handle_as_it_was(ds, function, error, words):
    if error is not ZeroDivisionError:
        ds.map(double, schema={"y": "int64"})
        ds.rename_tensor("y", "kept")

    with pytest.raises(error, match=words) as raised:
        ds.map(
            lambda row: {"y": function(row)} if error is ZeroDivisionError else function(row),
            schema={"y": "int64"},
        )

    assert "y" not in ds.schema
    assert ("kept" in ds.schema) is ds.has_changes is (error is not ZeroDivisionError)
    if error is ZeroDivisionError:
        assert "row 150 of 'memory://" in raised.value.__notes__[0]
    ds.discard()


def test_batch_of_another_length_is_refused(ds):
    with pytest.raises(ShapeMismatchError, match="1 values of 'y' for 50 rows"):
        ds.map(lambda batch: {"y": [1]}, schema={"y": "int64"}, batch_size=50)


def test_rows_that_raise_are_skipped_and_counted_when_told(ds):
    with pytest.warns(tl.SkippedRowsWarning, match="skipped 2 rows; the first raised Zero"):
        ds.map(
            lambda row: {"y": 1 // (int(row["x"]) % 100)},
            schema={"y": "int64"},
            on_error="skip",
        )

    assert ds["y"].read(null=-1)[[0, 1, 100]].tolist() == [-1, 1, -1]
    ds.discard()


def test_tensor_of_another_type_is_not_overwritten(ds):
    with pytest.raises(SchemaError, match=r"'x' is Scalar\(int64\) already"):
        ds.map(lambda row: {"x": 0.5}, schema={"x": "float32"})


def test_arguments_that_are_none_are_refused(ds):
    for options, words in [
        ({"engine": "fibres"}, "give 'threads', 'processes' or 'ray'"),
        ({"workers": 0}, "must be an integer from 1 to"),
        ({"batch_size": 0}, "must be an integer >= 1"),
        ({"on_error": "quarantine"}, "give 'raise' or 'skip'"),
        ({"num_gpus": 1}, "give engine='ray'"),
        ({"resources": {"tpu": 1}, "engine": "processes"}, "give engine='ray'"),
        ({"num_gpus": -1, "engine": "ray"}, "num_gpus is an amount of at least 0"),
        ({"resources": ["tpu"], "engine": "ray"}, "resources is amounts by name"),
        ({"resources": {"tpu": float("nan")}, "engine": "ray"}, "amount of at least 0"),
        ({"commit_every": 5}, "in place, map.. stages"),
        ({"commit_every": 0, "to": "memory://map-never"}, "must be an integer >= 1"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            ds.map(double, schema={"y": "int64"}, **options)
    with pytest.raises(InvalidInputError, match="in the memory of this process"):
        ds.map(double, schema={"y": "int64"}, engine="ray")
    with pytest.raises(SchemaError, match="makes no tensor"):
        ds.map(double, schema={})


class Counting:
    """A function with a state: counts its rows."""

    def __init__(self):
        self.rows = 0

    def __call__(self, row):
        self.rows += 1
        return {"y": row["x"] * 2, "rows": self.rows}


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_class_is_constructed_once_a_worker(ds, engine):
    ds.map(Counting, schema={"y": "int64", "rows": "int64"}, engine=engine, workers=2)

    rows = ds["rows"][:]
    assert ds["y"][:].tolist() == (ds["x"][:] * 2).tolist()
    assert 1 <= np.count_nonzero(rows == 1) <= 2
    assert rows.max() >= len(ds) / 2


def test_what_a_class_raises_in_its_constructor_is_raised(ds):
    class Broken(Counting):
        def __init__(self):
            raise OSError("no weights")

    with pytest.raises(OSError, match="no weights"):
        ds.map(Broken, schema={"y": "int64", "rows": "int64"}, on_error="skip")
    assert not ds.has_changes


def test_a_class_whose_objects_are_not_functions_is_one(ds):
    ds.map(dict, columns=["x"], schema={"x": "int64"})

    assert not ds.diff().updated


# ---- a new dataset


def test_a_new_dataset_is_published_every_so_many_rows(ds):
    url = f"{ds.url}-commits"
    target = ds.map(double, columns=["x"], schema={"y": "int64"}, to=url, commit_every=64)

    assert [len(target.at(f"main@{number}")) for number in range(1, 5)] == [64, 128, 192, 200]
    again = ds.map(double, columns=["x"], schema={"y": "int64"}, to=url, commit_every=7)
    assert (again.version, again.map_report.already_there) == ("main@4", 200)


def test_new_dataset_has_one_to_many_in_order_and_none_for_none(ds):
    def words(row):
        return [{"word": f"{word}{row['x']}"} for word in row["text"].split()] if row["x"] else None

    made = ds.map(words, schema={"word": "str"}, to=f"{ds.url}-words", workers=3)

    assert made["word"][:] == [w for i in range(1, 200) for w in (f"t{i}", f"{i}{i}")]
    assert not ds.has_changes
    assert not made.has_changes


def test_batches_may_grow_and_shrink(ds):
    made = ds.map(
        lambda batch: {"y": np.repeat(batch["x"][::2], 3)},
        schema={"y": "int64"},
        to=f"{ds.url}-grown",
        batch_size=16,
    )

    expected = [i for start in range(0, 200, 16) for i in range(start, min(200, start + 16), 2)]
    assert made["y"][:].tolist() == np.repeat(expected, 3).tolist()


def test_run_that_was_cut_short_goes_on_without_duplicates(ds, monkeypatch):
    monkeypatch.setattr(map_to, "COMMIT_ROWS", 64)
    calls = []

    def fails_late(row):
        calls.append(int(row["x"]))
        if row["x"] == 150 and len(calls) < 180:
            raise OSError("cut short")
        return {"y": row["x"]}

    call = {"schema": {"y": "int64"}, "to": f"{ds.url}-again", "workers": 1}
    with pytest.raises(OSError, match="cut short"):
        ds.map(fails_late, **call)
    done = len(tl.open(f"{ds.url}-again"))
    calls.extend([-1] * 200)

    made = ds.map(fails_late, **call)

    assert done == 128
    assert made["y"][:].tolist() == list(range(200))
    assert min(calls[400 - 200 :][-72:]) >= 128  # what was committed is not computed again
    assert len(ds.map(fails_late, **call)) == 200


def test_dataset_of_somebody_else_is_not_written_to(ds):
    tl.create(f"{ds.url}-other", {"y": "int64"}).extend({"y": [1]})
    other = tl.open(f"{ds.url}-other")
    other.extend({"y": [1]})
    other.commit("theirs")

    with pytest.raises(InvalidInputError, match="did not begin"):
        ds.map(double, schema={"y": "int64"}, to=f"{ds.url}-other")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": ["x", "text"]}, r"columns=\['text', 'x'\] here, \['x'\] then"),
        ({"batch_size": 8}, "batch_size=8 here, nothing then"),
        ({"where": "x > 3"}, "where='x > 3' here, nothing then"),
        ({"schema": {"y": "int32"}}, r"schema=\{'y': Scalar\(int32\)\} here, .*int64"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else None,
)
def test_dataset_made_with_other_arguments_is_not_added_to(ds, change, words):
    call = {"schema": {"y": "int64"}, "to": f"{ds.url}-args", "columns": ["x"]}
    whole = ds.map(lambda row: {"y": row["x"]}, **call)

    with pytest.raises(InvalidInputError, match=f"was made by map.. with other arguments: {words}"):
        ds.map(lambda row: {"y": row["x"]}, **{**call, **change})

    assert tl.open(whole.url)["y"][:].tolist() == list(range(200))
