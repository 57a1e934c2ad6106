"""A store in this process with a latency and a bandwidth, for tests and benchmarks of waiting.

    store = ThrottledStore(MemoryStore(), latency_s=0.02, nbytes_per_s=20e6)

Every read waits for the latency, any number of them at the same time; then its bytes pass a pipe
that all reads share, one after the other. Waiting takes no processor time, so the amounts hold on a
busy machine too. Nothing is mapped: the store counts as remote. Writes are not slowed down.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from tensorlake.storage import Buffer, Data, ObjectMeta, Store, StoredObject

__all__ = ["ThrottledStore"]

SLACK_S = 0.05
"""Time that the pipe makes up for: the loop was late, and a read waited."""


class ThrottledStore:
    """A store whose reads take time."""

    def __init__(
        self, store: Store, *, latency_s: float = 0.0, nbytes_per_s: float | None = None
    ) -> None:
        self.latency_s = latency_s
        self.nbytes_per_s = nbytes_per_s
        self._store = store
        self._pipe: asyncio.Lock | None = None  # of the loop that reads
        self._free_at = 0.0  # when the pipe has passed all bytes so far

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def is_local(self) -> bool:
        return False

    async def get(self, path: str) -> bytes | None:
        found = await self._store.get(path)
        await self._wait(len(found or b""))
        return found

    async def read(self, path: str) -> StoredObject | None:
        found = await self._store.read(path)
        await self._wait(0 if found is None else len(found.data))
        return found

    async def now(self) -> datetime:
        return await self._store.now()

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        await self._wait(stop - start)
        return await self._store.get_range(path, start, stop)

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return list(await asyncio.gather(*(self.get_range(path, *one) for one in ranges)))

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        await self._store.put_if_absent(path, data, durable=durable, after=after)

    async def sync(self, paths: Sequence[str]) -> None:
        await self._store.sync(paths)

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        await self._store.put(path, data, durable=durable)

    async def head(self, path: str) -> ObjectMeta | None:
        await self._wait(0)
        return await self._store.head(path)

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        async for meta in self._store.list(prefix):
            yield meta

    async def folders(self, prefix: str) -> Sequence[str]:
        return await self._store.folders(prefix)

    async def delete(self, path: str) -> None:
        await self._store.delete(path)

    def map_range(self, path: str, start: int, stop: int) -> memoryview | None:
        del path, start, stop

    def read_into(self, path: str, start: int, pieces: Sequence[memoryview]) -> bool:
        del path, start, pieces
        return False

    def clone(self) -> ThrottledStore:
        return self  # one pipe for all handles

    async def _wait(self, nbytes: int) -> None:
        """Wait for the latency, then for the turn and the time of the bytes in the pipe."""
        await asyncio.sleep(self.latency_s)
        if self.nbytes_per_s is None:
            return
        if self._pipe is None:
            self._pipe = asyncio.Lock()
        async with self._pipe:  # a cancelled read takes no more of the pipe
            due = max(self._free_at, time.monotonic() - SLACK_S) + nbytes / self.nbytes_per_s
            await asyncio.sleep(due - time.monotonic())
            self._free_at = due
