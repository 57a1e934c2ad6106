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


TEXT, NUMBER = "Benedikta Muster", 491_711_234_567
FORMS = [
    *(TEXT.encode(), TEXT.encode().hex().encode(), str([*TEXT.encode()])[1:-1].encode()),
    *(str(NUMBER).encode(), f"{NUMBER:x}".encode(), NUMBER.to_bytes(8, "little")),
]
"""Values as bytes, decimals and hex."""


def test_personal_values_are_nowhere_once_they_are_forgotten(tmp_path):
    ds = tl.create(
        tmp_path / "lake.tl",
        {
            "name": tl.Text(personal=True),
            "phone": tl.Scalar("int64", nullable=True, personal=True),
            "group": tl.Struct({"mail": "str"}, personal=True),
            "x": "int64",
        },
        grace="1min",
    )
    rows = {"name": [TEXT, "b", "c"], "phone": [NUMBER, None, 3], "group/mail": [TEXT, "b", "c"]}
    ds.extend({**rows, "x": [1, 2, 3]})
    ds.commit("three")
    ds.create_index("name")
    ds.create_index("phone")
    ds.commit("indexed")
    assert len(ds.query("WHERE phone IS NULL")) == 1
    assert len(ds.query("WHERE name > 'b'")) == 1
    config = {TEXT: [{"phone": NUMBER}], "other": "unchanged"}
    with ds.run("r", config=config) as run:
        view = ds.query("WHERE name = $who OR x > 1", who=TEXT)
        loader = run.loader(view, batch_size=1, columns=["x"])
        next(iter(loader))
        loader.advance(str(ds.version), where=f"phone != {NUMBER} OR x < 3")
        list(loader)
    with ds.run("of another") as run:
        list(run.loader(ds.query("WHERE x > 1"), batch_size=1, columns=["x"]))
    ds.drop_tensor("phone")
    ds.drop_tensor("group/mail")
    ds["name"][0] = "corrected"
    ds.commit("dropped")

    report = ds.forget(f"phone = {NUMBER}")

    assert report.redacted == ("r",)
    assert report.bounded == ("x",)
    packs = tmp_path / "lake.tl" / "packs"
    assert all(str(packs) in path for path in found_in(ds.url, *FORMS))
    assert ds.runs["r"].config == {"***": [{"phone": "***"}], "other": "unchanged"}
    assert ds.runs["r"].batch(0)["_valid"].tolist() == [False]
    with pytest.raises(tl.InvalidInputError, match="named values of rows that were forgotten"):
        ds.runs["r"].batch(1)
    pass_grace(ds.url)
    assert ds.forget(finish=True).is_finished
    assert found_in(ds.url, *FORMS) == []


def test_open_log_and_trace_agree_about_versions_without_their_rows(lake):
    ds, _ = lake
    ds.tag("kept")
    at = ds.log()[0].time
    report = ds.forget("x = 20")

    assert "kept" in report.deleted
    expired = [commit.version for commit in ds.log() if commit.is_expired]
    assert str(ds.log()[-1]).endswith("(expired)")
    traced = [
        f"{one.branch}@{number}"
        for one in ds.trace(0).versions
        for number in range(one.first, one.last + 1)
    ]
    fresh = tl.open(ds.url)
    for commit in fresh.log():
        assert commit.is_expired is (commit.version in expired)
        if commit.is_expired:
            with pytest.raises(tl.SnapshotExpiredError, match="rows were forgotten"):
                tl.open(ds.url, version=commit.version)
            with pytest.raises(tl.SnapshotExpiredError, match="rows were forgotten"):
                tl.copy(ds.url, f"{ds.url}-copy", version=commit.version)
        else:
            assert len(fresh.at(commit.version)) == ROWS - 1
            assert commit.version in traced
    with pytest.raises(tl.SnapshotExpiredError):
        fresh.at(at)
    assert not {*expired} & {*traced}


@pytest.mark.parametrize("ids", [[5], [10**5000], [[1]], [], np.arange(2), np.array(1.5), [None]])
def test_ids_that_are_none_are_refused(lake, ids):
    with pytest.raises(tl.InvalidInputError, match="row id"):
        lake[0].forget(ids)


