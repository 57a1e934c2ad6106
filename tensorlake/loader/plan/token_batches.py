"""Global batches of a budget of tokens, and ranks that have as many of them.

    TokenBatches   as many places as the budget holds: a batch ends before the first that exceeds it
    balanced       a rank gets places of its batch by their cost, so that all ranks have as much

Where batches begin and end follows from the order, the start and the budget of all ranks together;
which of its places a rank gets also follows from the number of ranks. Costs are the lengths of rows
in the order of places, found block by block.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Literal

import numpy as np

from tensorlake.loader.plan.sharding import Sharding, Share

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array

__all__ = [
    "Balance",
    "Padding",
    "PlaceLengths",
    "TokenBatches",
    "balanced",
    "deal_evenly",
]

Balance = Literal["tokens", "squares"]
BLOCK_PLACES = 1 << 16  # looked up together
FIRST_PLACES = 1 << 12  # of the first block; each of the next ones ends at twice as many
BLOCKS_KEPT = 4
FIRST_GUESS = 64  # rows of a batch


class PlaceLengths:
    """The tokens of the row at each place from one on, at least 1.

    Earlier places are never looked up: a mix that resumed from a state may not know them.
    """

    def __init__(self, plan: Plan, lengths: Int64Array, first: int = 0) -> None:
        self._plan = plan
        self._lengths = lengths  # by position
        self._first = first
        self._block = lru_cache(BLOCKS_KEPT)(self._found)

    def between(self, start: int, stop: int) -> Int64Array:
        """Return those of places start … stop - 1."""
        if start == stop:
            return np.empty(0, np.int64)
        begin = block = _block_start(start - self._first)
        found: list[Int64Array] = []
        while block < stop - self._first:
            found.append(self._block(block))
            block += _block_places(block)
        return np.concatenate(found)[start - self._first - begin :][: stop - start]

    def _found(self, block: int) -> Int64Array:
        start = self._first + block
        places = np.arange(start, min(start + _block_places(block), self._plan.num_rows))
        return self._lengths[self._plan.at(places)]


def _block_start(place: int) -> int:
    """Return where the block of a place begins, both counted from the first place."""
    if place < FIRST_PLACES:
        return 0
    if place < BLOCK_PLACES:
        return 1 << (place.bit_length() - 1)
    return place // BLOCK_PLACES * BLOCK_PLACES


def _block_places(start: int) -> int:
    """Return the places of the block that begins at one."""
    return min(start or FIRST_PLACES, BLOCK_PLACES)


@dataclass(frozen=True, slots=True)
class Padding:
    """How rows of a batch get one length: that of the longest, rounded up, or ``to``."""

    multiple_of: int = 1
    to: int | None = None

    def padded(self, lengths: Int64Array) -> Int64Array:
        """Return the lengths to which rows are padded if they are the longest."""
        if self.to is not None:
            return np.full_like(lengths, self.to)
        return -(-lengths // self.multiple_of) * self.multiple_of

    def longest_within(self, budget: int) -> int:
        """Return the longest row that costs at most a budget by itself; 0 if none does."""
        if self.to is not None:
            return self.to if self.to <= budget else 0
        return budget // self.multiple_of * self.multiple_of


@dataclass(eq=False)
class TokenBatches:
    """Batches of as many rows as a budget of tokens holds; each row is within it.

    Attributes:
        sharding: The ranks; its size of a global batch is the budget.
        lengths: The tokens of places.
        num_rows: Places of the epoch.
        start: The first place.
        padding: Rows cost what the longest of their batch does, if they are padded.
        is_endless: Whether the epoch never ends.
        least_rows: Rows that every batch has, except the last.
        deal: Divides a batch by balance.
    """

    sharding: Sharding
    lengths: PlaceLengths
    num_rows: int
    start: int = 0
    padding: Padding | None = None
    is_endless: bool = False
    least_rows: int = 1
    deal: Callable[[Share], Share] | None = None
    _borders: array[int] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._borders = array("q", [self.start])

    @property
    def count(self) -> int:
        """Number of batches: found by a pass over the rest of the epoch."""
        if self.is_endless:
            return self.num_rows  # more than will be requested
        return len(self._until(self.num_rows)) - 1

    @property
    def needs_padding(self) -> bool:
        """Whether a batch has, or in an endless epoch may have, fewer rows than ranks."""
        if self.least_rows >= self.sharding.world_size and self.is_endless:
            return False
        if self.is_endless:
            return True
        borders = self._until(self.num_rows)
        return bool((np.diff(borders) < self.sharding.world_size).any())

    def share(self, number: int) -> Share:
        """Return the rank's part of a batch."""
        start, stop = self._until(number + 1)[number : number + 2]
        share = self.sharding.part(number, start, stop)
        return share if self.deal is None else self.deal(share)

    def stop(self, number: int) -> int:
        """Return the place after a batch; the end of the epoch if there are fewer batches."""
        borders = self._until(number + 1)
        return borders[number + 1] if number + 1 < len(borders) else self.num_rows

    def _until(self, number: int) -> Sequence[int]:
        """Return where the first ``number`` batches begin, and where the last of them ends."""
        borders = self._borders
        with self._lock:
            while len(borders) <= number and borders[-1] < self.num_rows:
                guess = 2 * (borders[-1] - borders[-2]) if len(borders) > 1 else FIRST_GUESS
                stop = self._next(borders[-1], guess)
                if stop is None:
                    self.num_rows = borders[-1]  # the dropped batch is not in the epoch
                    break
                borders.append(stop)
        return borders

    def _next(self, start: int, guess: int) -> int | None:
        """Return where the batch from a place on ends; None if it is short and dropped."""
        while True:
            stop = min(start + guess, self.num_rows)
            costs = self._costs(self.lengths.between(start, stop))
            budget = self.sharding.global_batch_size
            rows = int(np.searchsorted(costs, budget, "right"))
            if rows < len(costs):
                return start + rows
            if stop == self.num_rows:
                is_short = costs[-1] < budget
                return None if is_short and self.sharding.drop_last else stop
            guess *= 2

    def _costs(self, lengths: Int64Array) -> Int64Array:
        """Return what the first row costs, the first two, and so on: ascending."""
        if self.padding is None:
            return np.cumsum(lengths)
        longest = np.maximum.accumulate(self.padding.padded(lengths))
        return longest * np.arange(1, len(lengths) + 1)


