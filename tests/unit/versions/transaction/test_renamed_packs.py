"""Packs of which the store did not say whether they were stored: they go under another name."""

import pytest

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tensorlake.testing import Fault, FaultyStore
from tests.support.handles import create_on, open_on


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


@pytest.fixture
def dataset(store: FaultyStore) -> Dataset:
    """Three rows, of a commit each."""
    dataset = create_on(store, {"x": "int64"})
    for x in (3, 1, 2):
        dataset.append({"x": x})
        dataset.commit()
    return dataset


def values(store: FaultyStore) -> list[int]:
    return open_on(store)["x"][:].tolist()


@pytest.mark.parametrize("fault", [Fault.NOT_STORED, Fault.ANSWER_LOST])
@pytest.mark.parametrize(
    "work",
    [
        lambda ds: ds.optimize(),
        lambda ds: ds.optimize(order_by="x"),
        lambda ds: ds.merge("fix", on_conflict=lambda one: max(one.ours, one.theirs)),
    ],
    ids=["compaction", "sorting", "merge"],
)
def test_chunks_that_others_than_commits_make_are_cited_by_the_name_of_their_pack(
    store, dataset, work, fault
):
    fix = open_on(store).branch("fix")
    fix["x"][0] = 5
    fix.commit()
    dataset["x"][0] = 7
    dataset.commit()
    store.inject(fault, call="put_if_absent", path="packs/")

    work(dataset)

    assert sorted(values(store)) == [1, 2, 7]
    assert open_on(store).check().ok


@pytest.mark.parametrize("fault", [Fault.NOT_STORED, Fault.ANSWER_LOST])
def test_a_row_that_came_back_and_was_deleted_again_is_gone_when_pages_are_built_again(
    store, dataset, fault
):
    dataset["x"][1] = -1
    other = open_on(store)
    other.delete([1])
    other.commit()
    dataset.refresh(keep_staged=True, on_conflict="ours")
    assert dataset["x"][:].tolist() == [3, 2, -1]
    dataset.delete([2])
    dataset["x"][0] = -3
    store.inject(fault, call="put_if_absent", path="packs/")

    dataset.commit()

    assert values(store) == [-3, 2]
    assert open_on(store).check().ok
