"""Statistics of chunks and of whole subtrees, by which a query skips them.

`Statistics` is one chunk's, and is written into a tail as JSON; a `StatisticsTable`
(pages/statistics_table.py) has a column of each for many extents, as index pages store them, and
merges upward so that one test prunes a subtree. All statistics are conservative: a
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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from tensorlake.types import (
    Buffer,
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    null_count,
    widened_floats,
)

__all__ = [
    "Domain",
    "JsonColumns",
    "Statistics",
    "joined_statistics_json",
    "statistics_json",
    "statistics_of",
]

Domain = Literal["int64", "uint64", "float64", "bytes"]
JsonColumns: TypeAlias = dict[str, list[Any]]
"""Columns as ``columns_to_json`` writes them: by name, [dtype, items] or [dtype, width, items]."""

MAX_LABELS = 64  # design: "small label sets"; a set of codes costs at most 512 bytes an extent
PREFIX_NBYTES = 16
HAS_MINIMUM, HAS_MAXIMUM, HAS_LABELS, HAS_SHAPES, IS_EMPTY = 1, 2, 4, 8, 16
DTYPES = {
    "int64": np.dtype("<i8"),
    "uint64": np.dtype("<u8"),
    "float64": np.dtype("<f8"),
    "bytes": np.dtype("|u1"),
}

_BOUNDED_SAMPLE_NBYTES = 256  # samples from this size on are stored raw and addressed by row
_DENSE_RANGE = 1 << 16  # a table of this many flags finds distinct values without sorting
_UNIQUE_PROBE = 256
_MAX_INT64 = 2**63 - 1
_NO_LENGTH = (1 << 62, -1)  # the shape bounds of no sample: the identity of min and max


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one chunk's samples."""

    null_count: int = 0
    nan_count: int = 0
    domain: Domain | None = None
    minimum: int | float | bytes | None = None
    maximum: int | float | bytes | None = None
    labels: tuple[int, ...] | None = None
    is_empty: bool = False
    shape_min: tuple[int, ...] | None = None
    shape_max: tuple[int, ...] | None = None


def statistics_of(column: Column, *, has_bounds: bool = True) -> Statistics:
    """Compute the statistics of a column.

    Args:
        column: The samples.
        has_bounds: Whether to keep bounds, labels and shapes, too, which tell of values; otherwise
            only how many samples are NULL or NaN.
    """
    found = _all_of(column)
    if has_bounds:
        return found
    return Statistics(found.null_count, found.nan_count, is_empty=found.is_empty)


def _all_of(column: Column) -> Statistics:
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
    samples: Sequence[Buffer] = column.samples
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


def statistics_json(rows: Sequence[Statistics]) -> JsonColumns:
    """Write statistics as the table of them would: its sections, as ``columns_to_json`` has them.

    Bounds of another domain, and shapes of another ndim, than the last row's are dropped.
    """
    domains: list[Domain] = [row.domain for row in rows if row.domain is not None]
    domain = domains[-1] if domains else None
    shape = next((row.shape_min for row in reversed(rows) if row.shape_min is not None), ())
    flags = [_flags(row, domain, len(shape)) for row in rows]
    flags_used = 0
    for flag in flags:
        flags_used |= flag
    written: JsonColumns = {"null_count": ["<i8", [row.null_count for row in rows]]}
    nans = [row.nan_count for row in rows]
    if any(nans):
        written["nan_count"] = ["<i8", nans]
    if flags_used:
        written["flags"] = ["|u1", flags]
    if domain is not None and flags_used & (HAS_MINIMUM | HAS_MAXIMUM):
        bounded = [row if row.domain == domain else Statistics() for row in rows]
        written["minimum"] = _bounds_json([row.minimum for row in bounded], domain)
        written["maximum"] = _bounds_json([row.maximum for row in bounded], domain)
    if flags_used & HAS_LABELS:
        labels = [row.labels or () for row in rows]
        written["label_count"] = ["|u1", [len(one) for one in labels]]
        written["labels"] = ["<i8", [code for one in labels for code in one]]
    if flags_used & HAS_SHAPES:
        none = (0,) * len(shape)
        for name in ("shape_min", "shape_max"):
            shapes = [
                getattr(row, name) if flag & HAS_SHAPES else none
                for row, flag in zip(rows, flags, strict=True)
            ]
            written[name] = ["<i8", len(shape), [length for one in shapes for length in one]]
    return written


def joined_statistics_json(
    first: JsonColumns, second: JsonColumns, entries: tuple[int, int]
) -> JsonColumns | None:
    """Write the statistics of two runs of extents as those of one; None where forms differ.

    Args:
        first: Statistics, each extent's known.
        second: Those of the extents that follow.
        entries: How many extents each has.
    """
    joined: JsonColumns = {}
    for name in first if first.keys() == second.keys() else {**first, **second}:
        one = first.get(name) or _nothing(name, second[name], entries[0])
        other = second.get(name) or _nothing(name, first[name], entries[1])
        *form, items = one
        *other_form, more = other
        if form != other_form:
            return None
        joined[name] = [*form, items + more]
    return joined


def _nothing(name: str, like: list[Any], entries: int) -> list[Any]:
    """Return the column of extents of which nothing is known there."""
    *form, _ = like
    width = form[1] if len(form) > 1 else 1
    zero = 0.0 if form[0] == DTYPES["float64"].str else 0  # other bytes as JSON, the same number
    return [*form, [] if name == "labels" else [zero] * (entries * width)]


def _flags(row: Statistics, domain: Domain | None, ndim: int) -> int:
    is_bounded = row.domain == domain
    return (
        (HAS_MINIMUM if is_bounded and row.minimum is not None else 0)
        | (HAS_MAXIMUM if is_bounded and row.maximum is not None else 0)
        | (HAS_LABELS if row.labels is not None else 0)
        | (HAS_SHAPES if ndim and row.shape_min is not None and len(row.shape_min) == ndim else 0)
        | (IS_EMPTY if row.is_empty else 0)
    )


def _bounds_json(bounds: Sequence[Any], domain: Domain) -> list[Any]:
    if domain == "bytes":
        padded = b"".join((bound or b"").ljust(PREFIX_NBYTES, b"\0") for bound in bounds)
        return [DTYPES[domain].str, PREFIX_NBYTES, list(padded)]
    items: list[Any] = [bound or 0 for bound in bounds]
    if domain == "float64":
        items = [float(item) if math.isfinite(item) else str(item) for item in items]
    return [DTYPES[domain].str, items]
