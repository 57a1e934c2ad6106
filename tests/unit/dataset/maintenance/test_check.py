"""Verification and mending: what is found, what is said of it, and what comes back."""

import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import check_url, rowset_of, session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.maintenance.check import CheckReport, check_store
from tensorlake.format import Entry, entry_path, head_path, seal, tag_path
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore, FaultyStore
from tensorlake.versions import BranchLog
from tensorlake.versions.log.entries import following
from tests.support.handles import create_on, open_on, rows_of, wait_for_storage


def with_commits(store: MemoryStore, commits: int = 6, rows: int = 4) -> Dataset:
    ds = create_on(store, {"number": "int64", "data": tl.Bytes()})
    for commit in range(commits):
        numbers = np.arange(commit * rows, (commit + 1) * rows)
        ds.extend({"number": numbers, "data": [bytes([n % 256]) * 50 for n in numbers]})
        ds.commit(f"commit {commit}")
    wait_for_storage()
    return ds


def damage(store: MemoryStore, path: str, at: int) -> None:
    data = bytearray(runtime.run(store.get(path)) or b"")
    data[at] ^= 1
    runtime.run(store.put(path, bytes(data)))


def packs_of(store: MemoryStore) -> list[str]:
    async def listed() -> list[str]:
        return [meta.path async for meta in store.list("packs/")]

    return runtime.run(listed())


def check(store: MemoryStore, *, full: bool = True, repair: bool = False) -> CheckReport:
    return check_store(store, full=full, decode=False, repair=repair)


def objects_found(report: CheckReport) -> list[str]:
    return [finding.object for finding in report.findings]


# What is found


def test_a_dataset_as_it_was_written_has_no_findings():
    store = MemoryStore()
    ds = with_commits(store)
    ds.tag("v1")
    ds.branch("side").delete_tag("v1")

    report = ds.check(decode=True)

    assert report.ok
    assert "no problems found" in repr(report)
    assert report.versions == 8
    assert report.chunks == 12


def test_a_damaged_chunk_is_named_with_its_pack_offset_and_rows():
    store = MemoryStore()
    with_commits(store, commits=1)
    (path,) = packs_of(store)
    damage(store, path, 64 + 70)

    (finding,) = check(store).findings

    assert (finding.object, finding.offset, finding.severity) == (path, 64, "damage")
    assert "physical rows 0 … 3" in finding.what
    assert finding.advice == "restore it from a copy"


def test_a_quick_check_reads_no_chunk_but_misses_no_pack():
    store = MemoryStore()
    with_commits(store)
    gone, cut, changed = packs_of(store)[:3]
    runtime.run(store.delete(gone))
    runtime.run(store.put(cut, (runtime.run(store.get(cut)) or b"")[:100]))
    damage(store, changed, 64 + 70)

    quick, full = check(store, full=False), check(store)

    assert set(objects_found(quick)) == {gone, cut}
    assert {gone, cut, changed} <= set(objects_found(full))
    assert "not read" in repr(quick)


def test_a_quick_check_of_a_large_chunk_costs_no_bytes_of_it():
    objects = MemoryStore()
    ds = create_on(objects, {"data": tl.Bytes()})
    ds.extend({"data": [b"x" * 3_000_000]})
    ds.commit()
    store = CountingStore(objects)

    check_store(store, full=False, decode=False, repair=False)

    assert store.bytes_read < 100_000


def test_every_chunk_is_read_once_however_many_versions_share_it():
    objects = MemoryStore()
    with_commits(objects, commits=30)
    store = CountingStore(objects)

    report = check_store(store, full=True, decode=False, repair=False)

    assert report.ok
    assert report.versions == 31
    # two chunks and a directory in each pack, and a few index pages; not 30 versions' worth
    assert store.count("get_range", path="packs/") <= 4 * len(packs_of(objects))


def test_a_log_entry_that_does_not_follow_the_one_before_is_found():
    store = MemoryStore()
    with_commits(store)
    path = entry_path("main", 3)
    entry = Entry.from_bytes(runtime.run(store.get(path)) or b"", where=path)
    runtime.run(store.put(path, seal({**entry.to_json(), "prev": "0" * 40})))

    found = [(one.object, one.what.partition(":")[0]) for one in check(store).findings]

    assert (path, "it does not follow entry 2") in found
    assert (entry_path("main", 4), "it does not follow entry 3") in found  # its digest is another


