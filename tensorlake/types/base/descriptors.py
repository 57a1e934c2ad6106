"""Positional and vectored I/O on file descriptors, on every system that Python runs on.

On POSIX these are the calls of `os` themselves. Windows has none of them: there each is made of
single reads and writes, and moves the descriptor's position, so a descriptor that threads share
needs a lock. Windows also translates line ends unless a file is opened with `BINARY`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import FileIO
from typing import Final

__all__ = ["AT_ONCE", "BINARY", "ON_WINDOWS", "pread", "preadv", "pwrite", "readv", "writev"]

ON_WINDOWS: Final = not hasattr(os, "pread")
"""Whether these calls are made of others; what else differs on Windows may depend on it too."""
BINARY: Final = (
    getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_CLOEXEC", 0)
)
"""Flags of each open: bytes as they are, and not for child processes."""
AT_ONCE: Final = BINARY | getattr(os, "O_NONBLOCK", 0)
"""Likewise, where the path may be a named pipe: opening it does not wait for its writer."""


def _pread(descriptor: int, nbytes: int, offset: int, /) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, nbytes)


def _pwrite(descriptor: int, data: bytes, offset: int, /) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


def _readv(descriptor: int, buffers: Sequence[bytearray | memoryview], /) -> int:
    total = 0
    with FileIO(descriptor, "rb", closefd=False) as file:
        for buffer in buffers:
            received = file.readinto(buffer)
            total += received
            if received < len(buffer):  # the file's end, or what one call reads at most
                break
    return total


def _preadv(descriptor: int, buffers: Sequence[bytearray | memoryview], offset: int, /) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return _readv(descriptor, buffers)


def _writev(descriptor: int, buffers: Sequence[bytes | memoryview], /) -> int:
    total = 0
    for buffer in buffers:
        written = os.write(descriptor, buffer)
        total += written
        if written < len(buffer):
            break
    return total


pread = os.pread if hasattr(os, "pread") else _pread
pwrite = os.pwrite if hasattr(os, "pwrite") else _pwrite
preadv = os.preadv if hasattr(os, "preadv") else _preadv
readv = os.readv if hasattr(os, "readv") else _readv


def writev(descriptor: int, buffers: Sequence[bytes | memoryview], /) -> int:
    """Write buffers one after another; return the bytes written, which may be fewer."""
    return os.writev(descriptor, buffers) if hasattr(os, "writev") else _writev(descriptor, buffers)
