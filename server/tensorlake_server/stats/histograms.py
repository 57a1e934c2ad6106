"""Bars of a histogram: round edges, exact in the dtype of the values, and how many lie between.

    integers, few          a bar each                    0 1 2 3 4
    integers, many         steps of 1, 2, 5 × 10ⁿ        0 20 40 60 …      clamped to the dtype
    floats                 the same, as the dtype has them: 0.1 is float32's 0.1
    times                  seconds, minutes, … days, months, years
    most in the first bar  0 10 20 50 100 200 …          sizes of boxes: even steps would hide them

A bar holds its start and not its end, the last one both. NaN and infinities are in no bar; they
are counted beside. An edge is also written as TQL writes it, without loss: int64's and uint64's
extremes are not doubles, and JSON has no other numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Bars", "Tally", "count_bars", "tally_values"]

RARE = 0.01  # of positive values may lie below the first step
CROWDED = 2 / 3  # of all values in the first bar: even steps tell nothing
MOST_BARS = 30  # seven pixels each, in the viewer's narrowest panel
TIME_STEPS = (
    *((count, "s") for count in (1, 2, 5, 10, 15, 30)),
    *((count, "m") for count in (1, 2, 5, 10, 15, 30)),
    *((count, "h") for count in (1, 2, 3, 6, 12)),
    *((count, "D") for count in (1, 2, 5, 10)),
    *((count, "M") for count in (1, 2, 3, 6)),
    *((count * 10**power, "Y") for power in range(4) for count in (1, 2, 5)),
)
YEAR_ZERO = -1970  # as NumPy counts years
FIRST_YEAR, LAST_YEAR = -1969, 8029  # years 1 to 9999, the ones that TQL writes, from 1970


@dataclass(frozen=True, slots=True)
class Tally:
    """Facts about values beside their bars; `finite` counts those in bars."""

    finite: npt.NDArray[Any]  # Any: numbers of whichever dtype the expression has
    nans: int
    infinities: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Bars:
    """Edges as numbers and as TQL, ascending; one count less than edges, or none of either.

    `cuts` are the inner edges in the dtype of the values.
    """

    edges: list[float]
    bounds: list[str]
    counts: list[int]
    minimum: str | None
    maximum: str | None
    is_rising: bool = False
    cuts: npt.NDArray[Any] | None = None

    def place(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the bar of each finite value of those that were counted."""
        assert self.cuts is not None, "there are values"
        return np.searchsorted(self.cuts, values, side="right")


def tally_values(values: npt.NDArray[Any]) -> Tally:
    """Take NaN and infinities out, and the mean of the others."""
    if values.dtype.kind != "f":
        return Tally(values, 0, 0, _mean(values))
    is_finite = np.isfinite(values)
    if bool(is_finite.all()):
        return Tally(values, 0, 0, _mean(values))
    finite = values[is_finite]
    nans = int(np.count_nonzero(np.isnan(values)))
    return Tally(finite, nans, len(values) - len(finite) - nans, _mean(finite))


def count_bars(values: npt.NDArray[Any], *, time_unit: str | None = None) -> Bars:
    """Count finite values in bars; of times, `time_unit` is what they count since 1970."""
    if len(values) == 0:
        return Bars([], [], [], None, None)
    low, high = values.min(), values.max()
    if time_unit is not None:
        edges = _time_edges(int(low), int(high), time_unit)
    elif values.dtype.kind == "f":
        edges = _float_edges(low, high)
    else:
        edges = _whole_edges(int(low), int(high), np.iinfo(values.dtype))
    counts = _counted(values, edges)
    rising: list[Any] = []
    if (
        time_unit is None
        and low >= 0
        and len(edges) > MOST_BARS // 3
        and counts[0] > CROWDED * len(values)
    ):
        rising = _rising_edges(values, low, high)
        if rising:
            edges, counts = rising, _counted(values, rising)

    def written(one: Any) -> str:
        return _written(one) if time_unit is None else _written_time(int(one), time_unit)

    is_float = values.dtype.kind == "f"
    numbers = [float(str(edge)) if is_float else float(edge) for edge in edges]  # 0.1, not 0.10…149
    bounds = [written(edge) for edge in edges]
    cuts = _inner(values, edges)
    return Bars(numbers, bounds, counts.tolist(), written(low), written(high), bool(rising), cuts)


def _mean(values: npt.NDArray[Any]) -> float | None:
    if len(values) == 0:
        return None
    with np.errstate(over="ignore"):
        mean = float(values.mean(dtype=np.float64))
    return mean if math.isfinite(mean) else None  # the sum of the largest floats is none


def _counted(values: npt.NDArray[Any], edges: list[Any]) -> npt.NDArray[np.int64]:
    places = np.searchsorted(_inner(values, edges), values, side="right")
    return np.bincount(places, minlength=len(edges) - 1)


