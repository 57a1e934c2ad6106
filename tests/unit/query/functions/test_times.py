"""Times of different units meet in the finer one, wherever values meet."""

import datetime as dt
import importlib

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryError, compile_query
from tests.unit.query.array_source import ArraySource, samples

DAYS = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[D]")
UNITS = ("s", "ms", "us", "ns")


def moments(unit):
    kind = ColumnType("number", "int64", (), timestamp_unit=unit)
    return kind, DAYS.astype(f"datetime64[{unit}]").astype(np.int64)


def source_of(first, second):
    return ArraySource({"t": moments(first), "u": moments(second)})


@pytest.mark.parametrize("first", UNITS)
@pytest.mark.parametrize("second", UNITS)
@pytest.mark.parametrize(
    "condition",
    [
        "t = u",
        "t IN (u)",
        "t IN (DATE '2026-01-02', '2026-01-01', TIMESTAMP '2026-01-03 00:00')",
        "t IN (SELECT u)",
        "COALESCE(null, t) = u",
        "CASE WHEN t > DATE '2026-01-02' THEN t ELSE u END = t",
        "GREATEST(t, u, DATE '2025-01-01') = LEAST(u, t, TIMESTAMP '2027-01-01 00:00:00.5')",
        "t BETWEEN DATE '2026-01-01' AND DATE '2026-01-03'",
        "t IN $days",
    ],
)
def test_times_of_two_units_are_equal(first, second, condition):
    source = source_of(first, second)
    params = {"days": list(DAYS)} if "$days" in condition else {}

    found = compile_query(f"WHERE {condition}", source.schema, params=params).run(source)

    assert found.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize("first", UNITS)
@pytest.mark.parametrize("second", UNITS)
def test_a_set_operation_and_a_join_compare_times(first, second):
    source = source_of(first, second)

    both = compile_query("SELECT t UNION SELECT u", source.schema).run(source)
    joined = compile_query(
        "SELECT COUNT(*) AS n FROM this AS a JOIN this AS b ON a.t = b.u", source.schema
    ).run(source)

    assert both.num_rows == 3
    assert samples(joined.columns["n"]) == [3]


TEXTS = [
    "2026-01-02", "2026-01-02 12:30", "2026-01-02T12:30:15.25Z", "1969-12-31 23:59:59.999999", "",
    "x", "2026-02-30", None, "9999-12-31 23:59:59", "0001-01-01",
]  # fmt: skip
OFFSETS = {
    "2026-01-02T01:30:00+02:00": ("2026-01-01T23:30", "2026-01-01"),
    "2026-01-01 20:00-05:00": ("2026-01-02T01:00", "2026-01-02"),
    "0001-01-01T00:00:00+02:00": (None, None),  # before what can be counted
    "9999-12-31T23:59:59-02:00": (None, None),
}


def cast_of(texts, type_name):
    text = ColumnType("text", None, (), nullable=True)
    source = ArraySource({"c": (text, list(texts))})
    plan = compile_query(f"SELECT CAST(c AS {type_name}) AS x", source.schema)
    unit = plan.columns["x"].timestamp_unit
    found = samples(plan.run(source).columns["x"])
    return [None if count is None else np.datetime64(count, unit) for count in found]


@pytest.mark.parametrize("type_name", ["TIMESTAMP", "DATE"])
def test_text_is_cast_to_the_time_that_duckdb_reads(type_name):
    database = importlib.import_module("duckdb").connect(":memory:")
    asked = f"SELECT TRY_CAST(c AS {type_name}) FROM UNNEST(?) AS _(c)"
    theirs = [value for (value,) in database.execute(asked, [TEXTS]).fetchall()]

    expected = [None if value is None else np.datetime64(value) for value in theirs]
    assert cast_of(TEXTS, type_name) == expected


@pytest.mark.parametrize(("text", "expected"), OFFSETS.items())
def test_a_zone_in_a_cast_text_is_brought_to_utc_as_in_a_literal(text, expected):
    moments_found = [cast_of([text], name)[0] for name in ("TIMESTAMP", "DATE")]

    assert moments_found == [value and np.datetime64(value) for value in expected]


def test_what_a_query_wrote_as_text_is_cast_back():
    for unit in UNITS:
        source = source_of(unit, unit)
        same = "CAST(CAST(t AS TEXT) AS TIMESTAMP) = t AND CAST(t AS TIMESTAMP) = t"

        found = compile_query(f"WHERE {same}", source.schema).run(source)

        assert found.rows.tolist() == [0, 1, 2]


