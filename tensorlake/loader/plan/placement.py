"""Placement: rows of each global batch go to the ranks whose caches hold them.

    unit      position // rows_per_unit: rows that are cached together
    ring      a fixed permutation of the units: 0 … U - 1
    home      rank h = ring · w // U; its segment begins at start[h] = ceil(h · U / w)
    arc       rank r may cache ring places start[r] … start[r] + capacity · U - 1, around the ring

The set of rows of a global batch stays, and every rank gets as many as without placement, so only
which rank computes which row changes: gradients that are averaged over all ranks are equal. Each
rank works out the ranks of all rows of a batch alone, without communication.

Arcs overlap where ranks together can hold more than there is, so a rank with more rows than its
part passes the first of its segment on to the rank before it, which holds them, too. Rows that no
rank may hold, or that exceed a part, are wild: they fill up the parts, by unit. (After SOLAR, Sun
et al., PVLDB 16(1), 2022; the chain of arcs replaces its assignment of rows to buffers.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.loader.plan.shuffle import Permutation, permutation_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.sharding import Share

__all__ = ["HomeShares", "Homes"]


UNIT_NBYTES = 16 << 20  # the target size of a chunk of media
UNITS = 1 << 12  # at least, of a selection with as many rows: arcs are as exact
PASSES = 2  # around the ring: what the last rank passes on may exceed the first one's part


@dataclass(frozen=True)
class Homes:
    """The ranks that may cache the rows of a selection.

    Attributes:
        num_rows: Rows of the selection.
        capacity: Share of them that one rank can cache, above 0 and at most 1.
        rows_per_unit: Adjacent rows that are cached together.
    """

    num_rows: int
    capacity: float
    rows_per_unit: int

    @classmethod
    def of(cls, num_rows: int, row_nbytes: int, capacity: float) -> Homes:
        """Choose units, from the number and the mean stored size of rows alone."""
        by_size = UNIT_NBYTES // max(row_nbytes, 1)
        return cls(num_rows, capacity, max(1, min(by_size, num_rows // UNITS)))

    @property
    def num_units(self) -> int:
        """Number of units."""
        return -(-self.num_rows // self.rows_per_unit)

    @property
    def arc(self) -> int:
        """Number of units that one rank may cache."""
        return min(int(self.capacity * self.num_units), self.num_units)

    @cached_property
    def _ring(self) -> Permutation:
        # of no epoch and no seed: caches are kept from one to the next
        return permutation_of(self.num_units, seed=0, epoch=0, purpose="home")

    def ring(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ring places of the units of some positions in the selection."""
        return self._ring.apply(positions // self.rows_per_unit)

    def holds(self, rank: int, world_size: int, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows a rank may cache."""
        start = -(-rank * self.num_units // world_size)
        return (self.ring(positions) - start) % self.num_units < self.arc

    def ranks(self, positions: NDArray[np.int64], world_size: int) -> NDArray[np.int64]:
        """Return the rank of each row of a global batch.

        Rank r of w gets (r + 1) · g // w - r · g // w of g rows.
        """
        count, units = len(positions), self.num_units
        ring = self.ring(positions)
        home = ring * world_size // units
        starts = -(-np.arange(world_size) * units // world_size)
        inside = ring - starts[home]
        is_held = inside < self.arc
        before = (starts[home] - starts[home - 1]) % units
        is_shared = is_held & (world_size > 1) & (inside + before < self.arc)
        quotas = np.diff(np.arange(world_size + 1) * count // world_size)
        held = np.bincount(home[is_held], minlength=world_size)
        shared = np.bincount(home[is_shared], minlength=world_size)
        passed = _passed_on(held, shared, quotas)

        # rows that their home holds, by home, those nearest to the arc's start first
        ranks = np.full(count, -1, np.int64)
        own = np.flatnonzero(is_held)
        own = own[np.lexsort((own, inside[own], home[own]))]
        in_home = np.arange(len(own)) - (np.cumsum(held) - held)[home[own]]
        goes_on = in_home < passed[home[own]]
        kept, given = own[~goes_on], own[goes_on]
        receiver = (home[given] - 1) % world_size
        # a rank keeps rows far from its start first: what exceeds its part is wild
        room = quotas.copy()
        _seat(ranks, kept[::-1], home[kept[::-1]], room)
        _seat(ranks, given, receiver, room)
        wild = np.flatnonzero(ranks < 0)
        wild = wild[np.lexsort((wild, ring[wild]))]
        _seat(ranks, wild, home[wild], room)
        ranks[wild[ranks[wild] < 0]] = np.repeat(np.arange(world_size), room)
        return ranks

    def to_json(self) -> dict[str, Any]:
        """Return what a state records."""
        return {"capacity": self.capacity, "rows_per_unit": self.rows_per_unit}


@dataclass(frozen=True, slots=True)
class HomeShares:
    """The shares of ranks in global batches, by the homes of their rows.

    Attributes:
        plan: The plan of the epoch.
        homes: The homes of its rows.
    """

    plan: Plan
    homes: Homes

    def of(self, share: Share, borders: Callable[[int, int], NDArray[np.int64]]) -> Share:
        """Return the share of the same batch with the rows that the rank holds."""
        del borders
        if share.world_size == 1 or share.next_place - share.batch_start < share.world_size:
            return share
        places = np.arange(share.batch_start, share.next_place)
        ranks = self.homes.ranks(self.plan.at(places), share.world_size)
        dealt = places[ranks == share.rank]
        return replace(share, valid=len(dealt), dealt=dealt)


def _passed_on(
    held: NDArray[np.int64], shared: NDArray[np.int64], quotas: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many rows each rank passes on to the one before it."""
    world = len(quotas)
    rows, most, parts = held.tolist(), shared.tolist(), quotas.tolist()
    passed = [0] * world
    for _ in range(PASSES):
        for rank in reversed(range(world)):
            above = rows[rank] + passed[(rank + 1) % world] - parts[rank]
            passed[rank] = min(most[rank], max(0, above))
    return np.array(passed, np.int64)


def _seat(
    ranks: NDArray[np.int64],
    rows: NDArray[np.int64],
    wanted: NDArray[np.int64],
    room: NDArray[np.int64],
) -> None:
    """Give rows, in their order, the ranks that they want while these have room; both in place."""
    order = np.argsort(wanted, kind="stable")
    counts = np.bincount(wanted, minlength=len(room))
    in_rank = np.arange(len(rows)) - (np.cumsum(counts) - counts)[wanted[order]]
    is_seated = order[in_rank < room[wanted[order]]]
    ranks[rows[is_seated]] = wanted[is_seated]
    room -= np.bincount(wanted[is_seated], minlength=len(room))
