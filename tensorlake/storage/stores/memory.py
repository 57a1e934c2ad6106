"""A store in this process's memory: for tests, examples and scratch datasets.

`memory://name` is shared by all handles of that name in one process; a forked child has a copy.
No locks: each operation is one operation on a dict, which the interpreter makes atomic, so a fork
can never leave a lock held.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tensorlake.storage.api.store import (
    Buffer,
    Data,
    ObjectMeta,
    StoredObject,
    Unmapped,
    check_path,
    check_range,
    exists,
    missing,
    pieces_of,
    short,
)


def utc_now() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _StoredObject:
    data: bytes
    modified: datetime


_shared: Final[dict[str, dict[str, _StoredObject]]] = {}


class MemoryStore(Unmapped):
    """Objects in a dict.

    Args:
        name: Stores of one name share their objects; without a name they are this store's own.
        prefix: A folder of the shared objects that this store is confined to.
        clock: The store's clock, for tests that move it.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        prefix: str = "",
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._clock = clock
        self._name = name
        self._prefix = f"{prefix}/" if prefix else ""
        self._objects: dict[str, _StoredObject] = {}
        if name is not None:
            self._objects = _shared.setdefault(name, self._objects)

    @property
    def url(self) -> str:
        return f"memory://{self._name or ''}" + (f"/{self._prefix[:-1]}" if self._prefix else "")

    @property
    def is_local(self) -> bool:
        return False

    async def get(self, path: str) -> bytes | None:
        found = self._find(path)
        return None if found is None else found.data

    async def read(self, path: str) -> StoredObject | None:
        data = await self.get(path)
        found = self._find(path)
        return None if data is None or found is None else StoredObject(data, found.modified)

    async def now(self) -> datetime:
        return self._clock()

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        check_range(path, start, stop)
        found = self._find(path)
        if found is None:
            raise missing(path, self.url)
        view = memoryview(found.data)[start:stop]
        if len(view) != stop - start:
            raise short(path, self.url, start=start, stop=stop, received=len(view))
        return view

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return [await self.get_range(path, start, stop) for start, stop in ranges]

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        del durable  # memory is never durable
        if after is not None:
            after()
        stored = self._stored(data)
        if self._objects.setdefault(self._key(path), stored) is not stored:
            raise exists(path, self.url)

    async def sync(self, paths: Sequence[str]) -> None:
        del paths  # memory is never durable

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        del durable  # memory is never durable
        self._objects[self._key(path)] = self._stored(data)

    async def head(self, path: str) -> ObjectMeta | None:
        found = self._find(path)
        return None if found is None else ObjectMeta(path, len(found.data), found.modified)

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        start = self._prefix + prefix
        skip = len(self._prefix)
        for key in sorted(key for key in list(self._objects) if key.startswith(start)):
            found = self._objects.get(key)
            if found is not None:  # deleted meanwhile
                yield ObjectMeta(key[skip:], len(found.data), found.modified)

    async def folders(self, prefix: str) -> Sequence[str]:
        start = self._prefix + prefix
        below = (key[len(start) :] for key in list(self._objects) if key.startswith(start))
        return sorted({rest.partition("/")[0] for rest in below if "/" in rest})

    async def delete(self, path: str) -> None:
        self._objects.pop(self._key(path), None)

    def clone(self) -> MemoryStore:
        twin = MemoryStore(self._name, prefix=self._prefix[:-1], clock=self._clock)
        twin._objects = self._objects  # a nameless store's twin sees the same objects
        return twin

    def _key(self, path: str) -> str:
        return self._prefix + check_path(path)

    def _find(self, path: str) -> _StoredObject | None:
        return self._objects.get(self._key(path))

    def _stored(self, data: Data) -> _StoredObject:
        return _StoredObject(b"".join(pieces_of(data)), self._clock())
