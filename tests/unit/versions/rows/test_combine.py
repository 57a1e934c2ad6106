"""What combines, decided by changes alone; sets of rows as ranges (format.md, "Combine")."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.format import Changes
from tensorlake.versions import distinct, find_conflicts, ranges_of
from tensorlake.versions.rows.ranges import clip, intersect, rows_in, union

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


def test_one_reordering_combines_and_two_conflict():
    """Rows are followed by row id, wherever the other put them."""
    rewrite = Changes(rewrite=True)

    for kind in ("append", "update", "delete", "schema"):
        assert find_conflicts(change(kind, {1}, "a"), [rewrite]) == []
        assert find_conflicts(rewrite, [change(kind, {1}, "a")]) == []
    assert [one.what for one in find_conflicts(rewrite, [rewrite])] == ["rewrite"]


def schema(*ops: tuple[str, str, str]) -> Changes:
    return Changes(
        schema=tuple({"op": op, "tensor": tensor, "name": name} for op, tensor, name in ops)
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "kinds"),
    [
        (schema(("add", "a", "x")), schema(("add", "b", "y")), []),
        (schema(("add", "a", "x")), schema(("add", "b", "x")), ["name"]),
        (schema(("rename", "a", "x")), schema(("type", "b", "b")), []),
        (schema(("rename", "a", "x")), schema(("rename", "b", "x")), ["name"]),
        (schema(("rename", "a", "x")), schema(("rename", "a", "x")), []),
        (schema(("rename", "a", "x")), schema(("rename", "a", "y")), ["schema"]),
        (schema(("names", "a", "a")), schema(("names", "a", "a")), ["schema"]),
        (schema(("drop", "a", "x")), schema(("drop", "a", "x")), []),
        (schema(("drop", "a", "x")), schema(("names", "a", "x")), ["schema"]),
        (schema(("drop", "a", "x")), Changes(append=1), ["drop"]),
        (schema(("drop", "a", "x")), Changes(update={"a": ((0, 1),)}), ["drop"]),
        (schema(("drop", "a", "x")), Changes(update={"b": ((0, 1),)}), []),
    ],
)
def test_two_changes_of_one_tensor_conflict_and_changes_of_two_combine(mine, theirs, kinds):
    assert [one.what for one in find_conflicts(mine, [theirs])] == kinds
    assert [one.what for one in find_conflicts(theirs, [mine])] == kinds


def test_a_tensor_that_both_dropped_is_no_conflict_whoever_appended():
    drop = ({"op": "drop", "tensor": "a", "name": "a"},)
    mine, theirs = Changes(append=1, schema=drop), Changes(append=2, schema=drop)

    assert find_conflicts(mine, [theirs]) == []
    assert [one.what for one in find_conflicts(Changes(append=1), [theirs])] == ["drop"]


def test_a_type_that_was_checked_against_all_rows_conflicts_with_values_added():
    checked = Changes(schema=({"op": "type", "tensor": "a", "name": "a", "checked": True},))

    for other in (Changes(append=1), Changes(update={"a": ((0, 1),)})):
        assert [one.what for one in find_conflicts(checked, [other])] == ["schema"]
        assert [one.what for one in find_conflicts(other, [checked])] == ["schema"]
    assert find_conflicts(checked, [Changes(update={"b": ((0, 1),)}, delete=((0, 1),))]) == []


@pytest.mark.parametrize(
    ("theirs", "rows"),
    [
        (Changes(update={"y": ((2, 4),)}), [(2, 3)]),
        (Changes(update={"y": "many"}), [()]),
        (Changes(append=1), [()]),
        (Changes(delete=((0, 1),)), [()]),
        (schema(("type", "y", "y")), [()]),
        (Changes(rewrite=True), [()]),
        (Changes(update={"x": ((2, 4),)}), []),
        (schema(("add", "z", "z")), []),
    ],
)
def test_a_column_that_was_read_conflicts_with_any_change_of_it(theirs, rows):
    found = find_conflicts(Changes(append=1), [theirs], reads=["y"])

    assert [one.physical for one in found if one.what == "read"] == rows


def test_conflicts_with_several_commits_are_all_named():
    mine = change("update", {1, 2, 9}, "a")

    found = find_conflicts(
        mine, [change("update", {1}, "a"), change("append", set(), "a"), change("delete", {9}, "a")]
    )

    assert [(one.what, one.physical) for one in found] == [("update", (1,)), ("delete", (9,))]
