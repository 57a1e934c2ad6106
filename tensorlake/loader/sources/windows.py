"""Windows read block by block: the rows of a block are read together and held to its last use.

    shares ─► watch: all of this process's places in a window are known before its first batch
           ─► a table for each window: place ─► block, row in the block; a block's last place
           ─► the cache's ordinals of the blocks, as if each were a chunk

Only the rows that this process gives are read of a block: in one range if ranks do not divide it.
In a mix each source has windows of its own, and rows of a source that is not windowed are blocks of
one row. A block is pinned by its window from its first batch to its last, and dropped then: no
later epoch has the same blocks. The budget of a pass counts blocks as long as they are pinned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.loader.plan.plan import STREAM_SHIFT
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader.plan.plan import BlockPlan
    from tensorlake.loader.plan.selection import Int64Array, Selection
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.sources.chunk_cache import ChunkCache

__all__ = ["BlockKey", "WindowReads", "row_key"]

MOST_AHEAD = 1 << 16  # places that wait for the end of a window; a source may pause in a stage


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


def row_key(physical: int, *, nbytes: int) -> BlockKey:
    """Return the key of a row that is read alone."""
    return BlockKey(np.array([physical]), nbytes)


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
        plan: BlockPlan,
        selection: Selection,
        cache: ChunkCache,
        row_nbytes: Mapping[str, Sequence[int]],
    ) -> None:
        self._plan = plan
        self._selection = selection
        self._cache = cache
        self._row_nbytes = row_nbytes  # of each tensor that is read by block, for each stream
        self._places: dict[int, list[Int64Array]] = {}  # by window, not planned yet
        self._tables: dict[int, list[WindowTable]] = {}

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors read by block."""
        return tuple(self._row_nbytes)

    def watch(self, shares: Iterable[Share]) -> Iterator[Share]:
        """Pass shares on, each when all shares of its windows are known, or enough are waiting."""
        waiting: deque[tuple[Share, dict[int, int]]] = deque()
        newest: dict[int, int] = {}  # by stream
        ahead = 0
        for share in shares:
            places = self._plan.deal(share)
            windows = self._plan.windows_of(places)
            ends: dict[int, int] = {}
            for window in distinct(windows).tolist():
                self._places.setdefault(window, []).append(places[windows == window])
                ends[window >> STREAM_SHIFT] = window
            newest |= {stream: max(end, newest.get(stream, -1)) for stream, end in ends.items()}
            waiting.append((share, ends))
            ahead += len(share)
            while waiting and (
                ahead > MOST_AHEAD
                or all(newest[stream] > end for stream, end in waiting[0][1].items())
            ):
                first = waiting.popleft()[0]
                ahead -= len(first)
                yield first
        yield from (share for share, _ in waiting)

    def locate(
        self, places: Int64Array
    ) -> tuple[dict[str, tuple[Int64Array, Int64Array]], dict[str, Int64Array]]:
        """Find the blocks of places of consecutive shares.

        Returns:
            For each tensor the ordinal of each place's block, and the row there; and for each
            tensor the ordinal of each block's last use, at its place, −1 elsewhere.
        """
        row = np.empty_like(places)
        chunk = {tensor: np.empty_like(places) for tensor in self._row_nbytes}
        last = {tensor: np.full_like(places, -1) for tensor in self._row_nbytes}
        windows = self._plan.windows_of(places)
        numbers: list[int] = distinct(windows).tolist()
        self._forget_before(numbers)
        for number in numbers:
            own = np.flatnonzero(windows == number)
            for table in self._tables_of(number):
                at = np.searchsorted(table.places, places[own])
                at[at == len(table.places)] = 0
                here, at = own[table.places[at] == places[own]], at[table.places[at] == places[own]]
                row[here] = table.row[at]
                block = table.block[at]
                is_last = table.last[block] == places[here]
                for tensor, ordinals in table.ordinals.items():
                    chunk[tensor][here] = ordinals[block]
                    last[tensor][here[is_last]] = ordinals[block[is_last]]
        return {tensor: (found, row) for tensor, found in chunk.items()}, last

    def _forget_before(self, numbers: Sequence[int]) -> None:
        """Drop the tables of windows that their streams have passed."""
        first: dict[int, int] = {}
        for number in numbers:
            first.setdefault(number >> STREAM_SHIFT, number)
        for number in [*self._tables]:
            if number < first.get(number >> STREAM_SHIFT, -1):
                del self._tables[number]

    def _tables_of(self, number: int) -> list[WindowTable]:
        """Return the tables of a window: one, unless some of its places were not known in time."""
        tables = self._tables.setdefault(number, [])
        if number in self._places:
            tables.append(self._made(self._places.pop(number)))
        return tables

    def _made(self, parts: Sequence[Int64Array]) -> WindowTable:
        places = distinct(np.concatenate(parts))
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
        stream = int(slots[0]) >> STREAM_SHIFT
        ordinals = {
            tensor: self._cache.hold(
                tensor, [BlockKey(one, len(one) * nbytes[stream]) for one in rows]
            )
            for tensor, nbytes in self._row_nbytes.items()
        }
        return WindowTable(places, block, row, last, ordinals)
