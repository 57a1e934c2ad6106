"""A copy is no dataset until it is whole, wherever it was stopped, and may be finished (D2)."""

import datetime as dt
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.dataset import check_url, session_of
from tensorlake.errors import DatasetNotFoundError, InvalidInputError
from tensorlake.format import COPYING, DESCRIPTOR, Descriptor, new_txid
from tensorlake.storage import MemoryStore, Store, runtime
from tensorlake.testing import FaultyStore
from tensorlake.testing.faults import SimulatedCrash
from tensorlake.versions import copy_dataset, read_descriptor
from tensorlake.versions.refs.copy_claim import CopyClaim, read_claim
from tensorlake.versions.verify.repair import repair_dataset
from tests.support.garbage import GRACE, Clock
from tests.support.handles import create_on, open_on, rows_of, wait_for_storage

NAMES = itertools.count()
PROBE_WRITES, PROBE_PUTS = 12, 10
"""What comes first: whether the store can hold a dataset is tried out."""

KINDS: dict[str, dict[str, Any]] = {
    "whole": {},
    "mirror": {"mirror": True},
    "one version": {"history": False},
}
MIRRORS_SLOW = [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "mirror")) for kind in KINDS]
"""``make test-slow`` stops copies into mirrors at every write too."""


@pytest.fixture
def name() -> str:
    return f"test-claims-{next(NAMES)}"


def source() -> tl.Dataset:
    ds = create_on(MemoryStore(), {"x": "int64"})
    for x in range(2):
        ds.append({"x": x})
        ds.commit(str(x))
    ds.branch("fix").close()
    ds.tag("v1")
    wait_for_storage()
    return ds


def copied(ds: tl.Dataset, target: Store, **how: Any) -> None:
    runtime.run(copy_dataset(session_of(ds).store, target, **how))


def stopped(ds: tl.Dataset, target: Store, writes: int, **how: Any) -> bool:
    """Copy until the target has seen so many writes; whether that ended it."""
    dying = FaultyStore(target)
    dying.crash_after(writes)
    try:
        copied(ds, dying, **how)
    except SimulatedCrash:
        return True
    return False


def paths_of(store: Store) -> list[str]:
    async def listed() -> list[str]:
        return [meta.path async for meta in store.list("")]

    return runtime.run(listed())


@pytest.mark.parametrize("kind", MIRRORS_SLOW)
def test_a_copy_stopped_at_any_write_is_no_dataset_and_is_finished_by_the_same_call(kind, name):
    """At each put, the last of the probe too, and at the last deletion."""
    ds, how = source(), KINDS[kind]
    for writes in itertools.count(PROBE_WRITES - 1):
        url = f"memory://{name}/{writes}"
        target = MemoryStore(name, prefix=str(writes))
        if not stopped(ds, target, writes, **how):
            break
        claim = runtime.run(read_claim(target))
        if runtime.run(read_descriptor(target)) is None:
            assert not tl.exists(url)
            words = "is under way, or was stopped" if claim else "no tensorlake dataset"
            with pytest.raises(DatasetNotFoundError, match=words):
                tl.open(url)
            assert tl.list(f"memory://{name}") == []
        else:
            assert rows_of(tl.open(url)) == rows_of(ds)  # all but its claim's end was done

        copied(ds, target, **how)

        assert COPYING not in paths_of(target)
        assert claim is None or runtime.run(read_descriptor(target)).id == claim.id
        there = tl.open(url)
        assert rows_of(there) == rows_of(ds)
        assert there.row_ids == ds.row_ids
        assert list(there.branches) == (["main"] if kind == "one version" else ["fix", "main"])
        assert there.check().ok
        tl.delete(url, confirm=url)
    assert writes > PROBE_WRITES + 6


def half_copied(ds: tl.Dataset, name: str, **how: Any) -> tuple[str, MemoryStore]:
    """A copy that was stopped when main had an entry or two of three."""
    for writes in itertools.count(PROBE_WRITES):
        url, target = f"memory://{name}/{writes}", MemoryStore(name, prefix=str(writes))
        assert stopped(ds, target, writes, **how)
        if any(path.startswith("branches/main/0") for path in paths_of(target)):
            return url, target
    raise AssertionError("not to be reached")


