"""Begin to bring what was written to disk, without waiting for it.

A system keeps written bytes in memory until someone syncs them, or for half a minute. Where they
will be synced anyway, the disk may as well begin while more is being made: Linux' sync_file_range
does that and nothing else. It promises nothing, so its failure is none: the sync tells.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

SYNC_FILE_RANGE_WRITE: Final = 2  # linux/fs.h


def begin_write_back(descriptor: int, offset: int = 0, nbytes: int = 0) -> None:
    """Let the disk begin with bytes of an open file; 0 bytes are all up to its end."""
    begin = _sync_file_range()
    if begin is not None:
        begin(descriptor, offset, nbytes, SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], Any] | None:
    """Find the function of the C library; None where it has none."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found
