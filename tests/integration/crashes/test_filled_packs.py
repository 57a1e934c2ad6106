"""Packs that are written while they are filled: kills, full disks, collectors, other threads."""

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.errors import StorageError, TransactionExpiredError
from tensorlake.format import read_directory
from tensorlake.storage import LocalStore, parallel_map
from tensorlake.storage.stores import local
from tensorlake.versions.packs import chunk_builder as pending
from tensorlake.versions.packs import streaming as filled_packs
from tensorlake.versions.packs import writer as stage
from tests.support.filling import ROWS, SMALL, create, fill, numbers_of, pack_files, rows
from tests.support.handles import open_on, wait_for_storage
from tests.support.interrupts import interrupted_at
from tests.support.writers import fork_server

PATIENCE_S = 120
LONG_AGO = 1_000_000_000


@pytest.fixture(autouse=True)
def small_packs(monkeypatch) -> None:
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)


def scratch_files(folder: Path) -> list[Path]:
    return [*(folder / ".tmp").iterdir()]


def filled_in_a_process(folder: Path, killed_at: int | None = None) -> int | None:
    context = fork_server()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=fill, args=(str(folder), sender, killed_at))
    process.start()
    sender.close()
    process.join(PATIENCE_S)
    assert process.exitcode in {0, -signal.SIGKILL}
    return int(receiver.recv()) if process.exitcode == 0 else None


@pytest.mark.slow
def test_a_kill_at_any_write_leaves_all_rows_or_none_and_no_half_pack(tmp_path):
    create(LocalStore(tmp_path / "whole")).close()
    writes = filled_in_a_process(tmp_path / "whole")
    assert writes is not None
    assert writes > 10
    for at in range(1, writes + 1):
        folder = tmp_path / str(at)
        create(LocalStore(folder)).close()

        assert filled_in_a_process(folder, at) is None

        with tl.open(folder) as dataset:
            kept = numbers_of(dataset)
            assert kept in ([], [*range(1 + ROWS)]), f"killed at write {at}"
            for pack in pack_files(folder):
                read_directory(pack.read_bytes(), where=pack.name)
            for left in scratch_files(folder):
                os.utime(left, (LONG_AGO, LONG_AGO))
            dataset.extend(rows(100, 100 + ROWS))
            dataset.commit("after")
            assert numbers_of(dataset) == [*kept, *range(100, 100 + ROWS)]
            assert dataset.check().ok
        assert scratch_files(folder) == []


@pytest.mark.parametrize("call", ["writev", "open", "link"])
def test_a_full_disk_at_any_call_leaves_what_was_staged_before(tmp_path, monkeypatch, call):
    """The operating system fails, not our code."""
    number, has_failed = 1, True
    while has_failed:
        folder = tmp_path / str(number)
        dataset = create(LocalStore(folder, durability="none"))
        dataset.extend(rows(0, 2))
        wait_for_storage()
        real, calls, lock = getattr(os, call), 0, threading.Lock()

        def failing(*arguments, real=real, lock=lock, number=number):
            nonlocal calls
            with lock:
                calls += 1
                is_full = calls == number
            if is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)

        has_failed = False
        with monkeypatch.context() as patched:
            patched.setattr(os, call, failing)
            try:
                dataset.extend(rows(2, 2 + ROWS))
            except StorageError:
                has_failed = True
        expected = 2 if has_failed else 2 + ROWS
        assert numbers_of(dataset) == [*range(expected)], f"call {number}"
        assert scratch_files(folder) == []

        dataset.commit("staged before")
        read = open_on(LocalStore(folder))
        assert numbers_of(read) == [*range(expected)]
        assert read.check().ok
        number += 1
    assert number > 3


def test_a_failed_sync_of_filled_packs_publishes_nothing_and_writes_them_again(
    tmp_path, monkeypatch
):
    dataset = create(LocalStore(tmp_path))
    dataset.extend(rows(0, ROWS))
    filled = pack_files(tmp_path)
    assert len(filled) >= 2

    def refused(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refused)
        with pytest.raises(StorageError, match="check the disk"):
            dataset.commit()
    assert len(open_on(LocalStore(tmp_path))) == 0
    dataset.commit()

    for pack in filled:  # nothing rests on what may not be on disk
        pack.unlink()
    assert numbers_of(open_on(LocalStore(tmp_path))) == [*range(ROWS)]


def test_an_entry_is_published_after_its_filled_packs_are_on_disk(tmp_path, monkeypatch):
    dataset = create(LocalStore(tmp_path))
    synced: list[int] = []
    at_entry: list[set[int]] = []
    link = os.link

    def linked(source: str, target: str) -> None:
        if "/branches/main/" in target:
            at_entry.append(set(synced))
        link(source, target)

    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    monkeypatch.setattr(os, "link", linked)
    dataset.extend(rows(0, ROWS))
    packs = pack_files(tmp_path)
    assert len(packs) >= 2
    dataset.commit()

    assert {pack.stat().st_ino for pack in packs} <= at_entry[-1]


