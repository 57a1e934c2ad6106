"""One collection: what goes, what stays, and what stops it."""

import datetime as dt

import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    ReadOnlyError,
    SnapshotExpiredError,
    TransactionExpiredError,
    UnsupportedFeatureError,
)
from tensorlake.format import DESCRIPTOR, Descriptor, new_txid, seal
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tensorlake.versions import BranchLog, collect_garbage, create_tag, fence_of
from tests.support.garbage import (
    GRACE,
    Clock,
    contents,
    leave_garbage,
    needed_paths,
    pack_paths,
    sleeping_writer,
    with_three_packs,
)
from tests.support.handles import open_on, rows_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def dataset(store: MemoryStore) -> Dataset:
    return with_three_packs(store)


def test_packs_that_no_version_refers_to_go_once_they_are_old(store, dataset, clock):
    garbage = leave_garbage(store)
    assert garbage
    expected = contents(store)
    clock.pass_grace()

    report = dataset.gc()

    assert report.deleted_packs == len(garbage)
    assert pack_paths(store) == needed_paths(store)
    assert contents(store) == expected


def test_young_garbage_stays(store, dataset, clock):
    garbage = leave_garbage(store)
    clock.now += GRACE - dt.timedelta(seconds=30)

    report = dataset.gc()

    assert garbage <= pack_paths(store)
    assert (report.deleted_packs, report.young_packs) == (0, len(garbage))


def test_a_dry_run_tells_what_a_run_does_and_changes_nothing(store, dataset, clock):
    leave_garbage(store)
    tag_until(dataset, "passing", clock.now + dt.timedelta(hours=1))
    clock.pass_grace()
    before = dict(store._objects)

    told = dataset.gc(dry_run=True)

    assert dict(store._objects) == before
    done = dataset.gc()
    assert told.is_dry_run
    assert not done.is_dry_run
    for fact in ("deleted_packs", "deleted_nbytes", "kept_packs", "expired_tags", "versions"):
        assert getattr(told, fact) == getattr(done, fact), fact


@pytest.mark.usefixtures("dataset")
def test_a_dry_run_writes_nothing(store, clock):
    counting = CountingStore(store)
    clock.pass_grace()

    report = run(collect_garbage(counting, dry_run=True))

    assert report.t == clock.now - GRACE
    calls = {request.call for request in counting.requests}
    assert not {call for call in calls if "put" in call or "delete" in call}


def test_the_report_prints(store, dataset, clock):
    leave_garbage(store)
    clock.pass_grace()

    text = str(dataset.gc())

    assert text.startswith("deleted 1 pack (")
    assert "3 packs" in text
    assert "4 versions" in text


def test_history_of_a_live_branch_is_never_dropped(store, dataset, clock):
    """format.md 10: the content of every version stays, whatever comes after it."""
    expected = contents(store)
    for _ in range(3):
        dataset["x"][:] = -5
        dataset.commit("changed")
        clock.pass_grace()
        dataset.gc()

    assert expected.items() <= contents(store).items()


def test_old_packs_are_not_missed_when_the_clock_of_the_client_is_wrong(clock, store, dataset):
    """format.md 14: client and store a year apart; nothing live goes, nothing staged too early."""
    expected = contents(store)
    for skew in (-365, 365):
        clock.now += dt.timedelta(days=skew)
        staged = open_on(store)
        staged.append({"x": 9, "text": "staged"})
        dataset.gc()
        staged.commit("published")
        clock.now -= dt.timedelta(days=skew)

    assert expected.items() <= contents(store).items()
    assert len(open_on(store)) == 5


def test_a_second_collection_right_after_finds_nothing_and_adds_no_entry_to_the_log(
    store, dataset, clock
):
    leave_garbage(store)
    clock.pass_grace()
    dataset.gc()
    head = run(BranchLog(store, "main").head())
    clock.now -= dt.timedelta(minutes=1)  # store times may go back a little

    report = dataset.gc()

    assert report.deleted_packs == 0
    assert run(BranchLog(store, "main").head()).digest == head.digest


def test_a_fence_lowers_neither_number(store, dataset, clock):
    clock.pass_grace()
    dataset.expire(keep_last=1)
    dataset.gc()
    before = fence_of(run(BranchLog(store, "main").head()))
    clock.now -= dt.timedelta(hours=6)

    dataset.gc()

    assert before.expired_before == 3
    assert fence_of(run(BranchLog(store, "main").head())) == before


def test_a_writer_asleep_for_longer_than_grace_expires_and_leaves_no_trace(store, dataset, clock):
    """format.md 13: never a dangling commit."""
    writer = sleeping_writer(store)
    clock.pass_grace()
    dataset.gc()
    assert pack_paths(store) == needed_paths(store)

    with pytest.raises(TransactionExpiredError, match="grace"):
        writer.commit("late")

    writer.discard()
    assert len(open_on(store)) == 3


