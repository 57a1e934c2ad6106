"""Next uses in the memory tier: what comes back stays, in as much memory, with fewer requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.loader.caches.future import UNKNOWN
from tensorlake.loader.caches.next_uses import NextUses
from tensorlake.loader.sources.chunk_cache import ChunkCache, loaded_chunk
from tensorlake.loader.sources.windows import row_key
from tensorlake.reading import ChunkCache as DecodedChunks
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore
from tensorlake.types import UniformColumn
from tensorlake.versions import resolve
from tests.support.examples import examples
from tests.support.handles import create_on

CHUNK_NBYTES = 800
ROW_NBYTES = 1 << 16
ROWS = 256


@dataclass
class Used:
    used: Any


@dataclass
class Group:
    tensors: dict[str, Used]
    places: Any
    next_uses: dict[str, Any] = field(default_factory=dict)


def groups_of(*traces):
    """Make groups that use chunks of "x", and of "y" if there are two traces."""
    names = ("x", "y")[: len(traces)]
    return [
        Group({name: Used(np.unique(one)) for name, one in zip(names, uses, strict=True)}, uses[0])
        for uses in zip(*traces, strict=True)
    ]


def chunk():
    return loaded_chunk(UniformColumn(np.zeros(100)), b"")


def row_cache(capacity, *, spare=0):
    nbytes = capacity * CHUNK_NBYTES, spare * CHUNK_NBYTES
    cache = ChunkCache(("x",), capacity=nbytes[0], spare=nbytes[1])
    cache.begin_pass(is_planned=True)
    return cache


def rows_in(cache, physical):
    return cache.rows("x", np.array(physical), lambda row: row_key(row, nbytes=CHUNK_NBYTES))


def pass_over(cache, trace):
    """Pass over rows read alone, a segment a batch; return the number of loads."""

    def segments():
        for batch in trace:
            numbers = rows_in(cache, batch)
            yield [Group({"x": Used(np.unique(numbers))}, numbers)]

    ahead = NextUses(cache, ("x",), may_look=lambda: True)
    misses = 0
    for group in ahead.groups(segments()):
        used = group.tensors["x"].used
        missing = cache.pin("x", used, group.next_uses["x"])
        assert all(cache.tensors["x"].is_row[used])
        for number in missing:
            cache.add("x", number, chunk())
        misses += len(missing)
        assert cache.nbytes <= max(cache.capacity + cache.spare, len(used) * CHUNK_NBYTES)
        cache.unpin("x", used)
        assert cache.nbytes <= cache.capacity + cache.spare
    return misses


def fewest(trace, capacity):
    """Count the loads of a cache that drops what is used latest, by looking it up each time."""
    kept, misses = set(), 0
    for at, batch in enumerate(trace):
        misses += len(set(batch) - kept)

        def next_use(one, at=at):
            later = (n for n in range(at + 1, len(trace)) if one in trace[n])
            return next(later, len(trace))

        kept = set(sorted(kept | set(batch), key=next_use)[:capacity])
    return misses


def test_each_group_has_the_place_of_the_next_use_of_its_chunks():
    groups = groups_of([[1, 2], [3], [2]], [[0], [0, 1], [1]])
    cache = ChunkCache(("x", "y"), capacity=1 << 20, spare=0)
    for name in ("x", "y"):
        cache.ordinals(name, np.arange(4), [f"{name} {number}" for number in range(4)])
    cache.begin_pass(is_planned=True)

    given_out = list(NextUses(cache, ("x", "y"), may_look=lambda: True).groups([groups]))

    assert given_out == groups
    x, y = groups[0].next_uses["x"], groups[0].next_uses["y"]
    assert (x.tolist(), y.tolist()) == ([UNKNOWN, 6], [4])
    assert groups[2].next_uses["x"].tolist() == [UNKNOWN]


def test_no_more_than_a_segment_is_planned_for_each_group_that_is_handed_out():
    planned = []

    def segments():
        for number in range(100):
            planned.append(number)
            yield groups_of([[number, number + 1]])

    cache = ChunkCache(("x",), capacity=1 << 20, spare=0)
    cache.ordinals("x", np.arange(200), [f"key {number}" for number in range(200)])
    cache.begin_pass(is_planned=True)
    cache.add("x", 0, chunk())  # its size is then known
    is_first_made = False
    groups = NextUses(cache, ("x",), may_look=lambda: is_first_made).groups(segments())

    next(groups)
    next(groups)
    assert len(planned) == 2
    is_first_made = True
    next(groups)
    assert len(planned) == 4  # one more than are handed out, then two
    next(groups)
    assert len(planned) == 5
    assert len(list(groups)) == 96


@examples(30)
@given(
    trace=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=3), min_size=1, max_size=9),
    capacity=st.integers(1, 5),
)
def test_rows_that_are_used_soonest_stay_in_memory(trace: list[list[int]], capacity: int):
    cache = row_cache(capacity)
    for _ in range(2):
        pass_over(cache, trace)
        cache.end_pass()
        assert cache.nbytes <= capacity * CHUNK_NBYTES
        chunks = cache.tensors["x"]
        assert len(chunks.ordinals) == chunks.is_loaded.sum()
        assert len(chunks.ordinals) + len(chunks.free) == len(chunks.keys)
        cache.begin_pass(is_planned=True)


def test_a_trace_that_is_known_needs_as_few_loads_as_any():
    rng = np.random.default_rng(5)
    trace = [(rng.zipf(1.3, 6) % 40).tolist() for _ in range(120)]
    cache = row_cache(10, spare=6)  # a batch of its own

    assert pass_over(cache, trace) <= fewest(trace, 10)


def test_a_planned_row_keeps_its_ordinal_until_it_is_used():
    cache = row_cache(1)
    first, second = rows_in(cache, [5]), rows_in(cache, [6])
    for numbers in (first, second):
        for number in cache.pin("x", numbers, np.array([UNKNOWN])):
            cache.add("x", number, chunk())
        assert rows_in(cache, [5]).tolist() == first.tolist()  # planned again, while in memory
        cache.unpin("x", numbers)

    assert not cache.is_loaded("x", int(first[0]))
    assert rows_in(cache, [7]).tolist() != first.tolist()
    assert rows_in(cache, [5]).tolist() == first.tolist()


def test_orders_that_change_between_passes_keep_the_memory_within_its_bounds():
    cache = ChunkCache(("x",), capacity=3 * CHUNK_NBYTES, spare=0)
    cache.ordinals("x", np.arange(6), [f"key {number}" for number in range(6)])

    for is_planned in (False, True, False, True):
        cache.begin_pass(is_planned=is_planned)
        for number in range(6):
            used = np.array([number])
            for missing in cache.pin("x", used, np.array([UNKNOWN]) if is_planned else None):
                cache.add("x", missing, chunk())
            cache.unpin("x", used)
            assert cache.nbytes <= 3 * CHUNK_NBYTES
        cache.end_pass()
        assert int(cache.tensors["x"].is_loaded.sum()) * CHUNK_NBYTES == cache.nbytes


@pytest.fixture(scope="module")
def weighted():
    """Rows of 64 KiB on a store, with weights 1/rank."""
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"x": tl.Array("uint8", (ROW_NBYTES,)), "w": "float32"})
    with dataset:
        values = np.repeat((np.arange(ROWS) % 251).astype(np.uint8)[:, None], ROW_NBYTES, axis=1)
        order = np.random.default_rng(0).permutation(ROWS)
        dataset.extend({"x": values, "w": (1 / (1 + order)).astype(np.float32)})
        dataset.commit("rows")
    return store


def requests_of(store, **how):
    """Count the requests and rows of two epochs."""
    session = Session(store, runtime.run(resolve(store, None)), chunks=DecodedChunks(1))
    rows = Counter()
    with Dataset(session) as dataset:
        settings = {"columns": ["x", "_row"], "batch_size": 8, "seed": 1, "shuffle": "full"}
        with dataset.loader(**settings, prefetch="8MB", **how) as loader:
            store.reset()
            for _ in range(2):
                for batch in loader:
                    assert np.array_equal(batch["x"][:, -1], batch["_row"] % 251)
                    rows.update(batch["_row"].tolist())
                    assert loader.stats().cache_nbytes <= loader.stats().cache_capacity + (8 << 20)
            return store.bytes_read, rows, loader.stats()


def test_a_weighted_order_reads_rows_that_come_back_from_memory(weighted):
    few, rows, stats = requests_of(weighted, weights="w", cache=ROWS * ROW_NBYTES // 4)
    none, same, _ = requests_of(weighted, weights="w", cache=0)

    assert rows == same
    assert stats.cache_hits > 0.2 * (stats.cache_hits + stats.cache_misses)  # by time: .29 to .36
    assert few < 0.9 * none  # which keeps what the prefetch has room for


def test_an_order_that_gives_each_row_once_keeps_nothing_new(weighted):
    _, rows, stats = requests_of(weighted, cache=ROWS * ROW_NBYTES // 4)

    assert set(rows.values()) == {2}
    assert (stats.cache_hits, stats.cache_nbytes) == (0, 0)


def test_a_pass_that_is_left_leaves_no_row_planned(weighted):
    session = Session(weighted, runtime.run(resolve(weighted, None)), chunks=DecodedChunks(1))
    with (
        Dataset(session) as dataset,
        dataset.loader(
            columns=["x"], batch_size=8, weights="w", shuffle="full", cache=ROW_NBYTES * 64
        ) as loader,
    ):
        for _ in range(3):
            for _ in loader:
                break
        assert sum(len(batch["x"]) for batch in loader) == ROWS
