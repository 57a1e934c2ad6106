"""Splits: assignment of rows to train, val and others.

A row's side follows from its row id, or its group's value, and the seed alone: hashed to a number
in [0, 1), which is in the range of one subset. So a row keeps its side when others are added or
deleted, and in every view; shares hold to chance (of n rows, about √n/2).

Stratified, a row's number follows from how many rows of its class came before it: the k-th gets
frac(start + k φ), a sequence that is never far from evenly spread, so that each class has its
shares to a few rows. A row then keeps its side when rows are added after it. Exact splits rank rows
by their hash and cut: shares hold to one row (or group), and sides may move when rows are added.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from tensorlake.dataset.core.indexing import not_null, unknown_column
from tensorlake.dataset.core.row_identity import ids_of
from tensorlake.errors import EmptySideWarning, InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.quantities import check_flags, checked_integer, plural
from tensorlake.types import EncodedColumn, RaggedColumn

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["split"]

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]

GOLDEN = (math.sqrt(5) - 1) / 2
SHARES_TOLERANCE = 1e-6
HASH_BITS_USED = 53  # what a float64 holds exactly
# The constants of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose bits are well mixed.
MIX_STEP, MIX_FIRST, MIX_SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def split(
    view: RowSet,
    shares: Mapping[str, float],
    *,
    seed: int,
    stratify: str | None,
    group: str | None,
    exact: bool,
) -> dict[str, RowSet]:
    """Put each row on one side."""
    bounds = _bounds(shares)
    seed = checked_integer(seed, name="seed", least=None)
    if not view.has_rows:
        raise InvalidInputError(
            "the values of a query have no row ids to split by"
            "\nsplit the rows that they were made from"
        )
    if stratify is not None and group is not None:
        raise UnsupportedFeatureError(
            "a split is stratified or by group, not both: a group may have several classes"
            "\nleave out stratify=, or group="
        )
    check_flags(exact=exact)
    if group is not None:
        units, hashes = _groups(view, group, seed)
    else:
        units, hashes = _rows(view, seed)
    if stratify is not None:
        sides = _stratified(view, stratify, units, hashes, bounds, seed=seed, exact=exact)
    elif exact:
        sides = _cut(hashes, np.bincount(units, minlength=len(hashes)), bounds)[units]
    else:
        sides = _side_of(_fraction(hashes), bounds)[units]
    parts = {name: view.take(np.flatnonzero(sides == at)) for at, name in enumerate(shares)}
    empty = [name for name, part in parts.items() if len(part) == 0]
    if empty and len(view) > 0:
        _warn_of_empty(
            empty, len(view), None if group is None else (group, len(hashes)), exact=exact
        )
    return parts


def _warn_of_empty(
    empty: list[str], num_rows: int, groups: tuple[str, int] | None, *, exact: bool
) -> None:
    rows = plural(num_rows, "row")
    among = rows if groups is None else f"{plural(groups[1], 'group')} of {groups[0]!r} in {rows}"
    cure = "its share of them rounds to none" if exact else "with exact=True shares hold to one"
    names = ", ".join(repr(name) for name in empty)
    warnings.warn(f"{names} got none of {among};\n{cure}", EmptySideWarning, stacklevel=4)


def _bounds(shares: object) -> FloatArray:
    given = cast("Mapping[Any, Any]", shares) if isinstance(shares, Mapping) else {}
    are_numbers = all(isinstance(share, int | float | np.number) for share in given.values())
    values = np.array([*given.values()], dtype=np.float64) if are_numbers else np.zeros(0)
    is_good = len(values) > 0 and bool((values > 0).all())
    if not is_good or abs(float(values.sum()) - 1) > SHARES_TOLERANCE:
        raise InvalidInputError(
            f"the shares {shown(shares)} are not positive numbers that sum to 1"
            '\ngive them so: ds.split({"train": 0.8, "val": 0.2})',
            actual=shares,
        )
    return np.cumsum(values)[:-1]


def _rows(view: RowSet, seed: int) -> tuple[Int64Array, UInt64Array]:
    """Number the different rows, and hash the id of each."""
    selection = view.selection
    physical = selection.physical(selection.all_positions())
    different, units = np.unique(physical, return_inverse=True)
    ids = ids_of(selection.snapshot, different)
    mixed = np.full(len(different), seed % (1 << 64), dtype=np.uint64)
    for part in ("txid_high", "txid_low", "offset"):
        mixed = _mix(mixed ^ ids[part].astype(np.uint64))
    return units.astype(np.int64), mixed


def _mix(values: UInt64Array) -> UInt64Array:
    """Mix the bits of each number (SplitMix64's finalizer); arithmetic wraps."""
    mixed = values + np.uint64(MIX_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(MIX_FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(MIX_SECOND)
    return mixed ^ (mixed >> np.uint64(31))


def _groups(view: RowSet, name: str, seed: int) -> tuple[Int64Array, UInt64Array]:
    """Number the different values of a column, and hash each."""
    units, values = _values(view, name, call="group")
    hashed = [xxh3_64_intdigest(value, seed % (1 << 64)) for value in values]
    return units, np.array(hashed, dtype=np.uint64)


def _values(view: RowSet, name: str, *, call: str) -> tuple[Int64Array, list[bytes]]:
    """Number the different values of a column by row; and each as bytes."""
    selection = view.selection
    if not isinstance(name, str):
        raise unknown_column(name, selection.columns)
    if name not in selection.columns:
        if name not in selection.snapshot.schema:
            raise unknown_column(name, selection.columns)
        selection = selection.with_columns((name,))
    sample_type = selection.snapshot.spec(name).type
    if view.is_expression(name):
        column = view.read(name)
    else:
        physical = selection.physical(selection.all_positions())
        column = view.reader().read(name, physical, decode=False)
    if isinstance(column, RaggedColumn) or sample_type.is_media or sample_type.shape:
        raise InvalidInputError(
            f"{call}={name!r} needs one value a row, and it is {sample_type.describe()}",
            tensor=name,
        )
    if column.valid is not None and not column.valid.all():
        row = int(selection.row_numbers(np.array([np.argmin(column.valid)]))[0])
        raise InvalidInputError(
            f"row {row} of {name!r} is NULL, so it has no {'group' if call == 'group' else 'class'}"
            f"\nsplit the rows that have it: ds.where({not_null(name)}).split(…)",
            tensor=name,
            row=row,
        )
    if isinstance(column, EncodedColumn):
        number: dict[bytes, int] = {}
        units = [number.setdefault(bytes(one), len(number)) for one in column.samples]
        return np.array(units, dtype=np.int64), [*number]
    different, units = np.unique(column.values, return_inverse=True)
    return units.astype(np.int64), [str(value).encode() for value in different.tolist()]


def _stratified(
    view: RowSet,
    name: str,
    units: Int64Array,
    hashes: UInt64Array,
    bounds: FloatArray,
    *,
    seed: int,
    exact: bool,
) -> Int64Array:
    classes, values = _values(view, name, call="stratify")
    class_of = np.zeros(len(hashes), dtype=np.int64)
    class_of[units] = classes
    sides = np.zeros(len(hashes), dtype=np.int64)
    drawn = [xxh3_64_intdigest(value, seed % (1 << 64)) for value in values]
    owed = np.zeros(len(bounds) + 1)
    for at in sorted(range(len(values)), key=drawn.__getitem__):
        members = np.flatnonzero(class_of == at)  # in the order of the rows
        if exact:
            counts = _counts(len(members), bounds, owed)
            ranks = np.argsort(np.argsort(hashes[members], kind="stable"), kind="stable")
            sides[members] = np.searchsorted(np.cumsum(counts)[:-1], ranks, side="right")
            continue
        spread = np.mod(drawn[at] / (1 << 64) + np.arange(len(members)) * GOLDEN, 1.0)
        sides[members] = _side_of(spread, bounds)
    return sides[units]


def _counts(rows: int, bounds: FloatArray, owed: FloatArray) -> Int64Array:
    """How many of a class's rows each side gets: its share, rounded down or up.

    Rounded up are the sides that lost most by rounding in the classes before, which ``owed`` keeps:
    else all classes of one row would go to one side.
    """
    wanted = np.diff(bounds, prepend=0.0, append=1.0) * rows
    counts = np.floor(wanted).astype(np.int64)
    owed += wanted - counts
    rest = rows - int(counts.sum())
    raised = np.argsort(-owed, kind="stable")[:rest]
    counts[raised] += 1
    owed[raised] -= 1
    return counts


def _fraction(hashes: UInt64Array) -> FloatArray:
    return (hashes >> np.uint64(64 - HASH_BITS_USED)) / float(1 << HASH_BITS_USED)


def _side_of(fractions: FloatArray, bounds: FloatArray) -> Int64Array:
    return np.searchsorted(bounds, fractions, side="right").astype(np.int64)


def _cut(hashes: UInt64Array, counts: Int64Array, bounds: FloatArray) -> Int64Array:
    """Rank units by hash and cut where the rows so far are nearest to the shares."""
    order = np.argsort(hashes, kind="stable")
    ends = np.cumsum(counts[order])
    total = int(ends[-1]) if len(ends) else 0
    middles = ends - counts[order] / 2
    sides = np.empty(len(hashes), dtype=np.int64)
    sides[order] = np.searchsorted(np.rint(bounds * total), middles, side="left")
    return sides
