"""Expire old versions: raise ``expired_before`` in a fence of each branch.

    main@0 … main@11 │ main@12 ─ main@13 ─ fence 14 {expired_before: 12}
       expired       │ kept

An expired version can no longer be referenced, and the next collection deletes data that only it
needed. Its log entries stay: the history remains readable, only the data is gone. Versions with a
tag or a saved view keep theirs. Nothing is deleted here.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import partial

from tensorlake.errors import AccessError
from tensorlake.format import DESCRIPTOR, Entry, Fence, entry_path, published_at
from tensorlake.storage import FIRST_STORED, Store, runtime
from tensorlake.versions.log.entries import fence_of, microseconds
from tensorlake.versions.log.fences import append_fence
from tensorlake.versions.log.log import BranchLog, branch_names
from tensorlake.versions.maintenance.collect import clock_of
from tensorlake.versions.refs.refs import list_tags

__all__ = ["ExpiredRange", "ExpiryReport", "expire_before", "expire_versions"]

AT_ONCE = 32
"""Requests in flight: of branches, and of entries of one log."""


@dataclass(frozen=True, slots=True)
class ExpiredRange:
    """The expired versions of one branch.

    Attributes:
        branch: Whose.
        start: Number of the first of them.
        stop: Number of the first version that is kept.
    """

    branch: str
    start: int
    stop: int

    def __str__(self) -> str:
        last = self.stop - 1
        first = f"{self.branch}@{self.start}"
        return first if last == self.start else f"{first} … {self.branch}@{last}"


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """The result of an expiry or of its dry run.

    Attributes:
        is_dry_run: Whether nothing was changed.
        given_up: The versions, by branch; branches that keep all are left out.
        kept_by_tags: Tags that keep one of these versions readable.
    """

    is_dry_run: bool
    given_up: tuple[ExpiredRange, ...]
    kept_by_tags: tuple[str, ...]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if not self.given_up:
            return "no version is old enough to expire"
        did = "would expire" if self.is_dry_run else "expired"
        lines = [
            f"{did} {one}; {one.branch}@{one.stop} and later are kept" for one in self.given_up
        ]
        if self.kept_by_tags:
            lines.append(f"still readable by their tags: {', '.join(self.kept_by_tags)}")
        return "\n".join(lines)


async def expire_versions(
    store: Store,
    *,
    older_than: dt.datetime | dt.timedelta | None = None,
    keep_last: int | None = None,
    dry_run: bool = False,
) -> ExpiryReport:
    """Expire versions of every branch that has not ended; each keeps its newest.

    Args:
        store: The dataset's store.
        older_than: Expire versions superseded before this time, or longer ago than this interval by
            the store's clock, not this machine's.
        keep_last: Expire all but the last N commits. With both, versions kept by either are kept.
        dry_run: Only report the versions to expire.

    Raises:
        UnsupportedFeatureError: A branch needs writers that know more than this one.
    """
    cut = await _cut(store, older_than, dry_run=dry_run)
    since = await _native_since(store) if cut is not None else None

    async def expire_one(branch: str) -> ExpiredRange | None:
        log = BranchLog(store, branch)
        head = await log.head()
        if head is None or not head.has_body or head.kind == "end":
            return None
        start, stop = fence_of(head).expired_before, head.seq
        if cut is not None:
            stop = min(stop, await _current_at(log, head, cut, since))
        if keep_last is not None:
            stop = min(stop, await _counted_back(log, head, keep_last))
        if stop <= start:
            return None
        if not dry_run:
            await append_fence(log, head, Fence(expired_before=stop))
        return ExpiredRange(branch, start, stop)

    branches = await branch_names(store)
    found = await runtime.gather_bounded(
        [partial(expire_one, branch) for branch in branches], limit=AT_ONCE
    )
    ranges = tuple(one for one in found if one is not None)
    return ExpiryReport(dry_run, ranges, await _tags_on(store, ranges))


async def expire_before(store: Store, branch: str, number: int) -> None:
    """Expire the versions of a branch before one; those that have expired stay so."""
    log = BranchLog(store, branch)
    head = await log.head()
    if head is not None and head.kind != "end" and fence_of(head).expired_before < number:
        await append_fence(log, head, Fence(expired_before=number))


async def _cut(
    store: Store, older_than: dt.datetime | dt.timedelta | None, *, dry_run: bool
) -> int | None:
    """Return the time, in microseconds since 1970, before which superseded versions are old."""
    if not isinstance(older_than, dt.timedelta):
        return None if older_than is None else microseconds(older_than)
    if dry_run:
        now = await store.now()  # which writes nothing
    else:
        try:
            now = await clock_of(store)
        except AccessError:  # a server lets its clients put no such object; its answers tell
            now = await store.now()
    return max(0, microseconds(now) - older_than // dt.timedelta(microseconds=1))


async def _native_since(store: Store) -> int | None:
    """Return the store time of the descriptor: objects stored before it were copied, and are older.

    A copy puts its descriptor last. The age of objects stored later is their store time.
    """
    meta = await store.head(DESCRIPTOR)
    return None if meta is None else microseconds(meta.modified)


async def _replaced_at(store: Store, entry: Entry, log: BranchLog, since: int | None) -> int:
    """When an entry became the newest, never too early: a clock that was behind ages nothing."""
    stored = entry.stored
    if stored is None and (meta := await store.head(entry_path(log.branch, entry.seq))) is not None:
        stored = microseconds(meta.modified)
    published = published_at(entry.time, stored)
    if stored is None or stored < FIRST_STORED or since is None or stored < since:
        return published
    return max(stored, published)  # of a date in whole seconds, the time within the second


async def _current_at(log: BranchLog, head: Entry, time: int, since: int | None) -> int:
    """Number of the commit that was the branch's head at a time; 0 before its first."""
    low, high = -1, head.seq + 1  # entry ``low`` is not later than the time, ``high`` is
    while high - low > 1:
        middle = (low + high) // 2
        entry = await log.existing(middle)
        is_later = await _replaced_at(log.store, entry, log, since) > time
        low, high = (low, middle) if is_later else (middle, high)
    if low < 0:
        return 0
    entry = await log.existing(low)
    return entry.seq if entry.kind == "commit" else entry.of or 0


async def _counted_back(log: BranchLog, head: Entry, keep_last: int) -> int:
    """Number of the oldest of the newest ``keep_last`` commits; 0 when there are fewer."""
    kept = 0
    for stop in range(head.seq + 1, 0, -AT_ONCE):
        numbers = range(stop - 1, max(stop - AT_ONCE, 0) - 1, -1)
        entries = await runtime.gather_bounded(
            [partial(log.existing, number) for number in numbers], limit=AT_ONCE
        )
        for entry in entries:
            kept += entry.kind == "commit"
            if kept == keep_last:
                return entry.seq
    return 0


async def _tags_on(store: Store, ranges: tuple[ExpiredRange, ...]) -> tuple[str, ...]:
    if not ranges:
        return ()
    stops = {one.branch: one.stop for one in ranges}
    return tuple(
        f"{name} ({tag.version})"
        for name, tag in (await list_tags(store)).items()
        if tag.seq < stops.get(tag.branch, 0)
    )
