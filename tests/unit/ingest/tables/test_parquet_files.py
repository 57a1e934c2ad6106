"""Parquet files of several schemas and folders, as DuckDB writes and reads them."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tests.support.sources import write


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


def put(path, **columns) -> None:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out)
    write(path, out.getvalue().to_pybytes())


def rows(ds) -> list[dict[str, object]]:
    return ds.to_arrow().to_pylist()


@pytest.mark.parametrize("key", [None, "x"])
def test_a_column_that_a_file_lacks_is_null_in_its_rows(url, tmp_path, key):
    put(tmp_path / "d/1.parquet", x=pa.array([1, 2], pa.int32()))
    put(tmp_path / "d/2.parquet", y=["a"], x=[2**40])

    ds = tl.ingest.parquet(tmp_path / "d", url, key=key)

    relation = duckdb.sql(f"FROM read_parquet('{tmp_path}/d/*', union_by_name = true)")
    assert rows(ds) == relation.to_arrow_table().to_pylist()
    assert rows(ds)[0] == {"x": 1, "y": None}
    chosen = tl.ingest.parquet(tmp_path / "d", f"{url}-y", columns=["y"])
    assert rows(chosen) == [{"y": None}, {"y": None}, {"y": "a"}]


def test_numbers_widen_between_files_only_where_none_changes(url, tmp_path):
    put(tmp_path / "d/1.parquet", x=[1, 2])
    put(tmp_path / "d/2.parquet", x=[0.5])
    assert tl.ingest.parquet(tmp_path / "d", url)["x"][:].tolist() == [1, 2, 0.5]

    put(tmp_path / "d/1.parquet", x=[2**53 + 1])
    with pytest.raises(
        tl.InvalidInputError, match=r"'x' of 1\.parquet\[0:1\] is int64, and double"
    ):
        tl.ingest.parquet(tmp_path / "d", f"{url}-lost")
    put(tmp_path / "d/1.parquet", x=["one"])
    with pytest.raises(tl.InvalidInputError, match=r"another type than(.|\n)*columns=\["):
        tl.ingest.parquet(tmp_path / "d", f"{url}-text")


def test_folders_named_by_column_and_value_are_columns(url, tmp_path):
    frame = pl.DataFrame({"x": [1, 2, 3], "year": [2020, 2021, 2021], "place": ["a b", "ü", None]})
    duckdb.register("frame", frame.to_arrow())
    duckdb.sql(f"COPY frame TO '{tmp_path / 'hive'}' (FORMAT parquet, PARTITION_BY (year, place))")
    duckdb.unregister("frame")

    ds = tl.ingest.parquet(tmp_path / "hive", url, key="x")

    found = {row["x"]: row for row in rows(ds)}
    assert [found[x] for x in (1, 2, 3)] == frame.to_dicts()
    below = tl.ingest.parquet(tmp_path / "hive" / "year=2020", f"{url}-below")
    assert [*below.schema] == ["x", "place"]
    pattern = tl.ingest.parquet(f"{tmp_path}/hive/*/*/*.parquet", f"{url}-p", columns=["year"])
    assert sorted(pattern["year"][:].tolist()) == [2020, 2021, 2021]
    put(tmp_path / "hive/year=2022/place=c/p.parquet", x=[4])
    assert tl.ingest.parquet(tmp_path / "hive", url, key="x").ingest_report.added == 1
    ds.refresh()
    assert rows(ds)[-1] == {"x": 4, "year": 2022, "place": "c"}


def test_codes_in_names_of_folders_stay_text_and_a_files_own_column_counts(url, tmp_path):
    put(tmp_path / "d/month=01/p.parquet", x=[1])
    put(tmp_path / "d/month=02/p.parquet", x=[2], month=["february"])

    ds = tl.ingest.parquet(tmp_path / "d", url)

    assert ds["month"][:] == ["01", "february"]


def test_a_dataset_without_the_columns_of_folders_follows_its_source_without_them(url, tmp_path):
    put(tmp_path / "d/day=1/p.parquet", x=[1])
    ds = tl.ingest.parquet(tmp_path / "d", url)
    ds.drop_tensor("day")  # as an ingestion by an earlier version left it
    ds.commit("drop")
    put(tmp_path / "d/day=2/p.parquet", x=[2])

    ds = tl.ingest.parquet(tmp_path / "d", url)

    assert rows(ds) == [{"x": 1}, {"x": 2}]


def test_unknown_columns_are_named_with_those_there_are(url, tmp_path):
    put(tmp_path / "x.parquet", length=[1], width=[2])

    with pytest.raises(tl.InvalidInputError, match=r"'widht'.*'width'.*\n.*length, width"):
        tl.ingest.parquet(tmp_path / "x.parquet", url, columns=["length", "widht"])


def test_an_export_with_the_source_of_its_rows_comes_back_as_its_error_tells(url, tmp_path):
    write(tmp_path / "rows.csv", "id,v\na,1\nb,2\n")
    ds = tl.ingest.csv(tmp_path / "rows.csv", url, key="id")
    exported = tmp_path / "rows.parquet"
    ds.to_parquet(exported, columns=["id", "v", "_source"])

    with pytest.raises(tl.SchemaError, match=r"columns=\['id', 'v'\]"):
        tl.ingest.parquet(exported, f"{url}-2", key="id")
    again = tl.ingest.parquet(exported, f"{url}-2", key="id", columns=["id", "v"])
    assert rows(again) == rows(ds)
    with pytest.raises(tl.SchemaError, match="rename it in the source, or leave it out"):
        tl.ingest.arrow(pq.read_table(exported), f"{url}-3")
    tl.ingest.arrow(pa.table({"id": [1]}), f"{url}-4")
    with pytest.raises(tl.SchemaError, match="rename it in the source, or leave it out"):
        tl.ingest.arrow(pa.table({"id": [1, 2], "_x": [1, 2]}), f"{url}-4")

    with pytest.raises(tl.SchemaError, match="SELECT …, _source AS source"):
        ds.query("SELECT id, _source").materialize(f"{url}-5")
    view = ds.query("SELECT id, _source AS source")
    assert view.materialize(f"{url}-5")["source"][:] == ["rows.csv/id=a", "rows.csv/id=b"]
