"""A commit in a folder: whose thread does it, and what is on disk when its entry can be seen."""

import errno
import gc
import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tensorlake.dataset.dataset import Dataset
from tensorlake.errors import StorageError
from tensorlake.storage import LocalStore
from tensorlake.storage.runtime import stop
from tests.handles import create_on, open_on, wait_for_storage

GENEROUS_S = 60.0


@pytest.fixture
def dataset(tmp_path) -> Generator[Dataset]:
    dataset = create_on(LocalStore(tmp_path), {"x": "int64"})
    dataset.append({"x": 0})
    dataset.commit()
    yield dataset
    wait_for_storage()


def committed(dataset: Dataset) -> list[int]:
    return open_on(dataset.session.store)["x"][:].tolist()


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


def test_an_entry_gets_its_name_when_all_of_it_and_of_its_pack_is_on_disk(tmp_path, monkeypatch):
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
    dataset = create_on(LocalStore(tmp_path), {"x": "int64"})
    watched(monkeypatch, "fsync", synced, after=True)
    watched(monkeypatch, "link", linked)

    for x in range(3):
        dataset.append({"x": x})
        dataset.commit()

    assert len(entries) == len(packs_in(tmp_path)) == 3
    assert committed(dataset) == [0, 1, 2]


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

    packs = dataset.session.head.packs
    assert packs.count == len(packs_in(tmp_path)) == 2
    assert packs.nbytes == sum(pack.stat().st_size for pack in packs_in(tmp_path))
