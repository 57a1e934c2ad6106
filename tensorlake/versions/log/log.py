"""A branch as a numbered log: find its head, read an entry, publish the next one.

Entries ``branches/<branch>/<seq>.json`` are immutable and contiguous from 0; publishing is one
put-if-absent of the next number, the only atomic operation required of a store. ``HEAD`` beside
them is a hint: if stale, missing or wrong it costs requests, never correctness. See
``docs/reference/format.md``, "Head look-up" and "Commit".

Invariants:
- A head is returned only when its entry was read and the number after it was seen absent.
- Success is reported only when the entry at the number has *our* ``txid``.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tensorlake.errors import (
    CommitOutcomeUnknownError,
    CorruptionError,
    DatasetNotFoundError,
    StorageError,
    TensorlakeError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tensorlake.format import BRANCHES, Entry, decode_name, entry_path, head_path
from tensorlake.storage import (
    LocalStore,
    MemoryStore,
    ObjectExistsError,
    Store,
    StoredObject,
    UnknownOutcomeError,
    runtime,
)

__all__ = [
    "RACES_MAX",
    "BranchLog",
    "FoundHeads",
    "LostRace",
    "branch_heads",
    "branch_names",
    "list_branches",
    "readable_branch_names",
    "readable_heads",
]

_log = logging.getLogger("tensorlake.versions")

_hints: set[asyncio.Future[None]] = set()
"""Hints in flight: an event loop references its tasks weakly."""

PUBLISH_TRIES = 5
"""Attempts to send one entry before its outcome is declared unknown."""

CONFIRMED_S = 1.0
"""Seconds after which an entry that was seen is confirmed again: longer than it takes several
commits in a row, which would each cost a third request."""

RACES_MAX = 64
"""Lost races after which publishing fails; with jitter, 32 writers need far fewer."""

RETRY_CEILING_S = 5.0

READ_AT_ONCE = 32
"""Entries read together: logs are many small objects."""


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer's entry took the number.

    Attributes:
        winner: The other entry.
        put_s: Duration of the store's answer, which scales the wait before another try.
    """

    winner: Entry
    put_s: float = 0.0

    def pause(self, race: int) -> None:
        """Wait before looking again, so that the head seen is still the newest when built on.

        No wait after the first lost race (number 0), then 1 to 20 times the duration of a put: with
        this, some tens of writers make progress.
        """
        if race:
            jitter = random.uniform(1, 20)  # noqa: S311 - not a secret, it spreads writers
            time.sleep(min(RETRY_CEILING_S, self.put_s * jitter))


