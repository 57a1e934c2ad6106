"""Limits bind in every step: time, bytes and cancellation end a run wherever it happens to be.

A run is called off while the last of what its step reads is being read. What would go on, order
that, pair it or group it, must end with an error instead of a result.
"""

import numpy as np
import pytest

from tensorlake_query import ColumnType, Limits, QueryLimitError, compile_query, user_function
from tests.unit.query.array_source import ArraySource

ROWS = 300
COLUMNS = {
    "x": (ColumnType("number", "int64", ()), [row % 7 for row in range(ROWS)]),
    "y": (ColumnType("number", "int64", ()), list(range(ROWS))),
    "t": (ColumnType("text", None, ()), [f"text {row}" for row in range(ROWS)]),
    "r": (ColumnType("number", "int64", (None,)), [[row] * (row % 3) for row in range(ROWS)]),
}

SCHEMA = {name: kind for name, (kind, _) in COLUMNS.items()}

# Each is beside the column that its step reads last.
STEPS = [
    ("WHERE x > 3", "x"),
    ("WHERE t LIKE '%1%2%3%'", "t"),
    ("WHERE t REGEXP '^(t+)+e'", "t"),
    ("WHERE MATCH(t, 'text')", "t"),
    ("ORDER BY x", "x"),
    ("ORDER BY x LIMIT 3", "x"),
    ("ORDER BY BM25_SIMILARITY(t, 'text') DESC LIMIT 3", "t"),
    ("SELECT DISTINCT x", "x"),
    ("ARRANGE BY x", "x"),
    ("SAMPLE BY x + 1", "x"),
    ("SELECT x, COUNT(*) AS n GROUP BY x", "x"),
    ("SELECT SUM(x) AS s", "x"),
    ("SELECT x, y GROUP BY x HAVING COUNT(*) > 1", "x"),
    ("SELECT r UNGROUP BY r", "r"),
    ("SELECT RANK() OVER (ORDER BY x) AS n", "x"),
    ("SELECT SUM(x) OVER (PARTITION BY x ORDER BY y) AS n", "y"),
    ("WHERE x > 3 EXPAND BY 2 2", "x"),
    ("SELECT a.x FROM this AS a JOIN this AS b ON a.y = b.y", "y"),
    ("SELECT a.x FROM this AS a JOIN this AS b ON a.y < b.y", "y"),
    ("SELECT x UNION SELECT y", "y"),
    ("WHERE x IN (SELECT x WHERE y > 3)", "x"),
    ("WHERE x = (SELECT MAX(x))", "x"),
    ("SELECT x FROM (SELECT x + 1 AS x) WHERE x > 2", "x"),
]


class Watched(ArraySource):
    """Tells whether some column has been read to its last row; shapes count as reads."""

    def __init__(self, watched):
        super().__init__(COLUMNS)
        self.watched = watched
        self.is_over = False

    def read(self, column, rows):
        self.is_over = self.is_over or (column == self.watched and ROWS - 1 in rows)
        return super().read(column, rows)

    def shapes(self, column, rows):
        self.is_over = self.is_over or (column == self.watched and ROWS - 1 in rows)
        return super().shapes(column, rows)


@pytest.mark.parametrize(("text", "last"), STEPS)
def test_a_run_that_is_called_off_while_it_reads_gives_no_result(text, last):
    source = Watched(last)
    compiled = compile_query(text, source.schema)

    with pytest.raises(QueryLimitError, match="cancelled"):
        compiled.run(source, cancelled=lambda: source.is_over)

    assert source.is_over


@pytest.mark.parametrize(("text", "last"), STEPS)
def test_a_run_whose_time_is_up_while_it_reads_gives_no_result(text, last):
    source = Watched(last)
    compiled = compile_query(text, source.schema)

    with pytest.raises(QueryLimitError, match="ran past its timeout of 10 s"):
        compiled.run(source, timeout_s=10, clock=lambda: 20.0 if source.is_over else 0.0)


@pytest.mark.parametrize("text", [text for text, last in STEPS if last != "r"])
def test_a_run_that_reads_too_much_gives_no_result(text):
    source = ArraySource(COLUMNS)

    with pytest.raises(QueryLimitError, match="more than 100"):
        compile_query(text, source.schema).run(source, max_nbytes=100)


def functions(calls):
    def follow(value):
        calls.append(value)
        return value + 1

    made = user_function("NEXT", follow, dtype="int64", shape=(), vectorized=False)
    return {"NEXT": made}


