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
TRIED_ROWS = 1 << 8  # among which few groups all have different values, mostly
CLOSE_FLOATS = 2.0**-52  # times rows squared: sums of closer values may round past all of them
FAR = 4  # times what is left: a subtraction of more gives away digits


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
    """SUM of floats, and AVG, which is from MIN to MAX.

    A sum is a float and what its rounding took off. Where the values of a group may be too close
    for their plain sum, it is that of their distances from one of them.
    """

    def __init__(self, *, is_mean: bool) -> None:
        self._counts = np.zeros(0, np.int64)
        self._sums = np.zeros(0)
        self._rests: AnyArray | None = None  # None: all are 0
        self._is_mean = is_mean

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Add values that are not NULL."""
        values, groups = _present(vector, groups)
        with np.errstate(all="ignore"):  # infinite values, and sums
            if not _are_close(values, groups):
                self._join(groups.sizes, _summed(values, groups), None, slice(None), groups.count)
                return
            origins = _origins(values, groups)
            sums, rests = _multiplied(groups.sizes, origins)
            sums, more = _added(sums, _summed(_distances(values, origins, groups), groups))
            if not np.isfinite(sums).all():
                sums = np.where(np.isfinite(sums), sums, _summed(values, groups))
            self._join(groups.sizes, sums, rests + more, slice(None), groups.count)

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the sums of another, whose groups are distinct here too."""
        groups = groups[: len(other._counts)]
        self._join(other._counts, other._sums, other._rests, groups, num_groups)

    def _join(
        self,
        counts: IntArray,
        sums: AnyArray,
        rests: AnyArray | None,
        groups: IntArray | slice,
        num_groups: int,
    ) -> None:
        self._counts = _grown(self._counts, num_groups, 0)
        self._sums = _grown(self._sums, num_groups, 0)
        self._counts[groups] += counts
        if rests is None:
            self._sums[groups] += sums
            return
        self._rests = _grown(np.zeros(0) if self._rests is None else self._rests, num_groups, 0)
        with np.errstate(all="ignore"):
            total, more = _added(self._sums[groups], sums)
            more += self._rests[groups] + rests
        self._sums[groups] = total
        self._rests[groups] = np.where(np.isfinite(total), more, 0)

    def result(self) -> Vector:
        """Return the sums or means; NULL of no value."""
        rests = 0 if self._rests is None else _grown(self._rests, len(self._sums), 0)
        values = self._sums + rests
        if self._is_mean:
            counts = np.maximum(self._counts, 1)
            with np.errstate(all="ignore"):
                values = self._sums / counts
                product, more = _multiplied(counts, values)
                off = ((self._sums - product) + (rests - more)) / counts
                values += np.where(np.isfinite(off), off, 0)
        return UniformBatch(values, self._counts > 0)


