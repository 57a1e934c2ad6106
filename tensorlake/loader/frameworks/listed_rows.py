"""Rows in the batches that a request lists, for a server that decodes them.

    request   for each batch: the place after it, the places of its rows, their positions
    server    the same places and positions: as rows, plan and batches of one pass

The order is the client's, whatever it is made of: weights, groups, tokens, windows. A place comes
with each row because random steps draw by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.sharding import Share

if TYPE_CHECKING:
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.order import Shuffle
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array, Reader, Selection
    from tensorlake.loader.plan.state import LoaderState, Place
    from tensorlake.loader.plan.virtual_columns import VirtualColumn
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["ListedBatch", "ListedRows"]


@dataclass(frozen=True, slots=True, eq=False)
class ListedBatch:
    """The rows of a batch, as a client's plan lists them.

    Attributes:
        stop: The place of the order after the batch, for the client.
        places: The place of each row: random steps draw by it.
        positions: Its position in the selection.
        is_valid: Whether the rows count; not those that a rank without rows repeats.
    """

    stop: int
    places: Int64Array
    positions: Int64Array
    is_valid: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ListedRows:
    """Rows of a selection in batches that a request lists (``OrderedRows``, and their plan)."""

    rows: SelectedRows
    listed: Sequence[ListedBatch]
    places: Int64Array  # ascending
    positions: Int64Array
    is_endless: bool = False

    @classmethod
    def of(cls, rows: SelectedRows, listed: Sequence[ListedBatch]) -> ListedRows:
        """Check what a request lists.

        Raises:
            InvalidInputError: A position is not one of the selection, or a place has two.
        """
        places = np.concatenate([one.places for one in listed])
        positions = np.concatenate([one.positions for one in listed])
        count = rows.selection.num_rows
        if len(positions) and not 0 <= positions.min() <= positions.max() < count:
            raise InvalidInputError(
                f"positions {positions.min()} to {positions.max()} are not all among {count} rows"
                f"\nlist positions from 0 to {count - 1}",
                expected=count,
                actual=(int(positions.min()), int(positions.max())),
            )
        found, first, number = np.unique(places, return_index=True, return_inverse=True)
        if not np.array_equal(positions[first][number], positions):
            raise InvalidInputError(
                "a place is listed with two positions\nlist the place of each row in the order"
            )
        return cls(rows, listed, found, positions[first])

    @property
    def selection(self) -> Selection:
        """The rows."""
        return self.rows.selection

    @property
    def reader(self) -> Reader:
        """Reader of the rows."""
        return self.rows.reader

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """Columns that are not tensors."""
        return self.rows.virtual

    @property
    def source(self) -> None:
        """None: the client knows how to find the rows again."""
        return

    @property
    def server(self) -> None:
        """None: this is one."""
        return

    @property
    def num_places(self) -> int:
        """The place after the last batch."""
        return self.listed[-1].stop

    @property
    def num_rows(self) -> int:
        """The same, of the plan."""
        return self.num_places

    @property
    def batches(self) -> ListedRows:
        """The batches, which are listed with the rows."""
        return self

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Return what the order is like for those who read: rows from anywhere."""
        del shuffle, tensors, prefetch_nbytes
        return Order("full")

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan, which is listed with the rows."""
        del order, seed, epoch
        return self

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order."""
        del place
        return order

    def describe(self, order: AnyOrder) -> str:
        """Describe the order."""
        del order
        return "as listed"

    def returned_to(self, state: LoaderState, *, seed: int | None, shuffle: Shuffle) -> ListedRows:
        """Return the same rows: the client has returned to its state."""
        del state, seed, shuffle
        return self

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position at each of some places."""
        return self.positions[np.searchsorted(self.places, places)]

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a batch."""
        return share.places

    @property
    def count(self) -> int:
        """Number of batches."""
        return len(self.listed)

    @property
    def needs_padding(self) -> bool:
        """Whether a batch has rows that do not count."""
        return not all(one.is_valid for one in self.listed)

    def share(self, number: int) -> Share:
        """Return a batch."""
        one = self.listed[number]
        rows = len(one.places)
        return Share(number, 0, rows, rows * one.is_valid, one.stop, dealt=one.places)

    def stop(self, number: int) -> int:
        """Return the place after a batch."""
        return self.listed[number].stop
