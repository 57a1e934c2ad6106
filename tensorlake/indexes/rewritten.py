"""Cells whose chunk was written again with equal values, such as the neighbours of an updated one.

An update writes its chunk again. Where the earlier chunk is still stored, its values are compared,
byte by byte, so that an index covers all rows but those whose values changed. Chunks that were
collected since, and more bytes than a query can wait for, are left: their rows are scanned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorlake.errors import CorruptionError, SnapshotExpiredError
from tensorlake.format import Extents, Root, TensorSpec, rewritten_rows
from tensorlake.indexes.kind import RowRanges
from tensorlake.reading import Reader
from tensorlake.storage import runtime
from tensorlake.types import (
    Column,
    EncodedColumn,
    PackedSamples,
    UniformColumn,
    as_ragged,
    offsets_of,
)

__all__ = ["same_samples", "unchanged_cells"]

LOCAL_NBYTES, REMOTE_NBYTES = 64 << 20, 16 << 20
"""Stored bytes, before and after, that are read to compare them: up to some 100 ms."""

ROWS_AT_ONCE = 1 << 14


def unchanged_cells(
    reader: Reader, spec: TensorSpec, state: Root[Extents], root: Root[Extents], known: RowRanges
) -> RowRanges:
    """Return rows whose cells were written again with equal values.

    Args:
        reader: A reader of the version.
        spec: The tensor.
        state: Its cells as they were.
        root: Its cells in the version.
        known: Rows that need not be compared.
    """
    none = np.empty((0, 2), np.int64)
    if spec.type.is_media:
        return none
    most = LOCAL_NBYTES if reader.store.is_local else REMOTE_NBYTES
    pages = reader.snapshot.packs.pages
    ranges = runtime.run(rewritten_rows(state, root, pages, known, most))
    before, found = reader.cells(spec.name, state), [none]
    for start, stop in ranges.tolist():
        for first in range(start, stop, ROWS_AT_ONCE):
            last = min(first + ROWS_AT_ONCE, stop)
            try:
                earlier = before.read_run(spec.name, first, last)
            except (CorruptionError, SnapshotExpiredError):
                break  # it was collected: nothing to compare with
            now = reader.read_run(spec.name, first, last)
            found.append(first + _ranges(same_samples(earlier, now)))
    return np.concatenate(found)


def same_samples(one: Column, other: Column) -> npt.NDArray[np.bool_]:
    """Return where two columns of as many samples have equal bytes and shapes, or both NULL.

    >>> same_samples(UniformColumn(np.array([0.0, 1])), UniformColumn(np.array([-0.0, 1])))
    array([False,  True])
    """
    known = [
        np.ones(len(one), np.bool_) if side.valid is None else side.valid for side in (one, other)
    ]
    return (known[0] == known[1]) & (~known[0] | _same_values(one, other))


def _same_values(one: Column, other: Column) -> npt.NDArray[np.bool_]:
    count = len(one)
    if not count:
        return np.zeros(0, np.bool_)
    match one, other:
        case EncodedColumn(samples=first), EncodedColumn(samples=second):
            if isinstance(first, PackedSamples) and isinstance(second, PackedSamples):
                return _same_parts(*map(_packed, (first, second)))
            pairs = zip(first, second, strict=True)
            return np.array([bytes(a) == bytes(b) for a, b in pairs], np.bool_)
        case EncodedColumn(), _:
            return np.zeros(count, np.bool_)
        case _, EncodedColumn():
            return np.zeros(count, np.bool_)
        case UniformColumn(values=first), UniformColumn(values=second):
            if first.dtype != second.dtype or first.shape != second.shape:
                return np.zeros(count, np.bool_)
            left, right = (_as_bytes(side).reshape(count, -1) for side in (first, second))
            return np.all(left == right, axis=1)
        case _:
            left, right = as_ragged(one), as_ragged(other)
            if left.values.dtype != right.values.dtype or left.shapes.shape != right.shapes.shape:
                return np.zeros(count, np.bool_)
            size = left.values.dtype.itemsize
            parts = [
                (_as_bytes(side.values).reshape(-1), side.offsets * size) for side in (left, right)
            ]
            return np.all(left.shapes == right.shapes, axis=1) & _same_parts(*parts)


def _same_parts(
    one: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
    other: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
) -> npt.NDArray[np.bool_]:
    """Return where two lists of byte strings are equal, each its bytes and where they begin."""
    (left, starts), (right, others) = one, other
    lengths = np.diff(starts)
    is_same = lengths == np.diff(others)
    if not is_same.all():  # the bytes of the others, gathered
        rows = np.flatnonzero(is_same)
        left, right = (_gathered(*each, rows) for each in (one, other))
        lengths = lengths[rows]
        starts = others = offsets_of(lengths)
    else:
        rows = np.arange(len(lengths))
    differs = left[starts[0] : starts[-1]] != right[others[0] : others[-1]]
    places = np.searchsorted(starts - starts[0], np.flatnonzero(differs), side="right") - 1
    is_same[rows[places]] = False
    return is_same


def _gathered(
    content: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    lengths = np.diff(offsets)[rows]
    shift = np.repeat(offsets[rows] - offsets_of(lengths)[:-1], lengths)
    return content[shift + np.arange(len(shift))]


def _packed(samples: PackedSamples) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    return np.frombuffer(samples.content, np.uint8), samples.offsets


def _as_bytes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _ranges(mask: npt.NDArray[np.bool_]) -> RowRanges:
    """Return where a mask is set, as ranges."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return edges.reshape(-1, 2)