def test_rows_are_named_by_a_view_or_by_their_ids(lake):
    ds, _ = lake
    other = tl.create(f"{ds.url}-other", {"x": "int64"})
    ids = ds.query("WHERE x < 3").row_ids
    person = ds.query("WHERE x = 20").row_ids

    assert ds.forget(ds.query("WHERE x = 20")).rows == tuple(person)
    assert ds.forget([*ids[:2]]).rows == tuple(ids[:2])
    assert ds.forget(ids[2]).rows == (ids[2],)
    assert sorted(ds["x"][:].tolist()) == [row for row in range(3, ROWS) if row != PERSON]
    again = ds.forget(ids[2])
    assert len(again.rows) == 4
    assert str(again).startswith(
        "no other row meets the condition; of earlier calls 4 rows are in no branch any more"
    )
    for wrong in ([], other, "0" * 32 + ":x", [1], ds.query("SELECT COUNT(*)")):
        with pytest.raises(tl.TensorlakeError):
            ds.forget(wrong)


def _filled() -> dict[str, bytes]:
    store = MemoryStore()
    ds = create_on(store, {"name": "str"})
    ds.extend({"name": ["Ana", "Ben", "Cem"]})
    ds.commit("three")
    ds.tag("v1")
    ds.branch("side").close()
    wait_for_storage()
    return objects_of(store)


def objects_of(store: Store) -> dict[str, bytes]:
    """Read all objects of a store."""

    async def objects() -> dict[str, bytes]:
        return {meta.path: await store.get(meta.path) or b"" async for meta in store.list("")}

    return runtime.run(objects())


@pytest.mark.parametrize("writes", [1, 3])
def test_a_call_reports_its_own_rows_and_completes_those_of_one_that_stopped(writes):
    store: Store = MemoryStore()
    for path, data in _filled().items():
        runtime.run(store.put(path, data))
    dying = FaultyStore(store)
    dying.crash_after(writes)
    with pytest.raises(SimulatedCrash):
        open_on(dying).forget("name = 'Ben'")

    nobody = open_on(store).forget("name = 'Bem'")
    assert str(nobody).startswith("no other row meets the condition; of earlier calls 1 row is in")
    assert open_on(store)["name"].to_list() == ["Ana", "Cem"]
    report = open_on(store).forget("name = 'Cem'")
    assert str(report).startswith("1 row is in no branch")
    assert set(report.rows).isdisjoint(nobody.rows)


@pytest.mark.slow
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
        assert list(ds.tags) == ["v1.forgotten"]
        assert ds.at("v1.forgotten")["name"].to_list() == ["Ana", "Cem"]
        assert is_over or len(report.rows) == 1
        assert report.deleted == (() if is_over and not report.rows else ("v1",))
        listed = [path for path in objects_of(store) if path.startswith("forgotten/")]
        assert len(listed) == 2
        assert report.held.versions[0].last == 1
        if is_over:
            return
    raise AssertionError("it never came to its end")


def test_spliced_runs_of_expired_versions_say_so(lake):
    ds, _ = lake
    with ds.run("spliced") as run:
        loader = run.loader(batch_size=8, shuffle=True, seed=1, columns=["x"])
        next(iter(loader))
        loader.advance(where="x > 1")
        list(loader)
    report = ds.forget("x = 20")

    assert "replayed with holes, where their orders need no values" in str(report)
    assert ds.runs["spliced"].batch(0)["x"].shape == (8,)
    with pytest.raises(tl.SnapshotExpiredError, match="rows were forgotten"):
        ds.runs["spliced"].batch(1)
    pass_grace(ds.url)
    assert ds.forget(finish=True).is_finished
    with pytest.raises(tl.SnapshotExpiredError):
        ds.runs["spliced"].batch(1)
    assert ds.log()[0].message != "forget 1 rows"
    assert "forget 1 row" in [commit.message for commit in ds.log()]


def test_expired_versions_with_names_and_runs_are_forgotten_without_a_successor(lake):
    ds, secret = lake
    ds.expire(keep_last=1)

    report = ds.forget("x = 20")

    assert sorted(report.deleted) == ["ben", "v1"]
    assert dict(report.renamed) == {}
    assert list(ds.tags) == []
    with pytest.raises(tl.SnapshotExpiredError):
        ds.runs["first"].batch(0)
    assert not ds.forget("x = 20").is_new
    pass_grace(ds.url)
    assert ds.forget(finish=True).is_finished
    assert found_in(ds.url, secret, b"Secretname") == []
