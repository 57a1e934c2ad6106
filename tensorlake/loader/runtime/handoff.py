"""Outcomes: what one thread promises another, handed over once and then forgotten.

    worker, loop, reader      settle(value) or fail(error)      the first one counts
    consumer                  wait(timeout), take()             gets it, or it is raised
    the pass's own thread     discard(error)                    at the end, whatever it was

An outcome forgets what it hands over. What is made of a group holds the group, and so does the
traceback of what went wrong; an outcome that kept either would close a circle, and batches would
stay in memory until a collection comes by. For the same reason nobody listens by keeping the
outcome: ``then`` is called once and dropped, and a ``Countdown`` passes errors on and keeps none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Countdown", "Outcome"]

T = TypeVar("T")


class Outcome(Generic[T]):
    """A value or an error, set by whoever comes first and taken once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_settled = threading.Event()
        self._values: list[T] = []  # one, until it is taken
        self._error: BaseException | None = None
        self._then: Callable[[], None] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether there is a value or an error, or was before it was taken."""
        return self._is_settled.is_set()

    def settle(self, value: T) -> None:
        """Set the value, unless something is set already."""
        with self._lock:
            if self._is_settled.is_set():
                return
            self._values = [value]
            then = self._set()
        then()

    def fail(self, error: BaseException) -> None:
        """Set an error, unless something is set already."""
        with self._lock:
            if self._is_settled.is_set():
                return
            self._error = error
            then = self._set()
        then()

    def discard(self, error: BaseException) -> None:
        """Forget what is set and not taken; who still asks for it gets this error."""
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
        """Wait until there is a value or an error; tell whether there is."""
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
            del error  # it holds this frame, which must not hold it

    def _set(self) -> Callable[[], None]:
        then, self._then = self._then, None
        self._is_settled.set()
        return then or _nothing


class Countdown:
    """Calls a function when so many things have arrived, or another when one has failed."""

    def __init__(
        self, count: int, then: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._count = count
        self._then = then
        self._failed = failed
        self._lock = threading.Lock()

    def arrived(self) -> None:
        """Count one thing as there."""
        with self._lock:
            self._count -= 1
            is_last = self._count == 0
        if is_last:
            self._then()

    def failed(self, error: BaseException) -> None:
        """Pass an error on; what is counted will never be complete."""
        self._failed(error)


def _nothing() -> None:
    pass