def test_a_writer_that_took_less_than_grace_publishes(store, dataset, clock):
    """format.md 13: a collection between its packs and its entry takes nothing of it."""
    writer = sleeping_writer(store)
    clock.now += GRACE - dt.timedelta(minutes=5)
    dataset.gc()

    commit = writer.commit("in time")

    assert commit.num_rows == 4
    assert rows_of(open_on(store))[-1] == {"x": -1, "text": "late"}


def test_reading_what_one_staged_too_long_ago_says_so(store, dataset, clock):
    writer = sleeping_writer(store)
    clock.pass_grace()
    dataset.gc()

    with pytest.raises(TransactionExpiredError, match="grace"):
        _ = writer["x"][:]

    writer.discard()


def test_readers_of_what_is_gone_are_told_that_it_was_given_up(store, dataset, clock):
    """format.md 40: an old handle, and a version opened by its number."""
    dataset["x"][:] = 7
    dataset.commit("all new")
    dataset.optimize()
    old = open_on(store, "main@1")
    dataset.expire(keep_last=1)
    clock.pass_grace()
    dataset.gc()

    for handle in (old, open_on(store, "main@2")):
        with pytest.raises(SnapshotExpiredError, match=r"main@\d of .* has expired"):
            rows_of(handle)


def test_an_expired_tag_becomes_a_tombstone_and_its_version_goes(store, dataset, clock):
    """By the store's clock, and by the collector alone."""
    tag_until(dataset, "for a day", clock.now + dt.timedelta(days=1))
    dataset.tag("for ever")
    dataset["x"][:] = 1
    dataset.commit("other packs")
    dataset.optimize()
    dataset.expire(keep_last=1)
    clock.now += dt.timedelta(hours=23)
    assert dataset.gc().expired_tags == ()
    assert set(dataset.tags) == {"for a day", "for ever"}
    clock.pass_grace()

    report = dataset.gc()

    assert report.expired_tags == ("for a day",)
    assert set(dataset.tags) == {"for ever"}
    assert rows_of(open_on(store, "for ever")) == [{"x": n, "text": f"row {n}"} for n in range(3)]
    with pytest.raises(InvalidInputError, match="was used"):
        dataset.tag("for a day")


def test_the_pins_of_dead_transactions_go_and_young_ones_hold(store, dataset, clock):
    def pin(version: int) -> str:
        entry = run(BranchLog(store, "main").existing(version))
        path = f"tags/pin-{new_txid()}.json"
        body = {"branch": "main", "seq": version, "digest_of": entry.digest, "txid": path[9:41]}
        run(store.put_if_absent(path, seal(body)))
        return path

    old = pin(1)
    clock.pass_grace()
    young = pin(1)

    report = dataset.gc()

    assert report.dropped_pins == 1
    assert run(store.get(old)) is None
    assert run(store.get(young)) is not None


def test_a_clock_that_a_dead_collector_left_goes_too(store, dataset, clock):
    """format.md 45: whatever is in it, for nothing reads it."""
    run(store.put_if_absent("gc/dead.json", b"damaged"))
    clock.pass_grace()

    dataset.gc()

    assert run(store.get("gc/dead.json")) is None
    assert not [key for key in store._objects if key.startswith("gc/")]


def test_a_branch_without_a_commit_is_fenced_and_can_still_be_made(store, dataset, clock):
    """Its creator died after `begin`: whoever creates that branch next continues it."""
    dying = FaultyStore(store)
    dying.inject(Fault.REFUSED, call="put_if_absent", path="branches/fix/0000000001")
    with pytest.raises(tl.TensorlakeError):
        open_on(dying).branch("fix")
    clock.pass_grace()
    dataset.gc()

    assert dataset.branches == ["main"]
    with pytest.raises(tl.VersionNotFoundError, match="no commit yet"):
        open_on(store, "fix")
    with pytest.raises(tl.VersionNotFoundError):
        open_on(store, "fix@1")
    assert rows_of(dataset.branch("fix")) == rows_of(dataset)


def test_an_ended_branch_is_not_kept_but_for_its_tags(store, dataset, clock):
    branch = dataset.branch("try")
    branch.append({"x": 10, "text": "tagged"})
    branch.commit("tagged")
    branch.tag("kept")
    branch.append({"x": 11, "text": "not tagged"})
    branch.commit("not tagged")
    packs = pack_paths(store)
    dataset.delete_branch("try")
    clock.pass_grace()

    dataset.gc()

    assert len(packs - pack_paths(store)) == 1
    assert pack_paths(store) == needed_paths(store)
    assert len(open_on(store, "kept")) == 4


def test_a_stale_writer_on_an_ended_swept_branch_loses(store, dataset, clock):
    """format.md 35."""
    dataset.branch("try")
    writer = sleeping_writer(store, "try")
    dataset.delete_branch("try")
    clock.pass_grace()
    dataset.gc()

    with pytest.raises((tl.InvalidStateError, TransactionExpiredError)):
        writer.commit("too late")

    writer.discard()
    clock.pass_grace()
    dataset.gc()
    assert pack_paths(store) == needed_paths(store)


