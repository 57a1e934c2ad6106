"""Arguments of a step: checked when it is made, and stored as plain JSON values.

settle_size        height, width      integers; a width left out is the height, or open
settle_resampling  antialias, exact   True or False
settle_probability probability        a number from 0 to 1
check_choice       such as short      one of some words
plain_number       any other number   NumPy's become Python's
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Protocol

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import checked_integer

__all__ = [
    "SQUARE",
    "check_choice",
    "is_number",
    "plain_number",
    "settle_probability",
    "settle_resampling",
    "settle_size",
]

MAX_SIDE = 1 << 16

SQUARE: Any = None
"""The width that is not given: equal to the height. A constructed step has a number."""


class Sized(Protocol):
    """A step that has a size."""

    @property
    def height(self) -> int:
        """Its height, as given."""
        ...

    @property
    def width(self) -> int | None:
        """Its width; None where it was not given."""
        ...


def settle_size(step: Sized, *, is_square: bool) -> None:
    """Convert a new step's sides to plain numbers, or refuse them.

    Args:
        step: It has ``height`` and ``width``.
        is_square: A width that is not given is the height; else it stays open.

    Raises:
        InvalidInputError: One is not an integer from 1 to 65536.
    """
    given = {"height": step.height, "width": step.width}
    if given["width"] is SQUARE:
        del given["width"]
    for name, side in given.items():
        kind = type(step).__name__
        checked = checked_integer(
            side,
            name=f"{kind}: {name}",
            least=1,
            most=MAX_SIDE,
            advice=f"write tl.decode.{kind}(224, 224)",
        )
        object.__setattr__(step, name, checked)
    if is_square and step.width is SQUARE:
        object.__setattr__(step, "width", step.height)


def settle_resampling(step: object) -> None:
    """Convert a new step's ``antialias`` and ``exact`` to booleans, or refuse them.

    Raises:
        InvalidInputError: One is neither True nor False: the string "no" would be true.
    """
    for name in ("antialias", "exact"):
        value = getattr(step, name)
        if not isinstance(value, bool | np.bool_):
            raise InvalidInputError(
                f"{type(step).__name__}: {name} is True or False, got {shown(value)}", actual=value
            )
        object.__setattr__(step, name, bool(value))


def settle_probability(step: Any) -> None:
    """Convert a new step's ``probability`` to a plain number, or refuse it.

    Raises:
        InvalidInputError: It is not a number from 0 to 1.
    """
    given: Any = step.probability
    if not is_number(given) or not 0 <= given <= 1:
        raise InvalidInputError(
            f"{type(step).__name__}: probability is from 0 to 1, got {shown(given)}", actual=given
        )
    object.__setattr__(step, "probability", float(given))


def check_choice(step: object, name: str, choices: tuple[str, ...]) -> None:
    """Check an argument of a step whose values are words.

    Raises:
        InvalidInputError: It is another value.
    """
    value = getattr(step, name)
    if not isinstance(value, str) or value not in choices:
        raise InvalidInputError(
            f"{type(step).__name__}: {name} is {' or '.join(map(repr, choices))}, got"
            f" {shown(value)}",
            argument=name,
            actual=value,
        )


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, and neither True nor False."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def plain_number(value: object) -> Any:
    """Convert a NumPy number to Python's; return any other value unchanged.

    >>> plain_number(np.float32(0.5)), plain_number("a")
    (0.5, 'a')
    """
    return value.item() if isinstance(value, np.number) else value
