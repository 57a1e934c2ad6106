"""Running aggregates and aggregates of distinct values: what Python makes of the same rows."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlake_query import ColumnType, QueryTypeError, compile_query
from tests.support.examples import examples
from tests.unit.query.array_source import ArraySource, samples

KINDS = {
    "g": ColumnType("number", "int64", ()),
    "k": ColumnType("number", "int64", (), nullable=True),
    "i": ColumnType("number", "int64", (), nullable=True),
    "u": ColumnType("number", "uint8", ()),
    "f": ColumnType("number", "float32", (), nullable=True),
    "b": ColumnType("bool", "bool", (), nullable=True),
    "t": ColumnType("text", None, (), nullable=True),
}
TABLES = st.lists(
    st.fixed_dictionaries(
        {
            "g": st.integers(0, 1),
            "k": st.none() | st.integers(0, 3),
            "i": st.none() | st.integers(-5, 5),
            "u": st.integers(0, 255),
            "f": st.none() | st.sampled_from([0.5, -1.0, 2.25, math.nan, math.inf]),
            "b": st.none() | st.booleans(),
            "t": st.none() | st.sampled_from(["", "a", "ab", "b"]),
        }
    ),
    max_size=9,
)  # fmt: skip


def least(values):
    """Return the smallest; NaN only where there is nothing else."""
    numbers = [value for value in values if value == value]  # noqa: PLR0124 NaN is no number
    return min(numbers) if numbers else values[0]


def greatest(values):
    numbers = [value for value in values if value == value]  # noqa: PLR0124 NaN is no number
    return max(numbers) if numbers else values[0]


OF_VALUES = {
    "SUM": sum,
    "AVG": lambda values: sum(values) / len(values),
    "MIN": least,
    "MAX": greatest,
    "ANY_VALUE": lambda values: values[0],
}


def made_of(name, frame, column):
    """Return an aggregate of rows, NULL of no value."""
    if name == "FIRST":
        return frame[0][column]
    known = [row[column] for row in frame if row[column] is not None]
    if name == "COUNT":
        return len(known)
    return OF_VALUES[name](known) if known else None


def frame_of(row, rows):
    """Return the rows of its partition up to it and its equals: by k ascending, NULL last."""

    def place(one):
        return (one["k"] is None, one["k"] or 0)

    partition = sorted((one for one in rows if one["g"] == row["g"]), key=place)
    return [one for one in partition if place(one) <= place(row)]


def columns_of(rows, **expressions):
    source = ArraySource(
        {name: (kind, [row[name] for row in rows]) for name, kind in KINDS.items()}
    )
    text = "SELECT " + ", ".join(f"{expr} AS {name}" for name, expr in expressions.items())
    found = compile_query(text, KINDS).run(source).columns
    return {name: samples(batch) for name, batch in found.items()}


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        is_nan = isinstance(other, float) and math.isnan(other)
        assert one == other or (is_nan and math.isnan(one)), (found, wanted)


CALLS = [
    (name, column)
    for name in ("SUM", "AVG", "MIN", "MAX", "COUNT", "FIRST", "ANY_VALUE")
    for column in "iufbt"
    if name not in {"SUM", "AVG"} or column in "iuf"
]


def check_running(rows):
    over = "OVER (PARTITION BY g ORDER BY k)"
    asked = {f"{name}_{column}": f"{name}({column}) {over}" for name, column in CALLS}

    found = columns_of(rows, **asked, stars=f"COUNT(*) {over}")

    for name, column in CALLS:
        wanted = [made_of(name, frame_of(row, rows), column) for row in rows]
        assert_same(found[f"{name}_{column}"], wanted)
    assert found["stars"] == [len(frame_of(row, rows)) for row in rows]


@examples(15)
@given(TABLES)
def test_a_running_aggregate_is_that_of_the_rows_so_far(rows):
    check_running(rows)


@pytest.mark.soak
@settings(max_examples=3_000)
@given(TABLES)
def test_very_many_running_aggregates_are_those_of_the_rows_so_far(rows):
    check_running(rows)


@examples(15)
@given(TABLES)
def test_an_aggregate_of_distinct_values_counts_each_once(rows):
    asked = {
        f"{name}_{column}": f"{name}(DISTINCT {column})"
        for name in ("SUM", "AVG", "MIN", "MAX", "COUNT")
        for column in "iu"
    }

    found = columns_of(rows, **asked)

    for column in "iu":
        distinct = [{column: value} for value in {row[column] for row in rows}]
        for name in ("SUM", "AVG", "MIN", "MAX", "COUNT"):
            assert_same(found[f"{name}_{column}"], [made_of(name, distinct, column)])


def test_distinct_values_count_once_in_each_group():
    rows = [{"g": g, "i": i} for g, i in [(0, 1), (0, 1), (1, 1), (0, 2), (1, None)]]
    kinds = {name: KINDS[name] for name in "gi"}
    source = ArraySource(
        {name: (kind, [row[name] for row in rows]) for name, kind in kinds.items()}
    )

    text = "SELECT g, SUM(DISTINCT i) AS s GROUP BY g"
    found = compile_query(text, kinds).run(source).columns

    assert samples(found["s"]) == [3, 1]


def test_infinity_in_one_partition_does_not_reach_another():
    kinds = {"g": KINDS["g"], "f": KINDS["f"]}
    source = ArraySource(
        {"g": (kinds["g"], [0, 0, 1, 1]), "f": (kinds["f"], [math.inf, -math.inf, 1.0, 2.0])}
    )

    text = "SELECT SUM(f) OVER (PARTITION BY g ORDER BY ROW_NUMBER()) AS s"
    found = samples(compile_query(text, kinds).run(source).columns["s"])

    assert found[0] == math.inf
    assert math.isnan(found[1])
    assert found[2:] == [1.0, 3.0]


def test_infinities_of_both_signs_add_up_to_nan_without_a_warning():
    source = ArraySource({"f": (KINDS["f"], [math.inf, -math.inf])})

    found = compile_query("SELECT SUM(f) AS s, AVG(f) AS a", source.schema).run(source).columns

    assert math.isnan(samples(found["s"])[0])
    assert math.isnan(samples(found["a"])[0])


@pytest.mark.parametrize("call", ["MEDIAN(i)", "QUANTILE(i, 0.5)", "STD(i)", "HISTOGRAM(i, 3)"])
def test_what_does_not_run_is_refused_by_name(call):
    name = call.split("(")[0]

    with pytest.raises(QueryTypeError, match=f"{name} does not run along an order"):
        compile_query(f"SELECT {call} OVER (ORDER BY i) AS x", KINDS)
