"""The counting store: conformance, and what it counts."""

import asyncio

import pytest

from tensorlake.storage import MemoryStore, Store, run
from tensorlake.testing import CountingStore, StoreConformance


class TestCountingStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return CountingStore(MemoryStore())


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


def test_every_request_is_counted_with_its_bytes(store):
    async def work() -> None:
        await store.put_if_absent("packs/a", [b"0123456789", b"0123456789"])
        await store.put("HEAD", b"0123")
        await store.get("packs/a")
        await store.get("absent")
        await store.get_range("packs/a", 2, 5)
        await store.head("HEAD")
        assert [meta async for meta in store.list("")]
        await store.delete("HEAD")

    run(work())

    calls = " ".join(request.call for request in store.requests)
    assert calls == "put_if_absent put get get get_range head list delete"
    assert store.bytes_written == 24
    assert store.bytes_read == 23
    assert store.count("get") == 2
    assert store.count(path="packs/") == 3
    assert store.count() == 8


def test_failed_requests_count_too(store):
    run(store.put_if_absent("a", b"1"))

    with pytest.raises(OSError):
        run(store.put_if_absent("a", b"1"))

    assert store.count("put_if_absent") == 2
    assert store.round_trips == 2


def test_requests_at_once_are_one_round_trip(store):
    async def two_by_two() -> None:
        await asyncio.gather(store.get("descriptor"), store.get("HEAD"))
        await asyncio.gather(store.get("entry 1"), store.get("entry 2"))

    run(two_by_two())

    assert store.count("get") == 4
    assert store.round_trips == 2
    assert store.max_in_flight == 2


def test_requests_one_after_another_are_round_trips_each(store):
    async def chain() -> None:
        for number in range(5):
            await store.get(f"{number}")

    run(chain())

    assert store.round_trips == 5


def test_ranges_count_as_the_requests_an_object_store_would_make(store):
    run(store.put_if_absent("pack", bytes(1 << 20)))
    store.reset()

    run(store.get_ranges("pack", [(0, 10), (20, 30), (900_000, 900_010)]))

    assert store.count("get_range") == 2
    assert store.bytes_read == 40
    assert store.round_trips == 1


def test_reset_forgets(store):
    run(store.get("a"))

    store.reset()

    assert (store.count(), store.round_trips, store.max_in_flight) == (0, 0, 0)


def test_clone_counts_into_the_same_log(store):
    run(store.clone().get("a"))

    assert store.count("get") == 1
