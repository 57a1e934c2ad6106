"""Merging branches: three-way, by row identity, over versions that share their chunks."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of, session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.history.merge import MergeConflict
from tensorlake.errors import (
    ConflictError,
    InvalidInputError,
    InvalidStateError,
    ReadOnlyError,
    SnapshotExpiredError,
    TensorNotFoundError,
    UncommittedChangesError,
    VersionNotFoundError,
)
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import CountingStore
from tensorlake.versions import BranchLog
from tests.support.handles import create_on, open_on, rows_of
from tests.support.merging import labels


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def main(store) -> Dataset:
    ds = create_on(store, {"x": "int64", "label": tl.ClassLabel(["cat", "dog"]), "t": "str"})
    ds.extend({"x": range(8), "label": ["cat", "dog"] * 4, "t": [f"t{i}" for i in range(8)]})
    ds.commit("eight")
    return ds


@pytest.fixture
def fix(main) -> Dataset:
    return main.branch("fix")


def test_what_each_side_did_to_other_cells_is_all_there(main, fix):
    fix["x"][1] = 11
    fix["t"][2] = "two"
    fix.commit("fix")
    main["x"][2] = 22
    main["t"][1] = "one"
    main.commit("main")

    report = main.merge("fix")

    assert main["x"][:].tolist() == [0, 11, 22, 3, 4, 5, 6, 7]
    assert main["t"][:3] == ["t0", "one", "two"]
    assert report.version == main.version == "main@3"
    assert report.parents == ("main@2", "fix@2")
    assert report.updated == {"x": 1, "t": 1}
    assert (report.how, report.bases) == ("merge", ("main@1",))


def test_their_new_rows_come_after_ours_and_no_chunk_is_copied(store, main, fix):
    fix.extend({"x": range(100, 1100), "label": ["cat"] * 1000, "t": ["theirs"] * 1000})
    fix.commit("rows")
    main.append({"x": 99, "label": "dog", "t": "ours"})
    main.commit("row")
    counting = CountingStore(store)
    handle = open_on(counting)
    counting.reset()

    handle.merge("fix")

    assert handle["x"][8:12].tolist() == [99, 100, 101, 102]
    assert len(handle) == 1009
    chunks = {key.pack.txid for name in ("x", "t") for key in _chunks(handle, name)}
    assert len(chunks) == 3  # the eight rows', ours, theirs: none of the merge's own
    assert counting.count("put_if_absent") == 2  # the pin and the entry: its pages are a tail


def _chunks(ds: Dataset, name: str):
    physical = session_of(ds).snapshot().physical(np.arange(len(ds)))
    return rowset_of(ds).reader().locate(name, physical).chunks


def test_rows_deleted_by_either_are_gone(main, fix):
    fix.delete([0, 3])
    fix.commit("fix")
    main.delete([3, 5])
    main.commit("main")

    report = main.merge("fix")

    assert main["x"][:].tolist() == [1, 2, 4, 6, 7]
    assert report.removed == 1


def test_both_changing_a_cell_is_a_conflict_that_names_it(main, fix):
    fix["x"][[4, 5]] = [44, 55]
    fix.commit("fix")
    main["x"][[3, 4]] = [-3, -4]
    main.commit("main")

    with pytest.raises(ConflictError, match="both changed 'x' of 1 row \\(4 of main@1\\)") as found:
        main.merge("fix")

    assert found.value.rows == (4,)
    assert found.value.tensor == "x"
    assert found.value.base == "main@1"
    assert main.version == "main@2"
    assert main.at("main").version == "main@2"


@pytest.mark.parametrize(("prefer", "x"), [("ours", -4), ("theirs", 44)])
def test_a_preferred_side_wins_only_what_both_changed(main, fix, prefer, x):
    fix["x"][[4, 5]] = [44, 55]
    fix.commit("fix")
    main["x"][[3, 4]] = [-3, -4]
    main.commit("main")

    report = main.merge("fix", on_conflict=prefer)

    assert main["x"][:].tolist() == [0, 1, 2, -3, x, 55, 6, 7]
    assert report.conflicts == ("both changed 'x' of 1 row (4 of main@1)",)


def test_a_function_decides_cell_by_cell(main, fix):
    fix["x"][[1, 2]] = [10, 20]
    fix["label"][2] = "dog"
    fix["t"][7] = "theirs"
    fix.commit("fix")
    main["x"][[1, 2]] = [100, 200]
    main["t"][7] = "ours"
    main.commit("main")
    asked: list[MergeConflict] = []

    def decide(conflict: MergeConflict) -> object:
        asked.append(conflict)
        return conflict.ours + conflict.theirs

    main.merge("fix", on_conflict=decide)

    assert main["x"][:4].tolist() == [0, 110, 220, 3]
    assert main["t"][7] == "ourstheirs"
    assert labels(main)[2] == "dog"
    assert [(one.tensor, one.row, one.base) for one in asked] == [
        ("x", 1, 1),
        ("x", 2, 2),
        ("t", 7, "t7"),
    ]
    assert all(one.has_base and one.row_id.count(":") == 1 for one in asked)


def test_equal_values_written_by_both_are_no_conflict(main, fix):
    for handle in (fix, main):
        handle["x"][4] = 44
        handle["label"][4] = "dog"
        handle.commit("alike")

    report = main.merge("fix")

    assert report.conflicts == ()
    assert main["x"][4] == 44


def test_a_cell_rewritten_with_its_own_value_is_no_change(main, fix):
    fix["x"][4] = 4
    fix.commit("as it was")
    main["x"][4] = 44
    main.commit("main")

    main.merge("fix")

    assert main["x"][4] == 44


@pytest.mark.parametrize(("prefer", "rows"), [("ours", 7), ("theirs", 8)])
def test_a_row_that_ours_deleted_and_theirs_changed(main, fix, prefer, rows):
    fix["x"][4] = 44
    fix.commit("fix")
    main.delete([4])
    main.commit("main")

    with pytest.raises(ConflictError, match="one deleted what the other changed: 1 row \\(4"):
        main.merge("fix")
    main.merge("fix", on_conflict=prefer)

    assert len(main) == rows
    assert (44 in main["x"][:].tolist()) is (prefer == "theirs")
    # The row that came back is the same row: the other branch sees no difference in it.
    assert len(fix.diff("fix", "main").updated) == 0


@pytest.mark.parametrize(("prefer", "rows"), [("ours", 8), ("theirs", 7)])
def test_a_row_that_theirs_deleted_and_ours_changed(main, fix, prefer, rows):
    fix.delete([4])
    fix.commit("fix")
    main["x"][4] = 44
    main.commit("main")

    with pytest.raises(ConflictError, match="one deleted what the other changed"):
        main.merge("fix")
    main.merge("fix", on_conflict=prefer)

    assert len(main) == rows


def test_a_branch_without_news_takes_over_the_other(main, fix):
    """Fast-forward: physical rows mean something else, and the entry says so."""
    fix.delete([0])
    fix.append({"x": 8, "label": "cat", "t": "t8"})
    fix.commit("fix")

    report = main.merge("fix")

    assert report.how == "fast-forward"
    assert report.changes.rewrite
    assert rows_of(main) == rows_of(fix)
    assert not main.diff("fix", "main")


def test_a_fast_forward_never_shortens_the_axis(main, fix):
    main.append({"x": 8, "label": "cat", "t": "t8"})
    main.commit("main")
    main.delete([8])
    main.commit("gone")
    fix.merge("main")
    physical = session_of(main).committed.state.physical
    short = main.branch("short", at="main@1")
    short["x"][0] = 100
    short.commit("short")
    main.restore("main@1")
    main.merge("short")

    assert session_of(main).committed.state.physical >= physical
    assert main["x"][:].tolist() == [100, 1, 2, 3, 4, 5, 6, 7]


def test_merging_what_is_contained_publishes_nothing(main, fix):
    fix["x"][0] = 100
    fix.commit("fix")
    main.merge("fix")

    report = main.merge("fix")

    assert report.how == "nothing"
    assert report.version == main.version == "main@2"
    assert repr(report) == "main@2 has fix@2 already; nothing to merge"


def test_two_branches_append_merge_and_merge_again(main, fix):
    """format.md 42: the version vector says what is contained; no row comes twice."""
    for round_ in range(3):
        fix.append({"x": 100 + round_, "label": "cat", "t": "fix"})
        fix.commit("fix")
        main.append({"x": 200 + round_, "label": "dog", "t": "main"})
        main.commit("main")
        main.merge("fix")
        fix.merge("main")

    assert sorted(main["x"][:].tolist()) == [*range(8), 100, 101, 102, 200, 201, 202]
    assert rows_of(main) == rows_of(fix)
    assert not main.diff("fix", "main")
    entry = run(BranchLog(session_of(main).store, "main").head())
    assert entry is not None
    assert entry.merged["fix"] == 6


def test_a_third_branch_passes_on_what_it_contains(main, fix):
    other = main.branch("other")
    fix["x"][0] = 100
    fix.commit("fix")
    other.merge("fix")
    other["x"][1] = 101
    other.commit("other")
    main["x"][2] = 102
    main.commit("main")

    main.merge("other")

    assert main["x"][:4].tolist() == [100, 101, 102, 3]
    assert main.merge("fix").how == "nothing"


def test_after_a_criss_cross_what_the_bases_dispute_is_a_conflict(main, fix):
    """Several bases: the newest counts, cells differing between them were changed by both."""
    fix["x"][0] = 100
    fix.commit("fix")
    main["x"][0] = 200
    main.commit("main")
    main_then, fix_then = main.version, fix.version
    main.merge(fix_then, on_conflict="ours")
    fix.merge(main_then, on_conflict="ours")

    with pytest.raises(ConflictError, match="both changed 'x' of 1 row"):
        main.merge("fix")
    report = main.merge("fix", on_conflict="theirs")

    assert set(report.bases) == {"main@2", "fix@2"}
    assert main["x"][0] == 100


def test_after_a_criss_cross_that_agreed_nothing_is_disputed(main, fix):
    fix["x"][0] = 100
    fix.append({"x": 9, "label": "cat", "t": "nine"})
    fix.commit("fix")
    main["x"][1] = 201
    main.append({"x": 10, "label": "dog", "t": "ten"})
    main.commit("main")
    main_then, fix_then = main.version, fix.version
    main.merge(fix_then)
    fix.merge(main_then)
    fix["x"][2] = 102
    fix.commit("more")

    main.merge("fix")

    assert main["x"][:3].tolist() == [100, 201, 102]
    assert sorted(main["x"][:].tolist()) == [3, 4, 5, 6, 7, 9, 10, 100, 102, 201]


def test_only_named_tensors_are_taken_and_the_merge_is_not_remembered(main, fix):
    fix["x"][0] = 100
    fix["t"][0] = "fix"
    fix.append({"x": 9, "label": "cat", "t": "nine"})
    fix.delete([7])
    fix.commit("fix")
    main["x"][1] = 101
    main.commit("main")

    report = main.merge("fix", tensors=["x"])

    assert main["x"][:].tolist() == [100, 101, 2, 3, 4, 5, 6, 7]
    assert main["t"][0] == "t0"
    assert report.parents == ("main@2",)
    main.merge("fix")
    assert main["x"][:].tolist() == [100, 101, 2, 3, 4, 5, 6, 9]
    assert main["t"][0] == "fix"


def test_a_dry_run_tells_everything_and_publishes_nothing(main, fix):
    fix["x"][[0, 1]] = [100, 101]
    fix.commit("fix")
    main["x"][0] = 200
    main.commit("main")

    report = main.merge("fix", dry_run=True)

    assert report.is_refused
    assert repr(report).splitlines() == [
        "main@2 + fix@2 → would conflict   (from main@1)",
        " x  1 row updated",
        " conflict: both changed 'x' of 1 row (0 of main@1)",
    ]
    assert main.version == main.at("main").version == "main@2"
    with pytest.raises(InvalidStateError, match="dry run"):
        _ = report.commit


def test_a_dry_run_says_whether_its_conflicts_are_decided(main, fix):
    fix["x"][0] = 100
    fix.commit("fix")
    main["x"][0] = 200
    main.commit("main")

    for how in ("ours", "theirs", lambda conflict: conflict.base):
        report = main.merge("fix", on_conflict=how, dry_run=True)
        assert not report.is_refused
        assert "would be published" in repr(report)
        assert len(report.conflicts) == 1


def test_merging_is_refused_where_it_could_not_be_meant(main, fix):
    fix["x"][0] = 100
    with pytest.raises(UncommittedChangesError, match="commit or discard"):
        fix.merge("main")
    fix.commit("fix")
    with pytest.raises(VersionNotFoundError, match="'fxi'"):
        main.merge("fxi")
    with pytest.raises(InvalidInputError, match="on_conflict='mine'"):
        main.merge("fix", on_conflict="mine")
    with pytest.raises(TensorNotFoundError, match="'y'"):
        main.merge("fix", tensors=["y"])
    with pytest.raises(InvalidInputError, match="give a list"):
        main.merge("fix", tensors="x")
    with pytest.raises(ReadOnlyError):
        main.at("main@1").merge("fix")


def test_a_function_does_not_decide_about_rows(main, fix):
    fix["x"][4] = 44
    fix.commit("fix")
    main.delete([4])
    main.commit("main")

    with pytest.raises(ConflictError, match="a function decides cells only"):
        main.merge("fix", on_conflict=lambda conflict: conflict.ours)


def test_an_ended_branch_is_not_merged(main, fix):
    fix["x"][0] = 100
    fix.commit("fix")
    main.delete_branch("fix")

    with pytest.raises(SnapshotExpiredError, match="its branch has ended"):
        main.merge("fix@2")


def test_a_handle_behind_its_branch_merges_into_the_newest(main, fix):
    other = main.at("main")
    other.append({"x": 8, "label": "dog", "t": "t8"})
    other.commit("other")
    fix["x"][0] = 100
    fix.commit("fix")

    main.merge("fix")

    assert main.version == "main@3"
    assert main["x"][:].tolist() == [100, 1, 2, 3, 4, 5, 6, 7, 8]


def test_another_order_that_somebody_asked_for_is_taken(main, fix):
    fix.optimize(order_by="x DESC")
    fix["t"][0] = "last"
    fix.commit("fix")
    main.append({"x": 99, "label": "dog", "t": "ours"})
    main["t"][1] = "one"
    main.commit("main")

    report = main.merge("fix")

    assert main["x"][:].tolist() == [7, 6, 5, 4, 3, 2, 1, 0, 99]
    assert main["t"][:] == ["last", "t6", "t5", "t4", "t3", "t2", "one", "t0", "ours"]
    assert report.changes.rewrite


def test_two_orders_conflict_and_a_side_is_preferred(main, fix):
    fix.optimize(order_by="x DESC")
    main.optimize(order_by="label, x")

    with pytest.raises(ConflictError, match="both reordered the rows"):
        main.merge("fix")
    main.merge("fix", on_conflict="theirs")

    assert main["x"][:].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_optimizing_one_side_moves_chunks_and_disputes_nothing(main, fix):
    for number in range(4):
        fix.append({"x": 100 + number, "label": "cat", "t": "fix"})
        fix.commit("row")
    fix.optimize()
    main["x"][:] = np.arange(8) * 10
    main.commit("main")

    report = main.merge("fix")

    assert main["x"][:].tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 100, 101, 102, 103]
    assert report.updated == {}


def test_merging_both_ways_through_a_third_branch_disputes_no_order(main, fix):
    """Found by the model: each side has an order of its own, which nobody asked for."""
    third = main.branch("third")
    for handle, x in ((fix, 100), (third, 200), (main, 300)):
        handle.append({"x": x, "label": "cat", "t": "new"})
        handle.commit("row")
    third.merge("fix")
    fix.merge("third")
    fix.append({"x": 101, "label": "cat", "t": "new"})
    fix.commit("row")
    main.merge("third@2")
    third.merge("main")
    main.merge("fix")

    main.merge("third")
    fix.merge("main")

    assert sorted(main["x"][:].tolist()) == [*range(8), 100, 101, 200, 300]
    assert sorted(fix["x"][:].tolist()) == [*range(8), 100, 101, 200, 300]
