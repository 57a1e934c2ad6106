"""Bases: other datasets in whose packs an entry's pages and chunks may be.

A fork's entries have the member ``bases``, ``[{"id", "url", "branch", "seq", "digest"}, …]``, and
the feature ``pack-bases``: a reader that does not know it would miss packs. A pack is looked for in
the dataset itself first, then in its bases, in order. An entry without bases has no such member.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

__all__ = ["PACK_BASES", "Base", "parse_bases"]

PACK_BASES = "pack-bases"
BASES_MAX = 64


@dataclass(frozen=True, slots=True)
class Base:
    """A dataset whose packs a fork reads.

    Attributes:
        id: Its descriptor's id.
        url: Its place, without credentials.
        branch: The branch that the fork began at.
        seq: Number of the commit that the fork began at.
        digest: Digest of that entry.
    """

    id: str
    url: str
    branch: str
    seq: int
    digest: str

    @property
    def version(self) -> str:
        """The version that the fork began at: ``main@12``."""
        return f"{self.branch}@{self.seq}"

    def to_json(self) -> dict[str, Any]:
        """Return the member's form."""
        return asdict(self)


def parse_bases(value: Any) -> tuple[Base, ...]:
    """Read the member ``bases``; other members of a base are not kept.

    Raises:
        ValueError: It is malformed.
    """
    listed = cast("list[dict[str, Any]]", value)
    bases = tuple(
        Base(*(one[name] for name in ("id", "url", "branch", "seq", "digest"))) for one in listed
    )
    for base in bases:
        texts = (base.id, base.url, base.branch, base.digest)
        is_number = type(base.seq) is int and base.seq >= 0
        if not is_number or not all(isinstance(text, str) and text for text in texts):
            raise ValueError(f"{base!r:.200} is not a base")
    if len(bases) > BASES_MAX:
        raise ValueError(f"{len(bases)} bases are more than {BASES_MAX}")
    return bases
