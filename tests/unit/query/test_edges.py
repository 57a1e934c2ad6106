"""Values and queries at the edges: what does not fit, what is not known, what is very wide."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryError, QueryTypeError, compile_query
from tests.unit.query.array_source import NUMBER, ArraySource, samples

INT = ColumnType("number", "int64", ())
WIDE = [0, 127, 128, 255, 256, -1, -(2**63), 2**63 - 1]


def values_of(expression, source, **params):
    text = f"SELECT {expression} AS v"
    return samples(compile_query(text, source.schema, params=params).run(source).columns["v"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64"])
def test_a_whole_number_that_another_type_cannot_hold_is_null_there(dtype):
    limits = np.iinfo(dtype)
    source = ArraySource({"n": (INT, WIDE)})

    found = values_of(f"CAST(n AS {dtype})", source)

    assert found == [n if limits.min <= n <= limits.max else None for n in WIDE]


def test_an_array_with_a_number_that_does_not_fit_is_null():
    kind = ColumnType("number", "int64", (None,))
    source = ArraySource({"a": (kind, [[1, 255], [256], [], [0, -1]])})

    assert values_of("CAST(a AS UINT8)", source) == [[1, 255], None, [], None]


def test_a_cosine_is_null_with_a_zero_vector_and_nan_with_nan():
    kind = ColumnType("number", "float32", (2,))
    vectors = [[1, 0], [0, 0], [float("nan"), 1], [float("inf"), 1]]
    source = ArraySource({"v": (kind, vectors)})
    query = "ORDER BY COSINE_SIMILARITY(v, [1, 1]) DESC"

    found = values_of("COSINE_SIMILARITY(v, [1, 1])", source)

    assert found[1] is None
    assert np.isnan(found[2])
    assert np.isnan(found[3])
    assert compile_query(query, source.schema).run(source).rows.tolist() == [0, 2, 3, 1]


@pytest.mark.parametrize("joiner", ["AND", pytest.param("OR", marks=pytest.mark.slow)])
def test_thousands_of_conditions_nest_nothing(joiner):
    source = ArraySource({"n": (INT, list(range(10)))}, zone_rows=2)
    text = f"WHERE {f' {joiner} '.join(f'n != {number}' for number in range(7, 4000))}"

    rows = compile_query(text, source.schema).run(source).rows.tolist()

    assert rows == (list(range(7)) if joiner == "AND" else list(range(10)))


@pytest.mark.parametrize("condition", ["n > $p", "n IN ($p)", "$p = n", "NOT n = $p"])
def test_a_number_is_not_compared_with_an_object(condition):
    with pytest.raises(QueryTypeError, match=r"\$p is an object, and n is a number"):
        compile_query(f"WHERE {condition}", {"n": INT}, params={"p": {"a": 1}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("WHERE 1 < n < 3", "comparisons do not chain"),
        ("WHERE n = 1 = 1", "comparisons do not chain"),
        ("SELECT n.a.b", "meta['name']"),
        ("WHERE t LIKE 'a!%' ESCAPE '!'", "a backslash"),
        ("WHERE t LIKE null", "NULL is none"),
        ("WHERE t REGEXP '('", "not a pattern of RE2: missing )"),
        ("ORDER BY n WHERE n > 1", "in this order: SELECT, FROM, WHERE"),
        ("WHERE n > 1 WHERE n > 2", "clauses appear once"),
        ("LIMIT 1 LIMIT 2", "clauses appear once"),
        ("ORDER BY 1", "one value for all rows"),
        ("SELECT COUNT(*) GROUP BY 1", "name a column or an alias"),
        ("ARRANGE BY 'n'", "one value for all rows"),
        ("EXPAND BY -1 2", "a number"),
        ("SELECT SUM(n) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)", "leave the frame out"),
        ("/* open", "no closing */"),
        ("SELECT n AS select", "a name"),
    ],
)
def test_a_habit_of_elsewhere_is_told_what_to_write(text, says):
    source = ArraySource({"n": (NUMBER, [1.0]), "t": (ColumnType("text", None, ()), ["a"])})

    with pytest.raises(QueryError) as caught:
        compile_query(text, source.schema)

    assert says in str(caught.value)
    assert "b'" not in str(caught.value)


@pytest.mark.parametrize("num_rows", [0, 1, 9, 5000])
@pytest.mark.parametrize("spread", [1, 7, 1 << 40])
def test_groups_are_the_same_however_far_apart_their_keys_are(num_rows, spread):
    """Near integers are numbered by distance, others by sorting."""
    rng = np.random.default_rng(num_rows)
    keys = (rng.integers(-3, 4, num_rows) * spread).tolist()
    others = [None if key % 5 == 0 else key % 3 for key in keys]
    kind = ColumnType("number", "int64", (), nullable=True)
    source = ArraySource({"k": (INT, keys), "o": (kind, others)})
    pairs = list(dict.fromkeys(zip(keys, others, strict=True)))

    text = "SELECT k, o, COUNT(*) AS c, COUNT(DISTINCT o) AS d, SUM(k) AS s GROUP BY k, o"
    found = compile_query(text, source.schema).run(source).columns
    of_all = "SELECT COUNT(DISTINCT k) AS k, COUNT(DISTINCT o) AS o, SUM(DISTINCT k) AS s"
    counted = compile_query(of_all, source.schema).run(source).columns

    assert list(zip(samples(found["k"]), samples(found["o"]), strict=True)) == pairs
    assert samples(found["c"]) == [
        list(zip(keys, others, strict=True)).count(pair) for pair in pairs
    ]
    assert samples(found["d"]) == [int(other is not None) for _, other in pairs]
    assert samples(counted["k"]) == [len(set(keys))]
    assert samples(counted["o"]) == [len(set(others) - {None})]
    assert samples(counted["s"]) == [sum(set(keys)) if keys else None]


@pytest.mark.parametrize("spread", [1, 1 << 40])
def test_joins_are_the_same_however_far_apart_their_keys_are(spread):
    keys = [-2, 5, 0, 5, None, 3]
    kind = ColumnType("number", "int64", (), nullable=True)
    scaled = [None if key is None else key * spread for key in keys]
    source = ArraySource({"k": (kind, scaled), "i": (INT, list(range(6)))})

    text = "SELECT a.i + 0 AS x, b.i AS y FROM this AS a JOIN this AS b ON a.k = b.k"
    found = compile_query(text, source.schema).run(source).columns

    pairs = [(0, 0), (1, 1), (1, 3), (2, 2), (3, 1), (3, 3), (5, 5)]
    assert list(zip(samples(found["x"]), samples(found["y"]), strict=True)) == pairs