@pytest.mark.parametrize(("commits", "is_paged"), [(1, False), (70, True)])
def test_class_codes_that_have_no_name_are_found(commits: int, *, is_paged: bool):
    store = MemoryStore()
    ds = create_on(store, {"label": tl.ClassLabel(["cat", "dog"], multi=True)})
    ds.extend({"label": [["cat", "dog"], []]})
    for _ in range(commits):
        ds.append({"label": ["cat"]})
        ds.commit("some")
    wait_for_storage()
    log = BranchLog(store, "main")
    before = runtime.run(log.head())
    assert before is not None
    assert any(root.children for root in before.roots.values()) is is_paged
    schema = json.loads(json.dumps(before.schema))
    schema["tensors"][0]["type"]["names"] = ["cat"]
    cut = following(before, branch="main", kind="commit", txid="ab" * 16, schema=schema)
    assert ds.check().ok
    runtime.run(log.publish(cut))

    report = check(store, full=False)

    assert [finding.what for finding in report.findings] == [
        "'label' has class codes up to 1, and 1 names"
    ]
    assert report.findings[0].object == entry_path("main", cut.seq)


def test_a_hole_in_a_log_is_found():
    store = MemoryStore()
    with_commits(store)
    runtime.run(store.delete(entry_path("main", 2)))

    assert entry_path("main", 2) in objects_found(check(store))


def test_a_tag_of_another_digest_is_found():
    store = MemoryStore()
    with_commits(store).tag("v1")
    runtime.run(
        store.put(
            tag_path("v1"),
            seal({"branch": "main", "seq": 3, "digest_of": "0" * 40, "txid": "1" * 32}),
        )
    )

    (finding,) = check(store).findings

    assert finding.object == tag_path("v1")
    assert "main@3" in finding.what


def test_an_object_of_another_program_is_a_warning():
    store = MemoryStore()
    with_commits(store)
    runtime.run(store.put("tags/Notes.txt", b"mine"))

    (finding,) = check(store).findings

    assert finding.severity == "warning"
    assert "not part of the format" in finding.what


def test_what_a_stranger_put_among_branches_and_tags_hides_nothing():
    """Who lists passes it over, a check tells of it, and what must know all says where it is."""
    store = MemoryStore()
    ds = with_commits(store)
    ds.tag("v1")
    ds[:2].save("two")
    for path in ("branches/Foo/readme.txt", "branches/my notes/a.txt", "tags/Foo.json"):
        runtime.run(store.put(path, b"mine"))

    assert (ds.branches, list(ds.tags), list(ds.views)) == (["main"], ["v1"], ["two"])
    with pytest.raises(tl.VersionNotFoundError, match="has no branch, tag or commit 'v2'"):
        ds.at("v2")
    assert ds.at("v1").count() == ds.count()
    report = check_store(store, full=True, decode=True, repair=True)
    assert {finding.severity for finding in report.findings} == {"warning"}
    assert objects_found(report) == ["branches/Foo/", "branches/my notes/", "tags/Foo.json"]
    with pytest.raises(tl.CorruptionError, match="'Foo' of 'branches/Foo/' is not an encoded"):
        ds.expire(keep_last=1)
    with pytest.raises(tl.CorruptionError, match=r"'Foo' of 'tags/Foo\.json' is not an encoded"):
        ds.gc()
    runtime.run(store.delete("tags/Foo.json"))
    with pytest.raises(tl.CorruptionError, match="'Foo' of 'branches/Foo/' is not an encoded"):
        ds.gc()


def test_versions_that_were_given_up_need_not_be_whole_unless_a_tag_names_them():
    store = MemoryStore()
    ds = with_commits(store)
    ds.delete(range(20))
    ds.commit("few left")
    ds.tag("kept", at="main@1")
    ds.optimize()
    ds.expire(keep_last=1)
    kept = runtime.run(_packs_needed(store, ["main@1", ds.version]))
    for path in set(packs_of(store)) - kept:
        runtime.run(store.delete(path))
    assert check(store).ok

    lost = next(iter(runtime.run(_packs_needed(store, ["main@1"]))))
    runtime.run(store.delete(lost))

    assert objects_found(check(store)) == [lost]


async def _packs_needed(store: MemoryStore, versions: list[str]) -> set[str]:
    from tensorlake.versions import PackReader, packs_of, resolve

    found: set[str] = set()
    for version in versions:
        entry = (await resolve(store, version)).entry
        found |= {pack.path for pack in await packs_of(entry, PackReader(store))}
    return found


