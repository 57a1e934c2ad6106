"""Estimate a store's clock from its answers, without extra requests.

Answers to writes carry the store's time where the store provides it: a folder by the modification
time of the file, a server by the ``Date`` header. Until then, and for stores that provide none, the
local clock is used. S3, GCS and Azure provide none; they reject requests signed by a clock that is
fifteen minutes off, and object dates in the local clock's future show that the local clock is
behind.
"""

from __future__ import annotations

import time
import warnings
from datetime import UTC, datetime, timedelta
from typing import Final

from tensorlake.errors import WrongClockWarning

__all__ = ["StoreClock"]

FIRST_STORED: Final = 1_767_225_600_000_000
"""1 January 2026 in microseconds, before the first dataset: an earlier time comes from an
archiver or a file system without times, not from the store's clock."""

NOISE_NS: Final = 2 * 10**9
"""Dates have a resolution of seconds, and answers take time: a smaller difference is ignored."""

FAR_NS: Final = 300 * 10**9
"""A larger difference raises a warning."""


class StoreClock:
    """The known state of a store's clock. Thread-safe: values are replaced, never changed.

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
        """Whether the store reported its time, and nothing seen since contradicts it."""
        return self._ahead_ns is not None

    @property
    def is_far(self) -> bool:
        """Whether the local clock is so far off that the store's time should be requested again."""
        return abs(self._ahead_ns or 0) > FAR_NS

    @property
    def is_behind(self) -> bool:
        """Whether an object's date is in the local clock's future."""
        return self._floor_ns - time.time_ns() - (self._ahead_ns or 0) > FAR_NS

    def hear(self, there: datetime | int, *, here_ns: int | None = None) -> None:
        """Record the store's time (nanoseconds if an int) and the local time then (now)."""
        there_ns = there if isinstance(there, int) else nanoseconds(there)
        if there_ns < FIRST_STORED * 1000:
            return
        self._ahead_ns = there_ns - (time.time_ns() if here_ns is None else here_ns)

    def hear_at_least(self, there: datetime) -> None:
        """Record a lower bound of the store's time."""
        self._floor_ns = max(self._floor_ns, nanoseconds(there))

    def now(self) -> datetime:
        """Return the store's time; warn once where the local clock is wrong."""
        ahead_ns = self._ahead_ns or 0
        if self.is_behind:
            ahead_ns = self._floor_ns - time.time_ns()
        if abs(ahead_ns) > FAR_NS:
            self._warn(ahead_ns)
        if abs(ahead_ns) <= NOISE_NS:
            ahead_ns = 0
        # In integer microseconds: a float of nanoseconds would lose precision.
        microseconds = (time.time_ns() + ahead_ns) // 1000
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)

    def _warn(self, ahead_ns: int) -> None:
        if self._is_told:
            return
        self._is_told = True
        off = timedelta(minutes=round(abs(ahead_ns) / 60e9))
        warnings.warn(
            f"the clock of this machine is {off} {'behind' if ahead_ns > 0 else 'ahead of'} that of"
            f" {self._url!r}; commits carry the store's time\nset this machine's clock",
            WrongClockWarning,
            stacklevel=2,
        )


def nanoseconds(when: datetime) -> int:
    """Convert an aware datetime to nanoseconds since 1970."""
    return (when - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000
