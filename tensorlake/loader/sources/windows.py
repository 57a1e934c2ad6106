"""Windows read block by block: the rows of a block are read together and held to its last use.

    shares ─► watch: all of this process's places in a window are known before its first batch
           ─► a table for each window: place ─► block, row in the block; a block's last place
           ─► the cache's ordinals of the blocks, as if each were a chunk

Only the rows that this process gives are read of a block: in one range if ranks do not divide it.
A block is pinned by its window from its first batch to its last, and dropped then: no later epoch
has the same blocks. The budget of a pass counts blocks as long as they are pinned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tensorlake.loader.plan.plan import AccessPlan
    from tensorlake.loader.plan.selection import Int64Array, Selection
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.sources.chunk_cache import ChunkCache

__all__ = ["BlockKey", "WindowReads"]


@dataclass(frozen=True, slots=True, eq=False)
class BlockKey:
    """The rows of a block that are read together, as the key of a chunk."""

    physical: Int64Array
    nbytes: int  # estimated from the mean of all rows
    pack: str = ""
    is_fill: bool = False

    @property
    def offset(self) -> int:
        """Its place among blocks: they are requested in the order in which they are stored."""
        return int(self.physical[0])


@dataclass(frozen=True, slots=True, eq=False)
class WindowTable:
    """The places of this process in one window."""

    places: Int64Array  # ascending
    block: Int64Array  # of each place, from 0 on
    row: Int64Array  # of each place, its row among those read of the block
    last: Int64Array  # of each block, the last of its places
    ordinals: dict[str, Int64Array]  # of each block, for each tensor


class WindowReads:
    """The blocks of one pass over an epoch; used by the thread that plans it."""

    def __init__(
        self,
        plan: AccessPlan,
        selection: Selection,
        cache: ChunkCache,
        row_nbytes: dict[str, int],
    ) -> None:
        self._plan = plan
        self._selection = selection
        self._cache = cache
        self._row_nbytes = row_nbytes  # of each tensor that is read by block
        self._span = plan.key.order.block * plan.key.order.window
        self._places: dict[int, list[Int64Array]] = {}
        self._tables: dict[int, WindowTable] = {}

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors read by block."""
        return tuple(self._row_nbytes)

    def watch(self, shares: Iterable[Share]) -> Iterator[Share]:
        """Pass shares on, each when all shares of its windows are known."""
        waiting: deque[Share] = deque()
        for share in shares:
            window = share.batch_start // self._span
            while waiting and waiting[0].next_place <= window * self._span:
                yield waiting.popleft()
            places = self._plan.deal(share)
            while len(places):
                stop = int(np.searchsorted(places, (window + 1) * self._span))
                self._places.setdefault(window, []).append(places[:stop])
                places, window = places[stop:], window + 1
            waiting.append(share)
        yield from waiting

    def locate(
        self, places: Int64Array
    ) -> tuple[dict[str, tuple[Int64Array, Int64Array]], dict[str, Int64Array]]:
        """Find the blocks of ascending places.

        Returns:
            For each tensor the ordinal of each place's block, and the row there; and for each
            tensor the ordinal of each block's last use, at its place, −1 elsewhere.
        """
        row = np.empty_like(places)
        chunk = {tensor: np.empty_like(places) for tensor in self._row_nbytes}
        last = {tensor: np.full_like(places, -1) for tensor in self._row_nbytes}
        windows = places // self._span
        for passed in [number for number in self._tables if number < int(windows[0])]:
            del self._tables[passed]
        for number in np.unique(windows).tolist():
            table = self._table(number)
            here = np.flatnonzero(windows == number)
            at = np.searchsorted(table.places, places[here])
            row[here] = table.row[at]
            block = table.block[at]
            is_last = table.last[block] == places[here]
            for tensor, ordinals in table.ordinals.items():
                chunk[tensor][here] = ordinals[block]
                last[tensor][here[is_last]] = ordinals[block[is_last]]
        return {tensor: (found, row) for tensor, found in chunk.items()}, last

    def _table(self, number: int) -> WindowTable:
        table = self._tables.get(number)
        if table is None:
            table = self._tables[number] = self._made(number)
        return table

    def _made(self, number: int) -> WindowTable:
        places = np.unique(np.concatenate(self._places.pop(number)))
        slots, offsets = self._plan.blocks_of(places)
        stored = np.lexsort((offsets, slots))
        firsts = np.flatnonzero(np.diff(slots[stored], prepend=-1))
        block = np.empty_like(places)
        block[stored] = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(places)))
        row = np.empty_like(places)
        row[stored] = np.arange(len(places)) - firsts[block[stored]]
        last = np.zeros(len(firsts), dtype=np.int64)
        np.maximum.at(last, block, places)
        physical = self._selection.physical(self._plan.at(places))[stored]
        rows = np.split(physical, firsts[1:])
        ordinals = {
            tensor: self._cache.hold(tensor, [BlockKey(one, len(one) * nbytes) for one in rows])
            for tensor, nbytes in self._row_nbytes.items()
        }
        return WindowTable(places, block, row, last, ordinals)
