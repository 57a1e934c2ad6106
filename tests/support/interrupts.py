"""Ctrl-C at any step: an interrupt that comes exactly where a test wants it.

    step = 1
    while interrupted_at(step, act, within=frozenset({stage.__file__})):
        ...                      # whatever the step was, this holds
        step += 1

A step is a call, line or return of Python in the named files, in the thread of the test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Trace = Callable[[FrameType, str, object], Any]


def interrupted_at(step: int, act: Callable[[], object], *, within: frozenset[str]) -> bool:
    """Do something and interrupt it at that step of the way; False when it has fewer."""
    steps = 0

    def trace(frame: FrameType, _event: str, _argument: object) -> Trace | None:
        nonlocal steps
        if frame.f_code.co_filename not in within:
            return None
        steps += 1
        if steps == step:
            raise KeyboardInterrupt  # which also ends the tracing
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
