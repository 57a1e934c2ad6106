"""Look-up of commits by idempotency key.

Keys are stored only in log entries. The log is read backwards, as far as a key requires, and each
entry once: a handle that commits under ten thousand keys reads the existing log once, not once per
commit.

A new handle's first *unknown* key reads the whole log, 32 entries at a time: keys never expire, so
only reading every entry proves that a key is new. That is one GET per entry, once per handle: 10⁴
commits take some seconds from a bucket. A bound (of time or entries) would weaken "exactly once" to
"exactly once, unless the client was absent for long", and an index of keys in each entry would grow
with the log. Clients that commit often under keys should keep the handle open.
"""

from __future__ import annotations

from functools import partial

from tensorlake.format import Entry
from tensorlake.storage import runtime
from tensorlake.versions.log.log import BranchLog

__all__ = ["CommitKeys"]

READ_AT_ONCE = 32
"""Log entries read together while looking for a key."""


class CommitKeys:
    """The keys of one branch's entries ``start`` to ``stop`` − 1, extended by look-ups."""

    def __init__(self, log: BranchLog) -> None:
        self._log = log
        self._number_of: dict[str, int] = {}
        self._start = self._stop = 0
        self._durable_stop = 0

    async def find(self, head: Entry, key: str) -> Entry | None:
        """Find the commit with a key, up to ``head``; None when there is none."""
        if self._start == self._stop:
            self._start, self._stop = head.seq, head.seq + 1
            self._note(head)
        while self._stop <= head.seq:
            stop = min(head.seq + 1, self._stop + READ_AT_ONCE)
            await self._read(self._stop, stop)
            self._stop = stop
        while key not in self._number_of and self._start > 0:
            start = max(0, self._start - READ_AT_ONCE)
            await self._read(start, self._start)
            self._start = start
        number = self._number_of.get(key)
        if number is None:
            return None
        if number >= self._durable_stop:  # its writer may have died before it was durable
            await self._log.sync(head)
            self._durable_stop = head.seq + 1
        return await self._log.existing(number)

    def note_published(self, entry: Entry) -> None:
        """Add an entry just published: if it is the next one, it need not be read."""
        if entry.seq == self._stop > self._start:
            self._note(entry)
            self._stop += 1

    async def _read(self, start: int, stop: int) -> None:
        factories = [partial(self._log.existing, number) for number in range(start, stop)]
        for entry in await runtime.gather_bounded(factories, limit=READ_AT_ONCE):
            self._note(entry)

    def _note(self, entry: Entry) -> None:
        for key in entry.keys:
            self._number_of[key] = entry.seq
