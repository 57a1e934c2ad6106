"""Staged changes that move to a newer version: what is compared, who wins, where rows land."""

from typing import Any

import numpy as np
import pytest

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError, InvalidInputError, UncommittedChangesError
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import labelled_store, open_on, reopened, rows_of, wait_for_storage

ROWS = 400


@pytest.fixture
def store() -> MemoryStore:
    return labelled_store(ROWS)


@pytest.fixture
def pair(store: MemoryStore) -> tuple[Dataset, Dataset]:
    """Two handles at main@1: the first will be late."""
    return open_on(store), open_on(store)


def test_refresh_takes_staged_changes_along_and_reads_see_both(pair):
    mine, theirs = pair
    mine["x"][3] = -3
    mine.delete([5])
    mine.append({"x": 900, "y": 900, "text": "mine", "label": "cat"})
    theirs["y"][3] = -33
    theirs.delete([0, 1])
    theirs.append({"x": 800, "y": 800, "text": "theirs", "label": "dog"})
    theirs.commit()

    assert mine.refresh(keep_staged=True) is mine

    assert mine.version == "main@2"
    assert mine.has_changes
    assert mine["x"][:4].tolist() == [2, -3, 4, 6]
    assert mine["y"][1] == -33
    assert mine["text"][-2:] == ["theirs", "mine"]
    assert len(mine) == ROWS - 3 + 2
    shown = rows_of(mine)
    assert mine.commit().version == "main@3"
    assert rows_of(mine) == shown == rows_of(reopened(mine))


def test_staging_goes_on_after_a_refresh(pair):
    """Rows staged before and after are told apart from those of others."""
    mine, theirs = pair
    mine.append({"x": 900, "y": 0, "text": "a", "label": 0})
    theirs.extend({"x": [1, 2], "y": [1, 2], "text": ["t", "t"], "label": [0, 0]})
    theirs.commit()
    mine.refresh(keep_staged=True)

    mine.append({"x": 901, "y": 0, "text": "b", "label": 0})
    mine["x"][-2] = 950
    mine.delete([-1])
    theirs.append({"x": 3, "y": 3, "text": "t", "label": 0})
    theirs.commit()
    mine.commit()

    assert reopened(mine)["x"][ROWS:].tolist() == [1, 2, 3, 950]


def test_a_discard_after_a_refresh_shows_the_newer_version(pair):
    mine, theirs = pair
    mine["x"][0] = 9
    theirs["x"][1] = 8
    theirs.commit()
    mine.refresh(keep_staged=True)

    mine.discard()

    assert mine["x"][:2].tolist() == [0, 8]
    assert mine.version == "main@2"


def test_refresh_without_keeping_refuses_staged_changes_and_wrong_words(pair):
    mine, _ = pair
    mine["x"][0] = 9
    policy: Any = "mine"

    with pytest.raises(UncommittedChangesError, match="keep_staged=True"):
        mine.refresh()
    with pytest.raises(InvalidInputError, match="'ours'"):
        mine.refresh(keep_staged=True, on_conflict=policy)


def conflicting(pair: tuple[Dataset, Dataset]) -> Dataset:
    """x[3] updated by both, 4 updated here and deleted there, 5 deleted here and updated there."""
    mine, theirs = pair
    mine["x"][[3, 4]] = [-30, -40]
    mine["text"][4] = "kept"
    mine.delete([5])
    theirs["x"][[3, 5, 6]] = [-31, -51, -61]
    theirs.delete([4])
    theirs.commit("theirs")
    return mine


def test_a_conflict_names_rows_tensor_versions_and_who(pair):
    mine = conflicting(pair)

    with pytest.raises(ConflictError) as caught:
        mine.refresh(keep_staged=True)

    error = caught.value
    assert (error.branch, error.base, error.head) == ("main", "main@1", "main@2")
    assert error.rows == (3, 4, 5)
    assert error.row_ids == tuple(reopened(mine).at("main@1")[[3, 4, 5]].row_ids)
    assert error.tensor == "x"
    assert {one.what for one in error.conflicts} == {"update", "delete"}
    assert "both changed 'x' of 1 row (3)" in str(error)
    assert "'theirs'" in str(error)
    assert "ds.refresh(keep_staged=True, on_conflict='ours')" in str(error)
    assert mine.version == "main@1"
    assert mine["x"][3:5].tolist() == [-30, -40]


