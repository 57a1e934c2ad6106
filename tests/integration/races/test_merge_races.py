"""Merges and restores among stops, lost answers, other writers, collectors and real processes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import NotFoundError, TransactionExpiredError
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import Fault, FaultyStore, SimulatedCrash
from tests.support.handles import create_on, open_on, rows_of, wait_for_storage
from tests.support.writers import append_rows, fork_server, merge_branches

WRITERS, COMMITS = 2, 8
DAY = dt.timedelta(days=1)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@cache
def _diverged() -> MemoryStore:
    """Branches main and fix, with enough on both that their trees have pages."""
    objects = MemoryStore()
    main = create_on(objects, {"x": "int64", "s": "str"})
    for number in range(70):  # main@71: a compaction follows the 64th
        main.append({"x": number, "s": f"row {number}"})
        main.commit()
    fix = main.branch("fix")
    fix["x"][3] = 33
    fix.delete([5])
    fix.append({"x": 100, "s": "fix"})
    fix.commit("fix")
    main["s"][4] = "main"
    main.append({"x": 200, "s": "main"})
    main.commit("main")
    wait_for_storage()
    return objects


def diverged(objects: MemoryStore) -> MemoryStore:
    """Fill a store with branches that went apart."""
    run(_copy(_diverged(), objects))
    return objects


async def _copy(source: MemoryStore, target: MemoryStore) -> None:
    async for meta in source.list(""):
        data = await source.get(meta.path)
        assert data is not None
        await target.put_if_absent(meta.path, data)


def columns(ds: Dataset) -> dict[str, list[object]]:
    return {name: list(ds[name][:]) for name in ds.schema}


def act_merge(store: FaultyStore) -> None:
    open_on(store).merge("fix")


def act_take_over(store: FaultyStore) -> None:
    open_on(store).branch("copy", at="main@71").merge("fix")


def act_restore(store: FaultyStore) -> None:
    open_on(store).restore("main@3")


def act_end(store: FaultyStore) -> None:
    open_on(store).delete_branch("fix")


ACTS = (act_merge, act_take_over, act_restore, act_end)


def seen(objects: MemoryStore) -> dict[str, object]:
    """What anybody can see: branches, and the rows of each version that has a name."""
    found: dict[str, object] = {"branches": open_on(objects).branches}
    for name in ("main", "fix", "copy"):
        with suppress(NotFoundError):
            found[name] = columns(open_on(objects, name))
    return found


def writes_of(act: Callable[[FaultyStore], None]) -> int:
    objects = diverged(MemoryStore())
    counting = FaultyStore(objects)
    act(counting)
    wait_for_storage()
    return counting.writes


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS)
def test_a_stop_before_any_write_leaves_the_state_before_or_after(act):
    """format.md 1-3, 39: merge, fast-forward, restore and the end of a branch."""
    objects = diverged(MemoryStore())
    before = seen(objects)
    act(FaultyStore(objects))
    after = seen(objects)
    assert before != after

    for writes in range(writes_of(act)):
        objects = diverged(MemoryStore())
        dying = FaultyStore(objects)
        dying.crash_after(writes)
        with suppress(SimulatedCrash):
            act(dying)
            wait_for_storage()

        now = seen(objects)

        if act is act_take_over:  # two acts: the branch is made, then it takes over
            middle = before | {"branches": after["branches"], "copy": _at(objects, "main@71")}
            started = before | {"branches": before["branches"]}
            assert now in (before, started, middle, after)
        else:
            assert now in (before, after)
        if now == before:
            act(FaultyStore(objects))
            assert seen(objects) == after


def _at(objects: MemoryStore, version: str) -> dict[str, list[object]]:
    return columns(open_on(objects, version))


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NOT_STORED])
@pytest.mark.parametrize("path", ["branches/main/", "packs/", "tags/pin-"])
def test_an_answer_that_is_lost_merges_exactly_once(fault, path):
    """format.md 4-6: what was stored is found, what was not is sent again."""
    objects = diverged(MemoryStore())
    store = FaultyStore(objects)
    store.inject(fault, call="put_if_absent", path=path)
    main = open_on(store)

    main.merge("fix")

    assert len(main) == 71
    assert [commit.message for commit in main.log(2)] == ["merge fix@2", "main"]


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda ds: ds.append({"x": 300, "s": "later"}),
        lambda ds: ds.delete([0]),
        lambda ds: ds["s"].__setitem__([0], ["later"]),
        lambda ds: ds.add_tensor("y", "int64", fill=1),
    ],
)
def test_a_merge_that_loses_a_race_is_planned_again_on_the_new_head(meanwhile):
    objects = diverged(MemoryStore())
    store = FaultyStore(objects)

    def commit() -> None:
        other = open_on(objects)
        meanwhile(other)
        other.commit("meanwhile")

    store.before("put_if_absent", commit, path="branches/main/")
    main = open_on(store)
    main.merge("fix")

    newest = open_on(objects)
    assert rows_of(newest) == rows_of(main)
    assert [commit.message for commit in newest.log(2)] == ["merge fix@2", "meanwhile"]
    assert {33, 100, 200} <= set(newest["x"][:].tolist())


def test_a_merge_that_loses_a_race_to_a_conflicting_commit_says_so():
    objects = diverged(MemoryStore())
    store = FaultyStore(objects)

    def commit() -> None:
        other = open_on(objects)
        other["x"][3] = -3
        other.commit("meanwhile")

    store.before("put_if_absent", commit, path="branches/main/")

    with pytest.raises(tl.ConflictError, match="both changed 'x' of 1 row"):
        open_on(store).merge("fix")

    assert open_on(objects)["x"][3] == -3


def test_a_commit_that_loses_a_race_to_a_merge_follows_it():
    """format.md 42: an update staged across a merge or a restore lands on its row."""
    objects = diverged(MemoryStore())
    main = open_on(objects)
    main["x"][6] = -6
    main.append({"x": 300, "s": "staged"})

    open_on(objects).merge("fix")
    main.commit("after the merge")

    values = main["x"][:].tolist()
    assert (values[5], values[-1]) == (-6, 300)
    assert len(values) == 72


def test_an_update_staged_across_a_restore_lands_on_its_row():
    """format.md 42."""
    objects = diverged(MemoryStore())
    main = open_on(objects)
    main["x"][6] = -6

    open_on(objects).restore("main@71")
    main.commit("after the restore")

    assert main["x"][:].tolist() == [*range(6), -6, *range(7, 70)]


def test_an_update_of_a_row_that_a_restore_took_away_conflicts():
    """format.md 42: the row is gone, so nobody's value is lost without a word."""
    objects = diverged(MemoryStore())
    main = open_on(objects)
    main["x"][60] = -60

    open_on(objects).restore("main@3")

    with pytest.raises(tl.ConflictError):
        main.commit("after the restore")


