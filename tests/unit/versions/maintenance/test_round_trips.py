"""Round trips of garbage collection: versions are marked many at once."""

from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.handles import create_on, open_on, wait_for_storage


def test_a_collection_marks_hundreds_of_versions_in_a_few_round_trips():
    store = MemoryStore()
    dataset = create_on(store, {"x": "int64"})
    for x in range(300):
        dataset.append({"x": x})
        dataset.commit()
    wait_for_storage()
    counting = CountingStore(store)

    report = open_on(counting).gc()

    assert report.versions == 301
    assert counting.round_trips <= 24
