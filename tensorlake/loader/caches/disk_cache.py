"""The disk tier of a loader: bytes of packs from a local folder, and only else from the store.

    read ─► spans on disk ──────────────────────────────► all of it: no request
              └► the rest ─► claimed by another read ────► wait for its bytes, then look again
                               └► fetched from the store ─► written, noted ─► claim ended

Keyed by pack and range, whatever is read: chunks, blocks of windows, rows, parts of samples. A disk
that fails never fails a read.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tensorlake.loader.caches.disk_folder import (
    CLAIM_WAIT_S,
    HUNG_WAIT_S,
    DiskFolder,
    User,
    key_of,
    opened_folder,
)
from tensorlake.loader.caches.spans import Span

if TYPE_CHECKING:
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.storage import Buffer

__all__ = ["DiskTier", "unkept"]

Range = tuple[int, int]
Fetch = Callable[[Sequence[Range]], Awaitable[list["Buffer"]]]
Covered = list[tuple[list[Span], Range | None]]

ASIDE_NBYTES: Final = 128 << 10  # more are read in a thread: 0.1 ms of a disk's cache
FIRST_PAUSE_S: Final = 0.002
LAST_PAUSE_S: Final = 0.05

_passes = count()
_keeps = ContextVar("keeps", default=True)
T = TypeVar("T")


async def unkept(read: Coroutine[Any, Any, T]) -> T:
    """Await a read, in a task of its own, of which the disk keeps nothing new."""
    _keeps.set(False)
    return await read


class DiskCache:
    """The packs of one dataset in a folder, as one loader uses them."""

    def __init__(self, folder: DiskFolder, url: str, counters: Counters) -> None:
        self._folder = folder
        self._dataset = key_of(url)
        self._counters = counters
        self._pass, self._began = next(_passes), time.time()
        self._join()

    def _join(self) -> None:
        self._user = self._folder.join(self._dataset)
        self._leave = weakref.finalize(self, _leave, self._user)

    def begin_pass(self, *, is_whole: bool) -> None:
        """Note that a pass begins, and whether the one before it read everything."""
        if self._user is not None and not self._user.is_noted:
            self._leave()
            self._join()
        if is_whole and self._user is not None:
            self._folder.read_whole(self._user, since=self._began)
        self._pass, self._began = next(_passes), time.time()
        self._folder.claim_wait_s = CLAIM_WAIT_S

    def close(self) -> None:
        """End the use of the folder: its bytes may then be deleted to make room."""
        self._leave()

    async def read(self, path: str, ranges: Sequence[Range], fetch: Fetch) -> list[Buffer]:
        """Return ranges [start, stop) of a pack, fetching what is not on disk."""
        if self._folder.is_off:
            return await fetch(ranges)
        is_kept = _keeps.get()
        pack = f"{self._dataset}-{key_of(path)}"
        pause, deadline = FIRST_PAUSE_S, time.monotonic() + self._folder.claim_wait_s
        claimed: list[Range] = []
        try:
            while True:
                parts = await self._on_disk(pack, ranges)
                gaps = [part.gap for part in parts if part.gap is not None]
                if not gaps or claimed == gaps or not is_kept:
                    break
                if time.monotonic() > deadline:  # a stopped process would hold up every read
                    self._folder.claim_wait_s = HUNG_WAIT_S
                    break
                self._folder.claims.release(pack, claimed)
                claimed = gaps if self._folder.claims.claim(pack, gaps) else []
                if not claimed:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LAST_PAUSE_S)
            missed = sum(stop - start for start, stop in gaps)
            asked = sum(stop - start for start, stop in ranges)
            self._counters.add(
                disk_hits=len(ranges) - len(gaps), disk_misses=len(gaps), disk_nbytes=asked - missed
            )
            fetched = await fetch(gaps) if gaps else []
            if fetched and is_kept:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, self._keep, pack, gaps, fetched)
            coming = iter(fetched)
            return [part.filled(coming) for part in parts]
        finally:
            self._folder.claims.release(pack, claimed)

    def value(self, name: str, start: int, nbytes: int) -> memoryview | None:
        """Return bytes that `keep_value` kept under a name; None if not all are there."""
        pack = f"{self._dataset}-{key_of(name)}"
        try:
            parts: list[Part] | None = None
            while parts is None and not self._folder.is_off:
                ranges = [(start, start + nbytes)]
                covered = self._folder.spans(pack, ranges, number=self._pass)
                parts = self._parts(pack, ranges, covered)
        except OSError as error:
            self._folder.fail(error)
            return None
        return parts[0].memory if parts and parts[0].gap is None else None

    def keep_value(self, name: str, start: int, data: bytes) -> None:
        """Keep bytes that are not of the store, if there is room."""
        if not self._folder.is_off:
            self._keep(f"{self._dataset}-{key_of(name)}", [(start, start + len(data))], [data])

    def forget(self, path: str) -> None:
        """Delete a pack's bytes, which were damaged when they came from the store."""
        self._folder.forget(f"{self._dataset}-{key_of(path)}")

    async def _on_disk(self, pack: str, ranges: Sequence[Range]) -> list[Part]:
        """Read what the disk has of some ranges."""
        loop = asyncio.get_running_loop()
        try:
            while not self._folder.is_off:
                covered: Covered = self._folder.spans(pack, ranges, number=self._pass)
                nbytes = sum(span.stop - span.start for spans, _ in covered for span in spans)
                if nbytes <= ASIDE_NBYTES:
                    parts = self._parts(pack, ranges, covered)
                else:
                    parts = await loop.run_in_executor(None, self._parts, pack, ranges, covered)
                if parts is not None:
                    return parts
        except OSError as error:
            self._folder.fail(error)
        return [Part(start, None, (start, stop)) for start, stop in ranges]

    def _parts(self, pack: str, ranges: Sequence[Range], covered: Covered) -> list[Part] | None:
        """Read spans; None if some are damaged, and now forgotten."""
        parts: list[Part] = []
        for (start, stop), (spans, gap) in zip(ranges, covered, strict=True):
            into = None
            if gap != (start, stop):
                into = np.empty(stop - start, np.uint8).data
                if not self._folder.read(pack, spans, start, into):
                    return None
            parts.append(Part(start, into, gap))
        return parts

    def _keep(self, pack: str, gaps: Sequence[Range], fetched: Sequence[Buffer]) -> None:
        try:
            for (start, _), data in zip(gaps, fetched, strict=True):
                self._folder.keep(pack, start, data)
        except OSError as error:
            self._folder.fail(error)


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a pack: memory with what the disk has of it, and the gap."""

    start: int
    memory: memoryview | None  # None: nothing
    gap: Range | None

    def filled(self, fetched: Iterator[Buffer]) -> Buffer:
        """Return all bytes; those of a gap are the next that were fetched."""
        if self.gap is None:
            assert self.memory is not None, "all of it was read"
            return self.memory
        data = next(fetched)
        if self.memory is None:
            return data
        self.memory[self.gap[0] - self.start : self.gap[1] - self.start] = data
        return self.memory


def _leave(user: User | None) -> None:
    if user is not None:
        user.leave()


class DiskTier:
    """The folder of one loader, opened when the first remote dataset is read through it."""

    def __init__(
        self, cache_dir: str | os.PathLike[str] | None, capacity: int | None, counters: Counters
    ) -> None:
        self.is_on = cache_dir is not None
        self._cache_dir = cache_dir
        self._capacity = capacity
        self._counters = counters
        self._folder: DiskFolder | None = None
        self._caches: dict[str, DiskCache] = {}

    def of(self, url: str) -> DiskCache:
        """Return the part of the folder that a dataset has."""
        assert self._cache_dir is not None, "is_on was asked"
        if self._folder is None:
            self._folder = opened_folder(self._cache_dir, self._capacity)
        if url not in self._caches:
            self._caches[url] = DiskCache(self._folder, url, self._counters)
        return self._caches[url]

    def begin_pass(self, *, is_whole: bool) -> None:
        """Note that a pass begins, and whether the one before it read everything."""
        for cache in self._caches.values():
            cache.begin_pass(is_whole=is_whole)

    def counts(self) -> dict[str, int]:
        """Return the counters of ``LoaderStats`` that the tier keeps."""
        folder = self._folder
        is_used = folder is not None and not folder.is_off
        return {
            "disk_cache_nbytes": folder.nbytes if folder is not None and is_used else 0,
            "disk_cache_capacity": folder.capacity if folder is not None and is_used else 0,
        }

    def close(self) -> None:
        """End the use of the folder."""
        for cache in self._caches.values():
            cache.close()
        self._caches.clear()