def test_where_a_copy_was_stopped_nothing_is_made_opened_checked_or_repaired(name):
    ds = source()
    url, target = half_copied(ds, name)
    before = paths_of(target)

    with pytest.raises(InvalidInputError, match=r"not yet a dataset\n.*tl\.copy\('memory://"):
        tl.create(url, {"x": "int64"})
    with pytest.raises(InvalidInputError, match="not yet a dataset"):
        tl.create(url, {"x": "int64"}, exist_ok=True)
    for call in (
        lambda: tl.open(url),
        lambda: tl.copy(url, f"memory://{name}/elsewhere"),
        lambda: check_url(url, progress=False),
        lambda: check_url(url, repair=True, progress=False),
        lambda: repair_dataset(target),
    ):
        with pytest.raises(DatasetNotFoundError, match="not yet a dataset"):
            call()

    assert paths_of(target) == before
    copied(ds, target)
    assert tl.open(url).check().ok


def test_what_a_copy_left_is_removed_also_by_a_deletion_that_is_stopped(name):
    url, target = half_copied(source(), name)
    tl.delete(url, confirm=url)
    assert paths_of(target) == []

    ds = tl.create(url, {"x": "int64"})
    ds.append({"x": 1})
    ds.commit("one")
    wait_for_storage()
    runtime.run(target.delete(DESCRIPTOR))  # as a deletion that is stopped after its first step
    with pytest.raises(InvalidInputError, match="what remains of a dataset"):
        tl.create(url, {"x": "int64"})
    with pytest.raises(DatasetNotFoundError, match="what remains of a dataset"):
        tl.open(url)
    assert runtime.run(read_descriptor(target)) is None
    tl.delete(url, confirm=url)
    assert paths_of(target) == []
    tl.create(url, {"x": "int64"}).close()


def test_a_copy_goes_on_with_commits_that_came_meanwhile(name):
    ds = source()
    url, target = half_copied(ds, name)
    ds.append({"x": 9})
    ds.commit("later")

    copied(ds, target)

    assert tl.open(url)["x"][:].tolist() == [0, 1, 9]


def test_another_copy_than_the_one_under_way_is_refused_and_changes_nothing(name):
    ds, other = source(), source()
    _, target = half_copied(ds, name)
    before = paths_of(target)

    for refused, how in ((other, {}), (ds, {"mirror": True}), (ds, {"history": False})):
        with pytest.raises(InvalidInputError, match="another copy is under way, or was stopped"):
            copied(refused, target, **how)

    assert paths_of(target) == before


def test_one_version_is_finished_by_the_call_that_the_refusal_names(name):
    ds = source()
    url, target = half_copied(ds, name, history=False)
    ds.append({"x": 9})
    ds.commit("later")

    with pytest.raises(InvalidInputError, match=r"version='main@2', history=False"):
        copied(ds, target, history=False)
    copied(ds, target, history=False, version="main@2")

    assert tl.open(url)["x"][:].tolist() == [0, 1]


def test_copies_to_one_place_at_once_are_one_copy():
    ds, target = source(), MemoryStore()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: copied(ds, target), range(4)))

    assert rows_of(open_on(target)) == rows_of(ds)
    assert open_on(target).check().ok
    assert COPYING not in paths_of(target)


@pytest.mark.parametrize("kind", MIRRORS_SLOW)
def test_a_second_copy_that_runs_in_between_any_two_requests_harms_nothing(kind):
    ds, how = source(), KINDS[kind]
    for at in itertools.count(PROBE_PUTS - 1):
        target = MemoryStore()
        slow = FaultyStore(target)
        was_run: list[None] = []

        def other(target: Store = target, was_run: list[None] = was_run) -> None:
            was_run.append(copied(ds, target, **how))

        slow.before("put_if_absent", other, skip=at)
        copied(ds, slow, **how)

        assert rows_of(open_on(target)) == rows_of(ds)
        assert open_on(target).check().ok
        assert COPYING not in paths_of(target)
        if not was_run:
            break
    assert at > PROBE_PUTS + 4


