"""The commit protocol by itself: one loop, given a draft that says what the head says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tensorlake.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    CorruptionError,
    InvalidStateError,
    SchemaError,
    StorageError,
    TransactionExpiredError,
    UnsupportedFeatureError,
)
from tensorlake.format import (
    Changes,
    Entry,
    Features,
    Fence,
    Parent,
    entry_path,
    new_txid,
)
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions import BranchLog, pinned
from tensorlake.versions.log.entries import following, microseconds
from tensorlake.versions.log.state import State
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.unit.versions.transaction.publication import ENTRY, HOUR, NOON, WatchedStore, Work


@pytest.fixture
def objects() -> WatchedStore:
    """One row, at main@1."""
    objects = WatchedStore()
    dataset = create_on(objects, {"x": "int64"})
    dataset.append({"x": 0})
    dataset.commit()
    wait_for_storage()
    objects.synced.clear()
    return objects


@pytest.fixture
def store(objects: WatchedStore) -> FaultyStore:
    return FaultyStore(objects)


@pytest.fixture
def work(store: FaultyStore) -> Work:
    return Work(store)


def add_row(objects: MemoryStore, key: str | None = None) -> None:
    other = open_on(objects)
    other.append({"x": 1})
    other.commit(key=key)
    other.close()


def overtake(store: FaultyStore, objects: MemoryStore, *, races: int, **given: Any) -> None:
    """Let other writers win the next races."""
    for race in range(races):
        store.before("put_if_absent", lambda: add_row(objects, **given), path=ENTRY, skip=race)


def in_doubt(store: FaultyStore, work: Work, fault: Fault = Fault.ANSWER_LOST) -> None:
    """Publish; neither the put nor the read-back is answered."""
    head = work.head()
    store.inject(fault, call="put_if_absent", path=ENTRY)
    store.inject(Fault.REFUSED, call="get", path=ENTRY)
    with pytest.raises(CommitOutcomeUnknownError):
        work.publish(head)


def messages(objects: MemoryStore) -> list[str]:
    return [one.message for one in open_on(objects).log()][::-1][2:]


def put_after_head(objects: MemoryStore, **members: Any) -> Entry:
    log = BranchLog(objects, "main")
    head = run(log.head())
    assert head is not None
    entry = following(head, branch="main", **{"txid": new_txid(), **members})
    published = run(log.publish(entry))
    assert isinstance(published, Entry)
    return published


def test_a_draft_is_made_once_for_a_head_that_stays(objects, work):
    outcome = work.publish()

    assert outcome.is_published
    assert work.prepared == [(1, [])]
    assert outcome.published.entry.seq == 2
    assert messages(objects) == ["work"]
    assert work.stage.first_pack() is not None


def test_each_lost_race_is_answered_by_a_draft_for_the_newest_head_given_all_since(
    objects, store, work
):
    overtake(store, objects, races=3)

    outcome = work.publish()

    assert work.prepared == [(1, []), (2, [2]), (3, [2, 3]), (4, [2, 3, 4])]
    assert outcome.published.entry.seq == 5
    assert messages(objects) == ["", "", "", "work"]


def test_a_head_that_is_old_costs_one_lost_race_however_many_came(objects, work):
    old = work.head()
    for _ in range(4):
        add_row(objects)

    work.publish(old)

    assert work.prepared == [(1, []), (5, [2, 3, 4, 5])]


def test_a_work_that_loses_every_race_gives_up_with_advice(objects, store, work, monkeypatch):
    monkeypatch.setattr("tensorlake.versions.transaction.publish.RACES_MAX", 3)
    overtake(store, objects, races=3)

    with pytest.raises(ConflictError, match=r"moved 3 times .*nothing was lost\ncall it again"):
        work.publish()

    assert messages(objects) == ["", "", ""]


@pytest.mark.parametrize("others", [0, 1, 3])
def test_an_earlier_try_that_landed_is_found_wherever_it_is(objects, store, work, others):
    base = work.head()
    in_doubt(store, work)
    for _ in range(others):
        add_row(objects)
    objects.synced.clear()

    outcome = work.publish(base)

    assert outcome.is_published
    assert outcome.published.entry.seq == 2
    assert "branches/main/0000000002.json" in objects.synced
    assert messages(objects) == ["work", *[""] * others]


def test_an_earlier_try_that_landed_behind_another_is_found(objects, store, work):
    base = work.head()
    add_row(objects)
    in_doubt(store, work)
    add_row(objects)

    outcome = work.publish(base)

    assert outcome.published.entry.seq == 3
    assert messages(objects) == ["", "work", ""]


def test_what_an_earlier_try_says_is_what_is_returned(objects, store, work):
    """It landed with the content that it had; the later draft may say another."""
    base = work.head()
    in_doubt(store, work)
    landed = work.head()

    outcome = work.publish(base)

    assert outcome.published.entry.digest == landed.digest
    assert outcome.published.state.roots is outcome.published.entry.roots


@pytest.mark.parametrize("races", [1, 2])
def test_another_s_entry_with_the_key_of_the_work_answers_it(objects, store, races):
    work = Work(store, keys=("batch-1",))
    overtake(store, objects, races=races - 1)
    store.before("put_if_absent", lambda: add_row(objects, "batch-1"), path=ENTRY, skip=races - 1)

    outcome = work.publish()

    assert outcome.is_published
    assert outcome.published.entry.seq == 1 + races
    assert "work" not in messages(objects)
    assert objects.synced == [f"branches/main/{1 + races:010}.json"]


def test_the_own_entry_is_preferred_to_another_with_the_key(objects, store):
    work = Work(store, keys=("batch-1",))
    base = work.head()
    in_doubt(store, work)
    put_after_head(objects, keys=("batch-1",))

    assert work.publish(base).published.entry.seq == 2


def test_nothing_to_publish_is_no_entry(objects, store):
    work = Work(store, says_something=lambda _head: False)

    outcome = work.publish()

    assert not outcome.is_published
    assert outcome.published.entry.seq == 1
    assert objects.synced == []
    assert messages(objects) == []


def test_what_others_did_meanwhile_is_durable_before_it_counts_as_done(objects, store):
    work = Work(store, says_something=lambda head: head.seq == 1)
    overtake(store, objects, races=1)

    outcome = work.publish()

    assert not outcome.is_published
    assert outcome.published.entry.seq == 2
    assert objects.synced == ["branches/main/0000000002.json"]


def test_content_that_is_refused_is_not_published(objects, store):
    def refuse(state: State) -> None:
        raise SchemaError(f"{state.physical} rows do not go together")

    work = Work(store, verify=refuse)

    with pytest.raises(SchemaError):
        work.publish()

    assert messages(objects) == []


def test_content_is_verified_again_after_a_lost_race(objects, store):
    seen: list[int] = []
    work = Work(store, verify=lambda state: seen.append(state.physical))
    overtake(store, objects, races=1)

    work.publish()

    assert seen == [1, 2]


@pytest.mark.parametrize("is_first", [True, False])
def test_nothing_is_published_after_the_end_of_a_branch(objects, store, work, is_first):
    def end() -> None:
        put_after_head(objects, kind="end", of=1, changes=Changes())

    if is_first:
        end()
    else:
        store.before("put_if_absent", end, path=ENTRY)

    with pytest.raises(InvalidStateError, match="was deleted"):
        work.publish()

    assert [head for head, _ in work.prepared] == ([] if is_first else [1])
    assert run(BranchLog(objects, "main").entry(3)) is None


@pytest.mark.parametrize("is_first", [True, False])
def test_nothing_is_published_after_an_entry_that_needs_newer_writers(
    objects, store, work, is_first
):
    def go_on() -> None:
        put_after_head(objects, features=Features((), ("future-index",)))

    if is_first:
        go_on()
    else:
        store.before("put_if_absent", go_on, path=ENTRY)

    with pytest.raises(UnsupportedFeatureError, match="future-index"):
        work.publish()

    assert run(BranchLog(objects, "main").entry(3)) is None


def put_fence(objects: WatchedStore, t: dt.datetime) -> None:
    put_after_head(objects, kind="fence", of=1, changes=Changes(), fence=Fence(microseconds(t), 0))


@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_packs_no_newer_than_a_fence_that_came_meanwhile_are_not_cited(objects, store, work, ahead):
    """Rule 1: a collector may have taken them already."""
    at = NOON + ahead * dt.timedelta(microseconds=1)
    store.before("put_if_absent", lambda: put_fence(objects, at), path=ENTRY)

    if ahead < 0:
        assert work.publish().published.entry.seq == 3
    else:
        with pytest.raises(TransactionExpiredError, match=r"grace time.*\ncall it again"):
            work.publish()
        assert run(BranchLog(objects, "main").entry(3)) is None


def test_packs_that_a_collector_took_are_not_cited(objects, store, work):
    def collect() -> None:
        put_fence(objects, NOON - HOUR)
        first = work.stage.first_pack()
        assert first is not None
        run(objects.delete(first.path))

    store.before("put_if_absent", collect, path=ENTRY)

    with pytest.raises(TransactionExpiredError):
        work.publish()

    assert run(BranchLog(objects, "main").entry(3)) is None


def test_a_fence_that_was_there_when_the_work_began_costs_nothing(objects, store, work):
    put_fence(objects, NOON + HOUR)

    outcome = work.publish(began_at_fence=microseconds(NOON + HOUR))

    assert outcome.published.entry.seq == 3


def test_a_pin_no_newer_than_the_fence_holds_nothing(objects, store, work):
    """Its packs may be newer: what it held is not."""

    async def pin_now() -> Any:
        context = pinned(store, "main", head, txid=work.stage.txid)
        return context, await context.__aenter__()

    head = work.head()
    context, pin = run(pin_now())
    objects.now_ += HOUR  # the packs are stored now
    store.before("put_if_absent", lambda: put_fence(objects, NOON), path=ENTRY)

    with pytest.raises(TransactionExpiredError, match="pinned longer ago"):
        work.publish(head, pin=pin)

    run(context.__aexit__(None, None, None))
    assert run(BranchLog(objects, "main").entry(3)) is None


@pytest.mark.parametrize("fault", [Fault.NOT_STORED, Fault.ANSWER_LOST])
def test_a_pack_under_another_name_is_cited_by_it(objects, store, work, fault):
    store.inject(fault, call="put_if_absent", path="packs/")

    outcome = work.publish()

    first = work.stage.first_pack()
    assert first is not None
    assert run(objects.head(first.path)) is not None
    assert outcome.published.entry.packs.count == work.stage.pack_count + 1


@pytest.mark.parametrize("path", ["packs/", ENTRY])
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.TIMED_OUT])
def test_a_refused_put_leaves_no_doubt_and_no_entry(objects, store, work, path, fault):
    store.inject(fault, call="put_if_absent", path=path)

    with pytest.raises(StorageError):
        work.publish()

    assert work.doubt.seq is None
    assert messages(objects) == []


def test_a_put_without_an_answer_leaves_a_doubt_that_its_number_ends(objects, store, work):
    base = work.head()
    in_doubt(store, work, Fault.NOT_STORED)
    assert work.doubt.seq == 2

    assert work.doubt.find(work.stage.txid, []) is None
    assert work.doubt.seq == 2
    add_row(objects)
    work.publish(base)

    assert work.doubt.seq is None or work.doubt.seq == 3
    assert messages(objects) == ["", "work"]


def test_a_put_that_never_lands_is_of_unknown_outcome(objects, store, work, monkeypatch):
    monkeypatch.setattr("tensorlake.versions.log.log.PUBLISH_TRIES", 2)
    store.inject(Fault.NOT_STORED, call="put_if_absent", path=ENTRY, times=2)

    with pytest.raises(CommitOutcomeUnknownError):
        work.publish()

    assert work.doubt.seq == 2
    assert messages(objects) == []


def test_an_entry_follows_the_one_before_and_repeats_nothing_that_is_that_one_s(objects, work):
    before = put_after_head(objects, message="a", keys=("batch-1",), meta={"a": 1}, of=1)
    objects.now_ -= HOUR  # the store's clock was put back

    entry = work.publish().published.entry

    assert (entry.seq, entry.prev) == (before.seq + 1, before.digest)
    assert entry.time > before.time
    assert entry.parents == (Parent("main", before.seq, before.digest),)
    assert (entry.keys, entry.meta, entry.of) == ((), {}, None)
    assert entry.txid == work.stage.txid
    assert (entry.fence, entry.schema, entry.physical) == (None, before.schema, before.physical)


def test_nothing_is_published_behind_an_entry_that_is_in_another_s_place(objects, work):
    base = work.head()
    data = run(objects.get(entry_path("main", 1)))
    assert data is not None
    run(objects.put(entry_path("main", 2), data))

    with pytest.raises(CorruptionError, match="contains entry 1, expected 2"):
        work.publish(base)

    assert run(objects.get(entry_path("main", 3))) is None


def test_a_doubt_is_of_the_highest_number_that_may_be_the_work_s(objects, store, work):
    """The second try, at a higher number, has no answer either."""
    base = work.head()
    in_doubt(store, work, Fault.NOT_STORED)
    wait_for_storage()
    add_row(objects)
    store.inject(Fault.NOT_STORED, call="put_if_absent", path=ENTRY, skip=1)
    store.inject(Fault.REFUSED, call="get", path="0000000003", skip=1)

    with pytest.raises(CommitOutcomeUnknownError):
        work.publish(base)

    assert work.doubt.seq == 3  # number 2 was seen to be another's


def test_an_interrupt_while_the_entry_is_put_leaves_a_doubt(objects, store, work):
    class StopError(BaseException):
        """Ctrl-C."""

    def stop() -> None:
        raise StopError

    store.before("put_if_absent", stop, path=ENTRY)

    with pytest.raises(StopError):
        work.publish()

    assert work.doubt.seq == 2
