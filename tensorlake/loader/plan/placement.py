"""Placement: rows of each global batch go to the ranks whose caches hold them.

    unit      position // rows_per_unit: rows that are cached together
    ring      a fixed permutation of the units: 0 … U - 1
    home      rank h = ring · w // U; its segment begins at start[h] = ceil(h · U / w)
    arc       rank r may cache ring places start[r] … start[r] + capacity · U - 1, around the ring
    mix       a ring for each source, all of one capacity

The set of rows of a global batch stays, and every rank gets as many as without placement, so only
which rank computes which row changes: gradients that are averaged over all ranks are equal. Each
rank works out the ranks of all rows of a batch alone, without communication.

Arcs overlap where ranks together can hold more than there is, so a rank with more rows than its
part passes the first of its segment on to the rank before it, which holds them, too. Rows that no
rank may hold, or that exceed a part, are wild: they fill up the parts, by unit. (After SOLAR, Sun
et al., PVLDB 16(1), 2022; the chain of arcs replaces its assignment of rows to buffers.)

A batch may be of rows, of tokens, or of units of several rows, such as windows: a unit goes where
the row goes that leads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.loader.plan.shuffle import Permutation, permutation_of
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.plan.sharding import Share

__all__ = ["HomeShares", "Homes", "Ring", "leading_rows"]

UNIT_NBYTES = 16 << 20  # the target size of a chunk of media
UNITS = 1 << 12  # at least, of a selection with as many rows: arcs are as exact
EXTENTS = 8  # of rows that are read together, in a unit: an eighth is read with two
EXTENT_UNITS = 64  # at least, where rows are read together
PASSES = 2  # around the ring: what the last rank passes on may exceed the first one's part


@dataclass(frozen=True)
class Ring:
    """The units of a dataset or view, in the order in which ranks cache them.

    Attributes:
        num_rows: Rows of the selection.
        capacity: Share of them that one rank can cache, above 0 and at most 1.
        rows_per_unit: Adjacent rows that are cached together.
    """

    num_rows: int
    capacity: float
    rows_per_unit: int

    @classmethod
    def of(cls, num_rows: int, row_nbytes: int, capacity: float, *, extent: int = 1) -> Ring:
        """Choose units, from the number and the mean stored size of rows alone.

        Args:
            num_rows: Rows of the selection.
            row_nbytes: Mean stored bytes of one.
            capacity: Share of the rows that one rank can cache.
            extent: Adjacent rows that are read together: a unit has several times as many, so that
                few are read with the rows of two units.
        """
        by_size = UNIT_NBYTES // max(row_nbytes, 1)
        together = min(EXTENTS * extent, num_rows // EXTENT_UNITS) if extent > 1 else 1
        return cls(num_rows, capacity, max(1, min(by_size, num_rows // UNITS), together))

    @property
    def num_units(self) -> int:
        """Number of units."""
        return -(-self.num_rows // self.rows_per_unit)

    @property
    def arc(self) -> int:
        """Number of units that one rank may cache."""
        return min(int(self.capacity * self.num_units), self.num_units)

    @cached_property
    def _order(self) -> Permutation:
        # of no epoch and no seed: caches are kept from one to the next
        return permutation_of(self.num_units, seed=0, epoch=0, purpose="home")

    def places(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ring places of the units of some positions in the selection."""
        return self._order.apply(positions // self.rows_per_unit)


@dataclass(frozen=True)
class Homes:
    """The ranks that may cache rows: those of a selection, or of the sources of a mix, end to end.

    Attributes:
        rings: The ring of the selection, or of each source.
    """

    rings: tuple[Ring, ...]

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum([one.num_rows for one in self.rings])

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        """The number of units of each ring, and the length of its arcs."""
        return np.array([(one.num_units, one.arc) for one in self.rings]).T

    @property
    def capacity(self) -> float:
        """Share of the rows that one rank can cache."""
        return self.rings[0].capacity

    def located(self, positions: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64], Any, Any]:
        """Return the ring of each row, its place there, and the units and the arc of that ring."""
        if len(self.rings) == 1:
            (ring,) = self.rings
            return 0, ring.places(positions), ring.num_units, ring.arc
        own = np.searchsorted(self._ends, positions, "right")
        places = np.empty_like(positions)
        for number in distinct(own).tolist():
            is_own, ring = own == number, self.rings[number]
            first = int(self._ends[number]) - ring.num_rows
            places[is_own] = ring.places(positions[is_own] - first)
        units, arcs = self._sizes
        return own, places, units[own], arcs[own]

    def holds(self, rank: int, world_size: int, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows a rank may cache."""
        _, places, units, arcs = self.located(positions)
        start = -(-rank * units // world_size)
        return (places - start) % units < arcs

    def ranks(
        self,
        positions: NDArray[np.int64],
        world_size: int,
        sizes: Sequence[int] | NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Return the rank of each row of a global batch, or of several parts of it, end to end.

        Rank r of w gets (r + 1) · g // w - r · g // w of the g rows of each part.

        Args:
            positions: Those of the rows.
            world_size: Number of ranks.
            sizes: Number of rows of each part; None: there is one.
        """
        counts = np.array([len(positions)] if sizes is None else sizes, np.int64)
        first = np.repeat(np.arange(len(counts)) * world_size, counts)  # the seat of rank 0
        source, ring, units, arcs = self.located(positions)
        home = ring * world_size // units
        inside = ring - -(-home * units // world_size)
        previous = (home - 1) % world_size
        before = (-(-home * units // world_size) - -(-previous * units // world_size)) % units
        is_held = inside < arcs
        is_shared = is_held & (world_size > 1) & (inside + before < arcs)
        nearness = (inside / units, ~is_shared) if len(self.rings) > 1 else (inside,)
        bounds = np.arange(world_size + 1) * counts[:, None] // world_size
        quotas, seats = np.diff(bounds), world_size * len(counts)
        held, shared = (
            np.bincount((first + home)[own], minlength=seats).reshape(quotas.shape)
            for own in (is_held, is_shared)
        )
        passed = _passed_on(held, shared, quotas).ravel()

        # rows that their home holds, by home, those that it shares first, nearest to the arc's
        # start
        ranks = np.full(len(positions), -1, np.int64)
        own = np.flatnonzero(is_held)
        seat = (first + home)[own]
        ranked = np.lexsort((own, *(one[own] for one in nearness), seat))
        own, seat = own[ranked], seat[ranked]
        in_home = np.arange(len(own)) - (np.cumsum(held.ravel()) - held.ravel())[seat]
        goes_on = in_home < passed[seat]
        kept, given = own[~goes_on], own[goes_on]
        # a rank keeps rows far from its start first: what exceeds its part is wild
        room = quotas.ravel().copy()
        _seat(ranks, kept[::-1], (first + home)[kept[::-1]], room)
        _seat(ranks, given, (first + previous)[given], room)
        wild = np.flatnonzero(ranks < 0)
        lists = first * len(self.rings) + source  # of units, that of each source in each part
        wild = wild[np.lexsort((wild, ring[wild], lists[wild]))]
        _seat(ranks, wild, (first + home)[wild], room)
        ranks[wild[ranks[wild] < 0]] = np.repeat(np.arange(seats), room)
        return ranks - first

    def to_json(self) -> dict[str, Any]:
        """Return what a state records."""
        units = [one.rows_per_unit for one in self.rings]
        is_one = len(set(units)) == 1
        return {"capacity": self.capacity, "rows_per_unit": units[0] if is_one else units}


@dataclass(frozen=True, slots=True)
class HomeShares:
    """The shares of ranks in global batches, by the homes of their rows.

    Attributes:
        homes: The homes of rows.
        leads: Returns the position of the row at each of some places; of the one that leads a unit.
    """

    homes: Homes
    leads: Callable[[NDArray[np.int64]], NDArray[np.int64]] = field(compare=False)

    def of(self, share: Share, borders: Callable[[int, int], NDArray[np.int64]]) -> Share:
        """Return the share of the same batch with the rows that the rank holds."""
        del borders
        if share.world_size == 1 or share.next_place - share.batch_start < share.world_size:
            return share
        places = np.arange(share.batch_start, share.next_place)
        ranks = self.homes.ranks(self.leads(places), share.world_size)
        dealt = places[ranks == share.rank]
        return replace(share, valid=len(dealt), dealt=dealt)


def leading_rows(
    rows: NDArray[np.int64],
    members: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    count: int,
) -> NDArray[np.int64]:
    """Return the position of the row that each of some units has most elements of.

    Args:
        rows: Positions of the rows.
        members: The unit of each part, its row among these, and its elements; the first of equal
            parts counts.
        count: Number of units; one without a part is led by position 0.
    """
    units, numbers, sizes = members
    ranked = np.lexsort((-sizes, units))
    found, first = np.unique(units[ranked], return_index=True)
    leads = np.zeros(count, np.int64)
    leads[found] = rows[numbers[ranked[first]]]
    return leads


def _passed_on(
    held: NDArray[np.int64], shared: NDArray[np.int64], quotas: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many rows of each part each rank passes on to the one before it."""
    world, is_one = quotas.shape[1], len(quotas) == 1
    # numbers of one part, and arrays of many: an operation on an array takes as long as ten
    rows, most, parts = (own[0].tolist() if is_one else [*own.T] for own in (held, shared, quotas))
    least: Any = min if is_one else np.minimum
    greatest: Any = max if is_one else np.maximum
    passed: list[Any] = [held[:, 0] * 0] * world if not is_one else [0] * world
    for _ in range(PASSES):
        for rank in reversed(range(world)):
            above = rows[rank] + passed[(rank + 1) % world] - parts[rank]
            passed[rank] = least(most[rank], greatest(0, above))
    return np.array(passed, np.int64).reshape(world, -1).T


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
