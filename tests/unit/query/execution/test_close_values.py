"""AVG, VAR and STD of values that are close to each other and far from 0."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from tensorlake_query import UniformBatch
from tensorlake_query.functions.aggregate.accumulators import (
    IntegerSums,
    RowGroups,
    Spreads,
    Sums,
)

ROWS, GROUPS, BLOCK = 100_000, 5, 1 << 15
TIME = 1_777_638_896_789_123  # µs: a sum of a few is no longer exact in floats
AVERAGE = {
    "f": partial(Sums, is_mean=True),
    "i": partial(IntegerSums, np.dtype(np.int64)),
    "u": partial(IntegerSums, np.dtype(np.int64)),
}
VARIANCE = partial(Spreads, is_root=False, is_of_sample=False)


def of_groups(make, values, num_groups):
    """Return the aggregate of rows in blocks, half of them merged."""
    groups = np.arange(len(values)) % num_groups
    parts = make(), make()
    for start in range(0, len(values), BLOCK):
        rows = slice(start, start + BLOCK)
        part = parts[start // BLOCK % 2]
        part.add(UniformBatch(values[rows]), RowGroups(groups[rows], num_groups))
    parts[0].merge(parts[1], np.arange(num_groups), num_groups)
    return parts[0].result().values


@pytest.mark.parametrize("num_groups", [1, GROUPS])
@pytest.mark.parametrize("value", [0.1, -1e300, 1e15 / 3, TIME, np.uint64(2**64 - 3)])
def test_of_equal_values_the_mean_is_the_value_and_the_variance_0(num_groups, value):
    values = np.full(ROWS, value)

    means = of_groups(AVERAGE[values.dtype.kind], values, num_groups)

    assert (means == float(value)).all()
    assert (of_groups(VARIANCE, values, num_groups) == 0).all()


@pytest.mark.parametrize("num_groups", [1, GROUPS])
def test_variance_far_from_0_is_that_near_0(num_groups):
    near = np.arange(ROWS) % 4

    far = of_groups(VARIANCE, 1e15 + near, num_groups)

    assert far == pytest.approx(np.var(near), rel=1e-12)


def test_variance_with_a_first_value_far_from_the_others_is_numpys():
    values = np.random.default_rng(0).standard_normal(ROWS)
    values[0] = 1e9

    assert of_groups(VARIANCE, values, 1)[0] == pytest.approx(values.var(), rel=1e-12)


@pytest.mark.parametrize("num_groups", [1, GROUPS])
@pytest.mark.parametrize("spread", [1, 1 << 20, 1 << 61])
def test_means_of_integers_are_rounded_once(num_groups, spread):
    values = TIME + np.random.default_rng(0).integers(-spread, spread, ROWS)

    means = of_groups(AVERAGE["i"], values, num_groups)

    for group in range(num_groups):
        own = values[group::num_groups].tolist()
        assert means[group] == float(Fraction(sum(own), len(own)))


def test_means_of_infinite_values_are_numpys():
    values = np.array([np.inf, 1, np.inf, 1, np.nan, -np.inf, np.inf, 3])
    groups = np.array([0, 0, 1, 2, 3, 4, 4, 2])
    accumulator = AVERAGE["f"]()

    accumulator.add(UniformBatch(values), RowGroups(groups, GROUPS))

    np.testing.assert_array_equal(accumulator.result().values, [np.inf, np.inf, 2, np.nan, np.nan])
