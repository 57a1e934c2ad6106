"""Ranks that have as many tokens, or squares of them, of each global batch.

    lengths of the places of some batches ─► costs [batch, row] ─► the rank of each row
                                          ─► the places of one rank, batch by batch

Which places of its batch a rank gets follows from their costs and the number of ranks alone. Each
rank works out the places of all; batches are dealt many at a time, as one array, because the rows
of a single batch can only be dealt one after another.

Where rows also have homes (``plan/placement.py``), each round of as many rows as there are ranks,
next to each other by cost, is dealt by these. Any way to deal a round bounds the differences alike.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.loader.plan.placement import Homes, HomeShares
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.plan.token_batches import PlaceLengths

__all__ = ["Balance", "BalancedShares", "deal_at_home", "deal_evenly"]

Balance = Literal["tokens", "squares"]
DEALT_PLACES = 1 << 16  # of batches that are dealt together: 0.1 µs a row, where one takes 1 µs
LEAST_BATCHES = 16  # dealt together by tokens, where each step is for one row of each batch
MOST_PLACES = 1 << 20  # of an array of costs, where a few batches have many more rows than others
WORD_BITS = 62  # of the integers that are sorted


class BalancedShares:
    """The shares of ranks in global batches, by the costs of their rows.

    Args:
        lengths: The tokens of the row at each place.
        balance: The quantity that ranks get equal sums of.
        equal_rows: Whether the ranks' numbers of rows differ by at most one.
        rows_per_batch: About as many rows as a global batch has.
        placed: The shares by the homes of rows, which decide among rows of nearly equal costs; the
            ranks' numbers of rows then differ by at most one.
    """

    def __init__(
        self,
        lengths: PlaceLengths,
        balance: Balance,
        *,
        equal_rows: bool,
        rows_per_batch: int,
        placed: HomeShares | None = None,
    ) -> None:
        self._lengths = lengths
        self._balance = balance
        self._equal_rows = equal_rows
        self._placed = placed
        together = DEALT_PLACES // max(rows_per_batch, 1)
        least = 1 if equal_rows or placed is not None else LEAST_BATCHES
        most = max(MOST_PLACES // max(rows_per_batch, 1), 1)
        self._batches = min(max(together, least), most)
        self._dealt = lru_cache(2)(self._deal)

    @property
    def homes(self) -> Homes | None:
        """The homes of rows, if they have any."""
        return None if self._placed is None else self._placed.homes

    def of(self, share: Share, borders: Callable[[int, int], Int64Array]) -> Share:
        """Return the share of the same batch that balances the costs of all ranks."""
        count = share.next_place - share.batch_start
        if share.world_size == 1 or count < share.world_size:
            return share
        if self._lengths.are_equal and self._placed is not None:
            return self._placed.of(share, borders)
        if self._lengths.are_equal:  # what dealing comes to, without looking the rows up
            places = np.arange(share.batch_start + share.rank, share.next_place, share.world_size)
        else:
            group, number = divmod(share.number, self._batches)
            places = self._dealt(group, share.rank, share.world_size, borders)[number]
        return replace(share, valid=len(places), dealt=places)

    def _deal(
        self, group: int, rank: int, world_size: int, borders: Callable[[int, int], Int64Array]
    ) -> list[Int64Array]:
        """Return the rank's places of the batches of a group."""
        found = borders(group * self._batches, (group + 1) * self._batches)
        starts, sizes = found[:-1], np.diff(found)
        lengths = self._lengths.between(int(found[0]), int(found[-1]))
        leads = np.empty(0, np.int64)
        if self._placed is not None:
            leads = self._placed.leads(np.arange(found[0], found[-1]))
        places: list[Int64Array] = []
        together = max(MOST_PLACES // int(sizes.max()), 1)
        for at in range(0, len(starts), together):
            own, begins = sizes[at : at + together], starts[at : at + together]
            held = np.arange(own.max()) < own[:, None]
            costs = np.zeros(held.shape, np.int64)
            first = int(begins[0] - found[0])
            part = slice(first, first + int(own.sum()))
            costs[held] = lengths[part]
            if self._balance == "squares":
                costs = _squared(costs)
            if self._placed is None:
                ranks = deal_evenly(costs, world_size, equal_rows=self._equal_rows)
            else:
                ranks = deal_at_home(costs, leads[part], world_size, self._placed.homes)
            batches, rows = np.nonzero((ranks == rank) & held)
            ends = np.searchsorted(batches, np.arange(1, len(own)))
            places += np.split(rows + begins[batches], ends)
        return places


def deal_evenly(costs: Int64Array, world_size: int, *, equal_rows: bool) -> Int64Array:
    """Return the rank of each row of some batches, so that the ranks' sums of costs are close.

    With equal rows each rank gets one of the most expensive, then one of the next ones, and so on,
    the more expensive the less it has: two sums differ by at most the difference of the largest and
    the smallest cost. Otherwise the next most expensive row goes to the rank that has least: the
    rule of longest processing time (Graham, "Bounds on multiprocessing timing anomalies", 1969).

    Args:
        costs: The costs [batch, row] of at least ``world_size`` rows of each batch, each at least
            1; 0 after the last row of a batch that has fewer.
        world_size: Number of ranks.
        equal_rows: Whether the ranks' numbers of rows differ by at most one.
    """
    keys, bits = _sorted_by_cost(costs, world_size)
    deal = _deal_rounds if equal_rows else _deal_singly
    ranks = np.empty(costs.shape, np.int64)
    np.put_along_axis(ranks, _low_bits(keys, bits), deal(-(keys >> bits), world_size, bits), axis=1)
    return ranks


def deal_at_home(
    costs: Int64Array, positions: Int64Array, world_size: int, homes: Homes
) -> Int64Array:
    """Return the rank of each row of some batches: rows of nearly equal costs by their homes.

    Each round of the most expensive rows, then of the next ones, is dealt by homes, one to each
    rank. So two sums of costs differ by at most the difference of the largest and the smallest
    cost, as with `deal_evenly`, and the numbers of rows by at most one.

    Args:
        costs: As for `deal_evenly`.
        positions: The position of each row, batch after batch.
        world_size: Number of ranks.
        homes: The homes of rows.
    """
    keys, bits = _sorted_by_cost(costs, world_size)
    counts = (costs > 0).sum(axis=1)
    held = np.arange(costs.shape[1]) < counts[:, None]
    starts = np.cumsum(counts) - counts
    ranked = _low_bits(keys, bits)
    rounds = -(-counts // world_size)
    within = np.arange(int(rounds.sum())) - np.repeat(np.cumsum(rounds) - rounds, rounds)
    sizes = np.minimum(np.repeat(counts, rounds) - within * world_size, world_size)
    dealt = np.zeros(costs.shape, np.int64)
    dealt[held] = homes.ranks(positions[(starts[:, None] + ranked)[held]], world_size, sizes)
    ranks = np.empty(costs.shape, np.int64)
    np.put_along_axis(ranks, ranked, dealt, axis=1)
    return ranks


def _sorted_by_cost(costs: Int64Array, world_size: int) -> tuple[Int64Array, int]:
    """Return the rows of each batch, the most expensive first, and the bits of their numbers.

    A key has minus the cost, then in its lowest bits the row.
    """
    batches, rows = costs.shape
    bits = max((rows - 1).bit_length(), (world_size * batches - 1).bit_length())
    if int(costs.max()) * rows >> (WORD_BITS - bits):
        costs = costs.astype(object)  # integers of Python, of any size
    keys = (-costs << bits) + np.arange(rows)  # the most expensive first, then by place
    keys.sort(axis=1)
    return keys, bits


def _deal_rounds(costs: Int64Array, world_size: int, bits: int) -> Int64Array:
    """Deal rows in the order of their costs, one to each rank in every round."""
    batches, rows = costs.shape
    rounds = -(-rows // world_size)
    added = np.zeros((batches, rounds * world_size), costs.dtype)
    added[:, :rows] = costs << bits
    added = added.reshape(batches, rounds, world_size).swapaxes(0, 1).copy()
    sums = np.tile(np.arange(world_size).astype(costs.dtype), (batches, 1))  # and the rank, below
    dealt = np.empty_like(added)
    for given, cost in zip(dealt, added, strict=True):
        sums.sort(axis=1)
        given[...] = sums
        sums += cost
    return _low_bits(dealt, bits).swapaxes(0, 1).reshape(batches, -1)[:, :rows]


def _deal_singly(costs: Int64Array, world_size: int, bits: int) -> Int64Array:
    """Deal rows in the order of their costs, each to the rank that has least."""
    batches, rows = costs.shape
    added = costs.T.copy() << bits
    sums = np.arange(world_size * batches).astype(costs.dtype)  # and where each sum is, below
    by_rank = sums.reshape(world_size, batches)
    dealt = np.empty((rows, batches), np.int64)
    for given, cost in zip(dealt, added, strict=True):
        least = by_rank.min(axis=0)
        given[...] = _low_bits(least, bits)
        sums[given] = least + cost
    return dealt.T // batches


def _low_bits(keys: Int64Array, bits: int) -> Int64Array:
    return (keys & ((1 << bits) - 1)).astype(np.int64, copy=False)


def _squared(lengths: Int64Array) -> Int64Array:
    is_large = int(lengths.max()).bit_length() * 2 > WORD_BITS
    exact = lengths.astype(object) if is_large else lengths
    return exact * exact
