"""A collection beside everything else: stopped, paused, twice at once, in the middle of citing.

The rules themselves are explored in tests/property/versions/collector_model/; here the
implementation is interrupted before each single request that it makes.
"""

import datetime as dt
from collections.abc import Callable

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import TensorlakeError
from tensorlake.storage import MemoryStore, Store, run
from tensorlake.testing import SimulatedCrash
from tensorlake.versions import BranchLog, collect_garbage
from tensorlake.versions.maintenance.collect import STEPS, begin_collection
from tensorlake.versions.transaction.saved_views import read_view
from tests.support.garbage import (
    Clock,
    InterruptedStore,
    content_of,
    contents,
    copy_of,
    needed_paths,
    pack_paths,
)
from tests.support.handles import create_on, open_on, rows_of, wait_for_storage

REQUESTS_MAX = 400
"""More than any operation here makes: an endless loop of a test would be one of ours."""


def a_lake(clock: Clock) -> MemoryStore:
    """Branches live and ended, a tag on each, versions given up, and packs that nobody needs."""
    store = MemoryStore(clock=clock)
    main = create_on(store, {"x": "int64", "text": "str"})
    for number in range(3):
        main.extend({"x": [number] * 4, "text": [f"row {number}"] * 4})
        main.commit(f"rows {number}")
    dev = main.branch("dev")
    dev["x"][:] = -1
    dev.commit("changed")
    dev.tag("v1")
    dev["text"][:] = "new"
    dev.commit("changed again")
    gone = main.branch("gone")
    gone.append({"x": 100, "text": "kept by a tag"})
    gone.commit("tagged")
    gone.tag("last of gone")
    gone.append({"x": 101, "text": "lost"})
    gone.commit("not tagged")
    main.delete_branch("gone")
    main["x"][:] = 7
    main.commit("sevens")
    main.optimize()
    main.expire(keep_last=1)
    writer = open_on(store)
    writer.append({"x": 1, "text": "conflicting"})
    writer["x"][0] = 8
    main["x"][0] = 9
    main.commit("nine")
    with pytest.raises(tl.ConflictError):
        writer.commit("never")  # its packs stay
    writer.discard()
    return store


def collect(store: Store) -> None:
    run(collect_garbage(store))


def is_clean(store: Store) -> bool:
    return pack_paths(store) == needed_paths(store)


@pytest.mark.slow
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_a_collector_that_dies_before_any_request_harms_nothing_and_another_completes(step):
    """format.md 16 and 39."""
    clock = Clock()
    origin = a_lake(clock)
    expected = contents(origin)
    clock.pass_grace()
    for number in range(0, REQUESTS_MAX, step):
        store = copy_of(origin, clock)
        dying = InterruptedStore(store, at=number, action=_die)
        try:
            collect(dying)
        except SimulatedCrash:
            pass
        else:
            break

        clock.now += dt.timedelta(minutes=2)
        collect(store)
        assert contents(store) == expected, f"before request {number}"
        assert is_clean(store)
        assert not [key for key in store._objects if key.startswith("gc/")] or number < 5

    assert number > 40, "every request of a collection was the last of one"


def _die() -> None:
    raise SimulatedCrash


@pytest.mark.slow
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)])
def test_a_collector_asleep_before_any_request_while_another_runs_harms_nothing(step):
    """format.md 39: two at once; the clock goes on, and commits come, while one sleeps."""
    origin_clock = Clock()
    origin = a_lake(origin_clock)
    now = origin_clock.now
    for number in range(0, REQUESTS_MAX, step):
        clock = Clock(now)
        store = copy_of(origin, clock)
        clock.pass_grace()

        def meanwhile(store: MemoryStore = store, clock: Clock = clock) -> None:
            main = open_on(store)
            main["x"][1] = 1000
            main.commit("meanwhile")
            main.expire(keep_last=1)
            clock.pass_grace()
            collect(store)

        sleeping = InterruptedStore(store, at=number, action=meanwhile)
        collect(sleeping)

        dev = rows_of(open_on(store, "dev"))
        assert dev == rows_of(open_on(origin, "dev"))
        assert open_on(store, "v1")["x"][:].tolist() == [-1] * 12
        assert open_on(store, "last of gone")["x"][:].tolist()[-1] == 100
        x = open_on(store)["x"][:].tolist()
        assert x == [9, 1000, *[7] * 10] or (sleeping.requests <= number and x[1] == 7)
        clock.pass_grace()
        collect(store)
        assert is_clean(store)
        if sleeping.requests <= number:
            break

    assert number > 40


