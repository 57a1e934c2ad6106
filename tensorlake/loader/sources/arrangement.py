"""``ArrangedRows``: rows by ``weights=``, ``stratify=``, ``group=``, ``limit=``, ``repeat=``.

    argument ─► a rule and a column ─► one pass over the column ─► sums, or rows sorted by class
             ─► the plan of an epoch, for any place (``plan/arrangement.py``)

The pass reads the column alone, when the order is first needed: before the first batch, or by
``state_dict()`` and ``explain()``, which shows its size. ``len()`` needs none. The result takes 8
bytes per row, and a digest of it is recorded in states: ranks and resumed loaders read the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.arrangement import (
    PLACES_STOP,
    ArrangedOrder,
    ClassPlan,
    GroupedPlan,
    RepeatedPlan,
    Rule,
    WeightedPlan,
    weight_units,
)
from tensorlake.loader.plan.mix_order import AnyOrder, MixOrder
from tensorlake.loader.plan.order import Order, Shuffle
from tensorlake.loader.plan.plan import Plan, PlanKey
from tensorlake.loader.plan.selection import Int64Array, Reader, Selection
from tensorlake.loader.plan.state import LoaderState, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.column_values import column_values
from tensorlake.loader.sources.mix.weights import units_of
from tensorlake.loader.sources.rows import OrderedRows, SelectedRows
from tensorlake.quantities import human_nbytes

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments

__all__ = ["ArrangedRows", "Arrangement", "arranged", "arrangement_of"]

BRIEF_ITEMS = 16  # of class weights that a state records
ENTRY_NBYTES = 8


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A loader's arguments about its order, checked.

    Attributes:
        rule: How rows are arranged.
        by: The column; None for an array.
        weights: An array of numbers by row, or a number by class; None: the column has them, or all
            classes weigh the same.
        limit: The most places of an epoch.
        repeat: Epochs of the rule in one epoch.
    """

    rule: Rule = "rows"
    by: str | None = None
    weights: Any = None
    limit: int | None = None
    repeat: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing."""
        return self == Arrangement()


def arrangement_of(
    weights: Any, stratify: str | None, group: str | None, limit: int | None, repeat: int | None
) -> Arrangement:
    """Parse the arguments of a loader.

    Raises:
        InvalidInputError: A value has the wrong form, or two rules are given.
    """
    given = {"weights": weights, "stratify": stratify, "group": group}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InvalidInputError(
            f"{' and '.join(f'{name}=' for name in named)} are different orders\ngive one of them",
            argument=named[1],
        )
    whole = Arrangement(limit=limit, repeat=repeat or 1)
    for name, rule in (("stratify", "stratified"), ("group", "grouped")):
        value: Any = given[name]
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidInputError(
                f"{name} is the name of a column, got {shown(value)}", argument=name, actual=value
            )
        return replace(whole, rule=rule, by=value)
    return whole if weights is None else _weighted(whole, weights)


def _weighted(whole: Arrangement, weights: Any) -> Arrangement:
    if isinstance(weights, str):
        return replace(whole, rule="weighted", by=weights)
    if isinstance(weights, Mapping):
        return _by_class(whole, dict(weights))
    if isinstance(weights, list | tuple | np.ndarray):
        return replace(whole, rule="weighted", weights=_numbers(weights))
    raise InvalidInputError(
        "weights is the name of a column of numbers, an array of a number for each row, or"
        f" {{'label': 'balanced'}} or {{'label': {{'cat': 2.0}}}}, got {shown(weights)}"
        "\nfor weights that depend on the position, mix views: tl.mix({'a': (view, function), …})",
        argument="weights",
        actual=weights,
    )


def _numbers(weights: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(weights)
    except ValueError:  # lists of unequal lengths, or too deep ones
        raise InvalidInputError(
            f"weights is an array of a number for each row, got {shown(weights)}",
            argument="weights",
            actual=weights,
        ) from None


def _by_class(whole: Arrangement, weights: dict[Any, Any]) -> Arrangement:
    if len(weights) == 1:
        ((column, by_class),) = weights.items()
        if by_class == "balanced" and isinstance(column, str):
            return replace(whole, rule="classes", by=column)
        if isinstance(by_class, Mapping) and isinstance(column, str) and by_class:
            own = dict(by_class)
            wrong = [one for one in own.values() if not _is_weight(one)]
            if wrong:
                raise InvalidInputError(
                    f"the weight of a class is a finite number >= 0, got {shown(wrong[0])}",
                    argument="weights",
                    actual=wrong[0],
                )
            return replace(whole, rule="classes", by=column, weights=own)
    raise InvalidInputError(
        f"weights by class are {{'label': 'balanced'}} or {{'label': {{'cat': 2.0}}}}, got"
        f" {shown(weights)}",
        argument="weights",
        actual=weights,
    )


def _is_weight(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.integer | np.floating)
    return is_number and not isinstance(value, bool) and 0 <= float(value) < float("inf")


def arranged(rows: OrderedRows, arguments: LoaderArguments) -> OrderedRows:
    """Return the rows in the order that a loader's arguments ask for.

    Raises:
        InvalidInputError: They are of a mix, which has an order of its own.
    """
    given = arguments.weights, arguments.stratify, arguments.group, arguments.limit
    own = arrangement_of(*given, arguments.repeat)
    if own.is_plain:
        return rows
    if not isinstance(rows, SelectedRows):
        raise InvalidInputError(
            "weights=, stratify=, group=, limit= and repeat= are for a dataset or a view: a mix has"
            " an order of its own\ngive its sources weights and stop=, or mix views",
        )
    if arguments.decode_on == "server":
        raise InvalidInputError(
            "decode_on='server' cannot order rows by weights=, stratify=, group=, limit= or repeat="
            "\nleave decode_on out",
            argument="decode_on",
        )
    return ArrangedRows(rows, own)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Result of the pass over the column; ``starts`` of classes or groups in ``listed``."""

    digest: str
    sums: Int64Array | None = None
    listed: Int64Array | None = None
    starts: Int64Array | None = None
    weights: tuple[float, ...] = ()  # of the classes


