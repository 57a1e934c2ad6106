"""Publishing that loses two races in a row: nothing that the winners published is lost.

The second race is lost to a commit that touches nothing else, so what the first winner did is found
only by whoever remembers *all* entries since the work began.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore
from tests.support.handles import create_on, open_on, rows_of, wait_for_storage

ROWS = 8


@pytest.fixture
def objects() -> MemoryStore:
    """Rows ``x = 0 … 7`` in one chunk, in the order 7 … 0 of ``rank``."""
    objects = MemoryStore()
    dataset = create_on(objects, {"x": "int64", "rank": "int64"})
    dataset.extend({"x": range(ROWS), "rank": range(ROWS, 0, -1)})
    dataset.commit()
    return objects


def winner(objects: MemoryStore, change: Callable[[Dataset], object]) -> Callable[[], None]:
    """Another writer, who publishes one change."""

    def publish() -> None:
        other = open_on(objects)
        change(other)
        other.commit()
        other.close()

    return publish


def overtaken(objects: MemoryStore, *changes: Callable[[Dataset], object]) -> FaultyStore:
    """A store in which each next try to publish loses its race to one of the changes."""
    store = FaultyStore(objects)
    for race, change in enumerate(changes):
        publish = winner(objects, change)
        store.before("put_if_absent", publish, path="branches/main/", skip=race)
    return store


def append(ds: Dataset) -> None:
    ds.append(dict.fromkeys(ds.schema, 100))


def test_a_commit_keeps_an_update_of_the_first_winner_in_the_chunk_that_it_replaces(objects):
    dataset = open_on(overtaken(objects, lambda ds: ds["x"].__setitem__(0, -1), append))
    dataset["x"][1] = -2

    dataset.commit()

    assert open_on(objects)["x"][:].tolist() == [-1, -2, *range(2, ROWS), 100]
    assert dataset.version == "main@4"


@pytest.mark.parametrize(
    "reorder", [lambda ds: ds.optimize(order_by="rank"), lambda ds: ds.restore("main@1")]
)
def test_a_commit_follows_its_rows_across_a_rewrite_that_won_first(objects, reorder):
    """Physical rows mean something else after it; the second winner's entry does not say so."""
    before = open_on(objects)
    before.delete([0])
    before.commit()
    dataset = open_on(overtaken(objects, reorder, append))
    dataset["x"][dataset["x"][:].tolist().index(6)] = -6

    dataset.commit()

    rows = {row["rank"]: row["x"] for row in rows_of(open_on(objects))}
    assert rows[ROWS - 6] == -6
    assert {rows[ROWS - x] for x in range(1, ROWS) if x != 6} == set(range(1, ROWS)) - {6}


def test_a_conflict_after_two_lost_races_names_both_winners(objects):
    store = overtaken(objects, append, lambda ds: ds["x"].__setitem__(3, -1))
    dataset = open_on(store)
    dataset["x"][3] = -2

    with pytest.raises(tl.ConflictError) as caught:
        dataset.commit()

    error = caught.value
    assert (error.base, error.head, error.tensor, error.rows) == ("main@1", "main@3", "x", (3,))
    assert dataset.version == "main@1"
    assert dataset["x"][3] == -2
    assert open_on(objects)["x"][3] == -1


def test_sorting_carries_over_an_update_of_the_first_winner(objects):
    dataset = open_on(overtaken(objects, lambda ds: ds["x"].__setitem__(0, -1), append))

    dataset.optimize(order_by="rank")

    newest = open_on(objects)
    assert newest["x"][:].tolist() == [*range(ROWS - 1, 0, -1), -1, 100]
    assert newest.log(1)[0].message.startswith("optimize")


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.restore("main@0"),
        lambda ds: ds.add_tensor("y", "int64", fill=1),
        lambda ds: ds.optimize(order_by="x DESC"),
    ],
)
def test_sorting_begins_again_where_it_cannot_carry_over_what_the_first_winner_did(objects, change):
    expected = MemoryStore()
    calm = create_on(expected, {"x": "int64", "rank": "int64"})
    calm.extend({"x": range(ROWS), "rank": range(ROWS, 0, -1)})
    calm.commit()
    change(calm)
    calm.commit()
    append(calm)
    calm.commit()
    calm.optimize(order_by="rank")
    dataset = open_on(overtaken(objects, change, append))

    dataset.optimize(order_by="rank")

    assert rows_of(open_on(objects)) == rows_of(open_on(expected))
    assert open_on(objects).check().ok


