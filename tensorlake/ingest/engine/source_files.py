"""Files of a source, local or in an object store, opened the same way.

A remote file is read by range requests, on demand, as a local file is read piece by piece. Many
small files, such as images, are read whole, with several concurrent requests; local ones, into a
few large blocks of memory.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from tensorlake.dataset import MemoryBlocks
from tensorlake.errors import InvalidInputError
from tensorlake.storage import ObjectMeta, Store, gather_bounded, open_store, public_url, runtime
from tensorlake.types import Buffer, only_regular, opened_at_once, readv, refuse_special

__all__ = [
    "FileReader",
    "ReadFiles",
    "SourceFiles",
    "is_folder",
    "is_url",
    "unreadable_file",
    "walk_files",
]

ReadFiles = Callable[[Sequence[str], Sequence[int]], list[Buffer]]
"""Reads whole files, given their paths and their sizes when listed."""

REQUESTS_AT_ONCE = 16
"""Concurrent requests per piece of a source; several pieces are read concurrently."""

READ_NBYTES = 1 << 20

READ_AHEAD_NBYTES = 1 << 20
"""Read-ahead of a remote file: a request takes about as long as reading this many bytes."""

COPIED_AT_ONCE_NBYTES = 8 << 20
"""Block size for downloading a remote file where a local one is required."""


def is_url(path: str) -> bool:
    """Whether a path is a URL of an object store."""
    return "://" in path


class FileReader:
    """Reads files for one ingestion, from any number of threads."""

    def __init__(self) -> None:
        self._blocks = MemoryBlocks()

    def read(self, paths: Sequence[str], sizes: Sequence[int]) -> list[Buffer]:
        """Read whole files, whose sizes were looked up before; a changed one as it is now.

        The buffers share one block of memory, which is theirs as long as any of them lives.
        """
        total = sum(sizes)
        block = self._blocks.take(total).data if total else memoryview(bytearray())
        beyond = bytearray(1)
        buffers: list[Buffer] = []
        start = 0
        for path, size in zip(paths, sizes, strict=True):
            buffers.append(_read(path, block[start : start + size], beyond))
            start += size
        return buffers


class SourceFiles:
    """Opens the files of one source.

    Args:
        storage_options: Options of their stores, as in ``tl.open``.
    """

    def __init__(self, storage_options: Mapping[str, Any] | None) -> None:
        self._storage_options = storage_options
        self._store = lru_cache(maxsize=64)(self._opened)
        self._stamps: dict[str, str] = {}
        self._listed: list[str] = []

    def __reduce__(self) -> tuple[type[SourceFiles], tuple[Any]]:
        return type(self), (self._storage_options,)  # read elsewhere, stamps are never asked for

    def list(self, folder: str) -> dict[str, int]:
        """Return the files below a folder of a store, with their sizes, by URL."""

        async def every() -> dict[str, int]:
            store = self._store(folder)
            start = folder.rstrip("/")
            found = {f"{start}/{one.path}": one async for one in store.list("")}
            self._stamps |= {path: _stamp(one) for path, one in found.items()}
            self._listed.append(f"{start}/")
            return {path: one.nbytes for path, one in found.items()}

        return runtime.run(every())

    def stamp(self, path: str) -> str:
        """Return size and modification time of a file as a string; empty if it does not exist.

        For a remote file the ETag replaces the time, where there is one. The stamp of a file that
        was listed comes from the listing, without another request.
        """
        if path not in self._stamps:
            if not is_url(path):
                return stamp_of(path)
            if not path.startswith(tuple(self._listed)):
                self.nbytes(path)
        return self._stamps.get(path, "")

    def below(self, folder: str) -> dict[str, int]:
        """Return the files below a folder, with their sizes, by path, sorted by folder."""
        if is_url(folder):
            found = self.list(folder)
        else:
            is_folder = os.path.isdir(folder)  # noqa: PTH112 - paths are strings here
            paths = [*walk_files(folder, follow_links=False)] if is_folder else []
            self._stamps |= {path: stamp for path in paths if (stamp := stamp_of(path))}
            found = {
                path: int(self._stamps[path].partition(":")[0])
                for path in paths
                if path in self._stamps
            }
        return {path: found[path] for path in sorted(found, key=_by_folders)}

    def reader(self, folder: str) -> ReadFiles:
        """Return a function that reads files, usually below a folder, for one ingestion."""
        of_this_machine = FileReader().read

        def read(paths: Sequence[str], sizes: Sequence[int]) -> list[Buffer]:
            if not is_url(folder):
                return of_this_machine(paths, sizes)
            found = self._contents(paths, folder)
            for path, content in zip(paths, found, strict=True):
                if content is None:
                    raise _no_file(path)
            return cast("list[Buffer]", found)

        return read

    def contents(self, paths: Sequence[str]) -> list[bytes | None]:
        """Read small files whole; None for a file that does not exist.

        Raises:
            InvalidInputError: A file cannot be read.
        """
        urls = [path for path in paths if is_url(path)]
        found = dict(zip(urls, self._contents(urls), strict=True))
        return [found[path] if is_url(path) else _local_content(path) for path in paths]

    def content(self, path: str) -> bytes:
        """Read a whole file that the user named.

        Raises:
            InvalidInputError: The file does not exist, or cannot be read.
        """
        (content,) = self.contents([path])
        if content is None:
            raise _no_file(path)
        return content

    @contextmanager
    def on_this_machine(self, path: str) -> Generator[str]:
        """Yield a local path of a file; a remote file is downloaded for the time of the body.

        Raises:
            InvalidInputError: The file does not exist.
        """
        if not is_url(path):
            yield path
            return
        with self.open(path) as stored, tempfile.NamedTemporaryFile() as copied:
            shutil.copyfileobj(stored, copied, COPIED_AT_ONCE_NBYTES)
            copied.flush()
            yield copied.name

    def _contents(self, urls: Sequence[str], below: str | None = None) -> list[bytes | None]:
        """Read files of stores; all files ``below`` a folder share one store."""
        if not urls:
            return []
        requests: list[Callable[[], Awaitable[bytes | None]]] = []
        for url in urls:
            is_below = below is not None and url.startswith(f"{below.rstrip('/')}/")
            folder = below.rstrip("/") if below and is_below else url.rpartition("/")[0]
            requests.append(partial(self._store(folder).get, url[len(folder) + 1 :]))
        return runtime.run(gather_bounded(requests, limit=REQUESTS_AT_ONCE))

    def nbytes(self, path: str) -> int | None:
        """Return the size of a file; None if it does not exist."""
        if not is_url(path):
            file = Path(path)
            try:
                return file.stat().st_size if file.is_file() else None
            except OSError as error:
                raise unreadable_file(path, error) from error
        folder, _, name = path.rpartition("/")
        if not name or folder.endswith("/"):  # a store or a bucket, not a file
            return None
        found = runtime.run(self._store(folder).head(name))
        if found is None:
            return None
        self._stamps[path] = _stamp(found)
        return found.nbytes

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading anywhere in it.

        Raises:
            InvalidInputError: The file does not exist, or cannot be opened.
        """
        if not is_url(path):
            return _open_local(path)
        nbytes = self.nbytes(path)
        if nbytes is None:
            raise _no_file(path)
        folder, _, name = path.rpartition("/")
        ranges = _StoredFile(self._store(folder), name, nbytes)
        return cast("BinaryIO", io.BufferedReader(ranges, READ_AHEAD_NBYTES))

    def _opened(self, folder: str) -> Store:
        return open_store(folder, storage_options=self._storage_options)


