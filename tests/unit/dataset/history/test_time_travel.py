"""Opening versions by number, tag and time, and what is said of those there are not."""

import datetime as dt
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.format import Entry, entry_path, head_path
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import CountingStore
from tensorlake.versions import BranchLog, create_dataset, fence_of
from tensorlake.versions.log.by_time import newest_at
from tensorlake.versions.log.fences import append_fence
from tests.support.handles import create_on, open_on

_names = itertools.count()
SECOND = dt.timedelta(seconds=1)


@pytest.fixture
def ds():
    ds = tl.create(f"memory://time-travel-{next(_names)}", {"x": "int64"})
    for number in range(1, 6):
        ds.append({"x": number})
        ds.commit(f"row {number}")
    return ds


def times(ds) -> dict[str, dt.datetime]:
    return {commit.version: commit.time for commit in ds.log()}


@pytest.mark.parametrize("number", range(6))
def test_a_number_opens_that_commit(ds, number):
    then = tl.open(ds.url, f"main@{number}")

    assert (then.version, len(then)) == (f"main@{number}", number)
    with pytest.raises(tl.ReadOnlyError):
        then.append({"x": 0})


@pytest.mark.parametrize("number", range(6))
def test_a_time_opens_the_newest_commit_of_then(ds, number):
    when = times(ds)[f"main@{number}"]

    assert tl.open(ds.url, when).version == f"main@{number}"
    if number:
        assert tl.open(ds.url, when - dt.timedelta(microseconds=1)).version == f"main@{number - 1}"


def test_a_later_time_opens_the_head_and_an_earlier_none(ds):
    now = dt.datetime.now(dt.UTC)

    assert tl.open(ds.url, now + SECOND).version == "main@5"
    with pytest.raises(tl.VersionNotFoundError, match="nothing as old as"):
        tl.open(ds.url, times(ds)["main@0"] - SECOND)


LAST = 10_000


@pytest.fixture(scope="module")
def long_log() -> tuple[CountingStore, Entry]:
    """A log of 10,000 entries, 10 µs apart, and the first of them."""
    store = CountingStore(MemoryStore())
    created = create_dataset(store, {"tensors": []}, grace_s=86_400, exist_ok=False)
    first = run(created).entry

    async def fill() -> None:
        for seq in range(1, LAST + 1):
            entry = replace(first, seq=seq, time=first.time + 10 * seq)
            await store.put_if_absent(entry_path("main", seq), entry.to_bytes())

    run(fill())
    return store, first


@pytest.mark.parametrize("hint", [LAST, None, LAST + 5, 17])
def test_a_moment_of_a_long_log_is_found_whatever_the_hint_says(long_log, hint):
    """format.md 31 and 41: four round trips; a wrong hint costs more, never truth."""
    store, first = long_log
    log = BranchLog(store, "main")
    run(store.delete(head_path("main")))
    if hint is not None:
        run(log.write_hint(replace(first, seq=hint)))

    for seq in (0, 1, 16, 4321, LAST - 1, LAST):
        store.reset()
        found = run(newest_at(log, first.time + 10 * seq + 9))
        assert found.newest is not None
        assert (found.newest.seq, found.head and found.head.seq) == (seq, LAST)
        if hint == LAST:
            assert store.round_trips <= 4
            assert store.count() <= 5 + 3 * 32
    assert run(newest_at(log, first.time - 1)).newest is None


def test_a_time_in_any_zone_is_the_same_time(ds):
    when = times(ds)["main@3"]

    assert tl.open(ds.url, when.astimezone(dt.timezone(dt.timedelta(hours=-7)))).version == "main@3"


def test_a_time_without_a_zone_is_refused(ds):
    with pytest.raises(tl.InvalidInputError, match="time zone"):
        tl.open(ds.url, dt.datetime(2026, 1, 1))  # noqa: DTZ001 - the naive time is the point


def test_a_handle_looks_for_a_time_on_its_own_branch(ds):
    side = ds.branch("side", at="main@2")
    side.append({"x": 100})
    side.commit("beside")
    side.append({"x": 101})
    side.commit("beside again")
    when = times(side)["side@2"]

    assert side.at(when).version == "side@2"
    assert ds.at(when).version == "main@5"
    assert tl.open(ds.url, when).version == "main@5"
    side.tag("then", at=when)
    assert ds.tags["then"].version == "side@2"


def test_a_time_before_a_branch_names_where_it_came_from(ds):
    side = ds.branch("side", at="main@2")

    with pytest.raises(tl.VersionNotFoundError, match=r"side@1.*\n.*ds\.at\('main'\)\.at\(time\)"):
        side.at(times(ds)["main@2"])


