"""Passes over what is in memory: no thread, the same batches; a pipeline where one is needed."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.loader import SelectedRows, make_loader
from tests.unit.loader.conftest import PLAIN, ROWS, loader_threads, rows_of, threads_left

HOW = {"columns": PLAIN, "batch_size": 7, "shuffle": True, "seed": 3}


def warm(dataset, **how):
    """Return a loader whose chunks are all in memory."""
    loader = dataset.loader(**{**HOW, **how})
    assert len(np.concatenate([batch["_row"] for batch in loader])) == ROWS
    assert threads_left() == []
    return loader


def test_what_is_in_memory_is_streamed_without_a_thread(pets):
    running = [loader_threads() for _ in warm(pets)]

    assert running == [[]] * 9


def test_batches_are_the_same_from_memory_and_from_the_pipeline(pets):
    in_memory = warm(pets)
    in_memory.set_epoch(5)
    fresh = pets.loader(**HOW)
    fresh.set_epoch(5)

    for left, right in zip(in_memory, fresh, strict=True):
        assert left.keys() == right.keys()
        assert all(np.array_equal(left[name], right[name]) for name in left)


def test_ranks_share_what_is_in_memory(pets):
    ranks = [pets.loader(**HOW, rank=rank, world_size=2) for rank in range(2)]
    for loader in ranks:
        list(loader)

    rows = [row for loader in ranks for batch in rows_of(loader) for row in batch]

    assert sorted(rows) == list(range(ROWS))


def test_a_state_of_a_pass_from_memory_is_gone_on_from(pets):
    loader = warm(pets)
    iterator = iter(loader)
    done = [next(iterator)["_row"].tolist() for _ in range(4)]
    state = loader.state_dict()
    rest = [batch["_row"].tolist() for batch in iterator]

    resumed = warm(pets)
    resumed.load_state_dict(state)

    assert rows_of(resumed) == rest
    assert sorted(chain(*done, *rest)) == list(range(ROWS))


def test_chunks_that_are_missing_are_loaded_by_a_pipeline(tmp_path):
    with tl.create(str(tmp_path / "two"), {"x": tl.Array("int64", shape=(4,))}) as dataset:
        for start in (0, 100):
            dataset.extend({"x": np.arange(start, start + 100)[:, None].repeat(4, axis=1)})
            dataset.commit(f"rows from {start}")
        loader = dataset.loader(batch_size=1, shuffle=False, prefetch=1)
        next(iter(loader))  # a few rows ahead are planned: all of the first commit
        assert threads_left() == []
        iterator = iter(loader)

        rows = [int(next(iterator)["x"][0, 0]) for _ in range(10)]
        without = loader_threads()
        rows += [int(next(iterator)["x"][0, 0]) for _ in range(150)]
        with_pipeline = loader_threads()
        rows += [int(batch["x"][0, 0]) for batch in iterator]

    assert rows == list(range(200))
    assert without == []
    assert with_pipeline
    assert threads_left() == []


def test_a_tier_that_does_not_hold_everything_has_a_pipeline(pets):
    loader = warm(pets, cache=0)

    running = [bool(loader_threads()) for _ in loader]

    assert running == [True] * 9


def test_chunks_found_in_memory_count_as_hits(pets):
    loader = warm(pets)
    before = loader.stats()

    list(loader)

    done = loader.stats() - before
    assert done.cache_misses == 0
    assert done.cache_hits > 0
    assert done.rows == ROWS


def test_columns_without_chunks_need_no_thread(pets):
    loader = pets.loader(columns=["_row"], batch_size=16)

    assert [loader_threads() for _ in loader] == [[]] * 4


def test_a_null_where_none_may_be_is_refused_from_memory_too(pets):
    loader = pets.select(twice="score * 2").loader(batch_size=4)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="'twice' is NULL"):
            list(loader)


def test_a_closed_pass_from_memory_is_no_end(pets):
    loader = warm(pets)
    iterator = iter(loader)
    next(iterator)

    loader.close()

    with pytest.raises(InvalidStateError, match="closed before the end"):
        next(iterator)


def test_closing_from_another_thread_waits_for_what_is_being_made(pets):
    is_slow, asked, go_on = threading.Event(), threading.Event(), threading.Event()

    class SlowReader:
        def through(self, near, hedge):
            return self

        def __getattr__(self, name):
            return getattr(rowset_of(pets).reader(), name)

        def locate(self, tensor, physical):
            if is_slow.is_set():
                asked.set()
                assert go_on.wait(60)
            return rowset_of(pets).reader().locate(tensor, physical)

    rows = SelectedRows(rowset_of(pets).selection, SlowReader())
    loader = make_loader(rows, "numpy", batch_size=8, columns=["tokens"])
    list(loader)
    is_slow.set()
    with ThreadPoolExecutor(2) as threads:
        batch = threads.submit(next, iter(loader))
        assert asked.wait(60)
        closing = threads.submit(loader.close)
        assert not closing.done()  # the memory it gives back is being read
        go_on.set()

        assert len(batch.result(60)["tokens"]) == 8
        closing.result(60)


def test_a_pass_from_memory_that_is_forgotten_leaves_the_loader_usable(pets):
    loader = warm(pets)
    iterator = iter(loader)
    next(iterator)
    del iterator
    gc.collect()

    assert sorted(chain(*rows_of(loader))) == list(range(ROWS))
