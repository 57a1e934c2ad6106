"""Across rows, how values are distributed: MEDIAN, QUANTILE, HISTOGRAM.

NULLs do not count; of no value at all the answer is NULL (a histogram counts nothing). Quantiles
are interpolated linearly; NaN makes them NaN.
"""

from collections.abc import Callable

import numpy as np

from tensorlake_query.functions.registry import Site
from tensorlake_query.values.bound import Constant
from tensorlake_query.values.group_keys import by_group, sizes_of
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, ColumnType, IntArray, UniformBatch
from tensorlake_query.values.types import number
from tensorlake_query.values.vectors import Vector, valid_of

Compute = Callable[[Vector | None, IntArray, int], Vector]

MAX_BINS = 100_000
COUNT_NBYTES = 8
HISTOGRAM_ARGUMENTS = 4  # x, bins, low, high
REAL = number("float64", nullable=True)


def bind_distribution(site: Site, name: str) -> tuple[Compute, ColumnType]:
    """Return how an aggregate of this family is computed, and its type."""
    if name == "MEDIAN":
        return _quantile(0.5), REAL
    if name == "QUANTILE":
        share = _known(site, 1)
        if not 0 <= share <= 1:
            raise site.fail(
                f"a quantile is a share from 0 to 1, not {share:g}",
                at=site.args[1],
                hint="write QUANTILE(x, 0.9)",
            )
        return _quantile(share), REAL
    bins = _known(site, 1)
    if bins != int(bins) or not 1 <= bins <= MAX_BINS:
        raise site.fail(f"a histogram has from 1 to {MAX_BINS:,} bins", at=site.args[1])
    has_bounds = len(site.args) == HISTOGRAM_ARGUMENTS
    bounds = (_known(site, 2), _known(site, 3)) if has_bounds else None
    if bounds is not None and not bounds[0] < bounds[1]:
        raise site.fail("the low end of a histogram lies below its high end", at=site.args[-1])
    return _histogram(int(bins), bounds), number("int64", (int(bins),))


def present(vector: Vector | None, groups: IntArray) -> tuple[AnyArray, IntArray]:
    """Return the values that are not NULL, and their groups."""
    assert vector is not None, "only COUNT(*) has no argument"
    if vector.valid is None:
        return vector.values, groups
    valid = valid_of(vector)
    return vector.values[valid], groups[valid]


def _known(site: Site, argument: int) -> float:
    expr = site.args[argument]
    value = expr.value if isinstance(expr, Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise site.fail("a number known beforehand is needed", at=expr)
    return value


def _quantile(share: float) -> Compute:
    def quantile(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        values, groups = present(vector, groups)
        values = values.astype(np.float64)
        counts = sizes_of(groups, num_groups)
        starts = np.cumsum(counts) - counts
        filled = counts > 0
        result = np.zeros(num_groups)
        offset = share * (counts[filled] - 1)  # within the group: a sum with its start loses digits
        between = offset - np.floor(offset)
        low = starts[filled] + np.floor(offset).astype(np.int64)
        high = starts[filled] + np.ceil(offset).astype(np.int64)
        last = (starts + counts - 1)[filled]
        if num_groups == 1 and len(values):
            places = np.unique(np.concatenate([low, high, last]))
            values = np.partition(values, places)
        else:
            values = values[np.lexsort((values, groups))]
        below, above = values[low], values[high]
        mixed = np.where(between > 0, below + (above - below) * between, below)
        result[filled] = np.where(np.isnan(values[last]), np.nan, mixed)  # NaN sorts last
        return UniformBatch(result, filled)

    return quantile


def _histogram(bins: int, bounds: tuple[float, float] | None) -> Compute:
    def histogram(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        values, groups = present(vector, groups)
        values = values.astype(np.float64)
        finite = np.isfinite(values)
        values, groups = values[finite], groups[finite]
        charge(num_groups * bins * COUNT_NBYTES)
        counts = np.zeros((num_groups, bins), np.int64)
        order = by_group(groups, num_groups)
        edges = np.searchsorted(groups[order], np.arange(num_groups + 1))
        for group in range(num_groups):
            members = values[order[edges[group] : edges[group + 1]]]
            counts[group] = np.histogram(members, bins, bounds)[0]
        return UniformBatch(counts)

    return histogram
