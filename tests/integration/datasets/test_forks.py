"""Forks: a version of another dataset, read in its packs, and changed in the fork's own."""

from __future__ import annotations

import pickle
import shutil
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import LinkStore, LocalStore, MemoryStore, runtime
from tensorlake.testing import CountingStore, Fault, FaultyStore, SimulatedCrash
from tensorlake.versions import fork_dataset
from tests.support.file_server import file_server

_numbers = count()
ROWS = 300


def filled(url: str | Path) -> tl.Dataset:
    """A dataset of two commits: a JSON tensor, vectors, texts and images."""
    schema = {
        "x": "int64",
        "name": "str",
        "vec": tl.Embedding(4),
        "image": tl.Image("png"),
        "label": tl.ClassLabel(["cat", "dog"]),
    }
    ds = tl.create(url, schema, durability="none")
    number = np.random.default_rng(0)
    for start in (0, ROWS // 2):
        rows = range(start, start + ROWS // 2)
        ds.extend(
            {
                "x": [*rows],
                "name": [f"row {row}" for row in rows],
                "vec": number.random((ROWS // 2, 4), np.float32),
                "image": list(number.integers(0, 255, (ROWS // 2, 6, 5, 3)).astype(np.uint8)),
                "label": [row % 2 for row in rows],
            }
        )
        ds.commit(f"from {start}")
    return ds


@pytest.fixture
def place() -> str:
    return f"memory://forks-{next(_numbers)}"


@pytest.fixture
def base(place: str) -> tl.Dataset:
    return filled(f"{place}/base")


@pytest.fixture
def ds(place: str, base: tl.Dataset) -> tl.Dataset:
    return tl.fork(base.url, f"{place}/fork")


def rows_of(ds: tl.Dataset) -> list[tuple]:
    return [(row["x"], row["name"], row["vec"].tolist(), row["image"].tolist()) for row in ds]


def packs_in(url: str) -> int:
    name, _, prefix = url.removeprefix("memory://").partition("/")

    async def counted() -> int:
        return len([one async for one in MemoryStore(name, prefix=prefix).list("packs/")])

    return runtime.run(counted())


def test_a_fork_has_the_rows_and_row_ids_of_its_base_and_stores_none(ds, base):
    assert rows_of(ds) == rows_of(base)
    assert ds.row_ids == base.row_ids
    assert ds.query("WHERE label = 'dog' AND x > 290").rows.tolist() == [291, 293, 295, 297, 299]
    assert packs_in(ds.url) == 0
    assert [(one.url, one.version) for one in ds.bases] == [(base.url, "main@2")]
    assert base.bases == ()
    assert pickle.loads(pickle.dumps(ds))["x"][7] == 7


def test_commits_of_the_fork_are_its_own(ds, base, place):
    before = rows_of(base)
    ds["x"][3] = -3
    ds.delete([0])
    ds.append({"x": 9, "name": "new", "vec": np.ones(4), "image": FLAT, "label": "cat"})
    ds.add_tensor("note", tl.Text(nullable=True))
    ds.commit("corrected")

    again = tl.open(ds.url)
    assert again["x"][:3].tolist() == [1, 2, -3]
    assert again["x"][-1] == 9
    changed = again.diff("main@0", "main@1")
    assert (len(changed.added), len(changed.removed), [*changed.updated]) == (1, 1, ["x"])
    assert again.at("main@0")["x"][3] == 3
    assert rows_of(base) == before
    assert [commit.version for commit in again.log()] == ["main@1", "main@0"]


FLAT = np.zeros((6, 5, 3), np.uint8)


def test_the_base_may_move_on_and_collect(ds, base):
    before = rows_of(ds)
    base["x"][:] = np.zeros(ROWS, np.int64)
    base.commit("others")
    base.expire(keep_last=1)
    base.gc()

    assert rows_of(tl.open(ds.url)) == before
    assert list(base.tags) == [f"fork-{_id_of(ds)}"]


def _id_of(ds: tl.Dataset) -> str:
    name, _, prefix = ds.url.removeprefix("memory://").partition("/")
    text = runtime.run(MemoryStore(name, prefix=prefix).get("tensorlake.json")) or b""
    return text.decode().split('"id":"')[1][:32]


def test_an_older_version_can_be_forked(base, place):
    ds = tl.fork(base.url, f"{place}/older", "main@1")

    assert len(ds) == ROWS // 2
    assert ds.bases[0].version == "main@1"


def test_branches_merges_and_restores_keep_the_bases(ds, base):
    other = ds.branch("fix")
    other["x"][1] = -1
    other.commit("on a branch")
    ds["x"][2] = -2
    ds.commit("on main")
    ds.merge("fix")
    assert ds["x"][:4].tolist() == [0, -1, -2, 3]
    ds.restore("main@0")

    assert tl.open(ds.url)["x"][:4].tolist() == [0, 1, 2, 3]
    assert tl.open(ds.url).bases == tl.open(ds.url, "fix").bases == ds.bases != ()
    assert ds.check().ok


def test_a_fork_of_a_fork_reads_both_bases(ds, place):
    ds["x"][5] = -5
    ds.commit("five")
    second = tl.fork(ds.url, f"{place}/second")
    second["x"][6] = -6
    second.commit("six")

    assert second["x"][4:8].tolist() == [4, -5, -6, 7]
    assert [base.url for base in second.bases] == [ds.url, f"{place}/base"]
    assert second.check().ok


def test_check_gc_and_optimize_know_bases(ds):
    ds["x"][5] = -5
    ds.commit("five")
    ds.branch("fix").delete_branch("fix")
    before = rows_of(ds)

    report = ds.check()
    assert report.ok, report
    assert ds.gc().deleted_packs == 0
    ds.optimize()
    assert rows_of(ds) == before == rows_of(tl.open(ds.url))
    assert ds.check(full=True).ok
    assert ds.check(full=False).ok
    ds.expire(keep_last=1)
    ds.gc()
    assert rows_of(tl.open(ds.url)) == before


def test_a_copy_of_a_fork_is_one_of_the_same_base(ds, place):
    ds["x"][5] = -5
    ds.commit("five")

    report = tl.copy(ds.url, f"{place}/copy")
    assert report.packs == packs_in(ds.url)
    copied = tl.open(f"{place}/copy")
    assert (rows_of(copied), copied.bases) == (rows_of(ds), ds.bases)
    tl.copy(ds.url, f"{place}/one", version="main@1", history=False)
    assert tl.open(f"{place}/one")["x"][5] == -5


def test_a_lost_pack_of_the_fork_is_not_taken_for_one_of_the_base(ds, place):
    ds["x"][5] = -5
    ds.commit("five")
    store = MemoryStore(place.removeprefix("memory://"), prefix="fork")

    async def lose_one() -> None:
        paths = [one.path async for one in store.list("packs/")]
        await store.delete(paths[0])

    runtime.run(lose_one())

    with pytest.raises(tl.StorageError, match=r"packs of .* were missing"):
        tl.copy(ds.url, f"{place}/copy")
    assert not tl.exists(f"{place}/copy")
    with pytest.raises(tl.StorageError, match="are in no base"):
        ds.absorb()
    assert not ds.check().ok


def test_an_absorbed_fork_needs_no_base(ds, base):
    ds["x"][5] = -5
    ds.commit("five")
    ds.branch("fix")
    before = rows_of(ds)

    assert ds.absorb() == packs_in(base.url)

    assert ds.bases == ()
    tl.delete(base.url, confirm=base.url)
    again = tl.open(ds.url)
    assert rows_of(again) == before
    assert again.at("main@0")["x"][5] == 5
    assert tl.open(ds.url, "fix")["x"][5] == -5
    assert again.check().ok
    assert again.absorb() == 0
    again.restore("main@0")
    assert again["x"][5] == 5


def test_a_base_that_is_gone_is_named(ds, base):
    ds["x"][5] = -5
    ds.commit("five")
    tl.delete(base.url, confirm=base.url)
    again = tl.open(ds.url)

    with pytest.raises(tl.CorruptionError, match=r"nor in its base 'memory://.*base'") as caught:
        again["name"][:]
    assert "ds.absorb()" in str(caught.value)
    findings = again.check().findings
    assert any("this base of the fork is gone" in one.what for one in findings)
    assert again.gc().deleted_packs == 0
    with pytest.raises(tl.StorageError, match="are in no base"):
        again.absorb()
    assert again.bases != ()


def test_a_base_that_is_another_dataset_is_found_by_check(ds, base):
    tl.delete(base.url, confirm=base.url)
    filled(base.url)

    findings = tl.open(ds.url).check().findings

    assert any("is another dataset now" in one.what for one in findings)


def test_a_slow_base_is_an_error_that_names_the_fork(tmp_path):
    filled(tmp_path / "base")
    fork = tl.fork(tmp_path / "base", tmp_path / "fork")
    packs = tl.open(fork.url).__session__.packs
    (base,) = packs.places.bases
    slow = FaultyStore(LocalStore(str(tmp_path / "base")))
    slow.inject(Fault.TIMED_OUT, call="get_range", times=9)
    packs.places._stores[base.url] = slow

    with pytest.raises(tl.StorageTimeoutError) as caught:
        runtime.run(packs.read_range(_some_pack(tmp_path / "base"), 0, 8))

    assert "it is the base of the fork" in caught.value.__notes__[0]


def _some_pack(folder: Path):
    from tensorlake.format import PackId

    path = next((folder / "packs").rglob("*.tlp"))
    return PackId.from_path(path.relative_to(folder).as_posix())


def test_rows_of_a_base_are_not_forgotten_in_a_fork(ds):
    with pytest.raises(tl.UnsupportedFeatureError, match=r"forget the rows there; .*ds\.absorb"):
        ds.forget("x = 3")
    ds.absorb()
    ds.forget("x = 3")
    assert 3 not in ds["x"][:]


def test_a_folder_is_recorded_by_its_whole_path(tmp_path, monkeypatch):
    filled(tmp_path / "base.tl")
    monkeypatch.chdir(tmp_path)
    tl.fork("base.tl", "fork.tl")
    monkeypatch.chdir("/")

    ds = tl.open(tmp_path / "fork.tl")
    assert ds["x"][10] == 10
    assert ds["x"][[3, 200, 77]].tolist() == [3, 200, 77]
    assert len(list(ds.loader(batch_size=100))) == 3


def test_a_read_only_base_is_forked_with_a_warning(tmp_path):
    with file_server() as served, filled(tmp_path / "base") as base:
        for path in (tmp_path / "base").rglob("*"):
            if path.is_file():
                name = path.relative_to(tmp_path / "base").as_posix()
                served.files[f"lake/{name}"] = path.read_bytes()
        with pytest.warns(tl.UntaggedBaseWarning, match="its owner may delete"):
            ds = tl.fork(f"{served.url}/lake", tmp_path / "fork")

        ds["label"][0] = "dog"
        ds.commit("an annotation")

        assert rows_of(ds) == rows_of(base)
        assert ds.check().ok
        again = tl.open(ds.url)
        assert again["label"][0] == 1
        assert again.query("WHERE x > 297").rows.tolist() == [298, 299]
        with pytest.raises(tl.DatasetNotFoundError, match="nothing to fork"):
            tl.fork(f"{served.url}/nothing", tmp_path / "other")


def test_a_base_url_is_stored_without_credentials(base, place):
    with pytest.raises(tl.InvalidInputError, match="a user, a password, a query"):
        tl.fork("s3://key:secret@bucket/lake", f"{place}/fork")
    with pytest.raises(tl.InvalidInputError, match="a user, a password, a query"):
        tl.fork("https://host/lake?signature=abc", f"{place}/fork")


def test_what_cannot_be_forked_is_refused(base, ds, place):
    with pytest.raises(tl.InvalidInputError, match=r"dataset at .* already"):
        tl.fork(base.url, ds.url)
    with pytest.raises(tl.DatasetNotFoundError, match="nothing to fork"):
        tl.fork(f"{place}/none", f"{place}/other")
    with pytest.raises(tl.VersionNotFoundError):
        tl.fork(base.url, f"{place}/other", "main@99")
    assert not tl.exists(f"{place}/other")
    with pytest.raises(tl.UnsupportedStoreError, match="through a server"):
        tl.fork(base.url, "http://localhost:1/fork")
    with pytest.raises(tl.ReadOnlyError, match="cannot write"):
        ds.at("main@0").absorb()
    ds["x"][0] = 1
    with pytest.raises(tl.UncommittedChangesError, match=r"absorb\(\) commits"):
        ds.absorb()
    ds.discard()


def test_an_interrupted_fork_is_made_by_the_same_call(base, place):
    store = MemoryStore(place.removeprefix("memory://"), prefix="killed")
    faulty = FaultyStore(store)
    faulty.crash_after(14)  # the probe, the descriptor and its copy
    source = LinkStore(place).dataset(base.url)
    with pytest.raises(SimulatedCrash):
        runtime.run(fork_dataset(source, base.url, faulty, None))

    ds = tl.fork(base.url, f"{place}/killed")

    assert rows_of(ds) == rows_of(base)


def test_a_fork_of_a_million_rows_takes_ten_requests_and_ten_kilobytes(place):
    ds = tl.create(f"{place}/large", {"x": "int64", "y": "float32", "label": "uint8"})
    for part in range(4):
        x = np.arange(250_000) + part
        ds.extend({"x": x, "y": x.astype(np.float32), "label": (x % 7).astype(np.uint8)})
        ds.commit(f"part {part}")
    name = place.removeprefix("memory://")
    base, target = (CountingStore(MemoryStore(name, prefix=one)) for one in ("large", "fork"))

    runtime.run(fork_dataset(base, f"{place}/large", target, None))

    asked = [one for one in base.requests + target.requests if "probe-" not in one.path]
    written = sum(one.nbytes for one in asked if one.call.startswith("put"))
    assert len(asked) <= 10, asked
    assert written <= 100_000
    assert len(tl.open(f"{place}/fork")) == 1_000_000


def test_a_transaction_of_a_base_is_looked_for_once(base, place):
    name = place.removeprefix("memory://")
    tl.fork(base.url, f"{place}/fork")
    store = CountingStore(MemoryStore(name, prefix="fork"))
    from tests.support.handles import open_on

    ds = open_on(store)
    rows_of(ds)
    ds["vec"][:]
    store.reset()
    ds["vec"][:]
    assert not [one for one in store.requests if one.path.startswith("packs/")]


def test_a_tag_of_a_deleted_fork_can_be_deleted(ds, base):
    (tag,) = base.tags
    tl.delete(ds.url, confirm=ds.url)
    base.delete_tag(tag)
    assert not base.tags


def test_a_moved_folder_of_a_base_is_named(tmp_path):
    filled(tmp_path / "base")
    ds = tl.fork(tmp_path / "base", tmp_path / "fork")
    shutil.move(tmp_path / "base", tmp_path / "moved")

    with pytest.raises(tl.CorruptionError, match="deleted, moved"):
        tl.open(ds.url)["name"][:]
    shutil.move(tmp_path / "moved", tmp_path / "base")
    assert tl.open(ds.url)["name"][1] == "row 1"
