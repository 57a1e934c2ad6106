"""The access plan: the order of an epoch as a pure function of (selection, order, seed, epoch).

``AccessPlan.positions(start, stop)`` gives, for places start … stop - 1 of the epoch, the
positions in the selection, by arithmetic: O(1) memory, no set-up, any part at any time. It does not
depend on ranks, workers, batches, stores or chunks, which makes sharding, prefetch and exact resume
possible.

    full     place ─► Feistel permutation ─► position
    window   place ─► permuted inside its window of blocks ─► block slot ─► permuted block
                  ─► rotated by a random amount per epoch ─► position

Invariant: the positions of one epoch are a permutation of 0 … num_rows - 1.
The arithmetic is specified in docs/reference/plan.md and changes only with ``PLAN_VERSION``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.shuffle import MAX_SIZE, Permutation, derive_words, permutation_of
from tensorlake.quantities import checked_integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = [
    "PLAN_VERSION",
    "SEED_STOP",
    "AccessPlan",
    "Order",
    "Plan",
    "PlanKey",
    "Shuffle",
    "build_access_plan",
    "check_places",
    "choose_order",
]

PLAN_VERSION = 1
SEED_STOP = 1 << 64
FULL_NBYTES = 2 << 30  # a selection up to this size fits the memory of a training machine
FULL_ROW_NBYTES = 1 << 20  # a row of this size is read alone as efficiently as with its neighbours
BLOCK_NBYTES = 2 << 20  # with 16 requests in flight, past the break-even of a ranged read
WINDOW_NBYTES = 128 << 20  # two windows, one in use and one in flight, are the prefetch's 256 MiB

Shuffle = bool | Literal["full", "window"]


class Plan(Protocol):
    """The order of one epoch."""

    @property
    def num_rows(self) -> int:
        """Number of places."""
        ...

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position at each of some ascending places."""
        ...


@dataclass(frozen=True, slots=True)
class Order:
    """The order of an epoch; ``block`` (rows) and ``window`` (blocks) are 0 unless windowed."""

    kind: Literal["none", "full", "window"]
    block: int = 0
    window: int = 0

    @property
    def is_shuffled(self) -> bool:
        """Whether rows are not in the selection's order."""
        return self.kind != "none"

    def describe(self) -> str:
        """Describe the order of rows in a few words."""
        match self.kind:
            case "none":
                return "as selected"
            case "full":
                return "full shuffle"
            case "window":
                return f"shuffled in windows of {self.window} blocks of {self.block} rows"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members of this order, as recorded in a state."""
        if self.kind != "window":
            return {"kind": self.kind}
        return {"kind": self.kind, "block": self.block, "window": self.window}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Order:
        """Parse the result of ``to_json``."""
        kind = value.get("kind")
        if kind == "none" or kind == "full":  # noqa: PLR1714 - the type checker narrows by ==
            return cls(kind)
        block, window = value.get("block"), value.get("window")
        if (
            kind == "window"
            and isinstance(block, int)
            and isinstance(window, int)
            and 0 < min(block, window) <= max(block, window) <= MAX_SIZE
        ):
            return cls("window", block, window)
        raise InvalidInputError(
            f"{shown(dict(value))} is not an order; the kinds are 'none', 'full' and 'window'"
            "\nthe state was damaged, or written by a newer tensorlake",
            actual=dict(value),
        )


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
        """Return the selection's position at each of some ascending places of the epoch."""
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
                return self._windowed(places, order.block, order.window)

    def _windowed(self, places: NDArray[np.int64], block: int, window: int) -> NDArray[np.int64]:
        span = block * window
        slotted = np.empty_like(places)
        start = 0
        while start < len(
            places
        ):  # one turn per window that contains a place, regardless of distance
            number = int(places[start]) // span
            window_start = number * span
            window_stop = min(window_start + span, self.num_rows)
            stop = int(np.searchsorted(places, window_stop))
            shuffled = self._permute(window_stop - window_start, "window", number)
            inside = shuffled.apply(places[start:stop] - window_start)
            slotted[start:stop] = inside + window_start
            start = stop
        slots, offsets = np.divmod(slotted, block)
        full_blocks = self.num_rows // block  # a short last block keeps its slot; rotation moves it
        whole = slots < full_blocks
        blocks = slots.copy()
        blocks[whole] = self._permute(full_blocks, "blocks").apply(slots[whole])
        key = self.key
        (word,) = derive_words(1, seed=key.seed, epoch=key.epoch, purpose="rotation")
        return (blocks * block + offsets + word % self.num_rows) % self.num_rows

    def _permute(
        self, size: int, purpose: Literal["order", "blocks", "window"], stream: int = 0
    ) -> Permutation:
        key = self.key
        return permutation_of(size, seed=key.seed, epoch=key.epoch, purpose=purpose, stream=stream)


def build_access_plan(key: PlanKey, num_rows: int) -> AccessPlan:
    """Order positions 0 … num_rows - 1. No I/O, no clock, no global random state, O(1) memory."""
    checked_integer(key.seed, name="seed", most=SEED_STOP - 1)
    checked_integer(key.epoch, name="epoch", most=SEED_STOP - 1)
    return AccessPlan(key, num_rows)


def check_places(places: NDArray[np.int64], num_rows: int) -> None:
    """Refuse ascending places that are not all within an epoch."""
    first, last = int(places[0]), int(places[-1])
    if not 0 <= first <= last < num_rows:
        raise InvalidInputError(
            f"places {first} to {last} are not within an epoch of {num_rows} rows",
            expected=num_rows,
            actual=(first, last),
        )


def choose_order(shuffle: Shuffle, *, num_rows: int, row_nbytes: int) -> Order:
    """Turn ``shuffle`` into an order, from the number of rows and stored bytes per row alone.

    ``True`` is "full" for selections that fit in memory, or whose rows are large enough to read
    individually, and "window" otherwise. Machine, store and cache do not matter: every rank must
    choose alike.
    """
    if shuffle is False:
        return Order("none")
    row_nbytes = max(row_nbytes, 1)
    if shuffle is True:
        is_small = num_rows * row_nbytes <= FULL_NBYTES
        shuffle = "full" if is_small or row_nbytes >= FULL_ROW_NBYTES else "window"
    if shuffle == "full":
        return Order("full")
    if shuffle != "window":
        raise InvalidInputError(
            f"shuffle is True, False, 'full' or 'window', got {shown(shuffle)}", actual=shuffle
        )
    block = max(1, BLOCK_NBYTES // row_nbytes)
    return Order("window", block, max(1, WINDOW_NBYTES // (block * row_nbytes)))