class IntegerSums:
    """SUM of integers: exact, or the error that `overflow` makes; and AVG, rounded once."""

    def __init__(
        self, dtype: np.dtype[np.generic], overflow: Callable[[], Exception] | None = None
    ) -> None:
        self._dtype = dtype
        self._overflow = overflow
        self._counts = np.zeros(0, np.int64)
        self._high = np.zeros(0, np.int64)
        self._low = np.zeros(0, np.int64)

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Add values that are not NULL."""
        values, groups = _present(vector, groups)
        self._counts = _grown(self._counts, groups.count, 0)
        self._high = _grown(self._high, groups.count, 0)
        self._low = _grown(self._low, groups.count, 0)
        self._counts += groups.sizes
        origin = _exact_origin(values)
        if origin is not None:
            if origin:
                wide = values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
                values = wide - wide.dtype.type(origin)
                self._high += groups.sizes * (origin >> HALF_BITS)
                self._low += groups.sizes * (origin & LOW_HALF)
            high, low = halves(_summed(values, groups).astype(np.int64))
            self._high += high
            self._low += low
        else:
            high, low = halves(values)
            np.add.at(self._high, groups.of_row, high)
            np.add.at(self._low, groups.of_row, low)
        self._carry()

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the sums of another."""
        self._counts = _merged(self._counts, other._counts, groups, num_groups)
        self._high = _merged(self._high, other._high, groups, num_groups)
        self._low = _merged(self._low, other._low, groups, num_groups)
        self._carry()

    def _carry(self) -> None:
        self._high += self._low >> HALF_BITS
        self._low &= LOW_HALF

    def result(self) -> Vector:
        """Return the sums or means; NULL of no value.

        Raises:
            Exception: that of `overflow`, for a sum beyond 64 bits.
        """
        values = self.joined(self._high, self._low, self._counts)
        return UniformBatch(values, self._counts > 0)

    def joined(self, high: IntArray, low: IntArray, counts: IntArray) -> AnyArray:
        """Return sums of halves as sums; without an `overflow` as means, of so many values each.

        Raises:
            Exception: that of `overflow`, for a sum beyond 64 bits.
        """
        high, low = high + (low >> HALF_BITS), low & LOW_HALF
        if self._overflow is None:
            return _quotients(high, low, np.maximum(counts, 1))
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
    mean is far from 0. Distances are from a value of the group, and so are the means: those of
    equal values are 0.
    """

    def __init__(self, *, is_root: bool, is_of_sample: bool) -> None:
        self._counts = np.zeros(0)
        self._origins = np.zeros(0)
        self._means = np.zeros(0)
        self._squares = np.zeros(0)
        self._is_root = is_root
        self._is_of_sample = is_of_sample

    def add(self, vector: Vector | None, groups: RowGroups) -> None:
        """Add values that are not NULL."""
        values, groups = _present(vector, groups)
        sizes = groups.sizes
        with np.errstate(all="ignore"):  # infinite values, and sums
            origins = _origins(values, groups)
            distances = _distances(values, origins, groups)
            means, squares = _moments(distances, groups)
            if np.any(means * means * sizes > FAR * squares):  # the origin is far from the mean
                more, squares = _moments(_distances(distances, means, groups), groups)
                means += more
        self._combine(sizes, origins, means, squares, np.arange(groups.count), groups.count)

    def merge(self, other: Self, groups: IntArray, num_groups: int) -> None:
        """Add the rows of another, whose groups are distinct here too."""
        parts = other._counts, other._origins, other._means, other._squares
        self._combine(*parts, groups, num_groups)

    def _combine(
        self,
        counts: AnyArray,
        origins: AnyArray,
        means: AnyArray,
        squares: AnyArray,
        groups: IntArray,
        num_groups: int,
    ) -> None:
        self._counts, self._origins, self._means, self._squares = (
            _grown(each, num_groups, 0)
            for each in (self._counts, self._origins, self._means, self._squares)
        )
        groups = groups[: len(counts)]
        before = self._counts[groups]
        after = before + counts
        is_first = (before == 0) & (counts > 0)
        self._origins[groups[is_first]] = origins[is_first]
        self._means[groups[is_first]] = means[is_first]
        with np.errstate(all="ignore"):
            distance = (origins - self._origins[groups]) + (means - self._means[groups])
            distance = np.where((before > 0) & (counts > 0), distance, 0)
            share = counts / np.maximum(after, 1)
            self._means[groups] += distance * share
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


def _are_close(values: AnyArray, groups: RowGroups) -> bool:
    """Return whether a sum of a group's values, divided, may lie beyond all of them.

    It does not where two of them differ by more than the rounding of n sums, times n.
    """
    tried, of_row = values[:TRIED_ROWS], groups.of_row[:TRIED_ROWS]
    if len(tried) < groups.count:
        return True
    gap = len(values) ** 2 * CLOSE_FLOATS
    if groups.count == 1:
        return not np.any(np.abs(tried - tried[0]) > abs(tried[0]) * gap)
    some = np.zeros(groups.count)
    some[of_row] = tried
    others = some.take(of_row)
    varies = np.zeros(groups.count, np.bool_)
    varies[of_row[np.abs(tried - others) > np.abs(others) * gap]] = True
    return not varies.all() and bool(groups.sizes[~varies].any())


def _moments(distances: AnyArray, groups: RowGroups) -> tuple[AnyArray, AnyArray]:
    """Return means, and sums of squared distances from them."""
    means = _summed(distances, groups) / np.maximum(groups.sizes, 1)
    squares = _summed(distances * distances, groups) - means * means * groups.sizes
    return means, np.maximum(squares, 0)


def _origins(values: AnyArray, groups: RowGroups) -> AnyArray:
    """Return a finite value of each group in float64; 0 where none is found."""
    origins = np.full(groups.count, np.nan)
    if groups.count == 1:
        origins[: len(values)] = values[:1]
    else:
        origins[groups.of_row[:TRIED_ROWS]] = values[:TRIED_ROWS]
        if len(values) > TRIED_ROWS and np.any(np.isnan(origins) & (groups.sizes > 0)):
            origins[groups.of_row] = values
    origins[~np.isfinite(origins)] = 0
    return origins


def _distances(values: AnyArray, origins: AnyArray, groups: RowGroups) -> AnyArray:
    """Return the distance of each value from the origin of its group."""
    if groups.count == 1:
        return values - origins
    far = origins.take(groups.of_row)
    return np.subtract(values, far, far)


def _added(one: AnyArray, other: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return sums, and what their rounding took off (Knuth's TwoSum)."""
    total = one + other
    part = total - one
    return total, (one - (total - part)) + (other - part)


def _multiplied(counts: IntArray, values: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return products with counts, and what their rounding took off."""
    high = (values.view(np.int64) & ~LOW_HALF).view(np.float64)  # 21 bits: exact times 32 more
    return _added(counts * high, counts * (values - high))


def _quotients(high: IntArray, low: IntArray, counts: IntArray) -> AnyArray:
    """Return sums of halves ÷ counts, rounded once."""
    means = (high * float(1 << HALF_BITS) + low) / counts
    for group in np.flatnonzero(np.abs(high) >= EXACT_FLOATS >> HALF_BITS).tolist():
        means[group] = ((int(high[group]) << HALF_BITS) + int(low[group])) / int(counts[group])
    return means


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


def _exact_origin(values: AnyArray) -> int | None:
    """Return what to take off integers so that their sum is exact in floats; None: none."""
    if is_exact(values):
        return 0
    least = int(values.min())
    return least if (int(values.max()) - least) * len(values) < EXACT_FLOATS else None


def _grown(values: AnyArray, count: int, fill: int) -> AnyArray:
    """Return values with places for as many groups; their number doubles, to be O(1) a group."""
    if count <= len(values):
        return values
    charge((count - len(values)) * values.itemsize)
    made = np.full(count, fill, values.dtype)
    made[: len(values)] = values
    return made