@dataclass(frozen=True, slots=True)
class BranchLog:
    """The log of one branch in one store."""

    store: Store
    branch: str
    follows_hint: bool = False
    """Whether it is a mirror: its HEAD, written last, is the head; later entries are ignored."""

    async def entry(self, seq: int) -> Entry | None:
        """Read entry ``seq``; None when it does not exist."""
        found = await self.store.read(entry_path(self.branch, seq))
        return None if found is None else self.parsed(seq, found)

    def parsed(self, seq: int, found: StoredObject) -> Entry:
        """Parse the object found at number ``seq``.

        Raises:
            CorruptionError: Its bytes are damaged, or another entry's.
        """
        path = entry_path(self.branch, seq)
        entry = Entry.from_bytes(found.data, where=path, modified=found.modified)
        if entry.seq != seq:
            message = f"{path!r} contains entry {entry.seq}, expected {seq}; restore it"
            raise CorruptionError(message, object=path, expected=seq, actual=entry.seq)
        return entry

    async def existing(self, seq: int) -> Entry:
        """Read entry ``seq``, which must exist."""
        entry = await self.entry(seq)
        if entry is None:
            raise VersionNotFoundError(
                f"{self.store.url!r} has no version '{self.branch}@{seq}'; see ds.log()",
                version=f"{self.branch}@{seq}",
            )
        return entry

    async def head(self) -> Entry | None:
        """Find the newest entry: 3 requests in 2 round trips when the hint is fresh; no LIST.

        Returns None when the branch has no entry at all.
        """
        return await self.head_by(await self.hint())

    async def head_by(self, hint: int | None) -> Entry | None:
        """Find the newest entry, given the value of the hint."""
        if hint is not None:
            if self.follows_hint and (there := await self.entry(hint)) is not None:
                return there
            here, after = await asyncio.gather(self.entry(hint), self.entry(hint + 1))
            if here is not None:
                return here if after is None else await self.newest_from(after)
        first = await self.entry(0)
        return None if first is None else await self.newest_from(first)

    async def is_newest(self, entry: Entry) -> bool:
        """Return whether an entry still exists and is the newest: one round trip."""
        here, after = await asyncio.gather(self.entry(entry.seq), self.entry(entry.seq + 1))
        return here is not None and here.digest == entry.digest and after is None

    async def newest_from(self, entry: Entry) -> Entry:
        """Gallop (+1, +2, +4, …) from an entry that exists, then bisect to the newest."""
        if self.follows_hint:
            hint = await self.hint()
            return entry if hint is None or hint <= entry.seq else await self.existing(hint)
        known, step = entry, 1
        while True:
            ahead = await self.entry(known.seq + step)
            if ahead is None:
                break
            known, step = ahead, step * 2
        absent = known.seq + step
        while absent - known.seq > 1:
            middle = await self.entry((known.seq + absent) // 2)
            if middle is None:
                absent = (known.seq + absent) // 2
            else:
                known = middle
        return known

    def is_unconfirmed(self, seen: float) -> bool:
        """Whether an entry seen at a time, by ``time.monotonic``, is to be confirmed again.

        It costs a request, except in a folder or in memory: there it always is.
        """
        is_near = isinstance(self.store, LocalStore | MemoryStore)
        return is_near or time.monotonic() - seen > CONFIRMED_S

    async def confirm(self, entry: Entry) -> None:
        """Check that an entry of this log is still stored.

        Raises:
            DatasetNotFoundError: It is not: the dataset was deleted, and perhaps created again.
        """
        found = await self.store.get(entry_path(self.branch, entry.seq))
        # Not parsed: the digest that ends it tells it from another dataset's.
        if found is not None and found.endswith(f'"{entry.digest}"}}'.encode()):
            return
        how = "deleted" if found is None else "deleted and created again"
        version = f"{self.branch}@{entry.seq}"
        raise DatasetNotFoundError(
            f"the dataset at {self.store.url!r} was {how} since this handle was opened: its version"
            f" {version!r} no longer exists, and nothing was changed\n"
            "open it again with tl.open(url); staged changes are to be staged again",
            dataset=self.store.url,
            version=version,
        )

    async def after(self, seq: int) -> AsyncIterator[Entry]:
        """Yield the entries that follow ``seq``, oldest first."""
        while (entry := await self.entry(seq + 1)) is not None:
            yield entry
            seq = entry.seq

    async def all_after(self, seq: int) -> list[Entry]:
        """Read the entries that follow ``seq``, oldest first, in growing batches."""
        found: list[Entry] = []
        at_once = 1
        while True:
            numbers = range(seq + 1 + len(found), seq + 1 + len(found) + at_once)
            read = await asyncio.gather(*(self.entry(number) for number in numbers))
            for entry in read:
                if entry is None:
                    return found
                found.append(entry)
            at_once = min(2 * at_once, READ_AT_ONCE)

    async def entries(self, start: int, stop: int) -> AsyncIterator[Entry]:
        """Yield entries [start, stop), which must exist, oldest first; read in batches."""
        for first in range(start, stop, READ_AT_ONCE):
            numbers = range(first, min(stop, first + READ_AT_ONCE))
            reads = [partial(self.existing, number) for number in numbers]
            for entry in await runtime.gather_bounded(reads, limit=READ_AT_ONCE):
                yield entry

    async def publish(
        self, entry: Entry, *, hint_later: bool = False, after: Callable[[], None] | None = None
    ) -> Entry | LostRace:
        """Put ``entry`` at its number, durably, exactly once.

        With ``hint_later`` the hint is written afterwards, if that takes a request off the caller's
        path. ``after`` is called before the entry is visible; if it raises, the entry never becomes
        visible. In a folder the entry is on disk by then, except for its name.

        After any failure the number is read back before the failure is accepted: our own
        ``txid`` there is success, another's is a lost race, absence means that nothing was stored.

        Raises:
            CommitOutcomeUnknownError: Neither the put nor the read-back gave an answer.
        """
        path = entry_path(self.branch, entry.seq)
        data, entry = entry.sealed()
        may_land_later = False
        for attempt in range(PUBLISH_TRIES):
            started = time.monotonic()
            try:
                await self.store.put_if_absent(path, data, after=after)
            except (ObjectExistsError, UnknownOutcomeError) as error:
                put_s = time.monotonic() - started
                may_land_later = may_land_later or isinstance(error, UnknownOutcomeError)
                found = await self._read_back(entry, cause=error)
                if found is not None:
                    # Ours may be from an earlier try, with another time: the stored bytes count.
                    return found if found.txid == entry.txid else LostRace(found, put_s)
                await runtime.to_loop()
                await asyncio.sleep(0.05 * 2**attempt)
            except StorageError as error:
                if may_land_later:  # this try did not succeed, but an earlier one still may
                    raise _outcome_unknown(self.store.url, entry, error) from error
                raise
            else:
                if hint_later and runtime.runs_here():
                    await self._put_hint(data)  # in a folder cheaper than a task of the loop
                elif hint_later:
                    hint = asyncio.ensure_future(self._put_hint_later(data))
                    _hints.add(hint)
                    hint.add_done_callback(_hints.discard)
                return entry
        raise _outcome_unknown(self.store.url, entry, None)

    async def sync(self, entry: Entry) -> None:
        """Make an entry durable that was found, not put by this call, before it counts as success.

        Its writer may have been stopped after it became visible and before it was durable. All
        entries before it become durable with it.
        """
        await self.store.sync([entry_path(self.branch, entry.seq)])

    async def write_hint(self, entry: Entry) -> None:
        """Overwrite ``HEAD``, best effort: a stale hint costs requests, never correctness."""
        await self._put_hint(entry.to_bytes())

    async def _put_hint_later(self, data: bytes) -> None:
        await asyncio.sleep(0)  # a folder writes synchronously: let the publisher return first
        await self._put_hint(data)

    async def _put_hint(self, data: bytes) -> None:
        try:
            await self.store.put(head_path(self.branch), data, durable=False)
        except TensorlakeError as error:
            _log.debug("hint of %s not written: %s", self.branch, error)

    async def hint(self) -> int | None:
        """Read the number in HEAD; None if there is none, or it is damaged."""
        try:
            data = await self.store.get(head_path(self.branch))
            return None if data is None else Entry.from_bytes(data, where="HEAD").seq
        except (CorruptionError, UnsupportedFeatureError) as error:
            _log.debug("hint of %s ignored: %s", self.branch, error)
            return None

    async def _read_back(self, entry: Entry, *, cause: Exception) -> Entry | None:
        """Read the entry at a number; if it is ours, make it durable, as a new put would be.

        It may be visible before its name is on disk, if Ctrl-C ended a put between the two.
        """
        try:
            found = await self.entry(entry.seq)
            if found is not None and found.txid == entry.txid:
                await self.sync(found)
        except StorageError as error:
            raise _outcome_unknown(self.store.url, entry, error) from cause
        else:
            return found


def _outcome_unknown(url: str, entry: Entry, error: Exception | None) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(
        f"whether transaction {entry.txid} became entry {entry.seq} of {url!r} is unknown"
        f" ({error or 'the store kept failing'}); call commit() again on this handle:"
        " it first looks for the transaction",
        txid=entry.txid,
        seq=entry.seq,
    )


async def branch_names(store: Store) -> list[str]:
    """List every branch ever created, sorted, including ended ones and those without a commit.

    Raises:
        CorruptionError: A folder's name is not a valid branch name. It may be a branch renamed by
            another program, so callers that remove or copy data must not skip it.
    """
    folders = await store.folders(BRANCHES)
    return sorted(decode_name(folder, where=f"{BRANCHES}{folder}/") for folder in folders)


async def readable_branch_names(store: Store) -> list[str]:
    """List every branch ever created, sorted; other programs' folders are skipped."""
    folders = await store.folders(BRANCHES)
    return sorted(name for name in map(_branch_in, folders) if name is not None)


def _branch_in(folder: str) -> str | None:
    try:
        return decode_name(folder)
    except CorruptionError:
        return None  # reported by a check


async def list_branches(store: Store) -> list[str]:
    """List the branches that have not ended, sorted; other programs' folders are skipped.

    A branch whose newest entry cannot be read is listed too: it exists, and may not have ended.
    """
    return (await readable_heads(store)).branches


@dataclass(frozen=True, slots=True)
class FoundHeads:
    """The newest entry of each branch, sorted by name, or the error of reading it.

    Attributes:
        heads: Heads of the readable branches.
        unreadable: Errors of the others.
    """

    heads: dict[str, Entry]
    unreadable: dict[str, CorruptionError | UnsupportedFeatureError]

    @property
    def branches(self) -> list[str]:
        """Sorted names of the branches that have a commit and have not ended."""
        heads = self.heads.items()
        alive = [name for name, head in heads if head.has_body and head.kind != "end"]
        return sorted([*alive, *self.unreadable])


async def readable_heads(store: Store) -> FoundHeads:
    """Read the newest entry of every branch ever created; a damaged one does not hide others."""
    names = await readable_branch_names(store)

    async def head(name: str) -> Entry | CorruptionError | UnsupportedFeatureError | None:
        try:
            return await BranchLog(store, name).head()
        except (CorruptionError, UnsupportedFeatureError) as error:
            return error

    found = await runtime.gather_bounded(
        [partial(head, name) for name in names], limit=READ_AT_ONCE
    )
    heads: dict[str, Entry] = {}
    unreadable: dict[str, CorruptionError | UnsupportedFeatureError] = {}
    for name, one in zip(names, found, strict=True):
        if isinstance(one, Entry):
            heads[name] = one
        elif one is not None:
            unreadable[name] = one
    return FoundHeads(heads, unreadable)


async def branch_heads(
    store: Store, *, hints: Mapping[str, int | None] | None = None
) -> dict[str, Entry]:
    """Read the newest entry of every branch ever created, sorted by name.

    Args:
        store: The dataset's store.
        hints: Numbers of entries by branch, which save reading the hint that is stored.

    Raises:
        CorruptionError: As ``branch_names``; or an entry is damaged. Callers that remove or copy
            data must know the references of every branch.
    """
    known = hints or {}

    async def head(name: str) -> Entry | None:
        log, hint = BranchLog(store, name), known.get(name)
        return await (log.head() if hint is None else log.head_by(hint))

    names = await branch_names(store)
    heads = await runtime.gather_bounded(
        [partial(head, name) for name in names], limit=READ_AT_ONCE
    )
    return {name: head for name, head in zip(names, heads, strict=True) if head is not None}
