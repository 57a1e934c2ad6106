"""Copies: whole, in part, continued, mirrored."""

import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import SnapshotExpiredError, VersionNotFoundError
from tensorlake.format import head_path
from tensorlake.storage import MemoryStore, Store, runtime
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tensorlake.versions import Copied, copy_dataset, packs_of, read_descriptor
from tensorlake.versions.copy.plan import plan_history
from tests.support.garbage import GRACE, Clock
from tests.support.handles import create_on, open_on, reopened, rows_of, wait_for_storage


@pytest.fixture
def clock() -> Clock:
    return Clock()


def source_with(commits: int = 5, store: Store | None = None) -> Dataset:
    ds = create_on(store or MemoryStore(), {"number": "int64", "text": "str"})
    for commit in range(commits):
        ds.extend({"number": [commit, commit + 100], "text": [f"a{commit}", f"b{commit}"]})
        ds.commit(f"commit {commit}")
    wait_for_storage()
    return ds


def copied(ds: Dataset, target: Store, **how: object) -> Copied:
    return runtime.run(copy_dataset(session_of(ds).store, target, **how))  # type: ignore[arg-type] as given


def content(ds: Dataset) -> object:
    return ds.row_ids, rows_of(ds), [(one.version, one.digest) for one in ds.log()]


def url(name: str) -> str:
    return f"memory://test-copy-{name}"


def test_a_copy_has_every_branch_commit_tag_and_row_id():
    ds = source_with()
    ds.tag("v1", at="main@2")
    side = ds.branch("side")
    side.delete([0])
    side.commit("on the side")
    target = MemoryStore()

    report = copied(ds, target)

    assert content(open_on(target)) == content(ds)
    assert content(open_on(target, "side")) == content(side)
    assert content(open_on(target, "v1")) == content(ds.at("main@2"))
    assert open_on(target).check().ok
    assert report.entries == 6 + 2 + 1  # main, side: begin, first, deletion
    assert runtime.run(target.get(head_path("main"))) is not None


def test_a_copy_may_go_its_own_way():
    ds = source_with()
    target = MemoryStore()
    copied(ds, target)

    mine = open_on(target)
    mine.append({"number": 7, "text": "mine"})
    mine.commit("mine")

    assert len(mine) == len(ds) + 1
    with pytest.raises(tl.InvalidInputError, match="its own entry 6"):
        copied(ds, target)


@pytest.mark.parametrize("workers", [1, 3, 100])
def test_workers_are_packs_under_way_at_once(workers: int):
    ds = source_with(8)
    source = CountingStore(session_of(ds).store)
    target = MemoryStore()

    runtime.run(copy_dataset(source, target, workers=workers))

    assert packs_under_way(source) == min(workers, 8)
    assert content(open_on(target)) == content(ds)


def packs_under_way(store: CountingStore) -> int:
    """How many packs were being read at the same time, at most."""
    reads = [one for one in store.requests if one.call == "get_range" and "packs/" in one.path]
    return max(
        sum(one.began <= other.began <= (one.ended or 0) for one in reads) for other in reads
    )


def test_a_long_log_is_planned_in_few_round_trips():
    ds = source_with(100)
    source = CountingStore(session_of(ds).store)

    runtime.run(copy_dataset(source, MemoryStore(), dry_run=True))

    assert source.count("get", path="branches/main/") >= 100
    assert source.round_trips < 30  # 100 entries, 32 at a time


@pytest.mark.parametrize("workers", [0, -1, 1.5, "8", True])
def test_workers_must_be_a_number_of_packs(workers: object):
    with pytest.raises(tl.InvalidInputError, match="must be an integer >= 1"):
        tl.copy(url("nothing"), url("nowhere"), workers=workers)  # type: ignore[arg-type] as given


def test_what_is_there_already_is_not_copied_again():
    ds = source_with()
    target = CountingStore(MemoryStore())
    first = copied(ds, target)
    ds.append({"number": 9, "text": "new"})
    ds.commit("one more")
    target.reset()

    second = copied(ds, target)

    assert (first.packs, second.packs, second.present) == (5, 1, 5)
    assert second.entries == 1
    assert target.count("put_if_absent", path="packs/") == 1
    assert content(open_on(target)) == content(ds)