def deal_evenly(costs: Int64Array, world_size: int, *, equal_rows: bool) -> Int64Array:
    """Return the rank of each of some rows, so that the ranks' sums of costs are close.

    With equal rows each rank gets one of the most expensive, then one of the next ones, and so on,
    the more expensive the less it has: two sums differ by at most the difference of the largest and
    the smallest cost. Otherwise the next most expensive row goes to the rank that has least.

    Args:
        costs: The costs of at least ``world_size`` rows, each at least 1.
        world_size: Number of ranks.
        equal_rows: Whether the ranks' numbers of rows differ by at most one.
    """
    ranked = np.argsort(-costs, kind="stable")
    ranks = np.empty(len(costs), dtype=np.int64)
    if equal_rows:
        sums = np.zeros(world_size, dtype=np.int64)
        for start in range(0, len(costs), world_size):
            rows = ranked[start : start + world_size]
            least = np.argsort(sums, kind="stable")[: len(rows)]
            ranks[rows] = least
            sums[least] += costs[rows]
        return ranks
    heap = [(0, rank) for rank in range(world_size)]
    heapify(heap)
    for row, cost in zip(ranked.tolist(), costs[ranked].tolist(), strict=True):
        had, rank = heap[0]
        ranks[row] = rank
        heapreplace(heap, (had + cost, rank))
    return ranks


def balanced(share: Share, lengths: PlaceLengths, balance: Balance, *, equal_rows: bool) -> Share:
    """Return the share of the same batch that balances the costs of all ranks."""
    count = share.next_place - share.batch_start
    if share.world_size == 1 or count < share.world_size:
        return share
    costs = lengths.between(share.batch_start, share.next_place)
    if balance == "squares":
        costs = costs * costs
    ranks = deal_evenly(costs, share.world_size, equal_rows=equal_rows)
    places = share.batch_start + np.flatnonzero(ranks == share.rank)
    return replace(share, valid=len(places), dealt=places)