def test_the_way_out_that_a_conflict_names_works(pair):
    mine = conflicting(pair)
    with pytest.raises(ConflictError):
        mine.commit("mine")

    mine.refresh(keep_staged=True, on_conflict="ours")
    mine.commit("mine")

    published = reopened(mine)
    x = published["x"][:].tolist()
    assert x[3] == -30
    assert -51 not in x  # deleted here
    assert -61 in x
    assert x[-1] == -40  # came back, as the last row
    assert published["text"][-1] == "kept"
    assert len(published) == ROWS - 1


def test_theirs_lets_the_published_changes_win_and_keeps_the_rest(pair):
    mine = conflicting(pair)
    mine["y"][3] = 333

    mine.refresh(keep_staged=True, on_conflict="theirs")
    mine.commit("mine")

    published = reopened(mine)
    assert published["x"][3:6].tolist() == [-31, -51, -61]
    assert published["y"][3] == 333
    assert len(published) == ROWS - 1
    assert -40 not in published["x"][:].tolist()


def test_a_row_that_theirs_keeps_shows_what_they_gave_it(pair):
    mine, theirs = pair
    mine["x"][5] = -1
    mine["y"][5] = -2
    mine.delete([5])
    theirs["x"][5] = -50
    theirs.commit()

    mine.refresh(keep_staged=True, on_conflict="theirs")
    mine.commit()

    assert reopened(mine)["x"][5] == -50
    assert reopened(mine)["y"][5] == -2  # nobody else gave it a value


@pytest.mark.parametrize(
    ("winner", "last"), [("ours", [ROWS - 2, ROWS - 1]), ("theirs", [ROWS - 1, -50])]
)
def test_a_deletion_that_both_made_stays_staged_and_meets_who_brings_the_row_back(
    pair, winner, last
):
    """Whether the handle moved in between or not, the conflict is the same."""
    mine, theirs = pair
    unmoved, third = reopened(mine), reopened(mine)
    row_id = tuple(mine[[5]].row_ids)
    third["x"][5] = -50
    mine.delete([5])
    unmoved.delete([5])
    theirs.delete([5])
    theirs.commit()
    mine.refresh(keep_staged=True)
    third.refresh(keep_staged=True, on_conflict="ours")
    third.commit()

    for late, rows, said in ((mine, (), "not shown in main@2"), (unmoved, (5,), "5")):
        with pytest.raises(ConflictError, match=rf"one deleted, .* 1 row \({said}\)") as caught:
            late.commit()
        assert (caught.value.rows, caught.value.row_ids) == (rows, row_id)
        late.refresh(keep_staged=True, on_conflict=winner)
        assert late["x"][-2:].tolist() == last
    mine.commit()
    assert reopened(mine)["x"][-2:].tolist() == last


def test_equal_values_are_no_conflict(pair):
    mine, theirs = pair
    mine["x"][[3, 4]] = [30, 40]
    mine["text"][3] = "same"
    theirs["x"][3] = 30
    theirs["text"][3:9] = "same"
    theirs.commit()

    assert mine.commit().version == "main@3"
    assert reopened(mine)["x"][3:5].tolist() == [30, 40]
    assert reopened(mine)["text"][3:9] == ["same"] * 6


def test_changes_recorded_as_many_are_compared_row_by_row(pair):
    """Above 64 ranges an entry says "many"; the trees and values tell what it was."""
    mine, theirs = pair
    even = np.arange(0, ROWS, 2)
    mine["x"][even + 1] = 7
    theirs["x"][even] = -1
    assert list(theirs.commit().changes.update.values()) == ["many"]
    theirs.delete(np.arange(2, ROWS, 4))
    theirs.commit()

    mine.commit()

    x, y = reopened(mine)["x"][:], reopened(mine)["y"][:]
    assert (x[y % 2 == 1] == 7).all()
    assert (x[y % 2 == 0] == -1).all()
    assert len(x) == ROWS - ROWS // 4


def test_of_many_changes_the_conflicting_rows_are_named(pair):
    mine, theirs = pair
    mine["x"][[3, 8, 10]] = [30, 80, 100]
    mine.delete([12])
    theirs["x"][np.arange(0, ROWS, 2)] = -1
    theirs.delete(np.arange(3, ROWS, 4))
    theirs.commit()

    with pytest.raises(ConflictError) as caught:
        mine.commit()

    assert {one.what: one.physical for one in caught.value.conflicts} == {
        "update": (8, 10),
        "delete": (3, 12),
    }


