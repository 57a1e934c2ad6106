"""Out to pandas: dtypes follow from the schema, zones stay, and a frame comes back as it went."""

from __future__ import annotations

import datetime as dt
import uuid
import zoneinfo
from itertools import count

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, MissingTensorError

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NUMBERS = count()
MAYBE = {"nullable": True}
SCHEMA = {
    "int": "int16",
    "float": "float32",
    "maybe_int": tl.Scalar("int64", **MAYBE),
    "maybe_small": tl.Scalar("uint8", **MAYBE),
    "maybe_double": tl.Scalar("float64", **MAYBE),
    "maybe_single": tl.Scalar("float32", **MAYBE),
    "maybe_brain": tl.Scalar("bfloat16", **MAYBE),
    "truth": tl.Bool(),
    "maybe_truth": tl.Bool(**MAYBE),
    "label": tl.ClassLabel(["cat", "dog", "never"]),
    "maybe_label": tl.ClassLabel(["cat", "dog"], **MAYBE),
    "labels": tl.ClassLabel(["a", "b"], multi=True),
    "wall": tl.Timestamp("s"),
    "utc": tl.Timestamp("us", tz="UTC", **MAYBE),
    "berlin": tl.Timestamp("ms", tz="Europe/Berlin"),
    "fine": tl.Timestamp("ns", tz="Asia/Kolkata", **MAYBE),
    "text": tl.Text(**MAYBE),
    "json": tl.Json(**MAYBE),
    "id": tl.Uuid(),
    "tags": tl.Tags(),
    "vector": tl.Embedding(2, **MAYBE),
    "grid": tl.Array("int8", (2, 2)),
    "boxes": tl.BBox(**MAYBE),
    "words": tl.Sequence("str"),
    "raw": tl.Bytes(),
    "mask": tl.InstanceMask(),
}
MOMENT = dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
ROWS = [
    {
        "int": i,
        "float": [0.1, -0.0, 3e38][i],
        "maybe_int": [2**53 + 1, None, -1][i],
        "maybe_small": [255, None, 0][i],
        "maybe_double": [0.1, None, np.inf][i],
        "maybe_single": [0.1, None, 2][i],
        "maybe_brain": [0.5, None, 2][i],
        "truth": bool(i),
        "maybe_truth": [True, None, False][i],
        "label": ["dog", "cat", "dog"][i],
        "maybe_label": ["dog", None, "cat"][i],
        "labels": [["b", "a"], [], ["a"]][i],
        "wall": dt.datetime(2024, 1, 1 + i),  # noqa: DTZ001 - without a zone
        "utc": [MOMENT, None, MOMENT][i],
        "berlin": [MOMENT, MOMENT.replace(fold=1), MOMENT][i],
        "fine": [np.datetime64("2024-01-01T00:00:00.123456789"), None, MOMENT][i],
        "text": ["", None, "NaN"][i],
        "json": [{"a": 1}, None, {"b": [None]}][i],
        "id": uuid.UUID(int=i),
        "tags": [["x"], [], ["y", "z"]][i],
        "vector": [[1, 0.1], None, [2, 3]][i],
        "grid": [[i, 1], [2, 3]],
        "boxes": [np.ones((2, 4)), None, np.zeros((0, 4))][i],
        "words": [["a", ""], [], ["b"]][i],
        "raw": [b"", b"\x00", b"\xff"][i],
        "mask": [np.eye(2, dtype=bool)] * i,
    }
    for i in range(3)
]
DTYPES = {
    "int": "int16",
    "float": "float32",
    "maybe_int": "Int64",
    "maybe_small": "UInt8",
    "maybe_double": "float64",
    "maybe_single": "float32",
    "maybe_brain": "float32",
    "truth": "bool",
    "maybe_truth": "boolean",
    "label": "category",
    "maybe_label": "category",
    "wall": "datetime64[s]",
    "utc": "datetime64[us, UTC]",
    "berlin": "datetime64[ms, Europe/Berlin]",
    "fine": "datetime64[ns, Asia/Kolkata]",
}


@pytest.fixture
def ds():
    made = tl.create(f"memory://frames-out-{next(NUMBERS)}", SCHEMA)
    made.extend(ROWS)
    made.commit("three")
    return made


def check_equal(one, other):
    assert dict(one.schema) == dict(other.schema)
    assert one.to_arrow() == other.to_arrow()


def test_dtypes_follow_from_the_schema(ds):
    frame = ds.to_pandas()

    found = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    assert found == dict.fromkeys(SCHEMA, "object") | DTYPES
    assert {str(dtype) for dtype in ds[:0].to_pandas().dtypes} == {*found.values()}
    assert ds[[0, 2]].to_pandas().dtypes.equals(frame.dtypes)  # without a NULL too


def test_values_and_nulls_are_pandas_own(ds):
    frame = ds.to_pandas()

    assert frame["maybe_int"].tolist() == [2**53 + 1, pd.NA, -1]
    assert np.isnan(frame["maybe_double"][1])
    assert frame["maybe_double"].sum() == np.inf
    assert frame["maybe_truth"].tolist() == [True, pd.NA, False]
    assert frame["maybe_label"].isna().tolist() == [False, True, False]
    assert frame["utc"][1] is pd.NaT
    assert frame["berlin"][0] == pd.Timestamp(MOMENT)
    assert frame["berlin"].dt.hour.tolist() == [2, 2, 2]
    assert frame["fine"][0].nanosecond == 789
    assert frame["text"].tolist() == ["", None, "NaN"]


