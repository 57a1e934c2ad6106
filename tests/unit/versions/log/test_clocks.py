"""Wrong clocks: of writers, of whoever expires, of files (D1). The store's clock is the one."""

import datetime as dt
import os
import time
import warnings
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.errors import VersionNotFoundError
from tensorlake.format import Changes, Entry, entry_path, new_txid
from tensorlake.storage import FIRST_STORED, LocalStore, MemoryStore, runtime
from tensorlake.versions import BranchLog
from tensorlake.versions.log.entries import following, microseconds
from tests.support.garbage import NOON, Clock
from tests.support.handles import create_on, open_on

DAY, HOUR, YEAR = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(days=365)
SCHEMA = {"x": "int64"}


def commit(dataset: tl.Dataset, x: int) -> str:
    dataset.append({"x": x})
    return dataset.commit(str(x)).version


def publish_at(store: MemoryStore, when: dt.datetime) -> str:
    """Commit as a writer of 0.1.0 did, by a clock of its own."""

    async def published() -> Entry:
        log = BranchLog(store, "main")
        head = await log.head()
        assert head is not None
        entry = following(
            head,
            branch="main",
            now=microseconds(when),
            kind="commit",
            txid=new_txid(),
            author="late@laptop",
            message="by a wrong clock",
            changes=Changes(),
        )
        done = await log.publish(entry)
        assert isinstance(done, Entry)
        await log.write_hint(done)
        return done

    return f"main@{runtime.run(published()).seq}"


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    """A store whose clock stands months behind that of this machine."""
    store = MemoryStore(clock=clock)
    create_on(store, SCHEMA)
    return store


# What is written


def test_commits_of_any_kind_carry_the_store_s_time(store, clock):
    dataset = open_on(store)
    commit(dataset, 1)
    clock.now += HOUR
    dataset.branch("fix").close()
    dataset.delete([0])
    dataset.commit("no pack")
    dataset.expire(keep_last=1)
    dataset.optimize()
    dataset.delete_branch("fix")

    for branch in ("main", "fix"):
        entries = runtime.run(BranchLog(store, branch).all_after(-1))
        times = [entry.time for entry in entries]
        assert times == sorted(times)
        assert all(microseconds(NOON) < one < microseconds(NOON + 2 * HOUR) for one in times)


def test_a_commit_in_a_folder_carries_the_folder_s_time_and_its_writer_is_warned(
    tmp_path: Path, monkeypatch
):
    """A machine that is a year ahead: whatever is written is dated by the file system."""
    dataset = tl.create(tmp_path / "lake", SCHEMA)
    started = dt.datetime.now(dt.UTC)
    right = time.time_ns
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time_ns", lambda: right() + int(YEAR.total_seconds()) * 10**9)
        with pytest.warns(tl.WrongClockWarning, match="365 days.* ahead of that of .*lake"):
            commit(dataset, 1)
        with warnings.catch_warnings(action="error"):
            commit(dataset, 2)  # told once

    assert commit(tl.open(tmp_path / "lake"), 3) == "main@3"
    times = [one.time for one in tl.open(tmp_path / "lake").log()]
    assert times == sorted(times, reverse=True)
    assert all(abs(one - started) < HOUR for one in times)
    assert tl.open(tmp_path / "lake").check().findings == ()


# What is read


def test_one_commit_by_a_clock_a_year_ahead_hides_no_later_one(store, clock):
    commit(open_on(store), 1)
    before = clock()
    wrong = publish_at(store, NOON + YEAR)
    clock.now += HOUR
    later = [commit(open_on(store), x) for x in range(3)]

    now = open_on(store, "main").at(clock())

    assert now.version == later[-1]
    assert open_on(store).at(before).version == "main@1"
    assert open_on(store).at(clock.now - HOUR / 2).version == wrong
    log = open_on(store).log()
    assert [one.time for one in log] == sorted((one.time for one in log), reverse=True)
    assert all(one.time < NOON + 2 * HOUR for one in log)
    told = [one for one in open_on(store).check().findings if "future" in one.what]
    assert [one.object for one in told] == [entry_path("main", 2)]  # the others only followed
    assert "its store dates it 2026-01-01 12:00" in told[0].what
    assert "late@laptop" in told[0].advice


@pytest.mark.parametrize(
    "wrong",
    [{0}, {3}, {1, 2, 3, 4}, {0, 1, 2}, set(range(2, 20))],
    ids=["first", "one", "some", "from the first on", "most"],
)
def test_a_disk_that_had_the_wrong_clock_too_hides_no_later_version(clock, wrong):
    """A machine on its own, a year ahead for a while: its files are dated by the same clock."""
    store = MemoryStore(clock=clock)
    marks = []
    for number in range(24):
        clock.now = NOON + number * HOUR + YEAR * (number in wrong)
        if number == 0:
            create_on(store, SCHEMA)
        else:
            publish_at(store, clock.now)
        marks.append(NOON + number * HOUR + HOUR / 2)

    times = [one.time for one in open_on(store).log()]
    assert times == sorted(times, reverse=True)
    assert times[0] < NOON + 24 * HOUR
    for number, mark in enumerate(marks):
        known = max((one for one in range(number + 1) if one not in wrong), default=None)
        if known is None:
            with pytest.raises(VersionNotFoundError, match="nothing as old"):
                open_on(store).at(mark)
        else:
            assert open_on(store).at(mark).version == f"main@{known}"


