"""The columns of a query are in the order in which they are written, as in DuckDB."""

import json
import pickle

import duckdb
import pyarrow as pa
import pytest

import tensorlake as tl

COLUMNS = {"id": [3, 1, 2], "x": [30, 10, 20], "s": ["c", "a", "b"]}
SELECTS = [
    "SELECT x * 2 AS d, id FROM this LIMIT 2",
    "SELECT id, x / 0.5 AS d, s FROM this",
    "SELECT s, id FROM this",
    "SELECT s AS t, * FROM this",
    "SELECT *, x + 1 AS y FROM this",
    "SELECT x + 1 AS y, x AS z, s, id + 1 AS i FROM this WHERE id > 1 ORDER BY id",
    "SELECT SUM(x) OVER (ORDER BY id) AS total, id FROM this ORDER BY id",
    "SELECT MAX(x) AS m, s FROM this GROUP BY s ORDER BY s",
]


@pytest.fixture
def ds(tmp_path):
    made = tl.create(tmp_path / "rows", {"id": "int64", "x": "int64", "s": "str"})
    made.extend(COLUMNS)
    made.commit("rows")
    return made


def names_in_duckdb(tql):
    this = pa.table(COLUMNS)  # noqa: F841 - DuckDB finds it by name
    return duckdb.sql(tql).columns


@pytest.mark.parametrize("tql", SELECTS)
def test_all_readers_have_the_order_of_the_select(ds, tql, tmp_path):
    expected = names_in_duckdb(tql)

    view = ds.query(tql)

    assert view.to_arrow().column_names == expected
    assert view.to_pandas().columns.tolist() == expected
    assert [*view[0]] == [*dict(view[0])] == expected
    assert view[1:].to_arrow().column_names == expected
    assert pickle.loads(pickle.dumps(view)).to_arrow().column_names == expected
    view.to_csv(tmp_path / "rows.csv")
    head, *_ = (tmp_path / "rows.csv").read_text().splitlines()
    assert head.replace(chr(34), "").split(",") == expected
    view.to_jsonl(tmp_path / "rows.jsonl")
    assert [*json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])] == expected
    places = [view._repr_html_().find(f">{name}<") for name in expected]
    assert places == sorted(places)


@pytest.mark.parametrize("tql", SELECTS[:7])
def test_copies_and_saved_views_keep_the_order(ds, tql, tmp_path):
    view = ds.query(tql)

    assert [*view.materialize(tmp_path / "copy").schema] == names_in_duckdb(tql)
    view.save("kept")
    assert ds.views["kept"].to_arrow().column_names == names_in_duckdb(tql)


def test_chosen_columns_are_in_the_order_of_the_choice(ds):
    ds.add_tensor("d", "int64", compute="x * 2")
    ds.commit("d")

    assert ds[["d", "id"]].to_arrow().column_names == ["d", "id"]
    assert ds.query("SELECT d, id, s")[["s", "d"]].to_arrow().column_names == ["s", "d"]
    assert ds.select("d", "id", y="x + 1").to_arrow().column_names == ["d", "id", "y"]
