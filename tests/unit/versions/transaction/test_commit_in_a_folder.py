"""A commit in a folder: whose thread does it, and what is on disk when its entry can be seen."""

import errno
import gc
import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import StorageError
from tensorlake.storage import LocalStore
from tensorlake.storage.concurrency.runtime import stop
from tensorlake.versions.packs import streaming as filled_packs
from tests.support.handles import create_on, open_on, wait_for_storage

GENEROUS_S = 60.0


@pytest.fixture
def dataset(tmp_path) -> Generator[Dataset]:
    dataset = create_on(LocalStore(tmp_path), {"x": "int64"})
    dataset.append({"x": 0})
    dataset.commit()
    yield dataset
    wait_for_storage()


def committed(dataset: Dataset) -> list[int]:
    return open_on(session_of(dataset).store)["x"][:].tolist()


def file_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def packs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("packs/*/*.tlp"))


def watched(
    monkeypatch: pytest.MonkeyPatch, name: str, watch: Callable[..., None], *, after: bool = False
) -> None:
    """Let something see each call of a function of ``os``, before or after it is made."""
    real = getattr(os, name)

    def call(*given: Any) -> Any:
        if not after:
            watch(*given)
        done = real(*given)
        if after:
            watch(*given)
        return done

    monkeypatch.setattr(os, name, call)


def test_without_fsync_no_other_thread_takes_part(tmp_path):
    dataset = create_on(LocalStore(tmp_path, durability="none"), {"x": "int64"})
    gc.collect()  # what others left may use the loop when it ends
    stop()
    before = {*threading.enumerate()}

    dataset.append({"x": 0})
    dataset.commit()

    assert {*threading.enumerate()} <= before
    assert committed(dataset) == [0]


LARGE = 1 << 18
"""Bytes of a sample: by `fills_packs` eight of them are packs of their own."""


@pytest.mark.parametrize("rows", [1, 8])
def test_an_entry_gets_its_name_when_all_of_it_and_of_its_packs_is_on_disk(
    tmp_path, monkeypatch, rows
):
    """Contents, names, and the folders made for them: whatever a power cut spares is whole."""
    on_disk = set[Path]()
    named = dict[Path, Path]()  # scratch file, by the name it was given

    def synced(descriptor: int) -> None:
        file = file_of(descriptor)
        on_disk.add(file)
        if file.is_dir():
            on_disk.update(named[one] for one in file.iterdir() if one in named)

    def linked(scratch: str, name: str) -> None:
        named[Path(name)] = Path(f"{name} in its folder")
        if "branches" in name:
            packs = packs_in(tmp_path)
            assert Path(scratch) in on_disk
            assert {*packs, *(named[pack] for pack in packs)} <= on_disk
            assert {folder for pack in packs for folder in pack.parents[1:3]} <= on_disk
            entries.append(name)

    entries: list[str] = []
    monkeypatch.setattr(filled_packs, "FILLED_NBYTES", LARGE)
    schema = {"x": "int64", "large": tl.Array("uint8", shape=(LARGE,))}
    dataset = create_on(LocalStore(tmp_path), schema)
    watched(monkeypatch, "fsync", synced, after=True)
    watched(monkeypatch, "link", linked)

    for x in range(3):
        dataset.extend({"x": [x] * rows, "large": np.full((rows, LARGE), x, np.uint8)})
        dataset.commit()

    assert len(entries) == 3
    packs_a_commit = len(packs_in(tmp_path)) // 3
    assert packs_a_commit == 1 if rows == 1 else packs_a_commit > 1
    assert committed(dataset) == [0] * rows + [1] * rows + [2] * rows