def test_a_time_within_the_second_that_a_store_says_counts_as_it_is():
    clock = Clock(NOON + dt.timedelta(milliseconds=600))
    store = MemoryStore(clock=lambda: clock().replace(microsecond=0))  # as S3 dates objects
    create_on(store, SCHEMA)
    version = publish_at(store, NOON + dt.timedelta(milliseconds=700))

    assert open_on(store).at(NOON + dt.timedelta(milliseconds=650)).version == "main@0"
    assert open_on(store).at(NOON + dt.timedelta(milliseconds=750)).version == version


def test_a_copy_answers_as_its_source_did(store, clock, tmp_path):
    marks = []
    for x in range(3):
        commit(open_on(store), x)
        marks.append(clock())
        clock.now += DAY
    target = MemoryStore(clock=lambda: NOON + YEAR)

    runtime.run(tl.versions.copy_dataset(store, target))

    for number, mark in enumerate(marks):
        assert open_on(target).at(mark).version == f"main@{number + 1}"
    with pytest.raises(VersionNotFoundError, match="nothing as old"):
        open_on(target).at(NOON - DAY)


def test_files_dated_before_there_were_datasets_say_nothing(tmp_path):
    dataset = tl.create(tmp_path / "lake", SCHEMA)
    marks = []
    for x in range(3):
        commit(dataset, x)
        marks.append(dt.datetime.now(dt.UTC))
    for path in (tmp_path / "lake").rglob("*.*"):
        os.utime(path, (0, 0))  # as archives with reproducible bytes are unpacked

    again = tl.open(tmp_path / "lake")
    assert [again.at(mark).version for mark in marks] == ["main@1", "main@2", "main@3"]
    assert str(again.expire(older_than="1h")) == "no version is old enough to expire"


# What is given up


@pytest.mark.parametrize("off", [-YEAR, -DAY, DAY, YEAR], ids=str)
def test_expire_measures_age_by_the_store_s_clock(off):
    """The machine's clock is off by so much; that of the store is what counts."""
    clock = Clock(dt.datetime.now(dt.UTC) - off)
    store = MemoryStore(clock=clock)
    dataset = create_on(store, SCHEMA)
    for x in range(3):
        commit(dataset, x)

    assert dataset.expire(older_than="1h").given_up == ()
    clock.now += 2 * HOUR
    commit(dataset, 4)
    dry = dataset.expire(older_than="1h", dry_run=True)
    done = dataset.expire(older_than="1h")

    assert dry.given_up == done.given_up
    assert [str(one) for one in done.given_up] == ["main@0 … main@2"]


@pytest.mark.parametrize("off", [-DAY, YEAR], ids=str)
def test_versions_of_a_writer_with_a_wrong_clock_are_as_old_as_the_store_says(store, clock, off):
    clock.now += 2 * DAY  # so that a clock that is behind is still later than what was there
    for _ in range(3):
        publish_at(store, clock() + off)

    assert open_on(store).expire(older_than="1h").given_up == ()
    clock.now += 2 * HOUR
    assert [str(one) for one in open_on(store).expire(older_than="1h").given_up] == [
        "main@0 … main@2"
    ]


def test_history_that_was_copied_is_as_old_as_it_says(store, clock):
    for x in range(3):
        commit(open_on(store), x)
        clock.now += 10 * DAY
    target = MemoryStore(clock=clock)
    runtime.run(tl.versions.copy_dataset(store, target))

    given_up = open_on(target).expire(older_than="15d").given_up

    assert [str(one) for one in given_up] == ["main@0 … main@1"]


# What else a clock decided


def test_a_machine_ahead_removes_no_file_that_another_is_writing(tmp_path: Path, monkeypatch):
    ours = LocalStore(tmp_path)
    file = ours.write_unseen("packs/aa/x.tlp", [])
    right = time.time_ns
    monkeypatch.setattr(time, "time", lambda: right() / 1e9 + 10 * DAY.total_seconds())
    monkeypatch.setattr(time, "time_ns", lambda: right() + 10 * int(DAY.total_seconds()) * 10**9)
    with pytest.warns(tl.WrongClockWarning):
        runtime.run(LocalStore(tmp_path).now())
    runtime.run(LocalStore(tmp_path).put_if_absent("other", b""))

    ours.show("packs/aa/x.tlp", file, [b"whole"])

    assert (tmp_path / "packs/aa/x.tlp").read_bytes() == b"whole"


def test_the_first_store_time_that_counts_is_of_the_year_of_the_format():
    assert dt.datetime.fromtimestamp(FIRST_STORED / 1e6, dt.UTC).isoformat() == (
        "2026-01-01T00:00:00+00:00"
    )
