"""Rows matched in stretches, against the same done row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.format import Extents, PackId, RowIdRuns, select_rows
from tensorlake.versions.rows.alignment import (
    SharedRows,
    Shown,
    differing_places,
    match,
    shared_rows,
    subtract,
    windows,
)
from tensorlake.versions.rows.ranges import ranges_of, rows_in
from tests.support.examples import examples

ROWS = 40
FEW = examples(15)
some_rows = st.sets(st.integers(0, ROWS - 1)).map(lambda rows: np.array(sorted(rows), np.int64))
# An axis: each row id once, in any order; (0, 0) is a dead row, of which there may be many.
ids = st.permutations([(txid, offset) for txid in (1, 2, 3) for offset in range(9)]).flatmap(
    lambda all_ids: st.integers(0, len(all_ids)).map(lambda count: all_ids[:count])
)
axes = st.builds(lambda one, dead: [*one, *[(0, 0)] * dead], ids, st.integers(0, 3))


def runs_of(axis: list[tuple[int, int]]) -> RowIdRuns:
    runs = [RowIdRuns.run(1, f"{txid:032x}", offset) for txid, offset in axis]
    return RowIdRuns.concat(runs).united()


def pairs(shared: SharedRows) -> set[tuple[int, int]]:
    rows = match(SharedRows.identity(ROWS), shared).rows()
    return set(zip(rows[1].tolist(), rows[2].tolist(), strict=True))


def oracle(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(at, other.index(id_)) for at, id_ in enumerate(one) if id_[0] and id_ in other}


@FEW
@given(axes, axes, some_rows, some_rows)
def test_shared_rows_are_those_of_equal_ids(one, other, chosen, wanted):
    shared = shared_rows(runs_of(one), runs_of(other))
    expected = oracle(one, other)

    assert pairs(shared) == expected
    assert pairs(shared.swapped()) == {(b, a) for a, b in expected}
    within = shared.within(ranges_of(chosen)).within_other(ranges_of(wanted))
    assert pairs(within) == {(a, b) for a, b in expected if a in chosen and b in wanted}
    images = rows_in(shared.images(ranges_of(chosen))).tolist()
    assert images == sorted(b for a, b in expected if a in chosen)


@FEW
@given(axes, axes, axes)
def test_three_axes_are_matched_at_once(base, one, other):
    matched = match(
        shared_rows(runs_of(base), runs_of(one)), shared_rows(runs_of(base), runs_of(other))
    )

    found = set(zip(*(rows.tolist() for rows in matched.rows()), strict=True))
    ours, theirs = dict(oracle(base, one)), dict(oracle(base, other))
    assert found == {(at, ours[at], theirs[at]) for at in ours.keys() & theirs.keys()}


@FEW
@given(some_rows, some_rows)
def test_what_is_subtracted_is_gone(a, b):
    left = rows_in(subtract(ranges_of(a), ranges_of(b)))

    assert left.tolist() == np.setdiff1d(a, b).tolist()


@FEW
@given(st.permutations(range(12)), st.permutations(range(12)), some_rows)
def test_order_is_kept_where_rows_follow_one_another_alike(here, there, chosen):
    one, other = (Shown(select_rows(np.array(rows, np.int64))) for rows in (here, there))
    common = [row for row in here if row in chosen]
    shared = SharedRows.identity(12).within(ranges_of(chosen))

    starts, stops = one.in_order(ranges_of(chosen))

    assert rows_in(np.stack((starts, stops), axis=1)).tolist() == common
    expected = common == [row for row in there if row in chosen]
    assert one.keeps_order(shared, other) is expected


def an_index(chunks: list[tuple[int, int]]) -> Extents:
    """Chunks by (number, rows): the same number is the same bytes in the same pack."""
    return Extents.concat(
        [
            Extents.chunk(
                rows=rows,
                kind=1,
                pack=PackId(f"{number % 3 + 1:032x}", 0),
                offset=64 * number,
                nbytes=64,
                header_nbytes=16,
                checksum=number,
            )
            for number, rows in chunks
        ]
    )


def places(index: Extents) -> list[tuple[int, int]]:
    """(chunk, row in it) of each row."""
    spans = zip(index.checksum.tolist(), index.skip.tolist(), index.rows.tolist(), strict=True)
    return [(chunk, skip + row) for chunk, skip, rows in spans for row in range(rows)]


chunk_lists = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 6)),
    min_size=1,
    max_size=6,
    unique_by=lambda c: c[0],
)


@FEW
@given(chunk_lists, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=6))
def test_windows_are_put_one_after_another_in_the_order_asked(chunks, asked):
    index = an_index(chunks)
    rows = index.num_rows
    cuts = [(min(start, rows), min(start + count, rows)) for start, count in asked]
    cuts = [(start, stop) for start, stop in cuts if start < stop]
    starts, stops = np.array(cuts, np.int64).reshape(-1, 2).T

    found = windows(index, starts, stops)

    whole = places(index)
    assert places(found) == [place for start, stop in cuts for place in whole[start:stop]]


@FEW
@given(chunk_lists, chunk_lists, some_rows)
def test_rows_differ_by_place_where_another_chunk_or_row_of_it_holds_them(one, other, chosen):
    left, right = an_index(one), an_index(other)
    count = min(left.num_rows, right.num_rows)
    here = SharedRows.identity(count).within(ranges_of(chosen[chosen < count]))

    found = rows_in(differing_places(match(here, here), left, right)).tolist()

    pairs_of = zip(places(left), places(right), strict=False)
    differing = [row for row, (a, b) in enumerate(pairs_of) if a != b]
    assert found == [row for row in differing if row in chosen]