def test_one_version_alone_begins_a_log_of_its_own_and_keeps_row_ids():
    ds = source_with()
    target = MemoryStore()

    report = copied(ds, target, version="main@3", history=False)

    copy = open_on(target)
    assert report.version == "main@3"
    assert (copy.row_ids, rows_of(copy)) == (ds.at("main@3").row_ids, rows_of(ds.at("main@3")))
    assert copy.version == "main@0"
    assert copy.log()[0].message.startswith("copy of main@3")
    assert copy.check().ok
    assert copied(ds, target, version="main@3", history=False).entries == 0
    copy.append({"number": 1, "text": "more"})
    copy.commit()
    assert copy.version == "main@1"


def test_a_version_with_history_brings_the_logs_that_it_stands_on():
    ds = source_with()
    side = ds.branch("side", at="main@2")
    side.append({"number": 5, "text": "side"})
    side.commit("side")
    target = MemoryStore()

    copied(ds, target, version="side")

    assert content(open_on(target, "side")) == content(side)
    assert open_on(target).version == "main@2"
    assert open_on(target).check().ok


def test_versions_that_were_given_up_are_in_the_log_but_not_their_packs():
    ds = source_with()
    ds.optimize()
    ds.expire(keep_last=1)
    target = MemoryStore()

    report = copied(ds, target)

    assert report.packs == 1
    assert rows_of(open_on(target)) == rows_of(ds)
    assert open_on(target).check().ok


def test_a_saved_view_comes_along():
    ds = source_with()
    ds.query("WHERE number >= 100").save("large")
    target = MemoryStore()

    copied(ds, target)

    assert open_on(target).views["large"].rows.tolist() == ds.views["large"].rows.tolist()
    assert open_on(target).check().ok


def test_a_pack_collected_while_it_was_to_be_copied_makes_a_new_plan():
    source = FaultyStore(MemoryStore())
    ds = source_with(store=source)
    ds.optimize()

    def give_up() -> None:
        ds.expire(keep_last=1)

        async def old_packs() -> list[str]:
            return [meta.path async for meta in source.list("packs/")]

        keep = {pack.path for pack in runtime.run(_packs_of_head(open_on(source)))}
        for path in set(runtime.run(old_packs())) - keep:
            runtime.run(source.delete(path))

    source.before("list", give_up, path="packs/")
    target = MemoryStore()

    copied(ds, target)

    assert rows_of(open_on(target)) == rows_of(ds)
    assert open_on(target).check().ok


async def _packs_of_head(ds: Dataset) -> set[object]:
    return set(await packs_of(session_of(ds).head, session_of(ds).packs))


def test_the_source_is_pinned_while_it_is_copied_and_let_go_after():
    source = CountingStore(MemoryStore())
    ds = source_with(store=source)
    source.reset()

    copied(ds, MemoryStore())

    assert source.count("put_if_absent", path="tags/pin-") == 1
    assert source.count("delete", path="tags/pin-") == 1


def test_a_source_that_cannot_be_written_to_is_copied_all_the_same(tmp_path):
    folder = tmp_path / "source"
    ds = tl.create(str(folder), {"number": "int64"})
    ds.extend({"number": [1, 2]})
    ds.commit()
    source = FaultyStore(session_of(ds).store)
    source.inject(Fault.REFUSED, call="put_if_absent", path="tags/pin-")
    target = MemoryStore()

    runtime.run(copy_dataset(source, target))

    assert open_on(target)["number"][:].tolist() == [1, 2]


def test_a_damaged_pack_is_not_copied():
    ds = source_with(commits=1)
    store = session_of(ds).store

    async def packs() -> list[str]:
        return [meta.path async for meta in store.list("packs/")]

    (path,) = runtime.run(packs())
    data = bytearray(runtime.run(store.get(path)) or b"")
    data[64 + 70] ^= 1
    runtime.run(store.put(path, bytes(data)))
    target = MemoryStore()

    with pytest.raises(tl.CorruptionError, match="is damaged") as caught:
        copied(ds, target)

    assert (caught.value.object, caught.value.offset) == (path, 64)
    assert runtime.run(read_descriptor(target)) is None


