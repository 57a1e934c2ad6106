"""Reading many files at once, side by side, into a few large blocks of memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorlake.dataset import MemoryBlocks
from tensorlake.errors import InvalidInputError
from tensorlake.types import Buffer, opened_at_once, readv, refuse_special

__all__ = ["FileReader", "is_folder", "unreadable_file", "walk_files"]

READ_NBYTES = 1 << 20


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
