"""How many requests to have in flight: found by measuring, because no store says.

A window is as many answers as the limit was, all while that many were under way. Its rate, in bytes
a second, is compared with the window before:

    faster by a tenth     go on in the same direction
    slower by a tenth     turn round
    about the same        fewer: what brings no speed only loads the store, and others' requests

So latency alone drives the limit up, a full line or a store that slows down drives it back, and
around the knee it keeps trying. No clock is read here: times arrive as arguments.
"""

from __future__ import annotations

import threading

__all__ = ["LEAST", "MOST", "START", "ConcurrencyLimit"]

START = 32
LEAST, MOST = 4, 256  # above it one process has no use for more, whatever the store
STEP = 1.25
NOTICEABLE = 0.1  # of a rate; less is noise from one window to the next


class ConcurrencyLimit:
    """A limit that follows what a store can do; safe to use from many threads."""

    def __init__(self, start: int = START) -> None:
        self._limit = float(start)
        self._step = STEP
        self._rate: float | None = None  # of the window before
        self._lock = threading.Lock()
        self._begin(None)

    @property
    def value(self) -> int:
        """How many requests may be in flight now."""
        return round(self._limit)

    def answered(self, nbytes: int, *, in_flight: int, now: float) -> None:
        """Count an answer.

        Args:
            nbytes: Its size.
            in_flight: Requests under way when it came, itself included.
            now: A monotonic clock, in seconds.
        """
        with self._lock:
            if in_flight < self.value:
                self._begin(None)  # nobody asked for more: this says nothing of the limit
                return
            if self._started is None:
                self._begin(now)
                return
            self._answers += 1
            self._nbytes += nbytes
            if self._answers >= self.value and now > self._started:
                self._compare(self._nbytes / (now - self._started))
                self._begin(now)

    def _begin(self, now: float | None) -> None:
        self._started = now
        self._answers = 0
        self._nbytes = 0

    def _compare(self, rate: float) -> None:
        before, self._rate = self._rate, rate
        if before is not None:
            if rate < before * (1 - NOTICEABLE):
                self._step = 1 / self._step
            elif rate < before * (1 + NOTICEABLE):
                self._step = min(self._step, 1 / self._step)
        self._limit = min(max(self._limit * self._step, LEAST), MOST)
        if self._limit in (LEAST, MOST):
            self._step = STEP if self._limit == LEAST else 1 / STEP