def _inner(values: npt.NDArray[Any], edges: list[Any]) -> npt.NDArray[Any]:
    return np.array(edges[1:-1], dtype=values.dtype)


def _rising_edges(values: npt.NDArray[Any], low: Any, high: Any) -> list[Any]:
    """Edges of 1, 2, 5 × 10ⁿ from where nearly all lie above, 0 before them; [] where too many."""
    positive = values[values > 0]
    start = float(np.quantile(positive, RARE, method="lower"))
    exponent = math.floor(math.log10(start))
    powers = range(exponent, math.floor(math.log10(float(high))) + 2)
    steps = [float(f"{mantissa}e{power}") for power in powers for mantissa in (1, 2, 5)]
    first = max(place for place, step in enumerate(steps) if step <= start)
    last = next((place for place, step in enumerate(steps) if step > float(high)), None)
    if last is None or last - first > MOST_BARS or steps[last] > float(_largest(values.dtype)):
        return []
    edges = [values.dtype.type(step) for step in steps[first : last + 1]]
    return edges if edges[0] <= low else [values.dtype.type(0), *edges]


def _largest(dtype: np.dtype[Any]) -> Any:
    return np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max


def _whole_edges(low: int, high: int, limits: Any) -> list[int]:
    step = 1 if high - low < MOST_BARS else max(1, int(_round_step((high - low) / MOST_BARS)))
    start = low // step * step
    edges = [*range(start, high + 1, step)]
    edges.append(edges[-1] + step)
    smallest, largest = int(limits.min), int(limits.max)
    return [min(max(edge, smallest), largest) for edge in edges]


def _float_edges(low: Any, high: Any) -> list[Any]:
    """Round edges of the values' dtype, the first not above `low`, the last not below `high`."""
    dtype = type(low)
    if low == high:
        return [low, high]
    step = _round_step(float(high) / MOST_BARS - float(low) / MOST_BARS)
    if step > 0:
        mantissa, exponent = f"{step:.0e}".split("e")
        first, last = math.floor(float(low) / step), math.ceil(float(high) / step)
        made = [float(f"{place * int(mantissa)}e{exponent}") for place in range(first, last + 1)]
        limits = np.finfo(dtype)
        edges = [*np.clip(made, float(limits.min), float(limits.max)).astype(dtype)]
        if edges[0] <= low and edges[-1] >= high and all(a < b for a, b in pairwise(edges)):
            return edges
    return [low, high]  # numbers beside each other: nothing round is between them


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5 × 10ⁿ that is not below `rough`."""
    if rough <= 0:
        return 0.0
    power = math.floor(math.log10(rough))
    for mantissa in (1, 2, 5):
        step = float(f"{mantissa}e{power}")
        if step >= rough:
            return step
    return float(f"1e{power + 1}")


def _time_edges(low: int, high: int, unit: str) -> list[int]:
    span = _moments([low, high], unit)
    years = span.astype("datetime64[Y]").astype(np.int64)
    a_second = int(_moments([1], "s").astype(span.dtype).astype(np.int64)[0])
    is_named = years.min() > FIRST_YEAR and years.max() < LAST_YEAR
    if is_named and high - low >= a_second * MOST_BARS // 2:
        for count, coarse in TIME_STEPS:
            origin = YEAR_ZERO if coarse == "Y" else 0
            first, last = (span.astype(f"datetime64[{coarse}]").astype(np.int64) - origin) // count
            if last - first < MOST_BARS:
                places = (np.arange(first, last + 2) * count + origin).tolist()
                edges = _moments(places, coarse).astype(span.dtype).astype(np.int64).tolist()
                if edges[0] <= low and edges[-1] > high:
                    return edges
                break  # an edge lies beyond what the unit can say
    return _whole_edges(low, high, np.iinfo(np.int64))


def _written(number: Any) -> str:
    """The shortest TQL that is this number in its dtype."""
    return str(number).removesuffix(".0")


def _written_time(moment: int, unit: str) -> str:
    """A moment as text, to the day where it begins one; as a count where no text can say it."""
    exact = _moments([moment], unit)
    if not FIRST_YEAR <= int(exact.astype("datetime64[Y]").astype(np.int64)[0]) <= LAST_YEAR:
        return str(moment)
    for coarse in ("D", "s", "ms", "us"):
        rounded = exact.astype(f"datetime64[{coarse}]")
        if rounded[0] == exact[0]:
            return f"'{rounded[0]}'" if coarse == "D" else f"'{rounded[0]}Z'"
    return f"'{exact[0]}Z'"


def _moments(counts: list[int], unit: str) -> npt.NDArray[np.datetime64]:
    return np.array(counts, dtype=np.int64).astype(f"datetime64[{unit}]")