def test_the_date_of_a_time_is_its_day():
    source = ArraySource({"t": (moments("ms")[0], [-1, 0, 86_400_000 + 5])})
    found = compile_query("SELECT CAST(t AS DATE) AS x", source.schema).run(source)

    assert samples(found.columns["x"]) == [-86_400, 0, 86_400]


def test_strings_of_json_are_cast_to_times_and_its_numbers_are_null():
    source = ArraySource({"m": (ColumnType("json", None, ()), [{"at": "2026-01-02"}, {"at": 5}])})
    expr = "CAST(CAST(m['at'] AS DATE) AS TEXT)"
    found = compile_query(f"SELECT {expr} AS x", source.schema).run(source)

    assert samples(found.columns["x"]) == ["2026-01-02T00:00:00Z", None]


@pytest.mark.parametrize("type_name", ["TIMESTAMP", "DATE"])
def test_numbers_are_not_times(type_name):
    source = source_of("s", "s")
    with pytest.raises(QueryError, match=f"cannot cast 5, a number, to {type_name}"):
        compile_query(f"SELECT CAST(5 AS {type_name}) AS x", source.schema)


def test_a_literal_that_its_zone_moves_before_the_first_year_is_not_a_time():
    source = source_of("s", "s")
    with pytest.raises(QueryError, match="is not a time"):
        compile_query("WHERE t > TIMESTAMP '0001-01-01T00:00:00+02:00'", source.schema)

    early = dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
    with pytest.raises(QueryError, match="is not a time between the years 1 and 9999"):
        compile_query("WHERE t > $early", source.schema, params={"early": early})


@pytest.mark.parametrize(
    "expr",
    [
        "-t",
        "+t",
        "SUM(t)",
        "SUM(t) OVER ()",
        "ABS(t)",
        "SQRT(t)",
        "ROUND(t)",
        "t AND true",
        "NOT t",
    ],
)
def test_a_moment_is_neither_a_number_nor_a_condition(expr):
    source = source_of("us", "us")
    with pytest.raises(QueryError, match="t is a time"):
        compile_query(f"SELECT {expr} AS x", source.schema)
    with pytest.raises(QueryError, match="a time"):
        compile_query("WHERE t", source.schema)


def test_a_negated_interval_is_an_interval():
    source = source_of("us", "ns")
    day = "INTERVAL '1 day'"
    asked = f"WHERE t + -{day} = u - {day} AND -(t - u) = u - t AND +(t - u) = t - u"

    assert compile_query(asked, source.schema).run(source).rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "expr",
    [
        "s > n",
        "s - n",
        "GREATEST(s, n)",
        "COALESCE(n, s)",
        "s IN (n)",
        "n IN (s)",
        "n - DATE '3000-01-01'",
    ],
)
def test_a_time_that_the_finer_unit_does_not_count_is_an_error(expr):
    kind = ColumnType("number", "int64", (), timestamp_unit="s")
    far = np.array(["3000-01-01", "2026-01-01", "2026-01-01"], "datetime64[s]").astype(np.int64)
    source = ArraySource({"s": (kind, far), "n": moments("ns")})

    with pytest.raises(QueryError, match="beyond those that 64 bits count in ns"):
        compile_query(f"SELECT {expr} AS x", source.schema).run(source).column("x")
    found = compile_query("WHERE n < DATE '3000-01-01'", source.schema).run(source)
    assert found.rows.tolist() == [0, 1, 2]


def test_rows_of_two_sides_meet_in_a_unit_that_counts_both():
    kind = ColumnType("number", "int64", (), timestamp_unit="s")
    wraps = 2**63 // 10**9 * 2  # in nanoseconds near 0, modulo 2⁶⁴
    source = ArraySource(
        {"s": (kind, [wraps, 0]), "n": (moments("ns")[0], [wraps * 10**9 - 2**64, 0])}
    )

    among = compile_query("WHERE n IN (SELECT s)", source.schema).run(source)
    assert among.rows.tolist() == [1]
    for op in ("UNION ALL", "UNION", "INTERSECT"):
        with pytest.raises(QueryError, match=r"'t'.*: the time is beyond .* count in ns"):
            compile_query(f"SELECT s AS t {op} SELECT n AS t", source.schema).run(source)
    known = compile_query("WHERE n NOT IN (DATE '3000-01-01', null)", source.schema).run(source)
    assert known.rows.tolist() == []
    known = compile_query("WHERE n NOT IN (DATE '3000-01-01')", source.schema).run(source)
    assert known.rows.tolist() == [0, 1]


