"""Bytes that the server holds for clients: how many at once, of all and of each who asks.

    a body, as it comes · what it unpacks to · an answer that waits for its reader

Each is counted until its request ends. A request beyond the bound is refused (503), and may be
sent again: nothing waits, so requests in progress can always finish. One request alone is never
refused, however large; what a single one may be is bounded elsewhere.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from tensorlake_server.http.problems import Problem

__all__ = ["HeldBytes", "Holding"]


class HeldBytes:
    """The count, for one server. Thread-safe.

    Args:
        most: Bytes of all requests under way; each who asks may take half of them.

    Example:
        >>> held = HeldBytes(100)
        >>> one, other = held.holding("ana"), held.holding("ana")
        >>> one.take(40)
        >>> other.take(20)
        Traceback (most recent call last):
        tensorlake_server.http.problems.Problem: 503: the server holds 40 bytes for others ...
        >>> one.end()
        >>> other.take(20)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._total = 0
        self._each: Counter[str] = Counter()

    def holding(self, who: str) -> Holding:
        """Begin to count for a request."""
        return Holding(self, who)

    def take(self, who: str, nbytes: int, own: int) -> None:
        """Count bytes of a client, of which this request holds ``own`` already.

        Raises:
            Problem: 503, it would be too many.
        """
        with self._lock:
            theirs, all_others = self._each[who] - own, self._total - own
            is_too_much_of_theirs = theirs and theirs + own + nbytes > self._most // 2
            if is_too_much_of_theirs or (all_others and self._total + nbytes > self._most):
                shown = theirs if is_too_much_of_theirs else all_others
                raise Problem(
                    503,
                    "too-many-bytes",
                    f"the server holds {shown:,} bytes for others"
                    f"{' who ask as you do' if is_too_much_of_theirs else ''}, of their bodies and"
                    " answers\ntry again, with fewer requests at once",
                    {"Retry-After": "1"},
                )
            self._total += nbytes
            self._each[who] += nbytes

    def give(self, who: str, nbytes: int) -> None:
        """Count bytes no more."""
        with self._lock:
            self._total -= nbytes
            self._each[who] -= nbytes
            if not self._each[who]:
                del self._each[who]


@dataclass(slots=True)
class Holding:
    """The bytes held by one request; released when it ends."""

    held: HeldBytes
    who: str
    nbytes: int = field(default=0, init=False)

    def take(self, nbytes: int) -> None:
        """Hold more.

        Raises:
            Problem: 503, it would be too many. Its bytes no longer count: the request is over,
                and must not block another one while it is answered.
        """
        try:
            self.held.take(self.who, nbytes, self.nbytes)
        except Problem:
            self.end()
            raise
        self.nbytes += nbytes

    def end(self) -> None:
        """Hold nothing any more."""
        self.held.give(self.who, self.nbytes)
        self.nbytes = 0
