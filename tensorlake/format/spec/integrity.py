"""The checksum of stored bytes (xxh3-64 over consecutive pieces), and the error for damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh3_64

from tensorlake.errors import CorruptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensorlake.types import Buffer

__all__ = ["checksum_of", "damaged"]


def checksum_of(pieces: Iterable[Buffer]) -> int:
    """Hash pieces as if joined.

    >>> checksum_of([b"ab", b"c"]) == checksum_of([b"abc"])
    True
    """
    hasher = xxh3_64()
    for piece in pieces:
        hasher.update(piece)
    return hasher.intdigest()


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
