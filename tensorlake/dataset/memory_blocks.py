"""Large blocks of memory that are used again, because new memory is dear.

A fresh page of 4 KiB costs the kernel about as long as copying it, and many times that where a
virtual machine must first get it from its host. So what is read or copied to be stored lies in a
few blocks with huge pages, where the system has them, and a block is used again as soon as nobody
looks at what is in it: the samples of a pack that is stored make room for those of the next.
"""

from __future__ import annotations

import mmap
import weakref

import numpy as np

from tensorlake.types import OwnedBlock

__all__ = ["MemoryBlocks"]

HUGE_PAGE_NBYTES = 2 << 20
BLOCK_NBYTES = 8 << 20
"""Of the smallest block of huge pages: one size fits what comes next. What is not used of it is not
there."""


class MemoryBlocks:
    """Blocks for one ingestion, or one call; taken and given back from any number of threads."""

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []  # taken and given back in one atomic step each

    def take(self, nbytes: int) -> OwnedBlock:
        """Return a block of so many bytes at least, as long as it or a view of it lives."""
        mapping = self._used_before(nbytes) or _mapping(nbytes)
        block = np.frombuffer(mapping, np.uint8).view(OwnedBlock)
        given_back = weakref.finalize(block, self._free.append, mapping)
        given_back.atexit = False
        return block

    def copy_of(self, values: np.ndarray) -> np.ndarray:
        """Return an array's values in a block; in memory of their own where they are few.

        >>> MemoryBlocks().copy_of(np.arange(3)).tolist()
        [0, 1, 2]
        """
        if values.nbytes < HUGE_PAGE_NBYTES:
            return values.copy()
        block = self.take(values.nbytes)
        copied = np.frombuffer(block.data, values.dtype, values.size).reshape(values.shape)
        np.copyto(copied, values)
        return copied

    def _used_before(self, nbytes: int) -> mmap.mmap | None:
        while self._free:
            try:
                mapping = self._free.pop()
            except IndexError:  # another thread took the last
                return None
            if len(mapping) >= nbytes:
                return mapping
        return None


def _mapping(nbytes: int) -> mmap.mmap:
    if nbytes < HUGE_PAGE_NBYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, nbytes)
    # Whole huge pages: Linux aligns only these to them. Private: what may be shared with a child is
    # shared memory, which has small pages.
    whole = -(-max(nbytes, BLOCK_NBYTES) // HUGE_PAGE_NBYTES) * HUGE_PAGE_NBYTES
    mapping = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping
