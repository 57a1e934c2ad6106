"""Give a finished file its name, atomically, unless the name is taken; exchange two names.

A hard link fails when the name exists, on every POSIX file system that has links, and on NTFS.
Where there are none (FAT, some FUSE and network mounts) Linux can rename without replacing, and
Windows' rename never replaces.  Where neither works there is no way to publish safely, and writing
raises an error.
"""

# ruff: noqa: PTH104, PTH121 - a Path costs more than these calls

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Final

from tensorlake.errors import UnsupportedStoreError
from tensorlake.types import ON_WINDOWS

NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
AT_FDCWD: Final = -100  # linux/fcntl.h
RENAME_NOREPLACE: Final = 1  # linux/fs.h
RENAME_EXCHANGE: Final = 2  # linux/fs.h
RENAME_SWAP: Final = 2  # sys/stdio.h of macOS


def publish_exclusive(scratch: str, target: str) -> None:
    """Give a file the name `target`, beside or instead of `scratch`; FileExistsError if taken."""
    try:
        os.link(scratch, target)
    except FileExistsError:
        # A network file system whose answer was lost repeats the request, and then finds the
        # link it made.
        if not os.path.samefile(scratch, target):
            raise
    except OSError as error:
        if (
            error.errno not in NO_LINKS and not ON_WINDOWS
        ):  # its errors for this vary by file system
            raise
        rename_exclusive(scratch, target)


def rename_exclusive(scratch: str, target: str) -> None:
    """Rename without replacing; UnsupportedStoreError where kernel or file system cannot."""
    if ON_WINDOWS:
        os.rename(scratch, target)
        return
    code = errno.ENOSYS
    rename = None
    if sys.platform == "linux":
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        source, destination = os.fsencode(scratch), os.fsencode(target)
        if rename(AT_FDCWD, source, AT_FDCWD, destination, RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise UnsupportedStoreError(
            f"the file system of {target!r} has neither hard links nor an exclusive rename,"
            " so two writers could overwrite each other;\n"
            "write to a folder on another file system and tl.copy the dataset here",
            path=target,
        )
    raise OSError(code, os.strerror(code), target)


def exchange_names(one: str, other: str) -> bool:
    """Exchange the names of two files or folders in one step; False where the system cannot."""
    source, destination = os.fsencode(one), os.fsencode(other)
    code: int | None = None
    if sys.platform == "linux":
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename is not None:
            code = rename(AT_FDCWD, source, AT_FDCWD, destination, RENAME_EXCHANGE)
    elif sys.platform == "darwin":
        rename = ctypes.CDLL(None, use_errno=True).renamex_np
        code = rename(source, destination, RENAME_SWAP)
    if code is None:
        return False
    if code == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), other)
