"""Values at the ends of their types: vectors, rounded integers, words for true and false."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryError, QueryLimitError, compile_query
from tests.unit.query.array_source import ArraySource, samples

SMALL_AND_LARGE = [[1, 1], [1, 0.9], [1e-23, 1e-23], [1e25, 1e25], [1e-21, 0], [0, 0]]
COSINES = [1, 0.9986178, 1, 1, 0.70710678, None]


def answered(text, rows, **params):
    source = ArraySource(rows)
    result = compile_query(text, source.schema, params=params).run(source)
    return samples(result.columns["x"])


def vectors(shape, dtype="float32", rows=SMALL_AND_LARGE):
    values = [np.array(row, dtype) for row in rows]
    return {"v": (ColumnType("number", dtype, shape), values)}


@pytest.mark.parametrize("shape", [(2,), (None,)])
@pytest.mark.parametrize("scale", [1, 1e30, 1e-30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cosine_does_not_depend_on_the_lengths_of_vectors(shape, scale, dtype):
    wanted = np.array([scale, scale], dtype)

    found = answered("SELECT COSINE_SIMILARITY(v, $q) AS x", vectors(shape), q=wanted)

    assert found[-1] is None
    assert found[:-1] == pytest.approx(COSINES[:-1], rel=1e-6)


def test_cosine_of_float64_beyond_its_squares():
    rows = vectors((2,), "float64", [[1e225, 1e225], [1e-225, 0]])

    found = answered("SELECT COSINE_SIMILARITY(v, [1, 1]) AS x", rows)

    assert found == pytest.approx([1, 0.5**0.5])


@pytest.mark.parametrize("shape", [(2,), (None,)])
def test_length_whose_square_is_beyond_the_type(shape):
    found = answered("SELECT L2_NORM(v) AS x", vectors(shape))

    expected = [float(np.hypot(*np.array(row, np.float32))) for row in SMALL_AND_LARGE]
    assert found == pytest.approx(expected, rel=1e-6, abs=0)


def test_extreme_vectors_change_no_other_row():
    text = "SELECT COSINE_SIMILARITY(v, $q) AS x"
    wanted = np.array([0.3, 0.7], np.float32)

    together = answered(text, vectors((2,)), q=wanted)

    alone = [answered(text, vectors((2,), rows=[row]), q=wanted)[0] for row in SMALL_AND_LARGE]
    assert together == alone


@pytest.mark.parametrize(
    ("dtype", "value", "decimals", "expected"),
    [
        ("uint8", 255, -1, 260),
        ("uint8", 245, -1, 240),  # half to even
        ("int8", -128, -1, -130),
        ("int8", -125, -1, -120),
        ("int64", 2**63 - 1, -19, 10**19),
        ("int64", 2**63 - 1, -20, 0),
        ("int64", 2**63 - 1, -300, 0),
        ("int64", 4 * 10**18, -19, 0),
        ("int64", -(2**63), -18, -9 * 10**18),
        ("uint64", 2**64 - 1, -19, 2 * 10**19),
        ("uint64", 2**64 - 1, -1, 2**64 + 4),
        ("uint64", 2**64 - 1, -2, 2**64 - 16),
        ("int16", 1234, -2, 1200),
    ],
)
def test_round_to_tens_of_integers(dtype, value, decimals, expected):
    rows = {"n": (ColumnType("number", dtype, ()), [value])}
    limits = np.iinfo(np.uint64 if dtype == "uint64" else np.int64)

    if limits.min <= expected <= limits.max:
        assert answered(f"SELECT ROUND(n, {decimals}) AS x", rows) == [expected]
        return
    with pytest.raises(QueryError, match="beyond 64 bits"):
        answered(f"SELECT ROUND(n, {decimals}) AS x", rows)


def test_cast_of_text_to_bool_reads_what_cast_to_text_writes():
    words = ["true", "FALSE", " t ", "no", "1", "0", "2", "perhaps", ""]
    rows = {"c": (ColumnType("text", None, ()), words)}

    found = answered("SELECT CAST(c AS BOOL) AS x", rows)

    assert found == [True, False, True, False, True, False, True, None, None]
    assert answered("SELECT CAST(CAST(c = 'true' AS TEXT) AS BOOL) AS x", rows)[:2] == [True, False]


def test_an_empty_part_is_not_replaced():
    rows = {"c": (ColumnType("text", None, ()), ["b", "", "aba"])}

    assert answered("SELECT REPLACE(c, '', 'x') AS x", rows) == ["b", "", "aba"]
    assert answered("SELECT REPLACE(c, 'b', c) AS x", rows) == ["b", "", "aabaa"]


@pytest.mark.parametrize("column", ["n", "c"])
def test_array_agg_of_no_value_is_null(column):
    rows = {
        "n": (ColumnType("number", "int64", (), nullable=True), [1, None]),
        "c": (ColumnType("text", None, (), nullable=True), ["a", None]),
    }

    grouped = answered(f"SELECT ARRAY_AGG({column}) AS x GROUP BY n", rows)

    assert answered(f"SELECT ARRAY_AGG({column}) AS x WHERE false", rows) == [None]
    assert list(grouped[0]) == rows[column][1][:1]
    assert grouped[1] is None


def test_time_is_up_within_a_batch_that_makes_long_texts():
    source = ArraySource({"c": (ColumnType("text", None, ()), ["w" * 20_000] * 80)})
    long = "REPLACE(c, 'w', 'wwwwwwwwww')"
    query = compile_query(f"WHERE LENGTH({long}) > 5", source.schema)
    checks = []
    query.run(source, cancelled=lambda: bool(checks.append(0)))
    left = iter(range(len(checks) // 2))

    with pytest.raises(QueryLimitError, match="in the middle of a batch"):
        query.run(source, cancelled=lambda: next(left, None) is None)

    assert len(checks) > 80  # at least one a row


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 1])
def test_quantiles_of_groups_are_those_of_their_rows_alone(share):
    random = np.random.default_rng(5)
    groups, values = random.integers(0, 40, 1000), random.standard_normal(1000).round(2)
    values[groups == 7] = np.nan
    rows = {
        "g": (ColumnType("number", "int64", ()), [*groups, *range(40)]),
        "v": (ColumnType("number", "float64", (), nullable=True), [*values, *[None] * 40]),
    }

    found = answered(f"SELECT QUANTILE(v, {share}) AS x GROUP BY g ORDER BY g", rows)

    assert len(found) == 40
    for group, quantile in enumerate(found):
        alone = {name: (kind, []) for name, (kind, _) in rows.items()}
        for name, (_, own) in rows.items():
            pairs = zip(own, rows["g"][1], strict=True)
            alone[name][1].extend(one for one, of in pairs if of == group)
        (by_itself,) = answered(f"SELECT QUANTILE(v, {share}) AS x", alone)
        assert by_itself == pytest.approx(quantile, rel=0, abs=0, nan_ok=True)
        expected = np.quantile(values[groups == group], share)
        assert quantile == pytest.approx(expected, rel=1e-15, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize("expr", ["IOU(p, p)", "CENTER(p)", "p + 1"])
def test_polygons_are_named_where_numbers_are_needed(expr):
    outline = np.zeros((3, 2), np.float32)
    rows = {"p": (ColumnType("bytes", None, (), has_polygons=True), [[outline]])}

    with pytest.raises(QueryError, match="p is polygons"):
        answered(f"SELECT {expr} AS x", rows)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_float_is_written_as_the_shortest_text_that_reads_back(dtype):
    texts = ["0.1", "0.5", "1024.0", "-2.5", "inf", "0.3333", "0.0"]
    column = np.array([float(text) for text in texts], dtype)
    source = ArraySource({"f": (ColumnType("number", dtype, ()), column)})
    outputs = (
        "CAST(f AS TEXT) AS x",
        "CONCAT(f, '') AS y",
        f"CAST(CAST(f AS TEXT) AS {dtype}) = f AS z",
    )
    asked = f"SELECT {', '.join(outputs)}"

    found = compile_query(asked, source.schema).run(source).columns

    assert samples(found["x"]) == samples(found["y"]) == texts
    assert all(samples(found["z"]))
