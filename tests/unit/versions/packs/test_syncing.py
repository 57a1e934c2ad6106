"""Packs of a folder are synced together, before what cites them is published."""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CorruptionError, StorageError
from tensorlake.storage import LocalStore, runtime
from tensorlake.testing import Fault, FaultyStore
from tests.support.handles import create_on, open_on

SCHEMA = {"a": tl.Array("uint8", shape=(1 << 20,))}
"""Each row fills a chunk, and by `small_packs` each chunk a pack."""


@pytest.fixture(autouse=True)
def small_packs(monkeypatch) -> None:
    monkeypatch.setattr("tensorlake.versions.packs.writer.PACK_NBYTES", 1)


@pytest.fixture
def store(tmp_path) -> FaultyStore:
    return FaultyStore(LocalStore(tmp_path))


@pytest.fixture
def written(monkeypatch) -> list[tuple[str, int]]:
    """What was brought to disk and what was given a name, in order, by inode."""
    done: list[tuple[str, int]] = []
    link = os.link

    def linked(source: str, target: str) -> None:
        link(source, target)
        done.append((target, Path(target).stat().st_ino))

    monkeypatch.setattr(os, "fsync", lambda file: done.append(("fsync", os.fstat(file).st_ino)))
    monkeypatch.setattr(os, "link", linked)
    return done


def rows(*values: int) -> dict[str, np.ndarray]:
    return {"a": np.stack([np.full(1 << 20, value, np.uint8) for value in values])}


def first_bytes(dataset: Dataset) -> list[int]:
    return [int(sample[0]) for sample in dataset["a"]]


def pack_files(folder: Path) -> list[Path]:
    return sorted((folder / "packs").rglob("*.tlp"))


def test_packs_of_a_folder_are_written_while_the_storage_loop_is_busy(tmp_path):
    is_held, may_go_on = threading.Event(), threading.Event()

    async def hold() -> None:
        is_held.set()
        assert may_go_on.wait(60)

    with tl.create(str(tmp_path), SCHEMA) as dataset:
        holding = runtime.submit(hold())
        assert is_held.wait(60)
        dataset.extend(rows(0, 1, 2, 3, 4, 5, 6, 7))  # more than may be on their way
        written = len(pack_files(tmp_path))
        may_go_on.set()
        holding.result(60)
        dataset.commit()

        assert written >= 3
        assert first_bytes(dataset) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_an_entry_is_published_after_its_packs_and_their_names_are_on_disk(tmp_path, written):
    with tl.create(str(tmp_path), SCHEMA) as dataset:
        dataset.extend(rows(0, 1, 2, 3))
        dataset.commit()

    entry = max(at for at, (name, _) in enumerate(written) if "/branches/main/" in name)
    synced = [inode for name, inode in written[:entry] if name == "fsync"]
    packs = pack_files(tmp_path)
    assert len(packs) >= 4
    for pack in packs:
        named = next(at for at, (name, _) in enumerate(written) if name == str(pack))
        after = [inode for name, inode in written[named:entry] if name == "fsync"]
        assert pack.stat().st_ino in synced
        assert pack.parent.stat().st_ino in after


def test_packs_on_their_way_to_disk_are_few(tmp_path, written, monkeypatch):
    monkeypatch.setattr("tensorlake.versions.packs.pending_packs.UNSYNCED_NBYTES", 3 << 20)
    with tl.create(str(tmp_path), SCHEMA) as dataset:
        for value in range(12):
            dataset.extend(rows(value))
            dataset.count()
            synced = {inode for name, inode in written if name == "fsync"}
            unsynced = [pack for pack in pack_files(tmp_path) if pack.stat().st_ino not in synced]
            assert len(unsynced) <= 8
        dataset.discard()


