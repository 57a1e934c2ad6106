"""Memory mappings of immutable files, kept open for the next reader.

At most `limit` are kept, the oldest given up first; a view that a caller still holds keeps its
mapping alive by itself.  No locks: each step is one atomic operation on a dict, so readers of any
thread go through at full speed and a fork cannot leave a lock held.  Two threads that meet on a new
file both map it, and one mapping goes away with its last view.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Final

HOLDS_DESCRIPTOR: Final = sys.version_info < (3, 13)
DEFAULT_LIMIT: Final = 256 if HOLDS_DESCRIPTOR else 4096
"""Before Python 3.13 a mapping holds a file descriptor, of which a process often has only 1024."""


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


def _map(file: str) -> memoryview:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
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
