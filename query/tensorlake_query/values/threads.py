"""Threads for one operation on many rows: NumPy lets go of the interpreter while it computes.

`RowThreads` gives each of its threads a share of the rows, which it works on a block at a time, so
that what is made for a block stays in a core's cache. The threads live as long as the operation.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import Self

MAX_THREADS = 8  # of one query: a server answers several at once
SHARED_ROWS = 1 << 17  # fewer take less time than a thread takes to start
BLOCK_ROWS = 1 << 15

Work = Callable[[slice], None]


def thread_count() -> int:
    """Return how many threads a run may use."""
    known = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(known(0)) if known else os.cpu_count() or 1
    return min(cores, MAX_THREADS)


class RowThreads:
    """The threads of one operation; none is started for few rows."""

    __slots__ = ("_pool", "_shares")

    def __init__(self, num_rows: int) -> None:
        self._shares = thread_count() if num_rows >= SHARED_ROWS else 1
        self._pool = ThreadPoolExecutor(self._shares - 1) if self._shares > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, work: Work, num_rows: int) -> None:
        """Do work on all rows: it is called with each block of them, in several threads."""
        if self._pool is None or num_rows < SHARED_ROWS:
            _in_blocks(work, 0, num_rows)
            return
        bounds = [num_rows * share // self._shares for share in range(self._shares + 1)]
        begun = [
            self._pool.submit(_in_blocks, work, start, stop) for start, stop in pairwise(bounds[1:])
        ]
        _in_blocks(work, 0, bounds[1])
        for share in begun:
            share.result()


def _in_blocks(work: Work, start: int, stop: int) -> None:
    for first in range(start, stop, BLOCK_ROWS):
        work(slice(first, min(first + BLOCK_ROWS, stop)))
