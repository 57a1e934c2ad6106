"""Putting an object that is this writer's alone: it is durable however the store answered."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tensorlake.storage import MemoryStore, UnknownOutcomeError, run
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions.log.put_once import TRIES, put_surely

PATH = "tags/one.json"


class WatchedStore(MemoryStore):
    """Remembers what was synced, as a folder would bring it to disk."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    async def sync(self, paths: Sequence[str]) -> None:
        self.synced += paths
        await super().sync(paths)


def test_an_object_that_is_there_is_durable_before_it_counts():
    """Its writer may have been stopped after it was seen and before it was on disk."""
    store = WatchedStore()
    run(store.put_if_absent(PATH, b"first"))

    is_new = run(put_surely(store, PATH, b"second"))

    assert not is_new
    assert store.synced == [PATH]
    assert run(store.get(PATH)) == b"first"


def test_an_object_whose_answer_was_lost_is_durable_before_it_counts():
    objects = WatchedStore()
    store = FaultyStore(objects)
    store.inject(Fault.ANSWER_LOST, call="put_if_absent")

    is_answered = run(put_surely(store, PATH, b"data"))

    assert not is_answered
    assert objects.synced == [PATH]


def test_an_object_that_did_not_land_is_put_again():
    objects = WatchedStore()
    store = FaultyStore(objects)
    store.inject(Fault.NOT_STORED, call="put_if_absent", times=TRIES - 1)

    assert run(put_surely(store, PATH, b"data"))
    assert run(objects.get(PATH)) == b"data"


def test_an_object_that_never_lands_is_an_error():
    store = FaultyStore(WatchedStore())
    store.inject(Fault.NOT_STORED, call="put_if_absent", times=TRIES)

    with pytest.raises(UnknownOutcomeError):
        run(put_surely(store, PATH, b"data"))
