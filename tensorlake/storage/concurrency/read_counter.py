"""How much was read on somebody's behalf: what a query cost.

``counted()`` opens a tally for what the code in its body reads, on this thread, in the tasks of the
storage loop that it starts, and in threads that run in a copy of its context. Whoever reads bytes
of a dataset says so by ``note_read``, which costs nothing where nobody counts. Tallies nest: what
an inner one counted, the outer one has counted when the inner one ends.
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
    """What was read so far.

    Attributes:
        nbytes: Of packs: asked of the store, or looked at in a memory map.
        requests: To the store; a memory map needs none.
    """

    nbytes: int = 0
    requests: int = 0
    _lock: ForkLock = field(default_factory=ForkLock, repr=False, compare=False)

    def add(self, nbytes: int, requests: int) -> None:
        """Count what was read."""
        with self._lock:
            self.nbytes += nbytes
            self.requests += requests


_tally: ContextVar[Tally | None] = ContextVar("tensorlake-tally", default=None)


@contextmanager
def counted() -> Generator[Tally]:
    """Count what the body reads."""
    tally = Tally()
    before = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(before)
        note_read(tally.nbytes, requests=tally.requests)


def note_read(nbytes: int, *, requests: int) -> None:
    """Count bytes as read, where somebody wants to know."""
    tally = _tally.get()
    if tally is not None:
        tally.add(nbytes, requests)


def is_counted() -> bool:
    """Whether somebody wants to know: finding out what was read may take time."""
    return _tally.get() is not None
