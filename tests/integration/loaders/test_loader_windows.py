"""Windows of a remote dataset: each block is read once, by one rank, and held to its last use."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS, ROW_NBYTES = 1500, 24 << 10
SMALL = {"cache": 0, "prefetch": "8MiB"}
WINDOWED = {"shuffle": "window", "seed": 3, "columns": ["x", "label", "_row"]}


@pytest.fixture(scope="module")
def store():
    """1,500 rows of 24 KiB, which are 36 MB, in three commits."""
    store = CountingStore(MemoryStore())
    with create_on(
        store, {"x": tl.Array("uint8", shape=(ROW_NBYTES,)), "label": "int64"}
    ) as dataset:
        for start in range(0, ROWS, 500):
            rows = np.arange(start, start + 500)
            x = np.random.default_rng(start).integers(0, 255, (500, ROW_NBYTES), np.uint8)
            x[:, :8] = rows[:, np.newaxis].view(np.uint8)
            dataset.extend({"x": x, "label": rows})
            dataset.commit(f"rows from {start}")
    wait_for_storage()
    return store


def loader_of(store, **arguments):
    return open_on(store).loader(**{"batch_size": 20, **WINDOWED, **SMALL, **arguments})


def rows_of(batches):
    """The rows of batches, each checked to be what was written there."""
    rows = []
    for batch in batches:
        assert np.array_equal(batch["x"][:, :8].copy().view(np.int64)[:, 0], batch["_row"])
        assert np.array_equal(batch["label"], batch["_row"])
        rows += batch["_row"].tolist()
    return rows


def joined(lists):
    return [*itertools.chain.from_iterable(lists)]


def reads_of(store, loaders):
    rowset_of(open_on(store)).reader().locate("x", np.arange(ROWS))
    store.reset()
    rows = [rows_of(loader) for loader in loaders]
    # requests for rows, not for pages of the index, chunks of labels and headers
    return rows, [one for one in store.requests if "get" in one.call and one.nbytes >= ROW_NBYTES]


def test_each_block_is_read_once(store):
    loader = loader_of(store)
    blocks = -(-ROWS // loader.order.block)
    expected = loader.plan.rows_at(np.arange(ROWS))

    (rows,), reads = reads_of(store, [loader])

    assert loader.order.block == 13
    assert sorted(rows) == list(range(ROWS))
    assert rows == expected.tolist()
    located = rowset_of(open_on(store)).reader().locate("x", np.arange(ROWS))
    packs = [located.chunks[chunk].pack for chunk in located.chunk.tolist()]
    borders = sum(one != other for one, other in itertools.pairwise(packs))
    # a block that ends in another pack takes two requests, the rotation cuts one, and rows of the
    # first batch are read by themselves
    assert blocks <= len(reads) <= blocks + borders + 1 + len(next(iter(loader))["_row"])
    assert sum(one.nbytes for one in reads) <= 1.05 * ROWS * ROW_NBYTES


def test_what_a_window_holds_counts_as_prefetch(store):
    most = 0
    loader = loader_of(store, prefetch="32MiB", columns=["x"])
    for _ in loader:
        most = max(most, loader.stats().cache_nbytes)

    assert loader.order.window * loader.order.block * ROW_NBYTES <= 16 << 20  # half of it
    assert 12 << 20 < most <= 32 << 20
    assert loader.stats().cache_nbytes == 0  # the last use has dropped the last block


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_hardly_read_each_others_blocks(store, world):
    ranks = [loader_of(store, rank=rank, world_size=world) for rank in range(world)]

    rows, reads = reads_of(store, ranks)

    assert sorted(joined(rows)) == list(range(ROWS))
    assert sum(one.nbytes for one in reads) <= 1.1 * ROWS * ROW_NBYTES
    assert len(reads) <= 2 * -(-ROWS // ranks[0].order.block)


@pytest.mark.parametrize("world", [1, 3])
def test_a_pass_that_was_left_goes_on_on_any_number_of_ranks(store, world):
    loader = loader_of(store, batch_size=25)
    passed = iter(loader)
    before = rows_of(next(passed) for _ in range(17))
    state = loader.state_dict()
    passed.close()
    ranks = [loader_of(store, rank=rank, world_size=world, batch_size=10) for rank in range(world)]
    for one in ranks:
        one.load_state_dict(state)

    (after, reads) = reads_of(store, ranks)

    assert sorted(before + joined(after)) == list(range(ROWS))
    left = (ROWS - len(before)) * ROW_NBYTES
    assert sum(one.nbytes for one in reads) <= 1.1 * left  # of a block only the rows that are left


def test_the_next_epochs_have_other_blocks_and_all_rows(store):
    loader = loader_of(store)

    first, second = rows_of(loader), rows_of(loader)
    for batch in loader:  # leave the third
        assert len(batch["_row"]) == 20
        break
    fourth = rows_of(loader)

    assert len({tuple(first), tuple(second), tuple(fourth)}) == 3
    assert sorted(first) == sorted(second) == sorted(fourth) == list(range(ROWS))


def test_workers_of_a_dataloader_read_only_their_rows_of_a_block(store):
    rows = []
    for turn in range(2):  # what two workers do: batches 0, 2, 4, … and 1, 3, 5, …
        loader = loader_of(store, rank=turn, world_size=2, batch_size=30)
        rows += rows_of(loader)

    assert sorted(rows) == list(range(ROWS))


def test_a_state_of_version_1_goes_on(store):
    loader = loader_of(store)
    old = {**loader.state_dict(), "plan": 1, "order": {"kind": "window", "block": 80, "window": 2}}
    loader.load_state_dict(old)

    rows = rows_of(loader)

    assert sorted(rows) == list(range(ROWS))
    assert loader.state_dict()["plan"] == 1


def test_damaged_rows_of_a_block_are_left_out():
    inner = MemoryStore()
    with create_on(inner, {"x": tl.Array("uint8", shape=(ROW_NBYTES,)), "label": "int64"}) as made:
        x = np.random.default_rng(0).integers(0, 255, (200, ROW_NBYTES), np.uint8)
        made.extend({"x": x, "label": np.arange(200)})
        made.commit("two hundred")
        key = rowset_of(made).reader().locate("x", np.array([77])).chunks[0]
    wait_for_storage()
    blob = bytearray(run(inner.get(key.pack.path)))
    blob[blob.index(x[77].tobytes()) + 5000] ^= 255
    run(inner.put(key.pack.path, bytes(blob)))

    loader = loader_of(inner, on_error="skip")
    rows = joined(batch["_row"].tolist() for batch in loader)

    assert sorted(rows) == [row for row in range(200) if row != 77]
    with pytest.raises(tl.CorruptionError):
        list(loader_of(inner))
