"""The time of a store, as far as its answers told it: no request is made to know it.

What is put says what time it is there, where the store tells: a folder by the modification time of
the file, a server by the ``Date`` of its answer. Until then, and of a store that does not tell, it
is taken for the local one's. S3, GCS and Azure do not tell; they refuse whoever signs requests by
a clock that is fifteen minutes off, and dates of objects that lie in the local clock's future give
a clock away that is behind.
"""

from __future__ import annotations

import time
import warnings
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["StoreClock", "WrongClockWarning"]

FIRST_STORED: Final = 1_767_225_600_000_000
"""1 January 2026 in microseconds, before the first dataset: an earlier time is not a store's, but
an archiver's, or of a file system that has none."""

NOISE_NS: Final = 2 * 10**9
"""Dates have whole seconds, and an answer travels: a local clock this near is taken as it is."""

FAR_NS: Final = 300 * 10**9
"""From here on a clock is wrong, and its owner is told."""


class WrongClockWarning(UserWarning):
    """The clock of this machine is more than five minutes off the store's."""

    __module__ = "tensorlake"


class StoreClock:
    """What is known of a store's clock. Thread-safe: what is kept is replaced, never changed.

    Args:
        url: The store, for the warning.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._ahead_ns: int | None = None
        self._floor_ns = 0
        self._is_told = False

    @property
    def is_known(self) -> bool:
        """Whether the store told its time, and nothing seen since contradicts it."""
        return self._ahead_ns is not None

    @property
    def is_far(self) -> bool:
        """Whether the local clock is off by so much that the store had better be asked again."""
        return abs(self._ahead_ns or 0) > FAR_NS

    @property
    def is_behind(self) -> bool:
        """Whether something was dated that, by the clock here, has not happened yet."""
        return self._floor_ns - time.time_ns() - (self._ahead_ns or 0) > FAR_NS

    def hear(self, there: datetime | int, *, here_ns: int | None = None) -> None:
        """Note the store's time, a moment or in nanoseconds, and the local one of then (now)."""
        there_ns = there if isinstance(there, int) else nanoseconds(there)
        if there_ns < FIRST_STORED * 1000:
            return
        self._ahead_ns = there_ns - (time.time_ns() if here_ns is None else here_ns)

    def hear_at_least(self, there: datetime) -> None:
        """Note that in the store it is no earlier than this."""
        self._floor_ns = max(self._floor_ns, nanoseconds(there))

    def now(self) -> datetime:
        """Tell the store's time; whoever asks is warned once where the local clock is wrong."""
        ahead_ns = self._ahead_ns or 0
        if self.is_behind:
            ahead_ns = self._floor_ns - time.time_ns()
        if abs(ahead_ns) > FAR_NS:
            self._warn(ahead_ns)
        if abs(ahead_ns) <= NOISE_NS:
            ahead_ns = 0
        # By way of whole microseconds: a float of so many nanoseconds would lose some.
        microseconds = (time.time_ns() + ahead_ns) // 1000
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)

    def _warn(self, ahead_ns: int) -> None:
        if self._is_told:
            return
        self._is_told = True
        off = timedelta(minutes=round(abs(ahead_ns) / 60e9))
        warnings.warn(
            f"the clock of this machine is {off} {'behind' if ahead_ns > 0 else 'ahead of'} that of"
            f" {self._url!r}; what is written carries the store's time\nset this machine's clock",
            WrongClockWarning,
            stacklevel=2,
        )


def nanoseconds(when: datetime) -> int:
    """Write an aware time in nanoseconds since 1970."""
    return (when - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000
