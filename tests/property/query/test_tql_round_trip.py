"""Canonical text says what the tree says: `parse(print_query(query)) == query` for any tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake_query import ast, parse, parse_predicate, print_expr, print_query

NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "order", "array", "camera/left", 'say "x"', "Ünï", "_", "asc", "a b"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6),
)
PLAIN_NAMES = st.sampled_from(["x", "low", "a1", "_p"])
# the parser gives −1 as one literal and −x as a sign, so a sign never stands before a number
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
LITERALS = st.one_of(NUMBERS, st.text(max_size=8), st.booleans(), st.none()).map(ast.Literal)
LEAVES = st.one_of(LITERALS, NAMES.map(ast.Column), PLAIN_NAMES.map(ast.Parameter))

ARITHMETIC = st.sampled_from(["+", "-", "*", "/", "//", "%", "^", "||"])
COMPARISONS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def several(items, smallest=1):
    return st.lists(items, min_size=smallest, max_size=3).map(tuple)


def larger(inner):
    maybe = st.none() | inner
    slices = st.builds(ast.Slice, maybe, maybe, maybe)
    items = several(inner | slices | st.just(ast.Rest()))
    # the parser takes `x[...]` of a bare literal as an index too, but never a sign before a number
    signed = inner.filter(
        lambda e: not (isinstance(e, ast.Literal) and isinstance(e.value, int | float))
    )
    named = st.builds(ast.Named, PLAIN_NAMES, inner)
    arms = several(st.builds(ast.When, inner, inner))
    return st.one_of(
        st.builds(ast.Array, several(inner, 0)),
        st.builds(ast.Unary, st.sampled_from("+-"), signed),
        st.builds(ast.Binary, ARITHMETIC, inner, inner),
        st.builds(ast.Compare, COMPARISONS, inner, inner),
        st.builds(ast.And, several(inner, 2)),
        st.builds(ast.Or, several(inner, 2)),
        st.builds(ast.Not, inner),
        st.builds(ast.Between, inner, inner, inner, st.booleans()),
        st.builds(ast.InList, inner, several(inner), st.booleans()),
        st.builds(ast.IsNull, inner, st.booleans()),
        st.builds(ast.Like, inner, inner, st.booleans(),
                  st.sampled_from(["LIKE", "ILIKE", "GLOB", "REGEXP"])),
        st.builds(ast.Case, maybe, arms, maybe),
        st.builds(ast.Cast, inner, st.sampled_from(["float", "int8", "text"])),
        st.builds(ast.Index, inner, items),
        st.builds(ast.Call, st.sampled_from(["ANY", "SHAPE", "F"]), several(inner, 0),
                  st.lists(named, max_size=2).map(tuple)),
        st.just(ast.Call("COUNT", (ast.Star(),))),
        st.builds(ast.Extract, st.sampled_from(["YEAR", "DOW"]), inner),
        st.builds(ast.Moment, st.sampled_from(["2026-01-01", "2026-01-01 12:30"])),
        st.builds(ast.Interval, st.sampled_from(["7 days", "it's"])),
    )  # fmt: skip


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=12)
COUNTS = st.one_of(st.integers(0, 100).map(ast.Literal), PLAIN_NAMES.map(ast.Parameter))
CHOICES = st.booleans().map(ast.Literal)
TABLES = st.builds(
    ast.Table,
    NAMES.map(ast.Column) | PLAIN_NAMES.map(ast.Parameter),
    st.none() | st.builds(
        ast.Version, st.sampled_from(["VERSION", "TAG", "AS OF"]), st.just(ast.Literal("it's"))
    ),
    st.none() | NAMES,
)  # fmt: skip
SOURCES = st.recursive(
    TABLES,
    lambda inner: st.one_of(
        st.builds(ast.Join, inner, TABLES, st.sampled_from(["INNER", "LEFT", "FULL"]), EXPRESSIONS),
        st.builds(ast.Join, inner, TABLES, st.just("RIGHT"), st.none(), several(NAMES)),
        st.builds(ast.Join, inner, TABLES, st.just("CROSS")),
    ),
    max_leaves=3,
)
OUTPUTS = st.one_of(
    st.just(ast.Output(ast.Star())),
    st.builds(ast.Output, st.just(ast.Star()), st.none(), NAMES),
    st.builds(ast.Output, EXPRESSIONS, st.none() | NAMES),
)
ORDER = several(st.builds(ast.OrderKey, EXPRESSIONS, st.booleans(), st.booleans()), 0)
TAILS = {
    "order_by": ORDER,
    "arrange_by": several(EXPRESSIONS, 0),
    "sample": st.none()
    | st.builds(ast.Sample, EXPRESSIONS, st.none() | CHOICES, st.none() | COUNTS),
    "limit": st.none() | st.builds(ast.Limit, COUNTS, st.booleans()),
    "offset": st.none() | COUNTS,
}
CORES = {
    "select": several(OUTPUTS),
    "distinct": st.none() | st.builds(ast.Distinct, several(EXPRESSIONS, 0)),
    "source": st.none() | SOURCES,
    "where": st.none() | EXPRESSIONS,
    "expand": st.none() | st.builds(ast.Expand, COUNTS, COUNTS, st.none() | CHOICES),
    "group_by": several(EXPRESSIONS, 0),
    "having": st.none() | EXPRESSIONS,
    "ungroup_by": several(EXPRESSIONS, 0),
}
EXPLAINED = st.sampled_from([(False, False), (True, False), (True, True)])
QUERIES = st.builds(
    lambda explained, **parts: ast.Query(**parts, explain=explained[0], analyze=explained[1]),
    EXPLAINED, **CORES, **TAILS,
)  # fmt: skip
PLAIN_QUERIES = st.builds(ast.Query, select=several(OUTPUTS), where=st.none() | LEAVES)


def begins_with_select(query):
    """Whether it can stand in an expression: there SELECT comes first, or after the WITH."""
    return print_query(ast.with_fields(query, tables=())).startswith("SELECT")


STATEMENTS = st.recursive(
    PLAIN_QUERIES,
    lambda inner: st.one_of(
        st.builds(ast.SetQuery, st.sampled_from(["UNION", "INTERSECT", "EXCEPT"]), inner, inner,
                  st.booleans(), limit=st.none() | st.builds(ast.Limit, COUNTS)),
        st.builds(lambda query: ast.Query(source=ast.Table(ast.Subquery(query))), inner),
        st.builds(lambda query: ast.Query(where=ast.Exists(query)),
                  inner.filter(begins_with_select)),
        st.builds(lambda name, query, main: ast.with_fields(
            main, tables=(ast.CommonTable(name, query),)), NAMES, inner, inner),
    ),
    max_leaves=5,
)  # fmt: skip


@given(EXPRESSIONS)
def test_printing_and_parsing_an_expression_gives_it_back(expr):
    text = print_expr(expr)

    again = parse_predicate(text)

    assert repr(again) == repr(expr)  # as text, since 1 == 1.0 == True in Python
    assert print_expr(again) == text


@pytest.mark.slow
@given(QUERIES)
def test_printing_and_parsing_a_query_gives_it_back(query):
    assert parse(print_query(query)) == query


@pytest.mark.slow
@given(STATEMENTS)
def test_printing_and_parsing_queries_in_queries_gives_them_back(statement):
    assert parse(print_query(statement)) == statement
