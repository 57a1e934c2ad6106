"""A descriptor is put twice, and restored from its second put: only from that."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.dataset import check_url
from tensorlake.errors import (
    CorruptionError,
    DatasetNotFoundError,
    InvalidInputError,
    StorageError,
)
from tensorlake.format import DESCRIPTOR, MAIN, Descriptor, entry_path, new_txid
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import FaultyStore, SimulatedCrash
from tests.support.handles import create_on

DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "one bit": lambda path: path.write_bytes(
        path.read_bytes()[:30] + bytes([path.read_bytes()[30] ^ 1]) + path.read_bytes()[31:]
    ),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of two rows."""
    folder = tmp_path / "lake"
    with tl.create(str(folder), {"x": "int64"}) as ds:
        ds.extend({"x": [1, 2]})
        ds.commit("rows")
    return folder


def seconds(folder: Path) -> list[Path]:
    return sorted((folder / "descriptor").glob("*.json"))


def forget_second(folder: Path) -> None:
    """Make it a dataset of 0.1.0."""
    shutil.rmtree(folder / "descriptor")


def test_a_new_dataset_has_its_descriptor_twice(folder):
    whole = (folder / DESCRIPTOR).read_bytes()

    (second,) = seconds(folder)

    assert second.read_bytes() == whole
    assert second.stem == Descriptor.from_bytes(whole).id
    assert tl.open(str(folder)).check().ok


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_or_damaged_descriptor_is_restored_byte_by_byte(folder, damage):
    whole = (folder / DESCRIPTOR).read_bytes()
    DAMAGES[damage](folder / DESCRIPTOR)
    with pytest.raises((CorruptionError, DatasetNotFoundError)):
        tl.open(str(folder))
    before = check_url(str(folder))

    report = check_url(str(folder), repair=True)

    assert [one.object for one in before.findings] == [DESCRIPTOR]
    assert "repair=True" in before.findings[0].advice
    assert [(one.object, one.is_recovered) for one in report.repairs] == [(DESCRIPTOR, True)]
    assert report.ok
    assert (folder / DESCRIPTOR).read_bytes() == whole
    assert tl.open(str(folder))["x"][:].tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["copy", "mirror"])
def test_a_copy_gets_its_own_id_back_and_a_mirror_stays_one(folder, tmp_path, kind):
    """Log entries are the source's: a descriptor made up from them would say something else."""
    copy = tmp_path / "copy"
    tl.copy(str(folder), str(copy), mirror=kind == "mirror")
    whole = (copy / DESCRIPTOR).read_bytes()
    (copy / DESCRIPTOR).unlink()

    check_url(str(copy), repair=True)

    restored = Descriptor.from_bytes((copy / DESCRIPTOR).read_bytes())
    assert (copy / DESCRIPTOR).read_bytes() == whole
    assert restored.id != Descriptor.from_bytes((folder / DESCRIPTOR).read_bytes()).id
    assert (restored.mirror_of is not None) == (kind == "mirror")
    assert len(seconds(copy)) == 1


@pytest.mark.parametrize("mirror", [False, True])
def test_an_older_copy_gets_its_second_put_when_it_is_brought_up_to_date(folder, tmp_path, mirror):
    copy = tmp_path / "copy"
    tl.copy(str(folder), str(copy), mirror=mirror)
    forget_second(copy)

    tl.copy(str(folder), str(copy), mirror=mirror)

    assert [one.read_bytes() for one in seconds(copy)] == [(copy / DESCRIPTOR).read_bytes()]


def test_an_older_dataset_gets_its_second_put_by_a_collection(folder):
    forget_second(folder)
    ds = tl.open(str(folder))
    assert ds.check().ok

    ds.gc(dry_run=True)
    assert seconds(folder) == []
    ds.gc()
    ds.gc()

    assert [one.read_bytes() for one in seconds(folder)] == [(folder / DESCRIPTOR).read_bytes()]


