"""Bars of histograms: round, exact, and whole for every dtype."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlake_server.stats.histograms import MOST_BARS, count_bars, tally_values

INT64, UINT64 = np.iinfo(np.int64), np.iinfo(np.uint64)


def test_few_whole_numbers_have_a_bar_each() -> None:
    bars = count_bars(np.array([3, 0, 3, 1]))

    assert bars.bounds == ["0", "1", "2", "3", "4"]
    assert bars.counts == [1, 1, 0, 2]


def test_many_whole_numbers_have_round_edges() -> None:
    bars = count_bars(np.arange(13, 640))

    assert bars.bounds[:3] == ["0", "50", "100"]
    assert (bars.minimum, bars.maximum) == ("13", "639")
    assert sum(bars.counts) == 640 - 13


@pytest.mark.parametrize(
    "values",
    [
        np.array([INT64.min, -1, 0, INT64.max]),
        np.array([0, 1, UINT64.max], dtype=np.uint64),
        np.array([INT64.max - 1, INT64.max]),
        np.array([UINT64.max], dtype=np.uint64),
        np.array([-128, 127], dtype=np.int8),
        np.array([-1.7e308, 1.7e308]),
        np.array([np.finfo(np.float32).max, -np.finfo(np.float32).max]),
        np.array([1.0, np.nextafter(1.0, 2)]),
        np.array([5e-324, 0.0]),
        np.array([0.1, 0.7, 0.3], dtype=np.float32),
        np.array([0.1, 0.7], dtype=np.float16),
        np.array([1e300, 1.0]),
        np.array([1e-40, *[1e-3] * 98, 3e38], dtype=np.float32),
        np.array([*[1.0] * 99, 1.7e308]),
        np.array([*[0] * 99, 255], dtype=np.uint8),
        np.array([*[1] * 99, INT64.max]),
        np.array([-7.5, -7.5]),
        np.linspace(-3.3, 8.9, 1000),
    ],
)
def test_every_value_lies_in_one_bar_whatever_its_dtype(values: np.ndarray) -> None:
    bars = count_bars(values)
    edges = np.array([values.dtype.type(bound) for bound in bars.bounds], dtype=values.dtype)

    assert len(bars.counts) <= MOST_BARS + 2
    assert sum(bars.counts) == len(values)
    for place, count in enumerate(bars.counts):
        is_below = (
            values <= edges[-1] if place == len(bars.counts) - 1 else values < edges[place + 1]
        )
        assert count == np.count_nonzero((values >= edges[place]) & is_below)


def test_an_edge_is_what_a_person_writes() -> None:
    bars = count_bars(np.array([0.0, 0.3, 1.0], dtype=np.float32))

    assert bars.bounds[:3] == ["0", "0.05", "0.1"]
    assert bars.edges[:3] == [0, 0.05, 0.1]


def test_values_that_crowd_at_the_low_end_have_rising_steps() -> None:
    areas = np.array([0.0] + [3.5] * 98 + [150_000.0], dtype=np.float32)
    bars = count_bars(areas)

    assert bars.is_rising
    assert bars.bounds[:5] == ["0", "2", "5", "10", "20"]
    assert (bars.counts[:2], bars.counts[-1], sum(bars.counts)) == ([1, 98], 1, 100)
    assert not count_bars(-areas).is_rising
    assert count_bars(areas.astype(np.int64)).bounds[:3] == ["0", "2", "5"]


def test_nothing_has_no_bars() -> None:
    bars = count_bars(np.empty(0))

    assert (bars.edges, bars.bounds, bars.counts) == ([], [], [])


def test_nan_and_infinities_lie_in_no_bar() -> None:
    tally = tally_values(np.array([np.nan, np.inf, -np.inf, 1, 3]))

    assert (tally.nans, tally.infinities, tally.mean) == (1, 2, 2)
    assert tally.finite.tolist() == [1, 3]


def test_the_mean_of_what_overflows_is_unknown() -> None:
    assert tally_values(np.array([1.7e308, 1.7e308])).mean is None


@pytest.mark.parametrize(
    ("first", "last", "unit", "bounds"),
    [
        ("2026-01-01", "2026-01-20", "us", ["'2026-01-01'", "'2026-01-02'"]),
        ("2020-05-01", "2026-01-20", "s", ["'2020-04-01'", "'2020-07-01'"]),
        ("1705-01-01", "2200-01-01", "ns", ["'1700-01-01'", "'1720-01-01'"]),
        (
            "2026-01-01T00:00:00",
            "2026-01-01T00:01:00",
            "ms",
            ["'2026-01-01'", "'2026-01-01T00:00:05Z'"],
        ),
    ],
)
def test_times_have_edges_of_the_calendar(
    first: str, last: str, unit: str, bounds: list[str]
) -> None:
    moments = np.array([first, last], dtype="datetime64[s]")
    bars = count_bars(moments.astype(f"datetime64[{unit}]").astype(np.int64), time_unit=unit)

    assert bars.bounds[:2] == bounds
    assert sum(bars.counts) == len(moments)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_that_no_text_can_say_are_counts(unit: str) -> None:
    bars = count_bars(np.array([INT64.min + 1, 0, INT64.max]), time_unit=unit)

    assert sum(bars.counts) == 3
    assert unit == "ns" or not bars.bounds[0].startswith("'")  # of nanoseconds all have names
