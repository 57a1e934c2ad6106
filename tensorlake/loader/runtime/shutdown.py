"""Shutdown of passes: the errors for waiting consumers, and the end of all passes at exit.

    closed    by the owner of the iterator or the loader
    stopped   by another thread that stopped storage, on which the pass was waiting
    exit      the interpreter ends: threads still running would be killed in their work

A pass is registered from the start to the end of its own thread.
"""

from __future__ import annotations

import atexit
import os
from typing import Protocol

from tensorlake.errors import InvalidStateError

__all__ = ["RunningPass", "closed", "ended", "started", "stopped"]

EXIT_TIMEOUT_S = 5.0  # for a running task, when the program is ending anyway


class RunningPass(Protocol):
    """A pass whose threads are running."""

    def close(self, timeout_s: float) -> None:
        """End the threads, waiting ``timeout_s`` for each kind."""
        ...


def closed() -> InvalidStateError:
    """Return the error for a consumer waiting for a batch of a pass closed by another thread."""
    return InvalidStateError("the loader was closed while a batch was awaited\nmake a new iterator")


def stopped(what: str) -> InvalidStateError:
    """Return the error for a cancelled request of an open pass."""
    return InvalidStateError(
        f"storage was stopped while {what} was being read"
        "\nstart the pass again, and stop storage only when it has ended"
    )


def started(one: RunningPass) -> None:
    """Register a pass, which then ends with the program."""
    _running.add(one)


def ended(one: RunningPass) -> None:
    """Unregister a pass that has ended by itself."""
    _running.discard(one)


def _end_all() -> None:
    for one in list(_running):
        one.close(EXIT_TIMEOUT_S)


_running: set[RunningPass] = set()
atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # the threads belong to the parent
