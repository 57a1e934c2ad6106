"""Rows that clients selected one by one, staged on disk: the id of their result names them.

    one selection   ascending runs of rows, as pairs of varints (LEB128): gap, length
    its name        SHA-256 of those bytes: the same rows again are the same file

An id goes into addresses, which hold a few kilobytes; a selection may have a megabyte. So the
signed id (auth/view_token.py) has the name, and the runs are in a folder, for a week after their
last use and within a budget. With a folder that the operator names, ids outlive a restart and
replicas share them; otherwise it is a temporary one, and clients send the rows again.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError, QueryLimitError, ViewNotFoundError

__all__ = ["KEPT_S", "Int64Array", "StagedRows", "read_runs"]

Int64Array = npt.NDArray[np.int64]

KEPT_S = 7 * 24 * 3600.0  # after the last use
ENDING = ".rows"
NAME = re.compile(r"[0-9a-f]{64}\.rows")
VARINT_NBYTES = 9  # 63 bits
ROW_NBYTES = 8


class StagedRows:
    """Selections in a folder, within a budget. Safe between threads and processes.

    Args:
        budget_nbytes: Most bytes of all of them; those used longest ago go first.
        folder: Where they are; None makes a temporary folder, removed with this object.

    Example:
        >>> staged = StagedRows(1 << 20)
        >>> name = staged.put(bytes([3, 2]))
        >>> read_runs(staged.get(name), 10, most_nbytes=1 << 20).tolist()
        [3, 4]
    """

    def __init__(self, budget_nbytes: int, folder: Path | None = None) -> None:
        self._budget = budget_nbytes
        self._given = folder
        self._temporary: Path | None = None
        self._making = threading.Lock()

    def put(self, runs: bytes) -> str:
        """Stage a selection; return its name.

        Raises:
            QueryLimitError: It is larger than the budget.
        """
        if len(runs) > self._budget:
            raise QueryLimitError(
                f"a selection of {len(runs):,} bytes is larger than all that may be staged:"
                f" {self._budget:,} (selections_nbytes)\nselect rows by a query instead"
            )
        name = hashlib.sha256(runs).hexdigest()
        file = self._folder() / f"{name}{ENDING}"
        if not _touched(file):
            self._make_room(len(runs))
            with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as partial:
                partial.write(runs)
            Path(partial.name).replace(file)  # another process sees all of it, or nothing
        return name

    def get(self, name: str) -> bytes:
        """Read a selection, which is kept for another week.

        Raises:
            ViewNotFoundError: It is not staged here, or no longer.
        """
        file = self._folder() / f"{name}{ENDING}"
        with suppress(FileNotFoundError):
            runs = file.read_bytes()
            if hashlib.sha256(runs).hexdigest() == name and _touched(file):
                return runs
        raise ViewNotFoundError(
            f"the selected rows {name[:8]!r} are not on this server: they were selected on another,"
            " before a restart, or more than a week ago"
            "\nselect them again, or send them again: POST /v1/datasets/{name}/query with rows",
            view=name,
        )

    def _folder(self) -> Path:
        if self._given is not None:
            self._given.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._given
        with self._making:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="tensorlake-selections-"))
                weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
            return self._temporary

    def _make_room(self, nbytes: int) -> None:
        """Remove the expired, then those used longest ago, until so much fits."""
        known: list[tuple[float, int, Path]] = []
        for file in self._folder().iterdir():
            with suppress(FileNotFoundError):  # another process removed it
                if NAME.fullmatch(file.name):
                    known.append((file.stat().st_mtime, file.stat().st_size, file))
        used = nbytes + sum(size for _, size, _ in known)
        oldest = time.time() - KEPT_S
        for at, size, file in sorted(known):
            if at < oldest or used > self._budget:
                file.unlink(missing_ok=True)
                used -= size


def _touched(file: Path) -> bool:
    """Note that a file is used; whether it is there, and not expired."""
    try:
        if file.stat().st_mtime < time.time() - KEPT_S:
            return False
        file.touch()
    except FileNotFoundError:
        return False
    return True


def read_runs(runs: bytes, num_rows: int, *, most_nbytes: int) -> Int64Array:
    """Read a selection as rows, ascending.

    Args:
        runs: Pairs of varints: rows that are left out, then how many are selected.
        num_rows: Rows that there are.
        most_nbytes: How much memory the result may take.

    Raises:
        InvalidInputError: They are not such pairs, or name rows that there are not.
        QueryLimitError: The result would take more memory.

    Example:
        >>> read_runs(bytes([3, 2, 130, 1, 1]), 1000, most_nbytes=1 << 20).tolist()
        [3, 4, 135]
    """
    numbers = _read_varints(runs)
    gaps, lengths = numbers[0::2], numbers[1::2]
    total = sum(numbers.tolist())  # of Python's integers: it cannot overflow
    if len(numbers) % 2 or not len(numbers) or (lengths == 0).any() or (gaps[1:] == 0).any():
        raise InvalidInputError(
            "rows must be pairs of varints: a gap, then the length of a run, both at least 1;"
            " the first gap may be 0\nsee docs/reference/rest.md: Selected rows"
        )
    if total > num_rows:
        raise InvalidInputError(
            f"the last selected row is {total - 1:,}, and there are {num_rows:,} rows"
            "\nsend rows of this version",
            actual=total - 1,
        )
    count = int(lengths.sum())
    if count * ROW_NBYTES > most_nbytes:
        raise QueryLimitError(
            f"{count:,} selected rows need {count * ROW_NBYTES:,} bytes, more than {most_nbytes:,}"
            " (max_query_memory_nbytes)\nselect fewer, or by a query"
        )
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(count, dtype=np.int64)


def _read_varints(data: bytes) -> Int64Array:
    octets = np.frombuffer(data, dtype=np.uint8)
    stops = np.flatnonzero(octets < 0x80) + 1  # noqa: PLR2004 - the high bit: another byte follows
    if not len(stops) or stops[-1] != len(octets):
        return np.empty(0, dtype=np.int64)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), stops[:-1]])
    place = np.arange(len(octets)) - np.repeat(starts, stops - starts)
    if int(place.max()) >= VARINT_NBYTES:
        return np.empty(0, dtype=np.int64)
    parts = (octets & 0x7F).astype(np.int64) << (7 * place)
    return np.add.reduceat(parts, starts)
