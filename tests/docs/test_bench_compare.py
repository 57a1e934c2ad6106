"""The interval that ``make bench-compare`` prints beside a median of ratios."""

from itertools import product

import pytest

from benchmarks.compare import interval_of_median

# places of the interval's ends among n ordered values, 95 %: the sign test's table
TABLE = {
    1: (1, 1),
    5: (1, 5),
    6: (1, 6),
    8: (1, 8),
    9: (2, 8),
    12: (3, 10),
    15: (4, 12),
    20: (6, 15),
}


@pytest.mark.parametrize("n", TABLE)
def test_the_interval_is_that_of_the_sign_test(n):
    values = [float(place) for place in range(n, 0, -1)]

    assert interval_of_median(values) == TABLE[n]


def test_it_holds_the_median_as_often_as_it_says():
    """Each value is above or below the median with equal chance: all 2^11 cases are counted."""
    held = 0
    for sides in product((-1.0, 1.0), repeat=11):
        low, high = interval_of_median(sides)
        held += low <= 0 <= high

    assert held / 2**11 >= 0.95
