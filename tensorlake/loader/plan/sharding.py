"""Division of the order: global batches, and each rank's share of them.

    places of the epoch   start ┃ G ┃ G ┃ G ┃ … ┃ short ┃ num_rows
    global batch k        places [start + kG, start + (k+1)G)
    rank r of w           the contiguous [rg/w, (r+1)g/w) of a batch of g places; in a windowed
                          order as many places, dealt by block (``AccessPlan.deal``)

Every rank yields the same number of batches. A short last batch is dropped or split evenly; if it
is smaller than the world, empty ranks repeat one of its rows, marked as not valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, ShortBatchWarning, shown
from tensorlake.quantities import checked_integer

__all__ = [
    "Balanced",
    "Batches",
    "RowBatches",
    "Sharding",
    "Share",
    "ShortBatchWarning",
    "check_batch_size",
    "global_batch_size_of",
]


@dataclass(frozen=True, slots=True)
class Share:
    """One rank's part of a global batch: places [start, stop), and the number of valid ones.

    A plan that deals places gives the rank as many others of the batch; ``dealt`` are the places of
    a batch that is balanced, which replace these.
    """

    number: int
    start: int
    stop: int
    valid: int  # 0 for a repeated row, else stop - start
    next_place: int  # where the order continues after the whole global batch
    batch_start: int = 0  # of the whole global batch
    rank: int = 0
    world_size: int = 1
    dealt: NDArray[np.int64] | None = None  # ascending

    @property
    def places(self) -> NDArray[np.int64]:
        """Its places: contiguous, unless they were dealt."""
        return np.arange(self.start, self.stop) if self.dealt is None else self.dealt

    def __len__(self) -> int:
        return self.stop - self.start if self.dealt is None else len(self.dealt)


@dataclass(frozen=True, slots=True)
class Sharding:
    """The mapping from places to batches, for one rank of a world."""

    rank: int
    world_size: int
    global_batch_size: int
    drop_last: bool = False
    equal_parts: int = 1  # of each global batch, as required by a sharding

    def __post_init__(self) -> None:
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise InvalidInputError(
                f"rank {shown(self.rank)} is not one of world_size {shown(self.world_size)}"
                "\ngive rank=0 … world_size - 1",
                expected=self.world_size,
                actual=self.rank,
            )
        if self.global_batch_size < self.world_size:
            raise InvalidInputError(
                f"a global batch of {shown(self.global_batch_size)} rows cannot give each of"
                f" {self.world_size} ranks a row\nraise batch_size or global_batch_size",
                expected=self.world_size,
                actual=self.global_batch_size,
            )
        if self.global_batch_size % self.equal_parts:
            raise InvalidInputError(
                f"a global batch of {self.global_batch_size} rows cannot be divided into"
                f" {self.equal_parts} equal parts, as sharding= requires"
                f"\nmake it a multiple of {self.equal_parts}",
                expected=self.equal_parts,
                actual=self.global_batch_size,
            )

    def check_last(self, num_rows: int, start: int = 0) -> None:
        """Refuse a short last batch that cannot be divided into equal parts.

        Raises:
            InvalidInputError: There is such a batch.
        """
        rest = max(num_rows - start, 0) % self.global_batch_size
        if not self.drop_last and rest % self.equal_parts:
            raise InvalidInputError(
                f"the last global batch would have {rest} rows, which cannot be divided into"
                f" {self.equal_parts} equal parts, as sharding= requires"
                "\nleave it out: drop_last=True",
                expected=self.equal_parts,
                actual=rest,
            )

    def num_batches(self, num_rows: int, start: int = 0) -> int:
        """Return the number of batches from place ``start`` on, the same on every rank."""
        rows = max(num_rows - start, 0)
        whole, rest = divmod(rows, self.global_batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def needs_padding(self, num_rows: int, start: int = 0) -> bool:
        """Whether the last batch from ``start`` on has fewer rows than there are ranks."""
        rest = max(num_rows - start, 0) % self.global_batch_size
        return not self.drop_last and 0 < rest < self.world_size

    def share(self, number: int, num_rows: int, start: int = 0) -> Share:
        """Return this rank's part of batch ``number``, counted from place ``start``."""
        batch_start = start + number * self.global_batch_size
        batch_stop = min(batch_start + self.global_batch_size, num_rows)
        return self.part(number, batch_start, batch_stop)

    def part(self, number: int, batch_start: int, batch_stop: int) -> Share:
        """Return this rank's part of the batch of some places."""
        rows = batch_stop - batch_start
        first = batch_start + self.rank * rows // self.world_size
        last = batch_start + (self.rank + 1) * rows // self.world_size
        if first < last:
            valid = last - first
        else:
            first = batch_start + self.rank % rows
            last, valid = first + 1, 0
        whole = batch_stop, batch_start, self.rank, self.world_size
        return Share(number, first, last, valid, *whole)


