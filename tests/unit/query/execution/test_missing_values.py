"""NULL and NaN: one rule for comparisons, one for groups, one for order."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryNameError, compile_query
from tests.unit.query.array_source import ArraySource, samples

NAN = float("nan")
NULLABLE = {"nullable": True}
COLUMNS = {
    "x": (ColumnType("number", "float64", (), nullable=True), [3.0, 1.0, None, 2.0, NAN, NAN]),
    "k": (ColumnType("number", "int64", ()), [5, 4, 3, 2, 1, 0]),
    "t": (ColumnType("text", None, (), nullable=True), ["c", "a", "b", None, "e", "d"]),
    "v": (ColumnType("number", "float64", (2,)), [[NAN, 0.0], [-NAN, -0.0]] * 3),
    "j": (ColumnType("json", None, (), nullable=True), [1, True, 1.0, [1], [1.0], {"a": 1}]),
}
# NULL where x is below 3: what lies under the NULLs differs
HIDDEN = "CASE WHEN x > 2.5 THEN x END"


def run(text, **params):
    source = ArraySource(COLUMNS)
    result = compile_query(text, source.schema, params=params).run(source)
    rows = None if result.rows is None else result.rows.tolist()
    return rows, {name: samples(batch) for name, batch in result.columns.items()}


@pytest.mark.parametrize(
    ("order", "rows"),
    [
        (f"{HIDDEN}, k", [0, 5, 4, 3, 2, 1]),
        (f"{HIDDEN} DESC, k", [0, 5, 4, 3, 2, 1]),
        (f"{HIDDEN} NULLS FIRST, k", [5, 4, 3, 2, 1, 0]),
        ("CASE WHEN k > 9 THEN t END DESC, k", [5, 4, 3, 2, 1, 0]),
        ("CASE WHEN k > 9 THEN k END, t", [1, 2, 0, 5, 4, 3]),
        ("-(x * 0 / 0), k", [5, 4, 3, 1, 0, 2]),
    ],
)
@pytest.mark.parametrize("limit", ["", " LIMIT 4"])
def test_nulls_and_nans_that_an_expression_makes_are_ties(order, rows, limit):
    found, _ = run(f"SELECT * ORDER BY {order}{limit}")

    assert found == (rows[:4] if limit else rows)


@pytest.mark.parametrize(
    ("window", "values"),
    [
        ("ROW_NUMBER()", [0, 5, 4, 3, 2, 1]),
        ("LAG(k)", [None, 3, 2, 1, 0, 5]),
        ("LEAD(k)", [0, None, 4, 3, 2, 1]),
    ],
)
def test_a_window_orders_by_its_later_keys_where_earlier_ones_are_null(window, values):
    _, columns = run(f"SELECT {window} OVER (ORDER BY {HIDDEN}, k) AS w")

    assert columns["w"] == values


def test_nulls_are_one_rank():
    _, columns = run(f"SELECT RANK() OVER (ORDER BY {HIDDEN}) AS w")

    assert columns["w"] == [1, 2, 2, 2, 2, 2]


def test_distinct_on_keeps_the_first_by_the_later_keys():
    rows, _ = run(f"SELECT DISTINCT ON ({HIDDEN}) * ORDER BY {HIDDEN}, k")

    assert rows == [0, 5]


@pytest.mark.parametrize("none", ["k > 9", "x != x AND x = x"])
def test_nothing_is_among_no_values_and_that_is_known_of_null_too(none):
    assert run(f"WHERE x NOT IN (SELECT x WHERE {none})")[0] == [0, 1, 2, 3, 4, 5]
    assert run(f"WHERE NOT x IN (SELECT x WHERE {none})")[0] == [0, 1, 2, 3, 4, 5]
    assert run(f"WHERE x IN (SELECT x WHERE {none})")[0] == []
    assert run(f"WHERE t NOT IN (SELECT t WHERE {none})")[0] == [0, 1, 2, 3, 4, 5]
    assert run("WHERE x NOT IN (SELECT x WHERE k = 3)")[0] == []  # a NULL alone: not known


@pytest.mark.parametrize(
    "text",
    [
        "WHERE x = x",
        "WHERE x IN (SELECT x WHERE x IS NOT NULL)",
        "SELECT a.x FROM this AS a JOIN this AS b ON a.x = b.x",
        "SELECT a.x FROM this AS a JOIN this AS b USING (x)",
        "SELECT a.x FROM this AS a JOIN this AS b ON a.x <= b.x AND a.x >= b.x",
        "WHERE x BETWEEN x AND x",
        "WHERE CASE x WHEN x THEN true END",
    ],
)
def test_nan_equals_nothing_wherever_values_are_compared(text):
    assert run(text)[0] == [0, 1, 3]


def test_nan_is_not_among_written_values():
    assert run("WHERE x NOT IN ($nan, 3)", nan=np.nan)[0] == [1, 3, 4, 5]


def test_nan_is_one_value_wherever_equal_rows_are_put_together():
    assert run("SELECT DISTINCT x")[0] == [0, 1, 2, 3, 4]
    assert run("SELECT COUNT(*) AS n GROUP BY x")[1]["n"] == [1, 1, 1, 1, 2]
    assert run("SELECT COUNT(DISTINCT x) AS n")[1]["n"] == [4]
    assert run("SELECT COUNT(*) OVER (PARTITION BY x) AS n")[1]["n"] == [1, 1, 1, 1, 2, 2]
    assert len(run("SELECT x UNION SELECT x")[1]["x"]) == 5
    assert len(run("SELECT x INTERSECT SELECT x WHERE x != x")[1]["x"]) == 1
    assert run("SELECT x EXCEPT SELECT x")[1]["x"] == []


def test_arrays_with_nan_of_either_sign_are_one_value():
    assert run("SELECT DISTINCT v")[0] == [0]


def test_json_values_are_equal_in_a_join_where_they_are_in_a_condition():
    pairs = run("SELECT a.k, b.k AS other FROM this AS a JOIN this AS b ON a.j = b.j")[0]
    tested = run("SELECT a.k, b.k AS other FROM this AS a JOIN this AS b ON a.j = b.j OR a.k < 0")[
        0
    ]

    assert pairs == tested == [0, 0, 1, 2, 2, 3, 3, 4, 4, 5]
    assert run("SELECT DISTINCT j")[0] == [0, 1, 3, 5]


@pytest.mark.parametrize("none", ["WHERE k > 9", "LIMIT 0", "OFFSET 9", "WHERE k > 9 ORDER BY w"])
@pytest.mark.parametrize("window", ["ROW_NUMBER()", "SUM(k)", "LAG(t)", "COUNT(*)"])
def test_a_window_over_no_rows_is_an_empty_column(window, none):
    rows, columns = run(f"SELECT {window} OVER (ORDER BY k) AS w {none}")

    assert (rows, columns) == ([], {"w": []})


def test_elements_of_no_rows_are_elements():
    rows, columns = run("SELECT v FROM (SELECT k, v GROUP BY k) WHERE k > 9 UNGROUP BY v")

    assert (rows, columns) == (None, {"v": []})


def test_a_join_may_ask_a_query():
    text = "SELECT a.k FROM this AS a JOIN this AS b ON a.k = b.k AND a.k IN (SELECT k WHERE k > 3)"

    assert run(text)[0] == [0, 1]
    assert run(text.replace("a.k = b.k AND ", "b.k = (SELECT MAX(k)) AND "))[0] == [0, 1]


@pytest.mark.parametrize(
    ("join", "refused"), [("LEFT", "b"), ("RIGHT", "a"), ("FULL", "a"), ("FULL", "b")]
)
@pytest.mark.parametrize("column", ["x", "*"])
def test_a_merged_column_of_a_side_without_a_row_is_refused(join, refused, column):
    text = f"SELECT {refused}.{column} FROM this AS a {join} JOIN this AS b USING (x)"

    with pytest.raises(QueryNameError, match="merged into 'x'") as caught:
        compile_query(text, ArraySource(COLUMNS).schema)

    assert "ON instead of USING (x)" in caught.value.hint
    assert caught.value.span.start == text.index(f"{refused}.")
