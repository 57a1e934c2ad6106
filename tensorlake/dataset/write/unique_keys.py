"""Whether keys are unique: the rows that may have one again, and integer keys compared.

Rows are left out by the bounds of their chunks, then by an index of the column. Integers are
compared in sorted order; keys of other types are numbered first (``key_matching.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.format import TensorSpec
from tensorlake.indexes import OPERATORS, Condition, apart_from, open_indexes, rows_where
from tensorlake.reading import Reader, Snapshot
from tensorlake.storage import runtime
from tensorlake.types import Column, UniformColumn
from tensorlake.versions import Ranges, distinct, intersect, ranges_of, rows_in, subtract, union

__all__ = [
    "READ_ROWS",
    "count_of",
    "integers_of",
    "occurs_again",
    "read_rows",
    "repeated_integers",
    "rows_apart",
    "shown_rows",
]

Int64Array = npt.NDArray[np.int64]

READ_ROWS = 1 << 16
"""Up to this number of rows, reading all keys is faster than looking for those that matter."""

FEW_KEYS = 8
"""Up to this number of keys, each is compared with all: a millisecond for a million of each."""

BLOCK_ROWS = 1 << 20
"""Stored keys that are compared at once; as many as there are others, if these are more."""

INDEXED_KEYS = 64
"""Up to this number of keys, an index is asked for them."""


def repeated_integers(
    reader: Reader,
    snapshot: Snapshot,
    spec: TensorSpec,
    numbers: npt.NDArray[Any],
    rows: Int64Array | None,
) -> npt.NDArray[np.bool_]:
    """Return whether another row of a version has the key of each row.

    Args:
        reader: The version's reader.
        snapshot: The version.
        spec: The tensor of the key.
        numbers: The integers that the rows have, none of them NULL.
        rows: The rows, ascending; None: all rows of the version.
    """
    ordered = numbers if bool((numbers[1:] > numbers[:-1]).all()) else np.sort(numbers)
    is_again = np.zeros(len(numbers), np.bool_)
    if bool((ordered[1:] == ordered[:-1]).any()):
        is_again = occurs_again(numbers)
    if rows is not None:
        apart = rows_apart(snapshot, (spec.name, ordered), rows)
        for values in _stored(reader, snapshot, spec, ordered, apart):
            is_again |= _are_among(numbers, ordered, values)
    return is_again


def shown_rows(snapshot: Snapshot, rows: Ranges) -> Int64Array | None:
    """Return the rows that a version shows among physical rows, ascending; None for all."""
    if not len(apart_from(rows, snapshot.state.physical)):
        return None
    first = snapshot.first_physical
    if first is not None:  # rows follow one another: no tree is asked
        own = np.array([[first, first + snapshot.num_rows]], np.int64)
        return rows_in(intersect(rows, own)) - first
    found = snapshot.rows_of(rows_in(rows))
    return distinct(found[found >= 0])


def read_rows(reader: Reader, snapshot: Snapshot, spec: TensorSpec, rows: Int64Array) -> Column:
    """Read ascending rows; those that follow one another as one run."""
    first = snapshot.first_physical
    if first is None or not len(rows) or rows[-1] - rows[0] + 1 != len(rows):
        return reader.read(spec.name, snapshot.physical(rows), decode=False)
    return reader.read_run(spec.name, first + int(rows[0]), first + int(rows[-1]) + 1)


def integers_of(keys: list[TensorSpec], columns: Mapping[str, Any]) -> npt.NDArray[Any] | None:
    """Return the keys as integers; None where they are not, or where one is NULL."""
    column = columns[keys[0].id]
    if (
        len(keys) > 1
        or not isinstance(column, UniformColumn)
        or column.values.dtype.kind not in "iu"
    ):
        return None
    return column.values if column.valid is None or bool(column.valid.all()) else None


def occurs_again(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each value occurs more than once."""
    order = np.argsort(values, kind="stable")
    same = values[order][1:] == values[order][:-1]
    again = np.zeros(len(values), np.bool_)
    again[order[1:]] |= same
    again[order[:-1]] |= same
    return again


