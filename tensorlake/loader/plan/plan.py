"""The access plan: the order of an epoch as a pure function of (selection, order, seed, epoch).

``AccessPlan.positions(start, stop)`` gives, for places start … stop - 1 of the epoch, the
positions in the selection, by arithmetic: O(1) memory, no set-up, any part at any time. It does not
depend on ranks, workers, batches, stores or chunks, which makes sharding, prefetch and exact resume
possible. ``places_of`` is its inverse.

    full     place ─► Feistel permutation ─► position
    window   place ─► permuted inside its window of blocks ─► block slot ─► permuted block
                  ─► rotated by a random amount per epoch ─► position

Invariant: the positions of one epoch are a permutation of 0 … num_rows - 1.
The arithmetic is specified in docs/reference/plan.md. That of a released version never changes:
``Order.version`` names it. Version 1 has a network for each window, version 2 one for all, with the
window's number as a tweak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.loader.plan.shuffle import Permutation, derive_words, permutation_of
from tensorlake.quantities import checked_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.plan.order import Order
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.plan.shuffle import Purpose

__all__ = [
    "SEED_STOP",
    "STREAM_SHIFT",
    "AccessPlan",
    "BlockPlan",
    "Plan",
    "PlanKey",
    "build_access_plan",
    "check_places",
    "deal_by_block",
]

SEED_STOP = 1 << 64
STREAM_SHIFT = 46  # windows, and blocks, of a source over all its epochs: fewer than 2⁴⁶


class Plan(Protocol):
    """The order of one epoch."""

    @property
    def num_rows(self) -> int:
        """Number of places."""
        ...

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position at each of some places."""
        ...

    def deal(self, share: Share) -> NDArray[np.int64]:
        """Return the places of a rank's share of a global batch, ascending."""
        ...


class BlockPlan(Plan, Protocol):
    """A plan of which some rows are read block by block.

    Windows are numbered in streams, ``stream << STREAM_SHIFT`` and on, one for each source; the
    places of a stream go through its windows in ascending order. Blocks have numbers of their own.
    """

    @property
    def reads_blocks(self) -> bool:
        """Whether any row is read with the others of its block."""
        ...

    def windows_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the window of each of some places."""
        ...

    def blocks_of(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the block of each of some places, and the row there."""
        ...


@dataclass(frozen=True, slots=True)
class PlanKey:
    """All inputs of an epoch's order. Equal keys give byte-equal plans on every machine."""

    selection_digest: str
    order: Order
    seed: int
    epoch: int


