"""``Arranger``: the order of rows, or of units made of them, by the values of a column.

    a value for each item ─► one pass ─► sums, or items sorted by class ─► the plan of any epoch

Items are rows, documents, windows or sequences. The values are read when the order is first needed;
the result takes 8 bytes per item, and a digest of it is recorded in states: ranks and resumed
loaders read the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.loader.plan.arrangement import (
    PLACES_STOP,
    ArrangedOrder,
    ClassPlan,
    GroupedPlan,
    RepeatedPlan,
    WeightedPlan,
    weight_units,
)
from tensorlake.loader.plan.order import Order, Shuffle
from tensorlake.loader.plan.plan import Plan, PlanKey, build_access_plan
from tensorlake.loader.plan.stretches import counts_at
from tensorlake.loader.sources.arrangement.checks import by_code, check_numbers, check_repeat
from tensorlake.loader.sources.column_values import column_values
from tensorlake.loader.sources.mix.weights import units_of
from tensorlake.loader.sources.rows import SelectedRows, chosen_order
from tensorlake.quantities import human_nbytes, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tensorlake.loader.config.arrangement import Arrangement
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.selection import Int64Array

__all__ = ["Arranger", "class_numbers", "values_of"]

BRIEF_ITEMS = 16  # of class weights that a state records
ENTRY_NBYTES = 8
SUMMED_ITEMS = 1 << 15  # products below 2⁴⁸, which are added up in 63 bits
HALF_BITS = 16


def values_of(rows: SelectedRows, own: Arrangement) -> NDArray[Any]:
    """Return the value of each row by which an arrangement orders them: reads the column."""
    where = "weights=" if own.by is None else f"column {own.by!r}"
    values = own.weights if own.by is None else np.asarray(column_values(rows, own.by))
    if own.rule == "weighted":  # an array too: the version may be another one
        check_numbers(values, rows.selection.num_rows, where)
    return values


def class_numbers(values: NDArray[Any]) -> tuple[Int64Array, Int64Array]:
    """Number the distinct values as they first come.

    Returns:
        The number of each item's value, and where each value first comes.
    """
    _, firsts, classes = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty_like(firsts)
    rank[np.argsort(firsts)] = np.arange(len(firsts))
    return rank[classes], np.sort(firsts)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Result of the pass over the values; ``starts`` of classes or groups in ``listed``."""

    digest: str
    sums: Int64Array | None = None
    listed: Int64Array | None = None
    starts: Int64Array | None = None
    weights: tuple[float, ...] = ()  # of the classes


