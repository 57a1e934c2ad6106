"""File systems of fsspec: what can be read there, and what must not be written."""

import asyncio
import sys
import threading

import pytest

import tensorlake as tl
from tensorlake.errors import (
    AccessError,
    CorruptionError,
    InvalidInputError,
    MissingExtraError,
    StorageError,
    UnsupportedStoreError,
)
from tensorlake.storage import FsspecStore, RetryPolicy, open_store, run


@pytest.fixture
def folder(tmp_path):
    """A folder with two objects, and the store that reads it through fsspec."""
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "a.tlp").write_bytes(b"0123456789")
    (tmp_path / "packs" / "b.tlp").write_bytes(b"b")
    return tmp_path


@pytest.fixture
def store(folder):
    return open_store(f"fsspec+file://{folder}")


def test_url_of_fsspec_opens_its_store(store, folder):
    assert isinstance(store, FsspecStore)
    assert store.url == f"fsspec+file://{folder}"


def test_objects_are_read_whole_in_ranges_and_listed(store):
    async def names():
        return [meta.path async for meta in store.list("packs/")]

    assert run(store.get("packs/a.tlp")) == b"0123456789"
    assert run(store.get_ranges("packs/a.tlp", [(8, 10), (0, 2)])) == [b"89", b"01"]
    assert run(store.get("packs/none")) is None
    assert run(store.head("packs/a.tlp")).nbytes == 10
    assert run(store.head("packs")) is None
    assert run(store.folders("")) == ["packs"]
    assert run(names()) == ["packs/a.tlp", "packs/b.tlp"]


@pytest.mark.parametrize("stop", [11, 40])
def test_range_past_the_end_is_damage(store, stop):
    with pytest.raises(CorruptionError, match="cut short"):
        run(store.get_range("packs/a.tlp", 8, stop))


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.put_if_absent("x", b"1"),
        lambda store: store.put("x", b"1"),
        lambda store: store.delete("packs/a.tlp"),
    ],
)
def test_file_system_without_exclusive_create_is_read_only(store, folder, write):
    with pytest.raises(UnsupportedStoreError, match="no exclusive create"):
        run(write(store))

    assert sorted(path.name for path in folder.rglob("*.tlp")) == ["a.tlp", "b.tlp"]
    assert not (folder / "x").exists()


def test_dataset_in_a_folder_is_read_through_fsspec(tmp_path):
    with tl.create(tmp_path / "pets.tl", {"x": "int64"}) as ds:
        ds.extend({"x": [1, 2, 3]})
        ds.commit("three")

    with tl.open(f"fsspec+file://{tmp_path}/pets.tl") as ds:
        assert ds["x"][:].tolist() == [1, 2, 3]
        ds.extend({"x": [4]})
        with pytest.raises(UnsupportedStoreError):
            ds.commit("four")
        ds.discard()


def test_creating_where_nothing_is_exclusive_is_refused(tmp_path):
    with pytest.raises(UnsupportedStoreError, match="no exclusive create"):
        tl.create(f"fsspec+file://{tmp_path}/new.tl", {"x": "int64"})


def test_unknown_protocol_is_named():
    with pytest.raises(InvalidInputError, match="'nowhere'"):
        open_store("fsspec+nowhere://host/x")


def test_missing_package_is_named(monkeypatch):
    known = sys.modules["fsspec.registry"]._registry
    monkeypatch.delitem(known, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)

    with pytest.raises(MissingExtraError, match=r"tensorlake-dl\[s3fs\]"):
        open_store("fsspec+s3://bucket/lake")


def test_denied_object_says_so(store, folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "no")

    monkeypatch.setattr(store._files, "cat_file", refuse)

    with pytest.raises(AccessError, match=r"may not read object 'packs/a\.tlp'"):
        run(store.get("packs/a.tlp"))


def test_secrets_are_not_shown():
    with pytest.raises(InvalidInputError) as caught:
        open_store("fsspec+sftp2://ana:hunter2@host/x", storage_options={"password": "hunter3"})

    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_requests_are_made_in_the_stores_own_threads(store):
    seen = set()
    real = store._files.cat_file

    def recording(*args, **kwargs):
        seen.add(threading.current_thread().name)
        return real(*args, **kwargs)

    store._files.cat_file = recording

    async def many():
        await asyncio.gather(*(store.get("packs/a.tlp") for _ in range(8)))

    run(many())

    assert seen
    assert all(name.startswith("tensorlake-fsspec") for name in seen)


@pytest.mark.parametrize("package", ["httpx", "httpx2"])
def test_a_server_that_httpx_cannot_reach_is_a_storage_error(store, monkeypatch, package):
    base = type("TransportError", (Exception,), {"__module__": f"{package}._exceptions"})
    unreachable = type("ConnectError", (base,), {"__module__": f"{package}._exceptions"})

    def info(_path):
        raise unreachable("[Errno -2] Name or service not known")

    monkeypatch.setattr(store._files, "info", info)
    monkeypatch.setattr(store, "_policy", RetryPolicy(attempts=1))
    with pytest.raises(StorageError, match="could not look up object 'a' of 'fsspec"):
        run(store.head("a"))


def test_hf_needs_its_own_extra_where_fsspec_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match="'hf'"):
        open_store("hf://datasets/x/y")
