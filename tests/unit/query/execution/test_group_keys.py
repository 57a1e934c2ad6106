"""Numbers of keys: equal for equal values only, whichever way the number of rows chooses."""

import math

import numpy as np
import pytest

from tensorlake_query.values.group_keys import codes_of, group_rows, num_distinct
from tensorlake_query.values.hash_table import BLOCK_ROWS
from tensorlake_query.values.source import UniformBatch

NANS = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)


def values_of(dtype, count):
    random = np.random.default_rng(3)
    if dtype.startswith("float"):
        values = np.round(random.random(count) * 50, 2).astype(dtype)
        values[::11], values[1::11], values[2::11] = 0.0, -0.0, np.inf
        if dtype == "float64":
            values[3::11] = np.resize(NANS, len(values[3::11])).view(np.float64)
        return values
    limits = np.iinfo(dtype)
    few = random.integers(limits.min, limits.max, 300, dtype, endpoint=True)
    return few[random.integers(0, len(few), count)]


def comparable(value):
    """Return the value, or a text for NaN, which equals nothing."""
    return "nan" if math.isnan(value) else value


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "uint64", "int32", "int16"]
)
@pytest.mark.parametrize("count", [1000, 70_000])
@pytest.mark.parametrize("is_nullable", [False, True])
def test_equal_values_have_one_number(dtype, count, is_nullable):
    values = values_of(dtype, count)
    valid = np.arange(count) % 5 != 0 if is_nullable else None

    codes, above, _ = codes_of(UniformBatch(values, valid))

    expected = {}
    for value, known, code in zip(
        values.tolist(), [True] * count if valid is None else valid.tolist(), codes.tolist(),
        strict=True,
    ):  # fmt: skip
        key = comparable(value) if known else None
        assert expected.setdefault(key, code) == code
    assert len(set(expected.values())) == len(expected)
    assert num_distinct(values if valid is None else values[valid]) == len(expected) - is_nullable
    assert codes.max() <= above
    assert (codes >= 0).all()


@pytest.mark.parametrize("count", [1000, 70_000])
def test_groups_are_numbered_as_they_appear(count):
    values = values_of("float64", count)
    texts = np.array([str(place % 7) for place in range(count)], object)

    groups = group_rows((UniformBatch(values), UniformBatch(texts)), count)

    seen = {}
    for value, text in zip(values.tolist(), texts.tolist(), strict=True):
        seen.setdefault((comparable(value), text), len(seen))
    assert groups.count == len(seen)
    assert groups.first.tolist() == sorted(groups.first.tolist())
    assert groups.of_row[groups.first].tolist() == list(range(groups.count))
    keys = zip(groups.keys[0].values.tolist(), groups.keys[1].values.tolist(), strict=True)
    assert [(comparable(value), text) for value, text in keys] == list(seen)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("repeats", [0, 500, 50_000])
def test_numbers_that_hardly_repeat_are_numbered_as_they_appear(dtype, repeats):
    count = 4 * BLOCK_ROWS + 5
    random = np.random.default_rng(6)
    values = (random.permutation(count) * 1001 - 10**6).astype(dtype)
    values[random.integers(0, count, repeats)] = values[random.integers(0, count, repeats)]
    if dtype.startswith("float"):
        values[[5, 70, 999]], values[[6, 71]], values[[7, 72, 73]] = 0.0, -0.0, np.nan

    groups = group_rows((UniformBatch(values),), count)

    seen = {}
    expected = [seen.setdefault(comparable(value), len(seen)) for value in values.tolist()]
    assert groups.of_row.tolist() == expected
    assert groups.count == len(seen) == num_distinct(values)


def test_one_number_and_none_are_one_group_and_none():
    assert [codes_of(UniformBatch(np.full(n, 2.5)))[1] for n in (0, 1, 2)] == [0, 1, 1]
    assert [num_distinct(np.full(n, np.nan)) for n in (0, 1, 2)] == [0, 1, 1]