@dataclass(frozen=True, eq=False)
class ArrangedRows:
    """The rows of one selection, arranged."""

    rows: SelectedRows
    arrangement: Arrangement
    is_endless: bool = False
    server: None = field(default=None)  # a server makes plain orders only

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
    def source(self) -> Mapping[str, Any] | None:
        """None: only the program has the arguments."""
        return None

    @property
    def num_places(self) -> int:
        """Places of an epoch: repeated, then limited."""
        places, limit = self._length * self.arrangement.repeat, self.arrangement.limit
        return places if limit is None else min(limit, places)

    @property
    def _length(self) -> int:
        return self.selection.num_rows

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> ArrangedOrder:
        """Choose the order of the rows, or of places, classes and groups."""
        own = self.arrangement
        if own.rule == "rows":
            base = self.rows.choose(shuffle, tensors, prefetch_nbytes=prefetch_nbytes)
        elif shuffle == "window":
            raise InvalidInputError(
                f"shuffle='window' reads adjacent rows, which an order {own.rule} by {own.by!r}"
                " does not have\ngive shuffle=True",
                argument="shuffle",
                actual=shuffle,
            )
        else:
            base = Order("full" if shuffle else "none")
        digest, brief = self._read.digest, self._brief
        return ArrangedOrder(base, own.rule, own.by, digest, brief, own.limit, own.repeat)

    @property
    def _brief(self) -> dict[str, float] | None:
        """Factors by class, if a state can hold them; it has the digest of others."""
        weights = self.arrangement.weights
        if not isinstance(weights, dict) or len(weights) > BRIEF_ITEMS:
            return None
        return {str(name): float(weight) for name, weight in weights.items()}

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch."""
        assert isinstance(order, ArrangedOrder)
        if self.arrangement.repeat == 1 and self.num_places == self._length:
            return self._once(order, seed, epoch)

        def make(number: int) -> Plan:
            return self._once(order, seed, number)

        first = epoch * self.arrangement.repeat
        return RepeatedPlan(make, first, self._length, self.num_places)

    def recorded(self, order: AnyOrder, position: int) -> AnyOrder:
        """Return the order, which is the same at every position."""
        del position
        return order

    def describe(self, order: AnyOrder) -> str:
        """Describe the order, and the pass over a column that it needs."""
        assert isinstance(order, ArrangedOrder)
        by, rows = order.by, self.selection.num_rows
        if order.rule == "rows":
            return order.describe()
        memory = f"{human_nbytes(ENTRY_NBYTES * rows)} of memory"
        if by is None or by in self.virtual:
            return f"{order.describe()} (takes {memory})"
        (row_nbytes,) = self.reader.row_nbytes([by])
        read = human_nbytes((row_nbytes + 1) * rows)  # its mean is rounded down
        return f"{order.describe()} (a first pass reads up to {read} of {by!r}; takes {memory})"

    def returned_to(
        self, state: LoaderState, *, seed: int | None, shuffle: Shuffle
    ) -> ArrangedRows:
        """Return to the version that the state recorded, even if the branch has moved on."""
        rows = self if isinstance(state.order, MixOrder) else self._returned(state)
        check_state(
            state,
            version=rows.selection.snapshot.version,
            selection=rows.selection.digest,
            num_rows=rows.num_places,
            seed=seed,
            shuffle=shuffle,
            others=rows.differences(state.order),
        )
        return rows

    def _returned(self, state: LoaderState) -> ArrangedRows:
        rows = self.rows.of_version(state)
        return self if rows is self.rows else replace(self, rows=rows)

    def differences(self, recorded: AnyOrder) -> dict[str, tuple[Any, Any]]:
        """List the differences to a recorded order: member, recorded, given."""
        own = self.arrangement
        if not isinstance(recorded, ArrangedOrder):
            return {"order": (getattr(recorded, "kind", "mix"), own.rule)}
        pairs = {
            "order": (recorded.rule, own.rule),
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

    def _once(self, order: ArrangedOrder, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch of the rule."""
        read, own = self._read, self.arrangement
        key = PlanKey(self.selection.digest, order.base, seed, epoch)
        match own.rule:
            case "rows":
                return self.rows.plan(order.base, seed=seed, epoch=epoch)
            case "weighted":
                assert read.sums is not None, "read for this rule"
                return WeightedPlan(key, read.sums, self._length)
            case "grouped":
                assert read.listed is not None and read.starts is not None, "likewise"  # noqa: PT018 - one fact
                return GroupedPlan(key, read.listed, read.starts)
            case "classes" | "stratified":
                return self._mixed(read, key)

    def _mixed(self, read: _Read, key: PlanKey) -> ClassPlan:
        assert read.listed is not None and read.starts is not None, "read for this rule"  # noqa: PT018 - one fact
        is_exact = self.arrangement.rule == "stratified"
        units = tuple(np.diff(read.starts).tolist()) if is_exact else units_of(read.weights)
        return ClassPlan(key, read.listed, read.starts, units, self._length)

    @cached_property
    def _read(self) -> _Read:
        own, rows = self.arrangement, self.selection.num_rows
        if own.rule == "rows":
            return _Read("")
        if rows >= PLACES_STOP:
            raise InvalidInputError(
                f"an order {own.rule} has fewer than 2**31 rows, got {rows:,}\nselect fewer rows"
            )
        if own.rule == "weighted":
            sums = weight_units(self._weights_by_row())
            return _Read(_digest_of(sums), sums=sums)
        assert own.by is not None, "all other rules have a column"
        keys = column_values(self.rows, own.by)
        values, firsts, classes = np.unique(keys, return_index=True, return_inverse=True)
        if own.rule == "grouped":  # as they first come in the selection
            rank = np.empty_like(firsts)
            rank[np.argsort(firsts)] = np.arange(len(firsts))
            classes = rank[classes]
        counts = np.bincount(classes, minlength=len(values))
        listed = np.argsort(classes, kind="stable")
        weights = self._weights_by_class(values, counts)
        kept = np.flatnonzero(np.asarray(weights) > 0)
        if len(kept) < len(values):
            listed = listed[np.isin(classes[listed], kept)]
            counts, weights = counts[kept], tuple(weights[one] for one in kept.tolist())
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        digest = _digest_of(listed, starts, np.array(weights))
        return _Read(digest, listed=listed, starts=starts, weights=weights)

    def _weights_by_row(self) -> Any:
        own, rows = self.arrangement, self.selection.num_rows
        where = "weights=" if own.by is None else f"column {own.by!r}"
        given = own.weights if own.by is None else column_values(self.rows, own.by)
        values = np.asarray(given)
        if values.dtype.kind not in "iufb" or values.shape != (rows,):
            raise InvalidInputError(
                f"{where} has a number for each of {rows:,} rows, got {values.dtype} of shape"
                f" {values.shape}",
                argument="weights",
                expected=rows,
                actual=values.shape,
            )
        numbers = values.astype(np.float64)
        wrong = np.flatnonzero(~((numbers >= 0) & np.isfinite(numbers)))
        if len(wrong) or not numbers.any():
            problem = (
                f"is {shown(numbers[wrong[0]].item())} at place {int(wrong[0])}"
                if len(wrong)
                else "is 0 for every row"
            )
            raise InvalidInputError(
                f"a weight is a finite number >= 0, and one is above 0, but {where} {problem}",
                argument="weights",
            )
        return numbers

    def _weights_by_class(self, values: Any, counts: Any) -> tuple[float, ...]:
        own = self.arrangement
        if own.rule != "classes":
            return tuple(counts.astype(float).tolist())
        if own.weights is None:
            return (1.0,) * len(values)
        assert own.by is not None, "classes have a column"
        given = _by_code(self.selection, own.by, own.weights)
        unknown = [name for name in given if name not in set(values.tolist())]
        if unknown:
            raise InvalidInputError(
                f"weights of {own.by!r} name the class {shown(unknown[0])}, which has no rows",
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


def _by_code(selection: Selection, by: str, weights: Mapping[Any, Any]) -> dict[Any, float]:
    """Return weights by the values of a column: class names are codes in it."""
    names: Any = ()
    if by in {one.name for one in _tensors(selection)}:
        names = getattr(selection.snapshot.spec(by).type, "names", ())
    codes = {name: code for code, name in enumerate(names) if name}
    return {codes.get(name, name): float(weight) for name, weight in weights.items()}


def _tensors(selection: Selection) -> Any:
    return selection.snapshot.schema.tensors


def _digest_of(*arrays: Any) -> str:
    hasher = blake2b(digest_size=16, person=b"tl-arranged")
    for array in arrays:
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()
