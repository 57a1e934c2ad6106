"""Global batches of a budget of tokens, and ranks that have as many of them.

    Borders        as many places as the budget holds: a batch ends before the first that exceeds it
    TokenBatches   those from a place on, and the places of a rank

Where batches begin and end follows from the order, the start and the budget of all ranks together;
which of its places a rank gets also follows from the number of ranks. Costs are the lengths of rows
in the order of places, found block by block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.loader.plan.sharding import Balanced, Sharding, Share
from tensorlake.storage import ForkLock

if TYPE_CHECKING:
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array

__all__ = [
    "Borders",
    "Padding",
    "PlaceLengths",
    "TokenBatches",
]

BLOCK_PLACES = 1 << 16  # looked up together
FIRST_PLACES = 1 << 12  # of the first block; each of the next ones ends at twice as many
BLOCKS_KEPT = 4


class PlaceLengths:
    """The tokens of the row at each place from one on, at least 1.

    Earlier places are never looked up: a mix that resumed from a state may not know them.
    """

    def __init__(self, plan: Plan, lengths: Int64Array, first: int = 0) -> None:
        self._plan = plan
        self._lengths = lengths  # by position
        self._first = first
        self._block = lru_cache(BLOCKS_KEPT)(self._found)

    @cached_property
    def are_equal(self) -> bool:
        """Whether all rows have as many tokens."""
        return not len(self._lengths) or bool((self._lengths == self._lengths[0]).all())

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


class Borders:
    """Where the batches of an epoch begin and end, from a place on, each within a budget of tokens.

    Their numbers of rows are multiples of ``parts``: a batch ends before the first that many rows
    that exceed the budget. Rows at the end of the epoch that are fewer are left out. They are found
    in one pass over the places, block by block, as far as they are asked for.
    """

    def __init__(
        self,
        lengths: PlaceLengths,
        start: int,
        num_rows: int,
        *,
        budget: int,
        padding: Padding | None = None,
        drop_last: bool = False,
        parts: int = 1,
    ) -> None:
        self.lengths = lengths
        self.num_rows = num_rows - max(num_rows - start, 0) % parts  # places of the epoch
        self._parts = parts
        self._budget = budget
        self._padding = padding
        self._drop_last = drop_last
        self._found = array("q", [start])
        self._passed = start  # the places before it are in batches, or in the one that is open
        self._tokens = self._longest = 0  # of the open batch
        self._lock = ForkLock()

    def index(self, start: int) -> int | None:
        """Return the number of the batch that begins at a place; None if none is known to."""
        with self._lock:
            index = bisect_left(self._found, start)
            return index if index < len(self._found) and self._found[index] == start else None

    def until(self, number: int) -> Sequence[int]:
        """Return where the first ``number`` batches begin, and where the last of them ends."""
        with self._lock:
            while len(self._found) <= number and self._found[-1] < self.num_rows:
                self._pass_block()
            return self._found

    def _pass_block(self) -> None:
        block = -(-BLOCK_PLACES // self._parts) * self._parts
        start, stop = self._passed, min(self._passed + block, self.num_rows)
        lengths = self.lengths.between(start, stop)
        if self._padding is None:
            self._add(start, lengths.reshape(-1, self._parts).sum(axis=1).tolist())
        else:
            longest = lengths.reshape(-1, self._parts).max(axis=1)
            self._add_padded(start, self._padding.padded(longest).tolist())
        self._passed = stop
        if stop < self.num_rows:
            return
        rows = stop - self._found[-1]
        held = self._tokens if self._padding is None else self._longest * rows
        if self._drop_last and held < self._budget:
            self.num_rows = self._found[-1]  # the dropped batch is not in the epoch
        else:
            self._found.append(stop)

    def _add(self, start: int, costs: list[int]) -> None:
        budget, tokens, parts = self._budget, self._tokens, self._parts
        for place, cost in zip(count(start, parts), costs, strict=False):
            tokens += cost
            if tokens > budget:
                self._found.append(place)
                tokens = cost
        self._tokens = tokens

    def _add_padded(self, start: int, costs: list[int]) -> None:
        budget, parts, longest = self._budget, self._parts, self._longest
        first = self._found[-1] - parts
        for place, cost in zip(count(start, parts), costs, strict=False):
            longest = max(longest, cost)
            if longest * (place - first) > budget:
                self._found.append(place)
                first, longest = place - parts, cost
        self._longest = longest


@dataclass(frozen=True, eq=False)
class TokenBatches:
    """Batches of as many rows as a budget of tokens holds; each row is within it.

    Attributes:
        sharding: The ranks; its size of a global batch is the budget.
        borders: The borders of batches.
        first: The number among them of the first batch.
        is_endless: Whether the epoch never ends.
        least_rows: Rows that every batch has, except the last.
        balanced: Divides a batch by the costs of its rows; None: by their number.
    """

    sharding: Sharding
    borders: Borders
    first: int = 0
    is_endless: bool = False
    least_rows: int = 1
    balanced: Balanced | None = None

    @property
    def count(self) -> int:
        """Number of batches: found by a pass over the rest of the epoch."""
        num_rows = self.borders.num_rows
        if self.is_endless:
            return num_rows  # more than will be requested
        return len(self.borders.until(num_rows)) - 1 - self.first

    @property
    def needs_padding(self) -> bool:
        """Whether a batch has, or in an endless epoch may have, fewer rows than ranks."""
        world_size = self.sharding.world_size
        if self.is_endless:
            return self.least_rows < world_size
        borders = self.borders.until(self.borders.num_rows)[self.first :]
        return bool((np.diff(borders) < world_size).any())

    def share(self, number: int) -> Share:
        """Return the rank's part of a batch."""
        index = self.first + number
        borders = self.borders.until(index + 1)
        share = self.sharding.part(number, borders[index], borders[index + 1])
        return share if self.balanced is None else self.balanced.of(share, self._between)

    def _between(self, first: int, stop: int) -> Int64Array:
        borders = self.borders.until(self.first + stop)
        return np.array(borders[self.first + first : self.first + stop + 1])

    def stop(self, number: int) -> int:
        """Return the place after a batch; the end of the epoch if there are fewer batches."""
        index = self.first + number + 1
        borders = self.borders.until(index)
        return borders[index] if index < len(borders) else self.borders.num_rows
