"""Format and parse counts, sizes and times.

    human_nbytes(2_710_000)   2.71 MB        parse_nbytes("256MiB", name="prefetch")
    human_time(when, now=…)   2 hours ago    duration_of("90d", what="older_than")
    plural(12_480, "row")     12,480 rows    seconds_of("30min", what="timeout")
                                             checked_integer(8, name="workers", least=1)

Output has decimal units and three digits; exact numbers of bytes are written out. Input may have
decimal or binary units. Every argument that is a size is ``int | str``, every duration
``float | timedelta | str``; both are parsed here.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from numbers import Integral, Real
from typing import Final, TypeAlias, TypeGuard

from tensorlake.errors import InvalidInputError, shown

__all__ = [
    "Duration",
    "check_flags",
    "checked_integer",
    "duration_of",
    "human_nbytes",
    "human_time",
    "is_whole_number",
    "parse_nbytes",
    "plural",
    "seconds_of",
]

Duration: TypeAlias = float | dt.timedelta | str
"""A number of seconds, a timedelta, or a string such as "90d"."""

KILO: Final = 1000
BOOLEANS: Final = ("bool", "bool_")  # Python's, and NumPy's, which is not imported here
_SHOWN_UNITS: Final = ("kB", "MB", "GB", "TB", "PB")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?", re.IGNORECASE)
_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12} | {
    f"{letter}i": 1 << 10 * power for power, letter in enumerate("kmgt", start=1)
}
_READABLE_BITS: Final = 32
_MOST_NBYTES: Final = (1 << 63) - 1  # what a file offset holds
_DURATION = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,9})?)\s*(ms|s|min|h|d|w)")
_SPANS: Final = {
    "ms": dt.timedelta(milliseconds=1),
    "s": dt.timedelta(seconds=1),
    "min": dt.timedelta(minutes=1),
    "h": dt.timedelta(hours=1),
    "d": dt.timedelta(days=1),
    "w": dt.timedelta(weeks=1),
}
_STEPS: Final = (
    (dt.timedelta(days=365), "year"),
    (dt.timedelta(days=30), "month"),
    (dt.timedelta(weeks=1), "week"),
    (dt.timedelta(days=1), "day"),
    (dt.timedelta(hours=1), "hour"),
    (dt.timedelta(minutes=1), "minute"),
)


def check_flags(*, unset: tuple[str, ...] = (), **flags: object) -> None:
    """Refuse a value for True or False that is neither: a string, a number, an array.

    Args:
        unset: The names of those that may be None.
        flags: The values by name.

    Raises:
        InvalidInputError: One of them is not a boolean of Python or NumPy; it is named.
    """
    for name, value in flags.items():
        is_unset = value is None and name in unset
        if not is_unset and type(value).__name__ not in BOOLEANS:
            raise InvalidInputError(
                f"{name} is True or False, got {shown(value)}", argument=name, actual=value
            )


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy; True is a boolean.

    >>> is_whole_number(3), is_whole_number(3.0), is_whole_number(True)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def checked_integer(
    value: object, *, name: str, least: int | None = 0, most: int | None = None, advice: str = ""
) -> int:
    """Return an integer of Python or NumPy as Python's.

    Args:
        value: The value.
        name: Which argument it is, for the error.
        least: The smallest valid integer; None: any.
        most: The largest.
        advice: Added to the error, as its last lines.

    Raises:
        InvalidInputError: It is not an integer, or not a valid one.

    >>> checked_integer(8, name="workers", least=1)
    8
    """
    lowest, highest = -math.inf if least is None else least, math.inf if most is None else most
    if is_whole_number(value) and lowest <= value <= highest:
        return int(value)
    bounds = f" >= {least}" if most is None else f" from {least} to {_shown_bound(most)}"
    raise InvalidInputError(
        f"{name} must be an integer{'' if least is None else bounds}, got {shown(value)}"
        + (f"\n{advice}" if advice else ""),
        argument=name,
        actual=value,
    )


def _shown_bound(most: int) -> str:
    bits = most.bit_length()
    return f"2**{bits} - 1" if most == (1 << bits) - 1 and bits > _READABLE_BITS else str(most)


def human_nbytes(nbytes: float) -> str:
    """Format a size with three digits and a decimal unit.

    >>> human_nbytes(812), human_nbytes(43_210), human_nbytes(2_710_000_000)
    ('812 B', '43.2 kB', '2.71 GB')
    """
    if nbytes < KILO:
        return f"{int(nbytes)} B"
    amount, units = nbytes / KILO, iter(_SHOWN_UNITS)
    unit = next(units)
    while amount >= 999.5:  # noqa: PLR2004 - what would print as 1000
        amount, unit = amount / KILO, next(units, unit)
    return f"{amount:.3g} {unit}"


def human_time(when: dt.datetime, *, now: dt.datetime | None = None) -> str:
    """Format the time since an event.

    >>> noon = dt.datetime(2026, 1, 2, 12)
    >>> human_time(noon - dt.timedelta(hours=2), now=noon)
    '2 hours ago'
    """
    passed = (now or dt.datetime.now(dt.UTC)) - when
    for step, unit in _STEPS:
        if passed >= step:
            return f"{plural(passed // step, unit)} ago"
    return "just now"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun.

    >>> plural(1, "row"), plural(12480, "row")
    ('1 row', '12,480 rows')
    >>> plural(3, "mesh"), plural(3, "series")
    ('3 meshes', '3 series')
    """
    ending = "" if noun.endswith("s") else "es" if noun.endswith(("ch", "sh")) else "s"
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{ending}"


