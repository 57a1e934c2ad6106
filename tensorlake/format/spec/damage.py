"""The error for damaged stored bytes."""

from __future__ import annotations

from tensorlake.errors import CorruptionError


def damaged(what: str, why: str, *, path: str | None = None, offset: int = 0) -> CorruptionError:
    """Build the error for a damaged object.

    Args:
        what: The name of the object, or of the part of it.
        why: The reason.
        path: The object's path, if it is not ``what``.
        offset: The first byte that is not trusted.
    """
    return CorruptionError(
        f"{what} is damaged: {why}\nrestore it from a copy, or run check() to see what is lost",
        object=path or what,
        offset=offset,
    )
