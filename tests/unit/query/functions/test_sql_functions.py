"""Functions that SQL has: beside what DuckDB answers, and where they refuse."""

import datetime as dt
import importlib

import pytest

from tensorlake_query import ColumnType, QueryError, compile_query
from tensorlake_query.functions.aggregate.aggregates import AGGREGATES
from tensorlake_query.syntax.ast_builder import FILTERED
from tests.unit.query.array_source import ArraySource, samples

NAN = float("nan")
ROWS = {
    "i": (ColumnType("number", "int64", (), nullable=True), [3, -7, None, 0, 12]),
    "f": (ColumnType("number", "float64", (), nullable=True), [0.5, None, -2.25, 0.0, 1e3]),
    "c": (ColumnType("text", None, (), nullable=True), ["héllo", "", None, "ab", "🐕x"]),
    "b": (ColumnType("bool", "bool", (), nullable=True), [True, None, False, True, False]),
    "t": (
        ColumnType("number", "int64", (), nullable=True, timestamp_unit="ms"),
        [0, 1_789_000_123_456, None, -86_400_001, 951_782_400_000],
    ),
}


def answered(expr, rows=ROWS):
    source = ArraySource(rows)
    result = compile_query(f"SELECT {expr} AS x", source.schema).run(source)
    return samples(result.columns["x"])


@pytest.fixture(scope="module")
def database():
    connection = importlib.import_module("duckdb").connect(":memory:")
    connection.execute("CREATE TABLE t (i BIGINT, f DOUBLE, c TEXT, b BOOLEAN, t TIMESTAMP)")
    columns = [values for _, values in ROWS.values()]
    for *row, milliseconds in zip(*columns, strict=True):
        moment = None
        if milliseconds is not None:
            moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=milliseconds)  # noqa: DTZ001 DuckDB's have no zone
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [*row, moment])
    yield connection
    connection.close()


@pytest.mark.parametrize("expr", [
    "SIGN(f)", "SIN(f)", "COS(f)", "TAN(f)", "NULLIF(i, 3)", "NULLIF(c, 'ab')", "NULLIF(f, i)",
    "GREATEST(i, 1)", "LEAST(i, f)", "GREATEST(c, 'b')", "LEAST(c, 'b', null)", "GREATEST(i, null)",
    "LEAST(b, true)", "CONCAT(c, '-', i)", "CONCAT(i)", "LEFT(c, 2)", "LEFT(c, 0)", "LEFT(c, -1)",
    "RIGHT(c, 2)", "RIGHT(c, 0)", "RIGHT(c, -1)", "RIGHT(c, 99)", "LEFT(c, i)", "RIGHT(c, i)",
    "STDDEV(f)", "STDDEV(i)", "ARRAY_AGG(i)", "ARRAY_AGG(c)", "ARRAY_AGG(DISTINCT b)",
])  # fmt: skip
def test_answers_are_those_of_duckdb(database, expr):
    theirs = expr
    if expr.startswith("ARRAY_AGG"):
        inner = expr.removesuffix(")").split("(")[1]
        known = f"FILTER (WHERE {inner.split()[-1]} IS NOT NULL)"
        theirs = f"ARRAY_AGG({inner}{' ORDER BY 1 DESC' if 'DISTINCT' in inner else ''}) {known}"
    expected = [row[0] for row in database.execute(f"SELECT {theirs} FROM t").fetchall()]

    for one, other in zip(answered(expr), expected, strict=True):
        assert one == (pytest.approx(other) if isinstance(other, float) else other)


@pytest.mark.parametrize(
    "part", ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
)
def test_times_are_truncated_and_written_as_in_duckdb(database, part):
    text = f"SELECT strftime(DATE_TRUNC('{part}', t), '%Y-%m-%dT%H:%M:%S.000Z') FROM t"
    expected = [row[0] for row in database.execute(text).fetchall()]

    assert answered(f"CAST(DATE_TRUNC('{part}', t) AS TEXT)") == expected


def test_times_are_written_in_the_precision_they_have():
    rows = {
        unit: (ColumnType("number", "int64", (), timestamp_unit=unit), [1])
        for unit in ("s", "ms", "us", "ns")
    }

    assert [answered(f"CAST({unit} AS TEXT)", rows)[0] for unit in rows] == [
        "1970-01-01T00:00:01Z",
        "1970-01-01T00:00:00.001Z",
        "1970-01-01T00:00:00.000001Z",
        "1970-01-01T00:00:00.000000001Z",
    ]


def test_nan_is_chosen_only_where_there_is_nothing_else():
    rows = {"f": (ColumnType("number", "float64", (), nullable=True), [NAN, 1.0, None])}

    assert answered("GREATEST(f, 0.5)", rows) == [0.5, 1.0, 0.5]
    assert answered("LEAST(f, f) = LEAST(f, f)", rows) == [False, True, None]


@pytest.mark.parametrize("part", ["MOD(i, 4)", "MOD(i, 0 - 4)"])
def test_a_remainder_is_that_of_the_operator(part):
    written = part.replace("MOD(i, ", "i % (")

    assert answered(part) == answered(written)


