"""Aggregates that are made batch by batch: partial results that grow with the groups, and merge.

An accumulator has one place for each group. Batches add to it in any number; another one merges
into it, as if its rows had been added here, its groups being numbered anew. NULLs do not count.
"""

from collections.abc import Callable
from typing import Protocol, Self

import numpy as np

from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoolArray, IntArray, UniformBatch
from tensorlake_query.values.vectors import Vector

EXACT_FLOATS = 1 << 53  # integers up to here are floats, and so are their sums
HALF_BITS = 32  # a 64-bit integer is summed in two halves, which 2³¹ rows cannot overflow
LOW_HALF = (1 << HALF_BITS) - 1


class RowGroups:
    """The groups of some rows, one each; aggregates of the same rows count them once.

    Attributes:
        of_row: the group of each row.
        count: how many groups there are, also of other rows.
    """

    __slots__ = ("_sizes", "count", "of_row")

    def __init__(self, of_row: IntArray, count: int) -> None:
        self.of_row = of_row
        self.count = count
        self._sizes: IntArray | None = None

    @property
    def sizes(self) -> IntArray:
        """How many of the rows each group has."""
        if self._sizes is None:
            of_row, count = self.of_row, self.count
            is_one = count == 1  # it has them all
            self._sizes = np.full(1, len(of_row)) if is_one else np.bincount(of_row, None, count)
        return self._sizes

    def where(self, chosen: BoolArray) -> "RowGroups":
        """Return the groups of some of the rows."""
        return RowGroups(self.of_row[chosen], self.count)


class Accumulator(Protocol):
    """An aggregate of each group."""

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Add rows: their values, None where only rows count, and their groups."""
        ...

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the rows that another has: its group i is group `groups[i]` here."""
        ...

    def result(self) -> Vector:
        """Return one value for each group."""
        ...


