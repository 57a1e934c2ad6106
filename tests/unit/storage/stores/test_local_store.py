"""The folder store: conformance, durability, crashes, damage and errors of the system."""

import asyncio
import errno
import gc
import mmap
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tensorlake.errors import (
    AccessError,
    CorruptionError,
    InvalidInputError,
    StorageError,
    UnsupportedStoreError,
)
from tensorlake.storage import (
    LocalStore,
    Mappings,
    MissingObjectError,
    ObjectExistsError,
    Store,
    UnknownOutcomeError,
    open_store,
    probe,
    run,
    runtime,
)
from tensorlake.storage.files import bytes as file_bytes
from tensorlake.storage.files.rename import publish_exclusive, rename_exclusive
from tensorlake.testing import StoreConformance


class TestLocalStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path) -> Store:
        return LocalStore(tmp_path / "lake" / "pets")


class TestLocalStoreWithoutFsync(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path) -> Store:
        return open_store(tmp_path.as_uri(), durability="none")


async def paths(store: Store, prefix: str = "") -> list[str]:
    return [meta.path async for meta in store.list(prefix)]


@pytest.fixture
def fsynced(monkeypatch) -> list[str]:
    """The files and folders brought to disk, in order; fsync itself is left out."""
    done: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: done.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
    )
    return done


def fail(monkeypatch, name: str, code: int) -> None:
    def refuse(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, refuse)


def test_write_syncs_file_then_folder(tmp_path, fsynced):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("branches/main/0", b"entry"))
    fsynced.clear()

    run(store.put_if_absent("branches/main/1", b"entry"))

    file, folder = fsynced
    assert file.startswith(f"{tmp_path}/.tmp/")
    assert folder == f"{tmp_path}/branches/main"


def test_first_write_syncs_every_new_folder(tmp_path, fsynced):
    run(LocalStore(tmp_path / "lake").put_if_absent("packs/3f/a.tlp", b"pack"))

    lake = tmp_path / "lake"
    assert {str(tmp_path), str(lake), f"{lake}/packs", f"{lake}/packs/3f"} <= {*fsynced}


def test_sync_brings_files_then_their_folders_to_disk(tmp_path, fsynced):
    store = LocalStore(tmp_path)
    paths = ["packs/3f/a.tlp", "packs/3f/b.tlp"]
    for path in paths:
        run(store.put_if_absent(path, bytes(1 << 20), durable=False))
    assert fsynced == []

    run(store.sync(paths))

    assert {*fsynced[:2]} == {str(tmp_path / path) for path in paths}
    assert fsynced[2:] == [f"{tmp_path}/packs/3f", f"{tmp_path}/packs", str(tmp_path)]


def test_failed_sync_is_a_storage_error(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"1", durable=False))
    fail(monkeypatch, "fsync", errno.EIO)

    with pytest.raises(StorageError, match="'a'"):
        run(store.sync(["a"]))


def test_sync_of_what_is_gone_is_missing(tmp_path):
    with pytest.raises(MissingObjectError, match="'gone'"):
        run(LocalStore(tmp_path).sync(["gone"]))


def test_hint_costs_no_fsync(tmp_path, fsynced):
    run(LocalStore(tmp_path).put("HEAD", b"hint", durable=False))

    assert fsynced == []


def test_the_probe_syncs_the_new_folder_alone(tmp_path, fsynced):
    run(probe(LocalStore(tmp_path / "lake")))

    assert fsynced == [str(tmp_path)]


def test_durability_none_never_syncs(tmp_path, fsynced):
    store = LocalStore(tmp_path, durability="none")

    run(store.put_if_absent("packs/3f/a.tlp", b"pack"))
    run(store.put("HEAD", b"hint"))
    run(store.sync(["packs/3f/a.tlp"]))

    assert fsynced == []


def test_unknown_durability_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="'maybe'"):
        LocalStore(tmp_path, durability="maybe")


