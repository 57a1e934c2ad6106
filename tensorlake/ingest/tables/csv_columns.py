"""Corrections of the types that a CSV parser infers, by the text of a column.

A parser reads 007 as 7, +4930 as 4930.0, 0x1A as 26, 99999999999999999999 as 1e20, and times as
UTC. The first three and times stay strings; 99999999999999999999 and 1,5 raise an error that names
the arguments to pass, since only the user knows their meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlake.dataset import is_float
from tensorlake.errors import InvalidInputError, shown

__all__ = ["changed_values", "may_change_numbers", "type_of_text"]

Arrow = Any  # pyarrow ships no types

_CODE = r"^\s*([+-]?0[0-9]+|[+-]?0[xX].*|[+][0-9]+)\s*$"
_LONG_WHOLE = r"^\s*[+-]?[0-9]{16,}\s*$"  # float64 holds each integer of 15 digits
_COMMA = r"^\s*[+-]?[0-9.]*,[0-9]+\s*$"
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"
_LONG_DIGITS = 16


def type_of_text(name: str, guessed: Arrow, text: Arrow) -> Arrow:
    """Return the Arrow type of a column: the inferred type, or string.

    Args:
        name: Name of the column.
        guessed: Type that the parser inferred.
        text: Values as written in the file.

    Raises:
        InvalidInputError: The inferred type would round integers, or numbers have commas.
    """
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    if pa.types.is_temporal(guessed):
        return pa.string()
    text = text.unique()
    if pa.types.is_integer(guessed) or pa.types.is_floating(guessed):
        if pc.any(pc.match_substring_regex(text, _CODE)).as_py():
            return pa.string()
        if pa.types.is_floating(guessed):
            for rounded in _rounded_values(text):
                raise _rounded(name, rounded)
    if pa.types.is_string(guessed):
        given = text.filter(pc.not_equal(text, ""))
        commas = given.filter(pc.match_substring_regex(given, _COMMA))
        whole = pc.match_substring_regex(given, _WHOLE)
        if len(commas) and len(commas) + pc.sum(whole).as_py() == len(given):
            raise _with_comma(name, commas[0].as_py())
    return guessed


def changed_values(name: str, settled: Arrow, text: Arrow) -> dict[str, str]:
    """Find values that the type of a column, inferred before, would change.

    Args:
        name: Name of the column.
        settled: Type of the column: integers or floats.
        text: Values as written in the file.

    Returns:
        The error of each value.
    """
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    text = text.unique()
    codes = text.filter(pc.match_substring_regex(text, _CODE)).to_pylist()
    wrong = {
        value: (
            f"column {name!r} has {shown(value)} after the first and last"
            " lines had numbers, and would"
            f" become another text\nsay what it is: schema={{{name!r}: tl.Text()}} for codes, or"
            f" {{{name!r}: 'int64'}}"
        )
        for value in codes
    }
    if pa.types.is_floating(settled):
        wrong |= {value: _rounded(name, value).message for value in _rounded_values(text)}
    return wrong


def may_change_numbers(text: bytes, delimiter: str) -> bool:
    """Whether some value begins as one that a number would change: +, 0 and a digit, 16 digits.

    Quick, for it sees all the text; what it finds may also be a date, or within quotes.
    """
    data = np.frombuffer(b"\n" + text + b"\n" * (_LONG_DIGITS + 2), np.uint8)
    is_before = data == ord("\n")
    for other in {*b'\r"', *delimiter.encode()}:
        is_before |= data == other
    at = np.flatnonzero(is_before[: -_LONG_DIGITS - 2]) + 1
    first = data[at]
    if (first == ord("+")).any():
        return True
    at += (first == ord("-")) | (first == ord(" "))
    at = at[_is_digit(data[at])]
    follows = data[at + 1]
    is_code = _is_digit(follows) | (follows == ord("x")) | (follows == ord("X"))
    if (is_code & (data[at] == ord("0"))).any():
        return True
    for place in range(1, _LONG_DIGITS):
        at = at[_is_digit(data[at + place])]
    return len(at) > 0


def _rounded_values(text: Arrow) -> list[str]:
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    long = text.filter(pc.match_substring_regex(text, _LONG_WHOLE)).to_pylist()
    return [one for one in long if not is_float(int(one))]


def _is_digit(characters: np.ndarray) -> np.ndarray:
    return characters - np.uint8(ord("0")) < 10  # noqa: PLR2004 - what comes before wraps around


def _rounded(name: str, value: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} has integers that float64 would round, such as {value}"
        f"\nspecify the type: schema={{{name!r}: 'uint64'}}, or {{{name!r}: tl.Text()}}",
        column=name,
        actual=value,
    )


def _with_comma(name: str, value: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} has numbers with commas, such as {shown(value)}"
        f"\nif they are decimal commas: decimal=','; to keep the text: schema={{{name!r}:"
        " tl.Text()}",
        column=name,
        actual=value,
    )
