"""Read ahead where the order is not known: single rows and small batches, one after another.

    reads of       7  8  9 │ 10 11 12 13 …          equal distances: a walk
    requested              │ [10 … 25] [26 … 41] …  blocks, by the storage loop
    window                 │ 32                     reads that are requested ahead of the program

A walk is found by its last reads: equal distances of any size and sign. Walks may alternate with
each other and with random reads; for these nothing is requested. The window follows Little's law:
the time that a read takes, over the program's own time between two. It is bounded by memory,
by what was read so far, and by what is left of a walk as long as those that ended. A read that
waits although none of these bounds made its window smaller doubles it. (KML, HotStorage 2021,
chooses among sizes of Linux' readahead with a classifier instead.)

Positions are those of a selection: the rows of a query, or of a shuffled list, are one walk.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorlake.errors import TensorlakeError
from tensorlake.quantities import human_nbytes
from tensorlake.reading.index.chunk_cache import nbytes_in_memory
from tensorlake.reading.snapshot import Selection
from tensorlake.storage import ForkLock, runtime
from tensorlake.types import Column, take

__all__ = ["ReadAhead"]

Int64Array = npt.NDArray[np.int64]

NEIGHBOURS_MIN, EQUAL_MIN = 2, 3
"""Equal distances that make a walk: of neighbours, and of others, more often by chance."""

LEAST, COMMON = 16, 128
"""Reads of the first window, and of later ones: fewer cost more to request than to read."""

EARNED = 16
"""Reads ahead for each that was read, so that a short walk does not leave much."""

NBYTES_MAX = 64 << 20
"""Bound of the memory of all that was read ahead, shared by the walks."""

ROWS_MAX = 4096
"""Larger reads are not followed: they have many requests in flight of their own."""

MARGIN = 2.5
"""Windows of Little's law: a block is requested when half of one is left, and times vary."""

GAIN_MAX = 2.0
"""Factor of the window at most, for time that blocks take by their size."""

NEWEST = 0.3
"""Weight of the newest value in a mean."""

IDLE_READS, POINTS_MAX = 64, 16
"""Reads after which a walk has ended; single reads that the next one is compared with."""

SHORTEST_S, PRESSURE_MAX = 20e-6, 2.0


class Reads(Protocol):
    """The parts of a ``Reader`` that are needed here."""

    def read(self, tensor: str, physical: Int64Array, *, decode: bool = True) -> Column:
        """Read samples of physical rows."""
        ...

    def fetch(self, tensor: str, physical: Int64Array) -> Coroutine[Any, Any, Callable[[], Column]]:
        """Fetch the bytes that ``read`` needs."""
        ...


class Block:
    """Reads that were requested together, from ``first`` on, ``stride`` apart.

    ``is_limited`` tells whether fewer were requested than are needed so as not to wait.
    """

    def __init__(
        self,
        first: int,
        count: int,
        future: Future[Callable[[], Column]],
        *,
        is_limited: bool,
        clock: Callable[[], float],
    ) -> None:
        self.first, self.count, self.future = first, count, future
        self.is_limited, self._clock = is_limited, clock
        self.asked = self.ended = clock()
        self.column: Column | None = None
        future.add_done_callback(self._end)

    def _end(self, _future: object) -> None:
        self.ended = self._clock()

    def index(self, first: int, stride: int) -> int | None:
        """Return which of the reads begins at a position; None if none does."""
        steps, rest = divmod(first - self.first, stride)
        return steps if not rest and 0 <= steps < self.count else None

    def result(self) -> Column | None:
        """Wait for the samples; None where they could not be read: the direct read raises it."""
        if self.column is None:
            try:
                self.column = self.future.result()()
            except (TensorlakeError, OSError, CancelledError):
                return None
        return self.column


