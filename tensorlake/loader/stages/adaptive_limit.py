"""The number of requests in flight: found by measurement, because stores do not report it.

A window is as many answers as the limit, all received while that many requests were in flight. Its
rate, in bytes per second, is compared with the previous window:

    faster by a tenth     continue in the same direction
    slower by a tenth     reverse
    about the same        fewer: requests without a gain only load the store and delay others

So latency drives the limit up, saturated bandwidth or a slowing store drives it down, and around
the knee it keeps probing. No clock is read here: times are arguments.
"""

from __future__ import annotations

import threading

__all__ = ["LEAST", "MOST", "START", "ConcurrencyLimit"]

START = 32
LEAST, MOST = 4, 256  # one process has no use for more, with any store
STEP = 1.25
NOTICEABLE = 0.1  # of a rate; a smaller change is noise between windows


class ConcurrencyLimit:
    """A limit that follows a store's capacity; safe to use from many threads."""

    def __init__(self, start: int = START) -> None:
        self._limit = float(start)
        self._step = STEP
        self._rate: float | None = None  # of the previous window
        self._lock = threading.Lock()
        self._begin(None)

    @property
    def value(self) -> int:
        """Number of requests that may be in flight now."""
        return round(self._limit)

    def answered(self, nbytes: int, *, in_flight: int, now: float) -> None:
        """Count an answer.

        Args:
            nbytes: Its size.
            in_flight: Requests in flight when it arrived, including its own.
            now: A monotonic clock, in seconds.
        """
        with self._lock:
            if in_flight < self.value:
                self._begin(None)  # there was no demand for more: no information on the limit
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
