"""What columns of pandas and Arrow become that are neither numbers nor plain text."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError


@pytest.fixture
def ingest(tmp_path):
    urls = []

    def run(table, **options):
        urls.append(f"memory://frames-{tmp_path.name}-{len(urls)}")
        return tl.ingest.arrow(table, urls[-1], **options)

    yield run
    for url in urls:
        if tl.exists(url):
            tl.delete(url, confirm=url)


def test_categories_of_pandas_are_classes(ingest):
    frame = pd.DataFrame({"c": pd.Categorical(["b", None, "a", "b"], categories=["b", "a", "z"])})

    ds = ingest(frame)

    assert ds.schema["c"] == tl.ClassLabel(["b", "a", "z"], nullable=True)
    assert [None if row["c"] is None else int(row["c"]) for row in ds] == [0, None, 1, 0]


def test_categories_that_are_numbers_are_these_numbers(ingest):
    ds = ingest(pd.DataFrame({"c": pd.Categorical([30, 10, 30])}))

    assert ds["c"][:].tolist() == [30, 10, 30]


def test_times_that_are_not_are_null_and_zones_stay(ingest):
    moments = pd.to_datetime(["2020-01-01 12:00", None])
    ds = ingest(pd.DataFrame({"t": moments, "z": moments.tz_localize("Europe/Berlin")}))

    assert [row["t"] is None for row in ds] == [False, True]
    assert ds.schema["z"].tz == "Europe/Berlin"
    assert np.datetime64(ds[0]["z"].astimezone(dt.UTC).replace(tzinfo=None)) == np.datetime64(
        "2020-01-01T11:00"
    )


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_days_are_dates(ingest, tmp_path, kind):
    table = pa.table({"d": pa.array([dt.date(2020, 2, 29), None], kind)})
    pq.write_table(table, tmp_path / "a.parquet")

    for ds in (ingest(table), tl.ingest.parquet(tmp_path / "a.parquet", tmp_path / "a.tl")):
        assert ds[0]["d"] == dt.date(2020, 2, 29)
        assert ds[1]["d"] is None
        assert ds.to_arrow()["d"].type == pa.date32()


def test_bytes_of_one_length_are_bytes(ingest):
    ds = ingest(pa.table({"x": pa.array([b"ab", b"cd"], pa.binary(2))}))

    assert ds["x"][:] == [b"ab", b"cd"]


def test_an_index_without_a_name_is_a_column(ingest):
    ds = ingest(pd.DataFrame({"x": [1, 2]}, index=["a", "b"]))

    assert ds["index"][:] == ["a", "b"]
    assert list(ingest(pd.DataFrame({"x": [1, 2]})).schema) == ["x"]


def test_objects_of_two_kinds_are_told_with_their_column(ingest):
    with pytest.raises(InvalidInputError, match="column x"):
        ingest(pd.DataFrame({"x": [1, "a"]}))


@pytest.mark.parametrize("whole", [2**60 + 1, 10**29 + 1])
def test_whole_numbers_of_json_are_refused_where_floats_would_round_them(tmp_path, whole):
    (tmp_path / "a.jsonl").write_text(f'{{"id": {whole}}}\n{{"id": 1.5}}\n')

    with pytest.raises(InvalidInputError, match=f"'id' has integers .* such as {whole}"):
        tl.ingest.jsonl(tmp_path / "a.jsonl", tmp_path / "a.tl")


def test_long_numbers_that_floats_hold_are_taken(tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{{"x": {2**60}, "n": {2**60 + 1}}}\n{{"x": 0.5, "n": 1}}\n')

    ds = tl.ingest.jsonl(tmp_path / "a.jsonl", tmp_path / "a.tl")

    assert ds["x"][:].tolist() == [2.0**60, 0.5]
    assert ds["n"][:].tolist() == [2**60 + 1, 1]


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(3, name="k"),  # which pandas makes of [0, 1, 2], too
        pd.Index([7, 5, 6], name="k"),
        pd.Index(["a", "b", "c"], name="k"),
    ],
)
def test_a_named_index_is_a_column_and_can_be_the_key(ingest, index):
    frame = pd.DataFrame({"v": [1, 2, 3]}, index=index)

    ds = ingest(frame, key="k")

    assert [*ds.schema] == ["v", "k"]
    assert list(ds["k"][:]) == index.tolist()
    assert list(frame.columns) == ["v"]


def test_an_index_of_several_levels_without_names_gets_numbered_names(ingest):
    index = pd.MultiIndex.from_tuples([(1, "x"), (2, "y")])

    ds = ingest(pd.DataFrame({"v": [1, 2]}, index=index))

    assert [*ds.schema] == ["v", "index_0", "index_1"]
    assert ds["index_1"][:] == ["x", "y"]
