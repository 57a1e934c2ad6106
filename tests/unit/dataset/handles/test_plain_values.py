"""``Tensor.to_numpy`` and ``.to_list``: the values of ``read`` as one array, or as plain Python."""

import datetime as dt
import json
import uuid

import numpy as np
import pytest

import tensorlake as tl

IDENTITY = uuid.UUID(int=7)
FIRST = dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC)
ROWS = {
    "n": ("int64", [1, 2], [1, 2]),
    "f": ("float32", [0.5, -1], [0.5, -1.0]),
    "half": ("bfloat16", [0.5, 2], [0.5, 2.0]),
    "flag": (tl.Bool(), [True, False], [True, False]),
    "label": (tl.ClassLabel(["cat", "dog"]), ["dog", "cat"], ["dog", "cat"]),
    "labels": (tl.ClassLabel(["cat", "dog"], multi=True), [["dog"], []], [["dog"], []]),
    "fixed": (tl.Array("int16", (2,)), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    "ragged": (tl.Array("int16", (None,)), [[1, 2], []], [[1, 2], []]),
    "grid": (tl.Array("int8", (None, 2)), [[[1, 2]], np.zeros((0, 2), "int8")], [[[1, 2]], []]),
    "text": ("str", ["é", ""], ["é", ""]),
    "raw": (tl.Bytes(), [b"\xff", b""], [b"\xff", b""]),
    "json": (tl.Json(), [{"a": [1, None]}, 3], [{"a": [1, None]}, 3]),
    "tags": (tl.Tags(), [["a", "b"], []], [["a", "b"], []]),
    "time": (tl.Timestamp("us", tz="UTC"), [FIRST, FIRST], [FIRST, FIRST]),
    "id": (tl.Uuid(), [IDENTITY, IDENTITY], [IDENTITY, IDENTITY]),
    "outline": (tl.Polygon(), [[[[0, 0], [1, 0], [1, 1]]], []], [[[[0, 0], [1, 0], [1, 1]]], []]),
    "parts": (tl.Sequence(tl.Array("int8", (None,))), [[[1], [2, 3]], []], [[[1], [2, 3]], []]),
    "box": (tl.BBox("xyxy"), [[[0, 0, 9, 9]], np.zeros((0, 4))], [[[0, 0, 9, 9]], []]),
}


@pytest.fixture(scope="module")
def ds():
    schema = {name: of for name, (of, _, _) in ROWS.items()}
    with tl.create("memory://plain-values", schema) as made:
        made.extend({name: given for name, (_, given, _) in ROWS.items()})
        made.commit("two")
        yield made


@pytest.mark.parametrize("name", ROWS)
def test_a_list_has_plain_values(ds, name):
    values = ds[name].to_list()

    def has_numpy(value):
        if isinstance(value, list):
            return any(map(has_numpy, value))
        return isinstance(value, np.generic | np.ndarray)

    assert values == ROWS[name][2]
    assert not has_numpy(values)


@pytest.mark.parametrize("name", ROWS)
def test_an_array_has_the_values_that_brackets_give(ds, name):
    array, read = ds[name].to_numpy(), ds[name][:]

    assert type(array) is np.ndarray
    assert len(array) == 2
    if isinstance(read, np.ndarray):
        assert array.dtype == read.dtype
        assert np.array_equal(array, read)
        return
    assert (array.dtype, array.shape) == (object, (2,))
    for one, expected in zip(array, read, strict=True):
        assert type(one) is type(expected)
        assert np.array_equal(one, expected) if isinstance(one, np.ndarray) else True


@pytest.fixture
def nulls(request):
    with tl.create(
        f"memory://plain-nulls-{abs(hash(request.node.name))}",
        {
            "x": tl.Scalar("int64", nullable=True),
            "t": tl.Text(nullable=True),
            "r": tl.Array("float32", (None,), nullable=True),
            "when": tl.Timestamp("ns", nullable=True),
        },
    ) as made:
        times = [np.datetime64("2020-01-01T00:00:00.000000001"), None]
        made.extend({"x": [1, None], "t": [None, "b"], "r": [None, [1]], "when": times})
        yield made
        made.discard()


def test_null_is_none_in_a_list(nulls):
    assert nulls["x"].to_list() == [1, None]
    assert nulls["t"].to_list() == [None, "b"]
    assert nulls["r"].to_list() == [None, [1.0]]
    assert nulls["when"].to_list() == [np.datetime64("2020-01-01T00:00:00.000000001"), None]
    assert json.dumps(nulls["x"].to_list()) == "[1, null]"


@pytest.mark.parametrize("name", ["x", "t", "r", "when"])
def test_null_in_an_array_needs_a_value_as_in_brackets(nulls, name):
    with pytest.raises(tl.InvalidInputError, match=r"null="):
        nulls[name].to_numpy()


def test_null_in_an_array_is_the_value_given(nulls):
    assert nulls["x"].to_numpy(null=-1).tolist() == [1, -1]
    assert nulls["t"].to_numpy(null="").tolist() == ["", "b"]
    assert [one.tolist() for one in nulls["r"].to_numpy(null=0)] == [[], [1.0]]


@pytest.mark.parametrize("rows", [slice(1, None), [1], np.array([False, True])])
def test_both_take_the_rows_that_read_takes(ds, rows):
    assert ds["n"].to_list(rows) == [2]
    assert ds["n"].to_numpy(rows).tolist() == [2]
    assert ds["n"].to_list(ds["n"] > 1) == ds.where("n > 1")["n"].to_list() == [2]


@pytest.mark.parametrize("name", ROWS)
def test_read_gives_the_sample_of_one_row_as_brackets_do(ds, name):
    for row in (1, -1, np.int64(1)):
        one, expected = ds[name].read(row), ds[name][row]

        assert type(one) is type(expected)
        assert repr(one) == repr(expected)


def test_read_of_one_row_replaces_null_only_where_a_value_is_given(nulls):
    assert nulls["x"].read(1) is None
    assert (nulls["x"].read(1, null=-1), nulls["x"].read(0, null=-1)) == (-1, 1)
    assert nulls["t"].read(0, null="none") == "none"
    assert nulls["r"].read(0, null=0).tolist() == []
    with pytest.raises(tl.RowNotFoundError):
        nulls["x"].read(2)


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        (1, r"give a slice, .* for one row, a list of its number: \[1\]"),
        ("float32", "give an integer, a slice, a list of integers, a boolean mask"),
    ],
)
def test_the_error_for_other_rows_lists_the_forms_of_the_call(ds, rows, advice):
    with pytest.raises(tl.InvalidInputError, match=advice):
        ds["n"].to_list(rows)


@pytest.mark.parametrize("rows", ["float32", 5, [9], None, 1.5])
def test_other_rows_are_refused(ds, rows):
    for call in (ds["n"].to_list, ds["n"].to_numpy):
        with pytest.raises((tl.InvalidInputError, tl.RowNotFoundError)):
            call(rows)


def test_no_rows_are_an_empty_list_and_array(ds):
    none = ds.where("n > 9")

    assert [none[name].to_list() for name in ROWS] == [[]] * len(ROWS)
    assert {len(none[name].to_numpy()) for name in ROWS} == {0}