def test_staged_data_used_again_after_a_conflict_across_a_fence_expires(store, dataset, clock):
    """format.md 38: the second attempt compares ages too."""
    writer = open_on(store)
    writer["x"][0] = 100
    dataset["x"][0] = 200
    dataset.commit("first")
    with pytest.raises(tl.ConflictError):
        writer.commit("second")  # its packs are stored
    clock.pass_grace()
    dataset.gc()

    with pytest.raises((TransactionExpiredError, tl.ConflictError)):
        writer.refresh(keep_staged=True, on_conflict="ours").commit("again")

    writer.discard()
    assert open_on(store)["x"][0] == 200
    assert pack_paths(store) == needed_paths(store)


@pytest.mark.parametrize("branch", ["main", "other"])
def test_a_commit_with_old_packs_expires_on_every_branch(store, dataset, clock, branch):
    """format.md 37."""
    if branch != "main":
        dataset.branch(branch)
    writer = sleeping_writer(store, branch)
    clock.pass_grace()
    dataset.gc()

    with pytest.raises(TransactionExpiredError):
        writer.commit("late")

    writer.discard()


def test_a_transaction_begun_after_a_fence_needs_no_look_at_the_clock(store, dataset, clock):
    """One HEAD, only when t changed since it began."""
    clock.pass_grace()
    dataset.gc()
    counting = CountingStore(store)
    writer = open_on(counting)
    writer.append({"x": 3, "text": ""})
    counting.reset()

    writer.commit("after")

    assert counting.count("head") == 0


@pytest.mark.parametrize("seq", [0, 2, 6, 40])
def test_hints_cost_the_collector_requests_never_truth(store, dataset, clock, seq):
    """format.md 41: stale, and ahead."""
    entry = run(BranchLog(store, "main").existing(min(seq, 3)))
    hint = entry.changed(seq=seq)
    run(store.put("branches/main/HEAD", hint.to_bytes()))
    garbage = leave_garbage(store)
    expected = contents(store)
    clock.pass_grace()

    dataset.gc()

    assert garbage.isdisjoint(pack_paths(store))
    assert contents(store) == expected
    assert run(BranchLog(store, "main").head()).kind == "fence"


def test_a_name_once_put_never_goes_out_again(store, dataset):
    """A pack's name that might land twice could be listed at one age and deleted at another."""
    faulty = FaultyStore(store)
    counting = CountingStore(faulty)
    writer = open_on(counting)
    writer.append({"x": 3, "text": ""})
    faulty.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/", times=6)
    with pytest.raises(tl.StorageError):
        writer.commit("unknown")

    writer.commit("again")

    puts = [
        one.path
        for one in counting.requests
        if one.call == "put_if_absent" and one.path.startswith("packs/")
    ]
    assert len(puts) == len(set(puts)) == 7
    assert len(open_on(store)) == 4


def test_a_writers_feature_that_is_not_known_stops_it(store, dataset, clock):
    entry = run(BranchLog(store, "main").head())
    later = entry.changed(seq=entry.seq + 1, prev=entry.digest, txid=new_txid()).to_json()
    later["features"] = {"read": [], "write": ["from-the-future"]}
    run(store.put(f"branches/main/{entry.seq + 1:010}.json", seal(later)))
    clock.pass_grace()
    packs = pack_paths(store)

    with pytest.raises(UnsupportedFeatureError, match="from-the-future"):
        dataset.gc()

    assert pack_paths(store) == packs


def test_a_mirror_is_not_collected(store, dataset):
    mirror = Descriptor(new_txid(), 0, mirror_of="s3://elsewhere/pets")
    run(store.put(DESCRIPTOR, mirror.to_bytes()))

    with pytest.raises(ReadOnlyError, match="s3://elsewhere/pets"):
        dataset.gc()


def test_a_store_without_a_dataset_is_not_collected():
    with pytest.raises(DatasetNotFoundError):
        run(collect_garbage(MemoryStore()))


def test_a_read_only_handle_collects_and_expires_nothing(clock):
    tl.create("memory://collect-read-only", {"x": "int64"}).close()
    handle = tl.open("memory://collect-read-only", read_only=True)

    with pytest.raises(ReadOnlyError, match="gc"):
        handle.gc()
    with pytest.raises(ReadOnlyError, match="expire"):
        handle.expire(keep_last=1)

    assert handle.expire(keep_last=1, dry_run=True).given_up == ()
    assert handle.gc(dry_run=True).kept_packs == 0


def tag_until(dataset, name, expires):
    """Tag below the handle, which compares ``expires`` with the time of this machine."""
    session = session_of(dataset)
    run(create_tag(session.store, name, session.head, session.branch, expires=expires))
