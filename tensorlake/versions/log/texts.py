"""Strings from users that the log stores permanently, checked before anything is written.

A message, a key, a name. Any other value would be published in its JSON form, and the entry could
not be read again.
"""

from __future__ import annotations

from tensorlake.errors import InvalidInputError

__all__ = ["check_text"]


def check_text(text: object, *, what: str) -> str:
    """Return a value if it is a string that can be stored.

    Raises:
        InvalidInputError: It is not a string, or contains a lone surrogate.
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"{what} {text!r} is {type(text).__name__}, not a string\ngive a str: {str(text)!r}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{what} {text!r} has a lone surrogate (half a character) at {error.start}, which"
            " cannot be stored\nleave it out"
        ) from None
    return text
