"""Columns that an expression computes: read like others, never stored, never stale."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on

_numbers = itertools.count()


@pytest.fixture
def ds() -> Dataset:
    store = MemoryStore(f"expressions-{next(_numbers)}")
    ds = create_on(store, {"x": "int64", "name": "str"})
    ds.extend({"x": [3, 1, 2], "name": ["c", "a", "b"]})
    ds.add_tensor("double", "int64", compute="2 * x")
    ds.commit("declared")
    return ds


def test_it_is_read_like_a_column_of_a_query(ds: Dataset) -> None:
    reopened = open_on(ds.__session__.store)

    assert ds["double"][:].tolist() == reopened["double"][:].tolist() == [6, 2, 4]
    assert reopened[1]["double"] == 2
    assert reopened.where("double > 3").rows.tolist() == [0, 2]
    assert reopened.order_by("double").rows.tolist() == [1, 2, 0]
    assert reopened[1:]["double"].to_list() == [2, 4]
    assert reopened.query("SELECT SUM(double) AS s").item() == 12
    assert reopened.to_pandas()["double"].tolist() == [6, 2, 4]
    batch = next(iter(reopened.loader(batch_size=3, columns=["double", "x"])))
    assert batch["double"].tolist() == [6, 2, 4]


def test_it_is_never_stale(ds: Dataset) -> None:
    ds["x"][1] = 5

    assert ds.stale("double").rows.tolist() == []
    assert ds.query("WHERE NOT FRESH(double)").rows.tolist() == []
    with pytest.raises(tl.SchemaError):
        ds.stale("x")
    with pytest.raises(tl.TensorNotFoundError):
        ds.stale("dbl")


def test_a_view_has_its_tensor_and_a_query_the_values_of_its_own_columns(ds: Dataset) -> None:
    view = ds.where("x > 1")
    column = view["double"]

    assert isinstance(column, tl.Tensor)
    assert (column.to_list(), column[1], column.shape) == ([6, 4], 4, (2,))
    assert view[column == 4].rows.tolist() == [2]
    assert pickle.loads(pickle.dumps(view))["double"].to_list() == [6, 4]
    with pytest.raises(tl.ReadOnlyError):
        column[0] = 1
    other = ds.query("SELECT x, x + 1 AS double")
    assert other["double"].tolist() == [4, 2, 3]
    renamed = ds.query("SELECT name, double AS d")
    assert renamed["d"].tolist() == [6, 2, 4]


def test_rows_are_split_and_joined_by_it(ds: Dataset) -> None:
    ds.append({"x": 3, "name": "d"})
    ds.commit("four rows")

    parts = ds.split({"a": 0.5, "b": 0.5}, group="double", seed=2)
    values = [set(part["double"].to_list()) for part in parts.values()]
    assert values[0].isdisjoint(values[1])
    assert values[0] | values[1] == {6, 2, 4}
    stratified = ds.split({"a": 0.5, "b": 0.5}, stratify="double", exact=True)
    assert sum(map(len, stratified.values())) == 4

    joined = tl.concat([ds[2:], ds[:1]])
    assert joined["double"].to_list() == [4, 6, 6]
    with pytest.raises(tl.InvalidInputError, match="views of the same columns"):
        tl.concat([ds[2:], ds[["x", "name"]]])
    with pytest.raises(tl.UnsupportedFeatureError, match="values that its query computed: double"):
        tl.concat([ds.query("SELECT x, name, 1 AS double"), ds[:1]])


@pytest.mark.parametrize("form", ["tfrecord", "mds"])
def test_formats_of_files_get_its_values(ds: Dataset, tmp_path: Path, form: str) -> None:
    ds.add_tensor("upper", "str", compute="UPPER(name)")
    view = ds.where("x > 1")

    getattr(view, f"to_{form}")(tmp_path / "rows")
    back = getattr(tl.ingest, form)(tmp_path / "rows", f"memory://expressions-{form}")

    assert back["double"].to_list() == [6, 4]
    assert back["upper"].to_list() == ["C", "B"]
    with pytest.raises(tl.UnsupportedFeatureError, match="'double' is computed"):
        getattr(ds.query("SELECT x, x AS double"), f"to_{form}")(tmp_path / "query")


def test_rows_are_inserted_with_all_columns_but_it(ds: Dataset) -> None:
    ds.execute("INSERT INTO this SELECT * FROM this WHERE x = 1")
    stored = create_on(MemoryStore(f"stored-{next(_numbers)}"), {"x": "int64", "double": "int64"})
    stored.execute("INSERT INTO this SELECT * FROM $source", source=ds[["x", "double"]])

    assert ds["double"][:].tolist() == stored["double"][:].tolist() == [6, 2, 4, 2]
    for text in (
        "INSERT INTO this SELECT x, double FROM this",
        "INSERT INTO this (name, double) SELECT name, x FROM this",
        "UPDATE this SET double = 1",
    ):
        with pytest.raises(tl.QueryError, match="'double', which an expression computes"):
            ds.execute(text)


def test_its_values_follow_its_inputs(ds: Dataset) -> None:
    ds["x"][0] = 10
    ds.append({"x": 5, "name": "d"})

    assert ds["double"][:].tolist() == [20, 2, 4, 10]
    ds.commit("changed")
    assert ds["double"][:].tolist() == [20, 2, 4, 10]
    assert ds.query("WHERE FRESH(double)").count() == 4


def test_rows_are_deleted_updated_and_saved_by_it(ds: Dataset) -> None:
    view = ds.where("double >= 4")
    view.save("large")
    ds.delete(ds.where("double = 6"))
    ds.execute("UPDATE this SET x = double + 1 WHERE double = 2")
    ds.commit("by the column")

    assert ds["x"][:].tolist() == [3, 2]
    assert ds["double"][:].tolist() == [6, 4]
    assert ds.views["large"].rerun().rows.tolist() == [0, 1]
    assert ds.upsert([{"x": 2, "name": "z"}], on="x") is not None
    assert ds["double"][:].tolist() == [6, 4]


def test_no_chunk_is_stored_for_it(ds: Dataset) -> None:
    ds.append({"x": 5, "name": "d"})
    ds.commit("one more")
    ds.optimize(order_by="x")

    snapshot = ds.__session__.committed
    assert not snapshot.extents(snapshot.spec("double").id).nbytes.any()
    assert ds["double"][:].tolist() == [2, 4, 6, 10]


def test_values_of_it_cannot_be_given(ds: Dataset) -> None:
    with pytest.raises(tl.InvalidInputError, match="gives values of 'double', which an expression"):
        ds.append({"x": 1, "name": "e", "double": 2})
    with pytest.raises(tl.QueryNameError, match="UPDATE sets 'double', which an expression"):
        ds.execute("UPDATE this SET double = 1")
    for rows in (0, slice(None), ds.where("x = 1")):
        with pytest.raises(tl.InvalidInputError, match="of 'double', which an expression computes"):
            ds["double"][rows] = 1
    assert not ds.has_changes


def test_it_has_the_reads_of_a_tensor(ds: Dataset) -> None:
    number = tl.Scalar("int64", nullable=True)
    ds.add_tensor("some", number, compute="CASE WHEN x = 2 THEN NULL ELSE x END")
    ds.add_tensor("long", "str", compute="name || '!'")
    ds.add_tensor("vector", tl.Array("int64", (2,)), fill=[1, 2])
    ds.add_tensor("pair", tl.Array("int64", (2,)), compute="x * vector")
    ds.add_tensor("class", tl.ClassLabel(["no", "yes"]), fill="yes")
    ds.add_tensor("same", tl.ClassLabel(["yes", "no"]), compute="class")

    assert ds["some"].to_list() == [3, 1, None]
    assert ds["some"].read(null=0).tolist() == [3, 1, 0]
    with pytest.raises(tl.InvalidInputError, match="NULL"):
        ds["some"][:]
    assert ds[ds["some"].is_null()].rows.tolist() == [2]
    assert ds.where((ds["double"] > 2) & ds["long"].isin(["c!"])).rows.tolist() == [0]
    assert ds["long"][:] == ds["long"].to_list() == ["c!", "a!", "b!"]
    assert ds["long"][-1] == "b!"
    assert ds["pair"].to_numpy().tolist() == [[3, 6], [1, 2], [2, 4]]
    assert ds["pair"].shapes().tolist() == [[2]] * 3
    assert ds["pair"].shapes(1) == (2,)
    assert ds["same"][0] == "yes"
    assert (ds["double"].dtype, ds["double"].shape) == (np.dtype("int64"), (3,))
    assert [*ds["double"]] == [6, 2, 4]
    with pytest.raises(tl.RowNotFoundError, match="row 9"):
        ds["double"][9]
    with pytest.raises(tl.InvalidInputError, match="has no shape"):
        ds["long"].shapes()
    ds.delete(slice(None))
    assert ds["double"][:].tolist() == ds["long"][:] == []


def test_only_the_rows_that_are_read_are_evaluated() -> None:
    ds = create_on(MemoryStore("expressions-few"), {"image": tl.Image("png")})
    ds.extend({"image": [np.full((2, 2, 3), row, np.uint8) for row in range(5)]})
    number = tl.Scalar("float64", nullable=True)  # the mean of no pixels is NULL
    ds.add_tensor("inverse", number, compute="1 / (ARRAY_MEAN(image) - 3)")
    ds.add_tensor("same", tl.Image("png"), compute="image")

    assert ds["inverse"][4] == 1
    assert ds["inverse"][[1, 2]].tolist() == [-0.5, -1]
    assert ds["same"][2].tolist() == [[[2, 2, 2]] * 2] * 2
    assert ds["same"].shapes().tolist() == [[2, 2, 3]] * 5


def test_it_has_no_index(ds: Dataset) -> None:
    with pytest.raises(tl.InvalidInputError, match=r"create_index\('double'\): it is computed"):
        ds.create_index("double")
    assert not ds.indexes


def test_another_expression_replaces_it(ds: Dataset) -> None:
    ds.alter_tensor("double", compute="x + x + 1")
    assert ds["double"][:].tolist() == [7, 3, 5]
    with pytest.raises(tl.SchemaError, match="'x' is stored, and an expression is not"):
        ds.alter_tensor("x", compute="1 + 1")


def test_it_goes_through_branches_and_merges(ds: Dataset) -> None:
    other = ds.branch("other")
    other.add_tensor("triple", "int64", compute="3 * x")
    other["x"][0] = 7
    other.commit("there")
    ds["x"][1] = 8
    ds.commit("here")
    ds.merge("other")

    assert ds["triple"][:].tolist() == [21, 24, 6]
    assert ds["double"][:].tolist() == [14, 16, 4]


def test_an_expression_that_does_not_fit_the_other_branch_is_not_merged(ds: Dataset) -> None:
    other = ds.branch("other")
    other.add_tensor("greeting", "str", compute="'hi ' || name")
    other.commit("there")
    ds.rename_tensor("name", "title")
    ds.commit("here")
    with pytest.raises(tl.ConflictError, match="the computed column 'greeting' of one"):
        ds.merge("other")

    ds.rename_tensor("title", "name")
    ds.commit("as there")
    ds.merge("other")
    assert ds[0]["greeting"] == "hi c"


@pytest.mark.parametrize(
    ("kind", "text", "error", "message"),
    [
        ("float32", "2 * x", tl.DTypeMismatchError, "gives int64 of shape"),
        ("int64", "2 * y", tl.QueryNameError, "y"),
        ("int64", "2 *", tl.QuerySyntaxError, "expected"),
        ("int64", "SUM(x)", tl.SchemaError, "is not a value computed for each row"),
        ("int64", "double + 1", tl.QueryNameError, "double"),
    ],
)
def test_what_is_not_an_expression_of_stored_tensors_is_refused(
    ds: Dataset, kind: str, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ds.add_tensor("other", kind, compute=text)

    assert not ds.has_changes


def test_tensors_that_it_reads_can_neither_be_dropped_nor_renamed(ds: Dataset) -> None:
    with pytest.raises(tl.SchemaError, match="'x' cannot be dropped: the computed column 'double'"):
        ds.drop_tensor("x")
    with pytest.raises(tl.SchemaError, match="'x' cannot be renamed: the computed column 'double'"):
        ds.rename_tensor("x", "y")
    ds.rename_tensor("double", "twice")
    assert ds["twice"][:].tolist() == [6, 2, 4]
    ds.drop_tensor("twice")
    ds.drop_tensor("x")


def test_images_have_columns_of_their_shapes() -> None:
    ds = create_on(MemoryStore("expressions-images"), {"image": tl.Image("png")})
    ds.extend({"image": [np.zeros((4, 5, 3), np.uint8), np.zeros((6, 7, 3), np.uint8)]})
    ds.add_tensor("height", "int64", compute="SHAPE(image)[0]")

    assert ds["height"][:].tolist() == [4, 6]
