"""Whole numbers of JSON lines that a column of floats would round.

JSON has one kind of number. A member that is 1.5 in one line and 1152921504606846977 in another is
a float64 for a parser, which holds the second only nearly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from tensorlake.errors import InvalidInputError

__all__ = ["check_whole_numbers"]

_LONG = re.compile(rb"[0-9]{16,}")  # float64 holds each whole number of 15 digits


def check_whole_numbers(lines: bytes, floats: Collection[str], place: str) -> None:
    """Refuse lines with such a number in one of the members that are to be floats.

    Raises:
        InvalidInputError: It names the member and the number.
    """
    if not floats or _LONG.search(lines) is None:
        return
    for line in filter(_LONG.search, lines.splitlines()):
        row = json.loads(line)
        for name in floats:
            value = row.get(name)
            if isinstance(value, int) and int(float(value)) != value:
                raise InvalidInputError(
                    f"{place}: member {name!r} has whole numbers that float64 would round, such as"
                    f" {value}\nsay what they are: schema={{{name!r}: 'int64'}}, or write them as"
                    " texts",
                    tensor=name,
                    actual=value,
                )
