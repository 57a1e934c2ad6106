"""Clocks of one thread: time it ran, or could have run if a processor had been free.

    wall time = running + ready, on the queue for a processor + blocked

The first two are the cost of work on this machine at its current load; only the third is a wait:
for the interpreter's lock, or a page of a mapped file. Linux reports the second in
``/proc/thread-self/schedstat``; elsewhere it is assumed to be 0, and counts as blocked.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tensorlake.types import BINARY, pread

__all__ = ["Times", "queued_by_thread", "thread_times"]

SCHEDSTAT = "/proc/thread-self/schedstat"
SCHEDSTAT_NBYTES = 128
THREADS = Path("/proc/self/task")


class Times(NamedTuple):
    """Seconds of a thread; only differences mean anything."""

    running_s: float
    queued_s: float  # runnable without a processor

    @property
    def ready_s(self) -> float:
        """Both."""
        return self.running_s + self.queued_s

    def since(self, before: Times) -> Times:
        """Return the difference to earlier times of the same thread."""
        return Times(self.running_s - before.running_s, self.queued_s - before.queued_s)

    def plus(self, more: Times) -> Times:
        """Return the sum with other times."""
        return Times(self.running_s + more.running_s, self.queued_s + more.queued_s)


class _Schedstat:
    """A thread's open file: reading it takes 3 microseconds, opening it ten times that."""

    def __init__(self) -> None:
        self.process = os.getpid()
        try:
            self._file = os.open(SCHEDSTAT, os.O_RDONLY | BINARY)
        except OSError:  # another system, or a kernel without these counts
            self._file = -1

    def queued_s(self) -> float:
        """Return how long the thread has waited for a processor."""
        if self._file < 0:
            return 0.0
        fields = pread(self._file, SCHEDSTAT_NBYTES, 0).split()
        return int(fields[1]) / 1e9

    def __del__(self) -> None:
        if self._file >= 0 and self.process == os.getpid():
            os.close(self._file)


_own = threading.local()


def thread_times() -> Times:
    """Return the times of the calling thread.

    >>> before = thread_times()
    >>> thread_times().since(before).running_s >= 0
    True
    """
    schedstat = getattr(_own, "schedstat", None)
    if schedstat is None or schedstat.process != os.getpid():  # a fork's file is its parent's
        schedstat = _own.schedstat = _Schedstat()
    return Times(time.thread_time(), schedstat.queued_s())


def queued_by_thread() -> dict[str, float]:
    """Return how long each thread of this process has waited for a processor, where it is known."""
    found: dict[str, float] = {}
    for one in THREADS.iterdir() if THREADS.exists() else ():
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            found[one.name] = int((one / "schedstat").read_text().split()[1]) / 1e9
    return found
