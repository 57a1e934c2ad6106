"""Temporary files, to which every object of a folder is written first.

    <root>/.tmp/<random>      begin ── append … ── finish ── (a link to it is the object) ── remove

They are invisible to `list`. Each is written from start to end, and removed by the code that began
it, at the latest when its last reference goes: an interrupt may come before the writing thread can
hand it over. A later writer sweeps the files left by a crash.
"""

# ruff: noqa: PTH103, PTH108, PTH112, PTH118, PTH120 - a Path costs more than these calls

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tensorlake.storage.api.store import SCRATCH, Buffer
from tensorlake.storage.files.bytes import INLINE_NBYTES, bring_to_disk
from tensorlake.storage.files.mappings import begin_write_back
from tensorlake.types import BINARY, writev

__all__ = ["ScratchFile", "ScratchFolder"]

MAX_PIECES: Final = 1024  # of one writev: IOV_MAX of Linux and macOS
WRITE_NBYTES: Final = 512 * 1024
"""Bytes per writev, at most twice as many. Larger ones take page cache by 2 MiB, which a virtual
machine
may have to get from its host: 110 MB then took 25 to 190 ms of processor time, not 26 to 30."""
WRITE_BACK_NBYTES: Final = 8 << 20
"""Bytes written to a file before write-back begins: enough for large disk requests."""
SCRATCH_LIFETIME_S: Final = 24 * 3600  # no write takes a day: older files were left by a crash


class ScratchFile:
    """A file being written, by one thread at a time.

    Args:
        path: Its scratch name.
        descriptor: The open file's, which is empty.
        is_synced: Whether it will be synced, in which case write-back begins early.
    """

    __slots__ = ("_begun", "_descriptor", "_is_synced", "nbytes", "path")

    def __init__(self, path: str, descriptor: int, *, is_synced: bool) -> None:
        self.path = path
        self.nbytes = self._begun = 0
        self._descriptor = descriptor
        self._is_synced = is_synced

    def __del__(self) -> None:
        self.remove()

    def append(self, pieces: Iterable[Buffer]) -> None:
        """Append bytes: one system call may write fewer than it was given."""
        parts = [
            view.cast("B")[at : at + WRITE_NBYTES]
            for piece in pieces
            for view in (memoryview(piece),)
            for at in range(0, view.nbytes, WRITE_NBYTES)
        ]
        start = 0
        while start < len(parts):
            stop, nbytes = start, 0
            while stop < len(parts) and stop - start < MAX_PIECES and nbytes < WRITE_NBYTES:
                nbytes += len(parts[stop])
                stop += 1
            written = writev(self._descriptor, parts[start:stop])
            self.nbytes += written
            while start < stop and written >= len(parts[start]):
                written -= len(parts[start])
                start += 1
            if written:
                parts[start] = parts[start][written:]
            self._let_disk_begin(WRITE_BACK_NBYTES)

    @property
    def modified_ns(self) -> int:
        """Time of the last write by the folder's clock: nanoseconds since 1970."""
        return os.fstat(self._descriptor).st_mtime_ns

    def finish(self, *, durable: bool) -> None:
        """Finish writing; wait for the disk, or only begin write-back of the rest."""
        if durable:
            os.fsync(self._descriptor)
        else:
            self._let_disk_begin(INLINE_NBYTES + 1)
        self._close()

    def remove(self) -> None:
        """Remove its scratch name; a published name stays."""
        if self._descriptor >= 0:
            self._close()
        if self.path:
            path, self.path = self.path, ""
            with suppress(OSError):  # gone already by a rename, or swept later
                os.unlink(path)

    def _let_disk_begin(self, at_least: int) -> None:
        unbegun = self.nbytes - self._begun
        if self._is_synced and unbegun >= at_least:
            begin_write_back(self._descriptor, self._begun, unbegun)
            self._begun = self.nbytes

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class ScratchFolder:
    """The folder of temporary files.

    Args:
        root: The folder of the objects; created by the first of them.
        is_synced: Whether they will be synced to disk.
    """

    def __init__(self, root: str, *, is_synced: bool) -> None:
        self._root = root
        self._folder = os.path.join(root, SCRATCH)
        self._is_synced = is_synced
        self._is_swept = False

    def begin(self) -> ScratchFile:
        """Create a temporary file."""
        path = os.path.join(self._folder, secrets.token_hex(8))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY
        try:
            descriptor = os.open(path, flags, 0o666)
        except FileNotFoundError:
            self._make_root()
            descriptor = os.open(path, flags, 0o666)
        file = ScratchFile(path, descriptor, is_synced=self._is_synced)
        if not self._is_swept:
            self._is_swept = True
            _sweep(self._folder, now_ns=file.modified_ns)
        return file

    def _make_root(self) -> None:
        """Create the folder and always sync its name: later writes will not."""
        folder = self._root
        new_folders: list[str] = []
        while not os.path.isdir(folder):
            new_folders.append(folder)
            folder = os.path.dirname(folder)
        os.makedirs(self._folder, exist_ok=True)
        if self._is_synced:
            for new_folder in new_folders:
                bring_to_disk(os.path.dirname(new_folder))


def _sweep(folder: str, *, now_ns: int) -> None:
    """Remove what crashed writers left behind; ignore other users' files and races.

    Ages are by the folder's own clock: a network folder's may differ from this machine's.
    """
    limit_ns = now_ns - SCRATCH_LIFETIME_S * 10**9
    with suppress(OSError), os.scandir(folder) as scan:
        for entry in scan:
            if entry.stat().st_mtime_ns < limit_ns:
                with suppress(OSError):
                    os.unlink(entry.path)
