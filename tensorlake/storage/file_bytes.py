"""What is done with one file: read exact ranges, write all there is, bring it to disk.

One call of the system may read or write less than it was asked to; here it is asked again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tensorlake.storage.store import Buffer
from tensorlake.storage.write_back import begin_write_back

__all__ = [
    "INLINE_NBYTES",
    "ShortFileError",
    "bring_to_disk",
    "read_at_hand",
    "read_into",
    "read_ranges",
    "read_through",
    "read_whole",
    "write_all",
]

INLINE_NBYTES: Final = 256 * 1024
"""Requests up to this size run inline: a copy of 256 KiB costs about what a thread hop does."""
MAX_PIECES: Final = 1024  # of one writev: IOV_MAX of Linux and macOS
WRITE_NBYTES: Final = 512 * 1024
"""Of one writev, up to twice as many. Larger ones take page cache by 2 MiB, which a virtual machine
may have to get from its host: 110 MB then took 25 to 190 ms of processor time, not 26 to 30."""
WRITE_BACK_NBYTES: Final = 8 << 20
"""Written to a file before the disk is let begin with it: enough for large requests to it."""


class ShortFileError(Exception):
    """A file ends before [start, stop) does, of which some bytes came."""

    def __init__(self, start: int, stop: int, received: int) -> None:
        super().__init__(start, stop, received)
        self.start, self.stop, self.received = start, stop, received


def read_ranges(file: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
    """Read several ranges, in the order asked; less only where the file ends."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return [_pread(descriptor, start, stop) for start, stop in ranges]
    finally:
        os.close(descriptor)


def read_through(
    file: str, ranges: Iterable[tuple[int, int]], buffer: memoryview
) -> Iterator[list[memoryview]]:
    """Read ranges one after another, as many at a time as a buffer holds; none is longer than it.

    The same memory serves all of them: it is in the processor's cache, and no page of it is new.

    Yields:
        Where the next of them lie in the buffer, end to end, until more are asked for.

    Raises:
        ShortFileError: The file ends before a range does.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        views: list[memoryview] = []
        at = 0
        for start, stop in ranges:
            if at + stop - start > len(buffer):
                yield views
                views, at = [], 0
            view = buffer[at : at + stop - start]
            if os.preadv(descriptor, [view], start) < len(view):  # the system may give less at once
                data = _pread(descriptor, start, stop)
                if len(data) < len(view):
                    raise ShortFileError(start, stop, len(data))
                view[:] = data
            views.append(view)
            at += len(view)
        yield views
    finally:
        os.close(descriptor)


def read_at_hand(file: str, start: int, stop: int) -> tuple[memoryview, int]:
    """Read a range without waiting for a disk; what there is of it, and how long the file is.

    Raises:
        BlockingIOError: Not all of it is in memory.
        OSError: As from open and read; also where the system has no such reads.
    """
    if not hasattr(os, "RWF_NOWAIT"):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), file)
    # O_NONBLOCK: what is a pipe, and no file, would be waited for in opening it
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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
    data = os.pread(descriptor, stop - start, start)
    if len(data) == stop - start:
        return data
    parts = [data]
    while parts[-1] and (start := start + len(parts[-1])) < stop:
        parts.append(os.pread(descriptor, stop - start, start))
    return b"".join(parts)


def read_into(file: str, start: int, pieces: Sequence[memoryview]) -> int:
    """Fill pieces of memory one after another; returns their bytes, fewer where the file ends."""
    rest = [piece for piece in pieces if piece.nbytes]
    at = start
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while rest and (received := os.preadv(descriptor, rest[:MAX_PIECES], at)):
            at += received
            while rest and received >= rest[0].nbytes:
                received -= rest.pop(0).nbytes
            if received:
                rest[0] = rest[0][received:]
    finally:
        os.close(descriptor)
    return at - start


def read_whole(file: str) -> bytes:
    """Read a file that nobody writes to any more."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _pread(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, pieces: list[Buffer], *, is_synced: bool) -> None:
    """Write a file's bytes; of one that will be synced the disk gets those that lie ready."""
    parts = [
        view.cast("B")[at : at + WRITE_NBYTES]
        for piece in pieces
        for view in (memoryview(piece),)
        for at in range(0, view.nbytes, WRITE_NBYTES)
    ]
    start = end = begun = 0
    while start < len(parts):
        stop, nbytes = start, 0
        while stop < len(parts) and stop - start < MAX_PIECES and nbytes < WRITE_NBYTES:
            nbytes += len(parts[stop])
            stop += 1
        written = os.writev(descriptor, parts[start:stop])
        end += written
        while start < stop and written >= len(parts[start]):
            written -= len(parts[start])
            start += 1
        if written:
            parts[start] = parts[start][written:]
        unbegun = end - begun
        is_ready = unbegun >= WRITE_BACK_NBYTES or (start == len(parts) and unbegun > INLINE_NBYTES)
        if is_synced and is_ready:
            begin_write_back(descriptor, begun, unbegun)
            begun = end


def bring_to_disk(file: str) -> None:
    """Bring a file, or the names in a folder, to disk."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
