"""Reading many files at once into memory that costs little to get.

A fresh page of 4 KiB costs the kernel about as long as copying it, so bytes objects of their own
make reading a picture twice as slow as it need be. Files are read side by side into one anonymous
mapping with huge pages, where the system has them; a sample is a view of its part.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence

from tensorlake.types import Buffer, OwnedBlock

__all__ = ["read_files"]

HUGE_PAGE_NBYTES = 2 << 20
READ_NBYTES = 1 << 20


def read_files(paths: Sequence[str], sizes: Sequence[int]) -> list[Buffer]:
    """Read whole files, whose sizes were looked up before; one that changed is read as it is now.

    The buffers share one block of memory, which lives as long as any of them.
    """
    total = sum(sizes)
    block = memoryview(_block(total)) if total else memoryview(b"")
    buffers: list[Buffer] = []
    start = 0
    for path, size in zip(paths, sizes, strict=True):
        place = block[start : start + size]
        buffers.append(_read(path, place))
        start += size
    return buffers


def _block(nbytes: int) -> OwnedBlock:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return OwnedBlock(-1, nbytes)
    # Private: what may be shared with a child is shared memory, which has small pages.
    block = OwnedBlock(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if nbytes >= HUGE_PAGE_NBYTES:
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


def _read(path: str, place: memoryview) -> Buffer:
    """Read a file into its place, or, where it does not fit exactly, into bytes of its own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        done = 0
        while done < len(place) and (count := os.readv(descriptor, [place[done:]])):
            done += count
        rest = os.read(descriptor, READ_NBYTES)
        if done == len(place) and not rest:
            return place.toreadonly()
        parts = [bytes(place[:done])]
        while rest:
            parts.append(rest)
            rest = os.read(descriptor, READ_NBYTES)
        return b"".join(parts)
    finally:
        os.close(descriptor)
