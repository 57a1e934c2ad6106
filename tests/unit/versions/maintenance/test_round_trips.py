"""Round trips of garbage collection: versions, branches and tags are marked many at once."""

import pytest

from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage


@pytest.mark.slow
def test_a_collection_marks_hundreds_of_versions_in_a_few_round_trips():
    store = MemoryStore()
    dataset = create_on(store, {"x": "int64"})
    for x in range(600):
        dataset.append({"x": x})
        dataset.commit()
    wait_for_storage()
    counting = CountingStore(store)

    report = open_on(counting).gc()

    assert report.versions == 610  # entry 0, 600 commits, 9 compactions
    assert counting.round_trips <= 22  # 19 that do not depend on the log, and 610 / 256


@pytest.mark.parametrize("citing", ["tag", "branch"])
def test_a_collection_marks_tags_and_branches_many_at_once(citing):
    store = MemoryStore()
    dataset = create_on(store, {"x": "int64"})
    for x in range(30):
        dataset.append({"x": x})
        dataset.commit()
        getattr(dataset, citing)(f"name-{x}")
    wait_for_storage()
    counting = CountingStore(store)

    report = open_on(counting).gc()

    assert report.versions >= 31
    assert counting.round_trips <= 24
