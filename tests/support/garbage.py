"""What tests of the collector share: a clock to move, a store to interrupt, what must survive."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tensorlake.dataset import rowset_of
from tensorlake.dataset.handles.dataset import Dataset, View
from tensorlake.errors import StorageError
from tensorlake.format import PackId
from tensorlake.storage import Buffer, Data, MemoryStore, ObjectMeta, Store, StoredObject, run
from tensorlake.testing import Fault, FaultyStore
from tensorlake.types import Column, EncodedColumn, RaggedColumn, UniformColumn
from tensorlake.versions import BranchLog, PackReader, fence_of, list_tags, loaded, packs_of
from tensorlake.versions.log.log import branch_names
from tensorlake.versions.refs.registry import read_citation
from tests.support.handles import create_on, open_on

GRACE = dt.timedelta(days=1)
"""The grace time of datasets made by ``tests.support.handles.create_on``."""

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Clock:
    """A store's clock, moved by hand; each look at it takes a moment."""

    def __init__(self, now: dt.datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> dt.datetime:
        self.now += dt.timedelta(milliseconds=1)
        return self.now

    def pass_grace(self) -> None:
        """Sleep for longer than anything unpublished may live."""
        self.now += GRACE + dt.timedelta(minutes=1)


class InterruptedStore:
    """A store that does something else before its n-th request, whatever kind that is."""

    def __init__(
        self, store: Store, *, at: int | None = None, action: Callable[[], object] | None = None
    ) -> None:
        self._store = store
        self._at = at
        self._action = action
        self.requests = 0

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def is_local(self) -> bool:
        return False

    async def get(self, path: str) -> bytes | None:
        await self._arrive()
        return await self._store.get(path)

    async def read(self, path: str) -> StoredObject | None:
        await self._arrive()
        return await self._store.read(path)

    async def now(self) -> dt.datetime:
        return await self._store.now()

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        await self._arrive()
        return await self._store.get_range(path, start, stop)

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        await self._arrive()
        return await self._store.get_ranges(path, ranges)

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        await self._arrive()
        await self._store.put_if_absent(path, data, durable=durable, after=after)

    async def sync(self, paths: Sequence[str]) -> None:
        await self._arrive()
        await self._store.sync(paths)

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        await self._arrive()
        await self._store.put(path, data, durable=durable)

    async def head(self, path: str) -> ObjectMeta | None:
        await self._arrive()
        return await self._store.head(path)

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        await self._arrive()
        async for meta in self._store.list(prefix):
            yield meta

    async def folders(self, prefix: str) -> Sequence[str]:
        await self._arrive()
        return await self._store.folders(prefix)

    async def delete(self, path: str) -> None:
        await self._arrive()
        await self._store.delete(path)

    def map_range(self, path: str, start: int, stop: int) -> memoryview | None:
        return self._store.map_range(path, start, stop)

    def read_into(self, path: str, start: int, pieces: Sequence[memoryview]) -> bool:
        return self._store.read_into(path, start, pieces)

    def clone(self) -> InterruptedStore:
        return self

    async def _arrive(self) -> None:
        number, self.requests = self.requests, self.requests + 1
        if number == self._at and self._action is not None:
            await asyncio.to_thread(self._action)


def contents(store: Store) -> dict[str, dict[str, Any]]:
    """Read every version that must be readable, in full: of live branches, and under tags."""
    return {name: content_of(open_on(store, name)) for name in run(readable(store))}


def content_of(data: Dataset | View) -> dict[str, Any]:
    """Read all samples as they are stored, which is quicker than row by row."""
    selection, reader = rowset_of(data).selection, rowset_of(data).reader()
    rows = selection.physical(np.arange(selection.num_rows))
    return {name: _plain(reader.read(name, rows, decode=False)) for name in selection.columns}


def _plain(column: Column) -> tuple[Any, ...]:
    valid = None if column.valid is None else column.valid.tolist()
    match column:
        case UniformColumn():
            return column.values.tolist(), valid
        case RaggedColumn():
            return column.values.tolist(), column.shapes.tolist(), valid
        case EncodedColumn():
            return [bytes(sample) for sample in column.samples], valid


async def readable(store: Store) -> list[str]:
    """Name every version that must be readable: of live branches by number, and tags."""
    names = [*await list_tags(store)]
    for branch in await branch_names(store):
        log = BranchLog(store, branch)
        head = await log.head()
        if head is None or head.kind == "end":
            continue
        numbers = range(fence_of(head).expired_before, head.seq + 1)
        entries = [await log.existing(number) for number in numbers]
        names += [f"{branch}@{entry.seq}" for entry in entries if entry.kind == "commit"]
    return names


def objects_of(store: Store, prefix: str = "") -> set[ObjectMeta]:
    """List what is stored, and since when."""

    async def listed() -> set[ObjectMeta]:
        return {meta async for meta in store.list(prefix)}

    return run(listed())


def pack_paths(store: Store) -> set[str]:
    """Name the packs that are stored."""
    return {meta.path for meta in objects_of(store, "packs/")}


def needed_paths(store: Store) -> set[str]:
    """Name the packs that what must be readable refers to, views included."""
    return {pack.path for pack in run(_needed(store))}


async def _needed(store: Store) -> set[PackId]:
    packs, needed = PackReader(store), set[PackId]()
    for branch in await branch_names(store):
        log = BranchLog(store, branch)
        head = await log.head()
        if head is not None and head.kind != "end":
            for seq in range(fence_of(head).expired_before, head.seq + 1):
                entry = await loaded(await log.existing(seq), packs)
                needed |= await packs_of(entry, packs)
    async for meta in store.list("tags/"):
        citation = await read_citation(store, meta.path)
        if citation is not None:
            entry = await BranchLog(store, citation.branch).existing(citation.seq)
            needed |= await packs_of(entry, packs)
            if citation.rows is not None:
                needed |= {child.pack for child in citation.rows.children}
    return needed


def copy_of(store: MemoryStore, clock: Clock) -> MemoryStore:
    """Return a store with the same objects and times, which goes its own way."""
    twin = MemoryStore(clock=clock)
    twin._objects.update(store._objects)
    return twin


def with_three_packs(store: MemoryStore) -> Dataset:
    """Create a dataset of three commits, each with a pack."""
    dataset = create_on(store, {"x": "int64", "text": "str"})
    for number in range(3):
        dataset.append({"x": number, "text": f"row {number}"})
        dataset.commit(f"row {number}")
    return dataset


def sleeping_writer(store: MemoryStore, version: str | None = None) -> Dataset:
    """Return a handle whose staged row is in a stored pack; only its entry was not published."""
    refusing = FaultyStore(store)
    writer = open_on(refusing, version)
    writer.append({"x": -1, "text": "late"})
    refusing.inject(Fault.REFUSED, call="put_if_absent", path="branches/")
    with pytest.raises(StorageError):
        writer.commit("refused")
    return writer


def leave_garbage(store: MemoryStore) -> set[str]:
    """Packs of a writer that died before its entry."""
    before = pack_paths(store)
    sleeping_writer(store).discard()
    return pack_paths(store) - before
