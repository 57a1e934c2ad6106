"""Whatever the text, the answer is a result or a `QueryError`, and it comes soon."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tensorlake_query import QueryError, compile_query
from tests.support.examples import examples
from tests.unit.query.pets import pets

SOURCE = pets(zone_rows=3)


def words(text):
    """Return the words of a text: shorter to read than a list of them."""
    return text.split()


WORDS = words(
    """SELECT FROM this WHERE GROUP BY HAVING ORDER LIMIT OFFSET PERCENT AND OR NOT IN IS NULL
    LIKE ILIKE BETWEEN CASE WHEN THEN ELSE END AS TRUE FALSE ASC DESC NULLS FIRST LAST EXPLAIN CAST
    ARRAY UNION JOIN WITH DISTINCT TOP EXCEPT INTERSECT LEFT CROSS ON USING EXPAND OVERLAP UNGROUP
    SPLIT ARRANGE SAMPLE REPLACE SEED OVER PARTITION EXISTS GLOB REGEXP DATE INTERVAL EXTRACT
    VERSION
    ANALYZE this (SELECT label labels score count tiny ok caption meta boxes vector image matrix
    ragged blob ANY ALL ARRAY_SUM ARRAY_MAX SHAPE SIZE LENGTH NDIM ABS SQRT ROUND LOWER CONTAINS
    DOT COSINE_SIMILARITY L2_NORM IOU AREA COALESCE ROW_NUMBER RANK LAG MEDIAN MAX_WEIGHT
    SORT UNIQUE NONZERO SPLIT KEYS MATCH MAXSIM CENTER NORMALIZE RANDOM DATA INFO COUNT SUM AVG
    MIN MAX axis FLOAT
    TEXT INT8 'cat' 'a%' '' 0 1 -1 0.5 1e308 18446744073709551615 ( ) [ ] , : :: ... * + - / // %
    ^ || = == != < <= > >= => $p :p "label" "x" -- /* */ && ! ; ?"""
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.floats() | st.integers() | st.text(max_size=2), max_size=4), st.binary(max_size=3),
)  # fmt: skip
LEAVES = words(
    """label guess labels score count tiny ok caption meta boxes vector image matrix ragged blob
    0 1 -1 2.5 'cat' 'a%' null true [1,2,3] [[0,0,5,5]] meta['iso']"""
)
OPERATORS = words("+ - * / // % ^ = != < >= AND OR || LIKE")
UNARY = words(
    """ANY ALL ARRAY_SUM ARRAY_MEAN ARRAY_MIN SHAPE SIZE LENGTH NDIM ABS SQRT LOG FLOOR ROUND LOWER
    L2_NORM AREA COALESCE COUNT SUM MIN AVG
    ALL_STRICT NONZERO SORT UNIQUE ARGMAX ARRAY_STD MASK_AREA KEYS TRIM L1_NORM CENTER NORMALIZE
    INFO
    DTYPE MEDIAN FIRST ISNULL"""
)
DEEP = (
    "(",
    "[",
    "NOT ",
    "- ",
    "ABS(",
    "CASE WHEN ",
    "x[",
    "1 + ",
    "1 ^ ",
    "'",
    "--",
    "/*",
    "a AND ",
)
CONDITIONS = ("score > $p", "label = $p", "caption LIKE $p", "count IN $p", "meta['iso'] = $p")
PAIRS = (
    "DOT", "COSINE_SIMILARITY", "IOU", "CONTAINS", "COALESCE", "MAXSIM", "HAMMING_DISTANCE",
    "SPLIT",
    "DATA", "MATCH", "POLYGON_CONTAINS", "INTERSECTS", "QUANTILE", "HISTOGRAM", "POW", "SUBSTR",
)  # fmt: skip
INDEXES = ("0", "-1", "::-1", ":, 0", "..., 1", "1:, :-1", "'iso'", "label")
TYPES = ("INT", "TEXT", "UINT8", "FLOAT", "BOOL")


def written(form, *parts):
    """Return a strategy of texts: the form with its parts filled in."""
    return st.tuples(*parts).map(lambda chosen: form.format(*chosen))


EXPRESSIONS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        written("({} {} {})", inner, st.sampled_from(OPERATORS), inner),
        written("({} IN ({}, {}))", inner, inner, inner),
        written("{}({})", st.sampled_from(UNARY), inner),
        written("{}({}, {})", st.sampled_from(PAIRS), inner, inner),
        written("{}[{}]", inner, st.sampled_from(INDEXES)),
        written("CASE WHEN {} THEN {} ELSE {} END", inner, inner, inner),
        written("CAST({} AS {})", inner, st.sampled_from(TYPES)),
        written("NOT {}", inner),
        written("{} IS NULL", inner),
    ),
    max_leaves=6,
)


def answer(text, **params):
    """Return the result or the error of a query; anything else is a failure of the test."""
    try:
        return compile_query(text, SOURCE.schema, params=params).run(SOURCE, timeout_s=20)
    except QueryError as error:
        return error


@given(st.text(max_size=60))
@example("WHERE x = '\ud800'")
@example("\0")
@example("WHERE a\r\n  >\x0b")
def test_any_characters(text):
    answer(text)


@given(st.lists(st.sampled_from(WORDS), max_size=14))
def test_any_words(words):
    text = " ".join(words)

    answer(text, **({"p": 1} if "$p" in text else {}))


def answer_everywhere(expression):
    answer(f"WHERE {expression}")
    answer(f"SELECT {expression} AS x")
    answer(f"SELECT {expression} AS x ORDER BY x DESC LIMIT 3")
    answer(f"SELECT COUNT(*) AS n GROUP BY {expression}")
    answer(f"SELECT DISTINCT {expression} AS x")
    answer(f"SELECT label, {expression} AS x GROUP BY label")
    answer(f"SELECT LAG({expression}) OVER (PARTITION BY label ORDER BY {expression}) AS x")
    answer(f"SAMPLE BY {expression} LIMIT 3")
    answer(f"WHERE tiny IN (SELECT {expression})")
    answer(f"SELECT SUM({expression}) OVER (PARTITION BY label ORDER BY {expression}) AS x")
    answer(f"SELECT MAX(DISTINCT {expression}) AS x")
    answer(f"SELECT a.tiny FROM this AS a JOIN this AS b ON a.label = b.label AND {expression}")


@examples(25)  # each is run in a dozen places
@given(EXPRESSIONS)
def test_any_expression_in_any_place(expression):
    answer_everywhere(expression)


@pytest.mark.soak
@settings(max_examples=2_500)
@given(EXPRESSIONS)
def test_very_many_expressions_in_any_place(expression):
    answer_everywhere(expression)


@pytest.mark.soak
@settings(max_examples=10_000)
@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_very_many_words(words):
    text = " ".join(words)

    answer(text, **({"p": 1} if "$p" in text else {}))


@given(VALUES)
def test_any_parameter(value):
    for condition in (
        "score > $p",
        "label = $p",
        "caption LIKE $p",
        "count IN $p",
        "meta['iso'] = $p",
    ):
        answer(f"WHERE {condition}", p=value)
    answer("SELECT $p AS x, COALESCE($p, 1) AS y", p=value)
    answer("SELECT vector + $p AS x, DOT(vector, $p) AS y", p=value)
    answer("LIMIT $p", p=value)


@examples(5)  # each parses up to 200,000 characters
@given(st.sampled_from(DEEP), st.integers(1, 20_000))
def test_any_depth_ends_before_the_limit_of_a_test(piece, times):
    """Were it quadratic, 200,000 characters would take hours."""
    answer("WHERE " + piece * times)
    answer("WHERE " + piece * times + "1")