def tag_it(dataset: Dataset) -> None:
    dataset.at("dev@2").tag("new")


def view_it(dataset: Dataset) -> None:
    dataset.at("dev@2")[[3, 1, 1]].save("new")


def branch_it(dataset: Dataset) -> None:
    dataset.branch("new", at="dev@2")


def restore_it(dataset: Dataset) -> None:
    dataset.restore("dev@2")


def merge_it(dataset: Dataset) -> None:
    dataset.merge("dev@2", on_conflict="theirs")


def end_it(store: Store) -> None:
    open_on(store).delete_branch("dev")


def expire_it(store: Store) -> None:
    open_on(store).expire(keep_last=1)


CITING: list[Callable[[Dataset], None]] = [tag_it, view_it, branch_it, restore_it, merge_it]
GIVING_UP: list[Callable[[Store], None]] = [end_it, expire_it]
PAIRS = [
    pytest.param(cite, give_up, marks=pytest.mark.slow if (number + other) % 2 else ())
    for number, cite in enumerate(CITING)
    for other, give_up in enumerate(GIVING_UP)
]
"""Every way to cite, and every way to give up; each pair of them in the slow suite."""


def a_small_lake(clock: Clock) -> MemoryStore:
    """Of dev@2 and dev@3 each has chunks that no other version refers to."""
    store = MemoryStore(clock=clock)
    main = create_on(store, {"x": "int64"})
    main.extend({"x": np.arange(5)})
    main.commit("rows")
    dev = main.branch("dev")
    dev["x"][:] = [3, 1, 4, 1, 5]
    dev.commit("only here")
    dev["x"][:] = 0
    dev.commit("other chunks")
    return store


@pytest.mark.parametrize("is_asleep", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("cite", "give_up"), PAIRS)
def test_citing_while_the_version_is_swept_is_valid_or_an_error(cite, give_up, is_asleep):
    """format.md 15 and 40: before each request of the citing, all of a sweep.

    The version is old enough to be collected; whoever is asleep is overtaken by the grace time too.
    """
    origin_clock = Clock()
    origin = a_small_lake(origin_clock)
    outcomes = set()
    for number in range(REQUESTS_MAX):
        clock = Clock(origin_clock.now)
        store = copy_of(origin, clock)
        clock.pass_grace()

        def sweep(store: MemoryStore = store, clock: Clock = clock) -> None:
            give_up(store)
            if is_asleep:
                clock.pass_grace()
            collect(store)

        interrupted = InterruptedStore(store, at=number, action=sweep)
        try:
            cite(open_on(interrupted))
            outcomes.add("valid")
        except TensorlakeError as error:
            outcomes.add(type(error).__name__)
        wait_for_storage()  # the last request of a commit may be the one before which all is swept

        contents(store)  # all that must be readable is
        clock.pass_grace()
        collect(store)
        contents(store)
        views = open_on(store).views
        assert [rows_of(views[name]) for name in views] == [
            [{"x": value} for value in (1, 1, 1)] for _ in views
        ]
        assert is_clean(store)
        if interrupted.requests <= number:
            break

    assert "valid" in outcomes
    assert len(outcomes) > 1, "a sweep must have come too early for some"


@pytest.mark.slow
@pytest.mark.parametrize(("cite", "give_up"), PAIRS)
def test_a_sweep_with_a_citing_between_any_of_its_steps_takes_nothing_of_it(cite, give_up):
    """format.md 15 and 40: before each step of the collector, all of the citing, then giving up."""
    origin_clock = Clock()
    origin = a_small_lake(origin_clock)
    for at in range(len(STEPS) + 1):
        clock = Clock(origin_clock.now)
        store = copy_of(origin, clock)
        clock.pass_grace()
        collection = run(begin_collection(store))
        for number, step in enumerate([*STEPS, None]):
            if number == at:
                cite(open_on(store))
                give_up(store)
            if step is not None:
                run(_take(step, collection))

        contents(store)
        views = open_on(store).views
        for name in views:
            assert [row["x"] for row in rows_of(views[name])] == [1, 1, 1]


