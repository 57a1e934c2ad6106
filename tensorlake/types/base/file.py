"""File, which marks a string as a path, and the conversion of media samples to bytes.

For media a str or Path is a path anyway; for Text and Json a str is the value, and only a `File`
reads a file. Files are local: samples on object stores are fetched by ingestion or by links.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from tensorlake.types.base.errors import describe_value, dtype_mismatch, unreadable

if TYPE_CHECKING:
    from tensorlake.types.base.errors import Place

__all__ = [
    "BinaryReader",
    "File",
    "OwnedBlock",
    "given_bytes",
    "only_regular",
    "opened_at_once",
    "refuse_special",
]


@dataclass(frozen=True, slots=True)
class File:
    """A sample that is the content of a local file.

    >>> File("notes/readme.txt").path
    'notes/readme.txt'
    """

    path: str | os.PathLike[str]


@runtime_checkable
class BinaryReader(Protocol):
    """A file object, as `open(path, "rb")` gives."""

    def read(self) -> bytes:
        """Return the rest of the file."""
        ...


class OwnedBlock(np.ndarray):
    """Memory of an ingestion that is not written to while this object lives."""


def given_bytes(sample: Any, place: Place, position: int) -> bytes | memoryview | None:
    """Return the bytes of a path, File, bytes or file object; None for others.

    Memory that the caller could still change is copied, also behind a read-only view; views of an
    ``OwnedBlock`` are not copied.

    Raises:
        InvalidInputError: The file cannot be read.
        DTypeMismatchError: A file object gave text.
    """
    if isinstance(sample, bytes):
        return sample
    if isinstance(sample, memoryview) and isinstance(sample.obj, OwnedBlock):
        return sample
    if isinstance(sample, (bytearray, memoryview)):
        return bytes(sample)
    if isinstance(sample, (str, os.PathLike, File)):
        return _read(
            os.fspath(sample.path if isinstance(sample, File) else sample), place, position
        )
    if isinstance(sample, BinaryReader):
        content = sample.read()
        if not isinstance(content, bytes):
            shown = f"a file object that gives {describe_value(content)}"
            hint = 'open the file as binary: open(path, "rb")'
            raise dtype_mismatch(place, position, shown, hint=hint)
        return content
    return None


def _read(path: str, place: Place, position: int) -> bytes:
    if "://" in path:
        hint = "fetch it first and give its bytes, or use tl.ingest"
        raise unreadable(place, position, f"cannot read {path!r}: not a local path", hint=hint)
    try:
        with open(path, "rb", opener=only_regular) as file:
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read the file {path!r}: {reason}"
        raise unreadable(place, position, message) from error


_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
OPENED_AT_ONCE = os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)  # opening a pipe waits for its writer


def only_regular(path: str, flags: int) -> int:
    """Open a regular file: an ``opener`` of ``open`` for a user's path.

    Reading a named pipe would wait for a writer, reading a device may never end.

    Raises:
        OSError: It is a pipe, a socket, a device, or a folder; or it cannot be opened.
    """
    descriptor = opened_at_once(path, flags)
    try:
        refuse_special(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def opened_at_once(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a path that may not be a regular file, without waiting for a named pipe's writer.

    Raises:
        OSError: It cannot be opened, as a socket.
    """
    try:
        return os.open(path, flags | OPENED_AT_ONCE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # the system's error for a socket
            _refuse_kind(Path(path).stat().st_mode, path)
        raise


def refuse_special(descriptor: int, path: str) -> None:
    """Raise an error unless an open file is a regular file.

    Raises:
        OSError: It is a pipe, a socket, a device, or a folder.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    _refuse_kind(mode, path)


def _refuse_kind(mode: int, path: str) -> None:
    for is_kind, name in _KINDS:
        if is_kind(mode):
            raise OSError(errno.EINVAL, f"it is {name}, not a file", path)
