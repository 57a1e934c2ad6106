"""Joining: which rows of two sides belong together, found by numbering the values of their keys.

The values of a pair of keys are numbered together; the rows of the right side are put in the order
of their numbers, and each left row finds the run of its own. NULL and NaN equal nothing. Pairs come
in the order of the left rows, and among those of one left row in the order of the right ones; rows
of an outer side that found no partner come with their own side, and those of the right one after
all others.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tensorlake_query.syntax import ast
from tensorlake_query.values.group_keys import by_group, combined_codes
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import BoolArray, IntArray, UniformBatch
from tensorlake_query.values.vectors import (
    Vector,
    all_valid,
    concatenated,
    nbytes_of,
    numbered,
    starts_of,
    valid_of,
)

Pairs = tuple[IntArray, IntArray]
KEYED_NBYTES = 64  # of a row: its key's number, its place among those of one number
UNMATCHED_NBYTES = 48  # of a row, or pair, of an outer join while they are put in order


def matching_pairs(
    left: Sequence[Vector],
    right: Sequence[Vector],
    sizes: tuple[int, int],
    check_made: Callable[[int], None],
) -> Pairs:
    """Return the pairs of rows whose keys are equal; `check_made` gets their number first."""
    num_left, num_right = sizes
    charge((num_left + num_right) * KEYED_NBYTES + sum(map(nbytes_of, (*left, *right))))
    both = [concatenated([_plain(a), _plain(b)]) for a, b in zip(left, right, strict=True)]
    codes, count = combined_codes(both)
    valid = all_valid(both)
    known = np.ones(num_left + num_right, np.bool_) if valid is None else valid
    mine, theirs = codes[:num_left], codes[num_left:]
    candidates = np.flatnonzero(known[num_left:])
    theirs = theirs[candidates]
    order = candidates[by_group(theirs, count)]
    partners = np.bincount(theirs, minlength=count)  # of each code
    counts = np.where(known[:num_left], partners[mine], 0)
    check_made(int(counts.sum()))
    start = starts_of(partners)[mine]
    left_rows = np.repeat(np.arange(num_left), counts)
    return left_rows, order[np.repeat(start, counts) + numbered(counts)]


def all_pairs(start: int, stop: int, num_right: int) -> Pairs:
    """Return every pair of left rows `start` … `stop` − 1 with every right row."""
    return (
        np.repeat(np.arange(start, stop), num_right),
        np.tile(np.arange(num_right), stop - start),
    )


def with_unmatched(pairs: Pairs, kind: ast.JoinKind, sizes: tuple[int, int]) -> Pairs:
    """Add the rows of an outer side that found no partner; −1 stands for the side without one."""
    left, right = pairs
    if kind in {"LEFT", "RIGHT", "FULL"}:
        charge((len(left) + sum(sizes)) * UNMATCHED_NBYTES)
    if kind in {"LEFT", "FULL"}:
        alone = np.flatnonzero(~_found(left, sizes[0]))
        left = np.concatenate([left, alone])
        right = np.concatenate([right, np.full(len(alone), -1)])
        order = np.argsort(left, kind="stable")
        left, right = left[order], right[order]
    if kind in {"RIGHT", "FULL"}:
        alone = np.flatnonzero(~_found(pairs[1], sizes[1]))
        left = np.concatenate([left, np.full(len(alone), -1)])
        right = np.concatenate([right, alone])
    return left, right


def _found(rows: IntArray, count: int) -> BoolArray:
    found = np.zeros(count, np.bool_)
    found[rows] = True
    return found


def _plain(vector: Vector) -> Vector:
    """Return booleans as numbers, to be numbered alike, and NaN as NULL, to equal nothing."""
    values = vector.values
    if isinstance(vector, UniformBatch) and values.dtype == np.bool_:
        return UniformBatch(values.astype(np.int8), vector.valid)
    if isinstance(vector, UniformBatch) and values.dtype.kind == "f":
        is_nan = np.isnan(values)
        return UniformBatch(values, valid_of(vector) & ~is_nan) if is_nan.any() else vector
    return vector