def test_a_null_is_no_time_beyond_a_unit():
    kind = ColumnType("number", "int64", (), timestamp_unit="s", nullable=True)
    source = ArraySource({"s": (kind, [None, 0, 0]), "n": moments("ns")})

    assert compile_query("WHERE s < n", source.schema).run(source).rows.tolist() == [1, 2]


LAST = 2**63 - 1  # the last moment that 64 bits count


@pytest.mark.parametrize(
    ("expr", "row"),
    [
        ("t + INTERVAL '1 second'", 0),
        ("INTERVAL '1 second' + t", 0),
        ("t - INTERVAL '1 second'", 1),
        ("t - -INTERVAL '1 second'", 0),
        ("t - u", 0),
        ("u - t", 0),
        ("DATE_TRUNC('year', t)", 1),
        ("DATE_TRUNC('second', t)", 1),
        ("(t - DATE '1970-01-01') + (t - DATE '1970-01-01')", 0),
    ],
)
@pytest.mark.parametrize("unit", UNITS)
def test_a_time_that_64_bits_do_not_count_is_an_error_of_its_row(expr, row, unit):
    kind = ColumnType("number", "int64", (), timestamp_unit=unit, nullable=True)
    source = ArraySource({"t": (kind, [LAST, -LAST, None]), "u": (kind, [-5, 5, 0])})

    if unit == "s" and expr == "DATE_TRUNC('second', t)":
        found = compile_query(f"SELECT {expr} AS x", source.schema).run(source)
        assert samples(found.columns["x"]) == [LAST, -LAST, None]
        return
    with pytest.raises(QueryError, match=f"row {row}: .* 64 bits count in {unit}; leave the row"):
        compile_query(f"SELECT {expr} AS x", source.schema).run(source)
    with pytest.raises(QueryError, match=f"row {row}: .* 64 bits count in {unit}"):
        compile_query(f"WHERE {expr} != {expr}", source.schema).run(source)

    kept = compile_query(f"SELECT {expr} AS x WHERE t IS NULL", source.schema).run(source)
    assert samples(kept.columns["x"]) == [None]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_sums_and_differences_of_any_times_are_exact_or_errors(unit):
    rng = np.random.default_rng(4)
    ends = np.array([LAST, LAST - 1, -LAST, 1 - LAST, 0, 1, -1, LAST // 2, LAST // 2 + 1])
    pool = np.concatenate([ends, rng.integers(-LAST, LAST, 20)])
    kind = ColumnType("number", "int64", (), timestamp_unit=unit)
    for one in pool.tolist():
        source = ArraySource({"t": (kind, [one] * len(pool)), "u": (kind, pool)})
        exact = [one - other for other in pool.tolist()]
        asked = "SELECT t - u AS x WHERE _row IN $rows"
        fits = [row for row, value in enumerate(exact) if abs(value) <= LAST]
        found = compile_query(asked, source.schema, params={"rows": fits}).run(source)
        assert samples(found.columns["x"]) == [exact[row] for row in fits]
        for row in set(range(len(pool))) - set(fits):
            with pytest.raises(QueryError, match="the difference is beyond"):
                compile_query(asked, source.schema, params={"rows": [row]}).run(source)


def test_a_list_of_times_has_the_error_of_its_row():
    kind = ColumnType("number", "int64", (), timestamp_unit="s")
    group = ColumnType("number", "int64", ())
    source = ArraySource({"t": (kind, [0, 5, LAST]), "n": moments("ns"), "g": (group, [0, 0, 1])})
    lists = "(SELECT ARRAY_AGG(t) AS t, MIN(n) AS n GROUP BY g)"

    with pytest.raises(QueryError, match="row 1: the sum is beyond"):
        compile_query(f"SELECT t + INTERVAL '1 day' AS x FROM {lists}", source.schema).run(source)
    with pytest.raises(QueryError, match="row 1: the time is beyond"):
        compile_query(f"SELECT t - n AS x FROM {lists}", source.schema).run(source)