def test_opening_makes_no_folder(tmp_path):
    store = LocalStore(tmp_path / "lake")

    assert run(store.get("tensorlake.json")) is None
    assert run(paths(store)) == []
    assert not (tmp_path / "lake").exists()


def test_write_leaves_no_scratch_file(tmp_path):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"1"))

    with pytest.raises(ObjectExistsError):
        run(store.put_if_absent("a", b"2"))

    assert [*(tmp_path / ".tmp").iterdir()] == []


def test_scratch_file_is_no_object(tmp_path):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("pets/a", b"1"))
    (tmp_path / ".tmp" / "half").write_bytes(b"hal")
    (tmp_path / "pets" / ".tmp").mkdir()
    (tmp_path / "pets" / ".tmp" / "half").write_bytes(b"hal")

    assert run(paths(store)) == ["pets/a"]
    with pytest.raises(InvalidInputError, match=r"'\.tmp'"):
        run(store.get(".tmp/half"))


def test_crash_in_a_write_leaves_no_object(tmp_path):
    script = f"""
import os, signal
from tensorlake.storage import LocalStore, run
os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
run(LocalStore({str(tmp_path)!r}).put_if_absent("branches/main/0", b"entry"))
"""

    child = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)

    store = LocalStore(tmp_path)
    assert child.returncode == -signal.SIGKILL
    assert [file.read_bytes() for file in (tmp_path / ".tmp").iterdir()] == [b"entry"]
    assert run(paths(store)) == []
    run(store.put_if_absent("branches/main/0", b"another"))


def test_old_scratch_files_are_swept_by_the_next_writer(tmp_path):
    scratch = tmp_path / ".tmp"
    scratch.mkdir()
    (scratch / "old").write_bytes(b"1")
    (scratch / "new").write_bytes(b"1")
    os.utime(scratch / "old", (0, 0))

    run(LocalStore(tmp_path).put_if_absent("a", b"1"))

    assert [file.name for file in scratch.iterdir()] == ["new"]


@pytest.mark.parametrize("step", ["writev", "fsync", "link", "open"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_failed_step_lands_nothing(tmp_path, monkeypatch, step, code):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"1"))
    with monkeypatch.context() as patch:
        fail(patch, step, code)

        with pytest.raises(StorageError, match="'b'") as caught:
            run(store.put_if_absent("b", b"2"))

    assert not isinstance(caught.value, UnknownOutcomeError)
    assert os.strerror(code) in str(caught.value)
    assert run(paths(store)) == ["a"]
    assert [*(tmp_path / ".tmp").iterdir()] == []


def test_failed_fsync_of_the_folder_is_an_unknown_outcome(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"1"))
    synced: list[int] = []

    def second_fails(fd: int) -> None:
        synced.append(fd)
        if len(synced) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", second_fails)

    with pytest.raises(UnknownOutcomeError, match="'b'"):
        run(store.put_if_absent("b", b"2"))

    assert run(store.get("b")) == b"2"


def test_partial_writes_are_continued(tmp_path, monkeypatch):
    writev = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, views: writev(fd, [views[0][:3]]))
    store = LocalStore(tmp_path)

    run(store.put_if_absent("a", [b"0123456789", b"", b"abcdef", b"g"]))

    assert run(store.get("a")) == b"0123456789abcdefg"


def test_more_pieces_than_one_call_takes_are_written(tmp_path):
    store = LocalStore(tmp_path)

    run(store.put_if_absent("a", [b"%04d" % number for number in range(3000)]))

    assert run(store.get("a")) == b"".join(b"%04d" % number for number in range(3000))


def test_partial_reads_are_continued(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"0123456789"))
    pread = os.pread
    monkeypatch.setattr(
        file_bytes, "pread", lambda fd, nbytes, start: pread(fd, min(nbytes, 3), start)
    )

    assert run(store.get_range("a", 1, 9)) == b"12345678"
    assert run(store.get("a")) == b"0123456789"


