"""What the text of a CSV column says against the type that a parser guesses for it.

A parser takes 007 for 7, 99999999999999999999 for 1e20, and leaves 1,5 a text. The first stays
text here, for zeros are dropped from codes, never from quantities; the others are refused with
what to say, for nobody but the user knows what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError

__all__ = ["check_types", "may_change_numbers", "type_of_text"]

Arrow = Any  # pyarrow ships no types

_LEADING_ZERO = r"^\s*[+-]?0[0-9]+\s*$"
_LONG_WHOLE = r"^\s*[+-]?[0-9]{16,}\s*$"  # float64 holds each whole number of 15 digits
_COMMA = r"^\s*[+-]?[0-9.]*,[0-9]+\s*$"
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"
_LONG_DIGITS = 16


def type_of_text(name: str, guessed: Arrow, text: Arrow) -> Arrow:
    """Return the Arrow type of a column: the one guessed, or string.

    Args:
        name: Of the column.
        guessed: What its values could be parsed as.
        text: Values of it as they are written.

    Raises:
        InvalidInputError: The guess would round whole numbers, or numbers have commas.
    """
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    text = text.unique()
    if pa.types.is_integer(guessed) or pa.types.is_floating(guessed):
        if pc.any(pc.match_substring_regex(text, _LEADING_ZERO)).as_py():
            return pa.string()
        if pa.types.is_floating(guessed):
            long = text.filter(pc.match_substring_regex(text, _LONG_WHOLE)).to_pylist()
            rounded = next((one for one in long if int(one) != int(float(one))), None)
            if rounded is not None:
                raise _rounded(name, rounded)
    if pa.types.is_string(guessed):
        given = text.filter(pc.not_equal(text, ""))
        commas = given.filter(pc.match_substring_regex(given, _COMMA))
        whole = pc.match_substring_regex(given, _WHOLE)
        if len(commas) and len(commas) + pc.sum(whole).as_py() == len(given):
            raise _with_comma(name, commas[0].as_py())
    return guessed


def check_types(types: Mapping[str, Arrow], text: Arrow) -> None:
    """Refuse values, met after the types were settled, that a column's type would change.

    Args:
        types: Of the columns that were guessed.
        text: Values of them as they are written.

    Raises:
        InvalidInputError: It names the column and a value.
    """
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    for name, settled in types.items():
        if type_of_text(name, settled, text[name]) == settled:
            continue
        codes = pc.match_substring_regex(text[name], _LEADING_ZERO)
        value = text[name].filter(codes)[0].as_py()
        raise InvalidInputError(
            f"column {name!r} has {value!r} after the first and last lines had numbers, which would"
            f" lose its zeros\nsay what it is: schema={{{name!r}: tl.Text()}} for codes, or"
            f" {{{name!r}: 'int64'}}",
            column=name,
            actual=value,
        )


def may_change_numbers(text: bytes, delimiter: str) -> bool:
    """Whether some value begins as one that a number would change: 0 and a digit, or 16 digits.

    Quick, for it sees all the text; what it finds may also be a date, or within quotes.
    """
    data = np.frombuffer(b"\n" + text + b"\n" * (_LONG_DIGITS + 2), np.uint8)
    is_before = data == ord("\n")
    for other in {*b'\r"', *delimiter.encode()}:
        is_before |= data == other
    at = np.flatnonzero(is_before[: -_LONG_DIGITS - 2]) + 1
    first = data[at]
    at += (first == ord("-")) | (first == ord("+")) | (first == ord(" "))
    at = at[_is_digit(data[at])]
    if (_is_digit(data[at + 1]) & (data[at] == ord("0"))).any():
        return True
    for place in range(1, _LONG_DIGITS):
        at = at[_is_digit(data[at + place])]
    return len(at) > 0


def _is_digit(characters: np.ndarray) -> np.ndarray:
    return characters - np.uint8(ord("0")) < 10  # noqa: PLR2004 - what comes before wraps around


def _rounded(name: str, value: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} has whole numbers that float64 would round, such as {value}"
        f"\nsay what they are: schema={{{name!r}: 'uint64'}}, or {{{name!r}: tl.Text()}}",
        column=name,
        actual=value,
    )


def _with_comma(name: str, value: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} has numbers with commas, such as {value!r}"
        f"\nif they are decimal commas: decimal=','; to keep the text: schema={{{name!r}:"
        " tl.Text()}",
        column=name,
        actual=value,
    )
