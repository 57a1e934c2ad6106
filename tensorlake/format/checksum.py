"""The checksum of stored bytes, xxh3-64, of pieces that lie one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh3_64, xxh3_64_intdigest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensorlake.types import Buffer

__all__ = ["checksum_of", "checksums_within"]


def checksum_of(pieces: Iterable[Buffer]) -> int:
    """Hash pieces as the bytes that they are together.

    >>> checksum_of([b"ab", b"c"]) == checksum_of([b"abc"])
    True
    """
    hasher = xxh3_64()
    for piece in pieces:
        hasher.update(piece)
    return hasher.intdigest()


def checksums_within(pieces: Sequence[Buffer]) -> tuple[list[int], int]:
    """Hash each piece, and what they are together: twice in a row, while a processor has it near.

    >>> checksums_within([b"ab", b"c"]) == ([checksum_of([b"ab"]), checksum_of([b"c"])],
    ...     checksum_of([b"abc"]))
    True
    """
    hasher = xxh3_64()
    each: list[int] = []
    for piece in pieces:
        each.append(xxh3_64_intdigest(piece))
        hasher.update(piece)
    return each, hasher.intdigest()
