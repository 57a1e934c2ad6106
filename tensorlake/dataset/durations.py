"""Spans of time as people write them: ``"30min"``, ``"24h"``, ``"90d"``."""

from __future__ import annotations

import datetime as dt
import re

from tensorlake.errors import InvalidInputError

__all__ = ["duration_of"]

_DURATION = re.compile(r"(\d{1,6})\s*(s|min|h|d|w)")
_UNITS = {
    "s": dt.timedelta(seconds=1),
    "min": dt.timedelta(minutes=1),
    "h": dt.timedelta(hours=1),
    "d": dt.timedelta(days=1),
    "w": dt.timedelta(weeks=1),
}


def duration_of(text: str, *, what: str) -> dt.timedelta:
    """Read a span of time.

    Args:
        text: A whole number and one of s, min, h, d, w.
        what: Which argument it is, for the error.

    Raises:
        InvalidInputError: It is something else.

    >>> duration_of("90d", what="older_than").days
    90
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidInputError(
            f"{what}={text!r} is not a span of time\n"
            "give a whole number and a unit of s, min, h, d, w: '30min', '24h', '90d'"
        )
    return int(found[1]) * _UNITS[found[2]]
