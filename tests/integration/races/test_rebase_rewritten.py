"""Staged changes across what moves rows or ends things: restore, reordering, branch end, fences."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError, InvalidStateError, TransactionExpiredError
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.unit.versions.log.test_fences import HOUR, NOON, Clock, put_fence


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    dataset = create_on(store, {"key": "int64", "x": "int64", "text": "str"})
    n = np.arange(20)
    dataset.extend({"key": n, "x": n, "text": [f"row {i}" for i in n]})
    dataset.commit("twenty")
    dataset.delete([0, 1])
    dataset["x"][dataset["key"].isin([5, 6])] = -5
    dataset.append({"key": 20, "x": 20, "text": "row 20"})
    dataset.commit("later")
    return store


def by_key(dataset: Dataset, name: str) -> dict[int, object]:
    return dict(zip(dataset["key"][:].tolist(), [*dataset[name][:]], strict=True))


def test_an_update_staged_across_a_restore_lands_on_its_row(store):
    """Test 42, second half: rows got other physical places; they are followed by row id."""
    mine, theirs = open_on(store), open_on(store)
    assert mine["key"][3] == 5
    mine["text"][[3, 7]] = ["mine 5", "mine 9"]
    mine.delete([10])  # key 12
    mine.append({"key": 30, "x": 30, "text": "mine 30"})
    theirs.restore("main@1")

    mine.commit("after the restore")

    text = by_key(open_on(store), "text")
    assert (text[5], text[9], text[30]) == ("mine 5", "mine 9", "mine 30")
    assert text.keys() == {*range(20), 30} - {12}
    assert all(text[key] == f"row {key}" for key in text if key not in (5, 9, 30))
    assert by_key(open_on(store), "x")[5] == 5


def test_an_update_of_a_cell_that_the_restore_changed_conflicts_with_its_row(store):
    mine, theirs = open_on(store), open_on(store)
    mine["x"][3] = 500  # key 5, which the restore sets from -5 to 5
    theirs.restore("main@1")

    with pytest.raises(ConflictError, match="'x' of 1 row \\(3\\)") as caught:
        mine.commit()

    assert caught.value.rows == (3,)
    mine.refresh(keep_staged=True, on_conflict="ours")
    mine.commit()
    assert by_key(open_on(store), "x")[5] == 500


def test_an_update_of_a_row_that_the_restore_took_away_conflicts(store):
    mine, theirs = open_on(store), open_on(store)
    mine["x"][-1] = 500  # key 20, which main@1 has not
    theirs.restore("main@1")

    with pytest.raises(ConflictError):
        mine.commit()

    mine.refresh(keep_staged=True, on_conflict="theirs")
    assert not mine.has_changes
    assert len(mine) == 20


def test_changes_staged_across_a_reordering_land_on_their_rows(store):
    mine, theirs = open_on(store), open_on(store)
    mine["x"][[0, 5, 17]] = [-2, -7, -19]
    mine.delete([9])  # key 11
    mine.append({"key": 30, "x": 30, "text": "mine"})
    mine.add_tensor("flag", "bool", fill=False)
    mine["flag"][2] = True  # key 4
    theirs.optimize(order_by="key DESC")

    mine.commit()

    published = open_on(store)
    x = by_key(published, "x")
    assert (x[2], x[7], x[19], x[30]) == (-2, -7, -19, 30)
    assert 11 not in x
    assert published["key"][:3].tolist() == [20, 19, 18]
    flags = by_key(published, "flag")
    assert [key for key, flag in flags.items() if flag] == [4]
    assert all(x[key] == key for key in x if key not in (2, 5, 6, 7, 19))


def test_changes_staged_across_a_compaction_combine(store):
    mine, theirs = open_on(store), open_on(store)
    mine["x"][[0, 5]] = [-2, -7]
    mine.delete([9])
    for x in range(40, 50):
        theirs.append({"key": x, "x": x, "text": "many small commits"})
        theirs.commit()
    theirs.optimize()

    mine.commit()

    x = by_key(open_on(store), "x")
    assert (x[2], x[7], x[45]) == (-2, -7, 45)
    assert 11 not in x


def test_a_branch_that_ends_while_a_commit_is_on_its_way_makes_one_of_them_fail(store):
    """Test 17, in the last moment: after the commit's pack, before its entry."""
    open_on(store).branch("fix")
    faulty = FaultyStore(store)
    late = open_on(faulty, "fix")
    late.append({"key": 40, "x": 40, "text": "late"})
    faulty.before(
        "put_if_absent", lambda: open_on(store).delete_branch("fix"), path="branches/fix/"
    )

    with pytest.raises(InvalidStateError, match="deleted"):
        late.commit()

    assert late.has_changes
    assert "fix" not in open_on(store).branches
    late.discard()
    with pytest.raises(tl.InvalidInputError):
        open_on(store).branch("fix")


def test_staged_changes_stay_on_their_branch(store):
    """Test 37: nothing offers to move them; a handle of another branch knows nothing of them."""
    mine = open_on(store)
    mine["x"][0] = -1
    other = mine.branch("other", at="main@2")

    assert not other.has_changes
    assert other["x"][0] == 2
    mine.discard()


def test_what_is_kept_after_a_conflict_across_a_fence_still_has_its_age():
    """Test 38: a rebase onto a later fence makes old packs no younger."""
    clock = Clock()
    store = MemoryStore(clock=clock)
    create_on(store, {"x": tl.Array("uint8", (1 << 20,)), "n": "int64"})
    mine = open_on(store)
    for n in range(20):  # more than the first pack holds: it is sent now
        mine.append({"x": np.full(1 << 20, n, np.uint8), "n": n})
    wait_for_storage()
    clock.now = NOON + 30 * HOUR
    put_fence(store, NOON + 6 * HOUR)

    mine.refresh(keep_staged=True)

    for _ in range(2):
        with pytest.raises(TransactionExpiredError, match="grace"):
            mine.commit()
    mine.discard()
