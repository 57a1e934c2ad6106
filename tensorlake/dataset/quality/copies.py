"""Rows that are stored as the same bytes: found by digests, whatever the type of the tensor.

All samples get a digest of 64 bits. Those whose digest is not theirs alone are read once more,
for a second digest of 64 bits, so that different samples are not taken for copies by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from xxhash import xxh3_64_intdigest

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.quality.clusters import Check, Int64Array, UInt64Array
from tensorlake.dataset.sync.digests import column_digests
from tensorlake.types import Column, EncodedColumn, UniformColumn

__all__ = ["equal_rows", "first_of_equal"]

SPAN_ROWS = 1 << 16
SPAN_NBYTES = 64 << 20
SEED = 1


def equal_rows(rows: RowSet, name: str, check: Check) -> tuple[Int64Array, Int64Array]:
    """Return the positions of rows that are not NULL, and pairs of copies (indexes of those)."""
    digests = np.zeros(len(rows), np.uint64)
    valid = np.ones(len(rows), np.bool_)
    for positions, column in _columns(rows, name, check):
        digests[positions] = column_digests(column)
        if column.valid is not None:
            valid[positions] = column.valid
    used = np.flatnonzero(valid)
    _, which, counts = np.unique(digests[used], return_inverse=True, return_counts=True)
    again = np.flatnonzero(counts[which] > 1)
    if not len(again):
        return used, np.zeros((0, 2), np.int64)
    chosen = rows.take(used[again])
    seconds = [_second_digests(column) for _, column in _columns(chosen, name, check)]
    keys = np.stack([which[again].astype(np.uint64), np.concatenate(seconds)], axis=1)
    first = first_of_equal(keys)
    is_copy = first != np.arange(len(first))
    return used, np.stack([again[first[is_copy]], again[is_copy]], axis=1)


def first_of_equal(keys: UInt64Array) -> Int64Array:
    """Return for each key, (n,) or (n, k), the index of the first that equals it."""
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first[which.reshape(-1)]


def _columns(rows: RowSet, name: str, check: Check) -> Iterator[tuple[Int64Array, Column]]:
    for start, stop in rows.spans([name], rows_max=SPAN_ROWS, nbytes=SPAN_NBYTES):
        check(start, len(rows))
        positions = np.arange(start, stop)
        yield positions, rows.read(name, positions, decode=False)


def _second_digests(column: Column) -> UInt64Array:
    if isinstance(column, EncodedColumn):
        each = (xxh3_64_intdigest(sample, SEED) for sample in column.samples)
        return np.fromiter(each, np.uint64, len(column))
    values = np.ascontiguousarray(column.values)
    if isinstance(column, UniformColumn):
        ends = np.arange(len(column) + 1) * (values.nbytes // max(1, len(column)))
        tails = [b""] * len(column)
    else:
        ends = column.offsets * values.dtype.itemsize
        tails = [shape.tobytes() for shape in column.shapes]
    content = values.reshape(-1).view(np.uint8).tobytes()
    pairs = zip(pairwise(ends.tolist()), tails, strict=True)
    each = (xxh3_64_intdigest(content[start:stop] + tail, SEED) for (start, stop), tail in pairs)
    return np.fromiter(each, np.uint64, len(column))