def test_refused_permission_is_an_access_error(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"1"))
    fail(monkeypatch, "open", errno.EACCES)

    with pytest.raises(AccessError, match="may not read object 'a'"):
        run(store.get("a"))
    with pytest.raises(AccessError, match="may not write object 'b'"):
        run(store.put_if_absent("b", b"1"))


def test_read_only_file_system_is_an_access_error(tmp_path, monkeypatch):
    fail(monkeypatch, "open", errno.EROFS)

    with pytest.raises(AccessError, match="may not write"):
        run(LocalStore(tmp_path).put_if_absent("a", b"1"))


def test_large_reads_leave_the_loop_free(tmp_path):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("large", bytes(1 << 20)))
    readers: list[str] = []
    pread = os.pread

    def watched(fd: int, nbytes: int, start: int) -> bytes:
        readers.append(threading.current_thread().name)
        return pread(fd, nbytes, start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_bytes, "pread", watched)
        run(store.get_range("large", 0, 1 << 20))
        run(store.get_range("large", 0, 100))

    assert readers[0].startswith("tensorlake-io")
    assert readers[1] == "tensorlake-loop"


@pytest.mark.parametrize("durability", ["fsync", "none"])
def test_where_the_caller_waits_everything_is_done_in_its_thread(tmp_path, durability):
    store = LocalStore(tmp_path, durability=durability)
    threads: list[str] = []

    async def work() -> bytes | None:
        await store.put_if_absent("large", bytes(1 << 20))
        await store.put("HEAD", b"hint", durable=False)
        threads.append(threading.current_thread().name)
        found = await store.get("large")
        threads.append(threading.current_thread().name)
        threads.extend([threading.current_thread().name async for _ in store.list("")])
        return found

    assert runtime.run_here(work()) == bytes(1 << 20)
    here = threading.current_thread().name
    assert threads == [here, here, "tensorlake-loop", "tensorlake-loop"]


def test_mapping_of_absent_object_is_missing(tmp_path):
    with pytest.raises(MissingObjectError, match="'gone'"):
        LocalStore(tmp_path).map_range("gone", 0, 4)


def test_mapping_past_the_end_is_corruption(tmp_path):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"0123"))
    run(store.put_if_absent("empty", b""))

    with pytest.raises(CorruptionError, match="2 of 6 came") as caught:
        store.map_range("a", 2, 8)
    with pytest.raises(CorruptionError):
        store.map_range("empty", 0, 1)

    assert (caught.value.object, caught.value.offset) == ("a", 4)
    assert store.map_range("a", 2, 2) == b""


def test_reading_into_memory_past_the_end_is_corruption_and_of_an_absent_object_missing(tmp_path):
    store, memory = LocalStore(tmp_path), memoryview(bytearray(6))
    run(store.put_if_absent("a", b"0123"))

    with pytest.raises(CorruptionError, match="2 of 6 came") as caught:
        store.read_into("a", 2, [memory[:1], memory[1:]])
    with pytest.raises(MissingObjectError, match="'gone'"):
        store.read_into("gone", 0, [memory])

    assert (caught.value.object, caught.value.offset) == ("a", 4)


def test_mapping_is_read_only_and_outlives_deletion(tmp_path):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("a", b"0123"))
    view = store.map_range("a", 0, 4)

    run(store.delete("a"))

    assert view.readonly
    assert bytes(view) == b"0123"


def test_mappings_are_bounded_and_views_survive_them(tmp_path):
    mappings = Mappings(limit=2)
    views = []
    for number in range(5):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
        views.append(mappings.view(str(tmp_path / str(number))))

    assert len(mappings) == 2
    assert [bytes(view) for view in views] == [b"0", b"1", b"2", b"3", b"4"]


def test_mapping_is_kept_for_the_next_reader(tmp_path):
    (tmp_path / "a").write_bytes(b"0123")
    mappings = Mappings()

    assert mappings.view(str(tmp_path / "a")) is mappings.view(str(tmp_path / "a"))


