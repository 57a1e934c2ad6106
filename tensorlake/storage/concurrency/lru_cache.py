"""A bounded cache that evicts the least recently used values: the only one of its kind here.

Chunks, headers, index pages, and everything that a server caches, are values of one of these. The
budget is a number of bytes, where each value is put with its size, or a number of values.

Invariants: ``used`` is the sum of the sizes of the cached values, and at most the budget. A value
that is evicted is freed outside of the lock, since that may run any code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tensorlake.storage.concurrency.fork_lock import ForkLock

__all__ = ["LruCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A mapping within a budget. Thread-safe, and usable in a forked child.

    >>> cache = LruCache[str, bytes](8)
    >>> cache.put("a", b"1234", 4)
    >>> cache.put("b", b"1234", 4)
    >>> cache.get("a")
    b'1234'
    >>> cache.put("c", b"1234", 4)
    >>> cache.get("b"), cache.get("a"), cache.used
    (None, b'1234', 8)
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._used = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = ForkLock()

    @property
    def used(self) -> int:
        """The part of the budget that is used."""
        return self._used

    def get(self, key: K) -> V | None:
        """Return a cached value, which becomes the most recently used."""
        with self._lock.current:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Cache a value, in place of one of this key; one larger than the budget is not cached."""
        values, evicted = self._values, None
        with self._lock.current:
            old = values.pop(key, None)
            if old is not None:
                self._used -= old[1]
            if size > self.budget:
                return
            values[key] = value, size
            self._used += size
            if self._used > self.budget:
                evicted = self._shrunk()
        del evicted

    def discard(self, matches: Callable[[K], bool]) -> None:
        """Evict the values whose keys match."""
        with self._lock.current:
            evicted = [self._values.pop(key) for key in [*self._values] if matches(key)]
            self._used -= sum(size for _, size in evicted)

    def keys(self) -> set[K]:
        """Return the keys of the cached values."""
        with self._lock.current:
            return set(self._values)

    def _shrunk(self) -> list[V]:
        """Evict values, until the others fit; return those evicted."""
        evicted: list[V] = []
        while self._used > self.budget:
            _, (value, size) = self._values.popitem(last=False)
            self._used -= size
            evicted.append(value)
        return evicted
