"""Rows that are forgotten: gone from every branch and name, then from the bytes of the store."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidStateError
from tensorlake.storage import MemoryStore, Store, runtime
from tensorlake.testing import FaultyStore, SimulatedCrash
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS, PERSON = 40, 20


@pytest.fixture
def lake(tmp_path):
    """A dataset of chunks that share packs, with an index, a branch, names and a run."""
    ds = tl.create(
        tmp_path / "lake.tl",
        {"name": "str", "x": "int64", "big": tl.Array("uint8", (100_000,))},
        grace="1min",
    )
    random = np.random.default_rng(0)
    names = [f"person number {row}" for row in range(ROWS)]
    names[PERSON] = "Benjamin Secretname"
    big = random.integers(0, 256, (ROWS, 100_000), np.uint8)
    ds.extend({"name": names, "x": np.arange(ROWS), "big": big})
    ds.commit("people")
    ds.tag("v1")
    ds.query("WHERE x = 20").save("ben")
    ds.branch("side").close()
    ds.create_index("name")
    ds.commit("indexed")
    with ds.run("first") as run:
        list(run.loader(batch_size=8, shuffle=True, seed=1, columns=["x"]))
    ds["name"][3] = "another name"
    ds.commit("changed")
    return ds, big[PERSON][5000:5040].tobytes()


def found_in(url: str, *values: bytes) -> list[str]:
    """List the objects that have one of some bytes."""
    files = [file for file in Path(url).rglob("*") if file.is_file()]
    return [str(file) for file in files if any(one in file.read_bytes() for one in values)]


def pass_grace(url: str) -> None:
    """Date all objects two hours back."""
    for file in Path(url).rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - 7200
            os.utime(file, (then, then))


def test_values_are_in_no_object_once_the_report_is_there(lake):
    ds, big = lake
    assert found_in(ds.url, b"Secretname", big)
    steps = tuple(ds.runs["first"].steps_of(PERSON))

    begun = ds.forget("x = 20")

    assert not begun.is_finished
    assert begun.deleted == ("v1", "ben")
    assert len(ds) == len(tl.open(ds.url, version="side")) == ROWS - 1
    assert "Secretname" not in "".join(ds["name"].to_list())
    assert not len(ds.query("WHERE name = 'Benjamin Secretname'"))
    assert len(ds.query("WHERE name = 'another name'")) == 1
    with pytest.raises(InvalidStateError, match="the grace time has not passed"):
        ds.forget(finish=True)

    pass_grace(ds.url)
    report = ds.forget(finish=True)

    assert report.is_finished
    assert report.rows == begun.rows
    assert report.held.runs == {"first": steps}
    assert report.held.tags == ("v1",)
    assert report.held.views == ("ben",)
    assert found_in(ds.url, b"Secretname", big) == []
    assert sorted(ds["x"][:].tolist()) == [row for row in range(ROWS) if row != PERSON]
    with pytest.raises(tl.SnapshotExpiredError):
        tl.open(ds.url, version="main@1")["x"][:]


def test_rows_of_older_versions_only_are_forgotten(lake):
    ds, _ = lake
    ds.delete([PERSON])
    ds.commit("deleted before")

    report = ds.forget("x = 20")

    assert len(report.rows) == 1
    assert len(tl.open(ds.url, version="side")) == ROWS - 1
    pass_grace(ds.url)
    assert ds.forget("x = 20", finish=True).is_finished
    assert found_in(ds.url, b"Secretname") == []


def test_versions_from_before_the_rows_keep_their_names(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"name": "str"})
    ds.extend({"name": ["Ana"]})
    ds.commit("one")
    ds.tag("before")
    ds.extend({"name": ["Ben"]})
    ds.commit("two")

    report = ds.forget("name = 'Ben'")

    assert report.deleted == ()
    assert tl.open(ds.url, version="before")["name"].to_list() == ["Ana"]


def test_what_is_not_there_is_not_forgotten(lake):
    ds, _ = lake

    assert ds.forget("x = 999").rows == ()
    with pytest.raises(tl.InvalidInputError, match="takes a condition"):
        ds.forget()
    with pytest.raises(tl.InvalidInputError, match="nothing is left to be collected"):
        ds.forget(finish=True)
    with pytest.raises(tl.QueryError):
        ds.forget("nothing = 1")
    with pytest.raises(tl.ReadOnlyError):
        tl.open(ds.url, version="v1").forget("x = 1")
    ds.append({"name": "new", "x": 1, "big": np.zeros(100_000, np.uint8)})
    with pytest.raises(tl.UncommittedChangesError):
        ds.forget("x = 1")
    ds.discard()


def _filled() -> dict[str, bytes]:
    store = MemoryStore()
    ds = create_on(store, {"name": "str"})
    ds.extend({"name": ["Ana", "Ben", "Cem"]})
    ds.commit("three")
    ds.tag("v1")
    ds.branch("side").close()
    wait_for_storage()

    async def objects() -> dict[str, bytes]:
        return {meta.path: await store.get(meta.path) or b"" async for meta in store.list("")}

    return runtime.run(objects())


def test_a_call_that_stops_anywhere_is_completed_by_the_next():
    objects = _filled()
    for writes in range(100):
        store: Store = MemoryStore()
        for path, data in objects.items():
            runtime.run(store.put(path, data))
        dying = FaultyStore(store)
        dying.crash_after(writes)
        is_over = True
        try:
            open_on(dying).forget("name = 'Ben'")
        except SimulatedCrash:
            is_over = False

        report = open_on(store).forget("name = 'Ben'")

        ds = open_on(store)
        assert ds["name"].to_list() == ["Ana", "Cem"]
        assert ds.at("side")["name"].to_list() == ["Ana", "Cem"]
        assert not ds.tags
        assert is_over or len(report.rows) == 1
        if is_over:
            return
    raise AssertionError("it never came to its end")


def test_runs_of_expired_versions_say_so(lake):
    ds, _ = lake
    report = ds.forget("x = 20")

    assert "can no longer be replayed" in str(report)
    pass_grace(ds.url)
    assert "can no longer be replayed" in str(ds.forget(finish=True))
    with pytest.raises(tl.SnapshotExpiredError):
        ds.runs["first"].batch(0)
    assert ds.log()[0].message != "forget 1 rows"
    assert "forget 1 row" in [commit.message for commit in ds.log()]
