"""Packs on their way to the store while others are filled, and failures there."""

import asyncio
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import StorageError
from tensorlake.storage import MemoryStore, run
from tensorlake.storage.concurrency.runtime import submit
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions.packs.writer import PACK_NBYTES, UPLOADS_IN_FLIGHT, PackStage
from tests.support.handles import create_on, open_on
from tests.support.staged import packs_in, with_staged_row

WAIT_S = 60.0


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


@pytest.fixture
def dataset(store: FaultyStore) -> Dataset:
    return with_staged_row(store)


def test_a_stage_is_not_finished_while_a_pack_is_on_its_way(store, monkeypatch):
    """Not even where all that is left to send is a single pack, which could be sent at once."""
    monkeypatch.setattr("tensorlake.versions.packs.writer.FIRST_PACK_NBYTES", 1 << 20)
    monkeypatch.setattr("tensorlake.versions.packs.writer.PACK_NBYTES", 1 << 20)
    arrived, may_go_on = threading.Event(), threading.Event()
    store.before("put_if_absent", lambda: (arrived.set(), may_go_on.wait(WAIT_S)), path="-0.tlp")
    store.inject(Fault.REFUSED, call="put_if_absent", path="-0.tlp")
    stage = PackStage(store)

    async def build() -> None:
        stage.add(bytes(1 << 20), rows=1, entries=1, height=0)
        stage.add(b"the last page", rows=1, entries=1, height=0)

    async def others_go_on() -> None:
        for _ in range(200):  # turns of the loop: to send a pack takes a few
            await asyncio.sleep(0)

    run(build())
    assert arrived.wait(WAIT_S)
    finishing = submit(stage.finish())
    run(others_go_on())
    is_finished, stored = finishing.done(), run(packs_in(store))
    may_go_on.set()

    with pytest.raises(StorageError):
        finishing.result(WAIT_S)
    assert not is_finished
    assert stored == []  # the first pack is the oldest, whose age counts for all


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_storage_failure_while_chunks_are_sent_leaves_the_rows_whole(store, order):
    """A pack fills in the middle of append(): the row is staged in all tensors or in none."""
    schema = {"a": tl.Array("uint8", shape=(1 << 20,)), "b": "int64"}
    dataset = create_on(store, {name: schema[name] for name in order})
    store.inject(Fault.REFUSED, call="put_if_absent", path="packs/", times=1)
    staged: list[int] = []
    for b in range(200):
        try:
            dataset.append({"a": np.full(1 << 20, b, np.uint8), "b": b})
        except StorageError:
            continue
        staged.append(b)

    assert len(staged) == 199
    assert len(dataset) == 199
    assert dataset.commit().num_rows == 199
    read = open_on(store)
    assert read["b"][:].tolist() == staged
    assert [int(read["a"][row, 0]) for row in (0, 62, 63, 64, 198)] == [
        staged[row] for row in (0, 62, 63, 64, 198)
    ]


def test_index_pages_that_fill_a_pack_do_not_wait_on_the_loop_that_sends_it(store):
    """Trees are built on the storage loop: waiting there for an upload would wait for ever."""
    stage = PackStage(store)
    page = bytes(PACK_NBYTES)

    async def build() -> None:
        for _ in range(UPLOADS_IN_FLIGHT + 2):
            stage.add(page, rows=1, entries=1, height=0)
        await stage.settled()

    run(build(), timeout_s=60)

    assert stage.pack_count == UPLOADS_IN_FLIGHT + 2


def test_chunks_made_by_a_commit_do_not_wait_on_the_loop_that_sends_their_packs(monkeypatch):
    """What waits becomes chunks in the caller's thread, however few packs may be on their way."""
    monkeypatch.setattr("tensorlake.versions.packs.writer.PACK_NBYTES", 1)
    monkeypatch.setattr("tensorlake.versions.packs.writer.UPLOADS_IN_FLIGHT", 0)
    ds = tl.create("memory://stage-few-uploads", {"x": "int64", "text": "str"})
    ds.extend({"x": [1, 2], "text": ["a", "b"]})
    commit = threading.Thread(target=ds.commit, daemon=True)

    commit.start()
    commit.join(timeout=60)

    assert not commit.is_alive()
    assert tl.open("memory://stage-few-uploads")["x"][:].tolist() == [1, 2]
