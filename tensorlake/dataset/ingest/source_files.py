"""Files of a source, on this machine or in an object store, opened the same way.

A file of a URL is read by ranges of it, as it is asked for: what reads a local file piece by piece
reads it so, too.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from tensorlake.errors import InvalidInputError
from tensorlake.storage import Store, open_store, public_url, runtime

__all__ = ["SourceFiles", "is_url"]

READ_AHEAD_NBYTES = 1 << 20
"""Of a remote file: a request costs as long as reading about as much."""


def is_url(path: str) -> bool:
    """Whether a path is of an object store."""
    return "://" in path


class SourceFiles:
    """Opens the files of one source.

    Args:
        storage_options: Of the stores that they lie in, as in ``tl.open``.
    """

    def __init__(self, storage_options: Mapping[str, Any] | None) -> None:
        self._storage_options = storage_options
        self._store = lru_cache(maxsize=64)(self._opened)

    def list(self, folder: str) -> dict[str, int]:
        """Return the files below a folder of a store, with their sizes, by URL."""

        async def every() -> dict[str, int]:
            store = self._store(folder)
            start = folder.rstrip("/")
            return {f"{start}/{one.path}": one.nbytes async for one in store.list("")}

        return runtime.run(every())

    def nbytes(self, path: str) -> int | None:
        """Return the size of a file; None where there is none."""
        if not is_url(path):
            file = Path(path)
            return file.stat().st_size if file.is_file() else None
        folder, _, name = path.rpartition("/")
        if not name or folder.endswith("/"):  # a store or a bucket, not a file
            return None
        found = runtime.run(self._store(folder).head(name))
        return None if found is None else found.nbytes

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading anywhere in it.

        Raises:
            InvalidInputError: There is none.
        """
        if not is_url(path):
            return open(path, "rb")  # noqa: PTH123 - paths are text here; the caller closes it
        nbytes = self.nbytes(path)
        if nbytes is None:
            shown = public_url(path)
            raise InvalidInputError(f"no file {shown!r} to ingest", src=shown)
        folder, _, name = path.rpartition("/")
        ranges = _StoredFile(self._store(folder), name, nbytes)
        return cast("BinaryIO", io.BufferedReader(ranges, READ_AHEAD_NBYTES))

    def _opened(self, folder: str) -> Store:
        return open_store(folder, storage_options=self._storage_options)


class _StoredFile(io.RawIOBase):
    """A file of a store, whose reads are requests for ranges."""

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