def test_a_time_among_fences_opens_the_commit_they_stand_on():
    from tensorlake.format import Fence
    from tensorlake.storage import MemoryStore, run

    ds = create_on(store := MemoryStore(), {"x": "int64"})
    ds.append({"x": 1})
    ds.commit()
    for t in range(1, 4):
        log = BranchLog(store, "main")
        run(append_fence(log, run(log.head()), Fence(t=t)))
    fenced = run(BranchLog(store, "main").head())
    assert fence_of(fenced).t == 3

    then = open_on(store).at(dt.datetime.now(dt.UTC) + SECOND)

    assert then.version == "main@1"
    assert len(then) == 1


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        (7, "version='main@7'"),
        (np.int64(3), "version='main@3'"),
        (True, "aware datetime"),
        (2.0, "aware datetime"),
        (dt.date(2026, 1, 1), "aware datetime"),
        (b"main", "aware datetime"),
    ],
    ids=repr,
)
def test_what_names_no_version_is_refused_with_the_right_way(ds, version, hint):
    for opened in (lambda: tl.open(ds.url, version), lambda: ds.at(version)):
        with pytest.raises(tl.InvalidInputError, match=hint):
            opened()


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("7", "did you mean 'main@7'"),
        ("main@99", "the newest of 'main' is main@5"),
        ("main@-1", "the newest of 'main' is main@5"),
        ("mian", "did you mean 'main'"),
        ("mian@2", "did you mean 'main'"),
    ],
)
def test_a_version_that_is_not_there_names_what_is(ds, version, hint):
    with pytest.raises(tl.VersionNotFoundError, match=hint):
        tl.open(ds.url, version)


def test_a_version_of_a_dataset_that_was_created_again_is_not_found(ds):
    tl.delete(ds.url, confirm=ds.url)
    tl.create(ds.url, {"x": "int64"})

    with pytest.raises(tl.VersionNotFoundError, match="the newest of 'main' is main@0"):
        tl.open(ds.url, "main@1")


def test_a_pickled_handle_of_a_dataset_that_was_created_again_is_not_found(ds):
    """The same number is another version: its digest tells."""
    pickled = pickle.dumps(ds.at("main@1")), pickle.dumps(ds.take(1))
    tl.delete(ds.url, confirm=ds.url)
    again = tl.create(ds.url, {"x": "int64"})
    for x in range(100, 106):
        again.append({"x": x})
        again.commit()

    for one in pickled:
        with pytest.raises(tl.VersionNotFoundError, match="deleted and created again"):
            pickle.loads(one)


def test_a_view_of_a_dataset_that_was_created_again_is_not_saved(ds):
    view = ds.take(1)
    tl.delete(ds.url, confirm=ds.url)
    again = tl.create(ds.url, {"x": "int64"})
    for x in range(5):
        again.append({"x": x})
        again.commit()

    with pytest.raises(tl.DatasetNotFoundError, match="deleted and created again"):
        view.save("one")


def test_a_tag_with_a_lifetime_is_an_ordinary_tag_until_then(ds):
    expires = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    ds.tag("nightly", expires=expires, at="main@2")

    assert tl.open(ds.url, "nightly").version == "main@2"
    assert tl.open(ds.url).tags["nightly"].expires == expires
    with pytest.raises(tl.InvalidInputError, match="neither an aware datetime nor a duration"):
        ds.tag("other", expires=dt.datetime(2030, 1, 1))  # noqa: DTZ001 - as above


def test_a_tag_names_a_version_by_its_second_argument(ds):
    first = ds.log()[-1]

    assert ds.tag("v1", "main@1").version == "main@1"
    assert ds.tag("v0", first.time).version == "main@0"
    assert ds.tag("v2", at="main@2").version == "main@2"


def test_an_expiry_in_the_place_where_the_version_is_now_still_is_one(ds):
    expires = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)

    with pytest.warns(DeprecationWarning, match="ds.tag\\(name, expires=time\\)") as warned:
        tag = ds.tag("nightly", expires)

    assert (tag.version, tag.expires) == (ds.version, expires)
    assert warned[0].filename == __file__


def test_a_tag_expires_after_a_duration_and_never_in_the_past():
    ds = tl.create("memory://tag-durations", {"x": "int64"})
    before = dt.datetime.now(dt.UTC)
    for name, expires in (("a", "90d"), ("b", dt.timedelta(days=90))):
        until = ds.tag(name, expires=expires).expires
        assert until is not None
        assert dt.timedelta(days=90) <= until - before < dt.timedelta(days=91)
    with pytest.raises(tl.InvalidInputError, match="is in the past"):
        ds.tag("c", expires=before)
    assert sorted(ds.tags) == ["a", "b"]


def test_the_old_names_of_durations_are_deprecated():
    ds = tl.create("memory://follow-old-names", {"x": "int64"})
    with pytest.warns(DeprecationWarning, match="write timeout="):
        assert list(ds.follow(timeout_s=0)) == []


def test_a_tag_repairs_nothing():
    ds = tl.create("memory://tag-repairs", {"x": "int64"})
    ds.tag("v1")
    with pytest.raises(tl.ReadOnlyError, match="a repair writes"):
        ds.at("v1").repair()
