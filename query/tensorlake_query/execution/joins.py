"""Joining: which rows of two sides belong together, found by numbering the values of their keys.

Keys become numbers: an integer of a limited range by its distance from the right side's least,
others by numbering the values of both sides together. A table of the numbers leads to the right
row, or to the run of them in the order of their numbers; left rows look there, batch by batch.
NULL and NaN equal nothing. Pairs come in the order of the left rows, and among those of one left
row in the order of the right ones, about 2¹⁸ at a time; rows of an outer side that found no
partner come with their own side, and those of the right one after all others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from tensorlake_query.planning.plan import Aggregate
from tensorlake_query.values.group_keys import DENSE_MIN, by_group, combined_codes
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, IntArray, UniformBatch
from tensorlake_query.values.vectors import (
    Vector,
    all_valid,
    concatenated,
    nbytes_of,
    numbered,
    starts_of,
    to_integers,
    valid_of,
)

Pairs = tuple[IntArray, IntArray]
# left rows `start` … `stop` − 1, and their pairs
Part = tuple[int, int, Pairs]
MAX_PAIRS = 1 << 18  # made at a time: 2 MiB of numbers of each side
SPARSE = 16  # places of the table of a key's values, for each right row
PROBED_NBYTES = 24  # of a left row: its key's number, its partner, whether it has one
KEYED_NBYTES = 64  # of a row: its key's number, its place among those of one number
UNMATCHED_NBYTES = 48  # of a row, or pair, of an outer join while they are put in order


class HeldPairs(Protocol):
    """Pairs of rows, and the memory that they take."""

    @property
    def pairs(self) -> Pairs:
        """The rows of each side; −1 where it has none."""
        ...

    @property
    def held(self) -> object:
        """Gives the memory back when it goes."""
        ...


class Making(Protocol):
    """How the pairs of a join are made."""

    def pairs(self) -> Pairs:
        """Return all of them."""
        ...

    def pieces(self) -> Iterator[HeldPairs]:
        """Yield them a piece at a time."""
        ...

    def count(self) -> int | None:
        """Return how many there are without making them; None where each has to be made."""
        ...

    def grouped(self, plan: Aggregate) -> list[Vector] | None:
        """Return keys and aggregates of their groups; None where each has to be made."""
        ...

    def numbers(self, side: int, name: str) -> Vector:
        """Return a number for each text of a column of a side, equal for equal ones."""
        ...


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
    def of(keys: Vector, rows: IntArray | None = None, num_probed: int = 0) -> "KeyTable | None":
        """Return the table of integers of a limited range; None where they lie too far apart.

        Args:
            keys: the key of each row.
            rows: which rows these are, ascending; None: all, from 0 on.
            num_probed: how many rows look their keys up: the table may have as many places.
        """
        values = keys.values
        rows = np.arange(len(values)) if rows is None else rows
        if keys.valid is not None:
            values, rows = values[keys.valid], rows[keys.valid]
        low = int(values.min()) if len(values) else 0
        stop = int(values.max()) + 1 if len(values) else 0
        most = max(SPARSE * len(values), num_probed, DENSE_MIN)
        low = 0 if low > 0 and stop <= most else low  # then it is not taken off
        count = stop - low
        if count > most:
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

    def renumbered(self, numbers: IntArray) -> "KeyTable":
        """Return the table that leads to a number of each row in place of the row."""
        if self.rows is not None:
            return KeyTable(self.low, self.partners, self.starts, numbers[self.rows])
        starts = np.where(self.starts < 0, -1, numbers[self.starts])
        return KeyTable(self.low, self.partners, starts, None)

    def parts(
        self,
        numbers: IntArray,
        start: int,
        count_made: Callable[[int], None],
        check_held: Callable[[int], None] | None,
    ) -> Iterator[Part]:
        """Yield the pairs of left rows from `start` on with their right rows, in order.

        Args:
            numbers: those of the left rows' keys; above all others, what the right side lacks.
            start: the first of the left rows.
            count_made: called with how many pairs are about to be made.
            check_held: called with how many there will be of all `numbers`, if they are held.
        """
        if self.rows is None:
            found = self.starts.take(numbers, mode="clip")
            stop = start + len(found)
            count_made(len(found))
            if found.min() >= 0:
                yield start, stop, (np.arange(start, stop), found)
                return
            rows = np.flatnonzero(found >= 0)
            yield start, stop, (rows + start, found.take(rows))
            return
        counts = self.counts(numbers)
        if check_held is not None:
            check_held(int(counts.sum()))
        for first, last in _ranges(counts):
            some = counts[first:last]
            count_made(int(some.sum()))
            left = np.repeat(np.arange(start + first, start + last), some)
            starts = self.starts.take(numbers[first:last], mode="clip")
            places = np.repeat(starts, some) + numbered(some)
            yield start + first, start + last, (left, self.rows[places])

    def counts(self, numbers: IntArray) -> IntArray:
        """Return how many right rows have the keys of these numbers."""
        return self.partners.take(numbers, mode="clip")

    def numbers(self, left: Vector) -> IntArray:
        """Return the numbers of integer keys; above all others for what the right side lacks.

        Looked up, a number above all is as the last, which has no rows: where keys are not below
        the least, nothing more is to be seen to.
        """
        given, count = left.values, len(self.partners) - 1
        charge(len(given) * PROBED_NBYTES)
        last = self.low + count - 1
        is_above = left.valid is None and given.min() >= self.low
        may_wrap = self.low < 0 or given.dtype == np.uint64
        if is_above and not (may_wrap and given.max() > last):
            return _less(given, self.low)
        inside = np.ones(len(given), np.bool_) if left.valid is None else left.valid.copy()
        limits = np.iinfo(given.dtype.name)
        if self.low > limits.min:
            inside &= given >= self.low
        if last < limits.max:
            inside &= given <= last
        return np.where(inside, _less(given, self.low), count)


def _ranges(counts: IntArray) -> Iterator[tuple[int, int]]:
    """Yield ranges of left rows that make about MAX_PAIRS pairs each; of many, one row does."""
    ends = np.cumsum(counts)
    start, made = 0, 0
    while start < len(counts):
        stop = int(np.searchsorted(ends, made + MAX_PAIRS, "right"))
        stop = max(stop, start + 1)
        yield start, stop
        start, made = stop, int(ends[stop - 1])


def numbered_together(
    left: Sequence[Vector], right: Sequence[Vector], sizes: tuple[int, int]
) -> tuple[KeyTable, IntArray]:
    """Number keys of any types; return the table of the right ones, and numbers of the left."""
    num_left, num_right = sizes
    charge((num_left + num_right) * KEYED_NBYTES + sum(map(nbytes_of, (*left, *right))))
    both = [concatenated(_alike(_plain(a), _plain(b))) for a, b in zip(left, right, strict=True)]
    codes, count, _ = combined_codes(both)
    mine, theirs, rows = codes[:num_left], codes[num_left:], np.arange(num_right)
    valid = all_valid(both)
    if valid is not None:
        rows = rows[valid[num_left:]]
        mine, theirs = np.where(valid[:num_left], mine, count), theirs[rows]
    return KeyTable.of_numbers(theirs, rows, count), mine


def _less(values: AnyArray, low: int) -> IntArray:
    """Return integers less a number; what does not fit in 64 bits, wrapped."""
    if values.dtype == np.uint64:
        return (values - np.uint64(low % 2**64)).astype(np.int64)
    if not low:
        return values.astype(np.int64, copy=False)
    return values.astype(np.int64) - (low - (low >> 63 << 64) if low > 0 else low)


def all_pairs(start: int, stop: int, first: int, last: int) -> Pairs:
    """Return every pair of left rows `start` … `stop` − 1 and right rows `first` … `last` − 1."""
    return (
        np.repeat(np.arange(start, stop), last - first),
        np.tile(np.arange(first, last), stop - start),
    )


def with_left_rows(start: int, stop: int, pairs: Pairs) -> Pairs:
    """Add the left rows of a range that found no partner, in order; −1 stands for it."""
    left, right = pairs
    charge((len(left) + stop - start) * UNMATCHED_NBYTES)
    is_found = np.zeros(stop - start, np.bool_)
    is_found[left - start] = True
    if is_found.all():
        return left, right
    alone = np.flatnonzero(~is_found)
    # where each is among the pairs, which ascend by left row
    places = np.searchsorted(left, alone + start)
    return np.insert(left, places, alone + start), np.insert(right, places, -1)


def _plain(vector: Vector) -> Vector:
    """Return booleans as numbers, to be numbered alike, and NaN as NULL, to equal nothing."""
    values = vector.values
    if isinstance(vector, UniformBatch) and values.dtype == np.bool_:
        return UniformBatch(values.astype(np.int8), vector.valid)
    if isinstance(vector, UniformBatch) and values.dtype.kind == "f":
        is_nan = np.isnan(values)
        return UniformBatch(values, valid_of(vector) & ~is_nan) if is_nan.any() else vector
    return vector


def _alike(left: Vector, right: Vector) -> list[Vector]:
    """Return keys whose common dtype holds both, so that only equal integers become equal.

    Signed integers and uint64 have float64 in common: values beyond int64 become NULL instead.
    """
    if {each.values.dtype.kind for each in (left, right)} != {"i", "u"}:
        return [left, right]
    if np.result_type(left.values, right.values).kind == "i":
        return [left, right]
    return [to_integers(each, np.dtype(np.int64)) for each in (left, right)]