def test_another_dataset_at_the_target_is_never_touched():
    ds, other = source_with(), source_with(2)

    with pytest.raises(tl.InvalidInputError, match="nothing was written"):
        copied(ds, session_of(other).store)
    with pytest.raises(tl.InvalidInputError, match="another dataset"):
        copied(ds, session_of(other).store, history=False)
    assert len(reopened(other)) == 4
    assert reopened(other).check().ok


def test_there_must_be_something_to_copy():
    with pytest.raises(tl.DatasetNotFoundError, match="nothing to copy"):
        tl.copy(url("nothing"), url("nowhere"))
    with pytest.raises(tl.InvalidInputError, match="same place"):
        tl.copy(url("here"), url("here"))


def test_a_dry_run_only_counts():
    ds = source_with()
    target = MemoryStore()

    told = copied(ds, target, dry_run=True)

    assert (told.packs, told.entries) == (5, 0)
    assert runtime.run(read_descriptor(target)) is None
    assert copied(ds, target).nbytes == told.nbytes


# Mirrors


def mirrored(name: str) -> tuple[Dataset, str]:
    ds = tl.create(url(f"{name}-source"), {"number": "int64"})
    ds.extend({"number": [1, 2]})
    ds.commit("first")
    tl.copy(url(f"{name}-source"), url(f"{name}-mirror"), mirror=True)
    return ds, url(f"{name}-mirror")


def test_a_mirror_follows_its_source():
    ds, mirror = mirrored("follows")
    handle = tl.open(mirror)
    ds.extend({"number": [3]})
    ds.commit("second")
    ds.tag("v1")

    report = tl.copy(ds.url, mirror, mirror=True)

    assert "mirrored" in repr(report)
    assert handle.refresh().version == "main@2"
    assert tl.open(mirror, "v1")["number"][:].tolist() == [1, 2, 3]
    assert tl.open(mirror).check().ok


def test_a_tag_deleted_at_the_source_is_deleted_in_the_mirror():
    ds, mirror = mirrored("tags")
    ds.tag("v1")
    tl.copy(ds.url, mirror, mirror=True)

    ds.delete_tag("v1")
    tl.copy(ds.url, mirror, mirror=True)

    assert dict(tl.open(mirror).tags) == {}


@pytest.mark.parametrize(
    "write",
    [
        lambda ds: ds.append({"number": 1}),
        lambda ds: ds.delete([0]),
        lambda ds: ds.tag("mine"),
        lambda ds: ds.branch("mine"),
        lambda ds: ds.optimize(),
        lambda ds: ds.gc(),
        lambda ds: ds.expire(keep_last=1),
        lambda ds: ds.check(repair=True),
        lambda ds: ds.at("main").append({"number": 1}),
    ],
)
def test_a_mirror_is_written_to_by_copying_alone(write):
    ds, mirror = mirrored("refuses")
    try:
        with pytest.raises(tl.ReadOnlyError, match="mirrors 'memory://test-copy-refuses-source'"):
            write(tl.open(mirror))
    finally:
        tl.delete(mirror, confirm=mirror)
        tl.delete(ds.url, confirm=ds.url)


def test_gc_of_a_mirror_says_how_its_room_comes_back():
    """Bringing it up to date takes nothing away; a new one has what its source still names."""
    ds = source_with()
    old, new = MemoryStore(), MemoryStore()
    copied(ds, old, mirror=True)
    ds.optimize()
    ds.expire(keep_last=1)
    wait_for_storage()

    with pytest.raises(tl.ReadOnlyError, match=r"a new mirror has none of it.*mirror=True\)"):
        open_on(old).gc()
    copied(ds, old, mirror=True)
    copied(ds, new, mirror=True)

    assert content(open_on(old)) == content(open_on(new)) == content(ds)
    assert packs_in(new) < packs_in(old)


def packs_in(store: Store) -> set[str]:
    async def listed() -> set[str]:
        return {meta.path async for meta in store.list("packs/")}

    return runtime.run(listed())


