"""File, which marks a string as a path, and the conversion of media samples to bytes.

For media a str or Path is a path anyway; for Text and Json a str is the value, and only a `File`
reads a file. Files are local: samples on object stores are fetched by ingestion or by links.

A `FileView` is a file of any size that is looked at, not loaded (`Parted.map_file`).
"""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np

from tensorlake.types.base.column import Buffer
from tensorlake.types.base.descriptors import AT_ONCE
from tensorlake.types.base.errors import describe_value, dtype_mismatch, unreadable

if TYPE_CHECKING:
    from tensorlake.types.base.errors import Place

__all__ = [
    "BinaryReader",
    "Content",
    "File",
    "FileView",
    "OwnedBlock",
    "View",
    "file_of",
    "given_bytes",
    "only_regular",
    "opened_at_once",
    "pieces_of",
    "refuse_special",
    "unpack_at",
    "view_of",
]

BLOCK_NBYTES: Final = 4 << 20
BLOCKS_KEPT: Final = 4
"""Blocks of a viewed file in memory: containers jump between their index and their content."""


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


class FileView:
    r"""A file whose bytes are read when they are looked at; a slice is a view, too.

    It is used as a memoryview is, by one thread. A few blocks of the file stay in memory.

    >>> view = FileView("a.bin", 10, lambda start, stop: bytes(range(start, stop)))
    >>> len(view), view[3], bytes(view[4:8][1:3]), view[-2:] == b"\x08\t"
    (10, 3, b'\x05\x06', True)

    Attributes:
        name: Its name, for errors.
    """

    __slots__ = ("_blocks", "_start", "_stop", "name")
    __hash__ = None  # type: ignore[assignment]  # as a mutable buffer

    def __init__(self, name: str, nbytes: int, read: Callable[[int, int], Buffer]) -> None:
        self.name = name
        self._blocks = _Blocks(nbytes, read)
        self._start, self._stop = 0, nbytes

    @property
    def failure(self) -> Exception | None:
        """The error of the first read that failed, which a library may have turned into its own."""
        return self._blocks.failure

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> FileView: ...
    def __getitem__(self, index: int | slice) -> int | FileView:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            assert step == 1, "a view is of adjoining bytes"
            part = object.__new__(FileView)
            part.name, part._blocks = self.name, self._blocks
            part._start, part._stop = self._start + start, self._start + max(start, stop)
            return part
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"byte {index:,} of {len(self):,}")
        return self._blocks.read(self._start + at, self._start + at + 1)[0]

    def __iter__(self) -> Iterator[int]:
        for piece in pieces_of(self, 0, len(self)):
            yield from piece

    def __bytes__(self) -> bytes:
        return self._blocks.read(self._start, self._stop)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bytes | bytearray | memoryview | FileView):
            return len(self) == len(other) and bytes(self) == bytes(other)
        return NotImplemented


class _Blocks:
    """The blocks of a file that were read last."""

    def __init__(self, nbytes: int, read: Callable[[int, int], Buffer]) -> None:
        self._nbytes = nbytes
        self._read = read
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self.failure: Exception | None = None

    def read(self, start: int, stop: int) -> bytes:
        first, last = start // BLOCK_NBYTES, max(start, stop - 1) // BLOCK_NBYTES
        if start >= stop:
            return b""
        if last - first >= BLOCKS_KEPT:
            return self._from_file(start, stop)
        whole = [self._block(number) for number in range(first, last + 1)]
        begin = first * BLOCK_NBYTES
        joined = whole[0] if len(whole) == 1 else b"".join(whole)
        return joined[start - begin : stop - begin]

    def _block(self, number: int) -> bytes:
        block = self._kept.get(number)
        if block is None:
            start = number * BLOCK_NBYTES
            block = self._from_file(start, min(start + BLOCK_NBYTES, self._nbytes))
            self._kept[number] = block
            if len(self._kept) > BLOCKS_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(number)
        return block

    def _from_file(self, start: int, stop: int) -> bytes:
        try:
            return bytes(self._read(start, stop))
        except Exception as error:
            self.failure = self.failure or error
            raise


Content: TypeAlias = Buffer | FileView
"""The content of a file: in memory, or viewed."""
View: TypeAlias = memoryview | FileView


def view_of(content: Content) -> View:
    """Return a view of a file's content, whose slices copy and read nothing."""
    return content if isinstance(content, FileView) else memoryview(content)


def pieces_of(content: Content, start: int, stop: int) -> Iterator[Buffer]:
    """Yield the bytes [start, stop) of a file's content in pieces of bounded size."""
    view = view_of(content)
    for at in range(start, stop, BLOCK_NBYTES):
        piece = view[at : min(at + BLOCK_NBYTES, stop)]
        yield bytes(piece) if isinstance(piece, FileView) else piece


def unpack_at(form: struct.Struct, view: View, offset: int) -> tuple[Any, ...]:
    """Unpack the bytes at an offset, as `struct.unpack_from` does."""
    if isinstance(view, FileView):
        return form.unpack(bytes(view[offset : offset + form.size]))
    return form.unpack_from(view, offset)


def file_of(content: Content) -> io.BufferedIOBase:
    """Return a file object that reads a file's content."""
    if isinstance(content, FileView):
        return io.BufferedReader(_ViewFile(content), BLOCK_NBYTES)
    return io.BytesIO(content)


class _ViewFile(io.RawIOBase):
    def __init__(self, view: FileView) -> None:
        super().__init__()
        self._view = view
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}
        self._at = max(0, bases[whence] + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        data = bytes(self._view[self._at : self._at + len(target)])
        target[: len(data)] = data
        self._at += len(data)
        return len(data)


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
        return os.open(path, flags | AT_ONCE)
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
