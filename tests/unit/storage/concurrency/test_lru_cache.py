"""The one bounded cache, held to a model: a dictionary, and a list of the keys in order of use."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.storage import LruCache

BUDGET = 10
KEYS = st.integers(0, 5)
CALLS = st.one_of(
    st.tuples(st.just("get"), KEYS, st.none()),
    st.tuples(st.just("put"), KEYS, st.integers(0, BUDGET + 2)),
    st.tuples(st.just("discard"), KEYS, st.none()),
)


class Model:
    """Values by key, the least recently used first."""

    def __init__(self) -> None:
        self.values: dict[int, tuple[int, int]] = {}

    def get(self, key: int) -> int | None:
        if key not in self.values:
            return None
        self.values[key] = self.values.pop(key)
        return self.values[key][0]

    def put(self, key: int, value: int, size: int) -> None:
        self.values.pop(key, None)
        if size <= BUDGET:
            self.values[key] = value, size
        while self.used > BUDGET:
            del self.values[next(iter(self.values))]

    def discard(self, above: int) -> None:
        self.values = {key: one for key, one in self.values.items() if key <= above}

    @property
    def used(self) -> int:
        return sum(size for _, size in self.values.values())


@given(st.lists(CALLS, max_size=60))
def test_the_cache_does_as_a_dictionary_with_an_order(calls):
    cache, model = LruCache[int, int](BUDGET), Model()

    for value, (call, key, size) in enumerate(calls):
        if call == "get":
            assert cache.get(key) == model.get(key)
        elif call == "put":
            cache.put(key, value, size)
            model.put(key, value, size)
        else:
            cache.discard(lambda one, key=key: one > key)
            model.discard(key)
        assert cache.used == model.used <= BUDGET
        assert cache.keys() == set(model.values)


def test_values_put_without_sizes_are_counted():
    cache = LruCache[str, str](2)
    for key in "abc":
        cache.put(key, key)

    assert (cache.used, cache.keys()) == (2, {"b", "c"})


def test_a_value_too_large_evicts_no_other_and_replaces_its_own():
    cache = LruCache[str, bytes](BUDGET)
    cache.put("a", b"1234", 4)
    cache.put("b", b"1234", 4)

    cache.put("b", bytes(11), 11)

    assert (cache.get("a"), cache.get("b"), cache.used) == (b"1234", None, 4)


def test_several_threads_leave_the_count_right():
    cache = LruCache[int, int](100)
    together = threading.Barrier(4)

    def work(seed: int) -> None:
        together.wait(60)
        for step in range(3_000):
            key = (seed * 7919 + step * 31) % 60
            if step % 97 == 0:
                cache.discard(lambda one, key=key: one == key)
            elif cache.get(key) is None:
                cache.put(key, step, 1 + key % 9)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))

    assert cache.used == sum(1 + key % 9 for key in cache.keys()) <= 100  # noqa: SIM118 - not a dict


class Node:
    """Something that a weak reference can refer to."""


def test_an_evicted_value_may_use_the_cache_while_it_is_freed():
    cache = LruCache[str, Node](1)
    seen: list[Node | None] = []
    first = Node()
    weakref.finalize(first, lambda: seen.append(cache.get("second")))
    second = Node()
    cache.put("first", first)
    del first

    cache.put("second", second)
    gc.collect()

    assert seen == [second]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_finds_the_lock_free():
    cache = LruCache[str, int](BUDGET)
    is_in, may_leave = threading.Event(), threading.Event()

    def matches(_: str) -> bool:
        is_in.set()
        return not may_leave.wait(60)

    cache.put("a", 1)
    holder = threading.Thread(target=cache.discard, args=(matches,))
    holder.start()
    assert is_in.wait(60)

    pid = os.fork()
    if pid == 0:
        os._exit(0 if cache.get("a") == 1 else 1)
    _, status = os.waitpid(pid, 0)
    may_leave.set()
    holder.join(60)

    assert os.waitstatus_to_exitcode(status) == 0
