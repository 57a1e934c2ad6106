"""The mark that a check leaves: what a quick check need not read again, and when it must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.dataset import check_url
from tensorlake.dataset.maintenance.check import CheckReport, check_store
from tensorlake.format import entry_path, seal, unseal
from tensorlake.storage import MemoryStore, open_store, run
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tensorlake.versions import BranchLog, collect_garbage
from tensorlake.versions.log.entries import following
from tensorlake.versions.verify.mark import MARK
from tests.support.garbage import Clock, copy_of
from tests.support.handles import create_on, open_on, wait_for_storage

COMMITS = 40


@pytest.fixture(scope="module")
def origin() -> MemoryStore:
    """A log with index pages and a branch, checked."""
    store = MemoryStore(clock=Clock())
    dataset = create_on(store, {"x": "int64"})
    for x in range(COMMITS):
        dataset.append({"x": x})
        dataset.commit()
    fix = dataset.branch("fix")
    fix["x"][0] = -1
    fix.commit()
    wait_for_storage()
    assert dataset.check().ok
    assert run(store.head(MARK)) is not None
    return store


@pytest.fixture
def store(origin: MemoryStore) -> MemoryStore:
    return copy_of(origin, Clock(origin._clock.now))


def quick(store: MemoryStore) -> tuple[CheckReport, int]:
    """A quick check, and how many requests for data it made."""
    counting = CountingStore(store)
    report = open_on(counting).check(full=False)
    return report, counting.count("get", "get_range")


def all_entries(store: MemoryStore) -> int:
    heads = [run(BranchLog(store, branch).head()) for branch in ("main", "fix")]
    return sum(head.seq + 1 for head in heads if head is not None)


def change(store: MemoryStore, path: str, at: int = 100) -> None:
    data = bytearray(run(store.get(path)) or b"")
    data[at] ^= 1
    run(store.put(path, bytes(data)))


def forge(store: MemoryStore, members: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    body = unseal(run(store.get(MARK)) or b"", where=MARK)
    del body["digest"]
    run(store.put(MARK, seal(body | members(body))))


def a_pack(store: MemoryStore) -> str:
    """The pack of an index page."""
    head = run(BranchLog(store, "main").existing(COMMITS))
    return next(iter(head.roots.values())).children[0].pack.path


def test_what_was_checked_is_not_read_again(store):
    report, requests = quick(store)

    assert report.ok
    assert (report.unchanged, report.versions) == (all_entries(store), 0)
    assert requests <= 16  # opening, hints, and the newest entry of each log


def test_commits_since_are_read_and_those_before_are_not(store):
    dataset = open_on(store)
    dataset.append({"x": 100})
    dataset.commit()
    wait_for_storage()

    report, requests = quick(store)

    assert report.ok
    assert (report.unchanged, report.versions) == (all_entries(store) - 1, 1)
    assert report.unreferenced == 0
    assert requests <= 20
    assert quick(store)[0].versions == 0


def test_a_full_check_reads_all(store):
    report = open_on(store).check()

    assert (report.unchanged, report.versions) == (0, COMMITS + 3)


CHANGES = {
    "an entry in the middle": entry_path("main", 7),
    "the newest entry that was checked": entry_path("fix", 1),
}


@pytest.mark.parametrize("path", CHANGES.values(), ids=CHANGES)
def test_an_entry_that_changed_since_is_found(store, path):
    change(store, path)

    report, _ = quick(store)

    assert path in {finding.object for finding in report.findings}
    assert run(store.head(MARK)) is None


@pytest.mark.parametrize("act", ["replace", "cut", "delete"])
def test_a_pack_that_changed_since_makes_the_next_check_read_all(store, act):
    pack = a_pack(store)
    data = run(store.get(pack)) or b""
    run(store.delete(pack))
    if act != "delete":
        run(store.put(pack, data if act == "replace" else data[:100]))

    report, _ = quick(store)

    assert (report.unchanged, report.versions) == (0, COMMITS + 3)
    assert report.ok == (act == "replace")


def test_an_entry_that_is_gone_is_found(store):
    run(store.delete(entry_path("main", 7)))

    report, _ = quick(store)

    assert [finding.object for finding in report.findings] == [entry_path("main", 7)]


FORGERIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "of another dataset": lambda body: {"dataset": "0" * 32},
    "of a checker that knew less": lambda body: {"kinds": body["kinds"][1:]},
    "of another entry": lambda body: {
        "logs": {branch: [one[0], "0" * 40, one[2]] for branch, one in body["logs"].items()}
    },
    "of an entry that is yet to come": lambda body: {
        "logs": {branch: [999, *one[1:]] for branch, one in body["logs"].items()}
    },
    "of a number below zero": lambda body: {
        "logs": {branch: [-5, *one[1:]] for branch, one in body["logs"].items()}
    },
    "of entries listed otherwise": lambda body: {
        "logs": {branch: [*one[:2], "0" * 40] for branch, one in body["logs"].items()}
    },
    "of packs that never were": lambda body: {"packs": "AAAAAAAAAAA="},
    "of half a pack": lambda body: {"packs": "AAAA"},
    "not base64": lambda body: {"packs": "*"},
    "not logs": lambda body: {"logs": [1]},
    "not a log": lambda body: {"logs": {"main": 1}},
    "without packs": lambda body: {"packs": None},
}


@pytest.mark.slow
@pytest.mark.parametrize("members", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_mark_means_nothing(store, members):
    forge(store, members)

    report, _ = quick(store)

    assert report.ok
    assert (report.unchanged, report.versions) == (0, COMMITS + 3)
    assert quick(store)[0].versions == 0  # it was replaced


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff" * 100])
def test_a_damaged_mark_means_nothing(store, data):
    run(store.put(MARK, data))

    report, _ = quick(store)

    assert report.ok
    assert report.versions == COMMITS + 3


def test_a_mark_holds_for_a_version_that_expired_since_and_was_collected(store):
    dataset = open_on(store)
    dataset["x"][:] = range(100, 100 + COMMITS)
    dataset.commit()
    dataset.optimize()
    dataset.expire(keep_last=1)
    assert quick(store)[0].ok
    store._clock.pass_grace()
    run(collect_garbage(store))

    report, _ = quick(store)

    assert report.ok
    assert quick(store)[0].versions == 0


def test_a_branch_that_is_new_is_checked_whole(store):
    other = open_on(store).branch("other")
    other["x"][1] = -2
    other.commit()

    report, _ = quick(store)

    assert report.ok
    assert (report.unchanged, report.versions) == (all_entries(store), 2)


def test_a_wrong_citation_of_an_entry_that_was_not_read_again_is_found(store):
    dataset = open_on(store, "fix")
    dataset.append({"x": 100})
    dataset.commit()
    path = entry_path("fix", 2)
    body = unseal(run(store.get(path)) or b"", where=path)
    del body["digest"]
    body["parents"].append({"branch": "main", "seq": 3, "digest": "0" * 40})
    run(store.put(path, seal(body)))

    report, _ = quick(store)

    assert (path, "it cites main@3, which is another entry or none") in [
        (finding.object, finding.what) for finding in report.findings
    ]


def test_a_hint_that_is_behind_the_mark_is_no_finding(store):
    run(store.put("branches/main/HEAD", run(store.get(entry_path("main", 3))) or b""))

    report, _ = quick(store)

    assert report.ok
    assert report.versions == 0


def test_a_handle_that_may_not_write_uses_a_mark_and_leaves_none():
    url = "memory://check-mark-read-only"
    with tl.create(url, {"x": "int64"}) as dataset:
        dataset.append({"x": 1})
        dataset.commit()

    assert tl.open(url, read_only=True).check().ok
    assert run(open_store(url).head(MARK)) is None

    assert tl.open(url).check().ok
    assert tl.open(url, read_only=True).check(full=False).unchanged == 2


def test_a_mark_that_the_store_refuses_harms_nothing(store):
    run(store.delete(MARK))
    faulty = FaultyStore(store)
    faulty.inject(Fault.REFUSED, call="put", path=MARK)

    assert open_on(faulty).check().ok
    assert run(store.head(MARK)) is None


def test_a_commit_that_comes_while_packs_are_listed_leaves_no_mark(store):
    run(store.delete(MARK))
    listing = FaultyStore(store)

    def commit() -> None:
        other = open_on(store)
        other.append({"x": 100})
        other.commit()

    listing.before("list", commit, path="branches/main/")

    report = open_on(listing).check()

    assert report.ok
    assert report.versions == COMMITS + 4
    assert run(store.head(MARK)) is None


def test_what_only_a_newer_reader_understands_is_not_marked(store):
    newest = run(BranchLog(store, "main").head())
    assert newest is not None
    entry = following(newest, branch="main", kind="commit", txid="f" * 32).to_json()
    entry["features"] = {"read": ["from the future"], "write": []}
    run(store.put(entry_path("main", newest.seq + 1), seal(entry)))

    report = check_store(store, full=True, decode=False, repair=False, may_write=True)

    assert [finding.severity for finding in report.findings] == ["warning"]
    assert run(store.head(MARK)) is None


def test_damage_removes_the_mark(store):
    change(store, a_pack(store), at=66)

    assert not open_on(store).check().ok

    assert run(store.head(MARK)) is None


def test_a_collector_does_not_heed_the_mark(store):
    forge(store, lambda body: {"packs": "", "logs": {}})
    needed = {meta for meta in store._objects if meta.startswith("packs/")}
    store._clock.pass_grace()

    run(collect_garbage(store))

    assert needed <= set(store._objects)
    assert open_on(store).check().ok


def test_a_mirror_is_not_marked():
    source, mirror = "memory://check-mark-source", "memory://check-mark-mirror"
    with tl.create(source, {"x": "int64"}) as dataset:
        dataset.append({"x": 1})
        dataset.commit()
    tl.copy(source, mirror, mirror=True)

    for report in (tl.open(mirror).check(), check_url(mirror), check_url(source)):
        assert report.ok

    assert run(open_store(mirror).head(MARK)) is None
    assert run(open_store(source).head(MARK)) is not None
