"""How many streams are open: each costs a connection and a little memory, so they are bounded."""

from __future__ import annotations

import threading

__all__ = ["Streams"]


class Streams:
    """Counts open streams. Thread-safe.

    >>> streams = Streams(1)
    >>> streams.enter(), streams.enter(), streams.leave(), streams.enter()
    (True, False, None, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many are open."""
        return self._open

    def enter(self) -> bool:
        """Take a place; False when there is none."""
        with self._lock:
            if self._open >= self._most:
                return False
            self._open += 1
            return True

    def leave(self) -> None:
        """Give a place back."""
        with self._lock:
            self._open -= 1
