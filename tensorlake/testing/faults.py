"""A store that fails as real stores do, where and when a test specifies.

    store = FaultyStore(MemoryStore())
    store.inject(Fault.ANSWER_LOST, call="put_if_absent", path="branches/")  # the next such
    store.crash_after(2)              # the third write, and all after it, never happen
    store.before("put_if_absent", other_writer_commits, path="branches/main/")

Faults are scripted, not random: a failing test fails again.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from tensorlake.errors import InvalidInputError, StorageError, StorageTimeoutError
from tensorlake.storage import (
    Buffer,
    Data,
    MissingObjectError,
    ObjectExistsError,
    ObjectMeta,
    Store,
    StoredObject,
    UnknownOutcomeError,
    pieces_of,
)

READS = frozenset({"get", "get_range", "get_ranges", "head", "list"})
WRITES = frozenset({"put_if_absent", "put", "sync", "delete"})


class Fault(Enum):
    """The kinds of failure of a request."""

    REFUSED = "the store refuses; nothing was done"
    TIMED_OUT = "no answer; nothing was done"
    NOT_STORED = "a write of unknown outcome that did not land"
    ANSWER_LOST = "a write of unknown outcome that landed"
    SHORT = "a read that returns half of the bytes"
    FLIPPED = "a read with one bit changed in its middle"
    MISSING = "a read that finds no object"
    LANDS_LATER = "a write of unknown outcome that lands after more requests"
    TORN = "an overwrite of which half is stored"
    DELAYED = "a request that is held back while others pass"
    REORDERED = "a listing in another order"
    UNANSWERED = "a request that is never answered, until it is cancelled"


class SimulatedCrash(BaseException):
    """The process died here. Not an Exception, so nothing on the way can handle it."""


@dataclass(slots=True)
class _Rule:
    call: str
    path: str
    skip: int
    times: int
    effect: Fault | Callable[[], object]
    later: int = 1

    def applies(self, call: str, path: str) -> bool:
        """Whether this request is hit; counts it."""
        if self.call != call or self.path not in path or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class _LateWrite:
    path: str
    data: bytes
    requests_left: int


class FaultyStore:
    """A store that forwards requests, except those that a test makes fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rules: list[_Rule] = []
        self._late: list[_LateWrite] = []
        self._later = 1
        self._last_write: int | None = None
        self._is_dead = False
        self.writes = 0
        """The number of forwarded writing requests."""

    def inject(
        self,
        fault: Fault,
        *,
        call: str,
        path: str = "",
        skip: int = 0,
        times: int = 1,
        later: int = 1,
    ) -> None:
        """Let requests fail: after `skip` of them, the next `times` whose path contains `path`.

        Late writes land after `later` more requests; delayed requests wait for as many turns of the
        event loop.
        """
        if call not in READS | WRITES:
            raise InvalidInputError(
                f"{call!r} is not a request;\nuse one of {sorted(READS | WRITES)}", call=call
            )
        self._rules.append(_Rule(call, path, skip, times, fault, later))

    def before(
        self, call: str, action: Callable[[], object], *, path: str = "", skip: int = 0
    ) -> None:
        """Run `action` once, in a thread, right before such a request: a race, made certain."""
        self._rules.append(_Rule(call, path, skip, 1, action))

    def heal(self) -> None:
        """Drop all faults that have not happened yet; pending late writes land now."""
        self._rules.clear()
        for write in self._late:
            write.requests_left = 0

    def crash_after(self, writes: int) -> None:
        """Let that many more writing requests through; the next, and all after it, is a crash."""
        self._last_write = self.writes + writes

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def is_local(self) -> bool:
        return self._store.is_local

    async def get(self, path: str) -> bytes | None:
        fault = await self._arrive("get", path)
        found = None if fault is Fault.MISSING else await self._store.get(path)
        return None if found is None else _spoilt(found, fault)

    async def read(self, path: str) -> StoredObject | None:
        fault = await self._arrive("get", path)
        found = None if fault is Fault.MISSING else await self._store.read(path)
        return None if found is None else replace(found, data=_spoilt(found.data, fault))

    async def now(self) -> datetime:
        return await self._store.now()

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        fault = await self._arrive("get_range", path)
        return _spoilt(bytes(await self._store.get_range(path, start, stop)), fault)

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        fault = await self._arrive("get_ranges", path)
        found = await self._store.get_ranges(path, ranges)
        return [_spoilt(bytes(piece), fault) for piece in found]

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        if after is not None:
            after()
        fault = await self._arrive("put_if_absent", path)
        if fault is Fault.LANDS_LATER:
            self._hold_back(path, data)
        await self._store.put_if_absent(path, data, durable=durable)
        self._leave("put_if_absent", path, fault)

    async def sync(self, paths: Sequence[str]) -> None:
        await self._arrive("sync", " ".join(paths))
        await self._store.sync(paths)

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        fault = await self._arrive("put", path)
        if fault is Fault.TORN:
            whole = b"".join(bytes(piece) for piece in pieces_of(data))
            data = whole[: len(whole) // 2]
        await self._store.put(path, data, durable=durable)
        self._leave("put", path, fault)

    async def head(self, path: str) -> ObjectMeta | None:
        fault = await self._arrive("head", path)
        return None if fault is Fault.MISSING else await self._store.head(path)

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        if await self._arrive("list", prefix) is not Fault.REORDERED:
            async for meta in self._store.list(prefix):
                yield meta
            return
        for meta in reversed([meta async for meta in self._store.list(prefix)]):
            yield meta

    async def folders(self, prefix: str) -> Sequence[str]:
        fault = await self._arrive("list", prefix)
        found = await self._store.folders(prefix)
        return [*reversed(found)] if fault is Fault.REORDERED else found

    async def delete(self, path: str) -> None:
        fault = await self._arrive("delete", path)
        await self._store.delete(path)
        self._leave("delete", path, fault)

    def map_range(self, path: str, start: int, stop: int) -> memoryview | None:
        if self._is_dead:
            raise SimulatedCrash(f"map_range {path!r}")
        return self._store.map_range(path, start, stop)

    def read_into(self, path: str, start: int, pieces: Sequence[memoryview]) -> bool:
        if self._is_dead:
            raise SimulatedCrash(f"read_into {path!r}")
        return self._store.read_into(path, start, pieces)

    def clone(self) -> FaultyStore:
        return self  # one script for all handles of a test

    async def _arrive(self, call: str, path: str) -> Fault | None:
        """Raise a fault that precedes the request; return a fault of its answer."""
        if self._is_dead:
            raise SimulatedCrash(f"{call} {path!r}")
        await self._land_what_is_due()
        fault: Fault | None = None
        for rule in self._rules:
            if rule.applies(call, path):
                if rule.effect is Fault.UNANSWERED:
                    await asyncio.Event().wait()
                elif rule.effect is Fault.DELAYED:
                    for _ in range(rule.later):
                        await asyncio.sleep(0)
                elif isinstance(rule.effect, Fault):
                    fault, self._later = rule.effect, rule.later
                    break
                else:
                    await asyncio.to_thread(rule.effect)
        what = f"{call} of object {path!r} of {self.url!r} was made to fail"
        match fault:
            case Fault.REFUSED:
                raise StorageError(f"{what};\ntry again", path=path)
            case Fault.TIMED_OUT:
                raise StorageTimeoutError(f"{what};\ntry again", path=path)
            case Fault.NOT_STORED:
                raise UnknownOutcomeError(f"{what};\nread it back", path=path)
            case Fault.MISSING if call in ("get_range", "get_ranges"):
                raise MissingObjectError(f"{what};\nrestore it from a copy", path=path)
            case _:
                pass
        if call in WRITES:
            if self._last_write is not None and self.writes >= self._last_write:
                self._is_dead = True
                raise SimulatedCrash(f"{call} {path!r}")
            self.writes += 1
        return fault

    async def _land_what_is_due(self) -> None:
        due = [write for write in self._late if write.requests_left <= 0]
        self._late = [write for write in self._late if write.requests_left > 0]
        for write in self._late:
            write.requests_left -= 1
        for write in due:
            with suppress(ObjectExistsError):  # sent again meanwhile, or another's
                await self._store.put_if_absent(write.path, write.data)

    def _hold_back(self, path: str, data: Data) -> None:
        whole = b"".join(bytes(piece) for piece in pieces_of(data))
        self._late.append(_LateWrite(path, whole, self._later))
        raise UnknownOutcomeError(
            f"put_if_absent of object {path!r} of {self.url!r} timed out and may still land;"
            "\nread it back",
            path=path,
        )

    def _leave(self, call: str, path: str, fault: Fault | None) -> None:
        if fault is Fault.ANSWER_LOST:
            raise UnknownOutcomeError(
                f"the answer to {call} of object {path!r} of {self.url!r} was lost;\nread it back",
                path=path,
            )


def _spoilt(data: bytes, fault: Fault | None) -> bytes:
    half = len(data) // 2
    match fault:
        case Fault.SHORT:
            return data[:half]
        case Fault.FLIPPED if data:
            return data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]
        case _:
            return data