def test_an_update_of_a_cell_that_was_rewritten_around_is_kept(pair):
    """Both rewrote the chunk; each gives only its own rows."""
    mine, theirs = pair
    mine["text"][[0, 10]] = ["m0", "m10"]
    theirs["text"][[1, 11]] = ["t1", "t11"]
    theirs.commit()

    mine.commit()

    text = reopened(mine)["text"][:]
    assert [text[i] for i in (0, 1, 2, 10, 11)] == ["m0", "t1", "row 2", "m10", "t11"]


@pytest.mark.parametrize("last", ["deleted", "updated"])
def test_a_value_that_both_gave_is_not_staged_any_more_after_a_refresh(pair, last):
    """It is the base's now: a third commit that changes the cell, or its row, is no conflict."""
    mine, theirs = pair
    mine["x"][[5, 6]] = [-5, -6]
    theirs["x"][5] = -5
    theirs.commit()

    mine.refresh(keep_staged=True, on_conflict="ours")
    if last == "deleted":
        theirs.delete([5])
    else:
        theirs["x"][5] = -50
    theirs.commit()
    mine.commit()

    expected = [4, -6, 7] if last == "deleted" else [4, -50, -6]
    assert reopened(mine)["x"][4:7].tolist() == expected


def test_a_commit_of_what_others_have_done_publishes_nothing_but_its_key(pair):
    mine, theirs = pair
    mine["x"][5] = -5
    theirs["x"][5] = -5
    done = theirs.commit("theirs")
    assert mine.commit("mine").version == done.version

    late, first = reopened(mine), reopened(mine)
    late["x"][6] = -6
    first["x"][6] = -6
    first.commit()
    kept = late.commit("late", key="work")

    assert kept.version == "main@4"
    assert reopened(mine).commit("again", key="work").version == "main@4"


def test_a_transaction_conflicts_on_the_columns_it_read(pair):
    mine, theirs = pair
    theirs["y"][0] = 5
    theirs.commit("new y")

    with (
        pytest.raises(ConflictError, match="'y', which this transaction read") as caught,
        mine.transaction("from y", reads=["y"]),
    ):
        mine["x"][:] = mine["y"][:] * 2

    assert caught.value.rows == (0,)
    assert mine.has_changes
    mine.discard()
    mine.refresh()
    with mine.transaction("from y", reads=["y"]):
        mine["x"][:] = mine["y"][:] * 2
    assert reopened(mine)["x"][0] == 10


def test_a_transaction_that_read_nothing_else_combines(pair):
    mine, theirs = pair
    theirs["y"][0] = 5
    theirs.commit("new y")

    with mine.transaction("from text", reads=["text"]):
        mine["x"][0] = len(mine["text"][0])

    assert reopened(mine)["x"][0] == 5


def test_a_rebased_append_reads_one_entry_and_writes_no_page(store):
    """Test 12: one entry read, the next seen absent, one put; no chunk or page is touched."""
    counting = CountingStore(store)
    mine, theirs = open_on(counting), open_on(store)
    mine.append({"x": 1, "y": 1, "text": "mine", "label": 0})
    theirs.append({"x": 2, "y": 2, "text": "theirs", "label": 0})
    theirs.commit()
    before = len(counting.requests)

    mine.commit()
    wait_for_storage()

    asked = [(one.call, one.path.split("/")[0]) for one in counting.requests[before:]]
    assert asked == [
        ("put_if_absent", "packs"),
        ("put_if_absent", "branches"),  # lost
        ("get", "branches"),  # who won
        ("get", "branches"),  # nobody after it
        ("put_if_absent", "branches"),
        ("put", "branches"),  # the hint
    ]
    assert open_on(store)["text"][ROWS:] == ["theirs", "mine"]


def idle_and_deleted(mine: Dataset, theirs: Dataset, *, who_deletes: str) -> None:
    """One deletes row 3, the other writes it as it is; theirs is published."""
    deleting, idle = (mine, theirs) if who_deletes == "mine" else (theirs, mine)
    idle["x"][[3, 5]] = [3, 50]
    deleting.delete([3])
    theirs.commit()


