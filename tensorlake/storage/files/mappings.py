"""Memory mappings of immutable files, and early write-back of files being written.

At most `limit` mappings are cached, the oldest evicted first; a view that a caller still uses keeps
its mapping alive. No locks: each step is one atomic operation on a dict, so readers of any thread
proceed at full speed and a fork cannot leave a lock held. Two threads that open a new file
concurrently both map it, and one mapping goes away with its last view.

The kernel keeps written bytes in memory until a sync, or for half a minute. For files that will be
synced anyway, Linux' sync_file_range starts the disk writes early and does nothing else. It
guarantees nothing, so its failure is ignored: the sync that follows reports any error.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from tensorlake.types import BINARY

HOLDS_DESCRIPTOR: Final = sys.version_info < (3, 13)
DEFAULT_LIMIT: Final = 256 if HOLDS_DESCRIPTOR else 4096
"""Before Python 3.13 a mapping holds a file descriptor, of which a process often has only 1024."""
SYNC_FILE_RANGE_WRITE: Final = 2  # linux/fs.h


class Mappings:
    """Views of whole files, by file name."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._views: dict[str, memoryview] = {}

    def __len__(self) -> int:
        return len(self._views)

    def view(self, file: str) -> memoryview:
        """Map a whole file, or return the view of an earlier call; OSError as from open."""
        view = self._views.get(file)
        if view is None:
            view = self._views[file] = _map(file)
            for oldest in list(self._views)[: -self._limit]:
                self._views.pop(oldest, None)
        return view


def begin_write_back(descriptor: int, offset: int = 0, nbytes: int = 0) -> None:
    """Start writing bytes of an open file to disk; 0 bytes means up to the end of the file."""
    begin = _sync_file_range()
    if begin is not None:
        begin(descriptor, offset, nbytes, SYNC_FILE_RANGE_WRITE)


def _map(file: str) -> memoryview:
    descriptor = os.open(file, os.O_RDONLY | BINARY)
    try:
        nbytes = os.fstat(descriptor).st_size
        if nbytes == 0:  # an empty mapping is an error to the system
            return memoryview(b"")
        if sys.version_info >= (3, 13):
            mapping = mmap.mmap(descriptor, nbytes, access=mmap.ACCESS_READ, trackfd=False)
        else:
            mapping = mmap.mmap(descriptor, nbytes, access=mmap.ACCESS_READ)
        return memoryview(mapping)
    finally:
        os.close(descriptor)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], Any] | None:
    """Find the C library's function; None where it has none."""
    if sys.platform != "linux":
        return None
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found