@dataclass(slots=True, eq=False)
class Walk:
    """Reads of one tensor at equal distances; without a distance, one read.

    Attributes:
        selection: The rows.
        tensor: The tensor.
        shape: Positions of a read, counted from its first.
        last: First position of the last read.
        number: Number of the last read, among all that were followed.
        stride: The distance; 0: not known yet.
        run: Reads at this distance.
        window: Reads to request ahead.
        pressure: Factor of the window.
        grown: When it was raised last.
        ended: When the last read returned.
        own_s: The program's time between two reads.
        takes_s: The time that a read takes alone.
        each_s: The time that a block takes for each of its reads, beyond that.
        read_nbytes: Memory of a read.
        blocks: Requested reads, in order.
        hits: Reads that were requested ahead.
        waits: How many of them were not there yet.
    """

    selection: Selection
    tensor: str
    shape: Int64Array
    last: int
    number: int
    stride: int = 0
    run: int = 0
    window: int = 0
    pressure: float = 1.0
    grown: float = 0.0
    ended: float = 0.0
    own_s: float = 0.0
    takes_s: float = 0.0
    each_s: float = 0.0
    read_nbytes: int = 1
    blocks: deque[Block] = field(default_factory=deque[Block])
    hits: int = 0
    waits: int = 0

    @property
    def is_known(self) -> bool:
        """Whether it has the reads of a walk."""
        return self.run >= (NEIGHBOURS_MIN if abs(self.stride) == len(self.shape) else EQUAL_MIN)

    @property
    def end(self) -> int:
        """First position that is not requested yet."""
        if not self.blocks:
            return self.last + self.stride
        return self.blocks[-1].first + self.blocks[-1].count * self.stride

    def is_of(self, selection: Selection, tensor: str | None, shape: Int64Array | None) -> bool:
        """Whether a read is one of the same rows, and of the same tensor and shape if given."""
        own = self.selection
        return (
            own.snapshot is selection.snapshot
            and own.rows is selection.rows
            and (tensor is None or self.tensor == tensor)
            and (shape is None or np.array_equal(self.shape, shape))
        )

    def continues_at(self, first: int) -> bool:
        """Whether a read is the next one, or was requested: a program may leave some out."""
        if not self.stride:
            return False
        is_next = first == self.last + self.stride
        is_after = (first - self.last) * self.stride > 0
        return is_next or (
            is_after and any(one.index(first, self.stride) is not None for one in self.blocks)
        )

    def cancel(self) -> None:
        """Cancel what was requested."""
        while self.blocks:
            self.blocks.popleft().future.cancel()


