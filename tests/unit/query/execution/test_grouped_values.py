"""GROUP BY texts, floats and integers far apart, batch by batch or at once: as in DuckDB."""

import math

import numpy as np
import pytest

import tensorlake as tl

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

ROWS = 12_000  # a scan's first batch holds 8,192 rows
DISTINCT = {"one": 1, "few": 7, "later": 3000, "many": 9_000}
MADE = {
    "t": lambda number: ("", "ß", "日本", "a\0b", "z" * 99)[number % 5] + str(number // 5 or ""),
    "f": lambda number: (math.nan, -0.0, 0.0, math.inf, 0.1)[number % 5] + number // 5,
    "i": lambda number: number * 10**12 - 5 * 10**12,
    "k": lambda number: number % 3,
}


def drawn(distribution, num_rows):
    """Numbers of the values; of "later" most come after the first batch."""
    random = np.random.default_rng(4)
    numbers = random.integers(0, DISTINCT[distribution], num_rows)
    if distribution == "later":
        numbers = np.where(np.arange(num_rows) < 9000, numbers % 5, numbers)
    return numbers.tolist()


@pytest.fixture(scope="module", params=[*DISTINCT, "none"])
def tables(request):
    num_rows = 0 if request.param == "none" else ROWS
    numbers = drawn("few" if request.param == "none" else request.param, num_rows)
    columns = {
        name: [None if row % 11 == 3 else make(number) for row, number in enumerate(numbers)]
        for name, make in MADE.items()
    }
    schema = {
        "t": tl.Text(nullable=True),
        "f": tl.Scalar("float64", nullable=True),
        "i": tl.Scalar("int64", nullable=True),
        "k": tl.Scalar("int64", nullable=True),
        "x": "int64",
    }
    columns["x"] = list(range(num_rows))
    ds = tl.create(f"memory://grouped-values-{request.param}", schema)
    if num_rows:
        ds.extend(columns)
    ds.commit("all")
    database = duckdb.connect(config={"threads": 1})
    kinds = {"t": pa.string(), "f": pa.float64(), "i": pa.int64(), "k": pa.int64(), "x": pa.int64()}
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})
    database.register("arrow", table)
    database.execute("CREATE TABLE this AS SELECT * FROM arrow")
    yield ds, database
    database.close()


def comparable(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@pytest.mark.parametrize("keys", ["t", "f", "i", "t, k", "k, f", "i, t"])
@pytest.mark.parametrize("where", ["", "WHERE x % 5 > 0"])
def test_groups_come_as_they_appear_with_duckdbs_aggregates(tables, keys, where):
    ds, database = tables
    text = f"SELECT {keys}, COUNT(*) AS n, COUNT(k) AS c, SUM(x) AS s {{}} {where} GROUP BY {keys}"

    found = ds.query(text.format("")).to_arrow().to_pylist()

    rows = database.execute(text.format("FROM this") + " ORDER BY MIN(x)").fetchall()
    assert [[*map(comparable, row.values())] for row in found] == [
        [*map(comparable, row)] for row in rows
    ]
    assert len(ds.query(f"SELECT DISTINCT {keys} {where}")) == len(rows)


@pytest.mark.parametrize("key", ["t", "f", "i", "k"])
def test_distinct_values_are_counted_as_duckdb_counts_them(tables, key):
    ds, database = tables
    text = f"SELECT COUNT(DISTINCT {key}) AS n"

    assert ds.query(text)["n"][:].tolist() == [*database.execute(f"{text} FROM this").fetchone()]
