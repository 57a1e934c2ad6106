"""Datasets behind a server: ``tl.open("http://host/name")`` reads and writes like any other."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.errors import (
    AccessError,
    ConflictError,
    DatasetNotFoundError,
    InvalidInputError,
    StorageError,
)
from tensorlake.format import seal
from tensorlake.storage import LakeStore, ObjectExistsError, RetryPolicy, Store, run
from tensorlake.testing import StoreConformance
from tensorlake.versions.maintenance.tail import MESSAGE
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import listening, reserved_port
from tests.support.writers import upsert_keys

NOW = datetime.now(UTC)
QUICK = RetryPolicy(attempts=2, first_delay_s=0.01, max_delay_s=0.01, deadline_s=5)
JPEG = simplejpeg.encode_jpeg(np.full((40, 30, 3), 128, dtype=np.uint8))


@dataclass(frozen=True)
class Served:
    """A lake, the address of a server over it, and tokens for it."""

    lake: Path
    address: str
    settings: Settings

    def token(self, *scopes: str) -> str:
        assert self.settings.auth is not None
        secret, _ = create_token(
            self.settings.auth, name="ana", scopes=scopes, expires=None, now=NOW
        )
        return secret


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("served")
    (root / "lake").mkdir()
    auth = root / "tokens.json"
    create_token(auth, name="none", scopes=["read:nothing"], expires=None, now=NOW)
    settings = Settings(url=str(root / "lake"), auth=auth, write=True, signing_key=b"k" * 16)
    with listening(create_app(settings)) as address:
        yield Served(root / "lake", address, settings)


NUMBERS = itertools.count()


@pytest.fixture
def name() -> str:
    return f"pets-{next(NUMBERS)}"


def make(served: Served, name: str, **options: Any) -> tl.Dataset:
    ds = tl.create(
        f"{served.address}/{name}",
        {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"]), "x": "float32"},
        token=served.token("admin"),
        **options,
    )
    ds.extend({"image": [JPEG] * 6, "label": ["cat", "dog"] * 3, "x": np.arange(6.0)})
    ds.commit("six pets")
    return ds


def test_what_is_written_over_http_is_the_dataset_on_disk(served: Served, name: str) -> None:
    ds = make(served, name)
    with ds.transaction("relabel"):
        ds["label"][ds["x"] > 3] = "cat"
        ds.delete([0])

    there = tl.open(str(served.lake / name))

    assert there.version == ds.version == "main@2"
    assert there["x"][:].tolist() == ds["x"][:].tolist() == [1, 2, 3, 4, 5]
    assert ds["image"].bytes(0) == JPEG
    assert len(ds.query("WHERE label = 'cat'")) == 3
    assert [one.message for one in ds.log()] == [one.message for one in there.log()]
    assert there.check().ok


@pytest.mark.slow
def test_small_commits_over_http_are_compacted(
    served: Served, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = served.token("admin")
    with tl.create(f"{served.address}/{name}", {"x": "int64", "t": "text"}, token=token) as ds:
        for number in range(64):
            ds.append({"x": number, "t": f"text {number}"})
            ds.commit()

    there = tl.open(str(served.lake / name))

    compaction, last = itertools.islice(there.log(), 2)
    assert (compaction.version, compaction.message) == ("main@65", MESSAGE)
    assert compaction.author == last.author
    assert there["x"][:].tolist() == list(range(64))
    assert there.check().ok
    assert not caplog.records, "the server admitted the entry"


def test_a_name_with_a_tilde_is_the_same_over_http(served: Served, name: str) -> None:
    ds = make(served, f"{name}~of/ana~b")

    assert tl.open(str(served.lake / f"{name}~of" / "ana~b")).version == ds.version
    assert len(ds.query("WHERE x > 3")) == 2
    assert tl.exists(ds.url, token=served.token("admin"))


def test_branches_tags_merges_diffs_and_restores_work(
    served: Served, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    ds = make(served, name)
    ds.tag("v1")
    fix = ds.branch("fix")
    fix["x"][0] = 9
    fix.commit("nine")
    ds.delete([5])
    ds.commit("five left")

    ds.merge("fix")
    changed = ds.diff("v1")
    ds.restore("v1")

    assert (len(changed.removed), len(changed.updated["x"])) == (1, 1)
    assert ds["x"][:].tolist() == [0, 1, 2, 3, 4, 5]
    assert sorted(ds.branches) == ["fix", "main"]
    assert list(ds.tags) == ["v1"]
    assert not caplog.records, "that a client may not delete its pins is nothing to act on"


def test_writers_that_change_the_same_conflict_and_others_do_not(served: Served, name: str) -> None:
    make(served, name)
    url, token = f"{served.address}/{name}", served.token("write")
    ours, theirs, third = (tl.open(url, token=token) for _ in range(3))
    ours["x"][0], theirs["x"][0], third["x"][1] = 1, 2, 3

    ours.commit("ours")
    third.commit("elsewhere")

    with pytest.raises(ConflictError, match="'x'"):
        theirs.commit("theirs")
    theirs.discard()


@pytest.mark.slow
def test_many_writers_through_two_servers_lose_nothing(served: Served, name: str) -> None:
    make(served, name)
    token, writers, commits = served.token("write"), 4, 3

    with listening(create_app(served.settings)) as other, ThreadPoolExecutor(writers) as threads:

        def write(writer: int) -> None:
            address = (served.address, other)[writer % 2]
            ds = tl.open(f"{address}/{name}", token=token)
            for number in range(commits):
                ds.append({"image": JPEG, "label": "cat", "x": 100 * writer + number})
                ds.commit(f"{writer}.{number}")

        list(threads.map(write, range(writers)))

    there = tl.open(str(served.lake / name))
    expected = {100.0 * writer + number for writer in range(writers) for number in range(commits)}
    assert set(there["x"][6:].tolist()) == expected
    assert len(there) == 6 + writers * commits


@pytest.mark.slow
def test_upserts_through_two_servers_leave_each_key_once(served: Served, name: str) -> None:
    token, writers = served.token("write"), 3
    with listening(create_app(served.settings)) as other, ThreadPoolExecutor(writers) as threads:
        urls = [f"{address}/{name}" for address in (served.address, other, other)]
        tl.create(urls[0], {"id": "int64", "by": "int64"}, token=token).close()
        list(threads.map(upsert_keys, urls, range(writers), [2] * writers, [token] * writers))

    own = [1000 * (writer + 1) + number for writer in range(writers) for number in range(2)]
    assert sorted(tl.open(str(served.lake / name))["id"][:]) == sorted([0, 1, 10, 11, *own])


def test_commits_through_a_server_carry_its_time(served: Served, name: str, monkeypatch) -> None:
    """D1: a client whose clock is a year off; every answer tells the server's."""
    make(served, name)
    url, token, right = f"{served.address}/{name}", served.token("write"), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + 365 * 86_400 * 10**9)
    ds = tl.open(url, token=token)
    ds["x"][0] = 5.0
    with pytest.warns(tl.WrongClockWarning, match="365 days.* ahead of that of"):
        ds.commit("ahead")
    monkeypatch.undo()

    now = datetime.now(UTC)
    assert abs(tl.open(str(served.lake / name)).log()[0].time - now) < timedelta(minutes=1)
    assert tl.open(url, token=token).at(now + timedelta(seconds=2)).version == ds.version


