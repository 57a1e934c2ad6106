"""Sums and products within a sample: those of Python's integers, or an error beyond 64 bits."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tensorlake_query import ColumnType, QueryTypeError, compile_query
from tests.unit.query.array_source import ArraySource, samples

DTYPES = ("int64", "uint64", "int8", "uint8", "int32")
NAMES = {"ARRAY_SUM": sum, "ARRAY_PROD": math.prod}


def integers(dtype):
    limits = np.iinfo(dtype)
    near = st.sampled_from([limits.min, limits.max, limits.max // 2 + 1, 0, 1, 2, 3])
    return near | st.integers(int(limits.min), int(limits.max))


@st.composite
def tables(draw):
    """Rows of (n, 2) integers, some of them NULL, and their dtype."""
    dtype = draw(st.sampled_from(DTYPES))
    pair = st.lists(integers(dtype), min_size=2, max_size=2)
    rows = draw(st.lists(st.none() | st.lists(pair, max_size=5), min_size=1, max_size=5))
    return dtype, rows


@given(tables(), st.sampled_from(sorted(NAMES)), st.sampled_from([None, 0, 1]))
@example(("int64", [[[2**62, 2**62]]]), "ARRAY_SUM", None)
@example(("int64", [[[-(2**62), -(2**62)]]]), "ARRAY_SUM", None)  # the least that fits
@example(("int64", [[[2**63 - 1, 1], [-1, 0]]]), "ARRAY_SUM", None)  # what is on the way may not
@example(("uint64", [[[2**63, 2**63]]]), "ARRAY_SUM", 1)
@example(("uint64", [[[0, 2**64 - 1]]]), "ARRAY_SUM", 0)
@example(("int64", [[[2**32, 2**31]]]), "ARRAY_PROD", None)
@example(("int64", [[[-(2**32), 2**31]]]), "ARRAY_PROD", None)
def test_integers_are_added_and_multiplied_exactly_or_not_at_all(table, name, axis):
    dtype, rows = table
    wide = np.iinfo(np.uint64 if dtype.startswith("u") else np.int64)
    exact = [None if row is None else reduced(NAMES[name], row, axis) for row in rows]
    fits = all(
        int(wide.min) <= each <= int(wide.max)
        for row in exact if row is not None for each in np.atleast_1d(np.array(row, object))
    )  # fmt: skip
    shaped = [None if row is None else np.array(row, dtype).reshape(-1, 2) for row in rows]
    source = ArraySource({"x": (ColumnType("number", dtype, (None, 2), nullable=True), shaped)})
    option = "" if axis is None else f", axis => {axis}"
    query = compile_query(f"SELECT {name}(x{option}) AS s", source.schema)

    if not fits:
        with pytest.raises(QueryTypeError, match=rf"is beyond {wide.dtype.name}; write CAST"):
            query.run(source)
        return
    found = samples(query.run(source).columns["s"])

    assert found == exact


def reduced(function, row, axis):
    """What Python's integers give: a number, or a list along an axis."""
    if axis is None:
        return int(function(each for pair in row for each in pair))
    lines = row if axis == 1 else [[pair[place] for pair in row] for place in (0, 1)]
    return [int(function(line)) for line in lines]


def test_the_remedy_of_the_error_works():
    source = ArraySource({"x": (ColumnType("number", "int64", (2,)), [[2**62, 2**62]])})

    found = compile_query("SELECT ARRAY_SUM(CAST(x AS FLOAT)) AS s", source.schema).run(source)

    assert samples(found.columns["s"]) == [2.0**63]


def test_a_constant_sum_is_checked_as_well():
    source = ArraySource({"x": (ColumnType("number", "int64", ()), [1])})

    with pytest.raises(QueryTypeError, match="the sum is beyond int64"):
        compile_query(f"WHERE x < ARRAY_SUM([{2**63 - 1}, 1])", source.schema).run(source)