def test_the_first_pack_is_stored_first_and_no_other_is_older(tmp_path, monkeypatch):
    """What a collector does not see as old, it takes nothing of (format.md, "Garbage", rule 1)."""
    dataset = create(LocalStore(tmp_path, durability="none"))
    stored: list[str] = []
    link = os.link

    def linked(source: str, target: str) -> None:
        link(source, target)
        stored.append(target)

    monkeypatch.setattr(os, "link", linked)
    for start in (0, ROWS):
        dataset.append({"x": rows(start, start + 1)["x"][0]})  # it waits in a pack of its own
        dataset.extend(rows(start + 1, start + ROWS))
    dataset.commit()

    packs = pack_files(tmp_path)
    assert len(packs) >= 5
    assert next(name for name in stored if "/packs/" in name) == str(packs[0])
    oldest = packs[0].stat().st_mtime_ns
    assert all(pack.stat().st_mtime_ns >= oldest for pack in packs)
    assert numbers_of(open_on(LocalStore(tmp_path))) == [*range(2 * ROWS)]


@pytest.mark.parametrize("call", ["writev", "link"])
def test_a_collection_next_to_half_written_packs_takes_nothing_of_them(tmp_path, monkeypatch, call):
    dataset = create(LocalStore(tmp_path, durability="none"))
    dataset.extend(rows(0, 1))
    dataset.commit("first")
    real, lock = getattr(os, call), threading.Lock()
    left: list[int] = [3]
    reports: list[object] = []

    def collecting(*arguments):
        with lock:
            left[0] -= 1
            is_now = left[0] == 0
        if is_now:
            reader = open_on(LocalStore(tmp_path, durability="none"))
            reports.append(reader.gc().deleted_packs)
            assert numbers_of(reader) == [0]
        return real(*arguments)

    monkeypatch.setattr(os, call, collecting)
    dataset.extend(rows(1, 1 + 2 * ROWS))
    dataset.commit("second")

    assert reports == [0]
    read = open_on(LocalStore(tmp_path))
    assert numbers_of(read) == [*range(1 + 2 * ROWS)]
    assert read.check().ok


def test_packs_filled_longer_ago_than_grace_are_collected_and_never_published(tmp_path):
    dataset = create(LocalStore(tmp_path, durability="none"))
    dataset.extend(rows(0, ROWS))
    filled = pack_files(tmp_path)
    for pack in filled:
        os.utime(pack, (LONG_AGO, LONG_AGO))

    open_on(LocalStore(tmp_path)).gc()

    assert not any(pack.exists() for pack in filled)
    with pytest.raises(TransactionExpiredError):
        dataset.commit()
    assert len(open_on(LocalStore(tmp_path))) == 0


def test_an_array_that_another_thread_fills_meanwhile_is_stored_whole_and_sound(tmp_path):
    dataset = create(LocalStore(tmp_path, durability="none"))
    values = rows(0, 40 * ROWS)["x"]
    is_over = threading.Event()

    def fill_again() -> None:
        value = 0
        while not is_over.is_set():
            value = (value + 1) % 251
            values[:] = value

    thread = threading.Thread(target=fill_again)
    thread.start()
    try:
        for _ in range(3):
            dataset.extend({"x": values})
    finally:
        is_over.set()
        thread.join(PATIENCE_S)
    dataset.commit()

    assert open_on(LocalStore(tmp_path)).check().ok


@pytest.mark.slow
@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_an_interrupt_at_any_step_leaves_all_rows_or_none_and_no_file(tmp_path, stride):
    within = frozenset(module.__file__ for module in (stage, filled_packs, pending, local)) | {
        parallel_map.__code__.co_filename
    }
    step, was_interrupted = 1, True
    while was_interrupted:
        folder = tmp_path / str(step)
        dataset = create(LocalStore(folder, durability="none"))
        dataset.append({"x": rows(0, 1)["x"][0]})

        def act(dataset=dataset) -> None:
            dataset.extend(rows(1, 1 + ROWS))

        was_interrupted = interrupted_at(step, act, within=within)
        wait_for_storage()
        kept = 1 if was_interrupted else 1 + ROWS
        dataset.extend(rows(kept, kept + ROWS))
        dataset.commit()

        read = open_on(LocalStore(folder))
        assert numbers_of(read) == [*range(kept + ROWS)], f"interrupted at step {step}"
        assert read.check().ok
        assert scratch_files(folder) == [], f"interrupted at step {step}"
        step += stride
    assert step > 100
