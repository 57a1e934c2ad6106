"""Count the requests, bytes and round trips of a store.

    store = CountingStore(MemoryStore())
    …
    assert store.count("put_if_absent") == 2
    assert store.round_trips <= 2

Requests that run at the same time are one round trip.  `get_ranges` counts as the ranged requests
an object store would make of it, after coalescing; `map_range` and `read_into` are not requests.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from tensorlake.storage import (
    Buffer,
    Data,
    ObjectMeta,
    Store,
    StoredObject,
    merge_ranges,
    nbytes_of,
)

LOOP_TURNS = 8
"""Turns of the event loop that a request takes: requests started together then overlap, also on a
store that answers at once, and where each is the task of a hedge."""


@dataclass(slots=True)
class Request:
    """One request: its call, bytes received or sent, and times in ticks of the log."""

    call: str
    path: str
    nbytes: int
    began: int
    ended: int | None = None


@dataclass(slots=True)
class _Log:
    requests: list[Request] = field(default_factory=list[Request])
    ticks: Iterator[int] = field(default_factory=itertools.count)
    in_flight: int = 0
    max_in_flight: int = 0


class CountingStore:
    """A store that forwards and records all requests; a clone shares the log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._log = _Log()

    @property
    def requests(self) -> Sequence[Request]:
        """Return the requests since the last reset, in the order they began."""
        return tuple(self._log.requests)

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read from the store."""
        return sum(request.nbytes for request in self._log.requests if "get" in request.call)

    @property
    def bytes_written(self) -> int:
        """Return the number of bytes written to the store."""
        return sum(request.nbytes for request in self._log.requests if "put" in request.call)

    @property
    def max_in_flight(self) -> int:
        """Return the largest number of concurrent requests."""
        return self._log.max_in_flight

    @property
    def round_trips(self) -> int:
        """Return the length of the longest chain of requests, each begun after the last ended."""
        return round_trips(self._log.requests)

    def count(self, *calls: str, path: str = "") -> int:
        """Count the requests of these calls (none named: of all) whose path contains `path`."""
        return sum(
            (not calls or request.call in calls) and path in request.path
            for request in self._log.requests
        )

    def reset(self) -> None:
        """Reset all counts."""
        self._log.requests.clear()
        self._log.max_in_flight = self._log.in_flight

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def is_local(self) -> bool:
        return self._store.is_local

    async def get(self, path: str) -> bytes | None:
        with self._counted("get", path) as request:
            await _turns()
            found = await self._store.get(path)
            request.nbytes = len(found or b"")
            return found

    async def read(self, path: str) -> StoredObject | None:
        with self._counted("get", path) as request:
            await _turns()
            found = await self._store.read(path)
            request.nbytes = 0 if found is None else len(found.data)
            return found

    async def now(self) -> datetime:
        return await self._store.now()

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        with self._counted("get_range", path, stop - start):
            await _turns()
            return await self._store.get_range(path, start, stop)

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        with ExitStack() as stack:
            for merged in merge_ranges(ranges):
                stack.enter_context(self._counted("get_range", path, merged.stop - merged.start))
            await _turns()
            return await self._store.get_ranges(path, ranges)

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        with self._counted("put_if_absent", path, nbytes_of(data)):
            await _turns()
            await self._store.put_if_absent(path, data, durable=durable, after=after)

    async def sync(self, paths: Sequence[str]) -> None:
        await self._store.sync(paths)  # of a folder alone, which takes no requests

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        with self._counted("put", path, nbytes_of(data)):
            await _turns()
            await self._store.put(path, data, durable=durable)

    async def head(self, path: str) -> ObjectMeta | None:
        with self._counted("head", path):
            await _turns()
            return await self._store.head(path)

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        with self._counted("list", prefix):
            await _turns()
            async for meta in self._store.list(prefix):
                yield meta

    async def folders(self, prefix: str) -> Sequence[str]:
        with self._counted("list", prefix):
            await _turns()
            return await self._store.folders(prefix)

    async def delete(self, path: str) -> None:
        with self._counted("delete", path):
            await _turns()
            await self._store.delete(path)

    def map_range(self, path: str, start: int, stop: int) -> memoryview | None:
        return self._store.map_range(path, start, stop)

    def read_into(self, path: str, start: int, pieces: Sequence[memoryview]) -> bool:
        return self._store.read_into(path, start, pieces)

    def clone(self) -> CountingStore:
        twin = CountingStore(self._store.clone())
        twin._log = self._log
        return twin

    @contextmanager
    def _counted(self, call: str, path: str, nbytes: int = 0) -> Generator[Request]:
        log = self._log
        request = Request(call, path, nbytes, next(log.ticks))
        log.requests.append(request)
        log.in_flight += 1
        log.max_in_flight = max(log.max_in_flight, log.in_flight)
        try:
            yield request
        finally:
            request.ended = next(log.ticks)
            log.in_flight -= 1


async def _turns() -> None:
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)


def round_trips(requests: Iterable[Request]) -> int:
    """Return the length of the longest chain of some requests, each begun after the last ended."""
    finished = [(r.ended, r.began) for r in requests if r.ended is not None]
    trips, free_from = 0, -1
    for ended, began in sorted(finished):
        if began > free_from:
            trips, free_from = trips + 1, ended
    return trips