def test_a_server_that_was_restarted_is_read_and_written_on(served: Served, name: str) -> None:
    make(served, name)
    token = served.token("write")
    with reserved_port() as port:
        with listening(create_app(served.settings), port=port) as address:
            ds = tl.open(f"{address}/{name}", token=token)
            assert len(ds) == 6

        with listening(create_app(served.settings), port=port):
            ds.append({"image": JPEG, "label": "cat", "x": 1})
            ds.commit("after the restart")

    assert len(tl.open(str(served.lake / name))) == 7


def test_a_server_that_is_gone_is_said(tmp_path: Path) -> None:
    del tmp_path
    store = LakeStore("http://127.0.0.1:1/pets", "t", policy=QUICK)

    with pytest.raises(StorageError, match="check that the server runs"):
        run(store.get("tensorlake.json"))
    with pytest.raises(StorageError, match="check that the server runs"):
        run(store.put_if_absent("packs/a", b"1"))


def test_the_token_comes_from_the_environment_and_stays_out_of_pickles(
    served: Served, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = make(served, name)
    token = served.token("read")
    monkeypatch.setenv("TENSORLAKE_TOKEN", token)

    pickled = pickle.dumps(tl.open(f"{served.address}/{name}"))

    assert token.encode() not in pickled
    assert pickle.loads(pickled)["x"][:].tolist() == ds["x"][:].tolist()


def test_lists_and_near_names_are_what_the_token_sees(served: Served, name: str) -> None:
    make(served, name)
    token = served.token(f"read:{name}")

    assert tl.list(served.address, token=token) == [name]
    assert tl.exists(f"{served.address}/{name}", token=token)
    with pytest.raises(DatasetNotFoundError, match=f"did you mean .*{name}'"):
        tl.open(f"{served.address}/{name}x", token=token)


def test_no_token_and_a_wrong_one_are_refused(served: Served, name: str) -> None:
    make(served, name)

    for token in (None, "wrong"):
        with pytest.raises(AccessError, match="TENSORLAKE_TOKEN"):
            tl.open(f"{served.address}/{name}", token=token)


def test_a_reader_is_refused_the_commit_and_a_branch_writer_the_other_branch(
    served: Served, name: str
) -> None:
    make(served, name).branch("fix-1")
    url = f"{served.address}/{name}"
    reader = tl.open(url, token=served.token("read"))
    fixer = tl.open(url, "fix-1", token=served.token(f"write:{name}@fix-*"))
    elsewhere = fixer.at("main")

    fixer["x"][0] = 7
    assert fixer.commit("seven").version == "fix-1@2"
    for refused in (reader, elsewhere):
        refused["x"][0] = 8
        with pytest.raises(AccessError, match="scope"):
            refused.commit("eight")
        refused.discard()
    assert tl.open(str(served.lake / name)).version == "main@1"


def test_a_refusal_has_the_remedy_of_the_server(served: Served, name: str) -> None:
    make(served, name)
    with listening(create_app(replace(served.settings, write=False))) as address:
        ds = tl.open(f"{address}/{name}", token=served.token("write"))
        ds["x"][0] = 8
        with pytest.raises(AccessError) as caught:
            ds.commit("eight")
        ds.discard()

    assert "read-only" in str(caught.value)
    assert str(caught.value).endswith("start it with --write, or write to the lake itself")


def test_a_dataset_is_removed_with_the_scope_for_it(served: Served, name: str) -> None:
    make(served, name)
    url = f"{served.address}/{name}"

    with pytest.raises(AccessError, match="admin"):
        tl.delete(url, confirm=url, token=served.token("write"))
    (served.lake / name / "NOTES.txt").write_text("mine")
    left = tl.delete(url, confirm=url, token=served.token("admin"))

    assert left == ["NOTES.txt"]
    assert not (served.lake / name / "tensorlake.json").exists()


def test_a_token_for_a_store_that_takes_none_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="token="):
        tl.open("memory://x", token="t")