@dataclass(frozen=True, eq=False)
class Arranger:
    """The order of items by an arrangement.

    Attributes:
        rows: The rows, which have the column.
        arrangement: The rule, and how often it is repeated.
        count: Number of items.
        noun: The name of an item, for errors.
        values: Returns the value of each item; None: items are rows.
        members: More that decides the order, such as the rows of items; for the digest.
    """

    rows: SelectedRows
    arrangement: Arrangement
    count: int
    noun: str = "row"
    values: Callable[[], NDArray[Any]] | None = None
    members: Int64Array | None = None

    def __post_init__(self) -> None:
        check_repeat(self.arrangement.repeat, self.count, self.noun)

    @property
    def num_places(self) -> int:
        """Places of an epoch: repeated, then limited."""
        places, limit = self.count * self.arrangement.repeat, self.arrangement.limit
        return places if limit is None else min(limit, places)

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> Order | ArrangedOrder:
        """Choose the order of the items, or of places, classes and groups.

        Raises:
            InvalidInputError: A windowed order is requested by a rule.
        """
        own = self.arrangement
        if own.rule == "rows":
            units = None if self.values is None else self.count
            rows, prefetch = self.rows, prefetch_nbytes
            base = chosen_order(
                *(shuffle, rows.selection, rows.reader, tensors),
                prefetch_nbytes=prefetch,
                units=units,
            )
        elif shuffle == "window":
            raise InvalidInputError(
                f"shuffle='window' reads adjacent rows, which an order {own.rule} by {own.by!r}"
                " does not have\ngive shuffle=True",
                argument="shuffle",
                actual=shuffle,
            )
        else:
            base = Order("full" if shuffle else "none")
        if own.is_plain:
            return base
        digest, brief = self._read.digest, self._brief
        return ArrangedOrder(base, own.rule, own.by, digest, brief, own.limit, own.repeat)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch."""
        repeat = self.arrangement.repeat
        if not self.count or (repeat == 1 and self.num_places == self.count):
            return self.once(order, seed=seed, epoch=epoch)

        def make(number: int) -> Plan:
            return self.once(order, seed=seed, epoch=number)

        return RepeatedPlan(make, epoch * repeat, self.count, self.num_places)

    def once(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch of the rule, neither repeated nor limited."""
        assert isinstance(order, Order | ArrangedOrder), "of one selection"
        base = order if isinstance(order, Order) else order.base
        rule = self.arrangement.rule if self.count else "rows"
        key = PlanKey(self.rows.selection.digest, base, seed, epoch)
        if rule == "rows":
            return build_access_plan(key, self.count)
        read = self._read
        if rule == "weighted":
            assert read.sums is not None, "read for this rule"
            return WeightedPlan(key, read.sums, self.count)
        assert read.listed is not None and read.starts is not None, "likewise"  # noqa: PT018 - one fact
        if rule == "grouped":
            return GroupedPlan(key, read.listed, read.starts)
        return ClassPlan(key, read.listed, read.starts, self._class_units, self.count)

    @property
    def groups(self) -> tuple[Int64Array, Int64Array]:
        """Positions of items sorted by group, and where each group begins in them, and the end."""
        read = self._read
        if read.listed is None or read.starts is None:  # of no item
            return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        return read.listed, read.starts

    def drawn_total(self, sizes: Int64Array) -> int:
        """Return the sum of sizes that an epoch of the rule draws on average, rounded down.

        Args:
            sizes: A size for each item, of fewer than 2³¹.
        """
        read = self._read
        if read.sums is not None:
            units, total = np.diff(read.sums, prepend=0), int(read.sums[-1])
            return self.count * _sum_of_products(units, sizes) // total
        assert read.listed is not None and read.starts is not None, "read for classes"  # noqa: PT018 - one fact
        sums = np.concatenate([[0], np.cumsum(sizes[read.listed])])[read.starts]
        counts = counts_at(self._class_units, np.array([self.count]))[0].tolist()
        of_classes = zip(counts, np.diff(sums).tolist(), np.diff(read.starts).tolist(), strict=True)
        return sum(count * size // rows for count, size, rows in of_classes)

    def describe(self, order: AnyOrder) -> str:
        """Describe the order, and the pass over a column that it needs."""
        assert isinstance(order, Order | ArrangedOrder), "of one selection"
        if isinstance(order, Order) or order.rule == "rows":
            return order.describe()
        by, rows = order.by, self.rows
        memory = f"{human_nbytes(ENTRY_NBYTES * self.count)} of memory"
        if self._read.starts is not None:
            memory += f", for {plural(len(self._read.starts) - 1, 'distinct value')}"
        if by is None or by in rows.virtual:
            return f"{order.describe()} (takes {memory})"
        (row_nbytes,) = rows.reader.row_nbytes([by])
        read = human_nbytes((row_nbytes + 1) * rows.selection.num_rows)  # its mean is rounded down
        return f"{order.describe()} (a first pass reads up to {read} of {by!r}; takes {memory})"

    def differences(self, recorded: AnyOrder) -> dict[str, tuple[Any, Any]]:
        """List the differences to a recorded order: member, recorded, given."""
        own = self.arrangement
        rule = "plain" if own.is_plain else own.rule
        if not isinstance(recorded, ArrangedOrder):
            is_plain = own.is_plain and isinstance(recorded, Order)
            return {} if is_plain else {"order": (getattr(recorded, "kind", "mix"), rule)}
        pairs = {
            "order": (recorded.rule, rule),
            "column": (recorded.by, own.by),
            "limit": (recorded.limit, own.limit),
            "repeat": (recorded.repeat, own.repeat),
        }
        found: dict[str, tuple[Any, Any]]
        found = {name: (was, now) for name, (was, now) in pairs.items() if was != now}
        if not found and recorded.digest != self._read.digest:
            is_weighted = own.rule in ("weighted", "classes")
            was, now = recorded.weights, self._brief
            if was is None or now is None or was == now:  # the values of rows differ
                was, now = recorded.digest, self._read.digest
            found["weights" if is_weighted else "values"] = (was, now)
        return found

    @property
    def _brief(self) -> dict[str, float] | None:
        """Factors by class, if a state can hold them; it has the digest of others."""
        weights = self.arrangement.weights
        if not isinstance(weights, dict) or len(weights) > BRIEF_ITEMS:
            return None
        return {str(name): float(weight) for name, weight in weights.items()}

    @cached_property
    def _class_units(self) -> tuple[int, ...]:
        read = self._read
        if self.arrangement.rule == "classes":
            return units_of(read.weights)
        assert read.starts is not None, "read for this rule"
        return tuple(np.diff(read.starts).tolist())

    @cached_property
    def _read(self) -> _Read:
        own, count = self.arrangement, self.count
        if own.rule == "rows" or not count:
            return _Read("")
        if count >= PLACES_STOP:
            raise InvalidInputError(
                f"an order {own.rule} has fewer than 2**31 {self.noun}s, got {count:,}"
                "\nselect fewer rows"
            )
        values = values_of(self.rows, own) if self.values is None else self.values()
        if own.rule == "weighted":
            where = "weights=" if own.by is None else f"column {own.by!r}"
            check_numbers(values, count, where, self.noun)
            sums = weight_units(values.astype(np.float64))
            return _Read(_digest_of(sums), sums=sums)
        if own.rule == "grouped":  # as they first come in the selection
            classes, firsts = class_numbers(values)
            kinds = values[firsts]
        else:
            kinds, classes = np.unique(values, return_inverse=True)
        counts = np.bincount(classes, minlength=len(kinds))
        listed = np.argsort(classes, kind="stable")
        weights = self._weights_by_class(kinds, counts)
        kept = np.flatnonzero(np.asarray(weights) > 0)
        if len(kept) < len(kinds):
            listed = listed[np.isin(classes[listed], kept)]
            counts, weights = counts[kept], tuple(weights[one] for one in kept.tolist())
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        more = () if self.members is None else (self.members,)
        digest = _digest_of(listed, starts, np.array(weights), *more)
        return _Read(digest, listed=listed, starts=starts, weights=weights)

    def _class_names(self, by: str) -> Sequence[str]:
        """Return the names of a column's classes; none if it has other values."""
        virtual = self.rows.virtual.get(by)
        owner: Any = self.rows.selection.snapshot.spec(by).type if virtual is None else virtual
        return getattr(owner, "names", None) or ()

    def _weights_by_class(self, values: Any, counts: Any) -> tuple[float, ...]:
        own = self.arrangement
        if own.rule != "classes":
            return tuple(counts.astype(float).tolist())
        if own.weights is None:
            return (1.0,) * len(values)
        assert own.by is not None, "classes have a column"
        given = by_code(own.by, self._class_names(own.by), own.weights)
        known = set(values.tolist())
        unknown = [name for name in given if name not in known]
        if unknown and self.values is not None:  # a row's value that no window begins with
            known |= set(values_of(self.rows, own).tolist())
            unknown = [name for name in given if name not in known]
        if unknown and not self._class_names(own.by):
            raise InvalidInputError(
                f"weights of {own.by!r} name {shown(unknown[0])}, which no row of the view has"
                f"{did_you_mean(unknown[0], [str(value) for value in known])}\nleave it out",
                argument="weights",
                actual=unknown[0],
            )
        by_class = [given.get(value, 1.0) for value in values.tolist()]
        if not any(by_class):
            raise InvalidInputError(
                f"all weights of {own.by!r} are 0\nkeep one above 0", argument="weights"
            )
        return tuple(
            weight * count for weight, count in zip(by_class, counts.tolist(), strict=True)
        )


def _sum_of_products(units: Int64Array, sizes: Int64Array) -> int:
    """Return the sum of products of numbers below 2³³ and 2³¹, exactly."""
    total = 0
    for start in range(0, len(units), SUMMED_ITEMS):
        own, size = units[start : start + SUMMED_ITEMS], sizes[start : start + SUMMED_ITEMS]
        total += int(((own >> HALF_BITS) * size).sum()) << HALF_BITS
        total += int(((own & ((1 << HALF_BITS) - 1)) * size).sum())
    return total


def _digest_of(*arrays: Any) -> str:
    hasher = blake2b(digest_size=16, person=b"tl-arranged")
    for array in arrays:
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()