def parse_nbytes(value: int | str, *, name: str, least: int = 0) -> int:
    """Parse a size.

    Args:
        value: Bytes; or a string with a unit, decimal or binary: "256MiB", "4 GB".
        name: Which argument it is, for the error.
        least: The smallest valid size.

    Raises:
        InvalidInputError: The value is invalid.

    >>> parse_nbytes("256MiB", name="prefetch") == 256 << 20
    True
    """
    nbytes = int(value) if is_whole_number(value) else -1
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        amount = float(found[1]) * _FACTORS[found[2].lower()]
        nbytes = int(amount) if amount <= _MOST_NBYTES else -1
    if not least <= nbytes <= _MOST_NBYTES:
        raise InvalidInputError(
            f"{name}={shown(value)} is not a size\n"
            f"give an integer number of bytes, {least} or more, or a string such as '256MiB' or"
            " '4 GB'",
            argument=name,
            actual=value,
        )
    return nbytes


def duration_of(span: Duration, *, what: str) -> dt.timedelta:
    """Parse a duration.

    Args:
        span: A number of seconds; a timedelta, also NumPy's; or a string, a number and one of ms,
            s, min, h, d, w. None of them negative.
        what: Which argument it is, for the error.

    Raises:
        InvalidInputError: The value is invalid.

    >>> duration_of("90d", what="older_than").days
    90
    >>> duration_of(1.5, what="timeout")
    datetime.timedelta(seconds=1, microseconds=500000)
    """
    found = _read_duration(span)
    if found is None or found < dt.timedelta(0):
        raise InvalidInputError(
            f"{what}={shown(span)} is not a duration\n"
            "give a number of seconds, a timedelta, or a string with a unit of ms, s, min, h, d, w:"
            " 1.5, timedelta(minutes=30), '30min', '1.5h', '90d'",
            argument=what,
            actual=span,
        )
    return found


def seconds_of(span: Duration, *, what: str) -> float:
    """Parse a duration, in seconds.

    Raises:
        InvalidInputError: It is not a duration.

    >>> seconds_of("30min", what="timeout")
    1800.0
    """
    return duration_of(span, what=what).total_seconds()


def _read_duration(span: object) -> dt.timedelta | None:
    if isinstance(span, dt.timedelta):
        return span
    try:
        if type(span).__name__ == "timedelta64":
            span = _seconds_of_numpy(span)
        if isinstance(span, Real) and not isinstance(span, bool):
            seconds = float(span)
            return dt.timedelta(seconds=seconds) if math.isfinite(seconds) else None
        found = _DURATION.fullmatch(span.strip()) if isinstance(span, str) else None
        return None if found is None else float(found[1]) * _SPANS[found[2]]
    except OverflowError:
        return None  # longer than a timedelta holds


def _seconds_of_numpy(span: object) -> object:
    """Return NaN for one without a unit, or of months, which differ in length."""
    import numpy as np  # not above: the command line prints its help without NumPy

    if not isinstance(span, np.timedelta64):
        return span
    is_span = np.datetime_data(span.dtype)[0] not in {"generic", "Y", "M"}
    return float(span / np.timedelta64(1, "s")) if is_span else math.nan
