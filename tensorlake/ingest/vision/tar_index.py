"""The index of a tar file: positions of its members, and whether it is complete.

    header 512 B | content, padded to 512 B | header | … | 1,024 zeros, or more: the end

(POSIX.1-2017, pax). Most programs stop unpacking at the first damaged header, or at the end of a
truncated file, without an error. Here the end marker is required (one block of it is enough), with
nothing after it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["Member", "TarIndex", "index_tar"]

HEADER_NBYTES = 512
END_NBYTES = 1024
"""As POSIX has it; half of it ends a file too."""

READ_NBYTES = 1 << 20
LINKS = (tarfile.LNKTYPE, tarfile.SYMTYPE)


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a tar file; `problem` is the reason why its content cannot be read directly."""

    name: str
    start: int
    nbytes: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TarIndex:
    """The complete members of a tar file, and the error after them, if any.

    `headers` are those of pax that hold for all of the file. `lacks_end`: it ends exactly where a
    member does, without the zeros behind the last one; it may have been cut there.
    """

    members: Sequence[Member]
    damage: str | None
    headers: Mapping[str, str]
    lacks_end: bool = False


def index_tar(file: BinaryIO) -> TarIndex:
    """Read the headers of a tar file.

    Raises:
        tarfile.TarError: It does not begin as one.
    """
    size = file.seek(0, 2)
    file.seek(0)
    members: list[Member] = []
    with tarfile.open(fileobj=file, mode="r:") as archive:
        damage = None
        try:
            members.extend(
                Member(one.name, one.offset_data, one.size, _problem(one))
                for one in archive
                if one.isfile() or one.type in LINKS
            )
        except tarfile.TarError as error:  # content that is cut, or a damaged long name
            if not members:
                raise
            damage = f"it cannot be read behind {members[-1].name!r}: {error}"
        at, headers = archive.offset, dict(archive.pax_headers)
    last = members[-1] if members else None
    if last is not None and last.problem is None and last.start + last.nbytes > size:
        members.pop()
        there = max(0, size - last.start)
        damage = f"it ends in {last.name!r}, {there:,} bytes into its {last.nbytes:,}"
    lacks_end = damage is None and at == size
    return TarIndex(members, damage or _damage_at(file, at, size), headers, lacks_end)


def _problem(member: tarfile.TarInfo) -> str | None:
    if member.type in LINKS:
        return f"is a link to {member.linkname!r}: write shards with tar --dereference"
    return "is stored with holes: write shards without tar --sparse" if member.issparse() else None


def _damage_at(file: BinaryIO, at: int, size: int) -> str | None:
    """Say what is wrong where the last header was looked for."""
    file.seek(at)
    header = file.read(HEADER_NBYTES)
    if not header:
        zeros = f"the {HEADER_NBYTES} zeros or more that end a tar file"
        return f"it ends at byte {size:,}, without {zeros}"
    if len(header) < HEADER_NBYTES:
        return f"it ends in a header, at byte {size:,}"
    if any(header):
        return f"its header at byte {at:,} of {size:,} is damaged"
    while rest := file.read(READ_NBYTES):
        if rest.count(0) < len(rest):
            return f"there are data behind its end at byte {at:,} of {size:,}"
    return None
