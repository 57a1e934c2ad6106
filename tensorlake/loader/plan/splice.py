"""Splices: an epoch that continues with other rows, of another version or by another condition.

    places    0 ─────────── p │ p ───────────────────────────────── n
    rows      as before       │ rest: the places of the order before, without rows that are gone
                              │ added: rows that are new, in an order of their own
                              │ the two mixed evenly, by their exact counts

Places go on counting, so that random numbers never repeat. An epoch may be spliced several times:
the order before a splice may be a spliced one. Without ``shuffle`` added rows follow the rest. The
arithmetic is specified in docs/reference/plan.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.arrangement import ArrangedOrder
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.passes import check_after_splice
from tensorlake.loader.plan.plan import Plan
from tensorlake.loader.plan.selection import Int64Array
from tensorlake.loader.plan.sharding import Share
from tensorlake.loader.plan.shuffle import (
    PLAN_VERSION,
    Permutation,
    derive_words,
    permutation_of,
)
from tensorlake.loader.plan.stretches import (
    PLACES_STOP,
    assign_in_stretches,
    places_in_stretches,
)
from tensorlake.quantities import is_whole_number

__all__ = ["BaseOrder", "Changes", "Cut", "Edit", "SplicedOrder", "SplicedPlan", "splice_plan"]

BaseOrder: TypeAlias = Order | ArrangedOrder
LISTED = 1 << 20


@dataclass(frozen=True, slots=True)
class Edit:
    """Which rows of a view a loader reads.

    Attributes:
        version: The version.
        where: A condition, as TQL; None: all rows.
        without: Paths of lists of row ids that are left out.
    """

    version: str
    where: str | None = None
    without: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        value: dict[str, Any] = {"version": self.version}
        if self.where is not None:
            value["where"] = self.where
        if self.without:
            value["without"] = list(self.without)
        return value

    @classmethod
    def from_json(cls, value: Any) -> Edit:
        """Parse the result of ``to_json``."""
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        version, where = members.get("version"), members.get("where")
        without = members.get("without", [])
        is_listed = isinstance(without, list)
        texts = [version, where or "", *cast("list[Any]", without if is_listed else [None])]
        if not all(isinstance(one, str) for one in texts):
            raise _damaged(value)
        return cls(cast("str", version), where, tuple(cast("list[str]", without)))


@dataclass(frozen=True, slots=True)
class Cut:
    """The place of an epoch at which other rows begin, and the rows until then.

    Attributes:
        place: The place.
        num_rows: Places that the epoch had before.
        edit: Which rows were read.
        selection: Their digest.
        order: Their order.
    """

    place: int
    num_rows: int
    edit: Edit
    selection: str
    order: BaseOrder

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "place": self.place,
            "rows": self.num_rows,
            "edit": self.edit.to_json(),
            "selection": self.selection,
            "order": self.order.to_json(),
        }

    @classmethod
    def from_json(cls, value: Any, version: int) -> Cut:
        """Parse the result of ``to_json``, of a state of a plan version."""
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        place, rows, digest = (members.get(name) for name in ("place", "rows", "selection"))
        is_whole = is_whole_number(place) and is_whole_number(rows) and isinstance(digest, str)
        if not is_whole or not 0 < cast("int", place) <= cast("int", rows):
            raise _damaged(value)
        edit, order = Edit.from_json(members.get("edit")), _base(members.get("order"), version)
        return cls(cast("int", place), cast("int", rows), edit, cast("str", digest), order)


@dataclass(frozen=True, slots=True)
class SplicedOrder:
    """The order of a loader whose rows were changed, as a state records it.

    Attributes:
        base: The order of epochs that begin with these rows.
        edit: Which rows are read now.
        epoch: The epoch that was spliced.
        cuts: Where; none once that epoch is over.
    """

    base: BaseOrder
    edit: Edit
    epoch: int = 0
    cuts: tuple[Cut, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of shuffle."""
        return self.base.kind

    @property
    def version(self) -> int:
        """Version of the plan."""
        return self.base.version

    @property
    def is_shuffled(self) -> bool:
        """Whether rows are not in the selection's order."""
        return self.base.is_shuffled

    def at(self, epoch: int) -> SplicedOrder:
        """Return the order as it is in an epoch: without cuts, if they are of another."""
        return self if epoch == self.epoch else replace(self, epoch=0, cuts=())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members of this order, as recorded in a state."""
        value: dict[str, Any] = {
            "kind": "spliced",
            "base": self.base.to_json(),
            "edit": self.edit.to_json(),
        }
        if not self.cuts:
            return value
        return value | {"epoch": self.epoch, "cuts": [cut.to_json() for cut in self.cuts]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], version: int = PLAN_VERSION) -> SplicedOrder:
        """Parse the result of ``to_json``, of a state of a plan version."""
        base, edit = _base(value.get("base"), version), Edit.from_json(value.get("edit"))
        epoch, cuts = value.get("epoch", 0), value.get("cuts", [])
        if not is_whole_number(epoch) or epoch < 0 or not isinstance(cuts, list):
            raise _damaged(value)
        listed = tuple(Cut.from_json(one, version) for one in cast("list[Any]", cuts))
        return cls(base, edit, int(epoch), listed)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """How the rows of two selections differ.

    Attributes:
        gone: Positions in the old one whose rows the new one lacks, ascending.
        added: Positions in the new one whose rows the old one lacks, ascending.
        moved: Returns the positions in the new one of the rows at positions of the old one.
        back: Returns the positions in the old one of the rows at positions of the new one; −1 for
            none.
    """

    gone: Int64Array
    added: Int64Array
    moved: Callable[[Int64Array], Int64Array]
    back: Callable[[Int64Array], Int64Array]


@dataclass(frozen=True, eq=False)
class SplicedPlan:
    """The order of an epoch from a place on: the rest of an order, mixed with added rows.

    Attributes:
        before: The order until the place, whose rest goes on.
        first_place: The place.
        gone: Places of ``before`` from there on that are left out, ascending.
        changes: The rows that differ.
        num_rows: Places of the epoch, those before the splice included.
        keys: Keys of the hash by which rest and added rows are arranged.
        order: The permutation of the added rows; None: as selected, after the rest.
    """

    before: Plan
    first_place: int
    gone: Int64Array
    changes: Changes
    num_rows: int
    keys: tuple[int, ...]
    order: Permutation | None

    @property
    def num_added(self) -> int:
        """Number of added rows."""
        return len(self.changes.added)

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position in the new selection at each of some places after the splice."""
        if not len(places):
            return places
        check_after_splice(places, self.first_place, self.num_rows)
        is_added, taken = self._assigned(places)
        positions = np.empty_like(places)
        positions[is_added] = self._added_at(taken[is_added])
        positions[~is_added] = self._rest_at(taken[~is_added])
        return positions

    def places_of(self, positions: Int64Array) -> Int64Array:
        """Return the place of each of some positions of the new selection; −1 before the splice."""
        source, taken = np.zeros_like(positions), np.full_like(positions, -1)
        if self.num_added:
            at = np.minimum(np.searchsorted(self.changes.added, positions), self.num_added - 1)
            is_added = self.changes.added[at] == positions
            source[is_added] = 1
            numbers = at[is_added]
            taken[is_added] = numbers if self.order is None else self.order.inverse(numbers)
        others = np.flatnonzero(source == 0)
        old = self.changes.back(positions[others])
        others, old = others[old >= 0], old[old >= 0]
        before = self._before_places(old)
        others, before = others[before >= self.first_place], before[before >= self.first_place]
        taken[others] = before - self.first_place - np.searchsorted(self.gone, before)
        is_there = taken >= 0
        places = np.full_like(positions, -1)
        source, taken = source[is_there], taken[is_there]
        units, start = (self._num_rest, self.num_added), self.first_place
        if self._is_mixed:
            found = places_in_stretches(units, source, taken, start=start, keys=self.keys)
        else:
            found = start + np.where(source == 1, self._num_rest + taken, taken)
        places[is_there] = found
        return places

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a rank's share, which are contiguous."""
        return share.places

    @property
    def _num_rest(self) -> int:
        return self.num_rows - self.first_place - self.num_added

    @property
    def _is_mixed(self) -> bool:
        """Whether rest and added rows alternate."""
        return bool(self.num_added and self._num_rest and self.order is not None)

    @cached_property
    def _before_places(self) -> Callable[[Int64Array], Int64Array]:
        """The inverse of the order before; where it has none, the places from the splice on."""
        inverse = getattr(self.before, "places_of", None)
        if inverse is not None:
            return inverse
        places = np.arange(self.first_place, self.before.num_rows)
        parts = np.split(places, range(LISTED, len(places), LISTED))
        given = np.concatenate([self.before.at(part) for part in parts])
        ranked = np.argsort(given)

        def listed(positions: Int64Array) -> Int64Array:
            if not len(given):
                return np.full_like(positions, -1)
            at = np.minimum(np.searchsorted(given, positions, sorter=ranked), len(given) - 1)
            found = ranked[at]
            return np.where(given[found] == positions, places[found], -1)

        return listed

    def _assigned(self, places: Int64Array) -> tuple[Any, Int64Array]:
        """Return which places are of added rows, and which of them, or of the rest, each has."""
        added, rest = self.num_added, self._num_rest
        if not self._is_mixed:
            inside = places - self.first_place
            is_added = inside >= rest
            return is_added, np.where(is_added, inside - rest, inside)
        start, stop = self.first_place, self.num_rows
        source, taken = assign_in_stretches(
            (rest, added), places, start=start, stop=stop, keys=self.keys
        )
        return source == 1, taken

    def _rest_at(self, numbers: Int64Array) -> Int64Array:
        """Return the positions of rows of the rest, by their number in it."""
        skipped = np.searchsorted(self._gaps, numbers, "right")
        return self.changes.moved(self.before.at(numbers + skipped + self.first_place))

    def _added_at(self, numbers: Int64Array) -> Int64Array:
        return self.changes.added[numbers if self.order is None else self.order.apply(numbers)]

    @cached_property
    def _gaps(self) -> Int64Array:
        """For each place left out, how many of the rest come before it."""
        return self.gone - self.first_place - np.arange(len(self.gone))


