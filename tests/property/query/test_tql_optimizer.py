"""The optimizer changes no answer: optimized and as written give the same rows and values.

Both run over random columns; the optimized plan also has zone maps to prune by. The rows are
checked against conditions evaluated one row at a time in Python.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlake_query import ColumnType, compile_query
from tests.unit.query.array_source import ArraySource, samples

NAMES = ("cat", "dog", "bird")
KINDS = {
    "i": ColumnType("number", "int64", (), nullable=True),
    "f": ColumnType("number", "float32", (), nullable=True),
    "l": ColumnType("label", "int64", (), NAMES),
    "t": ColumnType("text", None, (), nullable=True),
    "r": ColumnType("number", "int64", (None,)),
}
VALUES = {
    "i": st.none() | st.integers(-3, 3),
    "f": st.none() | st.sampled_from([0.0, 0.5, -1.0, 2.5, math.nan, math.inf]),
    "l": st.integers(0, 2),
    "t": st.none() | st.sampled_from(["", "a", "b", "ab"]),
    "r": st.lists(st.integers(-2, 2), max_size=3),
}
COMPARISONS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])

# Each leaf is TQL beside the same as Python: a function of one row, giving True, False or None.
OPS = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def compared(column, op, value):
    shown = f"'{value}'" if isinstance(value, str) else str(value)
    code = NAMES.index(value) if column == "l" else value

    def holds(row):
        return None if row[column] is None else OPS[op](row[column], code)

    return f"{column} {op} {shown}", holds


def any_of(op, value):
    return f"ANY(r {op} {value})", lambda row: any(OPS[op](each, value) for each in row["r"])


def in_list(column, values):
    def holds(row):
        return None if row[column] is None else row[column] in values

    return f"{column} IN ({', '.join(map(repr, values))})", holds


def null_test(column):
    return f"{column} IS NULL", lambda row: row[column] is None


def negated(inner):
    text, holds = inner

    def flipped(row):
        value = holds(row)
        return None if value is None else not value

    return f"NOT ({text})", flipped


def joined(word, parts):
    decisive = word == "OR"

    def holds(row):
        values = [part(row) for _, part in parts]
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    return f" {word} ".join(f"({text})" for text, _ in parts), holds


LEAVES = st.one_of(
    st.builds(compared, st.just("i"), COMPARISONS, st.integers(-3, 3)),
    st.builds(compared, st.just("f"), COMPARISONS, st.sampled_from([0.0, 0.5, -1, 2])),
    st.builds(compared, st.just("l"), st.sampled_from(["=", "!="]), st.sampled_from(NAMES)),
    st.builds(compared, st.just("t"), COMPARISONS, st.sampled_from(["a", "ab", ""])),
    st.builds(any_of, COMPARISONS, st.integers(-2, 2)),
    st.builds(in_list, st.just("i"), st.lists(st.integers(-3, 3), min_size=1, max_size=3)),
    st.builds(null_test, st.sampled_from(["i", "f", "t"])),
    st.sampled_from([("1 < 2", lambda _: True), ("NULL", lambda _: None)]),
    st.just(("1 > 2", lambda _: False)),
)  # fmt: skip
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(negated, inner),
        st.builds(joined, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["i", "i DESC NULLS FIRST", "f DESC", "f", "l DESC", "t", "LENGTH(r)", "i + l"]
)
TABLES = st.lists(st.fixed_dictionaries(VALUES), max_size=14)


def source_of(rows, **options):
    columns = {name: (kind, [row[name] for row in rows]) for name, kind in KINDS.items()}
    return ArraySource(columns, **options)


def both(text, rows):
    """Return the results of the plan as written and of the optimized one over zones of 3 rows."""
    plain = compile_query(text, KINDS, optimize=False).run(source_of(rows))
    fast = compile_query(text, KINDS).run(source_of(rows, zone_rows=3))
    return plain, fast


def assert_same(plain, fast):
    assert (plain.rows is None) == (fast.rows is None)
    if plain.rows is not None:
        assert fast.rows.tolist() == plain.rows.tolist()
    assert list(fast.columns) == list(plain.columns)
    for name, batch in plain.columns.items():
        for a, b in zip(samples(batch), samples(fast.columns[name]), strict=True):
            assert a == b or (a != a and b != b), name  # noqa: PLR0124 NaN equals NaN here


def check_condition(rows, condition):
    text, holds = condition

    plain, fast = both(f"WHERE {text}", rows)

    assert plain.rows.tolist() == [number for number, row in enumerate(rows) if holds(row) is True]
    assert_same(plain, fast)


def check_order(rows, condition, keys, limit, offset):
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    where = f"WHERE {condition[0]}{order} LIMIT {limit} OFFSET {offset}"
    text = f"SELECT i * 2 AS twice, r[0] AS first {where}"

    assert_same(*both(text, rows))


def check_groups(rows, condition, keys, counted):
    text = (
        f"SELECT {keys}, COUNT(*) AS n, SUM(i) AS total, MIN(t) AS first, MAX(f) AS top, "
        f"SUM(CASE WHEN {counted[0]} THEN 1 ELSE 0 END) AS hits "
        f"WHERE {condition[0]} GROUP BY {keys}"
    )

    plain, fast = both(text, rows)

    assert_same(plain, fast)
    kept = [row for row in rows if condition[1](row) is True]
    assert sum(samples(plain.columns["n"])) == len(kept)
    assert sum(samples(plain.columns["hits"])) == sum(counted[1](row) is True for row in kept)
    totals = [value for value in samples(plain.columns["total"]) if value is not None]
    assert np.sum(totals) == sum(row["i"] or 0 for row in kept)


of_conditions = given(TABLES, CONDITIONS)
of_orders = given(
    TABLES, CONDITIONS, st.lists(KEYS, max_size=2), st.integers(0, 6), st.integers(0, 3)
)
of_groups = given(TABLES, CONDITIONS, st.sampled_from(["l", "t", "f", "i, l"]), CONDITIONS)


@pytest.mark.slow
@of_conditions
def test_a_condition_keeps_what_python_keeps(rows, condition):
    check_condition(rows, condition)


@pytest.mark.slow
@of_orders
def test_order_and_limit_are_the_same(rows, condition, keys, limit, offset):
    check_order(rows, condition, keys, limit, offset)


@pytest.mark.slow
@of_groups
def test_groups_are_the_same_and_add_up(rows, condition, keys, counted):
    check_groups(rows, condition, keys, counted)


@pytest.mark.soak
@settings(max_examples=5_000)
@of_conditions
def test_very_many_conditions_keep_what_python_keeps(rows, condition):
    check_condition(rows, condition)


@pytest.mark.soak
@settings(max_examples=3_000)
@of_orders
def test_very_many_orders_are_the_same(rows, condition, keys, limit, offset):
    check_order(rows, condition, keys, limit, offset)


@pytest.mark.soak
@settings(max_examples=3_000)
@of_groups
def test_very_many_groups_are_the_same_and_add_up(rows, condition, keys, counted):
    check_groups(rows, condition, keys, counted)
