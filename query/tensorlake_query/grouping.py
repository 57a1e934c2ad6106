"""Groups: rows with equal keys, numbered in the order in which they first appear.

NULL is a group of its own, and so is NaN. Without keys there is one group, also of no rows.
"""

import json
from collections.abc import Hashable, Sequence

import numpy as np
from msgspec import Struct

from tensorlake_query.source import IntArray, UniformBatch
from tensorlake_query.vectors import Vector, as_ragged, counts_of, take, valid_of


class Groups(Struct, frozen=True):
    """Which group each row is in, how many there are, and the keys of each."""

    of_row: IntArray
    count: int
    keys: tuple[Vector, ...]


def group_rows(keys: Sequence[Vector], num_rows: int) -> Groups:
    """Group rows by equal keys."""
    if not keys:
        return Groups(np.zeros(num_rows, np.int64), 1, ())
    codes = np.zeros(num_rows, np.int64)
    for key in keys:
        ranks, count = codes_of(key)
        # renumbered after each key, so that the product stays below rows × distinct values
        _, codes = np.unique(codes * (count + 1) + ranks, return_inverse=True)
        codes = codes.reshape(-1)
    _, first = np.unique(codes, return_index=True)
    by_appearance = np.argsort(first, kind="stable")
    number_of = np.empty(len(first), np.int64)
    number_of[by_appearance] = np.arange(len(first))
    firsts = first[by_appearance].astype(np.int64)
    return Groups(number_of[codes], len(first), tuple(take(key, firsts) for key in keys))


def codes_of(vector: Vector) -> tuple[IntArray, int]:
    """Number the distinct values of a vector, of any type; NULL has the last number.

    Returns:
        A number for each row, and how many numbers there are for values.
    """
    if isinstance(vector, UniformBatch) and vector.values.ndim == 1:
        if vector.values.dtype == object:
            ranks, count = _numbered([_hashable(each) for each in vector.values.tolist()])
        else:
            distinct, ranks = np.unique(vector.values, return_inverse=True)
            ranks, count = ranks.reshape(-1), len(distinct)
    else:
        ranks, count = _numbered(_array_keys(vector))
    return np.where(valid_of(vector), ranks, count), count


def _numbered(keys: Sequence[Hashable]) -> tuple[IntArray, int]:
    numbers: dict[Hashable, int] = {}
    ranks = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(ranks, np.int64), len(numbers)


def _hashable(value: object) -> Hashable:
    """Return a key that is equal for equal text, bytes or JSON; true is not 1."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, bool) or value is None:
        return (type(value), value)
    if isinstance(value, int | float):
        return (float, value)
    return (list, json.dumps(value, sort_keys=True, ensure_ascii=False))


def _array_keys(vector: Vector) -> Sequence[Hashable]:
    """Return each row's shape and bytes; −0.0 is 0.0, and NaN is NaN."""
    ragged = as_ragged(vector)
    values = ragged.values + 0 if ragged.values.dtype.kind == "f" else ragged.values
    if values.dtype == object:
        whole: Sequence[Hashable] = values.tolist()
    else:
        whole = np.ascontiguousarray(values).tobytes()
    size = 1 if values.dtype == object else values.itemsize
    stops = np.cumsum(counts_of(ragged.shapes)) * size
    starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
    shapes = map(tuple, ragged.shapes.tolist())
    runs = zip(shapes, starts.tolist(), stops.tolist(), strict=True)
    if isinstance(whole, bytes):
        return [(shape, whole[start:stop]) for shape, start, stop in runs]
    return [(shape, tuple(whole[start:stop])) for shape, start, stop in runs]
