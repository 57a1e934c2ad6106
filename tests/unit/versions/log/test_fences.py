"""Fences and features in the log: what they mean for readers, and for writers who are late."""

import datetime as dt

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import SnapshotExpiredError, TransactionExpiredError
from tensorlake.format import Entry, Fence, head_path, seal
from tensorlake.storage import MemoryStore, run
from tensorlake.versions import BranchLog
from tensorlake.versions.log.entries import following, microseconds
from tests.support.handles import create_on, open_on, wait_for_storage

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


class Clock:
    """The store's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> dt.datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def dataset(store: MemoryStore) -> Dataset:
    dataset = create_on(store, {"x": "int64"})
    dataset.extend({"x": [0, 1]})
    dataset.commit("rows")
    return dataset


def put_fence(store: MemoryStore, t: dt.datetime, *, expired_before: int = 0) -> Entry:
    """What a collector appends to a branch before it sweeps."""
    log = BranchLog(store, "main")
    head = run(log.head())
    assert head is not None
    fence = following(
        head,
        branch="main",
        kind="fence",
        txid=f"{head.seq + 1:032x}",
        message="",
        of=head.seq,
        fence=Fence(microseconds(t), expired_before),
    )
    published = run(log.publish(fence))
    assert isinstance(published, Entry)
    return published


def stage_a_pack(dataset: Dataset) -> None:
    """Stage more than a pack holds: its first pack is stored now."""
    for _ in range(5):
        dataset.extend({"x": np.random.default_rng(0).integers(0, 2**62, 3_000_000)})


def test_a_fence_is_not_seen_by_readers(store, dataset):
    put_fence(store, NOON - HOUR)

    opened = open_on(store)

    assert opened["x"][:].tolist() == [0, 1]
    assert opened.version == open_on(store, "main@2").version == "main@1"
    assert [commit.version for commit in opened.log()] == ["main@1", "main@0"]
    assert dataset.refresh()["x"][:].tolist() == [0, 1]


def test_a_commit_stands_on_a_fence_and_carries_it_on(store, dataset):
    fence = put_fence(store, NOON - HOUR)
    dataset.append({"x": 2})

    commit = dataset.commit("after the fence")

    assert commit.version == "main@3"
    entry = run(BranchLog(store, "main").existing(3))
    assert entry.fence == fence.fence
    assert entry.prev == fence.digest
    assert open_on(store)["x"][:].tolist() == [0, 1, 2]


def test_what_was_staged_before_the_fences_time_expires(store, dataset, clock):
    """Test 13: the collector may have taken its chunks; at every attempt."""
    dataset.append({"x": 2})
    stage_a_pack(dataset)
    clock.now = NOON + 30 * HOUR
    put_fence(store, NOON + 6 * HOUR)

    for _ in range(2):
        with pytest.raises(TransactionExpiredError, match="grace"):
            dataset.commit("late")

    assert len(open_on(store)) == 2
    dataset.discard()
    dataset.refresh()
    dataset.append({"x": 2})
    assert dataset.commit("again").num_rows == 3


def test_what_was_staged_after_the_fences_time_is_published(store, dataset, clock):
    clock.now = NOON + 10 * HOUR
    dataset.append({"x": 2})
    put_fence(store, NOON + 6 * HOUR)

    dataset.commit("in time")

    assert open_on(store)["x"][:].tolist() == [0, 1, 2]


def test_a_version_given_up_is_neither_tagged_nor_branched_from(store, dataset):
    """Tests 15 and 40: the reference is written, the log read again, the reference withdrawn."""
    put_fence(store, NOON - HOUR, expired_before=1)

    with pytest.raises(SnapshotExpiredError):
        dataset.tag("old", at="main@0")
    with pytest.raises(SnapshotExpiredError):
        dataset.branch("older", at="main@0")

    assert dict(dataset.tags) == {}
    with pytest.raises(tl.VersionNotFoundError):
        dataset.at("older")
    assert dataset.tag("new", at="main@1").version == "main@1"
    assert dataset.branch("newer", at="main@1").version == "newer@1"
    assert dataset.branch("older", at="main@1").version == "older@1"  # its creation is continued
    pins = run(_paths(store, "tags/pin"))
    assert pins == []


async def _paths(store: MemoryStore, prefix: str) -> list[str]:
    return [meta.path async for meta in store.list(prefix)]


def test_a_hint_of_a_newer_format_is_no_reason_not_to_open(store, dataset):
    """A hint costs requests, never truth, whoever wrote it."""
    del dataset
    wait_for_storage()
    entry = run(BranchLog(store, "main").existing(1)).to_json()
    entry["features"] = {"read": ["from-the-future"], "write": []}
    run(store.put(head_path("main"), seal(entry)))

    assert open_on(store).version == "main@1"


def test_an_entry_of_a_newer_format_is_refused_by_the_name_of_its_feature(store, dataset):
    """Test 21."""
    del dataset
    log = BranchLog(store, "main")
    newest = run(log.existing(1))
    entry = following(newest, branch="main", txid="f" * 32).to_json()
    entry["features"] = {"read": ["from-the-future"], "write": []}
    run(store.put("branches/main/0000000002.json", seal(entry)))

    with pytest.raises(tl.UnsupportedFeatureError, match="from-the-future"):
        open_on(store)


def test_an_entry_with_an_unknown_writer_feature_is_read_only(store, dataset):
    """Test 21: read it, but do not build on what would be lost."""
    del dataset
    log = BranchLog(store, "main")
    newest = run(log.existing(1))
    entry = following(newest, branch="main", txid="f" * 32).to_json()
    entry["features"] = {"read": [], "write": ["from-the-future"]}
    run(store.put("branches/main/0000000002.json", seal(entry)))

    opened = open_on(store)

    assert opened["x"][:].tolist() == [0, 1]
    with pytest.raises(tl.TensorlakeError, match="from-the-future"):
        opened.append({"x": 2})
