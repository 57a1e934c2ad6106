"""Ended branches: writers lose cleanly, names stay used, what was there stays readable."""

import datetime as dt

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import (
    InvalidInputError,
    InvalidStateError,
    ReadOnlyError,
    SnapshotExpiredError,
    VersionNotFoundError,
)
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import FaultyStore
from tensorlake.versions import BranchLog
from tests.support.handles import create_on, open_on, wait_for_storage

DAY = dt.timedelta(days=1)


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


@pytest.fixture
def main(store: FaultyStore) -> Dataset:
    ds = create_on(store, {"x": "int64"})
    ds.extend({"x": range(4)})
    ds.commit("four")
    return ds


def test_an_ended_branch_is_no_longer_listed_and_its_versions_are_still_read(store, main):
    fix = main.branch("fix")
    fix["x"][0] = 10
    fix.commit("fix")
    reader = main.at("fix@2")

    main.delete_branch("fix")

    assert main.branches == ["main"]
    assert reader["x"][0] == open_on(store, "fix@2")["x"][0] == 10
    ended = open_on(store, "fix")
    assert ended["x"][0] == 10
    with pytest.raises(ReadOnlyError):
        ended.append({"x": 5})


def test_the_end_repeats_the_body_of_the_commit_it_stands_on(store, main):
    main.branch("fix")
    main.delete_branch("fix")

    end = run(BranchLog(store, "fix").head())
    assert end is not None
    commit = run(BranchLog(store, "fix").existing(1))

    assert (end.kind, end.seq, end.of) == ("end", 2, 1)
    assert end.schema == commit.schema
    assert end.to_json()["roots"] == commit.to_json()["roots"]


def test_the_name_of_an_ended_branch_cannot_be_used_again(main):
    """format.md 36."""
    main.branch("fix")
    main.delete_branch("fix")

    with pytest.raises(InvalidInputError, match="never used twice"):
        main.branch("fix")
    with pytest.raises(InvalidInputError, match="is a branch"):
        main.tag("fix")


def test_a_writer_on_an_ended_branch_loses_cleanly(store, main):
    """format.md 17: the branch ended during a commit; the staged changes stay on the handle."""
    fix = main.branch("fix")
    fix.append({"x": 4})
    store.before("put_if_absent", lambda: open_on(store).delete_branch("fix"), path="branches/fix/")

    with pytest.raises(InvalidStateError, match="was deleted"):
        fix.commit("late")

    assert fix.has_changes
    assert len(open_on(store, "fix")) == 4


def test_staged_changes_do_not_move_onto_the_end_of_a_branch(store, main):
    fix = main.branch("fix")
    fix.append({"x": 4})
    open_on(store).delete_branch("fix")

    with pytest.raises(InvalidStateError, match="was deleted"):
        fix.refresh(keep_staged=True)

    assert fix.has_changes
    assert fix.version == "fix@1"


def test_a_commit_made_while_a_branch_ends_is_kept(store, main):
    """format.md 17, the other way: the end stands on the commit that was faster."""
    fix = main.branch("fix")
    fix.append({"x": 4})
    store.before("put_if_absent", lambda: fix.commit("in time"), path="branches/fix/")

    main.delete_branch("fix")

    assert len(open_on(store, "fix")) == 5
    assert main.branches == ["main"]


def test_nothing_new_is_made_from_an_ended_branch(main):
    main.branch("fix")
    main.delete_branch("fix")

    for make in (main.restore, lambda version: main.branch("again", at=version)):
        with pytest.raises(SnapshotExpiredError, match="its branch has ended"):
            make("fix@1")


def test_ending_is_refused_where_it_could_not_be_meant(store, main):
    with pytest.raises(InvalidInputError, match=r"tl.delete\(url"):
        main.delete_branch("main")
    with pytest.raises(VersionNotFoundError, match="has no branch 'fxi'"):
        main.delete_branch("fxi")
    main.branch("fix")
    main.delete_branch("fix")
    with pytest.raises(VersionNotFoundError, match="already ended"):
        main.delete_branch("fix")
    tl.create("memory://ended-read-only", {"x": "int64"}).branch("fix")
    reader = tl.open("memory://ended-read-only", read_only=True)
    with pytest.raises(ReadOnlyError, match="read_only=True"):
        reader.delete_branch("fix")


def test_a_merge_onto_a_branch_that_ends_meanwhile_publishes_nothing(store, main):
    fix = main.branch("fix")
    main["x"][0] = 10
    main.commit("main")
    fix["x"][1] = 11
    fix.commit("fix")
    store.before("put_if_absent", lambda: open_on(store).delete_branch("fix"), path="branches/fix/")

    with pytest.raises(InvalidStateError, match="was deleted"):
        fix.merge("main")

    wait_for_storage()
    assert open_on(store, "fix")["x"][:].tolist() == [0, 11, 2, 3]


def test_a_stale_writer_on_an_ended_and_swept_branch_loses():
    """format.md 35: what it had staged may be collected by then; nothing of it appears."""
    clock = Clock()
    objects = MemoryStore(clock=clock)
    main = create_on(objects, {"x": "int64"})
    main.extend({"x": range(4)})
    main.commit("four")
    fix = main.branch("fix")
    fix.append({"x": 4})
    stale_merge = FaultyStore(objects)

    main.delete_branch("fix")
    clock.now += 2 * DAY
    main.gc()
    with pytest.raises(InvalidStateError, match="was deleted"):
        fix.commit("late")
    with pytest.raises((InvalidStateError, ReadOnlyError)):
        open_on(stale_merge, "fix").merge("main")

    assert main.branches == ["main"]
    assert open_on(objects)["x"][:].tolist() == [0, 1, 2, 3]


class Clock:
    """The store's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)

    def __call__(self) -> dt.datetime:
        return self.now
