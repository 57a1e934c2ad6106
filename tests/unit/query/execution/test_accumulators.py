"""Aggregates made batch by batch, or in parts that merge, are those of all rows at once."""

import statistics
from functools import partial
from random import Random

import numpy as np
import pytest

from tensorlake_query import UniformBatch
from tensorlake_query.functions.aggregate.accumulators import (
    Counts,
    Extremes,
    IntegerSums,
    RowGroups,
    Spreads,
    Sums,
)

CLOSE = 1e-7  # means of values near 10⁹ are that exact; sums of their squares lose all digits
FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)


def failing():
    return OverflowError("a sum does not fit")


MADE = {
    "count": (Counts, len),
    "sum": (partial(Sums, is_mean=False), sum),
    "mean": (partial(Sums, is_mean=True), statistics.fmean),
    "integers": (partial(IntegerSums, INT, failing), sum),
    "least": (partial(Extremes, FLOAT, np.fmin), min),
    "variance": (partial(Spreads, is_root=False, is_of_sample=False), statistics.pvariance),
    "deviation": (partial(Spreads, is_root=True, is_of_sample=False), statistics.pstdev),
    "sample": (partial(Spreads, is_root=True, is_of_sample=True), statistics.stdev),
}


def drawn(random, far):
    return None if random.random() < 0.2 else far + random.randrange(9)


def parts_of(random, num_groups, far):
    """Batches of (group, value or None); values far from 0 where a sum of squares loses them."""
    return [
        [
            (
                random.randrange(num_groups),
                None if random.random() < 0.2 else far + random.randrange(9),
            )
            for _ in range(random.choice([0, 1, 40]))
        ]
        for _ in range(5)
    ]


def added(accumulator, part, num_groups, number_of):
    groups = np.array([number_of[group] for group, _ in part], np.int64)
    values = np.array([0 if value is None else value for _, value in part], np.int64)
    valid = np.array([value is not None for _, value in part], np.bool_)
    accumulator.add(UniformBatch(values, valid), RowGroups(groups, num_groups))


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("far", [0, 10**9])
def test_batches_and_merged_parts_give_the_aggregate_of_all_rows(name, seed, far):
    make, plain = MADE[name]
    random = Random(seed)
    num_groups = random.choice([1, 3])
    parts = parts_of(random, num_groups, far)
    whole, merged = make(), make()
    for part in parts:
        added(whole, part, num_groups, range(num_groups))
        order = random.sample(range(num_groups), num_groups)  # its own numbers of the groups
        other = make()
        added(other, part, num_groups, np.argsort(order))
        merged.merge(other, np.array(order), num_groups)

    for accumulator in (whole, merged):
        result = accumulator.result()

        for group in range(num_groups):
            values = [v for part in parts for g, v in part if g == group and v is not None]
            least = {"count": 0, "sample": 2}.get(name, 1)
            is_known = result.valid is None or result.valid[group]
            assert is_known == (len(values) >= least)
            if is_known:
                assert result.values[group] == pytest.approx(plain(values), rel=CLOSE, abs=CLOSE)


def test_parts_whose_sum_overflows_merge_into_an_error():
    make = MADE["integers"][0]
    one, other = make(), make()
    for each in (one, other):
        each.add(UniformBatch(np.array([2**62])), RowGroups(np.zeros(1, np.int64), 1))

    one.merge(other, np.zeros(1, np.int64), 1)

    with pytest.raises(OverflowError):
        one.result()
