"""Claims of ranges of packs that are being fetched, so that other reads wait for their bytes.

another process     holds a record lock of the claims' file: it ends with the process
the same process    whose locks do not conflict with each other: its claims are in memory
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tensorlake.storage import ForkLock

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["Claims"]

PACK_BITS: Final = 27  # of a lock's place; 36 more are the offset in the pack
OFFSET_BITS: Final = 36


class Claims:
    """The claims of a folder. Thread-safe."""

    def __init__(self) -> None:
        """Know of no file yet."""
        self._file = -1  # never closed: that would end all claims of the process
        self._lock = ForkLock()  # of the next two
        self._claimed: dict[str, list[tuple[int, int]]] = {}  # by this process, of each pack
        self._process = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether the file was opened."""
        return self._file >= 0

    def open(self, path: Path) -> None:
        """Open the file, or a new one in place of one that has been deleted."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if self._file < 0:
            self._file = file
        else:  # under the same number, which other threads use
            os.dup2(file, self._file, inheritable=False)
            os.close(file)

    def claim(self, pack: str, ranges: Sequence[tuple[int, int]]) -> bool:
        """Claim ranges [start, stop) that a read is going to fetch; False if another one does."""
        assert fcntl is not None, "checked when the folder was opened"
        with self._lock:
            if self._process != os.getpid():  # forked: the reads of the parent are not here
                self._claimed, self._process = {}, os.getpid()
            claimed = self._claimed.get(pack, [])
            if any(a < stop and start < b for a, b in claimed for start, stop in ranges):
                return False
            for at, (start, stop) in enumerate(ranges):
                try:
                    place = _place_of(pack, start)
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, stop - start, place)
                except OSError:
                    self._unlock(pack, ranges[:at])
                    return False
            self._claimed[pack] = [*claimed, *ranges]
            return True

    def release(self, pack: str, ranges: Sequence[tuple[int, int]]) -> None:
        """End claims."""
        with self._lock:
            left = [one for one in self._claimed.pop(pack, ()) if one not in ranges]
            if left:
                self._claimed[pack] = left
            self._unlock(pack, ranges)

    def _unlock(self, pack: str, ranges: Sequence[tuple[int, int]]) -> None:
        assert fcntl is not None, "checked when the folder was opened"
        for start, stop in ranges:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, stop - start, _place_of(pack, start))


def _place_of(pack: str, start: int) -> int:
    number = int(pack[-16:], 16) & ((1 << PACK_BITS) - 1)
    return (number << OFFSET_BITS) + (start & ((1 << OFFSET_BITS) - 1))
