"""Outcomes: results that one thread promises another, handed over once and then dropped.

    worker, loop, reader      settle(value) or fail(error)      the first one counts
    consumer                  wait(timeout), take()             gets it, or it is raised
    the pass's own thread     discard(error)                    at the end, in any state

An outcome drops its result when it hands it over. A group's batches reference the group, and so
does the traceback of an error; an outcome that kept either would close a reference cycle, and
batches would stay in memory until the next garbage collection. For the same reason no listener
keeps the
outcome: a ``then`` callback is called once and dropped, and a ``Countdown`` passes errors on
without keeping them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Countdown", "Outcome"]

T = TypeVar("T")


class Outcome(Generic[T]):
    """A value or an error; the first one set counts, and it is taken once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_settled = threading.Event()
        self._values: list[T] = []  # one, until it is taken
        self._error: BaseException | None = None
        self._then: Callable[[], None] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether a value or an error has been set, even if it has been taken since."""
        return self._is_settled.is_set()

    def settle(self, value: T) -> None:
        """Set the value, unless a value or error is set already."""
        with self._lock:
            if self._is_settled.is_set():
                return
            self._values = [value]
            then = self._set()
        then()

    def fail(self, error: BaseException) -> None:
        """Set an error, unless a value or error is set already."""
        with self._lock:
            if self._is_settled.is_set():
                return
            self._error = error
            then = self._set()
        then()

    def discard(self, error: BaseException) -> None:
        """Drop a result that was not taken; later calls of ``take`` raise this error."""
        with self._lock:
            self._values.clear()
            self._error = error
            self._then = None
            self._is_settled.set()

    def then(self, function: Callable[[], None]) -> None:
        """Call a function that does not raise once there is a value or an error."""
        with self._lock:
            if not self._is_settled.is_set():
                self._then = function
                return
        function()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is a value or an error; return whether there is."""
        return self._is_settled.wait(timeout_s)

    def take(self) -> T:
        """Return the value, or raise the error; only once, and after ``wait``."""
        with self._lock:
            error, self._error = self._error, None
            if error is None:
                return self._values.pop()
        try:
            raise error
        finally:
            del error  # it references this frame, which must not reference it

    def _set(self) -> Callable[[], None]:
        then, self._then = self._then, None
        self._is_settled.set()
        return then or _nothing


class Countdown:
    """Calls a function when a number of items have arrived, or another when one has failed."""

    def __init__(
        self, count: int, then: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._count = count
        self._then = then
        self._failed = failed
        self._lock = threading.Lock()

    def arrived(self) -> None:
        """Count one item as arrived."""
        with self._lock:
            self._count -= 1
            is_last = self._count == 0
        if is_last:
            self._then()

    def failed(self, error: BaseException) -> None:
        """Pass an error on; the count will never be complete."""
        self._failed(error)


def _nothing() -> None:
    pass
