"""The items of a pass, each of which comes once, and the rest of a pass at a splice.

    pass under way ─► its items that came, among the new ones ─► the order of the others

Rows are items. Windows and packed sequences bring items of their own
(``engine/composed``), whose rest is found by the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.loader.plan.arrangement import ArrangedOrder, GroupedPlan
from tensorlake.loader.plan.passes import GroupsPlan, PassesPlan, Tail, group_rest
from tensorlake.loader.plan.plan import Plan
from tensorlake.loader.plan.splice import Changes, Cut, splice_plan
from tensorlake.loader.sources.rows import Edits, SelectedRows

if TYPE_CHECKING:
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.arrangement.arranger import Arranger

__all__ = ["Given", "Items", "RowItems", "SpliceKey", "edits_of", "rest_of", "tail_of"]

LISTED = 1 << 20


@dataclass(frozen=True, slots=True)
class SpliceKey:
    """The seeds of the order of a rest.

    Attributes:
        number: Which of the epoch's splices it is.
        seed: The seed.
        epoch: The number of the pass.
    """

    number: int
    seed: int
    epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Places of a pass that were given, of one plan.

    Attributes:
        items: The items of the plan.
        plan: The plan.
        places: The places.
    """

    items: Any
    plan: Any
    places: range


class Items(Protocol):
    """The items of a pass, each of which comes once."""

    @property
    def length(self) -> int:
        """Places of a pass."""
        ...

    def once(self, order: AnyOrder, *, seed: int, epoch: int) -> Any:
        """Return the plan of a pass."""
        ...

    def rest(self, given: Sequence[Given], cut: Cut, key: SpliceKey) -> tuple[Self, Any]:
        """Return the items and the plan of the rest of a pass.

        Args:
            given: The places that came; the last are of the plan under way.
            cut: The splice, with its place inside the pass and the places of that.
            key: The seeds.
        """
        ...

    def plan(self, passes: PassesPlan, *, is_one: bool) -> Plan:
        """Return the plan of an epoch from a splice on.

        Args:
            passes: The passes of these items.
            is_one: Whether there is one, which is not limited.
        """
        ...


@dataclass(frozen=True, eq=False)
class RowItems:
    """The rows of a selection (``Items``).

    Attributes:
        rows: The rows.
        arranger: Their order by a column; None: it needs none.
    """

    rows: SelectedRows
    arranger: Arranger | None = None

    @property
    def length(self) -> int:
        """Number of rows."""
        return self.rows.selection.num_rows

    def once(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of a pass."""
        make = self.rows.plan if self.arranger is None else self.arranger.once
        return make(order, seed=seed, epoch=epoch)

    def rest(self, given: Sequence[Given], cut: Cut, key: SpliceKey) -> tuple[RowItems, Plan]:
        """Return the rows, and the order of those that are left of a pass."""
        edits, new = edits_of(self.rows), self.rows.selection

        def moved_from(items: RowItems) -> Callable[[Int64Array], Int64Array]:
            return edits.moved(items.rows.selection, new)

        changes = edits.changes(given[-1].items.rows.selection, new)
        return self, rest_of(given, changes, moved_from, lambda: self._groups, cut, key)

    def plan(self, passes: PassesPlan, *, is_one: bool) -> Plan:
        """Return the plan of an epoch from a splice on."""
        return passes.tail.plan if is_one else passes

    @property
    def _groups(self) -> tuple[Int64Array, Int64Array]:
        assert self.arranger is not None, "grouped"
        return self.arranger.groups


def rest_of(
    given: Sequence[Given],
    changes: Changes,
    moved_from: Callable[[Any], Callable[[Int64Array], Int64Array]],
    groups: Callable[[], tuple[Int64Array, Int64Array]],
    cut: Cut,
    key: SpliceKey,
) -> Plan:
    """Return the order of the rest of a pass.

    Args:
        given: The places that came; the last are of the plan under way.
        changes: How the items of the plan under way and the new ones differ.
        moved_from: Returns how numbers of earlier items move to the new ones.
        groups: Returns the new items by group, for an order by groups.
        cut: The splice.
        key: The seeds.
    """
    plan = given[-1].plan
    if isinstance(plan, GroupedPlan | GroupsPlan):
        seen = [_given_now(one, moved_from(one.items)) for one in given]
        return _regrouped(plan, groups(), changes, np.concatenate(seen), cut, key)
    if len(changes.added) and given[:-1]:  # items that come back may be given
        seen = [_given_now(one, moved_from(one.items)) for one in given[:-1]]
        changes = replace(changes, added=np.setdiff1d(changes.added, np.concatenate(seen)))
    return splice_plan(plan, changes, cut, number=key.number, seed=key.seed, epoch=key.epoch)


def tail_of(items: Items, order: AnyOrder, *, seed: int, number: int) -> Tail[Any]:
    """Return the passes over some items, from one of a number on."""

    def make(one: int) -> Any:
        return items.once(order, seed=seed, epoch=one)

    return Tail(make(number), 0, number, make, items.length)


def edits_of(rows: Any) -> Edits:
    """Return how rows, or those of a source of a mix, are found in other versions.

    Raises:
        InvalidInputError: That is not known.
    """
    edits: Edits | None = rows.edits
    if edits is None:
        raise InvalidInputError(
            "advance() is for loaders that ds.torch(), ds.jax() or ds.loader() made in this process"
        )
    return edits


def _regrouped(
    plan: GroupedPlan | GroupsPlan,
    groups: tuple[Int64Array, Int64Array],
    changes: Changes,
    given: Int64Array,
    cut: Cut,
    key: SpliceKey,
) -> GroupsPlan:
    """Return the rest of a pass by groups: the group under way is not left until it is over."""
    end = plan.group_end(cut.place - 1)
    moved = changes.moved(plan.at(np.arange(cut.place, end)))
    order = cut.order
    assert isinstance(order, ArrangedOrder), "grouped"
    shuffle = (key.seed, key.epoch, key.number) if order.base.is_shuffled else None
    under_way = moved[moved >= 0]
    return group_rest(groups, given, under_way, place=cut.place, shuffle=shuffle)


def _given_now(one: Given, moved: Callable[[Int64Array], Int64Array]) -> Int64Array:
    """Return the numbers, among the new items, of those that some places gave."""
    found = [np.zeros(0, np.int64)]
    for start in range(one.places.start, one.places.stop, LISTED):
        some = np.arange(start, min(start + LISTED, one.places.stop))
        numbers = moved(one.plan.at(some))
        found.append(numbers[numbers >= 0])
    return np.concatenate(found)
