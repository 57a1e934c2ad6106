"""Times of different units meet in the finer one, wherever values meet."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, compile_query
from tests.unit.query.array_source import ArraySource, samples

DAYS = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[D]")
UNITS = ("s", "ms", "us", "ns")


def moments(unit):
    kind = ColumnType("number", "int64", (), timestamp_unit=unit)
    return kind, DAYS.astype(f"datetime64[{unit}]").astype(np.int64)


def source_of(first, second):
    return ArraySource({"t": moments(first), "u": moments(second)})


@pytest.mark.parametrize("first", UNITS)
@pytest.mark.parametrize("second", UNITS)
@pytest.mark.parametrize(
    "condition",
    [
        "t = u",
        "t IN (u)",
        "t IN (DATE '2026-01-02', '2026-01-01', TIMESTAMP '2026-01-03 00:00')",
        "t IN (SELECT u)",
        "COALESCE(null, t) = u",
        "CASE WHEN t > DATE '2026-01-02' THEN t ELSE u END = t",
        "GREATEST(t, u, DATE '2025-01-01') = LEAST(u, t, TIMESTAMP '2027-01-01 00:00:00.5')",
        "t BETWEEN DATE '2026-01-01' AND DATE '2026-01-03'",
        "t IN $days",
    ],
)
def test_times_of_two_units_are_equal(first, second, condition):
    source = source_of(first, second)
    params = {"days": list(DAYS)} if "$days" in condition else {}

    found = compile_query(f"WHERE {condition}", source.schema, params=params).run(source)

    assert found.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize("first", UNITS)
@pytest.mark.parametrize("second", UNITS)
def test_a_set_operation_and_a_join_compare_times(first, second):
    source = source_of(first, second)

    both = compile_query("SELECT t UNION SELECT u", source.schema).run(source)
    joined = compile_query(
        "SELECT COUNT(*) AS n FROM this AS a JOIN this AS b ON a.t = b.u", source.schema
    ).run(source)

    assert both.num_rows == 3
    assert samples(joined.columns["n"]) == [3]
