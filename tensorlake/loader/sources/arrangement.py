"""``ArrangedRows``: rows by ``weights=``, ``stratify=``, ``group=``, ``limit=``, ``repeat=``.

    argument ─► a rule and a column ─► one pass over the column ─► sums, or rows sorted by class
             ─► the plan of an epoch, for any place (``plan/arrangement.py``)

The pass reads the column alone, when the order is first needed: before the first batch, or by
``state_dict()`` and ``explain()``, which shows its size. ``len()`` needs none. The result takes 8
bytes per row, and a digest of it is recorded in states: ranks and resumed loaders read the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.loader.config.arrangement import Arrangement, arrangement_of
from tensorlake.loader.plan.arrangement import (
    PLACES_STOP,
    ArrangedOrder,
    ClassPlan,
    GroupedPlan,
    RepeatedPlan,
    WeightedPlan,
    weight_units,
)
from tensorlake.loader.plan.mix_order import AnyOrder, MixOrder
from tensorlake.loader.plan.order import Order, Shuffle
from tensorlake.loader.plan.plan import Plan, PlanKey
from tensorlake.loader.plan.selection import Int64Array, Reader, Selection
from tensorlake.loader.plan.state import LoaderState, Place, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.column_values import column_values
from tensorlake.loader.sources.mix.weights import units_of
from tensorlake.loader.sources.rows import OrderedRows, SelectedRows
from tensorlake.quantities import human_nbytes, is_whole_number, plural
from tensorlake.types import Bool, Scalar, unknown_class

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments

__all__ = ["ArrangedRows", "arranged"]

BRIEF_ITEMS = 16  # of class weights that a state records
ENTRY_NBYTES = 8
PLACES_LIMIT = 1 << 62  # of an epoch
NUMBERS = "iufb"  # kinds of NumPy dtypes


@runtime_checkable
class ArrangeableRows(Protocol):
    """Rows that have orders of their own: mixes, packed sequences and windows."""

    def arranged(self, arrangement: Arrangement) -> OrderedRows:
        """Return the same rows in the order that arguments ask for.

        Raises:
            InvalidInputError: They do not have this order.
        """
        ...


def arranged(rows: OrderedRows, arguments: LoaderArguments) -> OrderedRows:
    """Return the rows in the order that a loader's arguments ask for.

    Raises:
        InvalidInputError: The arguments do not fit them.
        TensorNotFoundError: They have no such column.
    """
    given = arguments.weights, arguments.stratify, arguments.group, arguments.limit
    own = arrangement_of(*given, arguments.repeat)
    if own.is_plain:
        return rows
    if isinstance(rows, ArrangeableRows):
        return rows.arranged(own)
    assert isinstance(rows, SelectedRows), "all others have orders of their own"
    if arguments.decode_on == "server":
        raise InvalidInputError(
            "decode_on='server' cannot order rows by weights=, stratify=, group=, limit= or repeat="
            "\nleave decode_on out",
            argument="decode_on",
        )
    _check(rows, own)
    return ArrangedRows(rows, own)


def _check(rows: SelectedRows, own: Arrangement) -> None:
    """Refuse arguments that do not fit the rows, without reading a value."""
    count = rows.selection.num_rows
    if count * own.repeat > PLACES_LIMIT:
        most = PLACES_LIMIT // count
        raise InvalidInputError(
            f"repeat={own.repeat} of {count:,} rows: an epoch has at most 2**62 rows"
            f"\nrepeat at most {most} times",
            argument="repeat",
            expected=most,
            actual=own.repeat,
        )
    if own.by is not None:
        _check_column(rows, own)
    elif own.rule == "weighted":
        _check_numbers(own.weights, count, "weights=")


def _check_column(rows: SelectedRows, own: Arrangement) -> None:
    assert own.by is not None, "asked for a column"
    by, virtual = own.by, rows.virtual.get(own.by)
    if by == "balanced" and own.rule == "weighted" and by not in _names(rows.selection):
        raise InvalidInputError(
            "weights='balanced' names no column\nname the classes' column: {'label': 'balanced'}",
            argument="weights",
        )
    sample_type: Any = rows.selection.snapshot.spec(by).type if virtual is None else virtual
    names = getattr(sample_type, "names", None)
    if own.rule == "classes" and own.weights is not None and names:
        _by_code(by, names, own.weights)
    if own.rule != "weighted":
        return
    is_number = isinstance(sample_type, Scalar | Bool) if virtual is None else virtual.dtype
    if names or not is_number:
        kind = "class codes" if names else _kind_of(sample_type)
        raise InvalidInputError(
            f"weights={by!r} is a column of {kind}, and a weight is a number"
            f"\nweigh its classes: weights={{{by!r}: 'balanced'}}, or {{{by!r}: {{value: 2.0}}}}",
            argument="weights",
            tensor=by,
        )


def _kind_of(sample_type: Any) -> str:
    return sample_type.describe() if hasattr(sample_type, "describe") else "strings or objects"


def _check_numbers(values: Any, rows: int, where: str) -> None:
    """Refuse weights that are not a number for each row, or have no sum."""
    if values.dtype.kind not in NUMBERS or values.shape != (rows,):
        raise InvalidInputError(
            f"{where} has {values.dtype} of shape {values.shape}, and the view {rows:,} rows"
            "\ngive one number for each row",
            argument="weights",
            expected=rows,
            actual=values.shape,
        )
    wrong = np.flatnonzero(~((values >= 0) & np.isfinite(values)))
    if len(wrong):
        raise InvalidInputError(
            f"a weight is a finite number >= 0, but {where} is {shown(values[wrong[0]].item())} at"
            f" place {int(wrong[0])}\ngive rows that should not come the weight 0",
            argument="weights",
        )
    if rows and not values.any():
        raise InvalidInputError(
            f"{where} is 0 for all {rows:,} rows\ngive one of them a weight above 0",
            argument="weights",
        )


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
        """How to find the rows again, with the arguments of their order, if both are brief."""
        source, arguments = self.rows.source, self.arrangement.arguments
        return None if source is None or arguments is None else {**source, "order": arguments}

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
        if not self._length:
            return self.rows.plan(order.base, seed=seed, epoch=epoch)
        if self.arrangement.repeat == 1 and self.num_places == self._length:
            return self._once(order, seed, epoch)

        def make(number: int) -> Plan:
            return self._once(order, seed, number)

        first = epoch * self.arrangement.repeat
        return RepeatedPlan(make, first, self._length, self.num_places)

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order, which is the same at every place."""
        del place
        return order

    def describe(self, order: AnyOrder) -> str:
        """Describe the order, and the pass over a column that it needs."""
        assert isinstance(order, ArrangedOrder)
        by, rows = order.by, self.selection.num_rows
        if order.rule == "rows":
            return order.describe()
        memory = f"{human_nbytes(ENTRY_NBYTES * rows)} of memory"
        if self._read.starts is not None:
            memory += f", for {plural(len(self._read.starts) - 1, 'distinct value')}"
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
        if own.rule == "rows" or not rows:
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
        if own.by is None:
            _check_numbers(own.weights, rows, "weights=")  # the version may be another one
            return own.weights.astype(np.float64)
        values = np.asarray(column_values(self.rows, own.by))
        _check_numbers(values, rows, f"column {own.by!r}")
        return values.astype(np.float64)

    def _class_names(self, by: str) -> Sequence[str]:
        """Return the names of a column's classes; none if it has other values."""
        virtual = self.virtual.get(by)
        owner: Any = self.selection.snapshot.spec(by).type if virtual is None else virtual
        return getattr(owner, "names", None) or ()

    def _weights_by_class(self, values: Any, counts: Any) -> tuple[float, ...]:
        own = self.arrangement
        if own.rule != "classes":
            return tuple(counts.astype(float).tolist())
        if own.weights is None:
            return (1.0,) * len(values)
        assert own.by is not None, "classes have a column"
        given = _by_code(own.by, self._class_names(own.by), own.weights)
        known = set(values.tolist())
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


def _by_code(by: str, names: Sequence[str], weights: Mapping[Any, Any]) -> dict[Any, float]:
    """Return weights by the values of a column: class names are codes in it.

    Raises:
        UnknownClassError: A class is not declared.
        InvalidInputError: One is named twice.
    """
    codes = {name: code for code, name in enumerate(names) if name}
    given: dict[Any, float] = {}
    for name, weight in weights.items():
        code = codes.get(name, name)
        is_known = not names or (is_whole_number(code) and 0 <= code < len(names) and names[code])
        if not is_known:
            raise unknown_class(name, names, tensor=by)
        if code in given:
            raise InvalidInputError(
                f"weights of {by!r} name one class twice: {shown(name)} has the code {code}"
                "\ngive each class one weight, by its name",
                argument="weights",
                actual=name,
            )
        given[code] = float(weight)
    return given


def _names(selection: Selection) -> set[str]:
    tensors: Any = selection.snapshot.schema.tensors
    return {one.name for one in tensors}


def _digest_of(*arrays: Any) -> str:
    hasher = blake2b(digest_size=16, person=b"tl-arranged")
    for array in arrays:
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()
