"""Statistics of chunks and of whole subtrees, by which a query skips them.

`Statistics` is one chunk's; `StatisticsTable` has a column of each for many extents, as index pages
store them, and merges upward so that one test prunes a subtree. All statistics are conservative: a
stored value is never outside the bounds, and an unknown bound excludes nothing.

    null_count   at most this many NULLs (exact for a whole chunk); 0 means none
    nan_count    likewise NaNs, in floats
    minimum, maximum   of all elements that are neither NULL nor NaN, in one of four domains:
                 int64 (bool, int8 … int64, uint8 … uint32), uint64, float64 (all floats), and
                 bytes (text, JSON, bytes): 16-byte prefixes, the maximum rounded up
    labels       every distinct value, where integers have at most 64
    is_empty     no element but NULL and NaN: no comparison is true of any
    shape_min, shape_max   of each axis over samples that are not NULL; min > max when all are

Bounds cost one pass over the elements. They are left out where samples of fixed shape are large
(embeddings, stacked images): those prune nothing.
"""

from __future__ import annotations

import numpy as np

from tensorlake.format.pages.statistics_table import (
    MAX_LABELS,
    PREFIX_NBYTES,
    Domain,
    Statistics,
    StatisticsTable,
)
from tensorlake.types import (
    Buffer,
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    null_count,
    widened_floats,
)

__all__ = ["Statistics", "StatisticsTable", "statistics_of"]

_BOUNDED_SAMPLE_NBYTES = 256  # samples from this size on are stored raw and addressed by row
_DENSE_RANGE = 1 << 16  # a table of this many flags finds distinct values without sorting
_UNIQUE_PROBE = 256
_MAX_INT64 = 2**63 - 1
_NO_LENGTH = (1 << 62, -1)  # the shape bounds of no sample: the identity of min and max


def statistics_of(column: Column) -> Statistics:
    """Compute the statistics of a column."""
    nulls = null_count(column)
    match column:
        case UniformColumn():
            values = column.values if column.valid is None else column.values[column.valid]
            sample_nbytes = values[:1].nbytes
            if sample_nbytes >= _BOUNDED_SAMPLE_NBYTES:
                return Statistics(nulls)
            return _of_elements(values.reshape(-1), nulls, None)
        case RaggedColumn():
            return _of_elements(column.values, nulls, _shape_bounds(column))
        case EncodedColumn() if column.shapes is not None:
            low, high = _shape_bounds(column)
            is_empty = nulls == len(column)
            return Statistics(nulls, is_empty=is_empty, shape_min=low, shape_max=high)
        case EncodedColumn():
            return _of_bytes(column, nulls)


def _of_elements(
    values: np.ndarray,
    nulls: int,
    shape_bounds: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> Statistics:
    low, high = shape_bounds or (None, None)
    values = widened_floats(values)
    nans = 0
    if values.dtype.kind in "fc":
        is_nan = np.isnan(values)
        nans = int(np.count_nonzero(is_nan))
        values = values[~is_nan] if nans else values
    if not len(values) or values.dtype.kind == "c":  # complex numbers have no order
        return Statistics(nulls, nans, is_empty=not len(values), shape_min=low, shape_max=high)
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    minimum, maximum = values.min().item(), values.max().item()
    if values.dtype.kind == "f":
        domain: Domain = "float64"
        labels = None
    else:
        domain = "uint64" if values.dtype == np.uint64 else "int64"
        labels = _distinct(values, minimum, maximum)
    return Statistics(
        nulls,
        nans,
        domain,
        minimum,
        maximum,
        labels,
        shape_min=low,
        shape_max=high,
    )


def _distinct(values: np.ndarray, minimum: int, maximum: int) -> tuple[int, ...] | None:
    """All distinct integers when they are few."""
    if maximum > _MAX_INT64:
        return None
    if minimum == maximum:
        return (minimum,)
    if maximum - minimum < _DENSE_RANGE:
        is_there = np.zeros(maximum - minimum + 1, dtype=np.bool_)
        is_there[values.astype(np.int64) - minimum] = True
        found = np.flatnonzero(is_there) + minimum
    else:
        if len(np.unique(values[:_UNIQUE_PROBE])) > MAX_LABELS:
            return None
        found = np.unique(values)
    return tuple(found.tolist()) if len(found) <= MAX_LABELS else None


def _of_bytes(column: EncodedColumn, nulls: int) -> Statistics:
    samples: list[Buffer] = column.samples
    if column.valid is not None:
        samples = [one for one, ok in zip(samples, column.valid.tolist(), strict=True) if ok]
    if not samples:
        return Statistics(nulls, is_empty=True)
    prefixes = [bytes(sample[:PREFIX_NBYTES]) for sample in samples]
    maximum = _round_up(max(prefixes))
    return Statistics(nulls, domain="bytes", minimum=min(prefixes), maximum=maximum)


def _round_up(prefix: bytes) -> bytes | None:
    """Return a prefix that is above everything that begins with this one; None if none is."""
    if len(prefix) < PREFIX_NBYTES:
        return prefix
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _shape_bounds(column: RaggedColumn | EncodedColumn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shapes = column.shapes
    assert shapes is not None
    if column.valid is not None:
        shapes = shapes[column.valid]
    if not len(shapes):
        low, high = _NO_LENGTH
        return (low,) * shapes.shape[1], (high,) * shapes.shape[1]
    return tuple(shapes.min(axis=0).tolist()), tuple(shapes.max(axis=0).tolist())
