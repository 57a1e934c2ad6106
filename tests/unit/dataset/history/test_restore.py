"""Bringing older content back: restoring a version, reverting a commit."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import (
    ConflictError,
    InvalidInputError,
    ReadOnlyError,
    SnapshotExpiredError,
    UncommittedChangesError,
    UnsupportedFeatureError,
)
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, reopened, rows_of
from tests.unit.versions.refs.test_pins import put_fence


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def main(store: MemoryStore) -> Dataset:
    """main@1 six rows, main@2 a class and a value, main@3 rows gone and new."""
    ds = create_on(store, {"x": "int64", "label": tl.ClassLabel(["cat", "dog"]), "t": "str"})
    ds.extend({"x": range(6), "label": ["cat", "dog"] * 3, "t": list("abcdef")})
    ds.commit("six")
    ds["label"].add_names(["owl"])
    ds["label"][1] = "owl"
    ds["x"][[0, 1]] = [10, 11]
    ds.commit("owl")
    ds.delete([2, 3])
    ds.append({"x": 6, "label": "owl", "t": "g"})
    ds.commit("rows")
    return ds


# Restore


def test_a_restored_version_reads_as_it_did_and_the_log_keeps_what_was_between(main):
    before = rows_of(main.at("main@1"))

    commit = main.restore("main@1")

    assert rows_of(main) == rows_of(reopened(main)) == before
    assert main["label"].names == ("cat", "dog")
    assert (commit.version, commit.message) == ("main@4", "restore main@1")
    assert commit.changes.rewrite
    assert len(main.at("main@3")) == 5
    assert not main.diff("main@1")


def test_a_restored_version_is_not_told_as_no_change(main):
    before = main.version
    main["x"][0] = -1
    main.commit("changed")

    commit = main.restore(before)

    assert commit.summary() == "rows replaced or reordered"
    assert main.log(1)[0].summary() == "rows replaced or reordered"


def test_a_restore_keeps_row_ids_and_never_shortens_the_axis(main):
    ids = main.at("main@1").row_ids
    physical = session_of(main).committed.state.physical

    main.restore("main@1")

    assert list(main.row_ids) == list(ids)
    assert session_of(main).committed.state.physical == physical
    main.append({"x": 7, "label": "cat", "t": "h"})
    main["x"][0] = -1
    main.commit("goes on")
    assert reopened(main)["x"][:].tolist() == [-1, 1, 2, 3, 4, 5, 7]


def test_a_version_of_another_branch_is_restored(main):
    fix = main.branch("fix", at="main@1")
    fix.extend({"x": range(100), "label": ["dog"] * 100, "t": ["long"] * 100})
    fix.commit("longer axis")

    main.restore("fix")

    assert rows_of(main) == rows_of(fix)
    assert main.log()[0].parents == ("main@3",)


def test_a_restore_is_undone_by_restoring(main):
    newest = rows_of(main)
    main.restore("main@1")

    main.restore("main@3")

    assert rows_of(main) == newest


def test_a_merge_after_a_restore_takes_the_restore_for_a_change(main):
    fix = main.branch("fix")
    fix["t"][0] = "fix"
    fix.commit("fix")
    main.restore("main@1")

    main.merge("fix")

    assert main["x"][:].tolist() == [0, 1, 2, 3, 4, 5]
    assert main["t"][0] == "fix"


def test_what_was_given_up_is_not_restored(store, main):
    """format.md 40: the version is pinned, then its log read again."""
    put_fence(store, "main", main.log()[0].time.replace(year=2000), expired_before=2)

    with pytest.raises(SnapshotExpiredError, match="has expired"):
        main.restore("main@1")

    assert main.at("main").version == "main@3"


def test_restoring_is_refused_where_it_could_not_be_meant(main):
    main["x"][0] = 1
    with pytest.raises(UncommittedChangesError, match="commit or discard"):
        main.restore("main@1")
    main.discard()
    with pytest.raises(ReadOnlyError):
        main.at("main@2").restore("main@1")
    with pytest.raises(tl.VersionNotFoundError):
        main.restore("main@99")


# Revert


def test_a_reverted_commit_is_undone_and_later_ones_stay(main):
    main.revert("main@2")

    assert main.has_changes
    assert main["x"][:].tolist() == [0, 1, 4, 5, 6]
    assert [main["label"].names[code] for code in main["label"][:]] == [
        "cat",
        "dog",
        "cat",
        "dog",
        "owl",
    ]
    assert main.commit("undo").version == "main@4"
    assert reopened(main)["x"][:].tolist() == [0, 1, 4, 5, 6]


def test_reverting_a_delete_brings_rows_back_and_reverting_an_append_takes_them(main):
    main.revert("main@3")
    main.commit("undo")

    assert main["x"][:].tolist() == [10, 11, 4, 5, 2, 3]
    assert main["t"][:] == ["a", "b", "e", "f", "c", "d"]


def test_reverting_conflicts_with_later_changes_of_the_same_cells(main):
    main["x"][0] = 99
    main.commit("later")

    with pytest.raises(
        ConflictError,
        match=r"reverting main@2 on main@4 .* both changed 'x' of 1 row \(0 of main@2",
    ):
        main.revert("main@2")

    assert not main.has_changes


def test_a_revert_can_be_reverted(main):
    before = rows_of(main)
    main.revert("main@2")
    main.commit("undo")

    main.revert("main@4")
    main.commit("redo")

    assert rows_of(main) == before


def test_reverting_changes_of_the_schema(main):
    main.rename_tensor("t", "text")
    main.add_tensor("extra", "int64", fill=7)
    main.commit("schema")
    main["extra"][0] = 8
    main.append({"x": 8, "label": "cat", "text": "i", "extra": 9})
    main.commit("use it")
    main.revert("main@5")
    main.commit("without its use")

    main.revert("main@4")
    main.commit("undo")

    assert list(main.schema) == ["x", "label", "t"]
    assert main["t"][:] == ["a", "b", "e", "f", "g"]


def test_reverting_a_drop_brings_the_tensor_and_its_values_back(main):
    main.drop_tensor("t")
    main.commit("drop")

    main.revert("main@4")
    main.commit("undo")

    assert main["t"][:] == ["a", "b", "e", "f", "g"]
    assert not main.diff("main@3")


def test_a_changed_type_is_not_reverted(main):
    main.add_tensor("small", "int8", fill=1)
    main.commit("small")
    main.alter_tensor("small", dtype="int32")
    main.commit("wide")
    main["small"][0] = 1000
    main.commit("large")

    with pytest.raises(UnsupportedFeatureError, match=r"ds.restore\(version\)"):
        main.revert("main@5")

    assert not main.has_changes


def test_the_first_commit_is_not_reverted(main):
    with pytest.raises(InvalidInputError, match="nothing before it"):
        main.revert("main@0")


def test_a_commit_of_another_branch_is_reverted_where_its_rows_are(main):
    fix = main.branch("fix")
    fix["x"][2] = 44
    fix.commit("fix")
    main.merge("fix")
    main.append({"x": 7, "label": "cat", "t": "h"})
    main.commit("more")

    main.revert("fix@2")
    main.commit("undo")

    assert main["x"][:].tolist() == [10, 11, 4, 5, 6, 7]


def test_reverting_many_rows_goes_in_steps(store):
    ds = create_on(store, {"x": tl.Array("uint8", shape=(3,))})
    values = np.random.default_rng(0).integers(0, 255, (40_000, 3), dtype=np.uint8)
    ds.extend({"x": values})
    ds.commit("many")
    ds.delete(slice(0, 39_000))
    ds.commit("few")

    ds.revert("main@2")
    ds.commit("undo")

    assert np.array_equal(ds["x"][:], np.concatenate([values[39_000:], values[:39_000]]))
