"""The order after a splice: the rest of a pass over rows, and whole passes after it.

A pass gives each row once. An epoch with ``repeat`` has several, and so has a source of a mix.

    Tail          n-th place from the splice on ─► the pass under way, or a later one
    PassesPlan    place of the epoch ─► n ─► Tail
    GroupsPlan    place ─► the group under way, then the others, whole
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.loader.plan.plan import Plan, check_places
from tensorlake.loader.plan.selection import Int64Array
from tensorlake.loader.plan.sharding import Share
from tensorlake.loader.plan.shuffle import permutation_of
from tensorlake.versions import distinct

__all__ = ["GroupsPlan", "PassesPlan", "Tail", "check_after_splice", "group_rest"]


class Pass(Protocol):
    """One of a sequence of passes: a plan of rows, or of units."""

    @property
    def num_rows(self) -> int:
        """Number of places."""
        ...


PassT = TypeVar("PassT", bound=Pass, covariant=True)  # noqa: PLC0105 - read only


@dataclass(frozen=True, eq=False)
class Tail(Generic[PassT]):
    """An endless sequence of passes, from a place inside one of them on.

    Attributes:
        plan: The pass under way.
        place: The place inside it.
        number: Its number, as of epochs.
        make: Returns a later pass by its number.
        length: Places of each later pass.
    """

    plan: PassT
    place: int
    number: int
    make: Callable[[int], PassT]
    length: int
    _later: dict[int, PassT] = field(default_factory=dict[int, PassT])

    @property
    def left(self) -> int:
        """Places left of the pass under way."""
        return self.plan.num_rows - self.place

    def at(self: Tail[Plan], numbers: Int64Array) -> Int64Array:
        """Return the positions of some rows, counted from the place."""
        positions = np.empty_like(numbers)
        for which, plan, places in self.passes(numbers):
            positions[which] = plan.at(places)
        return positions

    def passes(self, numbers: Int64Array) -> Iterator[tuple[Int64Array, PassT, Int64Array]]:
        """Divide some places, counted from the place: which, the pass of these, places inside."""
        is_later = numbers >= self.left
        if not is_later.all():
            which = np.flatnonzero(~is_later)
            yield which, self.plan, numbers[which] + self.place
        if is_later.any():
            at = np.flatnonzero(is_later)
            numbered, inside = np.divmod(numbers[at] - self.left, self.length)
            for one in distinct(numbered).tolist():
                own = numbered == one
                yield at[own], self._pass(self.number + 1 + one), inside[own]

    def after(self, count: int) -> tuple[int, PassT, int]:
        """Return the pass that is under way after some more places: number, plan, place inside."""
        if count < self.left or not self.length:
            return self.number, self.plan, self.place + count
        passes, inside = divmod(count - self.left, self.length)
        number = self.number + 1 + passes
        return number, self._pass(number), inside

    def _pass(self, number: int) -> PassT:
        if number not in self._later:
            self._later.clear()  # one is kept: places ascend
            self._later[number] = self.make(number)
        return self._later[number]


@dataclass(frozen=True, eq=False)
class PassesPlan:
    """The order of an epoch of several passes, or of its first places, from a splice on.

    Attributes:
        first_place: The place of the splice.
        tail: The rows from there on.
        num_rows: Places of the epoch, those before the splice included.
    """

    first_place: int
    tail: Tail[Any]
    num_rows: int

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position in the new selection at each of some places after the splice."""
        if not len(places):
            return places
        check_after_splice(places, self.first_place, self.num_rows)
        return self.tail.at(places - self.first_place)

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a rank's share, which are contiguous."""
        return share.places


@dataclass(frozen=True, eq=False)
class GroupsPlan:
    """The order of a pass by groups from a splice on.

    Attributes:
        first_place: The place of the splice.
        listed: The positions from there on.
        ends: The place at which each group ends, ascending.
    """

    first_place: int
    listed: Int64Array
    ends: Int64Array

    @property
    def num_rows(self) -> int:
        """Places of the pass, those before the splice included."""
        return self.first_place + len(self.listed)

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position in the new selection at each of some places after the splice."""
        if not len(places):
            return places
        check_after_splice(places, self.first_place, self.num_rows)
        return self.listed[places - self.first_place]

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a rank's share, which are contiguous."""
        return share.places

    def group_end(self, place: int) -> int:
        """Return the place at which the group of a place ends."""
        return int(self.ends[np.searchsorted(self.ends, place, "right")])


def group_rest(
    groups: tuple[Int64Array, Int64Array],
    given: Int64Array,
    under_way: Int64Array,
    *,
    place: int,
    shuffle: tuple[int, int, int] | None,
) -> GroupsPlan:
    """Return the rest of a pass by groups: the group under way, then the others, each whole.

    Args:
        groups: The new selection's positions, sorted by group, and where each group begins in them,
            and the end.
        given: Positions that the pass has given.
        under_way: Positions that the group under way has not given yet, in its order.
        place: The place of the splice.
        shuffle: Seed, epoch and number of the splice, by which the other groups are permuted; None:
            as they first come.
    """
    listed, starts = groups
    numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    is_left = ~np.isin(listed, given)
    listed, numbers = listed[is_left], numbers[is_left]
    own, firsts, lengths = np.unique(numbers, return_index=True, return_counts=True)
    begun = numbers[np.isin(listed, under_way[:1])]
    is_first = np.isin(own, begun)
    others = np.flatnonzero(~is_first)
    if shuffle is not None:
        seed, epoch, number = shuffle
        order = permutation_of(len(others), seed=seed, epoch=epoch, purpose="added", stream=number)
        others = others[order.apply(np.arange(len(others)))]
    ranked = np.concatenate([np.flatnonzero(is_first), others])
    ends = np.cumsum(lengths[ranked])
    inside = np.arange(len(listed)) - np.repeat(ends - lengths[ranked], lengths[ranked])
    at = np.repeat(firsts[ranked], lengths[ranked]) + inside
    return GroupsPlan(place, listed[at], place + ends)


def check_after_splice(places: Int64Array, first: int, num_rows: int) -> None:
    """Refuse places outside an epoch, and those before its splice.

    Raises:
        InvalidInputError: There are such places.
    """
    check_places(places, num_rows)
    if int(places.min()) < first:
        raise InvalidInputError(
            f"place {int(places.min())} of this epoch comes before its splice at"
            f" {first}, when other rows were read\nask a loader at a state of then",
            expected=first,
            actual=int(places.min()),
        )
