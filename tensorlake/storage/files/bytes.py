"""Operations on one finished file: read exact ranges, sync it to disk.

One system call may read fewer bytes than requested; these functions repeat it.
"""

# ruff: noqa: PTH112 - a Path costs more than these calls

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tensorlake.storage.api.store import Buffer
from tensorlake.types import AT_ONCE, BINARY, ON_WINDOWS, pread, preadv

__all__ = [
    "INLINE_NBYTES",
    "ShortFileError",
    "bring_to_disk",
    "read_if_cached",
    "read_in_turn",
    "read_into",
    "read_ranges",
    "read_whole",
]

INLINE_NBYTES: Final = 256 * 1024
"""Requests up to this size run inline: a copy of 256 KiB costs about as much as a thread hop."""
READ_ONLY: Final = os.O_RDONLY | AT_ONCE
MAX_PIECES: Final = 1024  # of one preadv: IOV_MAX of Linux and macOS


class ShortFileError(Exception):
    """A file ends before [start, stop) does; some of its bytes were received."""

    def __init__(self, start: int, stop: int, received: int) -> None:
        super().__init__(start, stop, received)
        self.start, self.stop, self.received = start, stop, received


def read_ranges(file: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
    """Read several ranges, in the given order; fewer bytes only where the file ends."""
    descriptor = os.open(file, READ_ONLY)
    try:
        return [_pread(descriptor, start, stop) for start, stop in ranges]
    finally:
        os.close(descriptor)


def read_in_turn(file: str, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Read ranges one after another, each on demand.

    If each range is dropped before the next is read, all use the same memory: no page is newly
    allocated, and it is in the processor's cache.

    Raises:
        ShortFileError: The file ends before a range does.
    """
    descriptor = os.open(file, READ_ONLY)
    try:
        for start, stop in ranges:
            data = pread(descriptor, stop - start, start)
            if len(data) < stop - start:  # the system may return less at once
                data = _pread(descriptor, start, stop)
                if len(data) < stop - start:
                    raise ShortFileError(start, stop, len(data))
            yield data
            del data
    finally:
        os.close(descriptor)


def read_if_cached(file: str, start: int, stop: int) -> tuple[memoryview, int]:
    """Read the part of a range that exists without waiting for a disk; also return the file's size.

    Raises:
        BlockingIOError: Not all of it is in memory.
        OSError: As from open and read; also where the system has no such reads.
    """
    if not hasattr(os, "RWF_NOWAIT"):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), file)
    descriptor = os.open(file, READ_ONLY)
    try:
        nbytes = os.fstat(descriptor).st_size
        data = bytearray(max(0, min(stop, nbytes) - start))
        received = os.preadv(descriptor, [data], start, os.RWF_NOWAIT) if data else 0
        if received < len(data):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), file)
        return memoryview(data), nbytes
    finally:
        os.close(descriptor)


def _pread(descriptor: int, start: int, stop: int) -> bytes:
    """Read [start, stop), less only where the file ends: one pread returns at most 2 GiB."""
    data = pread(descriptor, stop - start, start)
    if len(data) == stop - start:
        return data
    parts = [data]
    while parts[-1] and (start := start + len(parts[-1])) < stop:
        parts.append(pread(descriptor, stop - start, start))
    return b"".join(parts)


def read_into(file: str, start: int, pieces: Sequence[memoryview]) -> int:
    """Fill pieces of memory one after another; return the bytes read, fewer at the file's end."""
    rest = [piece for piece in pieces if piece.nbytes]
    at = start
    descriptor = os.open(file, READ_ONLY)
    try:
        while rest and (received := preadv(descriptor, rest[:MAX_PIECES], at)):
            at += received
            while rest and received >= rest[0].nbytes:
                received -= rest.pop(0).nbytes
            if received:
                rest[0] = rest[0][received:]
    finally:
        os.close(descriptor)
    return at - start


def read_whole(file: str) -> bytes:
    """Read a finished file."""
    descriptor = os.open(file, READ_ONLY)
    try:
        return _pread(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def bring_to_disk(file: str) -> None:
    """Sync a file, or the names in a folder, to disk.

    Windows syncs what is open for writing only, and has no call for the names in a folder.
    """
    if ON_WINDOWS and os.path.isdir(file):
        return
    descriptor = os.open(file, os.O_RDWR | BINARY if ON_WINDOWS else READ_ONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
