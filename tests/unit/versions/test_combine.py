"""What combines, decided by changes alone; sets of rows as ranges (format.md, "Combine")."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.format import Changes
from tensorlake.versions import distinct, find_conflicts, ranges_of
from tensorlake.versions.ranges import clip, intersect, rows_in, union

row_sets = st.sets(st.integers(0, 60), max_size=30)


def ranges(rows: set[int]) -> np.ndarray:
    return ranges_of(np.array(sorted(rows), dtype=np.int64))


def change(kind: str, rows: set[int], tensor: str) -> Changes:
    listed = tuple(map(tuple, ranges(rows).tolist()))
    match kind:
        case "append":
            return Changes(append=3)
        case "update":
            return Changes(update={tensor: listed})
        case "delete":
            return Changes(delete=listed)
        case _:
            return Changes(schema=({"op": "add", "tensor": tensor, "name": tensor},))


changes = st.builds(
    change,
    st.sampled_from(["append", "update", "delete", "schema"]),
    row_sets.filter(bool),
    st.sampled_from(["a", "b"]),
)


@given(a=row_sets, b=row_sets)
def test_ranges_are_sets(a, b):
    assert set(rows_in(union([ranges(a), ranges(b)])).tolist()) == a | b
    assert set(rows_in(intersect(ranges(a), ranges(b))).tolist()) == a & b
    assert set(rows_in(clip(ranges(a), 20)).tolist()) == {row for row in a if row < 20}
    assert ranges(set(rows_in(ranges(a)).tolist())).tolist() == ranges(a).tolist()


@given(st.lists(st.integers(-9, 60)))
def test_distinct_rows_are_sorted_and_unique(rows):
    assert distinct(np.array(rows, dtype=np.int64)).tolist() == sorted(set(rows))


@given(mine=changes, theirs=changes)
def test_whether_two_changes_combine_does_not_depend_on_who_was_first(mine, theirs):
    """Test 25, for the decision."""
    assert bool(find_conflicts(mine, [theirs])) == bool(find_conflicts(theirs, [mine]))


@given(rows=row_sets.filter(bool), others=row_sets.filter(bool))
def test_updates_conflict_exactly_where_they_meet(rows, others):
    mine, theirs = change("update", rows, "a"), change("update", others, "a")

    conflicts = find_conflicts(mine, [theirs])

    assert sorted(row for one in conflicts for row in one.physical) == sorted(rows & others)
    assert find_conflicts(mine, [change("update", others, "b")]) == []


@given(rows=row_sets.filter(bool), others=row_sets.filter(bool))
def test_an_update_conflicts_with_a_delete_of_its_row_and_deletes_never_do(rows, others):
    update, delete = change("update", rows, "a"), change("delete", others, "a")

    assert bool(find_conflicts(update, [delete])) == bool(rows & others)
    assert find_conflicts(change("delete", rows, "a"), [delete]) == []


@pytest.mark.parametrize("kind", ["update", "delete"])
def test_rows_that_were_not_recorded_may_be_any(kind):
    """Above 64 ranges a log entry says only "many": what cannot be told apart conflicts."""
    many = Changes(update={"a": "many"}) if kind == "update" else Changes(delete="many")
    mine = change("update", {5}, "a")

    assert find_conflicts(mine, [many])
    assert find_conflicts(many, [mine])
    assert find_conflicts(change("append", set(), "a"), [many]) == []


def test_a_reordering_conflicts_with_all_but_appends():
    rewrite = Changes(rewrite=True)

    assert find_conflicts(change("append", set(), "a"), [rewrite]) == []
    for kind in ("update", "delete", "schema"):
        assert find_conflicts(change(kind, {1}, "a"), [rewrite])


def test_conflicts_with_several_commits_are_all_named():
    mine = change("update", {1, 2, 9}, "a")

    found = find_conflicts(
        mine, [change("update", {1}, "a"), change("append", set(), "a"), change("delete", {9}, "a")]
    )

    assert [(one.what, one.physical) for one in found] == [("update", (1,)), ("delete", (9,))]
