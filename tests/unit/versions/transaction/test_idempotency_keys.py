"""Idempotency keys: a commit that carried one answers later commits with the same key."""

import pytest

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore, FaultyStore
from tests.support.handles import open_on, wait_for_storage
from tests.support.staged import add_row, values, with_staged_row

WAIT_S = 60.0


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


@pytest.fixture
def dataset(store: FaultyStore) -> Dataset:
    return with_staged_row(store)


def test_a_key_is_answered_by_the_first_commit_that_carried_it(store, dataset):
    first = dataset.commit("second", key="batch-1")
    dataset.append({"x": 1})

    again = dataset.commit("second", key="batch-1")

    assert again.version == first.version
    assert values(store) == [0, 1]
    assert not dataset.has_changes


def test_a_key_is_found_by_a_handle_that_was_opened_before_it(store, dataset):
    late = open_on(store)
    late.append({"x": 1})
    dataset.commit("second", key="batch-1")

    commit = late.commit("second", key="batch-1")

    assert commit.version == "main@2"
    assert values(store) == [0, 1]
    assert late["x"][:].tolist() == [0, 1]


def test_a_key_is_found_behind_many_commits(store, dataset):
    first = dataset.commit("second", key="batch-1")
    for x in range(2, 80):
        dataset.append({"x": x})
        dataset.commit()
    dataset.append({"x": 1})

    assert dataset.commit("again", key="batch-1").version == first.version
    assert len(open_on(store)) == 80


def test_a_known_key_is_answered_when_nothing_is_staged(store, dataset):
    late = open_on(store)
    first = dataset.commit("second", key="batch-1")
    add_row(store, 5)

    for handle in (dataset, late, open_on(store)):
        assert handle.commit("again", key="batch-1").version == first.version
        assert not handle.has_changes
    assert open_on(store).commit("nothing", key="other").version == "main@3"
    assert values(store) == [0, 1, 5]


def test_a_key_costs_nothing_but_new_entries_once_the_log_was_read(store, dataset):
    for x in range(1, 70):
        dataset.append({"x": x})
        dataset.commit(key=f"k{x}")
    counting = CountingStore(store)
    handle = open_on(counting)
    handle.append({"x": 100})
    handle.commit(key="k100")
    wait_for_storage()
    before = len(counting.requests)

    handle.append({"x": 101})
    handle.commit(key="k101")
    wait_for_storage()

    assert [one.call for one in counting.requests[before:]] == [
        "put_if_absent",
        "put_if_absent",
        "put",
    ]
