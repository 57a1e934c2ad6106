"""Running aggregates: `SUM(x) OVER (ORDER BY t)` is the sum of all rows up to each.

A frame reaches from the partition's first row to the row itself and all rows equal to it by the
keys, as SQL's does without a ROWS clause. Sums go through one idea, the segmented
scan: in the k-th round each place takes in the one 2ᵏ before it, as long as that lies in its
partition, so that no partition's NaN or rounding reaches another.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from tensorlake_query.functions.aggregate.accumulators import IntegerSums, halves, is_exact
from tensorlake_query.functions.aggregate.aggregates import AggregateCall, extreme_ufunc
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoolArray, IntArray, UniformBatch
from tensorlake_query.values.vectors import Vector, constant, running_counts, take, valid_of

RUNNING_NBYTES = 64  # of a row: what is counted, what is added, and both so far
RUNNING = ("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "ANY_VALUE")


class Frame(Struct, frozen=True):
    """Rows in partitions and in order.

    Attributes:
        order: the rows, partition after partition.
        starts: for each place of that order, where its partition starts.
        partition: the partition of each row, numbered in order of appearance.
        count: how many partitions there are.
        is_new: places whose row differs by its keys from the one before it.
    """

    order: IntArray
    starts: IntArray
    partition: IntArray
    count: int
    is_new: BoolArray

    @property
    def last_peers(self) -> IntArray:
        """For each place, the last one that is equal to it by the keys."""
        firsts = np.flatnonzero(self.is_new)
        stops = np.append(firsts[1:], len(self.order))
        return (stops - 1)[running_counts(self.is_new) - 1]

    def by_row(self, values: AnyArray) -> AnyArray:
        """Return values that are in the frame's order in the order of the rows."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


Compute = Callable[[Sequence[Vector], Frame], Vector]


def running(call: AggregateCall) -> Compute:
    """Return how an aggregate is computed over all rows up to each; its name is in `RUNNING`."""
    name = call.syntax.name
    if name in {"FIRST", "ANY_VALUE"}:
        return _first if name == "FIRST" else _first_known

    def compute(args: Sequence[Vector], frame: Frame) -> Vector:
        if not len(frame.order):
            return constant(None, call.type, 0)
        charge(len(frame.order) * RUNNING_NBYTES)
        column = take(args[0], frame.order) if args else UniformBatch(frame.order)
        known, last = valid_of(column), frame.last_peers
        counts = scanned(np.add, known.astype(np.int64), frame.starts)[last]
        if name == "COUNT":
            return UniformBatch(frame.by_row(counts))
        if name in {"MIN", "MAX"}:
            values = _extremes(column.values, known, frame.starts, is_min=name == "MIN")[last]
        else:
            values = _sums(call, column.values, known, counts, frame)
        return UniformBatch(frame.by_row(values), frame.by_row(counts > 0))

    return compute


def scanned(ufunc: np.ufunc, values: AnyArray, starts: IntArray) -> AnyArray:
    """Return, for each place, `ufunc` over the values from its partition's start up to it."""
    result = values.copy()
    within = np.arange(len(values)) - starts
    step, longest = 1, int(within.max(initial=0))
    while step <= longest:
        reached = np.flatnonzero(within >= step)
        result[reached] = ufunc(result[reached - step], result[reached])
        step *= 2
    return result


def _sums(
    call: AggregateCall, values: AnyArray, known: BoolArray, counts: IntArray, frame: Frame
) -> AnyArray:
    """Return the sums or means so far; of integers that could overflow in two halves."""
    is_mean, is_float = call.syntax.name == "AVG", values.dtype.kind == "f"
    if is_mean and is_float:
        return _means(values, known, counts, frame)
    values = np.where(known, values, 0)
    if is_float or is_exact(values):
        sums = _added(values.astype(np.float64 if is_mean else call.type.dtype), frame)
        return sums / np.maximum(counts, 1) if is_mean else sums
    high, low = (_added(half, frame) for half in halves(values))
    accumulator = None if call.accumulate is None else call.accumulate()
    assert isinstance(accumulator, IntegerSums), "SUM and AVG of integers are made of these"
    return accumulator.joined(high, low, counts)


def _means(values: AnyArray, known: BoolArray, counts: IntArray, frame: Frame) -> AnyArray:
    """Return the means so far, by the distances from the first value of each partition."""
    is_first = known & np.isfinite(values)
    origins = np.zeros(len(values))
    origins[frame.starts[is_first][::-1]] = values[is_first][::-1]
    origins = origins[frame.starts]
    with np.errstate(all="ignore"):  # infinite values, and sums
        distances = np.where(known, values - origins, 0)
        return origins[frame.last_peers] + _added(distances, frame) / np.maximum(counts, 1)


def _added(values: AnyArray, frame: Frame) -> AnyArray:
    """Return the sums of the frame of each place."""
    return scanned(np.add, values, frame.starts)[frame.last_peers]


def _extremes(values: AnyArray, known: BoolArray, starts: IntArray, *, is_min: bool) -> AnyArray:
    """Return the smallest or largest so far; of texts by their ranks."""
    if values.dtype == object:
        distinct, ranks = np.unique(values, return_inverse=True)
        worst = len(distinct) - 1 if is_min else 0
        ufunc = np.minimum if is_min else np.maximum
        return distinct[scanned(ufunc, np.where(known, ranks.reshape(-1), worst), starts)]
    worst = _worst(values.dtype, is_min=is_min)
    filled = np.where(known, values, worst).astype(values.dtype)
    return scanned(extreme_ufunc(values.dtype, is_min=is_min), filled, starts)


def _worst(dtype: np.dtype[np.generic], *, is_min: bool) -> float:
    """Return what no value is worse than: NaN yields to every number."""
    if dtype.kind == "f":
        return np.nan
    if dtype.kind == "b":
        return is_min
    limits = np.iinfo(np.dtype(dtype.name))
    return limits.max if is_min else limits.min


def _first(args: Sequence[Vector], frame: Frame) -> Vector:
    return take(args[0], frame.by_row(frame.order[frame.starts]))


def _first_known(args: Sequence[Vector], frame: Frame) -> Vector:
    """Return the first value up to each row that is not NULL; the partition's first if all are."""
    if not len(frame.order):
        return args[0]
    places = np.arange(len(frame.order))
    known = valid_of(args[0])[frame.order]
    never = len(places)
    first = scanned(np.minimum, np.where(known, places, never), frame.starts)[frame.last_peers]
    chosen = np.where(first < never, first, frame.starts)
    return take(args[0], frame.by_row(frame.order[chosen]))
