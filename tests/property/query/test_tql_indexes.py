"""Indexes change no answer: rows found by them, and scanned beside them, are those of a scan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake_query import compile_query
from tensorlake_query.execution import lookups
from tests.property.query.test_tql_optimizer import (
    CONDITIONS,
    KINDS,
    TABLES,
    assert_same,
    source_of,
)
from tests.support.examples import examples
from tests.unit.query.array_source import IndexedSource

BORDERS = st.lists(st.integers(0, 14), max_size=6, unique=True)
TAILS = st.sampled_from(["", " ORDER BY f, i DESC LIMIT 3", " LIMIT 2", " ORDER BY i DESC"])


@pytest.fixture(autouse=True, scope="module")
def _small_tables():
    """Tables of a few rows: else all rows between two unknown ones would be scanned too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookups, "SMALL_GAP", 0)
        patch.setattr(lookups, "MOST_FOUND", 1)
        patch.setattr(lookups, "MOST_SCANNED", 1)
        yield


def indexed(rows, borders):
    """Return a source with indexes that do not know the rows between every second border."""
    inside = sorted(min(border, len(rows)) for border in borders)
    pairs = [(a, b) for a, b in zip(inside[::2], inside[1::2], strict=False) if a < b]
    plain = source_of(rows, zone_rows=3)
    return IndexedSource(plain.columns, zone_rows=3, unindexed=pairs)


@pytest.mark.slow
@given(TABLES, CONDITIONS, CONDITIONS, BORDERS, TAILS)
@examples(150)
def test_rows_and_their_order_are_those_of_a_scan(rows, one, other, borders, tail):
    text = f"SELECT i, f * 2 AS twice WHERE ({one[0]}) AND ({other[0]}){tail}"

    plain = compile_query(text, KINDS, optimize=False).run(source_of(rows))
    fast = compile_query(text, KINDS).run(indexed(rows, borders))

    assert_same(plain, fast)


@pytest.mark.slow
@given(TABLES, CONDITIONS, BORDERS)
@examples(50)
def test_groups_are_those_of_a_scan(rows, condition, borders):
    text = f"SELECT t, COUNT(*) AS n, SUM(i) AS total WHERE {condition[0]} GROUP BY t"

    plain = compile_query(text, KINDS, optimize=False).run(source_of(rows))
    fast = compile_query(text, KINDS).run(indexed(rows, borders))

    assert_same(plain, fast)


def test_an_index_is_named_with_its_rows_and_the_share_that_is_scanned():
    rows = [{"i": n % 5, "f": 0.0, "l": 0, "t": None, "r": []} for n in range(10_000)]
    source = indexed(rows, [8000, 10_000])

    shown = compile_query("EXPLAIN WHERE i = 3", KINDS).run(source).columns["plan"].values

    # one of five zones of three rows has no 3 between its bounds
    assert "finds 1,600 rows by index 'test', scans 16.0% of the rows" in shown


def test_a_value_that_no_row_has_raises_nothing():
    """Conditions are asked of an index's values, some of them of rows that are gone."""
    rows = [{"i": n, "f": 0.0, "l": 0, "t": "", "r": [n]} for n in range(1, 9)]
    source = indexed(rows, [])
    text = "WHERE r[0] > 1 AND i IN (SELECT i WHERE i > 5)"

    assert compile_query(text, KINDS).run(source).rows.tolist() == [5, 6, 7]