@pytest.mark.parametrize("text", ["WHERE NEXT(x) > 0", "SELECT NEXT(x) AS n", "ORDER BY NEXT(x)"])
def test_a_slow_function_is_not_called_for_a_whole_batch_of_numbers(text):
    kind = ColumnType("number", "int64", ())
    calls = []
    source = ArraySource({"x": (kind, [0] * 20_000)})
    compiled = compile_query(text, source.schema, functions=functions(calls))

    with pytest.raises(QueryLimitError, match="cancelled"):
        compiled.run(source, cancelled=lambda: bool(calls))

    assert len(calls) < 5_000


@pytest.mark.parametrize(
    "text",
    [
        "EXPAND BY 1000000 1000000 OVERLAP true",
        "SELECT a.y FROM this AS a JOIN this AS b ON a.x = b.x",
        "SELECT a.y FROM this AS a CROSS JOIN this AS b",
    ],
)
def test_rows_that_a_step_would_make_count_before_they_are_made(text):
    kind = ColumnType("number", "int64", ())
    source = ArraySource({"x": (kind, [0] * 3_000), "y": (kind, [0] * 3_000)})

    with pytest.raises(QueryLimitError, match="more than 1,000,000"):
        compile_query(text, source.schema).run(source, max_nbytes=1_000_000)


def test_elements_count_before_they_are_rows():
    kind = ColumnType("number", "int8", (None,))
    source = ArraySource({"r": (kind, [np.zeros(100_000, np.int8)] * 2)})

    with pytest.raises(QueryLimitError, match="more than 1,000,000"):
        compile_query("UNGROUP BY r", source.schema).run(source, max_nbytes=1_000_000)


def test_no_step_makes_more_rows_than_may_be_held():
    kind = ColumnType("number", "int64", ())
    source = ArraySource({"x": (kind, [0] * 20_000)})
    compiled = compile_query("SELECT a.x FROM this AS a JOIN this AS b USING (x)", source.schema)

    with pytest.raises(QueryLimitError, match="makes 400,000,000 rows, more than 268,435,456"):
        compiled.run(source)


MANY = ", ".join(f"SUM(x + {number}) AS s{number}" for number in range(200))


def test_binding_is_called_off_between_parts_of_a_query():
    checks = []
    compile_query(f"SELECT {MANY}", SCHEMA, limits=Limits(cancelled=lambda: bool(checks.append(0))))

    assert len(checks) > 3 * 200  # each call, column and literal
    left = iter(range(len(checks) - 1))
    with pytest.raises(QueryLimitError, match="cancelled, while its names and types were checked"):
        compile_query(f"SELECT {MANY}", SCHEMA, limits=Limits(cancelled=lambda: not any_left(left)))


def any_left(numbers):
    return next(numbers, None) is not None


def test_a_batch_of_many_expressions_is_called_off_between_two():
    source, checks = ArraySource(COLUMNS), []

    compile_query(f"SELECT {MANY}", source.schema).run(
        source, cancelled=lambda: bool(checks.append(0))
    )

    assert len(checks) > 200


def test_as_many_neighbours_as_can_be_written_are_all_rows():
    source = ArraySource(COLUMNS)
    text = f"WHERE y = 3 EXPAND BY {2**63 - 1} {2**63 - 1}"

    assert compile_query(text, source.schema).run(source).rows.tolist() == list(range(ROWS))


@pytest.mark.parametrize("key", ["x + {0}", "x + {0} * 1000000", "1 + {0}"])
def test_keys_beyond_the_dimensions_of_an_array_group_rows(key):
    source = ArraySource(COLUMNS)
    keys = ", ".join(key.format(number) for number in range(70))
    distinct = 1 if key.startswith("1") else 7

    result = compile_query(f"SELECT COUNT(*) AS n GROUP BY {keys}", source.schema).run(source)

    assert sum(result.columns["n"].values.tolist()) == ROWS
    assert len(result.columns["n"].values) == distinct


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT j",
        "SELECT ARRAY_AGG(j) AS a",
        "SELECT MEDIAN(j['a']) AS m",
        "WHERE j['a'] > 5",
    ],
)
def test_time_is_checked_between_a_few_thousand_json_values(text):
    rows = 20_000
    source = ArraySource({"j": (ColumnType("json", None, ()), [{"a": row} for row in range(rows)])})
    most = 0
    read = source.read

    def counted(name, chosen, *args, **options):
        nonlocal most
        most = max(most, len(chosen))
        return read(name, chosen, *args, **options)

    source.read = counted
    compile_query(text, source.schema).run(source)
    assert 0 < most <= 8192