class Counts:
    """COUNT(*) and COUNT(x)."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Count rows, or the values that are not NULL."""
        if vector is not None and vector.valid is not None:
            groups = groups.where(vector.valid)
        self._counts = _grown(self._counts, groups.count, 0)
        self._counts += groups.sizes

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the counts of another."""
        self._counts = _merged(self._counts, other._counts, groups, num_groups)

    def result(self) -> Vector:
        """Return the counts."""
        return UniformBatch(self._counts)


class Sums:
    """SUM of floats, and AVG."""

    def __init__(self, *, is_mean: bool) -> None:
        self._counts = np.zeros(0, np.int64)
        self._sums = np.zeros(0)
        self._is_mean = is_mean

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Add values that are not NULL."""
        values, groups = _present(vector, groups)
        self._counts = _grown(self._counts, groups.count, 0)
        self._sums = _grown(self._sums, groups.count, 0)
        self._counts += groups.sizes
        self._sums += _summed(values, groups)

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the sums of another."""
        self._counts = _merged(self._counts, other._counts, groups, num_groups)
        self._sums = _merged(self._sums, other._sums, groups, num_groups)

    def result(self) -> Vector:
        """Return the sums or means; NULL of no value."""
        sums = self._sums / np.maximum(self._counts, 1) if self._is_mean else self._sums
        return UniformBatch(sums, self._counts > 0)


class IntegerSums:
    """SUM of integers: exact, or the error that `overflow` makes."""

    def __init__(self, dtype: np.dtype[np.generic], overflow: Callable[[], Exception]) -> None:
        self._dtype = dtype
        self._overflow = overflow
        self._is_filled = np.zeros(0, np.bool_)
        self._high = np.zeros(0, np.int64)
        self._low = np.zeros(0, np.int64)

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Add values that are not NULL."""
        values, groups = _present(vector, groups)
        self._is_filled = _grown(self._is_filled, groups.count, 0)
        self._high = _grown(self._high, groups.count, 0)
        self._low = _grown(self._low, groups.count, 0)
        self._is_filled |= groups.sizes > 0
        if is_exact(values):
            sums = _summed(values, groups).astype(np.int64)
            high, low = halves(sums)
            self._high += high
            self._low += low
        else:
            high, low = halves(values)
            np.add.at(self._high, groups.of_row, high)
            np.add.at(self._low, groups.of_row, low)
        self._carry()

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the sums of another."""
        self._is_filled = _grown(self._is_filled, num_groups, 0)
        self._is_filled[groups[: len(other._is_filled)][other._is_filled]] = True
        self._high = _merged(self._high, other._high, groups, num_groups)
        self._low = _merged(self._low, other._low, groups, num_groups)
        self._carry()

    def _carry(self) -> None:
        self._high += self._low >> HALF_BITS
        self._low &= LOW_HALF

    def result(self) -> Vector:
        """Return the sums; NULL of no value.

        Raises:
            Exception: that of `overflow`, for a sum beyond 64 bits.
        """
        return UniformBatch(self.joined(self._high, self._low), self._is_filled)

    def joined(self, high: IntArray, low: IntArray) -> AnyArray:
        """Return sums of halves as sums.

        Raises:
            Exception: that of `overflow`, for a sum beyond 64 bits.
        """
        high, low = high + (low >> HALF_BITS), low & LOW_HALF
        limits = np.iinfo(self._dtype.name)
        if len(high) and not (
            limits.min >> HALF_BITS <= high.min() and high.max() <= limits.max >> HALF_BITS
        ):
            raise self._overflow()
        return (high << HALF_BITS | low).astype(self._dtype, copy=False)


class Extremes:
    """MIN or MAX of numbers; a number takes precedence over NaN."""

    def __init__(self, dtype: np.dtype[np.generic], ufunc: np.ufunc) -> None:
        self._values = np.zeros(0, dtype)
        self._is_filled = np.zeros(0, np.bool_)
        self._ufunc = ufunc

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Compare values that are not NULL with those found before."""
        values, groups = _present(vector, groups)
        self._values = _grown(self._values, groups.count, 0)
        self._is_filled = _grown(self._is_filled, groups.count, 0)
        if groups.count == 1 and len(values):
            found = np.array([self._ufunc.reduce(values)], self._values.dtype)
            places = np.zeros(1, np.int64)
        else:
            found, places = values, groups.of_row
        fresh = ~self._is_filled[places]
        self._values[places[fresh]] = found[fresh]  # any of them: all are compared below
        self._is_filled[places] = True
        self._ufunc.at(self._values, places, found.astype(self._values.dtype, copy=False))

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Compare with the extremes of another."""
        extremes = UniformBatch(other._values, other._is_filled)
        self.add(extremes, RowGroups(groups[: len(other._values)], num_groups))

    def result(self) -> Vector:
        """Return the extremes; NULL of no value."""
        return UniformBatch(self._values, self._is_filled)


class Spreads:
    """VAR and STD: counts, means, and sums of squared distances from them, which combine.

    Chan, Golub and LeVeque (1979): no difference of large sums, so that nothing is lost where the
    mean is far from 0.
    """

    def __init__(self, *, is_root: bool, is_of_sample: bool) -> None:
        self._counts = np.zeros(0)
        self._means = np.zeros(0)
        self._squares = np.zeros(0)
        self._is_root = is_root
        self._is_of_sample = is_of_sample

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Add values that are not NULL."""
        values, groups = _present(vector, groups)
        values = values.astype(np.float64, copy=False)
        means = _summed(values, groups) / np.maximum(groups.sizes, 1)
        squares = _summed((values - means[groups.of_row]) ** 2, groups)
        self._combine(groups.sizes, means, squares, np.arange(groups.count), groups.count)

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the rows of another, whose groups are distinct here too."""
        self._combine(other._counts, other._means, other._squares, groups, num_groups)

    def _combine(
        self, counts: AnyArray, means: AnyArray, squares: AnyArray, groups: IntArray, count: int
    ) -> None:
        self._counts, self._means, self._squares = (
            _grown(each, count, 0) for each in (self._counts, self._means, self._squares)
        )
        groups = groups[: len(counts)]
        before = self._counts[groups]
        after = before + counts
        distance = np.where(before > 0, means - self._means[groups], 0)
        distance = np.where(counts > 0, distance, 0)
        share = counts / np.maximum(after, 1)
        started = np.where(before > 0, self._means[groups], means)
        self._means[groups] = started + distance * share
        self._squares[groups] += squares + distance**2 * before * share
        self._counts[groups] = after

    def result(self) -> Vector:
        """Return the variances or their roots; NULL of no value, of a sample of one, too."""
        freedom = self._counts - self._is_of_sample
        variance = self._squares / np.maximum(freedom, 1)
        return UniformBatch(np.sqrt(variance) if self._is_root else variance, freedom > 0)


def _merged(mine: AnyArray, theirs: AnyArray, groups: IntArray, num_groups: int) -> AnyArray:
    """Return numbers of groups and those of others, added."""
    grown = _grown(mine, num_groups, 0)
    np.add.at(grown, groups[: len(theirs)], theirs)
    return grown


def _summed(values: AnyArray, groups: RowGroups) -> AnyArray:
    """Return the sums of groups in float64."""
    if groups.count == 1:
        return np.full(1, values.sum(dtype=np.float64))
    return np.bincount(groups.of_row, values, groups.count)


def halves(values: AnyArray) -> tuple[IntArray, IntArray]:
    """Return integers as x · 2³² + y, with 0 ≤ y < 2³²."""
    if values.dtype == np.uint64:
        return (values >> np.uint64(HALF_BITS)).astype(np.int64), (
            values & np.uint64(LOW_HALF)
        ).astype(np.int64)
    whole = values.astype(np.int64, copy=False)
    return whole >> HALF_BITS, whole & LOW_HALF


def _present(vector: Vector | None, groups: RowGroups) -> tuple[AnyArray, RowGroups]:
    assert vector is not None, "only COUNT(*) has no argument"
    if vector.valid is None:
        return vector.values, groups
    return vector.values[vector.valid], groups.where(vector.valid)


def is_exact(values: AnyArray) -> bool:
    """Tell whether a sum of integers is exact in floats, in any order."""
    if not len(values):
        return True
    return max(abs(int(values.min())), abs(int(values.max()))) * len(values) < EXACT_FLOATS


def _grown(values: AnyArray, count: int, fill: int) -> AnyArray:
    """Return values with places for as many groups; their number doubles, to be O(1) a group."""
    if count <= len(values):
        return values
    charge((count - len(values)) * values.itemsize)
    made = np.full(count, fill, values.dtype)
    made[: len(values)] = values
    return made