def test_readers_of_a_mirror_do_not_look_past_its_head():
    """HEAD is written last, so what stands after it is not said to be there yet."""
    ds, mirror = mirrored("head")
    before = runtime.run(session_of(ds).store.get(head_path("main")))
    ds.extend({"number": [3]})
    ds.commit("second")
    tl.copy(ds.url, mirror, mirror=True)
    store = session_of(tl.open(mirror)).store
    first = runtime.run(store.get("branches/main/0000000001.json")) or before or b""
    runtime.run(store.put(head_path("main"), first))  # as if the copy had stopped right before

    handle = tl.open(mirror)

    assert handle.version == "main@1"
    assert handle.refresh().version == "main@1"
    tl.copy(ds.url, mirror, mirror=True)
    assert handle.refresh().version == "main@2"


def test_a_mirror_is_of_one_source_and_of_all_of_it():
    ds, mirror = mirrored("of")
    other = tl.create(url("of-other"), {"number": "int64"})

    with pytest.raises(tl.InvalidInputError, match="is a mirror of"):
        tl.copy(other.url, mirror, mirror=True)
    with pytest.raises(tl.InvalidInputError, match="is a mirror of"):
        tl.copy(ds.url, mirror)
    with pytest.raises(tl.InvalidInputError, match="not a mirror"):
        tl.copy(ds.url, other.url, mirror=True)
    with pytest.raises(tl.InvalidInputError, match="every version"):
        tl.copy(ds.url, url("of-more"), mirror=True, version="main@1")


def test_a_session_on_a_mirror_says_what_it_mirrors():
    ds, mirror = mirrored("says")

    session: Session = session_of(tl.open(mirror))

    assert session.mirror_of == ds.url
    assert not session.is_writable


@pytest.mark.parametrize("fault", [Fault.NOT_STORED, Fault.ANSWER_LOST, Fault.LANDS_LATER])
@pytest.mark.parametrize("path", ["tensorlake.json", "packs/", "branches/"])
def test_a_store_that_does_not_say_how_a_write_went_ends_no_copy(fault, path):
    ds = source_with(commits=2)
    target = FaultyStore(MemoryStore())
    target.inject(fault, call="put_if_absent", path=path)

    copied(ds, target)

    assert content(open_on(target)) == content(ds)
    assert open_on(target).check().ok


def test_a_version_whose_history_was_given_up_is_copied_alone(clock):
    source = MemoryStore(clock=clock)
    ds = source_with(store=source)
    ds["number"][0] = 5
    ds.commit("changed")
    ds.optimize()
    ds.expire(keep_last=1)
    clock.now += 2 * GRACE
    ds.gc()
    newest = ds.version

    with pytest.raises(SnapshotExpiredError, match="history=False"):
        copied(ds, MemoryStore(), version=newest)

    target = MemoryStore()
    copied(ds, target, version=newest, history=False)
    assert rows_of(open_on(target)) == rows_of(ds)


def test_pages_collected_while_a_copy_is_planned_make_a_new_plan(clock):
    source = FaultyStore(MemoryStore(clock=clock))
    ds = source_with(commits=70, store=source)  # so many extents lie in pages

    def give_up() -> None:
        ds.optimize()
        ds.expire(keep_last=1)
        clock.now += 2 * GRACE
        ds.gc()

    source.before("get_range", give_up, path="packs/")
    target = MemoryStore()

    copied(open_on(source), target)

    assert rows_of(open_on(target)) == rows_of(ds)


def test_a_long_history_far_away_is_planned_in_few_round_trips():
    ds = source_with(commits=40)
    for number in range(40):
        ds.tag(f"tag-{number}")
    counting = CountingStore(session_of(ds).store)

    runtime.run(plan_history(counting, None))

    assert counting.round_trips < 20


@pytest.mark.parametrize("path", ["tags/.DS_Store", "tags/read me.txt"])
def test_what_others_leave_beside_the_tags_is_left_alone(path):
    ds = source_with(commits=1)
    ds.tag("first")
    runtime.run(session_of(ds).store.put(path, b"somebody else's"))
    target = MemoryStore()

    copied(ds, target)

    assert list(ds.tags) == list(open_on(target).tags) == ["first"]
    with pytest.raises(VersionNotFoundError, match="tags: first"):
        ds.at("second")