def test_given_up_mappings_are_closed(tmp_path):
    before = {id(found) for found in open_mappings()}
    mappings = Mappings(limit=1)
    for number in range(20):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
        mappings.view(str(tmp_path / str(number)))

    gc.collect()

    assert sum(id(found) not in before and len(found) <= 2 for found in open_mappings()) <= 1


def open_mappings() -> list[mmap.mmap]:
    """All of this process; type() as other libraries' lazy objects warn when asked isinstance()."""
    mapped = [found for found in gc.get_objects() if type(found) is mmap.mmap]
    return [found for found in mapped if not found.closed]


def test_mappings_are_safe_between_threads(tmp_path):
    store = LocalStore(tmp_path, durability="none")
    for number in range(40):
        run(store.put_if_absent(f"{number}", b"%04d" % number))
    store._mappings = Mappings(limit=3)

    def read(number: int) -> bool:
        return store.map_range(f"{number % 40}", 0, 4) == b"%04d" % (number % 40)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(4000)))


def test_exclusive_rename_refuses_a_taken_name(tmp_path):
    (tmp_path / "scratch").write_bytes(b"mine")
    (tmp_path / "taken").write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        rename_exclusive(str(tmp_path / "scratch"), str(tmp_path / "taken"))
    rename_exclusive(str(tmp_path / "scratch"), str(tmp_path / "free"))

    assert (tmp_path / "taken").read_bytes() == b"theirs"
    assert (tmp_path / "free").read_bytes() == b"mine"


def test_store_without_hard_links_renames_instead(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    fail(monkeypatch, "link", errno.EPERM)

    run(store.put_if_absent("a", b"1"))

    with pytest.raises(ObjectExistsError):
        run(store.put_if_absent("a", b"2"))
    assert run(store.get("a")) == b"1"
    assert [*(tmp_path / ".tmp").iterdir()] == []


def test_store_without_any_exclusive_operation_is_refused(tmp_path, monkeypatch):
    fail(monkeypatch, "link", errno.EPERM)
    monkeypatch.setattr("ctypes.CDLL", lambda *_args, **_kwargs: object())

    with pytest.raises(UnsupportedStoreError, match="neither hard links nor an exclusive rename"):
        run(LocalStore(tmp_path).put_if_absent("a", b"1"))

    assert [*(tmp_path / ".tmp").iterdir()] == []


def test_link_whose_answer_was_lost_is_a_success(tmp_path, monkeypatch):
    (tmp_path / "scratch").write_bytes(b"mine")
    link = os.link

    def link_twice(scratch: str, target: str) -> None:
        link(scratch, target)
        link(scratch, target)

    monkeypatch.setattr(os, "link", link_twice)

    publish_exclusive(str(tmp_path / "scratch"), str(tmp_path / "entry"))

    assert (tmp_path / "entry").read_bytes() == b"mine"


def test_folder_removed_under_an_open_store_is_made_again(tmp_path):
    store = LocalStore(tmp_path / "lake")
    run(store.put_if_absent("packs/3f/a.tlp", b"1"))
    run(store.delete("packs/3f/a.tlp"))
    for folder in ("packs/3f", "packs", ".tmp", ""):
        (tmp_path / "lake" / folder).rmdir()

    run(store.put_if_absent("packs/3f/b.tlp", b"2"))

    assert run(paths(store)) == ["packs/3f/b.tlp"]


def test_hints_of_several_writers_replace_each_other_and_are_never_torn(tmp_path):
    """Their file may be missing for a moment, which costs a reader requests and nothing else."""
    store = LocalStore(tmp_path)
    seen = set[bytes | None]()

    async def write(letter: bytes) -> None:
        for _ in range(40):
            await store.put("branches/main/HEAD", letter * 3000, durable=False)
            seen.add(await store.get("branches/main/HEAD"))

    async def both() -> None:
        await asyncio.gather(write(b"a"), write(b"b"))

    run(both())

    assert seen <= {b"a" * 3000, b"b" * 3000, None}
    assert run(store.get("branches/main/HEAD")) in {b"a" * 3000, b"b" * 3000}
