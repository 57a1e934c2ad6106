"""Digests of rows as they are stored, by which a sync knows what changed.

A row has a digest of 32 bits for each of twelve groups of its tensors; most sources have no more
tensors, and then a group is a tensor. The ledger numbers the tensors of a source, so a tensor stays
in its group whatever becomes of the others. A NULL adds nothing to its group: a tensor that a
source gets later is, in rows from before, as if it had been NULL.

Digests are computed from columns after conversion, so the values of a source and the values read
back from the dataset have the same digests where they are equal. `column_digests` gives 64 bits for
the samples of one tensor, by which an item is found under another name. `folded` gives an item of
several rows the digests of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from tensorlake.types import Column, EncodedColumn, PackedSamples, RaggedColumn, UniformColumn

__all__ = [
    "CELL_GROUPS",
    "CONFLICT",
    "cell_sums",
    "cells_of",
    "column_digests",
    "folded",
    "places_of",
    "row_digests",
    "text_digests",
    "update_digest",
]

CELL_GROUPS = 12
"""Digests per row: as many as annotations have tensors. Groups without one compress to nothing."""

CONFLICT = 0
"""In place of a digest: the group has a conflict. No digest has this value."""

_FOLDED_NBYTES_MAX = 64
"""Rows up to this size are mixed by NumPy, eight bytes of all rows at a time."""

_PRIME = np.uint64(0x9E3779B185EBCA87)
_NULL = np.uint64(0xD6E8FEB86659FD93)


def column_digests(column: Column) -> np.ndarray:
    """Return a digest of 64 bits for each sample of a column."""
    match column:
        case UniformColumn():
            found = _of_uniform(column.values)
        case RaggedColumn():
            found = _of_ragged(column)
        case EncodedColumn():
            found = _of_bytes(column)
    if column.valid is not None:
        found = np.where(column.valid, found, _NULL)
    return found


def cell_sums(
    columns: Mapping[int, Column], digests: Mapping[int, np.ndarray], rows: int
) -> np.ndarray:
    """Return sums of digests of cells, uint64 (rows, 12), of which `cells_of` makes digests.

    Args:
        columns: The columns by the numbers of their tensors.
        digests: Those of `column_digests`, where they are known.
        rows: The number of rows.
    """
    sums = np.zeros((rows, CELL_GROUPS), np.uint64)
    for number, column in columns.items():
        of_tensor = digests.get(number)
        if of_tensor is None:
            of_tensor = column_digests(column)
        added = _mixed(of_tensor + np.uint64((number + 1) * int(_PRIME) % 2**64))
        if column.valid is not None:
            added = np.where(column.valid, added, np.uint64(0))
        sums[:, number % CELL_GROUPS] += added
    return sums


def cells_of(sums: np.ndarray) -> np.ndarray:
    """Return the digests of rows, uint32 (rows, 12); 1 where a group has nothing but NULL."""
    return _halved(_mixed(sums))


def folded(cells: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the digests of runs of rows, uint32 (runs, 12); a run of one row has those of the row.

    Args:
        cells: Digests of rows.
        starts: The first row of each run.
        counts: The rows of each run, which follow each other.
    """
    if bool((counts == 1).all()):
        return cells[starts]
    rows = places_of(starts, counts)
    within = (np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)).astype(
        np.uint64
    )
    mixed = _mixed(cells[rows].astype(np.uint64) + within[:, None] * _PRIME)
    sums = np.zeros((len(rows) + 1, cells.shape[1]), np.uint64)
    np.cumsum(mixed, axis=0, out=sums[1:])
    stops = np.cumsum(counts)
    whole = sums[stops] - sums[stops - counts] + counts.astype(np.uint64)[:, None] * _NULL
    low = _halved(_mixed(whole))
    is_one = counts == 1
    low[is_one] = cells[starts[is_one]]
    return low


def places_of(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the positions in runs, one run after the other."""
    if bool((counts == 1).all()):
        return starts
    return np.arange(int(counts.sum())) + np.repeat(starts - (np.cumsum(counts) - counts), counts)


def row_digests(columns: Sequence[Column], salts: np.ndarray, rows: int) -> np.ndarray:
    """Return one digest of 64 bits for each row of some columns, each with a salt of its own."""
    found = np.zeros(rows, np.uint64)
    for column, salt in zip(columns, salts, strict=True):
        found = _mixed(found * _PRIME + column_digests(column) + salt)
    return found


def text_digests(texts: Sequence[str]) -> np.ndarray:
    """Return a digest of 64 bits for each text."""
    each = (xxh3_64_intdigest(one.encode(errors="surrogateescape")) for one in texts)
    return np.fromiter(each, np.uint64, len(texts))


def update_digest(digest: xxh3_64, shapes: xxh3_64, column: Column) -> None:
    """Add the samples of a column to digests of all of them, however the rows are divided."""
    if column.valid is None:
        shapes.update(b"\1" * len(column))
    else:
        shapes.update(column.valid.astype(np.uint8).tobytes())
    match column:
        case UniformColumn():
            digest.update(_contiguous(column.values))
        case RaggedColumn():
            digest.update(_contiguous(column.values))
            shapes.update(_contiguous(column.shapes))
        case EncodedColumn(samples=PackedSamples() as samples):
            start, stop = int(samples.offsets[0]), int(samples.offsets[-1])
            digest.update(memoryview(samples.content)[start:stop])
            shapes.update(_contiguous(samples.lengths.astype(np.int64)))
        case EncodedColumn():
            for sample in column.samples:
                digest.update(sample)
            lengths = np.fromiter(map(len, column.samples), np.int64, len(column))
            shapes.update(_contiguous(lengths))


def _halved(cells: np.ndarray) -> np.ndarray:
    low = (cells >> np.uint64(32)).astype(np.uint32)
    low[low == CONFLICT] = 1
    return low


def _contiguous(values: np.ndarray) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Mix the bits of uint64 numbers, as splitmix64 does."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _of_uniform(values: np.ndarray) -> np.ndarray:
    rows = len(values)
    if not rows:
        return np.empty(0, np.uint64)
    if values.ndim == 1 and values.dtype.kind in "iuf" and values.dtype != np.uint64:
        # A number has the same digest after its tensor was altered to a wider dtype.
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(rows, -1)
    nbytes = raw.shape[1]
    if nbytes > _FOLDED_NBYTES_MAX:
        return np.fromiter(
            (xxh3_64_intdigest(raw[row].data) for row in range(rows)), np.uint64, rows
        )
    words = np.zeros((rows, -(-nbytes // 8) * 8), np.uint8)
    words[:, :nbytes] = raw
    found = np.full(rows, np.uint64(nbytes), np.uint64)
    for word in words.view(np.uint64).T:
        found = _mixed(found * _PRIME + word)
    return found


def _of_ragged(column: RaggedColumn) -> np.ndarray:
    size = column.values.dtype.itemsize
    content = _contiguous(column.values)
    bounds = (column.offsets * size).tolist()
    each = (xxh3_64_intdigest(content[start:stop]) for start, stop in pairwise(bounds))
    found = np.fromiter(each, np.uint64, len(column))
    return _mixed(found * _PRIME + _of_uniform(column.shapes.astype(np.int64)))


def _of_bytes(column: EncodedColumn) -> np.ndarray:
    return np.fromiter(map(xxh3_64_intdigest, column.samples), np.uint64, len(column))
