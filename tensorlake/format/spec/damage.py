"""The one error for stored bytes that are not what was written."""

from __future__ import annotations

from tensorlake.errors import CorruptionError


def damaged(what: str, why: str, *, path: str | None = None, offset: int = 0) -> CorruptionError:
    """Build the error for a damaged object.

    Args:
        what: The object, or the part of it, as its readers know it.
        why: What does not fit.
        path: Where the object lies, if ``what`` does not say it.
        offset: Byte from which on the object is not to be trusted.
    """
    return CorruptionError(
        f"{what} is damaged: {why}\nrestore it from a copy, or run check() to see what is lost",
        object=path or what,
        offset=offset,
    )
