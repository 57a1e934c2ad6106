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

    def __init__(self, budget: int, size: Callable[[V], int] | None = None) -> None:
        """Keep values up to a budget: their number, or the sum of `size`, called at each use."""
        self._budget = budget
        self._size = size
        self._used = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return what is kept under a key, and keep it longer."""
        with self._lock:
            if key not in self._values:
                return None
            value, _ = self._values[key]
            if self._size is None:
                self._values.move_to_end(key)
            else:  # it may have grown
                self._keep(key, value)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep a value; one larger than the whole budget is not kept."""
        with self._lock:
            self._keep(key, value)

    @property
    def used(self) -> int:
        """How much of the budget is used."""
        return self._used

    def keys(self) -> set[K]:
        """Return what is kept."""
        with self._lock:
            return set(self._values)

    def drop(self, matches: Callable[[K], bool]) -> None:
        """Forget the values whose keys match."""
        with self._lock:
            for key in [key for key in self._values if matches(key)]:
                self._forget(key)

    def _keep(self, key: K, value: V) -> None:
        self._forget(key)
        size = 1 if self._size is None else self._size(value)
        self._values[key] = value, size
        self._used += size
        while self._used > self._budget:
            self._forget(next(iter(self._values)))

    def _forget(self, key: K) -> None:
        if key in self._values:
            self._used -= self._values.pop(key)[1]
