"""Pages kept in memory: the sink and the source that tests of trees share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import xxhash

from tensorlake.format import PackId, PageRef

if TYPE_CHECKING:
    from collections.abc import Coroutine


T = TypeVar("T")


class MemoryPages:
    """A page sink and source over one dict; counts what is written and read."""

    def __init__(self, txid: str = "a" * 32) -> None:
        self.pages: dict[tuple[PackId, int], bytes] = {}
        self.pack = PackId(txid, 0)
        self.written: list[PageRef] = []
        self.reads: list[PageRef] = []
        self.most_at_once = 0
        self._at_once = 0
        self._nbytes = 64

    def add(self, page: Any, *, rows: int, entries: int, height: int) -> PageRef:
        data = bytes(page)
        ref = PageRef(
            self.pack,
            self._nbytes,
            len(data),
            xxhash.xxh3_64_intdigest(data),
            rows,
            entries,
            height,
        )
        self.pages[ref.pack, ref.offset] = data
        self._nbytes += -(-len(data) // 64) * 64
        self.written.append(ref)
        return ref

    async def read(self, ref: PageRef) -> bytes:
        self.reads.append(ref)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        return self.pages[ref.pack, ref.offset]


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; twice as fast as asyncio.run, which installs a signal handler each time."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
