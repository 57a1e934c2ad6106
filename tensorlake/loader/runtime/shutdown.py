"""How passes end: what they say to who still waits, and the end of all of them with the program.

    closed    by whoever holds the iterator or the loader
    stopped   by somebody who ended storage, on which the pass was waiting
    exit      the interpreter ends: threads that run on would be torn out of their work

A pass is in the register from the first thing its own thread does to the last.
"""

from __future__ import annotations

import atexit
import os
from typing import Protocol

from tensorlake.errors import InvalidStateError

__all__ = ["RunningPass", "closed", "ended", "started", "stopped"]

EXIT_TIMEOUT_S = 5.0  # for a task under way, where the program is ending anyway


class RunningPass(Protocol):
    """A pass whose threads run."""

    def close(self, timeout_s: float) -> None:
        """End them, and wait so long for each kind."""
        ...


def closed() -> InvalidStateError:
    """Return what is raised to who waits for a batch of a pass that somebody else has closed."""
    return InvalidStateError("the loader was closed while a batch was awaited\nmake a new iterator")


def stopped(what: str) -> InvalidStateError:
    """Return what is raised where a request of an open pass was cancelled."""
    return InvalidStateError(
        f"storage was stopped while {what} was on its way"
        "\nstart the pass again, and stop storage when it has ended"
    )


def started(one: RunningPass) -> None:
    """Let a pass be ended with the program."""
    _running.add(one)


def ended(one: RunningPass) -> None:
    """Forget a pass that has ended by itself."""
    _running.discard(one)


def _end_all() -> None:
    for one in list(_running):
        one.close(EXIT_TIMEOUT_S)


_running: set[RunningPass] = set()
atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # their threads are the parent's