@pytest.mark.parametrize(
    "rewrite", [lambda ds: ds.optimize(order_by="x DESC"), lambda ds: ds.restore("main@1")]
)
def test_sorting_begins_again_where_rows_were_moved_and_updated(objects, rewrite):
    """An update is recorded by physical rows, which mean something else after a rewrite."""
    before = open_on(objects)
    before["x"][5] = 50
    before.commit()
    dataset = open_on(overtaken(objects, rewrite, lambda ds: ds["x"].__setitem__(0, -1)))

    dataset.optimize(order_by="rank")

    newest = open_on(objects)
    moved = newest.at("main@3")
    expected = {row["rank"]: row["x"] for row in rows_of(moved)} | {moved["rank"][0]: -1}
    assert [(row["rank"], row["x"]) for row in rows_of(newest)] == sorted(expected.items())


def test_sorting_begins_again_where_a_deleted_row_came_back(objects):
    late = open_on(objects)
    late["x"][4] = -40
    before = open_on(objects)
    before.delete([4])
    before.commit()
    late.refresh(keep_staged=True, on_conflict="ours")
    assert late["x"][-1] == -40
    store = FaultyStore(objects)
    store.before("put_if_absent", late.commit, path="branches/main/")

    open_on(store).optimize(order_by="rank")

    newest = open_on(objects)
    assert newest["x"][:].tolist() == [7, 6, 5, -40, 3, 2, 1, 0]
    assert newest.check().ok


def test_compaction_yields_to_a_restored_type():
    """The schema restored does not have the encoding that the moved chunks are written in."""
    objects = MemoryStore()
    before = create_on(objects, {"x": "uint8"})
    for x in range(3):
        before.append({"x": x})
        before.commit()
    before.alter_tensor("x", dtype="int32")
    before.commit()
    dataset = open_on(overtaken(objects, lambda ds: ds.restore("main@3")))

    dataset.optimize()

    newest = open_on(objects)
    assert newest["x"][:].tolist() == [0, 1, 2]
    assert newest["x"].dtype == np.uint8
    assert newest.check().ok


def test_compaction_leaves_chunks_alone_that_the_first_winner_changed(objects):
    before = open_on(objects)
    for x in range(3):
        before.append({"x": 200 + x, "rank": 0})
        before.commit()
    dataset = open_on(overtaken(objects, lambda ds: ds["x"].__setitem__([8, 9], [-8, -9]), append))

    dataset.optimize()
    wait_for_storage()

    assert open_on(objects)["x"][:].tolist() == [*range(ROWS), -8, -9, 202, 100]
    assert open_on(objects).check().ok


def test_a_merge_keeps_what_both_winners_did(objects):
    fix = open_on(objects).branch("fix")
    fix["x"][2] = -2
    fix.commit()
    before = open_on(objects)
    before["rank"][5] = 50
    before.commit()
    dataset = open_on(overtaken(objects, lambda ds: ds["x"].__setitem__(1, -1), append))

    dataset.merge("fix")

    assert open_on(objects)["x"][:].tolist() == [0, -1, -2, *range(3, ROWS), 100]


def test_a_restore_comes_after_both_winners(objects):
    winner(objects, append)()  # restoring the newest version would publish nothing
    dataset = open_on(overtaken(objects, lambda ds: ds["x"].__setitem__(1, -1), append))

    dataset.restore("main@1")

    newest = open_on(objects)
    assert newest["x"][:].tolist() == [*range(ROWS)]
    assert [one.version for one in newest.log()] == [f"main@{seq}" for seq in (5, 4, 3, 2, 1, 0)]
    assert newest.at("main@4")["x"][:].tolist() == [0, -1, *range(2, ROWS), 100, 100]