def splice_plan(
    before: Plan, changes: Changes, cut: Cut, *, number: int, seed: int, epoch: int
) -> SplicedPlan:
    """Return the order of an epoch after a splice.

    Args:
        before: The order until then.
        changes: How the rows differ.
        cut: The splice.
        number: Which of the epoch's splices it is.
        seed: The seed of the order.
        epoch: The epoch.
    """
    gone = _places_of(before, changes.gone, cut)
    added, version = len(changes.added), cut.order.version
    named: Any = {"seed": seed, "epoch": epoch, "stream": number, "version": version}
    order = None
    if cut.order.is_shuffled:
        order = permutation_of(added, purpose="added", **named)
    num_rows = cut.num_rows - len(gone) + added
    if num_rows - cut.place >= PLACES_STOP:
        raise InvalidInputError(
            f"advance(): {num_rows - cut.place:,} rows are left of the epoch, and a spliced one has"
            " fewer than 2**31\nadvance when the epoch is over"
        )
    keys = derive_words(2, purpose="splice", **named)
    return SplicedPlan(before, cut.place, gone, changes, num_rows, keys, order)


def _places_of(before: Plan, positions: Int64Array, cut: Cut) -> Int64Array:
    """Return the places from a splice on that have some positions, ascending."""
    if not len(positions):
        return positions
    inverse = getattr(before, "places_of", None)
    if inverse is not None:
        places = np.sort(inverse(positions))
        return places[np.searchsorted(places, cut.place) :]
    found = [np.zeros(0, dtype=np.int64)]
    for start in range(cut.place, cut.num_rows, LISTED):
        places = np.arange(start, min(start + LISTED, cut.num_rows))
        found.append(places[np.isin(before.at(places), positions)])
    return np.concatenate(found)


def _base(value: Any, version: int) -> BaseOrder:
    if not isinstance(value, dict):
        raise _damaged(value)
    members = cast("dict[str, Any]", value)
    if members.get("kind") == "arranged":
        return ArrangedOrder.from_json(members, version)
    return Order.from_json(members, version)


def _damaged(value: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{shown(value)} is not part of a spliced order\ngive the dict that loader.state_dict()"
        " returned",
        actual=value,
    )
