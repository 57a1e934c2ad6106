"""Orders that need a column: rows weighted, classes mixed, stratified, or grouped by a key.

    weighted     systematic sampling: place ─► permuted ─► a threshold among the summed weights
    classes      a mix of the classes, by weight
    stratified   a mix of the classes, by their exact counts: every row once
    grouped      place ─► group, in a permuted order ─► its rows, in the order of the selection
    rows         none of these: only ``limit`` and ``repeat``

Any of them may be repeated, several epochs of it one after another, and limited to its first
places. A state records the rule, the column and a digest of what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import Plan, PlanKey, check_places
from tensorlake.loader.plan.selection import Int64Array
from tensorlake.loader.plan.sharding import Share
from tensorlake.loader.plan.shuffle import (
    PLAN_VERSION,
    ROUNDS,
    derive_words,
    permutation_of,
    permuted_together,
)
from tensorlake.loader.plan.stretches import assign_in_stretches, counts_at
from tensorlake.quantities import is_whole_number
from tensorlake.versions import distinct

__all__ = [
    "ArrangedOrder",
    "ClassPlan",
    "GroupedPlan",
    "RepeatedPlan",
    "Rule",
    "WeightedPlan",
    "weight_units",
]

Rule = Literal["rows", "weighted", "classes", "stratified", "grouped"]
RULES: tuple[Rule, ...] = ("rows", "weighted", "classes", "stratified", "grouped")
UNIT_BITS = 32  # of the largest weight
SUM_BITS = 62
LISTED_PLACES = 1 << 22  # found at once, in 0.1 s, and kept in 16 MiB
DOUBTFUL = 1e-6  # doubles of numbers up to 2²² are wrong by less than 10⁻⁸
PLACES_STOP = 1 << 31  # products of two numbers of places fit 62 bits


@dataclass(frozen=True, slots=True)
class ArrangedOrder:
    """The order of epochs by a rule.

    Attributes:
        base: The order of rows inside a class, of groups, or of places.
        rule: How rows are arranged.
        by: The column read first; None for an array of weights, or if there is none.
        digest: Digest of the values read.
        weights: As given, if JSON can hold it briefly; None otherwise.
        limit: The most places of an epoch.
        repeat: Epochs of the rule in one epoch.
    """

    base: Order
    rule: Rule
    by: str | None = None
    digest: str = ""
    weights: Any = None
    limit: int | None = None
    repeat: int = 1

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
        return self.base.is_shuffled or self.rule != "rows"

    def describe(self) -> str:
        """Describe the order in a few words."""
        by = "an array" if self.by is None else repr(self.by)
        rules = {
            "rows": "",
            "weighted": f"weighted by {by}, ",
            "classes": f"classes of {by} by weight, ",
            "stratified": f"stratified by {by}, ",
            "grouped": f"grouped by {by}, ",
        }
        repeated = f", {self.repeat} times" if self.repeat > 1 else ""
        limited = "" if self.limit is None else f", the first {self.limit:,}"
        return f"{rules[self.rule]}{self.base.describe()}{repeated}{limited}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members of this order, as recorded in a state."""
        value: dict[str, Any] = {"kind": "arranged", "rule": self.rule, "base": self.base.to_json()}
        for name in ("by", "digest", "weights", "limit"):
            if getattr(self, name) not in (None, ""):
                value[name] = getattr(self, name)
        return value if self.repeat == 1 else value | {"repeat": self.repeat}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], version: int = PLAN_VERSION) -> ArrangedOrder:
        """Parse the result of ``to_json``."""
        rule, base, by = value.get("rule"), value.get("base"), value.get("by")
        digest, limit = value.get("digest", ""), value.get("limit")
        repeat = value.get("repeat", 1)
        is_whole = rule in RULES and isinstance(base, dict) and isinstance(digest, str)
        is_whole &= by is None or isinstance(by, str)
        is_whole &= all(
            is_whole_number(one) and one >= 1 for one in (repeat, 1 if limit is None else limit)
        )
        if not is_whole:
            raise InvalidInputError(
                f"{shown(dict(value))} is not an order\ngive the dict that loader.state_dict()"
                " returned",
                actual=dict(value),
            )
        parsed = Order.from_json(cast("dict[str, Any]", base), version)
        weights = value.get("weights")
        return cls(parsed, cast("Rule", rule), by, digest, weights, limit, repeat)


@dataclass(frozen=True, eq=False)
class WeightedPlan:
    """Rows drawn with replacement, by systematic sampling.

    Row *i* of *n* places gets ``n · weight / total`` of them, rounded up or down at random. That is
    closer to its share than independent draws are, and a place is found by one binary search.
    """

    key: PlanKey
    sums: Int64Array  # of the rows' units, ascending
    num_rows: int

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position at each of some places."""
        if not len(places):
            return places
        check_places(places, self.num_rows)
        drawn = self._permutation.apply(places) if self.key.order.is_shuffled else places
        if self.num_rows <= LISTED_PLACES:
            return self._listed[drawn].astype(np.int64)
        return self._found(drawn)

    def _found(self, drawn: Int64Array) -> Int64Array:
        """Return the rows that hold the thresholds of some numbers."""
        return np.searchsorted(self.sums, self._thresholds(drawn), "right")

    def _thresholds(self, drawn: Int64Array) -> Int64Array:
        total = int(self.sums[-1])
        whole, rest = divmod(total, self.num_rows)
        return drawn * whole + (drawn * rest + self._offset % total) // self.num_rows

    @cached_property
    def _listed(self) -> Any:
        """The row of every number: how many rows end at or before it.

        A row ends at the first number whose threshold is not below its sum. Doubles give that end,
        unless they are close to an integer; there thresholds decide.
        """
        total, count = int(self.sums[-1]), self.num_rows
        ends = self.sums * (count / total)
        ends -= self._offset % total / total
        stops = np.ceil(ends)
        np.subtract(stops, ends, out=ends)
        near = np.flatnonzero((ends < DOUBTFUL) | (ends > 1 - DOUBTFUL))
        whole = np.maximum(np.rint(stops[near] - ends[near]), 0).astype(np.int64)
        stops[near] = whole + (self._thresholds(whole) < self.sums[near])
        ended = np.bincount(np.maximum(stops, 0).astype(np.int64), minlength=count)
        return np.cumsum(ended[:count], dtype=np.int32)

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a rank's share, which are contiguous."""
        return share.places

    @cached_property
    def _permutation(self) -> Any:
        key = self.key
        return permutation_of(self.num_rows, seed=key.seed, epoch=key.epoch, purpose="order")

    @cached_property
    def _offset(self) -> int:
        return derive_words(1, seed=self.key.seed, epoch=self.key.epoch, purpose="offset")[0]


