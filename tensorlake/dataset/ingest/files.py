"""Reading many files at once into memory that costs little to get.

A fresh page of 4 KiB costs the kernel about as long as copying it, and many times that where a
virtual machine must first get it from its host. So files are read side by side into a few large
blocks with huge pages, where the system has them, and a block is used again as soon as nobody looks
at what was read into it: the samples of a pack that is stored make room for those of the next.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.types import Buffer, OwnedBlock

__all__ = ["FileReader", "unreadable_file"]

HUGE_PAGE_NBYTES = 2 << 20
READ_NBYTES = 1 << 20


class FileReader:
    """Reads files for one ingestion, from any number of threads."""

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []  # taken and given back in one atomic step each

    def read(self, paths: Sequence[str], sizes: Sequence[int]) -> list[Buffer]:
        """Read whole files, whose sizes were looked up before; a changed one as it is now.

        The buffers share one block of memory, which is theirs as long as any of them lives.
        """
        total = sum(sizes)
        block = self._block(total) if total else memoryview(b"")
        beyond = bytearray(1)
        buffers: list[Buffer] = []
        start = 0
        for path, size in zip(paths, sizes, strict=True):
            buffers.append(_read(path, block[start : start + size], beyond))
            start += size
        return buffers

    def _block(self, nbytes: int) -> memoryview:
        mapping = self._used_before(nbytes) or _mapping(nbytes)
        block = np.frombuffer(mapping, np.uint8).view(OwnedBlock)
        given_back = weakref.finalize(block, self._free.append, mapping)
        given_back.atexit = False
        return block.data

    def _used_before(self, nbytes: int) -> mmap.mmap | None:
        while self._free:
            try:
                mapping = self._free.pop()
            except IndexError:  # another thread took the last
                return None
            if len(mapping) >= nbytes:
                return mapping
        return None


def unreadable_file(path: str, error: OSError) -> InvalidInputError:
    """Return the error for a file that the system does not let us read."""
    message = (
        f"{path!r} cannot be read: {error.strerror}\nmend it, or leave it out: on_error='skip'"
    )
    return InvalidInputError(message, src=path, item=path)


def _mapping(nbytes: int) -> mmap.mmap:
    if nbytes < HUGE_PAGE_NBYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, nbytes)
    # Whole huge pages: Linux aligns only these to them. Private: what may be shared with a child is
    # shared memory, which has small pages.
    whole = -(-nbytes // HUGE_PAGE_NBYTES) * HUGE_PAGE_NBYTES
    mapping = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def _read(path: str, place: memoryview, beyond: bytearray) -> Buffer:
    """Read a file into its place, or, where it does not fit exactly, into bytes of its own.

    A byte more is asked for than fits, so that one call of the system also tells that the file
    ends there: each gives the interpreter away, and threads that read wait to get it back.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable_file(path, error) from error
    try:
        done = count = os.readv(descriptor, [place, beyond])
        while count and done < len(place):  # of 2 GiB one call reads less
            count = os.readv(descriptor, [place[done:], beyond])
            done += count
        if done == len(place):
            return place.toreadonly()
        parts = [bytes(place[:done]), bytes(beyond[: done - min(done, len(place))])]
        while rest := os.read(descriptor, READ_NBYTES):
            parts.append(rest)
        return b"".join(parts)
    except OSError as error:
        raise unreadable_file(path, error) from error
    finally:
        os.close(descriptor)