class Balanced(Protocol):
    """Divides batches by the costs of their rows, or by the caches that have them."""

    def of(self, share: Share, borders: Callable[[int, int], NDArray[np.int64]]) -> Share:
        """Return the rank's share of the same batch.

        Args:
            share: The share of as many rows.
            borders: Returns where batches first … stop - 1 begin, as far as there are such, and
                where the last of them ends.
        """
        ...


class Batches(Protocol):
    """The global batches from a place of an epoch on, and one rank's share of each."""

    @property
    def count(self) -> int:
        """Number of batches, the same on every rank."""
        ...

    @property
    def needs_padding(self) -> bool:
        """Whether a batch has fewer rows than there are ranks."""
        ...

    def share(self, number: int) -> Share:
        """Return the rank's part of a batch."""
        ...

    def stop(self, number: int) -> int:
        """Return the place after a batch, or after the last if there are fewer."""
        ...


@dataclass(frozen=True, slots=True)
class RowBatches:
    """Batches of a number of rows."""

    sharding: Sharding
    num_rows: int
    start: int = 0
    is_endless: bool = False
    balanced: Balanced | None = None

    @property
    def count(self) -> int:
        """Number of batches."""
        return self.sharding.num_batches(self.num_rows, self.start)

    @property
    def needs_padding(self) -> bool:
        """Whether the last batch has fewer rows than there are ranks."""
        return not self.is_endless and self.sharding.needs_padding(self.num_rows, self.start)

    def share(self, number: int) -> Share:
        """Return the rank's part of a batch."""
        share = self.sharding.share(number, self.num_rows, self.start)
        return share if self.balanced is None else self.balanced.of(share, self._between)

    def stop(self, number: int) -> int:
        """Return the place after a batch."""
        return min(self.start + (number + 1) * self.sharding.global_batch_size, self.num_rows)

    def _between(self, first: int, stop: int) -> NDArray[np.int64]:
        starts = self.start + np.arange(first, stop + 1) * self.sharding.global_batch_size
        count = int(np.searchsorted(starts, self.num_rows))
        return np.append(starts[:count], self.num_rows) if count <= stop - first else starts


def check_batch_size(batch_size: int | None, global_batch_size: int | None) -> None:
    """Refuse batch sizes that are impossible for any number of ranks.

    Raises:
        InvalidInputError: Neither is given, one is below 1, or one is not a multiple of the other.
    """
    for name, value in (("batch_size", batch_size), ("global_batch_size", global_batch_size)):
        if value is not None:
            checked_integer(value, name=name, least=1)
    if global_batch_size is None and batch_size is None:
        raise InvalidInputError("no batch size is given\nadd batch_size= (rows per rank)")
    if batch_size is not None and global_batch_size is not None and global_batch_size % batch_size:
        raise InvalidInputError(
            f"global_batch_size={global_batch_size} is not a multiple of"
            f" batch_size={batch_size}\ngive one of the two",
            expected=global_batch_size,
            actual=batch_size,
        )


def global_batch_size_of(
    batch_size: int | None, global_batch_size: int | None, world_size: int
) -> int:
    """Combine the two ways to give the batch size, both checked.

    Raises:
        InvalidInputError: The two disagree on this number of ranks.
    """
    if global_batch_size is None:
        assert batch_size is not None, "check_batch_size() found one"
        return batch_size * world_size
    if batch_size is not None and batch_size * world_size != global_batch_size:
        raise InvalidInputError(
            f"batch_size={batch_size} on {world_size} ranks is {batch_size * world_size} rows,"
            f" but global_batch_size={global_batch_size}\ngive one of the two",
            expected=global_batch_size,
            actual=batch_size * world_size,
        )
    return global_batch_size