@pytest.mark.parametrize("policy", ["error", "theirs", "ours"])
def test_a_row_that_was_brought_back_keeps_its_values_when_another_row_goes(pair, policy):
    mine, theirs = pair
    mine["x"][1] = -1
    theirs.delete([1])
    theirs.commit()
    mine.refresh(keep_staged=True, on_conflict="ours")
    other = 10 if policy == "error" else 9  # with "error", a row that mine does not write
    mine["x"][mine["x"][:].tolist().index(9)] = -9
    theirs.delete([theirs["x"][:].tolist().index(other)])
    theirs.commit()

    mine.refresh(keep_staged=True, on_conflict=policy)

    shown = set(mine["x"][:].tolist()) & {-1, 1, -9, 9, 10}
    assert shown == {"error": {-1, -9}, "theirs": {-1, 10}, "ours": {-1, -9, 10}}[policy]


def test_values_of_a_tensor_that_was_not_there_do_not_keep_a_row_from_being_deleted(pair):
    mine, theirs = pair
    mine.delete([1, 2])
    theirs.add_tensor("score", "float32", fill=0.0)
    theirs.commit()
    theirs["score"][1] = 0.5
    theirs.commit()

    mine.commit()

    assert len(mine) == ROWS - 2
    assert mine["score"][:].tolist() == [0.0] * (ROWS - 2)


@pytest.mark.parametrize("who_deletes", ["mine", "theirs"])
def test_a_value_written_as_it_was_does_not_keep_its_row_from_being_deleted(pair, who_deletes):
    mine, theirs = pair
    idle_and_deleted(mine, theirs, who_deletes=who_deletes)

    commit = mine.commit()

    assert commit.summary() == ("-1 row" if who_deletes == "mine" else "x 1 row")
    assert mine["x"][:6].tolist() == [0, 1, 2, 4, 50, 6]
    assert reopened(mine)["x"][:6].tolist() == [0, 1, 2, 4, 50, 6]


@pytest.mark.parametrize("who_is_idle", ["mine", "theirs"])
def test_of_two_values_the_one_that_is_another_stands(pair, who_is_idle):
    mine, theirs = pair
    idle, changing = (mine, theirs) if who_is_idle == "mine" else (theirs, mine)
    idle["x"][[3, 4]] = [3, 40]
    changing["x"][[3, 5]] = [30, 50]
    theirs.commit()

    mine.commit()

    assert reopened(mine)["x"][:6].tolist() == [0, 1, 2, 30, 40, 50]


@pytest.mark.parametrize("who_drops", ["mine", "theirs"])
def test_a_tensor_may_be_dropped_whose_values_were_written_as_they_were(pair, who_drops):
    mine, theirs = pair
    dropping, idle = (mine, theirs) if who_drops == "mine" else (theirs, mine)
    idle["x"][[3, 4]] = [3, 4]
    idle["y"][3] = 30
    dropping.drop_tensor("x")
    theirs.commit()

    mine.commit()

    assert "x" not in reopened(mine).schema
    assert reopened(mine)["y"][3] == 30


def test_what_was_read_may_have_been_written_as_it_was(pair):
    mine, theirs = pair
    theirs["x"][[3, 4]] = [3, 4]
    theirs.commit()

    with mine.transaction("from x", reads=["x"]):
        mine["y"][3] = 4

    assert reopened(mine)["y"][3] == 4


def test_a_class_may_be_dropped_while_labels_are_written_as_they_were(pair):
    mine, theirs = pair
    mine["label"].add_names(["emu"])
    mine.commit()
    theirs.refresh()
    mine["label"].drop_names(["emu"])
    theirs["label"][0] = "cat"
    theirs.commit()

    mine.commit()

    assert reopened(mine)["label"].names == ("cat", "dog")


def test_a_row_that_came_back_and_was_deleted_again_is_gone(pair):
    mine, theirs = pair
    mine["x"][4] = -40
    theirs.delete([4])
    theirs.commit()
    mine.refresh(keep_staged=True, on_conflict="ours")
    assert mine["x"][-1] == -40

    mine.delete([-1])
    mine["x"][0] = -1
    mine.commit()

    assert reopened(mine)["x"][:].tolist() == [-1, *(x for x in range(1, ROWS) if x != 4)]
    assert reopened(mine).check().ok
