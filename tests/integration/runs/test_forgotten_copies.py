"""Copies and mirrors of a dataset whose rows are forgotten: they refuse what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore, Store, runtime
from tensorlake.testing import FaultyStore, SimulatedCrash
from tensorlake.versions import copy_dataset
from tests.support.handles import create_on, open_on, wait_for_storage

NAME = "Zebedee"
FORGOTTEN_VERSIONS = ("main@1", "gone@2", "v1")


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    """A dataset with a person on main, on a deleted branch, in a tag and in a run; two copies."""
    urls = [str(tmp_path / name) for name in ("lake.tl", "mirror.tl", "copy.tl")]
    ds = tl.create(urls[0], {"name": tl.Text(personal=True), "x": "int64"}, grace="1min")
    ds.extend({"name": ["Ana", NAME], "x": [1, 2]})
    ds.commit("two")
    ds.tag("v1")
    gone = ds.branch("gone")
    gone.append({"name": NAME, "x": 3})
    gone.commit("another")
    with ds.run("r", {"who": NAME}) as run:
        list(run.loader(batch_size=2, columns=["x"]))
    follow(urls)
    ds.delete_branch("gone")
    return urls


def follow(urls: list[str]) -> None:
    tl.copy(urls[0], urls[1], mirror=True)
    tl.copy(urls[0], urls[2])


def files_with(url: str) -> set[str]:
    """List the kinds of objects that have the name."""
    files = [file for file in Path(url).rglob("*") if file.is_file()]
    found = [file for file in files if NAME.encode() in file.read_bytes()]
    return {file.relative_to(url).parts[0] for file in found}


def pass_grace(url: str) -> None:
    for file in Path(url).rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - 7200
            os.utime(file, (then, then))


def refuse_all(url: str) -> None:
    for version in FORGOTTEN_VERSIONS:
        with pytest.raises((tl.SnapshotExpiredError, tl.VersionNotFoundError)):
            tl.open(url, version=version)
    ds = tl.open(url)
    assert "v1" not in ds.tags
    assert ds["name"].to_list() == ds.at("v1.forgotten")["name"].to_list() == ["Ana"]


def test_what_is_forgotten_is_refused_and_removed_in_the_places_that_follow(places: list[str]):
    source, mirror, copy = places
    for url in places:
        assert tl.open(url, version="gone@2")["name"].to_list() == ["Ana", NAME, NAME]
    ds = tl.open(source)
    ds.forget(f"name = '{NAME}'")
    follow(places)

    for url in places:
        refuse_all(url)
    assert files_with(mirror) == {"packs"}
    assert files_with(copy) == {"packs", "runs"}  # its own records of runs stay
    assert tl.open(mirror).runs["r"].config == {"who": "***"}

    pass_grace(source)
    assert ds.forget(finish=True).is_finished
    follow(places)
    assert files_with(mirror) == set()
    follow(places)
    assert tl.open(mirror).check(full=True).ok
    assert "packs" in files_with(copy)
    for url in places:
        refuse_all(url)

    pass_grace(copy)
    report = tl.open(copy).forget(finish=True)
    assert report.is_finished
    assert len(report.rows) == 2
    assert files_with(copy) == {"runs"}
    tl.copy(source, f"{source}-new")
    refuse_all(f"{source}-new")
    with pytest.raises(tl.InvalidInputError, match="nothing is left"):
        tl.open(f"{source}-new").forget(finish=True)


def objects_of(store: Store) -> dict[str, bytes]:
    async def objects() -> dict[str, bytes]:
        return {meta.path: await store.get(meta.path) or b"" async for meta in store.list("")}

    return runtime.run(objects())


def store_of(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for path, data in objects.items():
        runtime.run(store.put(path, data))
    return store


def mirror_of(source: Store, target: Store) -> None:
    runtime.run(copy_dataset(source, target, mirror=True))


def finished() -> tuple[Store, dict[str, bytes]]:
    """Return a source that has forgotten for good, and its mirror of before that."""
    source, before = MemoryStore(), MemoryStore()
    ds = create_on(source, {"name": "str"})
    ds.extend({"name": ["Ana", NAME]})
    ds.commit("two")
    ds.tag("v1")
    wait_for_storage()
    mirror_of(source, before)
    ds.forget(f"name = '{NAME}'")
    wait_for_storage()
    for path, data in objects_of(source).items():  # as forget(finish=True) leaves it
        if NAME.encode() in data and path.startswith("packs/"):
            runtime.run(source.delete(path))
        elif path.startswith("forgotten/") and "-" not in path:
            runtime.run(source.put(path.replace(".json", "-report.json"), data))
    return source, objects_of(before)


@pytest.mark.slow
def test_a_mirror_that_stops_anywhere_is_completed_by_the_next_copy():
    source, before = finished()
    whole = store_of(before)
    mirror_of(source, whole)
    expected = set(objects_of(whole))
    assert not any(NAME.encode() in data for data in objects_of(whole).values())
    for writes in range(100):
        store = store_of(before)
        dying = FaultyStore(store)
        dying.crash_after(writes)
        try:
            mirror_of(source, dying)
        except SimulatedCrash:
            assert open_on(store)["name"].to_list()[0] == "Ana"
            mirror_of(source, store)
            assert set(objects_of(store)) == expected
        else:
            return
    raise AssertionError("it never came to its end")


def test_records_delete_no_pack_that_the_source_needs_and_damaged_ones_are_named():
    source, before = finished()
    packs = [path for path in objects_of(source) if path.startswith("packs/")]
    path = next(one for one in objects_of(source) if one.endswith("-report.json"))
    begun = json.loads(runtime.run(source.get(path)) or b"")
    begun["packs"] += [Path(one).stem for one in packs]
    data = json.dumps(begun).encode()
    runtime.run(source.put(path.replace("-report", ""), data))
    store = store_of(before)
    mirror_of(source, store)
    assert {*packs} <= {*objects_of(store)}

    for content in (b"[]", b"{", b'{"clean": {"main": "x"}}', b'{"deleted": 1}'):
        damaged = path.replace("-report", "-cleaned")
        runtime.run(source.put(damaged, content))
        with pytest.raises(tl.CorruptionError, match=damaged):
            mirror_of(source, store_of(before))


def test_a_copy_of_a_part_gets_no_record_of_versions_that_it_lacks():
    source, part, whole = MemoryStore(), MemoryStore(), MemoryStore()
    ds = create_on(source, {"name": "str"})
    side = ds.branch("side")
    side.append({"name": "Ana"})
    side.commit("one")
    ds.merge("side")
    side.append({"name": NAME})
    side.commit("two")
    ds.forget(f"name = '{NAME}'")
    wait_for_storage()
    runtime.run(copy_dataset(source, part, version="main"))
    runtime.run(copy_dataset(source, whole))

    assert not [path for path in objects_of(part) if path.startswith("forgotten/")]
    assert open_on(part)["name"].to_list() == ["Ana"]
    assert open_on(part, version="side")["name"].to_list() == ["Ana"]
    with pytest.raises(tl.SnapshotExpiredError, match="rows were forgotten"):
        open_on(whole, version="side@2")
