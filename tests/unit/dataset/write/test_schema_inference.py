"""``tl.infer_schema``: what values as they are become, and that they then are taken."""

import datetime as dt
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import simplejpeg
from PIL import Image

import tensorlake as tl
from tensorlake.errors import InvalidInputError, SchemaError

JPEG = simplejpeg.encode_jpeg(np.zeros((4, 6, 3), np.uint8))
NOON = dt.datetime.fromisoformat("2026-01-31T12:00:00")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], tl.Scalar("int64")),
        ([1, 2.5], tl.Scalar("float64")),
        ([True, False], tl.Bool()),
        ([1, None], tl.Scalar("int64", nullable=True)),
        (np.arange(3, dtype=np.uint8), tl.Scalar("uint8")),
        (np.zeros((2, 3, 4), np.float32), tl.Array("float32", (3, 4))),
        ([[1, 2], [3, 4]], tl.Array("int64", (2,))),
        ([[1, 2], [3]], tl.Array("int64", (None,))),
        ([[], [3.5]], tl.Array("float64", (None,))),
        ([[[1, 2]], [], None], tl.Array("int64", (None, 2), nullable=True)),
        ([np.zeros((2, 3), "i1"), np.zeros((4, 3), "i1")], tl.Array("int8", (None, 3))),
        (["a.jpg", "b"], tl.Text()),
        (np.array(["a", "bc"]), tl.Text()),
        ([["a"], [], ["b", "c"]], tl.Sequence(tl.Text())),
        ([{"a": 1}, {}], tl.Json()),
        ([[{"a": 1}], []], tl.Json()),
        ([JPEG, JPEG], tl.Image("jpeg")),
        ([b"no picture", JPEG], tl.Bytes()),
        ([uuid.UUID(int=7)], tl.Uuid()),
        ([NOON, NOON], tl.Timestamp()),
        ([NOON.replace(tzinfo=dt.UTC)], tl.Timestamp(tz="UTC")),
        (np.array(["2026-01-31"], "M8[ms]"), tl.Timestamp("ms")),
        ([Image.new("L", (4, 6))], tl.Image("png", "L")),
    ],
    ids=lambda one: None if isinstance(one, (list, np.ndarray)) else str(one),
)
def test_values_have_a_type_that_takes_them(values, expected):
    schema = tl.infer_schema({"x": values})

    assert schema == {"x": expected}
    ds = tl.create(f"memory://infer-{uuid.uuid4()}", schema)
    ds.extend({"x": values})
    assert len(ds) == len(values)
    ds.discard()


def test_paths_are_images_by_their_endings(tmp_path):
    file = tmp_path / "A.JPEG"
    file.write_bytes(JPEG)

    assert tl.infer_schema({"x": [file]}) == {"x": tl.Image("jpeg")}
    with pytest.raises(SchemaError, match=r"unknown format, such as 'a.doc'"):
        tl.infer_schema({"x": [Path("a.doc")]})


def test_rows_may_lack_names_which_are_then_nullable():
    schema = tl.infer_schema([{"a": 1}, {"a": 2, "b": "x"}])

    assert schema == {"a": tl.Scalar("int64"), "b": tl.Text(nullable=True)}


def test_tables_go_by_the_types_of_their_columns():
    table = pa.table({"n": pa.array([1, None], pa.int16()), "c": pa.array(["a", "b"])})
    frame = pd.DataFrame({"v": [0.5, 1.5]}, index=pd.Index([3, 4], name="_row"))

    assert tl.infer_schema(table) == {"n": tl.Scalar("int16", nullable=True), "c": tl.Text()}
    assert tl.infer_schema(frame)["v"].dtype == np.float64
    assert "_row" not in tl.infer_schema(frame)


def test_dataset_has_its_schema_already():
    ds = tl.create("memory://infer-dataset", {"y": tl.ClassLabel(["cat"])})

    assert tl.infer_schema(ds) == dict(ds.schema)
    assert tl.infer_schema(ds[[]]) == dict(ds.schema)


@pytest.mark.parametrize("data", [7, "rows", iter([{"a": 1}]), [], [1, 2]])
def test_what_has_no_rows_is_refused(data):
    with pytest.raises(InvalidInputError, match="a schema follows from columns or rows"):
        tl.infer_schema(data)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, "a"], "values of no one type, such as 'a' "),
        ([1, [2]], "values of 0, 1 axes"),
        ([True, []], "values of 0, 1 axes"),
        ([[1, [2]]], "whose parts differ in length"),
        ([None], "no value to infer its type"),
        ([NOON, NOON.replace(tzinfo=dt.UTC)], "times with a zone and times without"),
        ([object()], "values of no one type"),
        (np.array([1j]), "elements of complex128"),
        ([Image.new("CMYK", (4, 6))], "an image of mode 'CMYK'"),
    ],
)
def test_values_of_no_one_type_are_refused_by_name(values, told):
    with pytest.raises((SchemaError, InvalidInputError), match=f"'x'.*{told}"):
        tl.infer_schema({"x": values})
