"""map and functions that do not do what they should: told with the row; nothing stays staged."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.transform.map.calls import Call
from tensorlake.dataset.transform.map.workers import _callers
from tensorlake.errors import DTypeMismatchError, InvalidInputError, InvalidStateError, SchemaError

ENGINES = ["threads", "processes"]
Y = {"y": "int64"}


@pytest.fixture(scope="module")
def ds():
    made = tl.create("memory://map-hostile", {"x": "int64"})
    made.extend({"x": range(10)})
    made.commit("rows")
    return made


class AwkwardError(Exception):
    """An error that pickle cannot make again: it takes two arguments, and keeps one."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def awkward(_row):
    raise AwkwardError("this", "that")


def twice(row):
    yield {"y": row["x"]}
    yield {"y": -row["x"]}


def notes_of(caught):
    return " ".join(caught.value.__notes__)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_are_yielded_become_rows_of_a_new_dataset(ds, engine):
    new = ds.map(twice, schema=Y, to=f"memory://map-yielded-{engine}", engine=engine, workers=1)

    assert new["y"][:].tolist() == [sign * x for x in range(10) for sign in (1, -1)]


@pytest.mark.parametrize("engine", ENGINES)
def test_generator_in_place_is_no_dict(ds, engine):
    with pytest.raises(InvalidInputError, match=r"returned list, not a dict\nreturn \{'y': …\}"):
        ds.map(twice, schema=Y, engine=engine, workers=1)

    assert not ds.has_changes


def test_error_that_cannot_be_sent_between_processes_is_told_by_its_words(ds):
    with pytest.raises(RuntimeError, match="AwkwardError: this and that") as caught:
        ds.map(awkward, schema=Y, engine="processes", workers=1)

    assert "row 0 of" in notes_of(caught)


def test_output_that_cannot_be_sent_between_processes_is_told_with_the_way_out(ds):
    def of_row_3(row):
        return {"y": 1 if row["x"] != 3 else (lambda: 1)}

    with pytest.raises(InvalidInputError, match=r"cannot be sent .*\n.*engine='threads'") as caught:
        ds.map(of_row_3, schema=Y, engine="processes", workers=1)

    assert "row 3 of" in notes_of(caught)
    assert not ds.has_changes


def test_process_that_ends_itself_is_told_and_nothing_is_staged(ds):
    with pytest.raises(InvalidStateError, match=r"a worker process ended .* rows 0 to 9 of"):
        ds.map(lambda _: os._exit(3), schema=Y, engine="processes", workers=1)

    assert not ds.has_changes


@pytest.mark.parametrize("to", [None, "memory://map-refused"])
def test_value_of_a_wrong_kind_names_the_row_it_was_made_from(ds, to):
    def of_row_7(row):
        return {"y": 1 if row["x"] != 7 else 1.5}

    with pytest.raises(DTypeMismatchError) as caught:
        ds.map(of_row_7, schema=Y, where="x > 4", to=to)

    assert "returned by the function of map(), for row 7 of" in notes_of(caught)
    assert not ds.has_changes


@pytest.mark.parametrize(
    "column", [5, "abc", {1, 2}, iter([1]), np.int64(3), np.array(3), {"a": 1}]
)
def test_batch_without_a_value_for_each_row_is_refused(ds, column):
    with pytest.raises(InvalidInputError, match="as 'y' of 4 rows\nreturn an array or a list"):
        ds.map(lambda _: {"y": column}, schema=Y, batch_size=4)


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "4"])
@pytest.mark.parametrize("name", ["workers", "batch_size"])
def test_numbers_that_are_none_are_refused(ds, name, number):
    with pytest.raises(InvalidInputError, match=f"{name} must be an integer (>= 1|from 1 to)"):
        ds.map(lambda row: row, schema=Y, **{name: number})


@pytest.mark.parametrize("workers", [1025, 10**400])
def test_more_workers_than_a_machine_can_start_are_refused(ds, workers):
    with pytest.raises(InvalidInputError, match="workers must be an integer from 1 to"):
        ds.map(lambda row: row, schema=Y, workers=workers)


def test_misspelt_arguments_are_not_ignored(ds):
    with pytest.raises(TypeError, match="unexpected keyword argument 'batched'"):
        ds.map(lambda row: row, schema=Y, batched=True)
    with pytest.raises(InvalidInputError, match=r"write columns=\['x'\]"):
        ds.map(lambda row: row, schema=Y, columns="x")
    for schema in (["y"], "y", {}, None):
        with pytest.raises(SchemaError, match="name what the function returns"):
            ds.map(lambda row: row, schema=schema)


@pytest.mark.parametrize("engine", ENGINES)
def test_dataset_of_no_rows_maps_to_none(engine):
    empty = tl.create(f"memory://map-of-none-{engine}", {"x": "int64"})

    new = empty.map(twice, schema=Y, to=f"{empty.url}-new", engine=engine, workers=1)
    empty.map(lambda _: 1 / 0, schema=Y, engine=engine, workers=1)

    assert (len(new), len(empty)) == (0, 0)
    assert list(empty.schema) == ["x", "y"]
    empty.discard()


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_behind_the_one_under_way_are_not_begun_once_it_is_stopped(engine):
    call = Call(lambda row: row, (), None, engine, 1, may_skip=False)
    with _callers(call) as invoke:
        assert invoke([{}, {}]) == [{}, {}]

        invoke.stop()

        assert invoke([{}, {}]) == []