def test_a_frame_that_is_ingested_is_the_dataset_it_was(ds):
    check_equal(tl.ingest.arrow(ds.to_pandas(), f"{ds.url}-again"), ds)
    assert tl.infer_schema(ds.to_pandas()) == dict(ds.schema)


def test_a_frame_extends_the_dataset_that_it_is_of(ds):
    again = tl.create(f"{ds.url}-again", SCHEMA)

    again.extend(ds.to_pandas())

    check_equal(again, ds)
    again.discard()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMA)
def test_a_column_goes_back_to_its_rows(ds, name):
    frame = ds.to_pandas().iloc[::-1]
    again = tl.create(f"{ds.url}-again", SCHEMA)
    again.extend([ROWS[0]] * 3)

    again[name][frame.index] = frame[name]

    assert again[[name]].to_arrow() == ds[[name]].to_arrow()
    again.discard()


def test_a_changed_column_is_what_it_is_now(ds):
    frame = ds.to_pandas(columns=["int", "label", "berlin"])
    frame["int"] = frame["int"] / 2
    frame["label"] = frame["label"].astype(str)
    frame["berlin"] = frame["berlin"].dt.tz_convert("UTC")
    frame["new"] = pd.array([1, None, 3], dtype="Int32")

    schema = tl.infer_schema(frame)

    assert schema == {
        "int": tl.Scalar("float64"),
        "label": tl.Text(),
        "berlin": tl.Timestamp("ms", tz="UTC"),
        "new": tl.Scalar("int32", nullable=True),
    }


def test_nan_is_null_where_a_column_may_be_null_and_a_number_elsewhere():
    ds = tl.create(
        f"memory://frames-out-{next(NUMBERS)}",
        {"x": "float64", "maybe": tl.Scalar("float64", nullable=True)},
    )
    values = pd.Series([1.0, np.nan])

    ds.extend({"x": values, "maybe": values})

    assert np.isnan(ds[1]["x"])
    assert ds[1]["maybe"] is None
    ds.discard()


def test_missing_values_are_refused_where_a_column_may_not_be_null():
    url = f"memory://frames-out-{next(NUMBERS)}"
    ds = tl.create(url, {"n": "int64", "y": tl.ClassLabel(["a"])})

    with pytest.raises(InvalidInputError, match="'n'"):
        ds.extend(pd.DataFrame({"n": pd.array([1, None], "Int64"), "y": ["a", "a"]}))
    with pytest.raises(InvalidInputError, match="'y'"):
        ds.extend(pd.DataFrame({"n": [1, 2], "y": pd.Categorical(["a", None])}))
    with pytest.raises(MissingTensorError):
        ds.extend(pd.DataFrame({"n": [1, 2]}))
    assert not ds.has_changes


def test_dicts_of_a_frame_keep_their_own_members():
    frame = pd.DataFrame({"m": [{"a": 1}, {"b": None}, None], "n": [[{"x": 1}], [], [{"y": 2}]]})

    ds = tl.ingest.arrow(frame, f"memory://frames-out-{next(NUMBERS)}")

    assert dict(ds.schema) == {"m": tl.Json(nullable=True), "n": tl.Json()}
    assert [row["m"] for row in ds] == [{"a": 1}, {"b": None}, None]
    assert ds["n"][:] == [[{"x": 1}], [], [{"y": 2}]]


def test_numbers_that_a_query_computed_may_be_missing(ds):
    frame = ds.query("SELECT maybe_int + 1 AS n, maybe_double / 2 AS x, int AS i").to_pandas()

    assert [str(one) for one in frame.dtypes] == ["Int64", "float64", "int16"]
    assert frame["n"].tolist() == [2**53 + 2, pd.NA, 0]


def test_times_that_a_query_gives_keep_their_zone(ds):
    named = ds.query("SELECT berlin AS t, utc").to_pandas()
    latest = ds.query("SELECT MAX(berlin) AS t")
    table = ds.to_pandas(columns=["id", "berlin"]).assign(id=lambda f: f["id"].astype(str))
    joined = ds.query("SELECT d.berlin AS t FROM this JOIN $df AS d USING (id)", df=table)

    assert str(named["t"].dtype) == "datetime64[ms, Europe/Berlin]"
    assert (named["t"] == ds.to_pandas()["berlin"]).all()
    assert latest.to_pandas()["t"][0] == ds.to_pandas()["berlin"].max()
    assert str(latest.to_arrow().schema.field("t").type) == "timestamp[ms, tz=Europe/Berlin]"
    assert str(joined.to_pandas()["t"].dtype) == "datetime64[ms, Europe/Berlin]"


def test_an_arrow_table_extends_the_dataset_that_it_is_of(ds):
    again = tl.create(f"{ds.url}-again", SCHEMA)

    again.extend(ds.to_arrow())

    check_equal(again, ds)
    again.discard()


def test_frames_of_polars_come_in_with_text_classes_and_bytes():
    frame = pl.DataFrame(
        {
            "c": pl.Series(["b", None, "a"], dtype=pl.Categorical),
            "t": ["x", "", None],
            "raw": [b"\x00", b"", b"\xff"],
            "words": [["a"], [], ["b", "c"]],
        }
    )

    ds = tl.ingest.arrow(frame, f"memory://frames-out-{next(NUMBERS)}")

    assert ds.schema["words"] == tl.Sequence(tl.Text())
    assert [row["t"] for row in ds] == ["x", "", None]
    assert ds["raw"][:] == [b"\x00", b"", b"\xff"]
    assert [row["c"] and str(row["c"].name) for row in ds] == ["b", None, "a"]
