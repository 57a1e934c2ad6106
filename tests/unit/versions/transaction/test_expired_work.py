"""Work that a collector's fence overtook: what it staged or pinned may be gone, so it fails."""

import datetime as dt
from collections.abc import Callable

import pytest

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import TransactionExpiredError
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore
from tests.support.garbage import Clock
from tests.support.handles import create_on, open_on
from tests.unit.versions.log.test_fences import put_fence

HOUR = dt.timedelta(hours=1)
ENTRY = "branches/main/"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def objects(clock: Clock) -> MemoryStore:
    """Three rows, of a commit each; a branch of them gave the first another value, as main did."""
    objects = MemoryStore(clock=clock)
    main = create_on(objects, {"x": "int64"})
    for x in (3, 1, 2):
        main.append({"x": x})
        main.commit()
    fix = main.branch("fix")
    for dataset in (main, fix):
        dataset["x"][0] = 7 if dataset is main else 5
        dataset.commit()
    return objects


def check_expired(objects: MemoryStore, store: FaultyStore, work: Callable[[Dataset], object]):
    with pytest.raises(TransactionExpiredError):
        work(open_on(store))

    newest = open_on(objects)
    assert newest["x"][:].tolist() == [7, 1, 2]
    assert newest.version == "main@4"


@pytest.mark.parametrize(
    "work",
    [lambda ds: ds.optimize(), lambda ds: ds.optimize(order_by="x")],
    ids=["compaction", "sorting"],
)
def test_chunks_no_newer_than_a_fence_that_came_meanwhile_are_not_cited(objects, clock, work):
    store = FaultyStore(objects)
    store.before("put_if_absent", lambda: put_fence(objects, clock.now), path=ENTRY)

    check_expired(objects, store, work)


@pytest.mark.parametrize(
    "work",
    [
        lambda ds: ds.merge("fix", on_conflict=lambda one: one.ours + one.theirs),
        lambda ds: ds.restore("main@3"),
    ],
    ids=["merge", "restore"],
)
def test_a_version_pinned_before_a_fence_that_came_meanwhile_is_not_cited(objects, clock, work):
    """Packs are newer than the fence, but the collector did not heed the pin."""
    fence = clock.now + HOUR

    def pass_time() -> None:
        clock.now = fence + HOUR

    store = FaultyStore(objects)
    store.before("put_if_absent", pass_time, path="packs/")
    store.before("put_if_absent", lambda: put_fence(objects, fence), path=ENTRY)

    check_expired(objects, store, work)