@pytest.mark.parametrize("damage", ["empty", "one bit"])
def test_a_damaged_second_put_is_a_warning_and_is_written_again(folder, damage):
    (second,) = seconds(folder)
    DAMAGES[damage](second)
    before = check_url(str(folder))

    report = check_url(str(folder), repair=True)

    assert [(one.object, one.severity) for one in before.findings] == [
        (f"descriptor/{second.name}", "warning")
    ]
    assert [one.object for one in report.repairs] == [f"descriptor/{second.name}"]
    assert second.read_bytes() == (folder / DESCRIPTOR).read_bytes()
    assert report.ok


def test_nothing_is_restored_where_both_puts_are_damaged(folder):
    (second,) = seconds(folder)
    for path in (second, folder / DESCRIPTOR):
        DAMAGES["one bit"](path)
    damaged = (folder / DESCRIPTOR).read_bytes()

    report = check_url(str(folder), repair=True)

    assert [(one.object, one.is_recovered) for one in report.repairs] == [(DESCRIPTOR, False)]
    assert not report.ok
    assert "copy" in next(one for one in report.findings if one.object == DESCRIPTOR).advice
    assert (folder / DESCRIPTOR).read_bytes() == damaged


def test_a_descriptor_under_another_id_restores_nothing(folder):
    (second,) = seconds(folder)
    second.rename(second.with_name(f"{new_txid()}.json"))
    (folder / DESCRIPTOR).unlink()

    report = check_url(str(folder), repair=True)

    assert not report.repairs[0].is_recovered
    assert not (folder / DESCRIPTOR).exists()


def test_nothing_is_restored_where_two_datasets_might_be_meant(folder):
    other = Descriptor(new_txid(), 0)
    (folder / "descriptor" / f"{other.id}.json").write_bytes(other.to_bytes())
    told = check_url(str(folder))
    (folder / DESCRIPTOR).unlink()

    report = check_url(str(folder), repair=True)

    assert [(one.object, one.advice) for one in told.findings] == [
        (f"descriptor/{other.id}.json", "delete it")
    ]
    assert "2 descriptors" in report.repairs[0].what
    assert not (folder / DESCRIPTOR).exists()


def test_what_remains_without_a_descriptor_says_how_it_is_restored(folder):
    (folder / DESCRIPTOR).unlink()

    with pytest.raises(DatasetNotFoundError, match="check --repair"):
        tl.open(str(folder))
    with pytest.raises(InvalidInputError, match="check --repair"):
        tl.create(str(folder), {"x": "int64"})
    forget_second(folder)
    with pytest.raises(DatasetNotFoundError, match="restore it from a copy"):
        tl.open(str(folder))


def deletion_failed(folder: Path, deletions: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Delete the dataset with a disk that breaks after so many deletions; whether it broke."""
    left = deletions
    unlink = os.unlink

    def until_it_breaks(path: str) -> None:
        nonlocal left
        if left == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        left -= 1
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", until_it_breaks)
        try:
            tl.delete(str(folder), confirm=str(folder))
        except StorageError:
            return True
    return False


def test_a_deletion_stopped_anywhere_leaves_nothing_that_a_repair_brings_back(
    tmp_path, monkeypatch
):
    """Some packs and entries are gone by then: it would open, and show what is not there."""
    for deletions in itertools.count():
        folder = tmp_path / str(deletions)
        with tl.create(str(folder), {"x": "int64"}) as ds:
            ds.append({"x": 1})
            ds.commit()
        if not deletion_failed(folder, deletions, monkeypatch):
            break
        if tl.exists(str(folder)):
            assert tl.open(str(folder))["x"][:].tolist() == [1]
            continue
        check_url(str(folder), repair=True)
        assert not tl.exists(str(folder))
    assert deletions > 4


def test_a_creation_stopped_anywhere_is_completed():
    for writes in itertools.count():
        objects = MemoryStore()
        dying = FaultyStore(objects)
        dying.crash_after(writes)
        try:
            create_on(dying, {"x": "int64"})
        except SimulatedCrash:
            if run(objects.head(entry_path(MAIN, 0))) is None:
                assert create_on(objects, {"x": "int64"}).check().ok
            continue
        break
    assert writes > 4
