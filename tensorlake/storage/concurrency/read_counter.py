"""Count the bytes and requests read by a block of code, such as a query.

``counted()`` opens a tally for the reads of its body: on this thread, in the tasks of the storage
loop that it starts, and in threads that run in a copy of its context. Code that reads a dataset
reports it by ``note_read``, which costs nothing outside of a tally. Tallies nest: when an inner one
ends, its counts are added to the outer one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tensorlake.storage.concurrency.fork_lock import ForkLock

__all__ = ["Tally", "counted", "is_counted", "note_read"]


@dataclass(slots=True)
class Tally:
    """The reads counted so far.

    Attributes:
        nbytes: Bytes of packs: requested from the store, or viewed in a memory map.
        requests: Requests to the store; a memory map needs none.
    """

    nbytes: int = 0
    requests: int = 0
    _lock: ForkLock = field(default_factory=ForkLock, repr=False, compare=False)

    def add(self, nbytes: int, requests: int) -> None:
        """Add a read."""
        with self._lock:
            self.nbytes += nbytes
            self.requests += requests


_tally: ContextVar[Tally | None] = ContextVar("tensorlake-tally", default=None)


@contextmanager
def counted() -> Generator[Tally]:
    """Count the reads of the body."""
    tally = Tally()
    before = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(before)
        note_read(tally.nbytes, requests=tally.requests)


def note_read(nbytes: int, *, requests: int) -> None:
    """Count bytes as read, if a tally is open."""
    tally = _tally.get()
    if tally is not None:
        tally.add(nbytes, requests)


def is_counted() -> bool:
    """Whether a tally is open: computing the size of a read may take time."""
    return _tally.get() is not None
