"""The checksum of stored bytes, xxh3-64, over consecutive pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh3_64

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensorlake.types import Buffer

__all__ = ["checksum_of"]


def checksum_of(pieces: Iterable[Buffer]) -> int:
    """Hash pieces as if joined.

    >>> checksum_of([b"ab", b"c"]) == checksum_of([b"abc"])
    True
    """
    hasher = xxh3_64()
    for piece in pieces:
        hasher.update(piece)
    return hasher.intdigest()
