"""Records of steps: one each while they are few, bounded by time when they are many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.dataset.runs.tables import (
    BURST,
    Meter,
    Step,
    joined_bytes,
    parsed_part,
    table_bytes,
)

DAY_S = 86_400


def metered(times, losses=None):
    meter = Meter(0, times[0] if times else 0.0)
    for number, time in enumerate(times):
        scalars = {} if losses is None else {"loss": losses[number]}
        meter.add(Step(number, time, 0, number, 0.5, 0.25, scalars))
    return meter.take()


def test_few_steps_are_recorded_each():
    table = metered([10.0 + n for n in range(100)], [float(n) for n in range(100)])

    assert table.column("step").to_pylist() == list(range(100))
    assert table.column("loss").to_pylist() == [float(n) for n in range(100)]
    assert set(table.column("steps").to_pylist()) == {1}


def test_many_steps_share_records_that_keep_sums_means_and_maxima():
    count = BURST + 3000
    losses = [1.0] * count
    losses[BURST + 1500] = 99.0
    table = metered([n / 1000 for n in range(count)], losses)

    merged = table.slice(BURST)
    assert len(merged) < 20
    assert sum(table.column("steps").to_pylist()) == count
    assert sum(table.column("wait_s").to_pylist()) == pytest.approx(0.5 * count)
    assert sum(table.column("compute_s").to_pylist()) == pytest.approx(0.25 * count)
    assert max(one for one in merged.column("loss.max").to_pylist() if one) == 99.0
    assert table.column("step").to_pylist()[-1] == count - 1


def test_a_day_of_a_fast_loop_is_at_most_five_megabytes():
    rate = 20
    table = metered([n / rate for n in range(DAY_S * rate // 100)], None)  # a hundredth of a day

    assert len(table) <= BURST + DAY_S // 100 + 1
    assert len(table_bytes(table)) < 5_000_000


@given(st.lists(st.floats(-1e9, 1e9), max_size=50))
def test_no_step_is_lost_whatever_the_clock_says(times):
    table = metered(times)

    counted = 0 if table is None else sum(table.column("steps").to_pylist())
    assert counted == len(times)
    assert table is None or not any(math.isnan(one) for one in table.column("wait_s").to_pylist())


def test_a_day_of_many_steps_is_small():
    meter, random = Meter(0, 0.0), np.random.default_rng(0)
    for number in range(2 * BURST):  # of the hour that follows, each record is of several
        meter.add(Step(number, number / 1e6, 0, number, 0.5))
    meter.take()
    parts = []
    for number in range(3 * 3600):
        scalars = dict(zip("abcd", random.random(4).tolist(), strict=True))
        step = Step(number, 1 + number / 3, 0, number * 256, random.random(), 0.2, scalars)
        meter.add(step)
        if number % 90 == 89:
            parts.append(table_bytes(meter.take()))

    joined = joined_bytes(parts)

    table = parsed_part("joined.parquet", joined)
    assert table.num_columns == 16  # four scalars, each with its maximum
    assert 24 * len(joined) <= 5_000_000
    assert 2700 <= len(table) <= 3700
    assert sum(table.column("steps").to_pylist()) == 3 * 3600
