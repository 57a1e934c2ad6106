"""Rows that one transaction stores and another publishes."""

import datetime as dt
import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import Dataset, extend_rows, session_of
from tensorlake.errors import TransactionExpiredError
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore
from tensorlake.versions import StoredRows
from tests.support.garbage import Clock
from tests.support.handles import create_on, open_on
from tests.unit.versions.log.test_fences import put_fence

HOUR = dt.timedelta(hours=1)
ENTRY = "branches/main/"
SCHEMA = {"x": "int64", "part": tl.Array("float32", (None,)), "text": tl.Text(nullable=True)}


def rows_of(first: int, count: int) -> dict[str, list[object]]:
    numbers = range(first, first + count)
    return {
        "x": [*numbers],
        "part": [np.full(n % 5, n, np.float32) for n in numbers],
        "text": [None if n % 3 else f"row {n}" for n in numbers],
    }


def stored(dataset: Dataset, rows: dict[str, list[object]]) -> StoredRows:
    """Store rows as another process does, and send their addresses."""
    session = session_of(dataset)
    extend_rows(session, rows)
    made = session.staging().store()
    dataset.discard()
    return pickle.loads(pickle.dumps(made))


def adopt(dataset: Dataset, rows: StoredRows) -> None:
    session_of(dataset).staging().adopt(rows)


def test_rows_of_several_processes_and_ones_own_are_one_commit_in_their_order(tmp_path):
    with tl.create(str(tmp_path / "rows.tl"), SCHEMA) as ds, tl.open(ds.url) as other:
        parts = [stored(other, rows_of(first, 40)) for first in (0, 40)]
        adopt(ds, parts[0])
        ds.extend(rows_of(100, 3))
        adopt(ds, parts[1])
        assert ds["x"][-1] == 79
        ds.commit("all")

    with tl.open(ds.url) as ds:
        wanted = {
            name: [*rows_of(0, 40)[name], *rows_of(100, 3)[name], *rows_of(40, 40)[name]]
            for name in SCHEMA
        }
        assert ds["x"][:].tolist() == wanted["x"]
        assert ds["text"].to_list() == wanted["text"]
        assert all(map(np.array_equal, ds["part"][:], wanted["part"]))
        assert len(ds.log()) == 2
        assert ds.check().ok
        assert ds.query("WHERE x = 79")["text"].to_list() == [None]


def test_rows_are_adopted_where_another_commit_came_meanwhile(tmp_path):
    with tl.create(str(tmp_path / "rows.tl"), SCHEMA) as ds, tl.open(ds.url) as other:
        rows = stored(other, rows_of(0, 9))
        adopt(ds, rows)
        with tl.open(ds.url) as third:
            third.extend(rows_of(50, 2))
            third.commit("meanwhile")
        ds.commit("late")

        assert ds["x"][:].tolist() == [50, 51, *range(9)]
        assert ds.check().ok


def test_a_tensor_that_the_rows_do_not_have_has_its_fill(tmp_path):
    with tl.create(str(tmp_path / "rows.tl"), SCHEMA) as ds, tl.open(ds.url) as other:
        rows = stored(other, rows_of(0, 4))
        ds.add_tensor("added", tl.Scalar("int16", nullable=True))
        adopt(ds, rows)
        ds.commit("rows")

        assert ds["added"].to_list() == [None] * 4


def test_rows_stored_before_a_fence_are_not_adopted_and_nothing_is_staged():
    clock = Clock()
    objects = MemoryStore(clock=clock)
    create_on(objects, SCHEMA)
    rows = stored(open_on(objects), rows_of(0, 4))
    put_fence(objects, clock.now + HOUR)
    ds = open_on(objects)

    with pytest.raises(TransactionExpiredError, match="stored longer ago"):
        adopt(ds, rows)

    assert (len(ds), ds.has_changes) == (0, False)


def test_adopted_rows_that_a_fence_overtook_are_not_published():
    clock = Clock()
    objects = MemoryStore(clock=clock)
    create_on(objects, SCHEMA)
    rows = stored(open_on(objects), rows_of(0, 4))
    fence = clock.now + HOUR

    def pass_time() -> None:
        clock.now = fence + HOUR

    store = FaultyStore(objects)
    store.before("put_if_absent", pass_time, path="packs/")
    store.before("put_if_absent", lambda: put_fence(objects, fence), path=ENTRY)
    ds = open_on(store)
    adopt(ds, rows)
    ds.extend(rows_of(9, 1))  # its pack is younger than the fence: the rows adopted are not

    with pytest.raises(TransactionExpiredError):
        ds.commit("late")

    assert len(open_on(objects)) == 0