def test_an_entry_is_brought_to_disk_while_its_pack_is(tmp_path, dataset, monkeypatch):
    """And is not seen yet. A pack that waits for the entry's fsync would else wait for ever."""
    entry_is_written = threading.Event()
    seen: list[bool] = []

    def synced(descriptor: int) -> None:
        if threading.current_thread() is threading.main_thread():
            entry_is_written.set()
        else:
            seen.append(entry_is_written.wait(GENEROUS_S))
            seen.append((tmp_path / "branches" / "main" / "0000000002.json").exists())

    watched(monkeypatch, "fsync", synced)

    dataset.append({"x": 1})
    dataset.commit()

    assert seen == [True, False] * 2  # the pack's bytes, then its name
    assert committed(dataset) == [0, 1]


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ENOSPC])
def test_a_pack_that_cannot_be_stored_leaves_no_entry_and_no_doubt(
    tmp_path, dataset, monkeypatch, code
):
    def fails(descriptor: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise OSError(code, os.strerror(code), str(file_of(descriptor)))

    dataset.append({"x": 1})
    with monkeypatch.context() as patch:
        watched(patch, "fsync", fails)
        with pytest.raises((StorageError, PermissionError), match="packs/"):
            dataset.commit()

    assert committed(dataset) == [0]
    assert [*(tmp_path / ".tmp").iterdir()] == []
    dataset.append({"x": 2})
    dataset.commit()
    assert committed(dataset) == [0, 1, 2]


def test_an_entry_that_cannot_be_written_leaves_a_pack_for_the_next_try(
    tmp_path, dataset, monkeypatch
):
    def fails(_descriptor: int) -> None:
        if threading.current_thread() is threading.main_thread():
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    dataset.append({"x": 1})
    with monkeypatch.context() as patch:
        watched(patch, "fsync", fails)
        with pytest.raises(StorageError, match="branches/main/0000000002"):
            dataset.commit()

    assert committed(dataset) == [0]
    dataset.commit()
    assert committed(dataset) == [0, 1]
    assert len(packs_in(tmp_path)) == 2


def test_a_pack_whose_sync_failed_unheard_is_written_again(tmp_path, dataset, monkeypatch):
    """The entry failed first, so who waits for the pack was never reached."""

    pack_failed = threading.Event()

    def fails(_descriptor: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert pack_failed.wait(GENEROUS_S)
        pack_failed.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    dataset.append({"x": 1})
    before = packs_in(tmp_path)
    with monkeypatch.context() as patch:
        watched(patch, "fsync", fails)
        with pytest.raises(StorageError, match="branches/main/0000000002"):
            dataset.commit()
    doubtful = [pack for pack in packs_in(tmp_path) if pack not in before]

    dataset.commit()

    assert len(doubtful) == 1
    doubtful[0].unlink()  # what a disk that failed may do, although a later sync went well
    assert committed(dataset) == [0, 1]


def test_a_pack_whose_name_is_taken_is_cited_by_another(tmp_path, dataset, monkeypatch):
    taken: list[Path] = []

    def take(_scratch: str, name: str) -> None:
        if name.endswith(".tlp") and not taken:
            taken.append(Path(name))
            Path(name).write_bytes(b"another's")

    watched(monkeypatch, "link", take)

    dataset.append({"x": 1})
    dataset.commit()

    assert committed(dataset) == [0, 1]
    assert dataset.version == "main@2"
    assert taken[0].read_bytes() == b"another's"
    assert taken[0].with_name(taken[0].name.replace("-0.", "-1.")) in packs_in(tmp_path)


def test_an_entry_counts_the_pack_that_is_on_its_way(tmp_path, dataset):
    dataset.append({"x": 1})
    dataset.commit()

    packs = session_of(dataset).head.packs
    assert packs.count == len(packs_in(tmp_path)) == 2
    assert packs.nbytes == sum(pack.stat().st_size for pack in packs_in(tmp_path))


class Names:
    """Names of files that a power cut would take away: given, and their folder not synced since."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost = set[Path]()
        watched(monkeypatch, "link", self._given, after=True)
        watched(monkeypatch, "fsync", self._synced, after=True)

    def _given(self, _scratch: str, name: str) -> None:
        self.lost.add(Path(name))

    def _synced(self, descriptor: int) -> None:
        folder = file_of(descriptor)
        self.lost = {name for name in self.lost if name.parent != folder}

    def among(self, part: str) -> list[str]:
        return [str(name) for name in self.lost if part in str(name)]


def stop_after_the_name(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Let Ctrl-C come once, when an object has its name and its folder is not synced yet."""

    def stop_at(_scratch: str, name: str) -> None:
        if part in name:
            raise KeyboardInterrupt

    watched(monkeypatch, "link", stop_at, after=True)


def fail_to_sync_the_folder(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    def fail(descriptor: int) -> None:
        file = file_of(descriptor)
        if part in str(file) and file.is_dir():
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    watched(monkeypatch, "fsync", fail)


STOPPED = {
    "Ctrl-C": (stop_after_the_name, KeyboardInterrupt),
    "EIO": (fail_to_sync_the_folder, StorageError),
}


@pytest.mark.parametrize("way", STOPPED)
@pytest.mark.parametrize("key", [None, "batch 1"])
def test_a_commit_stopped_before_its_name_was_synced_is_synced_before_it_counts(
    tmp_path, dataset, monkeypatch, way, key
):
    """What the next commit finds under its number, or under its key, may not be on disk yet."""
    stop, error = STOPPED[way]
    names = Names(monkeypatch)
    dataset.append({"x": 1})
    with monkeypatch.context() as patch:
        stop(patch, "branches/main")
        with pytest.raises(error):
            dataset.commit(key=key)
    assert names.among("branches/main")
    again = dataset if key is None else open_on(LocalStore(tmp_path))

    again.commit(key=key)

    assert not names.among("branches/main")
    assert committed(again) == [0, 1]


def test_a_tag_stopped_before_its_name_was_synced_is_synced_when_it_is_found(
    tmp_path, dataset, monkeypatch
):
    names = Names(monkeypatch)
    with monkeypatch.context() as patch:
        fail_to_sync_the_folder(patch, "tags")
        with pytest.raises(StorageError):
            dataset.tag("v1")
    assert names.among("tags/")

    dataset.tag("v1")

    assert not names.among("tags/")