class Clock:
    """The store's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> dt.datetime:
        return self.now


@pytest.mark.parametrize("act", [act_merge, act_restore])
@pytest.mark.parametrize("later", [dt.timedelta(hours=1), 2 * DAY])
def test_a_merge_or_restore_racing_a_sweep_is_valid_or_an_error(act, later):
    """format.md 40: fix ends, old versions expire, a collector runs, all before the entry."""
    clock = Clock()
    objects = diverged(MemoryStore(clock=clock))
    before = columns(open_on(objects))
    clock.now += 2 * DAY
    store = FaultyStore(objects)

    def sweep() -> None:
        clock.now += later
        collector = open_on(objects)
        collector.delete_branch("fix")
        collector.expire(keep_last=1)
        collector.gc()

    store.before("put_if_absent", sweep, path="branches/main/")
    if later > DAY:
        with pytest.raises(TransactionExpiredError):
            act(store)
        assert columns(open_on(objects)) == before
    else:
        act(store)
        assert columns(open_on(objects)) != before
    now = columns(open_on(objects))
    clock.now += 2 * DAY
    open_on(objects).gc()
    assert columns(open_on(objects)) == now


@pytest.mark.slow
def test_merging_and_appending_processes_lose_and_double_nothing(tmp_path):
    """Real processes on a folder: two append to a branch each, two merge both ways all the time."""
    url = str(tmp_path / "lake")
    tl.create(url, {"writer": "int64", "n": "int64"}).branch("fix").close()
    context = fork_server()
    processes = [
        *(
            context.Process(target=append_rows, args=(url, {}, writer, COMMITS, branch))
            for writer, branch in enumerate(["main", "fix"])
        ),
        *(
            context.Process(target=merge_branches, args=(url, into, other, COMMITS))
            for into, other in (("main", "fix"), ("fix", "main"))
        ),
    ]

    for process in processes:
        process.start()
    for process in processes:
        process.join(120)

    assert [process.exitcode for process in processes] == [0] * len(processes)
    main, fix = tl.open(url), tl.open(url, "fix")
    main.merge("fix")
    fix.merge("main")
    assert rows_of(main, ["writer", "n"]) == rows_of(fix, ["writer", "n"])
    check_rows_of_writers(main)


def check_rows_of_writers(dataset: Dataset) -> None:
    writer, n = dataset["writer"][:], dataset["n"][:]
    assert len(n) == WRITERS * COMMITS
    for one in range(WRITERS):
        assert n[writer == one].tolist() == list(range(COMMITS))
