"""How runs end when their process stops to run flows: without a result, for another process.

waits for an answer     interrupted, wherever they are: a thread that waits for days would keep
                        its process from ending
steps under way         end, and their results are kept
later steps and waits   interrupted before they begin
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

from tensorlake.storage import runtime

__all__ = ["Interrupted", "begin", "end", "step", "wait_for"]


class Interrupted(BaseException):
    """The process stops: the run has no result, and another process continues it.

    Not an ``Exception``: those are results, and would be kept.
    """


_changed = threading.Condition()
_loops: list[runtime.LoopThread] = []
"""The loop on which runs wait; none while this process runs no flows."""
_steps: list[int] = []
"""The threads of steps under way."""


def begin() -> None:
    """Let runs go on from now on."""
    with _changed:
        if not _loops:
            _loops.append(runtime.LoopThread())


def end() -> bool:
    """Interrupt all runs, and wait for their steps under way; return whether there were any."""
    with _changed:
        loops = _loops[:]
        _loops.clear()
    for loop in loops:
        with suppress(TimeoutError):  # a database that does not answer
            loop.stop()
    own = threading.get_ident()  # a step that stops all flows does not wait for itself
    with _changed:
        had_any = bool(_steps)
        _changed.wait_for(lambda: all(one == own for one in _steps))
    return had_any


@contextmanager
def step() -> Generator[None]:
    """Run a step in the body.

    Raises:
        Interrupted: This process runs no flows any more.
    """
    own = threading.get_ident()
    with _changed:
        if not _loops:
            raise Interrupted
        _steps.append(own)
    try:
        yield
    finally:
        with _changed:
            _steps.remove(own)
            _changed.notify_all()


def wait_for(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine until it ends, or this process stops to run flows.

    Raises:
        Interrupted: It does.
    """
    with _changed:  # `end` cancels what was handed over before
        if not _loops:
            coroutine.close()
            raise Interrupted
        waiting = asyncio.run_coroutine_threadsafe(coroutine, _loops[0].loop)
    try:
        return waiting.result()
    except CancelledError:
        raise Interrupted from None
    finally:
        waiting.cancel()  # Ctrl-C in a call of the flow: nothing else ends it
