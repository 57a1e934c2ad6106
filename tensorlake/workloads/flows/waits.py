"""How runs end when their process stops to run flows: without a result, for another process.

a run that waits for an answer     is interrupted: its thread, which may wait for days, would
                                   keep the process from ending
one within a step                  is interrupted after it, so that its result is kept
one that begins                    is interrupted at once
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

from tensorlake.storage import runtime

__all__ = ["Interrupted", "begin", "check", "end", "run", "wait_for"]


class Interrupted(BaseException):
    """The process stops: the run has no result, and another process continues it.

    Not an ``Exception``: those are results, and would be kept.
    """


_changed = threading.Condition()
_loops: list[runtime.LoopThread] = []
"""The loop on which runs wait; none while this process runs no flows."""
_busy: list[int] = []
"""The threads of runs that do not wait."""


def begin() -> None:
    """Let runs go on from now on."""
    with _changed:
        if not _loops:
            _loops.append(runtime.LoopThread())


def end() -> bool:
    """Interrupt all runs, and wait for those within a step; return whether one did not wait."""
    own = threading.get_ident()  # a run that stops all of them does not wait for itself
    with _changed:
        loops = _loops[:]
        _loops.clear()
        was_busy = any(one != own for one in _busy)
    for loop in loops:
        with suppress(TimeoutError):  # a database that does not answer
            loop.stop()
    with _changed:
        _changed.wait_for(lambda: all(one == own for one in _busy))
    return was_busy


def check() -> None:
    """Do nothing while runs may go on.

    Raises:
        Interrupted: They may not.
    """
    if not _loops:
        raise Interrupted


@contextmanager
def run() -> Generator[None]:
    """Do the work of a run in the body.

    Raises:
        Interrupted: This process runs no flows any more.
    """
    own = threading.get_ident()
    with _changed:
        check()
        _busy.append(own)
    try:
        yield
    finally:
        with _changed:
            _busy.remove(own)
            _changed.notify_all()


def wait_for(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Wait in a run for a coroutine, and return its result.

    Raises:
        Interrupted: This process stops to run flows.
    """
    own = threading.get_ident()
    with _changed:  # `end` cancels what was handed over before
        if not _loops:
            coroutine.close()
            raise Interrupted
        waiting = asyncio.run_coroutine_threadsafe(coroutine, _loops[0].loop)
        _busy.remove(own)
        _changed.notify_all()
    try:
        return waiting.result()
    except CancelledError:
        raise Interrupted from None
    finally:
        waiting.cancel()  # Ctrl-C in a call of the flow: nothing else ends it
        with _changed:
            _busy.append(own)