def test_lost_rows_of_a_saved_view_are_found_and_do_not_stop_the_check():
    store = MemoryStore()
    ds = with_commits(store, commits=3, rows=2000)
    before = set(packs_of(store))
    ds[np.random.default_rng(0).permutation(6000)[:5000].tolist()].save("scattered")
    (rows_pack,) = set(packs_of(store)) - before
    runtime.run(store.delete(rows_pack))

    assert objects_found(check(store)) == [rows_pack]


def test_a_hint_that_points_nowhere_is_only_a_warning():
    store = MemoryStore()
    with_commits(store)
    runtime.run(store.put(head_path("main"), b"nonsense"))

    (finding,) = check(store).findings

    assert (finding.object, finding.severity) == (head_path("main"), "warning")


def test_samples_that_cannot_be_decoded_are_found_row_by_row():
    store = MemoryStore()
    ds = create_on(store, {"image": tl.Image(codec="jpeg")})
    rng = np.random.default_rng(0)
    ds.extend({"image": list(rng.integers(0, 255, (5, 24, 24, 3), np.uint8))})
    whole = ds["image"].bytes(2)
    ds["image"][[2]] = [whole[: len(whole) // 2] + b"\xff\xd9"]  # its middle is missing
    ds.commit("with a bad one")

    report = ds.check(full=False, decode=True)

    (finding,) = report.findings
    assert finding.object == "row 2 of 'image' in main@1"
    assert report.samples == 5


def test_a_dataset_too_damaged_to_be_opened_is_checked_by_url():
    ds = tl.create("memory://check-by-url", {"x": "int64"})
    damage(session_of(ds).store, entry_path("main", 0), 5)

    with pytest.raises(tl.CorruptionError):
        tl.open("memory://check-by-url")
    assert entry_path("main", 0) in [
        one.object for one in check_url("memory://check-by-url").findings
    ]
    with pytest.raises(tl.DatasetNotFoundError):
        check_url("memory://nothing-here")


# What is mended


def bulk(store: MemoryStore) -> Dataset:
    """One version whose index lies in pages that no other version has."""
    ds = create_on(store, {"number": "int64", "data": tl.Bytes()})
    ds.extend({"number": np.arange(90), "data": [bytes([n]) * 200_000 for n in range(90)]})
    ds.commit("bulk")
    wait_for_storage()
    return ds


def spoil_index_of(ds: Dataset, name: str) -> int:
    """Damage every page of a tensor's index at the head; how many."""
    snapshot = rowset_of(ds).selection.snapshot
    pages = snapshot.state.roots[snapshot.spec(name).id].children
    for ref in pages:
        damage(session_of(ds).store, ref.pack.path, ref.offset + ref.nbytes // 2)
    return len(pages)


def test_a_lost_index_page_is_found_again_in_an_older_version():
    store = MemoryStore()
    ds = with_commits(
        store, commits=80, rows=1
    )  # tails spilled to a page, which older entries know
    assert spoil_index_of(ds, "data") > 0
    with pytest.raises(tl.CorruptionError):
        rows_of(open_on(store))

    report = check(store, repair=True)

    assert [repair.is_recovered for repair in report.repairs] == [True]
    assert open_on(store)["data"][:] == [bytes([n]) * 50 for n in range(80)]
    assert open_on(store).version == "main@82"
    assert open_on(store).log()[0].message.startswith("repair")


def test_a_lost_index_page_is_made_again_from_the_directories_of_packs():
    store = MemoryStore()
    ds = bulk(store)
    assert spoil_index_of(ds, "data") > 0

    report = check(store, repair=True)

    assert "90 of 90 rows found again" in str(report.repairs[0])
    assert open_on(store)["data"][:] == [bytes([n]) * 200_000 for n in range(90)]
    assert open_on(store).check().findings[0].severity == "damage"  # main@1 itself stays damaged
    assert ds.optimize().commits == 0


def test_what_cannot_be_placed_stays_lost_and_is_said():
    store = MemoryStore()
    ds = create_on(store, {"data": tl.Bytes(), "number": "int64"})
    ds.extend({"data": [bytes([n]) * 200_000 for n in range(90)], "number": np.arange(90)})
    ds["data"][[3]] = [b"y" * 200_000]  # more chunks than rows appended: nothing is guessed
    ds.commit("bulk with an update")
    assert spoil_index_of(ds, "data") > 0

    report = check(store, repair=True)

    assert [repair.is_recovered for repair in report.repairs] == [False]
    assert "'data'" in str(report.repairs[0])
    with pytest.raises(tl.CorruptionError):
        open_on(store)["data"][0]
    assert open_on(store)["number"][:].tolist() == list(range(90))


def test_a_newest_entry_that_was_lost_comes_back_from_its_hint():
    store = MemoryStore()
    ds = with_commits(store)
    path = entry_path("main", 6)
    before = runtime.run(store.get(path))
    damage(store, path, 20)

    report = check(store, repair=True)

    assert report.ok
    assert runtime.run(store.get(path)) == before
    assert open_on(store).version == ds.version


def test_a_hint_from_elsewhere_never_becomes_an_entry():
    store, other = MemoryStore(), MemoryStore()
    with_commits(store, commits=2)
    with_commits(other, commits=3)
    stranger = runtime.run(other.get(head_path("main"))) or b""
    runtime.run(store.put(head_path("main"), stranger))

    report = check(store, repair=True)

    assert open_on(store).version == "main@2"
    assert [repair.object for repair in report.repairs] == [head_path("main")]
    assert report.ok


def test_row_selections_and_row_ids_are_made_out_from_older_versions():
    store = MemoryStore()
    ds = with_commits(store, commits=70, rows=3)
    ds.delete(list(range(0, 200, 3)))
    ds.commit("scattered")
    before = rows_of(ds), ds.row_ids
    state = rowset_of(ds).selection.snapshot.state
    for ref in (*state.rows.children, *state.row_ids.children):
        damage(store, ref.pack.path, ref.offset + ref.nbytes // 2)
    assert state.row_ids.children

    report = check(store, repair=True)

    recovered = [str(one) for one in report.repairs if one.is_recovered]
    assert any("row ids" in text for text in recovered)
    if not state.rows.children or len(recovered) > 1:
        again = open_on(store)
        assert (rows_of(again), again.row_ids) == before


def test_repairing_what_is_whole_changes_nothing():
    store = MemoryStore()
    ds = with_commits(store)

    report = ds.check(repair=True)

    assert report.repairs == ()
    assert open_on(store).version == ds.version


def test_a_repair_yields_to_commits_that_come_between():
    objects = MemoryStore()
    ds = bulk(objects)
    spoil_index_of(ds, "data")
    store = FaultyStore(objects)

    def commit() -> None:
        other = open_on(objects)
        other.extend({"number": [900], "data": [b"new"]})
        other.commit("meanwhile")

    store.before("put_if_absent", commit, path="branches/main/")
    check_store(store, full=True, decode=False, repair=True)

    assert open_on(objects)["data"][89:] == [bytes([89]) * 200_000, b"new"]
    assert open_on(objects).version == "main@3"


def test_a_handle_that_may_not_write_may_check_but_not_repair():
    store = MemoryStore()
    with_commits(store)
    tl.create("memory://check-read-only", {"x": "int64"})
    ds = tl.open("memory://check-read-only", read_only=True)

    assert ds.check().ok
    with pytest.raises(tl.ReadOnlyError, match="repair"):
        ds.check(repair=True)
    writable = open_on(store)
    writable.append({"number": 1, "data": b"x"})
    with pytest.raises(tl.UncommittedChangesError, match="staged changes"):
        writable.check(repair=True)


# What this version does not know


def with_features(store: MemoryStore, *, read: list[str], write: list[str]) -> None:
    """Append an entry that asks for features, as a newer tensorlake might."""
    log = BranchLog(store, "main")
    newest = runtime.run(log.head())
    assert newest is not None
    entry = following(newest, branch="main", kind="commit", txid="f" * 32).to_json()
    entry["features"] = {"read": read, "write": write}
    runtime.run(store.put(entry_path("main", newest.seq + 1), seal(entry)))


def test_a_version_that_only_a_newer_reader_understands_is_a_warning_not_damage():
    """format.md 21."""
    store = MemoryStore()
    with_commits(store)
    with_features(store, read=["from-the-future"], write=[])

    (finding,) = check(store).findings

    assert finding.severity == "warning"
    assert "'from-the-future'" in finding.what
    assert finding.advice == "install a newer tensorlake"


def test_a_version_that_only_a_newer_writer_understands_is_neither_optimized_nor_repaired():
    """format.md 21: what it means would be lost."""
    store = MemoryStore()
    with_commits(store, commits=80, rows=1)
    with_features(store, read=[], write=["from-the-future"])
    ds = open_on(store)
    assert spoil_index_of(ds, "data") > 0

    with pytest.raises(tl.UnsupportedFeatureError, match="from-the-future"):
        ds.optimize()
    report = ds.check(repair=True)

    assert report.repairs == ()
    assert any("read only" in finding.what for finding in report.findings)
    assert open_on(store).version == "main@82"