@pytest.mark.parametrize(("expr", "message"), [
    ("GREATEST(a, a)", "single numbers, times or texts"),
    ("GREATEST(i, 'x')", "alternatives of different kinds"),
    ("ARRAY_AGG(a)", "collects single values"),
    ("DATE_TRUNC('mont', t)", "did you mean 'month'"),
    ("DATE_TRUNC('month', i)", "takes a time"),
    ("LEFT(c, 0.5)", "expected an integer"),
    ("NULLIF(c, 1)", "cannot compare"),
    ("CONCAT(a)", "cannot cast"),
])  # fmt: skip
def test_wrong_arguments_are_refused(expr, message):
    rows = ROWS | {"a": (ColumnType("number", "float32", (2,)), [[1, 2]] * 5)}

    with pytest.raises(QueryError, match=message):
        answered(expr, rows)


@pytest.mark.parametrize("expr", [
    "COUNT(*) FILTER (WHERE i > 0)", "SUM(i) FILTER (WHERE b)", "AVG(f) FILTER (WHERE f < 100)",
    "COUNT(DISTINCT b) FILTER (WHERE i IS NOT NULL)", "MAX(c) FILTER (WHERE false)",
    "MIN(i) FILTER (WHERE b OR i < 0)", "COUNT(*) FILTER (WHERE b) OVER (PARTITION BY i > 0)",
])  # fmt: skip
def test_filtered_aggregates_are_those_of_duckdb(database, expr):
    expected = [row[0] for row in database.execute(f"SELECT {expr} FROM t").fetchall()]

    assert sorted(answered(expr), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("expr", ["ABS(i)", "FIRST(i)", "SUM(i, axis => 0)", "COUNT()"])
def test_a_filter_belongs_to_an_aggregate_that_skips_nulls(expr):
    with pytest.raises(QueryError, match="takes no FILTER"):
        answered(f"{expr} FILTER (WHERE b)")


def test_every_aggregate_but_first_takes_a_filter():
    assert AGGREGATES - {"FIRST"} == FILTERED


def test_filter_stays_usable_as_a_name():
    rows = {"filter": (ColumnType("number", "int64", ()), [1, 2])}

    assert answered("SUM(filter)", rows) == [3]


@pytest.mark.parametrize(("where", "message"), [
    ("c LIKE '*.jpg'", "use GLOB"),
    ("c NOT ILIKE 'img?'", "use GLOB"),
    ("RANDOM() % 10 = 0", "write RANDOM() < 0.1"),
    ("b AND RANDOM() % 2 = 1", "write RANDOM() < 0.1"),
])  # fmt: skip
def test_conditions_that_meet_no_row_are_warned_of(where, message):
    schema = ArraySource(ROWS).schema

    (warning,) = compile_query(f"WHERE {where}", schema).warnings

    assert message in warning


@pytest.mark.parametrize("where", [
    "c LIKE '%.jpg'", "c LIKE '*%'", r"c LIKE '\*.jpg'", "c GLOB '*.jpg'", "RANDOM() < 0.1",
    "i % 10 = 0", "RANDOM() * 10 % 3 = 0",
])  # fmt: skip
def test_conditions_that_may_be_meant_are_not_warned_of(where):
    assert compile_query(f"WHERE {where}", ArraySource(ROWS).schema).warnings == ()


def test_substr_answers_as_duckdb_before_the_start_and_past_the_end(database):
    grid = [
        f"SUBSTR(c, {start}{length})"
        for start in range(-7, 8)
        for length in ("", *(f", {size}" for size in range(-3, 8)))
    ]
    theirs = database.execute(f"SELECT {', '.join(grid)} FROM t ORDER BY rowid").fetchall()
    source = ArraySource(ROWS)
    named = ", ".join(f"{expr} AS x{place}" for place, expr in enumerate(grid))
    columns = compile_query(f"SELECT {named}", source.schema).run(source).columns
    for place, (expr, *expected) in enumerate(zip(grid, *theirs, strict=True)):
        assert samples(columns[f"x{place}"]) == expected, expr
    assert answered("SUBSTR(c, -5, 4)")[3] == "a"  # 'ab': three places lie before it


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("ROUND(f, 400)", "an integer from -300 to 300, and 400 is not"),
        ("ROUND(f, 1.5)", "an integer from -300 to 300, and 1.5 is not"),
        ("SORT(j)", "j is a JSON value"),
        ("SORT(i)", "i is a number"),
    ],
)
def test_errors_name_the_bound_and_the_type_given(expr, message):
    rows = ROWS | {"j": (ColumnType("json", None, ()), [[1], {}, None, 2, "x"])}
    with pytest.raises(QueryError, match=message):
        answered(expr, rows)


@pytest.mark.parametrize(
    "expr",
    [
        "3 IN (i, NULL)",
        "i IN (i, NULL)",
        "i NOT IN (i, NULL)",
        "3 NOT IN (i, NULL)",
        "c IN (LOWER(c), NULL, 'ab')",
        "i IN (i + 1, 3, NULL, -7)",
        "3 IN (i, 3)",
        "f NOT IN (i, 0.5)",
    ],
)
def test_in_with_a_column_and_null_answers_as_duckdb(database, expr):
    theirs = database.execute(f"SELECT {expr} FROM t ORDER BY rowid").fetchall()
    assert answered(expr) == [one for (one,) in theirs]


def test_in_with_a_column_and_parameters_of_null_and_lists():
    source = ArraySource(ROWS)
    text = "SELECT i IN (i + 1, $none, $few) AS x"
    params = {"none": None, "few": [3, 12]}
    columns = compile_query(text, source.schema, params=params).run(source).columns
    assert samples(columns["x"]) == [True, None, None, None, True]
