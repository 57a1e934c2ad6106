"""Waiting for a run of a flow, in the tests of this room."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tensorlake import flows

WAIT_S = 60


def found(id_: str, is_it: Callable[[flows.FlowRun], bool]) -> flows.FlowRun:
    """Wait until a run is as it is asked for."""
    turn = threading.Event()
    for _ in range(WAIT_S * 20):
        if is_it(run := flows.inspect(id_)):
            return run
        turn.wait(0.05)
    raise AssertionError(run)


def until(id_: str, *states: str) -> flows.FlowRun:
    """Wait until a run is in one of some states."""
    return found(id_, lambda run: run.state in states)


def asked(id_: str, what: str) -> flows.FlowRun:
    """Wait until a run asks a question."""
    return found(id_, lambda run: run.waits_for == what)
