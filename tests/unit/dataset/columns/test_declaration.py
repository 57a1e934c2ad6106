"""Declaring computed columns: what is refused, what a schema records, what a process must know."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.dataset.columns.functions import code_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import Schema
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on


def same(row: dict[str, Any]) -> Any:
    return row["x"]


@pytest.fixture
def ds(request: pytest.FixtureRequest) -> Dataset:
    ds = create_on(MemoryStore(f"declared-{request.node.name}"), {"x": "int64", "t": "str"})
    ds.extend({"x": [1, 2], "t": ["a", "b"]})
    ds.add_tensor("y", "int64", compute=same, inputs=["x"])
    ds.add_tensor("twice", "int64", compute="2 * x")
    ds.commit("declared")
    return ds


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"compute": 5, "inputs": ["x"]}, tl.InvalidInputError, "is a function or TQL text, got 5"),
        ({"compute": same}, tl.InvalidInputError, "names the tensors that the function gets"),
        ({"compute": same, "inputs": "x"}, tl.InvalidInputError, r"write inputs=\['image'\]"),
        ({"compute": same, "inputs": ["z"]}, tl.TensorNotFoundError, "no tensor 'z'"),
        ({"compute": same, "inputs": ["twice"]}, tl.SchemaError, "computed from 'twice'"),
        ({"compute": same, "inputs": ["x"], "fill": 1}, tl.InvalidInputError, "leave fill= out"),
        ({"compute": same, "inputs": ["x"], "batch_size": 0}, tl.InvalidInputError, "batch_size"),
        ({"compute": same, "inputs": ["x"], "version": 2}, tl.InvalidInputError, "the version"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(
    ds: Dataset, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ds.add_tensor("new", "int64", **arguments)

    assert not ds.has_changes


def test_types_of_several_tensors_or_items_cannot_be_computed(ds: Dataset) -> None:
    for kind in (tl.Struct({"a": "int64"}), tl.Link(tl.Image("png"))):
        with pytest.raises(tl.SchemaError, match="cannot be computed as"):
            ds.add_tensor("new", kind, compute=same, inputs=["x"])


def test_a_column_cannot_be_computed_from_itself(ds: Dataset) -> None:
    ds.add_tensor("z", "int64", compute=same, inputs=["y"])

    with pytest.raises(tl.SchemaError, match="'y' from 'z' from 'y': a tensor cannot be computed"):
        ds.alter_tensor("y", inputs=["z"])


def test_only_computed_columns_have_functions(ds: Dataset) -> None:
    for call in (
        lambda: ds.alter_tensor("x", compute=same, inputs=["t"]),
        lambda: ds.stale("x"),
        lambda: ds.refresh_columns(["x"]),
    ):
        with pytest.raises(tl.SchemaError, match="no function computes 'x'; computed tensors: y"):
            call()
    with pytest.raises(tl.QueryTypeError, match="no function computes 'x'"):
        ds.query("WHERE FRESH(x)")


def test_inputs_cannot_be_dropped_and_may_be_renamed(ds: Dataset) -> None:
    ds.drop_tensor("twice")
    with pytest.raises(tl.SchemaError, match="'x' cannot be dropped: the computed column 'y'"):
        ds.drop_tensor("x")
    ds.rename_tensor("x", "number")
    ds.alter_tensor("y", compute=lambda row: row["number"])
    ds.refresh_columns()

    assert ds["y"][:].tolist() == [1, 2]


def test_comments_and_layout_do_not_change_a_function() -> None:
    def plain() -> Callable[..., Any]:
        def f(row: dict[str, Any]) -> Any:
            return row["x"] + 1

        return f

    def commented() -> Callable[..., Any]:
        def f(row: dict[str, Any]) -> Any:
            # the same
            return (
                row["x"]  # of course
                + 1
            )

        return f

    def other() -> Callable[..., Any]:
        def f(row: dict[str, Any]) -> Any:
            return row["x"] + 2

        return f

    codes = [code_of(make(), "1", ["a"]) for make in (plain, commented, other)]

    assert codes[0] == codes[1] != codes[2]
    assert code_of(len, "1", ["a"]) != code_of(len, "2", ["a"])


@pytest.mark.slow  # a second process
def test_a_process_is_given_the_function_again(tmp_path: Path) -> None:
    url = str(tmp_path / "ds")
    ds = tl.create(url, {"x": "int64"})
    ds.extend({"x": [1, 2]})
    ds.add_tensor("y", "int64", compute=same, inputs=["x"])
    ds.commit("declared")
    ds.close()
    program = (
        "import sys, tensorlake as tl\n"
        "from tests.unit.dataset.columns.test_declaration import same\n"
        "with tl.open(sys.argv[1]) as ds:\n"
        "    try:\n"
        "        ds.refresh_columns()\n"
        "    except tl.InvalidStateError as error:\n"
        "        print(error)\n"
        "    ds.alter_tensor('y', compute=lambda row: 0)\n"
        "    ds.discard()\n"
        "    try:\n"
        "        ds.refresh_columns()\n"
        "    except tl.InvalidStateError as error:\n"
        "        print(error)\n"
        "    ds.alter_tensor('y', compute=same)\n"
        "    assert not ds.has_changes\n"
        "    ds.refresh_columns()\n"
        "    ds.commit('computed')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=True
    )

    assert "the function of 'y'" in ran.stdout
    assert "'same', was not given to this process; datasets store no code" in ran.stdout
    assert "'<lambda>', which this process has for 'y', is not the function that" in ran.stdout
    assert tl.open(url)["y"][:].tolist() == [1, 2]


def test_functions_of_branches_and_of_discarded_changes_are_known_together(ds: Dataset) -> None:
    other = open_on(ds.__session__.store)
    other.alter_tensor("y", compute=lambda row: -row["x"])
    other.discard()

    ds.refresh_columns()
    assert ds["y"][:].tolist() == [1, 2]
    ds.commit("computed")
    branch = ds.branch("other")
    branch.alter_tensor("y", compute=lambda row: -row["x"])
    branch.refresh_columns()
    ds["x"][0] = 5
    ds.refresh_columns()
    assert (branch["y"][:].tolist(), ds["y"][:].tolist()) == ([-1, -2], [5, 2])


def test_arguments_of_functions_need_one(ds: Dataset) -> None:
    given: list[dict[str, Any]] = [{"inputs": ["x"]}, {"version": "2"}, {"batch_size": 4}]
    for arguments, compute in itertools.product(given, (None, "x + 1")):
        with pytest.raises(tl.InvalidInputError, match="only a function has"):
            ds.add_tensor("new", "int64", compute=compute, **arguments)


def test_an_expression_has_neither_a_function_nor_another_type(ds: Dataset) -> None:
    with pytest.raises(tl.SchemaError, match=r"an expression does.*\n.*drop it, and add it again"):
        ds.alter_tensor("twice", compute=same, inputs=["x"])
    with pytest.raises(tl.SchemaError, match="'twice' is computed by an expression, which decides"):
        ds.alter_tensor("twice", nullable=False)


def test_older_readers_read_computed_cells_and_refuse_expressions(ds: Dataset) -> None:
    entry = ds.__session__.head
    assert entry.schema is not None
    specs = {one["name"]: one for one in entry.schema["tensors"]}

    assert entry.features.read == ("tensor-features",)
    assert entry.features.write == ()
    assert "features" not in specs["y"]
    assert specs["twice"]["features"] == ["expression"]
    assert specs["y"]["compute"]["inputs"] == [specs["x"]["id"]]
    assert Schema.from_json(entry.schema).to_json() == entry.schema


def test_a_form_of_later_versions_is_kept_as_it_is(ds: Dataset) -> None:
    schema = ds.__session__.committed.schema.to_json()
    spec = next(one for one in schema["tensors"] if one["name"] == "y")
    spec["compute"]["later"] = {"a": 1}

    assert Schema.from_json(schema).to_json() == schema