def test_a_failed_sync_publishes_nothing_and_its_packs_are_written_again(store, tmp_path):
    dataset = create_on(store, SCHEMA)
    dataset.extend(rows(0, 1, 2))
    store.inject(Fault.REFUSED, call="sync")

    with pytest.raises(StorageError, match="sync"):
        dataset.commit()

    assert len(open_on(store)) == 0
    assert first_bytes(dataset) == [0, 1, 2]
    before = pack_files(tmp_path)
    assert len(before) >= 3
    dataset.extend(rows(3))
    commit = dataset.commit()
    assert commit.num_rows == 4
    again = open_on(store)
    assert first_bytes(again) == first_bytes(dataset) == [0, 1, 2, 3]
    assert again.check().ok
    for pack in before:  # nothing rests on what may not be on disk
        pack.unlink()
    assert first_bytes(open_on(LocalStore(tmp_path))) == [0, 1, 2, 3]


def test_a_failed_sync_while_rows_are_staged_leaves_them_whole(store, monkeypatch):
    monkeypatch.setattr("tensorlake.versions.packs.pending_packs.UNSYNCED_NBYTES", 1)
    dataset = create_on(store, SCHEMA)
    store.inject(Fault.REFUSED, call="sync", skip=1)
    staged: list[int] = []
    for value in range(12):
        try:
            dataset.extend(rows(value))
        except StorageError:
            continue
        staged.append(value)

    dataset.commit()

    assert len(staged) == 11
    assert first_bytes(open_on(store)) == staged
    assert open_on(store).check().ok


def test_what_the_disk_did_not_keep_is_never_published(store, tmp_path):
    dataset = create_on(store, SCHEMA)
    dataset.extend(rows(0, 1, 2))
    store.inject(Fault.REFUSED, call="sync")
    with pytest.raises(StorageError):
        dataset.commit()
    lost = pack_files(tmp_path)[0]
    content = bytearray(lost.read_bytes())
    content[1 << 19] ^= 1
    lost.write_bytes(content)

    for _ in range(2):
        with pytest.raises(CorruptionError, match="its disk lost bytes"):
            dataset.commit()

    assert len(open_on(store)) == 0
    dataset.discard()
    dataset.extend(rows(5))
    dataset.commit()
    assert first_bytes(open_on(store)) == [5]


def test_a_pack_under_another_name_is_synced_by_it(store, tmp_path, written):
    store.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/")
    dataset = create_on(store, SCHEMA)
    dataset.extend(rows(0, 1, 2))

    dataset.commit()

    entry = max(at for at, (name, _) in enumerate(written) if "/branches/main/" in name)
    synced = {inode for name, inode in written[:entry] if name == "fsync"}
    assert {pack.stat().st_ino for pack in pack_files(tmp_path)} <= synced
    assert first_bytes(open_on(LocalStore(tmp_path))) == [0, 1, 2]


def test_a_pack_under_another_name_is_read_back_by_it_when_its_sync_failed(store, tmp_path):
    store.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/")
    dataset = create_on(store, SCHEMA)
    dataset.extend(rows(0, 1, 2))
    store.inject(Fault.REFUSED, call="sync")
    with pytest.raises(StorageError):
        dataset.commit()

    dataset.commit()

    assert first_bytes(open_on(LocalStore(tmp_path))) == [0, 1, 2]


class StopError(BaseException):
    """Ctrl-C, at a place that a test knows."""


def test_packs_whose_sync_was_interrupted_are_written_again(store, tmp_path):
    def stop() -> None:
        raise StopError

    dataset = create_on(store, SCHEMA)
    dataset.extend(rows(0, 1, 2))
    store.before("sync", stop)
    with pytest.raises(StopError):
        dataset.commit()
    before = pack_files(tmp_path)

    dataset.commit()

    assert len(before) >= 3
    for pack in before:  # nothing rests on what may not be on disk
        pack.unlink()
    assert first_bytes(open_on(LocalStore(tmp_path))) == [0, 1, 2]


def test_no_pack_is_stored_before_the_first_one(tmp_path, monkeypatch):
    """Its age counts for all of them: an older one could be collected while they are staged."""
    link = os.link

    def failing(source: str, target: str) -> None:
        if target.endswith("-0.tlp"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        link(source, target)

    def stage_and_commit() -> None:
        dataset.extend(rows(0, 1, 2, 3))
        dataset.commit()

    dataset = create_on(LocalStore(tmp_path), SCHEMA)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", failing)
        with pytest.raises(StorageError):
            stage_and_commit()

    assert pack_files(tmp_path) == []
    dataset.discard()