@dataclass(frozen=True, slots=True)
class AccessPlan:
    """The order of one epoch over ``num_rows`` rows of a selection."""

    key: PlanKey
    num_rows: int

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the selection's positions at places start … stop - 1 of the epoch."""
        return self.at(np.arange(start, stop, dtype=np.int64))

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the selection's position at each of some places of the epoch."""
        if not len(places):
            return places
        check_places(places, self.num_rows)
        order = self.key.order
        match order.kind:
            case "none":
                return places
            case "full":
                return self._permute(self.num_rows, "order").apply(places)
            case "window":
                return self._windowed(places, order)

    def places_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of each of some positions, in any order: the inverse of ``at``."""
        order = self.key.order
        match order.kind:
            case "none":
                return positions
            case "full":
                return self._permute(self.num_rows, "order").inverse(positions)
            case "window":
                return self._places_of(positions, order)

    def deal(self, share: Share) -> NDArray[np.int64]:
        """Return the places of a rank's share of a global batch, ascending.

        In a windowed order the places of a block are given to one rank, so that ranks do not read
        each other's blocks. Those that exceed a rank's part of the batch fill the others.
        """
        return deal_by_block(self, share)

    @property
    def reads_blocks(self) -> bool:
        """Whether rows are read block by block."""
        return self.key.order.reads_blocks

    def windows_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the window of each of some places."""
        return places // (self.key.order.block * self.key.order.window)

    def blocks_of(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the block of each place, numbered in the order of windows, and its row there."""
        return np.divmod(self._slotted(places, self.key.order), self.key.order.block)

    def _windowed(self, places: NDArray[np.int64], order: Order) -> NDArray[np.int64]:
        slots, offsets = np.divmod(self._slotted(places, order), order.block)
        full_blocks = self.num_rows // order.block
        whole = slots < full_blocks  # a short last block keeps its slot; rotation moves it
        blocks = slots.copy()
        blocks[whole] = self._permute(full_blocks, "blocks").apply(slots[whole])
        return (blocks * order.block + offsets + self._rotation) % self.num_rows

    def _places_of(self, positions: NDArray[np.int64], order: Order) -> NDArray[np.int64]:
        blocks, offsets = np.divmod((positions - self._rotation) % self.num_rows, order.block)
        full_blocks = self.num_rows // order.block
        whole = blocks < full_blocks
        slots = blocks.copy()
        slots[whole] = self._permute(full_blocks, "blocks").inverse(blocks[whole])
        return self._slotted(slots * order.block + offsets, order, is_inverse=True)

    @property
    def _rotation(self) -> int:
        key = self.key
        (word,) = derive_words(
            1, seed=key.seed, epoch=key.epoch, purpose="rotation", version=key.order.version
        )
        return word % self.num_rows

    def _slotted(
        self, places: NDArray[np.int64], order: Order, *, is_inverse: bool = False
    ) -> NDArray[np.int64]:
        """Permute places inside their windows, or slots back to places."""
        span = order.block * order.window
        numbers, inside = np.divmod(places, span)
        if order.version == 1:
            return self._by_window(numbers, inside, span, is_inverse=is_inverse)
        slotted = np.empty_like(places)
        full_windows = self.num_rows // span
        for which, size in (
            (numbers < full_windows, span),
            (numbers == full_windows, self.num_rows - full_windows * span),
        ):
            if not which.any():
                continue
            own = self._permute(size, "window")
            permuted = (own.inverse if is_inverse else own.apply)(inside[which], numbers[which])
            slotted[which] = permuted + numbers[which] * span
        return slotted

    def _by_window(
        self,
        numbers: NDArray[np.int64],
        inside: NDArray[np.int64],
        span: int,
        *,
        is_inverse: bool,
    ) -> NDArray[np.int64]:
        """Do so by version 1: a network for each window, one turn for each that has a place."""
        slotted = np.empty_like(inside)
        ranked = np.argsort(numbers, kind="stable")
        borders = np.flatnonzero(np.diff(numbers[ranked])) + 1
        for part in np.split(ranked, borders):
            if not len(part):
                continue
            number = int(numbers[part[0]])
            window_start = number * span
            size = min(span, self.num_rows - window_start)
            own = self._permute(size, "window", number)
            slotted[part] = (own.inverse if is_inverse else own.apply)(inside[part])
            slotted[part] += window_start
        return slotted

    def _permute(self, size: int, purpose: Purpose, stream: int = 0) -> Permutation:
        key = self.key
        return permutation_of(
            size,
            seed=key.seed,
            epoch=key.epoch,
            purpose=purpose,
            stream=stream,
            version=key.order.version,
        )


def build_access_plan(key: PlanKey, num_rows: int) -> AccessPlan:
    """Order positions 0 … num_rows - 1. No I/O, no clock, no global random state, O(1) memory."""
    checked_integer(key.seed, name="seed", most=SEED_STOP - 1)
    checked_integer(key.epoch, name="epoch", most=SEED_STOP - 1)
    return AccessPlan(key, num_rows)


def deal_by_block(plan: BlockPlan, share: Share) -> NDArray[np.int64]:
    """Return the places of a rank's share of a global batch, those of a block to one rank."""
    count, world = share.next_place - share.batch_start, share.world_size
    is_dealt = share.dealt is not None or world == 1 or count < world
    if is_dealt or not plan.reads_blocks:
        return share.places
    places = np.arange(share.batch_start, share.next_place)
    home = plan.blocks_of(places)[0] % world
    ranks = np.arange(world + 1)
    quotas = np.diff(ranks * count // world)
    ranked = np.argsort(home, kind="stable")
    starts = np.searchsorted(home[ranked], ranks[:-1])
    in_rank = np.empty_like(places)
    in_rank[ranked] = np.arange(count) - starts[home[ranked]]
    extra = in_rank >= quotas[home]
    room = quotas - np.bincount(home[~extra], minlength=world)
    home[extra] = np.repeat(ranks[:-1], room)
    return places[home == share.rank]


def check_places(places: NDArray[np.int64], num_rows: int) -> None:
    """Refuse places that are not all within an epoch."""
    first, last = int(places.min()), int(places.max())
    if not 0 <= first <= last < num_rows:
        raise InvalidInputError(
            f"places {first} to {last} are not within an epoch of {num_rows} rows",
            expected=num_rows,
            actual=(first, last),
        )
