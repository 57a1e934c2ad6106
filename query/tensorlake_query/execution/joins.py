"""Joining: which rows of two sides belong together, found by numbering the values of their keys.

Keys become numbers: an integer of a limited range by its distance from the right side's least,
others by numbering the values of both sides together. A table of the numbers leads to the right
row, or to the run of them in the order of their numbers; left rows look there, batch by batch.
NULL and NaN equal nothing. Pairs come in the order of the left rows, and among those of one left
row in the order of the right ones; rows of an outer side that found no partner come with their own
side, and those of the right one after all others.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from tensorlake_query.syntax import ast
from tensorlake_query.values.group_keys import DENSE_MIN, by_group, combined_codes
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoolArray, IntArray, UniformBatch
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
SPARSE = 16  # places of the table of a key's values, for each right row
PROBED_NBYTES = 24  # of a left row: its key's number, its partner, whether it has one
KEYED_NBYTES = 64  # of a row: its key's number, its place among those of one number
UNMATCHED_NBYTES = 48  # of a row, or pair, of an outer join while they are put in order


class KeyTable(Struct, frozen=True):
    """The rows of the right side by their key, a number.

    Attributes:
        low: the least key.
        partners: how many rows each key has, counted from the least; the last has none.
        starts: where its rows are in `rows`; where no key has several, its row itself, or −1.
        rows: the rows in the order of their keys; None where no key has several.
    """

    low: int
    partners: IntArray
    starts: IntArray
    rows: IntArray | None

    @staticmethod
    def of(keys: Sequence[Vector]) -> "KeyTable | None":
        """Return the table of one key of integers of a limited range; None for others."""
        vector = keys[0]
        values = vector.values
        if len(keys) > 1 or not isinstance(vector, UniformBatch) or values.dtype.kind not in "iu":
            return None
        rows = np.arange(len(values)) if vector.valid is None else np.flatnonzero(vector.valid)
        values = values if vector.valid is None else values[rows]
        low = int(values.min()) if len(values) else 0
        count = int(values.max()) - low + 1 if len(values) else 0
        if count > max(SPARSE * len(values), DENSE_MIN):
            return None
        charge((len(values) + count) * KEYED_NBYTES)
        return KeyTable.of_numbers(_less(values, low), rows, count, low)

    @staticmethod
    def of_numbers(numbers: IntArray, rows: IntArray, count: int, low: int = 0) -> "KeyTable":
        """Return the table of some rows, whose keys are numbers below `count`."""
        partners = np.bincount(numbers, minlength=count + 1)
        if partners.max() <= 1:
            starts = np.full(count + 1, -1)
            starts[numbers] = rows
            return KeyTable(low, partners, starts, None)
        return KeyTable(low, partners, starts_of(partners), rows[by_group(numbers, count)])

    def pairs(self, left: Vector, check_made: Callable[[int], None]) -> Pairs:
        """Return the pairs of left rows, by their integer keys, with their right rows."""
        return self.pairs_of(self._numbers(left), check_made)

    def pairs_of(self, numbers: IntArray, check_made: Callable[[int], None]) -> Pairs:
        """Return the pairs of left rows, by the numbers of their keys; `count`: it has none."""
        if self.rows is None:
            found = self.starts[numbers]
            is_found = found >= 0
            left_rows = np.arange(len(found)) if is_found.all() else np.flatnonzero(is_found)
            check_made(len(left_rows))
            return left_rows, found if len(left_rows) == len(found) else found[left_rows]
        counts = self.partners[numbers]
        check_made(int(counts.sum()))
        left_rows = np.repeat(np.arange(len(numbers)), counts)
        places = np.repeat(self.starts[numbers], counts) + numbered(counts)
        return left_rows, self.rows[places]

    def _numbers(self, left: Vector) -> IntArray:
        """Return the numbers of keys; of one that the right side lacks, that without rows."""
        given, count = left.values, len(self.partners) - 1
        charge(len(given) * PROBED_NBYTES)
        inside = np.ones(len(given), np.bool_) if left.valid is None else left.valid.copy()
        limits = np.iinfo(given.dtype.name)
        if self.low > limits.min:
            inside &= given >= self.low
        if self.low + count - 1 < limits.max:
            inside &= given < self.low + count
        numbers = _less(given, self.low)
        return numbers if inside.all() else np.where(inside, numbers, count)


def matching_pairs(
    left: Sequence[Vector],
    right: Sequence[Vector],
    sizes: tuple[int, int],
    check_made: Callable[[int], None],
) -> Pairs:
    """Return the pairs of rows whose keys, of any types and number, are equal."""
    num_left, num_right = sizes
    charge((num_left + num_right) * KEYED_NBYTES + sum(map(nbytes_of, (*left, *right))))
    both = [concatenated([_plain(a), _plain(b)]) for a, b in zip(left, right, strict=True)]
    codes, count = combined_codes(both)
    mine, theirs, rows = codes[:num_left], codes[num_left:], np.arange(num_right)
    valid = all_valid(both)
    if valid is not None:
        rows = rows[valid[num_left:]]
        mine, theirs = np.where(valid[:num_left], mine, count), theirs[rows]
    return KeyTable.of_numbers(theirs, rows, count).pairs_of(mine, check_made)


def _less(values: AnyArray, low: int) -> IntArray:
    """Return integers less a number; what does not fit in 64 bits, wrapped."""
    if values.dtype == np.uint64:
        return (values - np.uint64(low)).astype(np.int64)
    return values.astype(np.int64) - low if low else values.astype(np.int64, copy=False)


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
