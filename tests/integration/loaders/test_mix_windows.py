"""Windowed sources of a mix: each block is read once, by one rank, whatever the weights are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage

ROW_NBYTES = 24 << 10
ROWS = (900, 600)
GIVEN = {"shuffle": "window", "seed": 3, "columns": ["x", "_row", "_source"]}
SMALL = {"cache": 0, "prefetch": "24MiB"}


@pytest.fixture(scope="module")
def stores():
    """Two datasets of rows of 24 KiB, 22 and 15 MB."""
    made = []
    for source, rows in enumerate(ROWS):
        store = CountingStore(MemoryStore())
        with create_on(store, {"x": tl.Array("uint8", shape=(ROW_NBYTES,))}) as dataset:
            x = np.random.default_rng(source).integers(0, 255, (rows, ROW_NBYTES), np.uint8)
            x[:, :8] = np.arange(rows)[:, np.newaxis].view(np.uint8)
            x[:, 8] = source
            dataset.extend({"x": x})
            dataset.commit("rows")
        made.append(store)
    wait_for_storage()
    return made


def mixed(stores, weights=(0.6, 0.4), **arguments):
    names = "ab"
    return tl.mix(
        {
            name: (open_on(store), weight)
            for name, store, weight in zip(names, stores, weights, strict=True)
        },
        **{"stop": "all"} | arguments,
    )


def loader_of(stores, *, mix=None, **arguments):
    source = mixed(stores) if mix is None else mix
    return source.loader(**{"batch_size": 20, **GIVEN, **SMALL, **arguments})


def rows_of(batches):
    """The sources and rows of batches, each checked to be what was written there."""
    rows = []
    for batch in batches:
        assert np.array_equal(batch["x"][:, :8].copy().view(np.int64)[:, 0], batch["_row"])
        assert np.array_equal(batch["x"][:, 8], batch["_source"])
        rows += zip(batch["_source"].tolist(), batch["_row"].tolist(), strict=True)
    return rows


def expected_of(loader, start=0):
    plan = loader.plan
    places = np.arange(start, len(plan))
    source = plan.selection.source_of(plan.plan.at(places))
    return [*zip(source.tolist(), plan.rows_at(places).tolist(), strict=True)]


def joined(lists):
    return [*itertools.chain.from_iterable(lists)]


def reads_of(stores, loaders):
    for store, rows in zip(stores, ROWS, strict=True):
        rowset_of(open_on(store)).reader().locate("x", np.arange(rows))
        store.reset()
    rows = [rows_of(loader) for loader in loaders]
    reads = [one for store in stores for one in store.requests if "get" in one.call]
    return rows, [one for one in reads if one.nbytes >= ROW_NBYTES]


def blocks_of(loader):
    return sum(
        -(-rows // one.order.block) for rows, one in zip(ROWS, loader.order.sources, strict=True)
    )


def test_each_block_of_each_source_is_read_once(stores):
    loader = loader_of(stores)
    expected = expected_of(loader)

    (rows,), reads = reads_of(stores, [loader])

    assert rows == expected
    assert [one.order.block for one in loader.order.sources] == [13, 13]
    assert len(reads) <= 1.4 * blocks_of(loader)
    assert sum(one.nbytes for one in reads) <= 1.05 * len(rows) * ROW_NBYTES


def test_windows_of_all_sources_are_within_prefetch(stores):
    loader, most = loader_of(stores, prefetch="32MiB"), 0
    for _ in loader:
        most = max(most, loader.stats().cache_nbytes)

    held = [one.order.window * one.order.block * ROW_NBYTES for one in loader.order.sources]
    assert sum(held) <= 16 << 20  # half of it
    assert held[0] > held[1]
    assert most <= 34 << 20  # two groups of batches are always allowed
    assert loader.stats().cache_nbytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_hardly_read_each_others_blocks(stores, world):
    ranks = [loader_of(stores, rank=rank, world_size=world) for rank in range(world)]
    expected = expected_of(ranks[0])

    rows, reads = reads_of(stores, ranks)

    assert sorted(joined(rows)) == sorted(expected)
    # windows are small here, and a batch has more rows of a block than a rank's part
    assert sum(one.nbytes for one in reads) <= 1.2 * len(expected) * ROW_NBYTES
    assert len(reads) <= 2.6 * blocks_of(ranks[0])


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("kinds", [("window", "window"), ("full", "window")])
def test_a_pass_that_was_left_goes_on_on_any_number_of_ranks(stores, world, kinds):
    loader = loader_of(stores, shuffle=True)
    windowed = loader_of(stores).state_dict()["order"]["sources"]
    state = loader.state_dict()
    for number, kind in enumerate(kinds):  # no small dataset is windowed by itself
        if kind == "window":
            state["order"]["sources"][number] = windowed[number]
    loader.load_state_dict(state)
    expected = expected_of(loader)
    passed = iter(loader)
    before = rows_of(next(passed) for _ in range(17))
    state = loader.state_dict()
    passed.close()
    ranks = [
        loader_of(stores, rank=rank, world_size=world, batch_size=10, shuffle=True)
        for rank in range(world)
    ]
    for one in ranks:
        one.load_state_dict(state)

    after, _ = reads_of(stores, ranks)

    assert before == expected[: len(before)]
    assert sorted(joined(after)) == sorted(expected[len(before) :])


@pytest.mark.slow
def test_a_stage_may_pause_a_source_and_epochs_follow_each_other(stores):
    a, b = map(open_on, stores)
    late = tl.mix({"b": (b, 1)})
    staged = tl.mix({"a": (a, 0.5), "b": (b, 0.5)}, stages=[(300, late)], stop="never")

    rows = rows_of(
        batch for _, batch in zip(range(100), loader_of(stores, mix=staged), strict=False)
    )

    counts = np.bincount([source for source, _ in rows])
    assert np.abs(counts - [150, 1850]).max() <= 2
    own = [row for source, row in rows if source == 1]
    for start in range(0, len(own) - ROWS[1], ROWS[1]):
        assert sorted(own[start : start + ROWS[1]]) == list(range(ROWS[1]))


@pytest.mark.slow
def test_places_that_were_not_known_in_time_are_read_with_a_second_request(stores, monkeypatch):
    monkeypatch.setattr("tensorlake.loader.sources.windows.MOST_AHEAD", 64)
    loader = loader_of(stores)
    expected = expected_of(loader)

    (rows,), reads = reads_of(stores, [loader])

    assert rows == expected
    assert blocks_of(loader) < len(reads) < len(rows)
    assert loader.stats().cache_nbytes == 0
