"""The planned cache: the rows asked for, the fewest fetches that are possible, changes kept."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache as memoized
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.loader import PlannedCache
from tests.support.examples import examples

IDS = st.lists(st.integers(0, 5), min_size=0, max_size=4)
TRACES = st.lists(IDS, min_size=0, max_size=7)
TABLE = np.arange(3_000_000).reshape(-1, 3)


def fetch(ids: Any) -> Any:
    return TABLE[ids]


def written_nowhere(ids: Any, rows: Any) -> None:
    del ids, rows


def fewest(trace: list[list[int]], capacity: int) -> int:
    """Try every set of ids that a cache can keep after each batch."""

    @memoized
    def after(number: int, kept: frozenset[int]) -> int:
        if number == len(trace):
            return 0
        batch = frozenset(trace[number])
        union = sorted(kept | batch)
        most = min(capacity, len(union))
        choices = (after(number + 1, frozenset(some)) for some in combinations(union, most))
        return len(batch - kept) + min(choices)

    return after(0, frozenset())


def least_recently_used(batches: list[np.ndarray], capacity: int) -> int:
    kept: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for batch in batches:
        for one in np.unique(batch).tolist():
            misses += one not in kept
            kept[one] = None
            kept.move_to_end(one)
        while len(kept) > capacity:
            kept.popitem(last=False)
    return misses


def zipf(batches: int, size: int, *, num_ids: int, exponent: float = 1.05) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    shares = np.cumsum(1 / np.arange(1, num_ids + 1) ** exponent)
    draws = np.searchsorted(shares, rng.random((batches, size)) * shares[-1])
    return list(rng.permutation(num_ids)[draws])


@examples(150)
@given(trace=TRACES, capacity=st.integers(0, 4))
def test_no_cache_fetches_fewer_rows_of_a_known_future(trace: list[list[int]], capacity: int):
    cache = PlannedCache(capacity, trace)

    for ids in trace:
        assert np.array_equal(cache.gather(ids, fetch), TABLE[np.array(ids, int)])

    assert cache.misses == cache.fetched == fewest(trace, capacity)
    assert cache.hits + cache.misses == sum(len(set(ids)) for ids in trace)
    assert len(cache) <= capacity


@examples(80)
@given(
    trace=TRACES,
    capacity=st.integers(0, 4),
    lookahead=st.none() | st.integers(0, 3),
    others=TRACES,
    seed=st.integers(0, 99),
)
def test_rows_are_right_however_far_the_cache_sees(
    trace: Any, capacity: int, lookahead: int | None, others: Any, seed: int
):
    rng = np.random.default_rng(seed)
    cache = PlannedCache(capacity, iter(trace), lookahead=lookahead)

    for ids in [*trace, *others]:  # the others are not in the trace
        mixed = rng.permutation(np.array(ids, int))
        assert np.array_equal(cache.gather(mixed, fetch), TABLE[mixed])
    cache.follow(trace)
    for ids in trace:
        assert np.array_equal(cache.gather(ids, fetch), TABLE[np.array(ids, int)])

    assert len(cache) <= capacity
    assert cache.nbytes == len(cache) * 3 * TABLE.itemsize


@examples(80)
@given(trace=TRACES, capacity=st.integers(0, 4), seed=st.integers(0, 99))
def test_changed_rows_are_never_lost_and_read_as_they_were_put(
    trace: list[list[int]], capacity: int, seed: int
):
    rng = np.random.default_rng(seed)
    stored, model = np.zeros((6, 2)), np.zeros((6, 2))

    def evicted(ids: Any, rows: Any) -> None:
        assert len(np.unique(ids)) == len(ids)
        stored[ids] = rows

    cache = PlannedCache(capacity, iter(trace), lookahead=1, evicted=evicted)
    for ids in trace:
        assert np.array_equal(cache.gather(ids, lambda m: stored[m]), model[np.array(ids, int)])
        unique = np.unique(np.array(ids, int))
        new = rng.random((len(unique), 2))
        model[unique] = new
        cache.put(unique, new)
    cache.flush()

    assert np.array_equal(stored, model)


def test_a_known_window_fetches_less_than_the_least_recently_used():
    batches = zipf(500, 512, num_ids=26_000)
    capacity, half = 2_600, 250
    unique = np.mean([len(np.unique(batch)) for batch in batches])
    cache = PlannedCache(capacity, iter(batches), lookahead=int(np.ceil(1.4 * capacity / unique)))
    at_half = 0

    for number, batch in enumerate(batches):
        if number == half:
            at_half = cache.misses
        cache.gather(batch, fetch)

    others = least_recently_used(batches, capacity) - least_recently_used(batches[:half], capacity)
    assert others / (cache.misses - at_half) >= 1.4


def test_an_iterable_is_read_until_its_batches_have_four_distinct_ids_for_each_cached_one():
    read = 0

    def trace():
        nonlocal read
        for _ in range(100):
            read += 1
            yield np.repeat([1, 2, 3, 4], 25)

    PlannedCache(10, trace()).gather(np.repeat([1, 2, 3, 4], 25), fetch)

    assert read == 11


@pytest.mark.parametrize("sees", ["nothing", "a few batches", "everything"])
def test_epochs_in_full_order_hit_the_share_that_is_cached(sees: str):
    rng = np.random.default_rng(3)
    batches = [part for _ in range(4) for part in np.split(rng.permutation(2_000), 40)]
    lookahead = {"nothing": 0, "a few batches": 5, "everything": None}[sees]
    trace = batches if sees == "everything" else iter(batches)
    cache = PlannedCache(1_000, trace, lookahead=lookahead)

    for batch in batches:
        cache.gather(batch, fetch)

    assert cache.hits / (3 * 2_000) == pytest.approx(0.5, abs=0.01)


def test_ids_of_any_shape_give_rows_of_that_shape():
    cache = PlannedCache(4)

    assert cache.gather(np.array([[1, 2], [2, 9]]), fetch).shape == (2, 2, 3)
    assert cache.gather(7, fetch).tolist() == TABLE[7].tolist()
    assert cache.gather(np.zeros((0, 5), int), fetch).shape == (0, 5, 3)
    assert cache.gather([], fetch).shape == (0, 3)


def test_a_flat_trace_is_gathered_in_batches_of_any_size():
    cache = PlannedCache(1, np.array([1, 2, 1, 3]))

    for ids in ([1, 2], [1], [3]):
        cache.gather(ids, fetch)

    assert (cache.hits, cache.misses) == (1, 3)


def test_a_fetch_that_fails_changes_nothing():
    cache = PlannedCache(2, [[1, 2], [2, 3], [2]])
    cache.gather([1, 2], fetch)

    def fails(ids: Any) -> Any:
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError):
        cache.gather([2, 3], fails)
    assert cache.gather([2, 3], fetch).tolist() == TABLE[[2, 3]].tolist()
    assert (cache.hits, cache.misses) == (1, 3)


def test_a_failing_hook_loses_no_change():
    written: dict[int, Any] = {}
    fails = [False, True]

    def evicted(ids: Any, rows: Any) -> None:
        if fails.pop():
            raise ConnectionError("no answer")
        written.update(zip(ids.tolist(), rows.tolist(), strict=True))

    cache = PlannedCache(1, [[1], [2], [2]], evicted=evicted)
    cache.gather([1], fetch)
    cache.put([1], [[7, 7, 7]])
    with pytest.raises(ConnectionError):
        cache.gather([2], fetch)
    cache.gather([2], fetch)

    assert written == {1: [7, 7, 7]}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PlannedCache(-1), "capacity"),
        (lambda: PlannedCache(2, lookahead=-1), "lookahead"),
        (lambda: PlannedCache(2).gather([-1], fetch), "from 0 to"),
        (lambda: PlannedCache(2).gather([1 << 40], fetch), "np.unique"),
        (lambda: PlannedCache(2).gather([0.5], fetch), "float64"),
        (lambda: PlannedCache(2, [["a"]]), "integers"),
        (lambda: PlannedCache(2, [[1, 2]]).gather([1, 3], fetch), "other ids next"),
        (lambda: PlannedCache(2, [[1, 2]]).gather([1, 2, 3], fetch), "other ids next"),
        (lambda: PlannedCache(2).gather([1, 2], lambda _: TABLE[:1]), "row for each of 2 ids"),
    ],
)
def test_wrong_arguments_are_named(call: Any, words: str):
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_rows_put_are_checked():
    cache = PlannedCache(2, evicted=written_nowhere)
    with pytest.raises(InvalidStateError, match="gather some first"):
        cache.put([1], TABLE[[1]])
    cache.gather([1, 2], fetch)

    with pytest.raises(InvalidInputError, match="put once"):
        cache.put([1, 1], TABLE[[1, 1]])
    with pytest.raises(InvalidInputError, match="float64"):
        cache.put([1], TABLE[[1]] * 0.5)
    with pytest.raises(InvalidStateError, match="evicted="):
        PlannedCache(2).put([1], TABLE[[1]])