@dataclass(frozen=True, eq=False)
class ClassPlan:
    """A mix of classes, each of which yields all its rows before any of them again."""

    key: PlanKey
    listed: Int64Array  # the selection's positions, sorted by class
    starts: Int64Array  # of each class in them, and the end
    units: tuple[int, ...]  # the classes' shares
    num_rows: int
    _known: dict[int, Int64Array] = field(default_factory=dict[int, "Int64Array"])

    @cached_property
    def _counts(self) -> Int64Array:
        """Rows of each class in an epoch."""
        return counts_at(self.units, np.array([self.num_rows]))[0]

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position at each of some places."""
        if not len(places):
            return places
        check_places(places, self.num_rows)
        key, sizes = self.key, np.diff(self.starts)
        keys = derive_words(2, seed=key.seed, epoch=key.epoch, purpose="places")
        own, given = assign_in_stretches(
            self.units, places, start=0, stop=self.num_rows, keys=keys, known=self._known
        )
        passes, inside = np.divmod(given + key.epoch * self._counts[own], sizes[own])
        if key.order.is_shuffled:
            keys = derive_words(ROUNDS, seed=key.seed, epoch=0, purpose="class")
            inside = permuted_together(inside, sizes[own], passes * len(sizes) + own, keys)
        return self.listed[self.starts[own] + inside]

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a rank's share, which are contiguous."""
        return share.places


@dataclass(frozen=True, eq=False)
class GroupedPlan:
    """Groups in a permuted order, each with its rows in the selection's."""

    key: PlanKey
    listed: Int64Array  # the selection's positions, sorted by group
    starts: Int64Array  # of each group in them, and the end

    @property
    def num_rows(self) -> int:
        """Number of places."""
        return len(self.listed)

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position at each of some places."""
        if not len(places):
            return places
        check_places(places, self.num_rows)
        groups, firsts = self._permuted
        at = np.searchsorted(firsts, places, "right") - 1
        return self.listed[self.starts[groups[at]] + places - firsts[at]]

    def group_end(self, place: int) -> int:
        """Return the place at which the group of a place ends."""
        groups, firsts = self._permuted
        at = np.searchsorted(firsts, place, "right") - 1
        return int(firsts[at] + np.diff(self.starts)[groups[at]])

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a rank's share, which are contiguous."""
        return share.places

    @cached_property
    def _permuted(self) -> tuple[Int64Array, Int64Array]:
        """The groups in their order, and the place at which each begins."""
        key, count = self.key, len(self.starts) - 1
        groups = np.arange(count)
        if key.order.is_shuffled:
            own = permutation_of(count, seed=key.seed, epoch=key.epoch, purpose="order")
            groups = own.apply(groups)
        lengths = np.diff(self.starts)[groups]
        return groups, np.cumsum(lengths) - lengths


@dataclass(frozen=True, eq=False)
class RepeatedPlan:
    """Several epochs of a plan one after another, as one epoch, and of these the first places."""

    make: Callable[[int], Plan]  # by the number of the rule's epoch
    first: int  # the number of the first
    length: int  # places of each
    num_rows: int
    _plans: dict[int, Plan] = field(default_factory=dict[int, Plan])

    def at(self, places: Int64Array) -> Int64Array:
        """Return the position at each of some places."""
        if not len(places):
            return places
        check_places(places, self.num_rows)
        numbers, inside = np.divmod(places, self.length)
        positions = np.empty_like(places)
        for number in distinct(numbers).tolist():
            own = numbers == number
            positions[own] = self._plan(number).at(inside[own])
        return positions

    def deal(self, share: Share) -> Int64Array:
        """Return the places of a rank's share, which are contiguous."""
        return share.places

    def _plan(self, number: int) -> Plan:
        if number not in self._plans:
            self._plans[number] = self.make(self.first + number)
        return self._plans[number]


def weight_units(weights: Any) -> Int64Array:
    """Sum weights as integers, so that all machines have the same thresholds.

    Args:
        weights: A number >= 0 for each row, not all 0.

    Returns:
        The running sums, of units of at most 2³² each, of at least 1 where a weight is above 0.
    """
    values = np.asarray(weights, dtype=np.float64)
    bits = min(UNIT_BITS, SUM_BITS - len(values).bit_length())
    units = np.floor(values / values.max() * float(1 << bits) + 0.5).astype(np.int64)
    return np.cumsum(np.where(values > 0, np.maximum(units, 1), 0))
