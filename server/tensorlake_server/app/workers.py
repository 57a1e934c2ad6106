"""``serve --workers N``: several processes that accept connections of one socket.

    parent    listens; forks N workers; starts those again that end by themselves; passes signals on
    worker    a whole server: its own application, caches and limits
              the parent's end of a pipe closes with it: then a worker stops in order

Workers are forked before any thread runs, so that they share the token of the printed link and the
signing key. Each has the limits of a server: of connections, of memory, of requests a second.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["run_workers"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STARTING_S = 2.0
"""A worker that exits sooner could not start, and another one could not either."""

RESTART_S = 1.0
"""Before a worker that was killed while it started is started again."""


def run_workers(count: int, serve: Callable[[int, int], int]) -> int:
    """Run workers until they are stopped; return the exit code.

    Args:
        count: How many.
        serve: Serves until it is interrupted, given the worker's number and a file descriptor that
            is at its end once the parent is gone; returns the worker's exit code.
    """
    alive, parent = os.pipe()
    started: dict[int, tuple[int, float]] = {}
    stopped_by: int | None = None

    def stop(received: int, _frame: FrameType | None) -> None:
        nonlocal stopped_by
        stopped_by = received
        for pid in started:
            os.kill(pid, received)

    before = {one: signal.signal(one, stop) for one in SIGNALS}
    code = 0
    try:
        for number in range(count):
            started[_forked(number, serve, alive, parent)] = number, time.monotonic()
        while started:
            pid, status = os.wait()
            if pid not in started:
                continue
            number, since = started.pop(pid)
            ended = os.waitstatus_to_exitcode(status)
            if stopped_by is not None:
                continue
            is_young = time.monotonic() - since < STARTING_S
            if is_young and ended >= 0:
                code = ended if ended > 0 else 1
                stop(signal.SIGTERM, None)
                continue
            time.sleep(RESTART_S if is_young else 0)
            sys.stderr.write(f"worker {number} ended with {ended}; another one is started\n")
            started[_forked(number, serve, alive, parent)] = number, time.monotonic()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        os.close(parent)
        os.close(alive)
    return code or (128 + signal.SIGINT if stopped_by == signal.SIGINT else 0)


def _forked(number: int, serve: Callable[[int, int], int], alive: int, parent: int) -> int:
    """Fork a worker; return its process id, to the parent."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()  # a terminal's Ctrl-C is passed on by the parent, once
        for one in SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        os.close(parent)
        code = serve(number, alive)
    except KeyboardInterrupt:
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
