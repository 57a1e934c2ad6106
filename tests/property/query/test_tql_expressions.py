"""Random typed expressions: what a query computes is what plain Python computes, row by row.

An expression is its text and a function of one row that gives its value, None for NULL. Both are
built together, so the oracle shares nothing with the engine but the meaning of the operators.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlake_query import ColumnType, compile_query
from tests.support.examples import examples
from tests.unit.query.array_source import ArraySource, samples

KINDS = {
    "i": ColumnType("number", "int64", (), nullable=True),
    "j": ColumnType("number", "int64", ()),
    "t": ColumnType("text", None, (), nullable=True),
    "r": ColumnType("number", "int64", (None,)),
    "m": ColumnType("number", "int64", (2, 2), nullable=True),
    "d": ColumnType("json", None, (), nullable=True),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-3, 3),
            "j": st.integers(-3, 3),
            "t": st.none() | st.sampled_from(["", "a", "b a", "ab"]),
            "r": st.lists(st.integers(-2, 2), max_size=3),
            "m": st.none() | st.lists(st.integers(-2, 2), min_size=4, max_size=4),
            "d": st.none()
            | st.fixed_dictionaries({}, optional={"k": st.integers(0, 2) | st.just("x")}),
        }
    ),
    max_size=5,
)  # fmt: skip
COMPARE = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def strict(function, *parts):
    """Return a function of a row that is None where any part is."""

    def of(row):
        values = [part(row) for part in parts]
        return None if any(value is None for value in values) else function(*values)

    return of


def leaf(text, of):
    return text, of


def matrix(row):
    return None if row["m"] is None else np.reshape(row["m"], (2, 2))


def at(values, place):
    return values[place] if -len(values) <= place < len(values) else None


def guarded(function):
    """Return the function with NULL for an empty array."""
    return lambda values: function(values) if len(values) else None


NUMBER_LEAVES = st.one_of(
    st.sampled_from([
        leaf("i", lambda row: row["i"]),
        leaf("j", lambda row: row["j"]),
        leaf("LENGTH(t)", lambda row: None if row["t"] is None else len(row["t"])),
        leaf("LENGTH(r)", lambda row: len(row["r"])),
        leaf("ARRAY_SUM(r)", lambda row: sum(row["r"])),
        leaf("ARRAY_PROD(r)", lambda row: math.prod(row["r"])),
        leaf("ARRAY_MAX(r)", lambda row: max(row["r"], default=None)),
        leaf("ARGMIN(r)", lambda row: row["r"].index(min(row["r"])) if row["r"] else None),
        leaf("LENGTH(UNIQUE(r))", lambda row: len(set(row["r"]))),
        leaf("SORT(r)[-1]", lambda row: at(sorted(row["r"]), -1)),
        leaf("NONZERO(r)[0]", lambda row: at([k for k, x in enumerate(row["r"]) if x], 0)),
        leaf("ARRAY_SUM(m[:, -1])", strict(lambda m: int(m[:, -1].sum()), matrix)),
        leaf("m[1, 0]", strict(lambda m: int(m[1, 0]), matrix)),
        leaf("ARRAY_MIN(m, axis => 0)[1]", strict(lambda m: int(m.min(axis=0)[1]), matrix)),
        leaf("ARRAY_SUM(ABS(r[::-1][:2]))", lambda row: sum(map(abs, row["r"][::-1][:2]))),
        leaf("CAST(d['k'] AS INT)", lambda row: k_of(row["d"])),
        leaf("ROW_NUMBER()", lambda row: row["row"]),
    ]),
    st.integers(-4, 4).map(lambda n: leaf(str(n), lambda _row: n)),
    st.integers(-3, 3).map(lambda n: leaf(f"r[{n}]", lambda row: at(row["r"], n))),
)  # fmt: skip
TEXT_LEAVES = st.sampled_from([
    leaf("t", lambda row: row["t"]),
    leaf("UPPER(t)", strict(str.upper, lambda row: row["t"])),
    leaf("SUBSTR(t, 2, 1)", strict(lambda t: t[1:2], lambda row: row["t"])),
    leaf("REPLACE(t, 'a', 'bb')", strict(lambda t: t.replace("a", "bb"), lambda row: row["t"])),
    leaf("SPLIT(t, ' ')[0]", strict(lambda t: t.split(" ")[0], lambda row: row["t"])),
    leaf("'ab'", lambda _row: "ab"),
])  # fmt: skip


def k_of(value):
    found = None if value is None else value.get("k")
    return found if isinstance(found, int) else None


def arithmetic(op, left, right):
    do = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}[op]
    return f"({left[0]} {op} {right[0]})", strict(do, left[1], right[1])


def compared(op, left, right):
    return f"({left[0]} {op} {right[0]})", strict(COMPARE[op], left[1], right[1])


def case(condition, one, other):
    text = f"CASE WHEN {condition[0]} THEN {one[0]} ELSE {other[0]} END"
    return text, lambda row: one[1](row) if condition[1](row) else other[1](row)


def coalesce(one, other):
    def of(row):
        value = one[1](row)
        return other[1](row) if value is None else value

    return f"COALESCE({one[0]}, {other[0]})", of


def concat(left, right):
    return f"({left[0]} || {right[0]})", strict(lambda a, b: a + b, left[1], right[1])


def negation(inner):
    return f"NOT ({inner[0]})", strict(lambda a: not a, inner[1])


def logic(word, parts):
    decisive = word == "OR"

    def of(row):
        values = [part[1](row) for part in parts]
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    return "(" + f" {word} ".join(part[0] for part in parts) + ")", of


def among(inner, values):
    def of(row):
        value = inner[1](row)
        return None if value is None else value in values

    return f"({inner[0]} IN ({', '.join(map(str, values))}))", of


def of_any(word, op, number):
    decide = any if word == "ANY" else all
    text = f"{word}(r {op} {number[0]})"

    def of(row):
        value = number[1](row)
        return None if value is None else decide(COMPARE[op](each, value) for each in row["r"])

    return text, of


OPS = st.sampled_from(list(COMPARE))


def numbers(depth):
    if not depth:
        return NUMBER_LEAVES
    inner = numbers(depth - 1)
    return st.one_of(
        NUMBER_LEAVES,
        st.builds(arithmetic, st.sampled_from("+-*"), inner, inner),
        st.builds(case, conditions(depth - 1), inner, inner),
        st.builds(coalesce, inner, inner),
    )


def texts(depth):
    if not depth:
        return TEXT_LEAVES
    inner = texts(depth - 1)
    return st.one_of(
        TEXT_LEAVES, st.builds(concat, inner, inner), st.builds(coalesce, inner, inner)
    )


def conditions(depth):
    leaves = st.one_of(
        st.builds(compared, OPS, numbers(0), numbers(0)),
        st.builds(compared, OPS, texts(0), texts(0)),
        st.builds(of_any, st.sampled_from(["ANY", "ALL"]), OPS, numbers(0)),
        st.builds(among, numbers(0), st.lists(st.integers(-3, 3), min_size=1, max_size=3)),
    )
    if not depth:
        return leaves
    inner = conditions(depth - 1)
    return st.one_of(
        leaves,
        st.builds(compared, OPS, numbers(depth - 1), numbers(depth - 1)),
        st.builds(negation, inner),
        st.builds(logic, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)),
    )


EXPRESSIONS = st.one_of(numbers(2), texts(2), conditions(2))


def check(rows, expression):
    text, of = expression
    columns = {
        name: (kind, [stored(name, row[name]) for row in rows]) for name, kind in KINDS.items()
    }
    numbered = [{**row, "row": number} for number, row in enumerate(rows)]
    wanted = [of(row) for row in numbered]
    for optimize in (False, True):
        compiled = compile_query(f"SELECT {text} AS x", KINDS, optimize=optimize)
        result = compiled.run(ArraySource(columns))
        found = result.columns["x"] if "x" in result.columns else result.read("x", result.rows)
        assert samples(found) == wanted, text


def stored(name, value):
    return np.reshape(value, (2, 2)) if name == "m" and value is not None else value


@pytest.mark.slow
@examples(80)
@given(ROWS, EXPRESSIONS)
def test_an_expression_is_what_python_makes_of_it(rows, expression):
    check(rows, expression)


@pytest.mark.soak
@settings(max_examples=10_000)
@given(ROWS, EXPRESSIONS)
def test_very_many_expressions_are_what_python_makes_of_them(rows, expression):
    check(rows, expression)