def objects(folder: Path) -> dict[Path, bytes]:
    """What stands for ever: hints come later, and go."""
    kinds = ("*.json", "*.tlp", "*.txt")
    return {path: path.read_bytes() for kind in kinds for path in folder.rglob(kind)}


ENTRY = "branches/main/0000000002.json"


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        (ENTRY, b"{}", InvalidInputError),
        (ENTRY, None, InvalidInputError),  # the bytes of entry 1
        ("branches/main/0000000007.json", b"{}", InvalidInputError),
        ("branches/main/00000000002.json", b"{}", AccessError),
        ("tags/v9.json", b"{}", InvalidInputError),
        ("tags/v9.json", None, InvalidInputError),
        ("tags/v9.json", seal({"branch": "main", "seq": 1}), InvalidInputError),
        ("tags/pin-9.json", seal({"deleted": False}), InvalidInputError),
        ("tensorlake.json", b"{}", AccessError),
        ("gc/clock.json", b"{}", AccessError),
        ("notes.txt", b"{}", AccessError),
        ("packs/3f/x.tlp", b"{}", AccessError),
    ],
)
def test_only_what_a_commit_is_made_of_can_be_put(
    served: Served, name: str, path: str, body: bytes | None, error: type[Exception]
) -> None:
    make(served, name)
    store = LakeStore(f"{served.address}/{name}", served.token("admin"), policy=QUICK)
    data = body or run(store.get("branches/main/0000000001.json"))
    assert data is not None
    before = objects(served.lake / name)

    with pytest.raises(error):
        run(store.put_if_absent(path, data))

    assert objects(served.lake / name) == before