@pytest.mark.parametrize("give_up", [end_it, pytest.param(expire_it, marks=pytest.mark.slow)])
def test_what_is_published_between_two_listings_is_seen_by_one_of_them(give_up):
    """format.md 40: a branch whose pin is gone when tags are listed is among the heads."""
    origin_clock = Clock()
    origin = a_small_lake(origin_clock)
    made = 0
    for number in range(REQUESTS_MAX):
        for stop in range(3, 6):
            clock = Clock(origin_clock.now)
            store = copy_of(origin, clock)
            clock.pass_grace()
            collection = run(begin_collection(store))

            def begin(store=store, collection=collection, stop=stop) -> None:
                give_up(store)
                for step in STEPS[:stop]:
                    run(_take(step, collection))

            interrupted = InterruptedStore(store, at=number, action=begin)
            try:
                branch_it(open_on(interrupted))
                made += 1
            except TensorlakeError:
                pass
            if interrupted.requests <= number:
                break
            for step in STEPS[stop:]:
                run(_take(step, collection))

            contents(store)
        if interrupted.requests <= number:
            break

    assert made > 3


async def _take(step, collection) -> None:
    await step(collection)


def test_a_branch_that_ends_while_a_writer_commits_leaves_one_of_them_failed():
    """format.md 17, with a collection right after."""
    origin_clock = Clock()
    origin = a_small_lake(origin_clock)
    for number in range(REQUESTS_MAX):
        clock = Clock(origin_clock.now)
        store = copy_of(origin, clock)

        def end(store: MemoryStore = store, clock: Clock = clock) -> None:
            end_it(store)
            clock.pass_grace()
            collect(store)

        interrupted = InterruptedStore(store)
        writer = open_on(interrupted, "dev")
        writer.append({"x": 5})
        interrupted._at, interrupted._action = interrupted.requests + number, end
        before = interrupted.requests
        try:
            writer.commit("in time?")
            has_committed = True
        except TensorlakeError:
            has_committed = False
            writer.discard()
        wait_for_storage()

        is_over = interrupted.requests - before <= number
        log = [commit.message for commit in open_on(store, "dev").log(1)]
        assert (log == ["in time?"]) == has_committed
        contents(store)
        if is_over:
            break


@pytest.mark.slow  # dozens of commits, and a schema of 150 tensors
def test_every_kind_of_reference_survives_collections():
    """format.md 18: all kinds, the clock moved past grace, everything read in full."""
    clock = Clock()
    store = MemoryStore(clock=clock)
    main = create_on(
        store,
        {
            "x": "int64",
            "text": tl.Text(nullable=True),
            "boxes": tl.Array("float32", shape=(None, 4)),
            "image": tl.Image(codec="png"),
            "vector": tl.Embedding(16),
            "label": tl.ClassLabel(["a", "b"]),
        },
    )
    random = np.random.default_rng(0)
    for number in range(30):
        main.extend(
            {
                "x": [number, -number],
                "text": [f"text {number}", None],
                "boxes": [random.random((number % 3, 4)), np.zeros((1, 4))],
                "image": random.integers(0, 255, (2, 4, 5, 3)).astype(np.uint8),
                "vector": random.random((2, 16)),
                "label": ["a", "b"],
            }
        )
        main.commit(f"batch {number}")
    main.add_tensor("later", "float32", fill=0.5)
    main["later"][7] = 2.0
    main["x"][10:20] = 5
    main.delete([0, 3, 33])
    main.commit("changes")
    wide = main.branch("wide")
    for number in range(150):
        wide.add_tensor(f"wide {number:03}", "int8", fill=number % 100)
    wide.commit("so many that the schema is a page")
    assert run(BranchLog(store, "wide").head()).spilled
    assert any(root.children for root in run(BranchLog(store, "main").head()).roots.values())
    main.tag("v1")
    main[random.integers(0, len(main), 6000)].save("big")  # so scattered that its rows have pages
    assert run(read_view(store, "big")).rows.children
    fix = main.branch("fix", at="main@15")
    fix["label"][:] = "b"
    fix.commit("all b")
    main.merge("fix", on_conflict="ours")
    main.restore("main@20")
    main.optimize()
    expected = contents(store)
    big = content_of(main.views["big"])
    for _ in range(2):
        clock.pass_grace()
        collect(store)
        clock.pass_grace()

    assert contents(store) == expected
    assert content_of(open_on(store).views["big"]) == big
    assert is_clean(store)
    main.expire(keep_last=1)
    collect(store)
    for name in ("v1", "wide@2", main.version):
        assert content_of(open_on(store, name)) == expected[name]
    assert content_of(open_on(store).views["big"]) == big
    assert is_clean(store)
