"""Texts that users give and the log keeps for ever: checked before anything is written.

A message, a key, a name. What is no text would be published as what JSON makes of it, and nobody
could read that entry again.
"""

from __future__ import annotations

from tensorlake.errors import InvalidInputError

__all__ = ["check_text"]


def check_text(text: object, *, what: str) -> str:
    """Return it if it is a text that can be stored.

    Raises:
        InvalidInputError: It is something else, or has half a character.
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"{what} {text!r} is {type(text).__name__}, not a text\ngive a str: {str(text)!r}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{what} {text!r} has half a character at {error.start} (a lone surrogate), which"
            " cannot be stored\nleave it out"
        ) from None
    return text
