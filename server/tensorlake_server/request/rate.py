"""How many requests a second each of those who ask may make."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from tensorlake.storage import LruCache

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Rate"]

KEPT_ASKERS = 10_000
BURST_S = 2.0  # a page of the viewer, or a dataset being opened, asks much at once


class Rate:
    """A bucket for each asker, which fills again at the rate. Thread-safe.

    >>> times = iter([0.0, 0.0, 0.0, 1.0])
    >>> rate = Rate(1.0, clock=lambda: next(times))
    >>> [rate.wait_s("ana") for _ in range(4)]
    [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, per_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: LruCache[str, tuple[float, float]] = LruCache(KEPT_ASKERS)

    def wait_s(self, asker: str) -> float:
        """Take one request; 0 when it may be made, else how long to wait first."""
        with self._lock:
            now, most = self._clock(), max(1.0, self._per_s * BURST_S)
            level, at = self._buckets.get(asker) or (most, now)
            level = min(most, level + (now - at) * self._per_s)
            if level < 1.0:
                self._buckets.put(asker, (level, now))
                return math.ceil(1000 * (1.0 - level) / self._per_s) / 1000
            self._buckets.put(asker, (level - 1.0, now))
            return 0.0
