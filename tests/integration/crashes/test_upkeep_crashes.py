"""Optimizing, repairing and copying that stop before each of their writes.

The head is the one before or the one after, what is there is whole, and running again completes it.
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of, session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.maintenance.check import check_store
from tensorlake.errors import DatasetNotFoundError
from tensorlake.storage import MemoryStore, Store, runtime
from tensorlake.testing import FaultyStore, SimulatedCrash
from tensorlake.versions import copy_dataset, read_descriptor
from tests.support.handles import create_on, open_on, plain, wait_for_storage

WRITES_MAX = 200


def filled() -> MemoryStore:
    store = MemoryStore()
    ds = create_on(store, {"number": "int64", "text": "str", "data": tl.Bytes()})
    for start in range(0, 20, 4):
        numbers = np.arange(start, start + 4)
        data = [bytes([n]) * 50 for n in numbers]
        ds.extend({"number": numbers, "text": [f"t{n}" for n in numbers], "data": data})
        ds.commit()
    ds.delete([3, 4, 11])
    ds.commit("fewer")
    ds.tag("v1")
    ds.branch("side")
    wait_for_storage()
    return store


async def snapshot_of(store: Store) -> dict[str, bytes]:
    return {meta.path: await store.get(meta.path) or b"" async for meta in store.list("")}


def copy_of(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for path, data in objects.items():
        runtime.run(store.put(path, data))
    return store


def content(ds: Dataset) -> tuple[list[str], dict[str, object]]:
    """Row ids and columns, which are read at once: this is asked again and again."""
    return ds.row_ids, {name: plain(ds[name][:]) for name in ds.schema}


def crash_everywhere(
    objects: dict[str, bytes], act: Callable[[Store], object], after: Callable[[Store], None]
) -> int:
    """Let ``act`` die before its first write, its second, …; ``after`` looks at what is there."""
    for writes in range(WRITES_MAX):
        store = copy_of(objects)
        dying = FaultyStore(store)
        dying.crash_after(writes)
        try:
            act(dying)
        except SimulatedCrash:
            after(store)
        else:
            after(store)
            return writes
    raise AssertionError("it never got to its end")


@pytest.mark.parametrize("order_by", [None, "number DESC"])
def test_an_optimization_that_stops_leaves_the_version_before_or_after(order_by):
    objects = runtime.run(snapshot_of(filled()))
    before = content(open_on(copy_of(objects)))

    def look(store: Store) -> None:
        ds = open_on(store)
        ids, rows = content(ds)
        assert (ids, rows) == before or sorted(ids) == sorted(before[0])
        assert order_by is not None or (ids, rows) == before
        assert ds.check().ok
        ds.optimize(order_by)
        assert ds.check().ok
        assert order_by is None or ds["number"][:].tolist() == sorted(ds["number"][:], reverse=True)
        assert (
            rowset_of(ds)
            .reader()
            .locate("text", np.arange(session_of(ds).committed.state.physical))
            .chunks
        )

    writes = crash_everywhere(objects, lambda store: open_on(store).optimize(order_by), look)

    assert writes >= 2  # a pack and an entry; the hint may come later


def test_a_repair_that_stops_leaves_what_was_there_or_what_it_mended():
    store = MemoryStore()
    ds = create_on(store, {"number": "int64", "data": tl.Bytes()})
    ds.extend({"number": np.arange(90), "data": [bytes([n]) * 200_000 for n in range(90)]})
    ds.commit()
    wait_for_storage()
    state = rowset_of(ds).selection.snapshot.state
    (page,) = state.roots[rowset_of(ds).selection.snapshot.spec("data").id].children
    objects = runtime.run(snapshot_of(store))
    damaged = bytearray(objects[page.pack.path])
    damaged[page.offset + 40] ^= 1
    objects[page.pack.path] = bytes(damaged)
    objects["branches/main/HEAD"] = b"nonsense"

    def repair(store: Store) -> None:
        check_store(store, full=False, decode=False, repair=True)

    def look(store: Store) -> None:
        assert open_on(store)["number"][:].tolist() == list(range(90))
        repair(store)
        assert open_on(store)["data"][:] == [bytes([n]) * 200_000 for n in range(90)]

    assert crash_everywhere(objects, repair, look) >= 3


@pytest.mark.parametrize("mirror", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_copy_that_stops_is_whole_as_far_as_it_came_and_goes_on(mirror):
    source = filled()
    whole = content(open_on(source))

    def copy(store: Store) -> None:
        runtime.run(copy_dataset(source, store, mirror=mirror))

    def look(store: Store) -> None:
        if runtime.run(read_descriptor(store)) is not None:
            with suppress(DatasetNotFoundError):
                assert content(open_on(store)) == content(open_on(source, open_on(store).version))
        copy(store)
        assert content(open_on(store)) == whole
        assert content(open_on(store, "side")) == whole
        assert open_on(store).check().ok

    assert crash_everywhere({}, copy, look) > 15


def test_a_copy_of_one_version_that_stops_goes_on():
    source = filled()

    def copy(store: Store) -> None:
        runtime.run(copy_dataset(source, store, version="main@2", history=False))

    def look(store: Store) -> None:
        copy(store)
        assert content(open_on(store)) == content(open_on(source, "main@2"))

    assert crash_everywhere({}, copy, look) >= 4


@pytest.mark.slow
def test_a_mirror_being_brought_up_to_date_is_readable_all_the_time():
    source = filled()
    mirror = MemoryStore()
    runtime.run(copy_dataset(source, mirror, mirror=True))
    objects = runtime.run(snapshot_of(mirror))
    before = content(open_on(source))
    ds = open_on(source)
    ds.append({"number": 99, "text": "new", "data": b"new"})
    ds.commit("new")
    wait_for_storage()
    after = content(open_on(source))

    def look(store: Store) -> None:
        assert content(open_on(store)) in (before, after)
        assert check_store(store, full=True, decode=False, repair=False).findings == () or all(
            one.severity == "warning"
            for one in check_store(store, full=True, decode=False, repair=False).findings
        )
        runtime.run(copy_dataset(source, store, mirror=True))
        assert content(open_on(store)) == after

    writes = crash_everywhere(
        objects, lambda store: runtime.run(copy_dataset(source, store, mirror=True)), look
    )

    assert writes >= 3


def test_a_source_that_stops_answering_leaves_a_copy_that_goes_on():
    objects = runtime.run(snapshot_of(filled()))
    source, target = FaultyStore(copy_of(objects)), MemoryStore()
    source.crash_after(0)  # not even a pin can be put

    with pytest.raises(SimulatedCrash):
        runtime.run(copy_dataset(source, target))
    assert runtime.run(read_descriptor(target)) is None
    runtime.run(copy_dataset(copy_of(objects), target))

    assert open_on(target).check().ok
