"""The newest entry at a timestamp: a log is ordered by time, so reading a few entries suffices.

    trip 1   HEAD, which has the approximate length of the log
    trip 2   the head ∥ the first entries ∥ 32 entries, evenly between
    trip 3   32 entries between the two around the timestamp, and so on

Each trip leaves one thirty-third: 10⁴ entries take four trips, 10⁶ five. Entries read only for
their time are read without their trees.

An entry was published before those after it. An entry with a time later than the head's (because
its disk's clock was wrong, too) counts as old as the next valid one, and decides nothing by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tensorlake.format import Entry, EntryLine, entry_path
from tensorlake.storage import StoredObject
from tensorlake.versions.log.log import BranchLog

__all__ = ["AtTime", "newest_at"]

PROBES = 32
"""Entries read at once: at 10 kB each, this number takes little longer than one."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """The state of a log at a timestamp.

    Attributes:
        head: The newest entry now; None when the branch is not there.
        first: The first entry with a body; None when there is none.
        newest: The newest entry at that time; None when the first is later.
    """

    head: Entry | None
    first: Entry | None = None
    newest: Entry | None = None


@dataclass(frozen=True, slots=True)
class _Probe:
    """An entry that was read for its time."""

    seq: int
    published: int
    found: StoredObject


async def newest_at(log: BranchLog, at: int) -> AtTime:
    """Find the newest entry not later than ``at``, in microseconds since 1970."""
    hint = await log.hint()
    head, begin, second, found = await asyncio.gather(
        log.head_by(hint), log.entry(0), log.entry(1), _probes(log, _between(1, hint or 0))
    )
    if head is None or begin is None or not head.has_body:
        return AtTime(head)
    first = begin if begin.has_body else second
    while first is not None and not first.has_body:  # fences on a new branch
        first = await log.existing(first.seq + 1)
    if first is None or at < first.published <= head.published:
        return AtTime(head, first)
    if head.published <= at:
        return AtTime(head, first, head)
    newest: Entry | _Probe | None = first if first.published <= at else None
    low, high = first.seq, head.seq
    settles_nothing: set[int] = set()
    while True:
        for probe in found:
            if not low < probe.seq < high:  # a hint may be too high or too low
                continue
            if probe.published <= at:
                newest, low = probe, probe.seq
            elif probe.published <= head.published:
                high = probe.seq
            else:
                settles_nothing.add(probe.seq)
        numbers = [seq for seq in _between(low, high) if seq not in settles_nothing]
        numbers = numbers or sorted({*range(low + 1, high)} - settles_nothing)[:PROBES]
        if not numbers:
            break
        found = await _probes(log, numbers)
        if len(found) < len(numbers):
            seen = {probe.seq for probe in found}
            await log.existing(min(seq for seq in numbers if seq not in seen))  # raises
    if isinstance(newest, _Probe):
        newest = log.parsed(newest.seq, newest.found)
    return AtTime(head, first, newest)


def _between(low: int, high: int) -> list[int]:
    """Return evenly spaced numbers between two others, at most as many as are read at once.

    >>> _between(0, 5), _between(0, 66)[:3]
    ([1, 2, 3, 4], [2, 4, 6])
    """
    if high - low - 1 <= PROBES:
        return list(range(low + 1, high))
    return [low + (high - low) * part // (PROBES + 1) for part in range(1, PROBES + 1)]


async def _probes(log: BranchLog, numbers: Sequence[int]) -> list[_Probe]:
    """Read the existing ones of some entries, at once."""
    paths = [entry_path(log.branch, seq) for seq in numbers]
    read = await asyncio.gather(*(log.store.read(path) for path in paths))
    return [
        _Probe(seq, _line(found, path).published, found)
        for seq, path, found in zip(numbers, paths, read, strict=True)
        if found is not None
    ]


def _line(found: StoredObject, path: str) -> EntryLine:
    return EntryLine.from_bytes(found.data, where=path, modified=found.modified)