@pytest.mark.parametrize("skip", range(PROBE_PUTS - 1, PROBE_PUTS + 4))
def test_a_dataset_made_while_a_copy_begins_is_whole_or_not_there(skip, name):
    """One of the two sees the other: a creation looks for a claim, a copy for a descriptor."""
    ds = source()
    target = MemoryStore(name)
    slow = FaultyStore(target)
    made: list[str] = []

    def create() -> None:
        try:
            made.append(create_on(target, {"other": "int64"}).version)
        except InvalidInputError:
            made.append("")

    slow.before("put_if_absent", create, skip=skip)
    try:
        copied(ds, slow)
    except InvalidInputError:
        assert made == ["main@0"]
        assert list(open_on(target).schema) == ["other"]
        assert open_on(target).check().ok
    else:
        assert made == [""]
        assert rows_of(open_on(target)) == rows_of(ds)


def test_a_creation_that_a_copy_overtook_takes_its_descriptor_back(name):
    ds = source()
    target = MemoryStore(name)
    slow = FaultyStore(target)
    slow.before("put_if_absent", lambda: stopped(ds, target, PROBE_WRITES + 4), path=DESCRIPTOR)

    with pytest.raises(InvalidInputError, match="not yet a dataset"):
        create_on(slow, {"other": "int64"})

    assert not tl.exists(f"memory://{name}")
    copied(ds, target)
    assert rows_of(tl.open(f"memory://{name}")) == rows_of(ds)


def test_a_mirror_s_head_never_goes_back(name):
    """Two runs at once: the one that planned first ends last."""
    ds, target = source(), MemoryStore(name)
    copied(ds, target, mirror=True)
    slow = FaultyStore(target)

    def newer() -> None:
        ds.append({"x": 9})
        ds.commit("later")
        copied(ds, target, mirror=True)

    slow.before("get", newer, path="branches/main/HEAD", skip=1)
    copied(ds, slow, mirror=True)

    assert tl.open(f"memory://{name}")["x"][:].tolist() == [0, 1, 9]


def test_a_half_copy_of_version_0_1_0_is_finished_as_before(name):
    """It put its descriptor before its entries: the copy opens at an older version."""
    ds = source()
    url, target = half_copied(ds, name)
    runtime.run(target.delete(COPYING))
    descriptor = Descriptor(new_txid(), 1, 86_400)
    runtime.run(target.put_if_absent(DESCRIPTOR, descriptor.to_bytes()))
    assert len(tl.open(url)) < len(ds)

    copied(ds, target)

    assert rows_of(tl.open(url)) == rows_of(ds)
    assert runtime.run(read_descriptor(target)).id == descriptor.id


def test_a_claim_beside_a_descriptor_means_nothing_and_goes():
    clock = Clock(dt.datetime.now(dt.UTC))
    ds, target = source(), MemoryStore(clock=clock)
    copied(ds, target)
    claim = CopyClaim(new_txid(), new_txid(), "memory://gone")
    runtime.run(target.put_if_absent(COPYING, claim.to_bytes()))

    there = open_on(target)
    assert [one.object for one in there.check().findings] == [COPYING]
    copied(ds, target)
    assert there.check().ok

    runtime.run(target.put_if_absent(COPYING, claim.to_bytes()))
    clock.now += GRACE + GRACE
    there.gc()
    assert there.check().ok


def test_a_damaged_claim_is_told_and_can_be_removed(name):
    url, target = half_copied(source(), name)
    runtime.run(target.put(COPYING, b"{}"))

    with pytest.raises(tl.CorruptionError, match=r"copying\.json"):
        tl.open(url)
    tl.delete(url, confirm=url)
    assert paths_of(target) == []