def unreadable_file(path: str, error: OSError) -> InvalidInputError:
    """Return the error for a file that the system does not let us read."""
    message = (
        f"{path!r} cannot be read: {error.strerror or error}\nfix it, or skip it: on_error='skip'"
    )
    return InvalidInputError(message, src=path, item=path)


def is_folder(path: str) -> bool:
    """Whether a local path is a folder.

    Raises:
        InvalidInputError: The system refuses the path: its name is too long, say.
    """
    try:
        return Path(path).is_dir()
    except OSError as error:
        raise unreadable_file(path, error) from error


def walk_files(folder: str, *, follow_links: bool) -> Iterator[str]:
    """Yield the paths of the files below a folder.

    Raises:
        InvalidInputError: A folder there cannot be read: its files would be missing.
    """

    def refuse(error: OSError) -> None:
        path = str(error.filename)
        message = f"the folder {path!r} cannot be read: {error.strerror}\nfix it, or move it away"
        raise InvalidInputError(message, src=path) from error

    for at, _, names in os.walk(folder, onerror=refuse, followlinks=follow_links):
        for name in names:
            yield os.path.join(at, name)  # noqa: PTH118 - making a Path costs as much as reading the file


def stamp_of(path: str) -> str:
    """Return size and modification time of a local file; empty if it does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116 - making a Path costs as much as reading the file
    except OSError:
        return ""
    return f"{found.st_size}:{found.st_mtime_ns}"


def _stamp(found: ObjectMeta) -> str:
    return f"{found.nbytes}:{found.etag or found.modified.isoformat()}"


def _no_file(path: str) -> InvalidInputError:
    shown = public_url(path)
    return InvalidInputError(f"no file {shown!r} to ingest", src=shown, item=shown)


def _by_folders(path: str) -> list[str]:
    return path.split("/" if is_url(path) else os.sep)


def _local_content(path: str) -> bytes | None:
    try:
        with open(path, "rb", opener=only_regular) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable_file(path, error) from error


def _open_local(path: str) -> BinaryIO:
    try:
        return open(path, "rb", opener=only_regular)
    except FileNotFoundError as error:
        raise _no_file(path) from error
    except OSError as error:
        raise unreadable_file(path, error) from error


class _StoredFile(io.RawIOBase):
    """A remote file whose reads are range requests."""

    def __init__(self, store: Store, name: str, nbytes: int) -> None:
        self._store, self._name, self._nbytes = store, name, nbytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._nbytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:  # Any: Python 3.11 has no name for buffers
        place = memoryview(buffer).cast("B")
        stop = min(self._at + len(place), self._nbytes)
        if stop <= self._at:
            return 0
        read = runtime.run(self._store.get_range(self._name, self._at, stop))
        place[: len(read)] = read
        self._at += len(read)
        return len(read)


def _read(path: str, place: memoryview, beyond: bytearray) -> Buffer:
    """Read a file into its place, or, where it does not fit exactly, into bytes of its own.

    A byte more is asked for than fits, so that one call of the system also tells that the file
    ends there: each gives the interpreter away, and threads that read wait to get it back.
    """
    try:
        descriptor = opened_at_once(path)
    except OSError as error:
        raise unreadable_file(path, error) from error
    try:
        done = count = readv(descriptor, [place, beyond])
        while count and done < len(place):  # of 2 GiB one call reads less
            count = readv(descriptor, [place[done:], beyond])
            done += count
        if done and done == len(place):
            return place.toreadonly()
        refuse_special(descriptor, path)  # its size is 0, and a device may never end
        parts = [bytes(place[:done]), bytes(beyond[: done - min(done, len(place))])]
        while rest := os.read(descriptor, READ_NBYTES):
            parts.append(rest)
        return b"".join(parts)
    except OSError as error:
        raise unreadable_file(path, error) from error
    finally:
        os.close(descriptor)
