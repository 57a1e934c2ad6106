"""Pins: a version is held while something made from it is published, and a late pin is noticed."""

import datetime as dt

import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import SnapshotExpiredError, StorageError, TransactionExpiredError
from tensorlake.format import Entry, Fence, new_txid
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions import BranchLog, pinned
from tensorlake.versions.log.entries import following, microseconds
from tensorlake.versions.log.put_once import TRIES
from tensorlake.versions.refs.pins import holding
from tests.support.handles import create_on, open_on

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(clock=lambda: NOON)


@pytest.fixture
def dataset(store: MemoryStore) -> Dataset:
    dataset = create_on(store, {"x": "int64"})
    dataset.append({"x": 0})
    dataset.commit("row")
    return dataset


def put_fence(store: MemoryStore, branch: str, t: dt.datetime, *, expired_before: int = 0) -> Entry:
    log = BranchLog(store, branch)
    head = run(log.head())
    assert head is not None
    fence = following(
        head,
        branch=branch,
        kind="fence",
        txid=new_txid(),
        fence=Fence(microseconds(t), expired_before),
    )
    published = run(log.publish(fence))
    assert isinstance(published, Entry)
    return published


async def hold(store, entry: Entry, *, head: Entry | None = None) -> list[str]:
    """Pin a version of main; the pins there are meanwhile."""
    async with pinned(store, "main", entry, txid=new_txid()) as pin:
        if head is not None:
            await pin.check_age(store, head)
        return await pins_of(store)


async def pins_of(store) -> list[str]:
    return [meta.path async for meta in store.list("tags/pin-")]


def test_a_pin_stands_while_it_is_needed_and_is_then_really_deleted(store, dataset):
    held = run(hold(store, session_of(dataset).head))

    assert len(held) == 1
    assert run(pins_of(store)) == []


def test_a_version_that_was_given_up_is_not_pinned(store, dataset):
    """format.md 15: the reference is written, then the cited log is read again."""
    put_fence(store, "main", NOON - HOUR, expired_before=2)

    with pytest.raises(SnapshotExpiredError, match=r"main@1 .* has expired \(by expire\(\)\)"):
        run(hold(store, session_of(dataset).head))

    assert run(pins_of(store)) == []


def test_a_pin_no_newer_than_the_fence_is_late(store, dataset):
    """Rule 1: the pin counts as a pack; one that a collector may have deleted holds nothing."""
    fence = put_fence(store, "main", NOON)

    with pytest.raises(TransactionExpiredError, match="nothing was published"):
        run(hold(store, session_of(dataset).head, head=fence))

    earlier = put_fence(store, "main", NOON).changed(fence=Fence(microseconds(NOON - HOUR)))
    assert len(run(hold(store, session_of(dataset).head, head=earlier))) == 1


def test_a_pin_that_cannot_be_deleted_fails_nothing(store, dataset, caplog):
    faulty = FaultyStore(store)
    faulty.inject(Fault.REFUSED, call="delete", path="tags/pin-")

    assert len(run(hold(faulty, session_of(dataset).head))) == 1

    assert "a collection will delete it" in caplog.text
    assert len(run(pins_of(store))) == 1


def test_a_pin_whose_answer_was_lost_is_looked_for(store, dataset):
    faulty = FaultyStore(store)
    for fault in (Fault.ANSWER_LOST, Fault.NOT_STORED):
        faulty.inject(fault, call="put_if_absent", path="tags/pin-")

        assert len(run(hold(faulty, session_of(dataset).head))) == 1

    faulty.inject(Fault.NOT_STORED, call="put_if_absent", path="tags/pin-", times=TRIES)
    with pytest.raises(StorageError):
        run(hold(faulty, session_of(dataset).head))
    assert run(pins_of(store)) == []


def test_a_branch_fenced_before_its_first_commit_is_continued(store, dataset):
    """A log without a commit, whose creator died, is continued by whoever creates it next."""
    creator = FaultyStore(store)
    creator.inject(Fault.REFUSED, call="put_if_absent", path="branches/fix/", skip=1)
    with pytest.raises(StorageError):
        open_on(creator).branch("fix")
    put_fence(store, "fix", NOON - HOUR)

    made = dataset.branch("fix")

    assert made.version == "fix@2"
    assert made["x"][:].tolist() == [0]
    with pytest.raises(tl.InvalidInputError, match="never used twice"):
        dataset.branch("fix")


class WithoutDeletes(MemoryStore):
    """A store whose credentials may write and not delete, as a team's may be."""

    async def delete(self, path: str) -> None:
        raise tl.AccessError(f"may not delete {path!r}", path=path)


def test_who_may_not_delete_may_start_a_branch_all_the_same(store, dataset, caplog):
    """Only collectors need that right: they take what is left behind."""
    team = WithoutDeletes(clock=lambda: NOON)
    team._objects = store._objects

    with caplog.at_level("INFO", "tensorlake"):
        made = open_on(team).branch("fix")

    assert made["x"][:].tolist() == [0]
    assert [one.levelname for one in caplog.records if "left behind" in one.message] == ["INFO"]
    assert dataset.branches == ["fix", "main"]


def test_a_pin_goes_when_the_work_that_it_was_put_for_fails(store, dataset):
    def fail() -> None:
        with holding(store, "main", session_of(dataset).head, txid=new_txid()):
            assert len(run(pins_of(store))) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert run(pins_of(store)) == []
