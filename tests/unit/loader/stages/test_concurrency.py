"""The limit of requests in flight, driven by models of stores instead of a clock."""

from __future__ import annotations

import pytest

from tensorlake.loader.stages.adaptive_limit import LEAST, MOST, START, ConcurrencyLimit

NBYTES = 1_000_000
WINDOWS = 60


def run(rate_of, *, start=START, windows=WINDOWS):
    """Answer as a store does whose bytes a second depend on the requests in flight."""
    limit = ConcurrencyLimit(start)
    now, limits = 0.0, []
    for _ in range(windows):
        value = limit.value
        for _ in range(value + 1):
            now += NBYTES / rate_of(value)
            limit.answered(NBYTES, in_flight=value, now=now)
        limits.append(limit.value)
    return limits


def mean_rate(rate_of, limits):
    return sum(map(rate_of, limits)) / len(limits)


def far_away(in_flight):
    """20 ms a request, and all the bandwidth in the world."""
    return in_flight * NBYTES / 0.020


def narrow(in_flight):
    """20 ms a request, and a line that eight requests fill."""
    return min(in_flight, 8) * NBYTES / 0.020


def crowded(in_flight):
    """A store that answers ever slower from 24 requests on."""
    return min(in_flight, 24) * NBYTES / 0.020 / max(1.0, in_flight / 24) ** 1.5


def test_latency_alone_drives_the_limit_up():
    limits = run(far_away)

    assert max(limits) == MOST
    assert mean_rate(far_away, limits[10:]) > 0.5 * far_away(MOST)


@pytest.mark.parametrize("start", [4, 32, 200])
def test_a_full_line_is_not_asked_for_more_than_fills_it(start):
    limits = run(narrow, start=start)[20:]

    assert sum(limits) / len(limits) < 24
    assert mean_rate(narrow, limits) > 0.8 * narrow(8)


@pytest.mark.parametrize("start", [8, 32, 200])
def test_a_store_that_slows_down_is_asked_for_less(start):
    limits = run(crowded, start=start)[20:]

    assert mean_rate(crowded, limits) > 0.75 * crowded(24)
    assert max(limits) < 80


def test_a_store_that_changes_is_followed():
    calls = iter(range(10**6))

    def changing(in_flight):
        return (narrow if next(calls) < 600 else far_away)(in_flight)

    limits = run(changing, windows=160)

    assert max(limits[-40:]) > 3 * max(limits[10:30])


def test_the_limit_stays_within_its_bounds():
    for rate_of in (far_away, narrow, crowded):
        assert all(LEAST <= value <= MOST for value in run(rate_of))


def test_answers_while_fewer_are_in_flight_say_nothing():
    limit = ConcurrencyLimit(16)

    for number in range(500):
        limit.answered(NBYTES, in_flight=15, now=number * 0.001)

    assert limit.value == 16