class ReadAhead:
    """The walks of a session's reads. Thread-safe; empty in a forked child.

    Args:
        depth: Reads to request ahead, for measurements; None: as the walks need.
        clock: Seconds.
        submit: Starts a read.
    """

    def __init__(
        self,
        depth: int | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
        submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]] = runtime.submit,
    ) -> None:
        self._depth, self._clock, self._submit = depth, clock, submit
        self._walks: list[Walk] = []  # by their last read
        self._reads = 0
        self._typical = math.inf  # length of the walks that ended
        self._lock = ForkLock()
        self._process = os.getpid()

    def read(
        self, reader: Reads, selection: Selection, tensor: str, positions: Int64Array
    ) -> Column:
        """Read samples as stored: those read ahead, if there are any; and request the next.

        Raises:
            CorruptionError: Stored bytes are damaged; the message names the place.
        """
        is_followed = 0 < len(positions) <= ROWS_MAX and not selection.snapshot.is_staged
        if not is_followed or self._depth == 0:
            return reader.read(tensor, selection.physical(positions), decode=False)
        began, first = self._clock(), int(positions[0])
        with self._lock:
            walk = self._walk(selection, tensor, positions - first, first, began)
            found = self._found(walk, first)
            if walk.is_known:
                self._request(walk, reader)
        column = None if found is None else self._taken(walk, *found)
        if column is None:
            column = reader.read(tensor, selection.physical(positions), decode=False)
            walk.takes_s = _mean(walk.takes_s, self._clock() - began)
            walk.read_nbytes = max(1, nbytes_in_memory(column))
        walk.ended = self._clock()
        return column

    def describe(self, selection: Selection) -> str:
        """Describe the walks through some rows: their windows, and how often these sufficed."""
        with self._lock:
            own = [one for one in self._walks if one.is_known and one.is_of(selection, None, None)]
        return "\n".join(
            f"read ahead of {one.tensor}: {one.window:,} reads at distance {one.stride:+,}"
            f" ({human_nbytes(one.window * one.read_nbytes)}); of {one.hits:,} reads"
            f" {one.hits - one.waits:,} did not wait"
            for one in own
        )

    def clear(self) -> None:
        """Cancel what was requested, and forget the walks."""
        with self._lock:
            for walk in self._walks:
                walk.cancel()
            self._walks.clear()

    # With the lock held

    def _walk(
        self, selection: Selection, tensor: str, shape: Int64Array, first: int, now: float
    ) -> Walk:
        """Return the walk that a read is of: one that it continues, or a new one."""
        if self._process != os.getpid():
            self._process, self._walks = os.getpid(), []  # those of the parent end there
        self._reads += 1
        own = [one for one in self._walks if one.is_of(selection, tensor, shape)]
        walk = next((one for one in reversed(own) if one.continues_at(first)), None)
        if walk is None:
            walk = self._begun(own, Walk(selection, tensor, shape, first, self._reads))
        else:
            self._walks.remove(walk)
            walk.run += (first - walk.last) // walk.stride
            walk.own_s = _mean(walk.own_s, max(0.0, now - walk.ended))
            walk.last, walk.number = first, self._reads
        self._walks.append(walk)
        self._forget()
        return walk

    def _begun(self, own: Sequence[Walk], read: Walk) -> Walk:
        """Return a read as the second of a walk, of its neighbour or of the read before it."""
        points = [one for one in own if not one.stride and one.last != read.last]
        beside = [one for one in points if abs(read.last - one.last) == len(read.shape)]
        if beside:
            walk = beside[-1]
            self._walks.remove(walk)
        elif points:
            self._walks.append(read)  # it may begin another one
            walk = Walk(read.selection, read.tensor, read.shape, points[-1].last, read.number)
            walk.takes_s, walk.ended = points[-1].takes_s, points[-1].ended
        else:
            return read
        walk.stride, walk.run = read.last - walk.last, 1
        walk.last, walk.number = read.last, read.number
        return walk

    def _forget(self) -> None:
        """Forget walks that have ended, and the oldest of other reads."""
        ended = [one for one in self._walks if self._reads - one.number > IDLE_READS]
        others = [one for one in self._walks if not one.is_known and one not in ended]
        for walk in [*ended, *others[:-POINTS_MAX]]:
            self._walks.remove(walk)
            walk.cancel()
            if walk.is_known:
                before = walk.run if math.isinf(self._typical) else self._typical
                self._typical = _mean(before, walk.run)

    def _found(self, walk: Walk, first: int) -> tuple[Block, int] | None:
        """Return the block that has a read, and drop those before it."""
        while walk.blocks:
            index = walk.blocks[0].index(first, walk.stride)
            if index is not None:
                return walk.blocks[0], index
            walk.blocks.popleft().future.cancel()
        return None

    def _request(self, walk: Walk, reader: Reads) -> None:
        """Request reads up to the window, once a block of it has been read."""
        walk.window, is_limited = self._window(walk)
        ahead = (walk.end - walk.last) // walk.stride - 1
        together = max(LEAST, walk.window // 2)  # the first ones come before all others
        if ahead and walk.window - ahead < together:
            return
        low, high = -int(walk.shape.min()), walk.selection.num_rows - int(walk.shape.max())
        while ahead < walk.window:
            first = walk.end
            left = (high - 1 - first if walk.stride > 0 else first - low) // abs(walk.stride) + 1
            count = min(together, walk.window - ahead, left)
            if count <= 0:
                return
            firsts = first + walk.stride * np.arange(count, dtype=np.int64)
            physical = walk.selection.physical((firsts[:, None] + walk.shape).reshape(-1))
            future = self._submit(reader.fetch(walk.tensor, physical))
            block = Block(first, count, future, is_limited=is_limited, clock=self._clock)
            walk.blocks.append(block)
            ahead += count

    def _window(self, walk: Walk) -> tuple[int, bool]:
        """Return the reads to request ahead, and whether more are needed so as not to wait."""
        if self._depth is not None:
            return self._depth, True
        # a block of twice the reads takes longer, and the program is as much longer busy with it
        gained_s = max(walk.own_s - walk.each_s, walk.own_s / GAIN_MAX, SHORTEST_S)
        needed = MARGIN * walk.pressure * walk.takes_s / gained_s
        num_known = sum(one.is_known for one in self._walks)
        allowed = NBYTES_MAX // (num_known * walk.read_nbytes)
        left = abs(self._typical - walk.run)  # of one as long as others, or longer than these
        likely = max(LEAST, min(EARNED * walk.run, left))
        wanted, most = max(needed, COMMON), min(likely, max(1, allowed))
        return int(min(wanted, most)), wanted > most

    # Without the lock

    def _taken(self, walk: Walk, block: Block, index: int) -> Column | None:
        is_late = not block.future.done()
        column = block.result()
        if column is None:
            return None
        if not index:
            more_s = max(block.ended - block.asked - walk.takes_s, 0.0)
            walk.each_s = _mean(walk.each_s, more_s / block.count)
        if is_late:
            walk.waits += 1
            if block.asked > walk.grown and walk.hits and not block.is_limited:
                walk.pressure = min(2 * walk.pressure, PRESSURE_MAX)
                walk.grown = self._clock()
        walk.hits += 1
        count = len(walk.shape)
        return take(column, np.arange(index * count, (index + 1) * count))


def _mean(old: float, new: float) -> float:
    return (1 - NEWEST) * old + NEWEST * new if old else new
