"""Values used last, within a budget: every cache of the server is one of these."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Kept"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """A mapping that forgets what was used longest ago. Thread-safe.

    >>> kept = Kept[str, bytes](8, size=len)
    >>> kept.put("a", b"1234"), kept.put("b", b"1234"), kept.get("a"), kept.put("c", b"1234")
    (None, None, b'1234', None)
    >>> kept.get("b") is None, kept.get("a")
    (True, b'1234')
    """

    def __init__(self, budget: int, size: Callable[[V], int] = lambda _value: 1) -> None:
        self._budget = budget
        self._size = size
        self._used = 0
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return what is kept under a key, and keep it longer."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value; one larger than the whole budget is not kept."""
        with self._lock:
            self._forget(key)
            self._values[key] = value
            self._used += self._size(value)
            while self._used > self._budget:
                self._forget(next(iter(self._values)))

    @property
    def used(self) -> int:
        """How much of the budget is used."""
        return self._used

    def drop(self, matches: Callable[[K], bool]) -> None:
        """Forget the values whose keys match."""
        with self._lock:
            for key in [key for key in self._values if matches(key)]:
                self._forget(key)

    def _forget(self, key: K) -> None:
        if key in self._values:
            self._used -= self._size(self._values.pop(key))
