"""How much was read on somebody's behalf: what a query cost.

``counted()`` opens a tally for what the code in its body reads, on this thread and in the tasks of
the storage loop that it starts (they inherit its context). Whoever reads bytes of a dataset says so
by ``note_read``, which costs nothing where nobody counts. Tallies nest: an inner one hides the
outer one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Tally", "counted", "note_read"]


@dataclass(slots=True)
class Tally:
    """What was read so far.

    Attributes:
        nbytes: Of packs: asked of the store, or looked at in a memory map.
        requests: To the store; a memory map needs none.
    """

    nbytes: int = 0
    requests: int = 0


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


def note_read(nbytes: int, *, requests: int) -> None:
    """Count bytes as read, where somebody wants to know."""
    tally = _tally.get()
    if tally is not None:
        tally.nbytes += nbytes
        tally.requests += requests