def rows_apart(
    snapshot: Snapshot, ordered: tuple[str, npt.NDArray[Any]] | None, rows: Int64Array
) -> Ranges:
    """Return the rows apart from some, of those whose chunk may have one of sorted values."""
    wanted = np.array([[0, snapshot.num_rows]], np.int64)
    zones = None if ordered is None else snapshot.zones(ordered[0])
    if zones is not None and ordered is not None and len(ordered[1]):
        values = ordered[1]
        low = np.searchsorted(values, zones.minimum, side="left")
        high = np.searchsorted(values, zones.maximum, side="right")
        may = ~zones.known | ((high > low) & ~zones.empty)
        wanted = np.stack((zones.starts[:-1], zones.starts[1:]), axis=1)[may]
    is_run = len(rows) > 0 and int(rows[-1] - rows[0]) + 1 == len(rows)
    own = np.array([[rows[0], rows[-1] + 1]], np.int64) if is_run else ranges_of(rows)
    return subtract(wanted, own)


def count_of(ranges: Ranges) -> int:
    """Count the rows of ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def _stored(
    reader: Reader,
    snapshot: Snapshot,
    spec: TensorSpec,
    ordered: npt.NDArray[Any],
    apart: Ranges,
) -> Iterator[npt.NDArray[Any]]:
    """Yield the keys of some rows, and of these surely all that are among sorted ones.

    An index of the column, where there is one, names the rows of few keys.
    """
    if len(ordered) <= INDEXED_KEYS and count_of(apart) > READ_ROWS:
        apart = _by_index(reader, snapshot, spec, ordered, apart)
    runtime.run_here(reader.index(spec.name).load())
    first = snapshot.first_physical
    if len(ordered) > FEW_KEYS or not reader.store.is_local or count_of(apart) <= READ_ROWS:
        apart = union([apart])  # together: each chunk of another store is a request
    rows_max = max(BLOCK_ROWS, len(ordered))
    pieces = [
        (start, min(start + rows_max, last))
        for begin, last in apart.tolist()
        for start in range(begin, last, rows_max)
    ]
    for start, stop in pieces:
        if first is None:
            column = reader.read(spec.name, snapshot.physical(np.arange(start, stop)))
        else:
            column = reader.read_run(spec.name, first + start, first + stop)
        assert isinstance(column, UniformColumn), "as those of the rows"
        yield column.values if column.valid is None else column.values[column.valid]


def _by_index(
    reader: Reader,
    snapshot: Snapshot,
    spec: TensorSpec,
    ordered: npt.NDArray[Any],
    apart: Ranges,
) -> Ranges:
    """Return the rows, of some, that an index does not know, or knows to have one of few keys."""
    for index in open_indexes(reader, spec.name):
        if "in" not in OPERATORS.get(index.kind, ()):
            continue
        wanted = Condition("in", tuple(ordered.tolist()), partial(_is_one_of, ordered))
        physical = rows_where(index, [wanted], READ_ROWS)
        if physical is None:
            continue
        known = union([index.uncovered, ranges_of(physical)])
        shown = shown_rows(snapshot, known)
        return apart if shown is None else intersect(union([apart]), ranges_of(shown))
    return apart


def _is_one_of(ordered: npt.NDArray[Any], column: Column) -> npt.NDArray[np.bool_]:
    assert isinstance(column, UniformColumn), "an index of numbers has numbers"
    return np.isin(column.values, ordered)


def _are_among(
    numbers: npt.NDArray[Any], ordered: npt.NDArray[Any], values: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Whether each number is one of many values, which are looked up in the sorted numbers."""
    if len(ordered) <= FEW_KEYS:
        found = [number for number in ordered.tolist() if bool((values == number).any())]
        return np.isin(numbers, np.array(found, numbers.dtype))
    if not _has_equal(ordered, values):
        return np.zeros(len(numbers), np.bool_)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.isin(numbers, values[ordered[at] == values])


def _has_equal(ordered: npt.NDArray[Any], values: npt.NDArray[Any]) -> bool:
    """Whether two sets of numbers may have one in common.

    Sorting both together takes a tenth of the time of looking each up among a million.
    """
    both = np.concatenate([ordered, values])
    both.sort()
    return bool((both[1:] == both[:-1]).any())
