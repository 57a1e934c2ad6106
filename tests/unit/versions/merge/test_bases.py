"""Merge bases: found from version vectors, with few reads, older where the newest is gone."""

import datetime as dt

import pytest

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import SnapshotExpiredError
from tensorlake.format import Changes, Entry, Parent
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tensorlake.versions import BranchLog, PackReader, loaded, version_at
from tensorlake.versions.log.entries import following
from tensorlake.versions.merge.base import contains, merge_bases, was_reordered
from tensorlake.versions.packs.writer import PackStage
from tests.support.handles import create_on, open_on, wait_for_storage

MANY = 10_000
DAY = dt.timedelta(days=1)


class Clock:
    """The store's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)

    def __call__(self) -> dt.datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def main(store) -> Dataset:
    ds = create_on(store, {"x": "int64"})
    for x in range(3):
        ds.append({"x": x})
        ds.commit("row")
    return ds


def bases(store, ours: str, theirs: str) -> list[str]:
    packs = PackReader(store)
    sides = [run(version_of(store, packs, name)) for name in (ours, theirs)]
    return [base.name for base in run(merge_bases(store, packs, *sides))]


async def version_of(store, packs, name: str):
    branch, _, number = name.partition("@")
    log = BranchLog(store, branch)
    entry = await log.existing(int(number)) if number else await log.head()
    assert entry is not None
    return await version_at(store, branch, entry, packs)


def append(ds: Dataset, x: int) -> None:
    ds.append({"x": x})
    ds.commit("row")


def test_the_base_of_a_branch_is_where_it_was_started(store, main):
    fix = main.branch("fix", at="main@2")
    append(fix, 10)

    assert bases(store, "main", "fix") == bases(store, "fix", "main") == ["main@2"]


def test_the_base_after_a_merge_is_what_was_merged(store, main):
    fix = main.branch("fix")
    append(fix, 10)
    append(main, 20)
    main.merge("fix")
    append(fix, 11)

    assert bases(store, "main", "fix") == ["fix@2"]


def test_a_criss_cross_has_two_bases_the_newest_first(store, main):
    fix = main.branch("fix")
    append(fix, 10)
    append(main, 20)
    fix_then, main_then = fix.version, main.version
    main.merge(fix_then)
    fix.merge(main_then)

    assert bases(store, "main", "fix") == ["main@4", "fix@2"]


def test_branches_share_what_a_third_one_brought_to_both(store, main):
    fix, third = main.branch("fix"), main.branch("third")
    append(third, 30)
    append(fix, 10)
    append(main, 20)
    main.merge("third")
    fix.merge("third")

    assert bases(store, "main", "fix") == ["third@2"]


def test_a_fence_means_the_commit_it_stands_on(store, main):
    fix = main.branch("fix")
    append(fix, 10)
    main.gc()
    append(main, 20)

    assert bases(store, "main", "fix") == ["main@3"]
    main.merge("fix")
    assert main["x"][:].tolist() == [0, 1, 2, 20, 10]


def test_a_base_that_was_given_up_but_is_still_whole_is_used(store, main, clock):
    """Its packs are those of the branch that was started from it."""
    fix = main.branch("fix", at="main@1")
    append(fix, 10)
    clock.now += 2 * DAY
    main.expire(keep_last=1)
    main.gc()
    clock.now += 2 * DAY
    main.gc()

    assert bases(store, "main", "fix") == ["main@1"]
    main.merge("fix")
    assert main["x"][:].tolist() == [0, 1, 2, 10]


def test_a_base_that_was_collected_is_left_out_for_an_older_one(store, main, clock):
    """format.md, "Combine": points whose pages are gone are left out."""
    main.tag("start")
    older = main.branch("older")
    append(older, 10)
    fix = main.branch("fix")
    append(fix, 11)
    fix["x"][0] = 100
    fix.commit("to be collected")
    main.merge("older")
    main.merge("fix")
    append(older, 12)
    older.merge("fix@3")
    append(older, 13)
    append(main, 14)
    newest = bases(store, "main", "older")
    main.delete_branch("fix")
    for handle in (main, open_on(store, "older")):
        handle["x"][:] = range(len(handle))  # nothing refers to what fix had written
        handle.commit("rewritten")
        handle.expire(keep_last=1)
    clock.now += 2 * DAY
    main.gc()
    clock.now += 2 * DAY
    main.gc()

    assert newest == ["fix@3", "older@2"]
    assert bases(store, "main", "older") == ["main@3"]


def test_nothing_in_common_is_an_error(store, main, clock):
    fix = main.branch("fix")
    for handle in (fix, main):
        handle.delete([0, 1, 2])
        handle.extend({"x": [5, 6]})
        handle.commit("other rows")
        handle.expire(keep_last=1)
        handle.optimize()
        handle.expire(keep_last=1)
    clock.now += 2 * DAY
    main.gc()
    clock.now += 2 * DAY
    main.gc()

    with pytest.raises(SnapshotExpiredError, match="have in common has expired and was collected"):
        open_on(store).merge("fix")


def test_ten_thousand_merged_branches_cost_no_more_reads(store, main):
    """format.md 50: a version vector of 10⁴ branches lies in a page; one point contains them."""
    head = run(BranchLog(store, "main").head())
    assert head is not None
    merged = {f"gone-{number:05d}": number for number in range(MANY)}
    run(publish_merged(store, head, merged))
    main.refresh()
    fix = main.branch("fix")
    append(fix, 10)
    append(main, 20)
    wait_for_storage()
    counting = CountingStore(store)

    handle = open_on(counting)
    handle.merge("fix")

    assert handle["x"][:].tolist() == [0, 1, 2, 20, 10]
    assert not any("gone-" in request.path for request in counting.requests)
    newest = run(BranchLog(store, "main").head())
    assert newest is not None
    entry = run(loaded(newest, PackReader(store)))
    assert entry.merged == merged | {"fix": 2}
    assert contains(entry.merged, "gone-09999", 9999)
    assert bases(store, "main", "fix") == ["fix@2"]


def test_a_branch_whose_first_pack_took_another_name_is_whole(store, main):
    """Its version vector lies in a page of that pack: the page is made again."""
    head = run(BranchLog(store, "main").head())
    assert head is not None
    merged = {f"gone-{number:05d}": number for number in range(MANY)}
    run(publish_merged(store, head, merged))
    faulty = FaultyStore(store)
    faulty.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/")

    open_on(faulty).branch("fix")

    entry = run(BranchLog(store, "fix").head())
    assert entry is not None
    assert run(loaded(entry, PackReader(store))).merged == merged | {"main": 4}
    assert open_on(store, "fix").check().ok


def test_whether_rows_were_reordered_long_ago_is_found_in_few_round_trips(store, main):
    for x in range(64):
        append(main, x)
    counting = CountingStore(store)
    packs = PackReader(counting)
    base, side = (run(version_of(counting, packs, name)) for name in ("main@1", "main"))
    counting.reset()

    assert not run(was_reordered(counting, base, side))

    assert counting.round_trips <= 4


async def publish_merged(store, head: Entry, merged: dict[str, int]) -> None:
    stage = PackStage(store)
    entry = following(
        head,
        branch="main",
        kind="commit",
        txid=stage.txid,
        merged=merged,
        changes=Changes(),
        parents=(Parent("main", head.seq, head.digest),),
    ).spill(stage)
    stage.send_open()
    await stage.settled()
    assert "merged" in entry.spilled
    assert isinstance(await BranchLog(store, "main").publish(entry), Entry)


def test_only_a_commit_that_stands_on_one_version_reorders(store, main):
    fix = main.branch("fix")
    append(fix, 10)
    append(main, 20)
    main.merge("fix")
    packs = PackReader(store)
    base, merged = (run(version_of(store, packs, name)) for name in ("main@3", "main"))
    assert not run(was_reordered(store, base, merged))

    fix.optimize(order_by="x DESC")
    started = fix.branch("from-fix")
    append(started, 11)

    ordered = run(version_of(store, packs, "from-fix"))
    assert run(was_reordered(store, base, ordered))