def test_what_stands_is_never_replaced(served: Served, name: str) -> None:
    make(served, name)
    store = LakeStore(f"{served.address}/{name}", served.token("admin"), policy=QUICK)
    first = run(store.get("branches/main/0000000000.json"))
    assert first is not None

    with pytest.raises(ObjectExistsError):
        run(store.put_if_absent("branches/main/0000000000.json", first))
    with pytest.raises(AccessError):
        run(store.put("branches/main/0000000001.json", first))
    with pytest.raises(InvalidInputError, match="branch's log"):
        run(store.put("branches/main/HEAD", _forged(first)))
    with pytest.raises(AccessError, match="deletes nothing"):
        run(store.delete("branches/main/0000000001.json"))


def test_no_number_of_a_log_is_left_out(served: Served, name: str) -> None:
    from tensorlake.format import Entry

    make(served, name)
    store = LakeStore(f"{served.address}/{name}", served.token("admin"), policy=QUICK)
    newest = run(store.get("branches/main/0000000001.json"))
    assert newest is not None
    later = Entry.from_bytes(newest, where="").changed(seq=7).sealed()[0]

    with pytest.raises(InvalidInputError, match="not the next entry"):
        run(store.put_if_absent("branches/main/0000000007.json", later))


def _forged(entry: bytes) -> bytes:
    from tensorlake.format import Entry

    return Entry.from_bytes(entry, where="").changed(message="forged").sealed()[0]


def test_what_lies_beside_a_datasets_objects_is_not_served(served: Served, name: str) -> None:
    make(served, name)
    (served.lake / name / "notes.txt").write_text("private")
    store = LakeStore(f"{served.address}/{name}", served.token("read"), policy=QUICK)

    async def paths() -> list[str]:
        return [meta.path async for meta in store.list("")]

    assert run(store.get("notes.txt")) is None
    assert run(store.head("notes.txt")) is None
    assert "notes.txt" not in run(paths())


class AnyPath:
    """Rules that let every path through, for the conformance of the wire itself."""

    def is_object(self, path: str) -> bool:
        return True

    def check_put(self, *given: Any, replaces: bool) -> None:
        pass


class DeletingStore(LakeStore):
    """Deletes on the disk behind the server, as only who reaches the lake can."""

    folder: Path

    async def delete(self, path: str) -> None:
        (self.folder / path).unlink(missing_ok=True)

    def clone(self) -> DeletingStore:
        twin = DeletingStore(*self._opened_with)
        twin.folder = self.folder
        return twin


@pytest.fixture(scope="module")
def permissive(served: Served) -> Iterator[Served]:
    app = create_app(served.settings)
    app.state.object_rules = AnyPath()
    with listening(app) as address:
        yield replace(served, address=address)


class TestLakeStore(StoreConformance):
    @pytest.fixture
    def store(self, permissive: Served, name: str) -> Store:
        tl.create(str(permissive.lake / name), {"x": "int8"}).close()
        token = permissive.token("admin")
        store = DeletingStore(f"{permissive.address}/{name}", token, policy=QUICK)
        run(store.get("tensorlake.json"))  # the server keeps the store of a dataset that it knows
        store.folder = permissive.lake / name
        for path in sorted(store.folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        return store


def test_an_ingestion_uses_the_token_that_it_is_given(served: Served, name: str) -> None:
    url, token = f"{served.address}/{name}", served.token("admin")

    with tl.ingest.numpy({"x": np.arange(3)}, url, token=token, progress=False) as ds:
        found = ds["x"][:].tolist()

    assert found == [0, 1, 2]
