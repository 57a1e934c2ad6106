"""The collector: find and delete packs that no version needs, without blocking other clients.

One collection takes the steps of ``STEPS``, in this order and no other
(docs/explanation/garbage-collection.md explains the order):

    read_clock      the store's time, once; t = it − grace holds for the whole collection
    expire_tags     tags whose time has passed become tombstones
    fence_branches  every branch that has not ended: work staged by t can no longer be published
    list_tags       what tags name, and pins newer than t
    read_heads      the branches as they are now
    mark            what all of these refer to
    delete_packs    those unmarked and stored by t
    drop_pins       those put by t, and what dead collectors left

It may be killed, suspended, or run twice concurrently between any two requests: every step removes
only what nothing can cite any more. An object it cannot interpret stops it before it deletes.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from tensorlake.errors import CorruptionError, DatasetNotFoundError, ReadOnlyError, StorageError
from tensorlake.format import COPYING, PACKS, Entry, Fence, PackId, new_txid, seal
from tensorlake.storage import ObjectMeta, Store, runtime
from tensorlake.versions.log.entries import check_writable, fence_of, is_expired, microseconds
from tensorlake.versions.log.fences import Fenced, append_fence
from tensorlake.versions.log.log import BranchLog, branch_heads, branch_names
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.reachability import PageKey, Unreadable, packs_of, packs_of_root
from tensorlake.versions.refs.create import read_descriptor
from tensorlake.versions.refs.descriptors import keep_second
from tensorlake.versions.refs.registry import Citation, list_citations, withdraw

__all__ = ["STEPS", "Collection", "CollectionReport", "clock_of", "collect_garbage"]

CLOCKS = "gc/"
"""Where a collector writes the object whose store time is its clock, and deletes it again."""

CLOCK_TRIES = 3

AT_ONCE = 32
"""Requests in flight: logs are many small objects, and so are deletions."""

MARKED_AT_ONCE = 256
"""Entries read at once, and versions whose pages are: 10⁴ commits take some 45 round trips."""

RESOLUTION = dt.timedelta(seconds=1)
"""How much a store's listing may round a time down: HTTP dates have seconds, listings often less.
A pack is deleted only when it is older than t by this too; writers compare without it."""


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """The result of a collection or of its dry run.

    Attributes:
        is_dry_run: Whether nothing was changed.
        t: The store's time by which a pack must have been stored to be deleted.
        deleted_packs: How many packs nothing referred to, and were old enough.
        deleted_nbytes: Their bytes.
        kept_packs: How many packs remain.
        kept_nbytes: Their bytes.
        young_packs: How many of those remaining nothing refers to: staged, or garbage of later.
        young_nbytes: Their bytes.
        versions: How many versions were marked.
        expired_tags: Tags whose time had passed.
        dropped_pins: How many pins of dead transactions were deleted.
        skipped: References that could not be followed and were not needed, with reasons.
    """

    is_dry_run: bool
    t: dt.datetime
    deleted_packs: int
    deleted_nbytes: int
    kept_packs: int
    kept_nbytes: int
    young_packs: int
    young_nbytes: int
    versions: int
    expired_tags: tuple[str, ...]
    dropped_pins: int
    skipped: tuple[str, ...]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        did = "would delete" if self.is_dry_run else "deleted"
        first = (
            f"{did} {_packs(self.deleted_packs, self.deleted_nbytes)} that no version needs;"
            f" {_packs(self.kept_packs, self.kept_nbytes)} remain, for {self.versions:,}"
            f" version{'' if self.versions == 1 else 's'}"
        )
        lines = [first]
        if self.young_packs:
            young = _packs(self.young_packs, self.young_nbytes)
            lines.append(f"{young} of these belong to no version yet, or not long enough")
        if self.expired_tags:
            lines.append(f"expired tags: {', '.join(self.expired_tags)}")
        if self.dropped_pins:
            lines.append(f"pins of dead transactions: {self.dropped_pins:,}")
        return "\n".join([*lines, *(f"skipped: {one}" for one in self.skipped)])


@dataclass(slots=True)
class Collection:
    """One run of the collector: what its steps have found so far.

    Attributes:
        store: The dataset's store.
        id: The dataset's.
        grace: The descriptor's: nothing unpublished lives longer.
        is_dry_run: Whether to change nothing.
    """

    store: Store
    id: str
    grace: dt.timedelta
    is_dry_run: bool = False
    now: dt.datetime | None = None
    expired_tags: list[str] = field(default_factory=list[str])
    fenced: dict[str, Fenced] = field(default_factory=dict[str, Fenced])
    citations: list[Citation] = field(default_factory=list[Citation])
    late_pins: list[str] = field(default_factory=list[str])
    heads: dict[str, Entry] = field(default_factory=dict[str, Entry])
    marked: set[PackId] = field(default_factory=set[PackId])
    versions: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    deleted: list[ObjectMeta] = field(default_factory=list[ObjectMeta])
    kept: list[ObjectMeta] = field(default_factory=list[ObjectMeta])
    dropped_pins: int = 0
    skipped: list[str] = field(default_factory=list[str])

    @property
    def t(self) -> dt.datetime:
        """By when a pack must have been stored to be late."""
        assert self.now is not None  # read_clock is the first step
        return self.now - self.grace

    def is_late(self, meta: ObjectMeta) -> bool:
        """Whether an object was surely stored by t."""
        return meta.modified <= self.t - RESOLUTION

    def report(self) -> CollectionReport:
        """Describe what was done."""
        young = [
            meta
            for meta in self.kept
            if (pack := PackId.from_path(meta.path)) is not None and pack not in self.marked
        ]
        return CollectionReport(
            is_dry_run=self.is_dry_run,
            t=self.t,
            deleted_packs=len(self.deleted),
            deleted_nbytes=_nbytes(self.deleted),
            kept_packs=len(self.kept),
            kept_nbytes=_nbytes(self.kept),
            young_packs=len(young),
            young_nbytes=_nbytes(young),
            versions=len(self.versions),
            expired_tags=tuple(self.expired_tags),
            dropped_pins=self.dropped_pins,
            skipped=tuple(self.skipped),
        )


async def collect_garbage(store: Store, *, dry_run: bool = False) -> CollectionReport:
    """Delete the packs that no version, tag or pin refers to and no transaction can publish.

    Args:
        store: The dataset's store.
        dry_run: Only report the packs to delete, and write nothing. Concurrent commits are not
            blocked, and the store's time is that of its answers, so the report is an estimate.

    Raises:
        CorruptionError: Something that is needed is missing or damaged; nothing was deleted.
        UnsupportedFeatureError: The dataset has what this version does not know; likewise.
    """
    collection = await begin_collection(store, dry_run=dry_run)
    for step in STEPS:
        await step(collection)
    if not dry_run:
        await keep_second(store, collection.id)  # 0.1.0 put the descriptor once
    return collection.report()


async def begin_collection(store: Store, *, dry_run: bool = False) -> Collection:
    """Read how long the dataset lets transactions live; the steps come next.

    Raises:
        DatasetNotFoundError: There is no dataset.
        ReadOnlyError: It is a mirror, which takes its branches as they come.
    """
    descriptor = await read_descriptor(store)
    if descriptor is None:
        raise DatasetNotFoundError(
            f"there is no tensorlake dataset at {store.url!r}\ncreate one with tl.create(url, …)",
            dataset=store.url,
        )
    if descriptor.mirror_of is not None:
        raise ReadOnlyError(
            f"{store.url!r} mirrors {descriptor.mirror_of!r} and is not written to by itself"
            "\nit keeps what was copied before the source gave it up; a new mirror has none of it:"
            f" ds.gc() there, then tl.copy({descriptor.mirror_of!r}, another URL, mirror=True)",
            mirror_of=descriptor.mirror_of,
        )
    grace = dt.timedelta(seconds=descriptor.grace_s)
    return Collection(store, descriptor.id, grace, is_dry_run=dry_run)


async def read_clock(collection: Collection) -> None:
    """Note what "now" is, by the clock that dates packs; a dry run writes nothing: it estimates."""
    store = collection.store
    collection.now = await (store.now() if collection.is_dry_run else clock_of(store))


async def clock_of(store: Store) -> dt.datetime:
    """Write an object and return its store time."""
    for _ in range(CLOCK_TRIES):
        txid = new_txid()
        path = f"{CLOCKS}{txid}.json"
        await put_surely(store, path, seal({"txid": txid}))
        meta = await store.head(path)
        if meta is not None:
            await store.delete(path)
            return meta.modified
        # Asleep for longer than grace: another collector took it for a dead one's.
    raise StorageError(
        f"{store.url!r} has not what was just written to it, {CLOCK_TRIES} times; nothing was"
        " removed\nthis store shows writes only later, or something deletes from it",
        dataset=store.url,
    )


async def expire_tags(collection: Collection) -> None:
    """Turn tags whose time has passed into tombstones, before anything is fenced or marked."""
    assert collection.now is not None
    for citation, _ in await list_citations(collection.store):
        if citation.expires is not None and citation.expires <= collection.now:
            collection.expired_tags.append(citation.name)
            if not collection.is_dry_run:
                await withdraw(collection.store, citation.name, txid=citation.txid)


async def fence_branches(collection: Collection) -> None:
    """Append a fence to every branch that has not ended, unless its log carries as much."""
    fence = Fence(t=microseconds(collection.t))

    async def fenced(branch: str) -> Fenced | None:
        log = BranchLog(collection.store, branch)
        head = await log.head()
        if head is None:
            return None
        if collection.is_dry_run:
            return Fenced(fence_of(head), is_ended=head.kind == "end", number=None)
        return await append_fence(log, head, fence)

    branches = await branch_names(collection.store)
    found = await runtime.gather_bounded(
        [partial(fenced, branch) for branch in branches], limit=AT_ONCE
    )
    collection.fenced = {
        branch: one for branch, one in zip(branches, found, strict=True) if one is not None
    }


async def list_tags(collection: Collection) -> None:
    """List to the end what tags name and pins hold. Only then may branches be listed."""
    for citation, meta in await list_citations(collection.store):
        if citation.is_pin and collection.is_late(meta):
            collection.late_pins.append(meta.path)
        elif citation.name not in collection.expired_tags:
            collection.citations.append(citation)


async def read_heads(collection: Collection) -> None:
    """List the branches again, those made since they were fenced too, and read their heads."""
    known = {branch: fenced.number for branch, fenced in collection.fenced.items()}
    collection.heads = await branch_heads(collection.store, hints=known)


async def mark(collection: Collection) -> None:
    """Mark what tags and pins reach, and every branch that had not ended when it was fenced."""
    packs = PackReader(collection.store)
    seen = await _mark_citations(collection, packs)
    logs: list[_LogRange] = []
    for branch, head in collection.heads.items():
        fenced = collection.fenced.get(branch)
        if fenced is not None and fenced.is_ended:
            continue
        start = 0 if fenced is None else fenced.fence.expired_before  # 0: younger than the fences
        logs.append(_LogRange(BranchLog(collection.store, branch), start, head))
    await _mark_logs(collection, logs, packs, seen)


async def delete_packs(collection: Collection) -> None:
    """Delete packs that are unmarked and were stored by t."""
    listed = [meta async for meta in collection.store.list(PACKS)]
    for meta in listed:
        pack = PackId.from_path(meta.path)
        is_garbage = pack is not None and pack not in collection.marked and collection.is_late(meta)
        (collection.deleted if is_garbage else collection.kept).append(meta)
    if not collection.is_dry_run:
        await _delete(collection.store, [meta.path for meta in collection.deleted])


async def drop_pins(collection: Collection) -> None:
    """Delete pins put by t, whose transactions cannot publish, and clocks of dead collectors."""
    collection.dropped_pins = len(collection.late_pins)
    if collection.is_dry_run:
        return
    store = collection.store

    async def clocks() -> list[ObjectMeta]:
        return [meta async for meta in store.list(CLOCKS)]

    # Of a copy that died in its last step, and of dead collectors.
    left, stale = await asyncio.gather(store.head(COPYING), clocks())
    stale += [] if left is None else [left]
    paths = [meta.path for meta in stale if collection.is_late(meta)]
    await _delete(store, [*collection.late_pins, *paths])


STEPS: tuple[Callable[[Collection], Awaitable[None]], ...] = (
    read_clock,
    expire_tags,
    fence_branches,
    list_tags,
    read_heads,
    mark,
    delete_packs,
    drop_pins,
)
"""The steps of a collection, in order."""


@dataclass(frozen=True, slots=True)
class _LogRange:
    """The versions of a log to mark: from ``start`` to ``head``."""

    log: BranchLog
    start: int
    head: Entry


async def _mark_citations(collection: Collection, packs: PackReader) -> set[PageKey]:
    """Mark what tags and pins name, many at once; return the pages that were read with all below.

    The creator of a tag or pin may have died before it found its version gone: that is skipped.
    """

    async def cited(citation: Citation) -> Entry | None:
        entry = await BranchLog(collection.store, citation.branch).entry(citation.seq)
        is_there = entry is not None and entry.has_body and entry.digest == citation.digest
        return entry if is_there else None

    reads = [partial(cited, citation) for citation in collection.citations]
    entries = await runtime.gather_bounded(reads, limit=MARKED_AT_ONCE)
    found: list[tuple[Citation, Entry]] = []
    for citation, entry in zip(collection.citations, entries, strict=True):
        if entry is None:
            collection.skipped.append(f"{citation}: there is no such version")
        else:
            found.append((citation, entry))
    seen = set[PageKey]()
    marks = [partial(_mark_citation, collection, *one, packs, seen) for one in found]
    missing = await runtime.gather_bounded(marks, limit=MARKED_AT_ONCE)
    if any(missing):  # citations that share a page may have left it to each other
        seen = set[PageKey]()
        missing = [await _mark_citation(collection, *one, packs, seen) for one in found]
    for (citation, _), gone in zip(found, missing, strict=True):
        if gone:
            collection.skipped.append(f"{citation}: {gone[0].reference} is gone")
    return seen


async def _mark_citation(
    collection: Collection,
    citation: Citation,
    entry: Entry,
    packs: PackReader,
    seen: set[PageKey],
) -> list[Unreadable]:
    """Mark what a tag, a view or a pin names; return missing pages."""
    missing = await _mark_version(collection, citation.branch, entry, packs, seen)
    if citation.rows is not None:
        collection.marked |= await packs_of_root(
            citation.rows, packs, what="rows", seen=seen, on_unreadable=_noting_missing(missing)
        )
    return missing


async def _mark_logs(
    collection: Collection, logs: list[_LogRange], packs: PackReader, seen: set[PageKey]
) -> None:
    """Mark every version of some logs, fences too: they show what they repeat.

    Many at once. Where a page is missing, versions that share it may have left it to each other, so
    they are gone through once more, one by one, to find who needs it.

    Raises:
        CorruptionError: A page is missing, and no other collector was right to delete it.
    """
    seen_before = set(seen)
    reading = asyncio.Semaphore(MARKED_AT_ONCE)  # pages on their way keep no entry waiting

    async def is_incomplete(log: BranchLog, seq: int) -> bool:
        async with reading:
            entry = await log.existing(seq)
        if not entry.has_body:
            return False
        return bool(await _mark_version(collection, log.branch, entry, packs, seen))

    marks = [
        partial(is_incomplete, one.log, seq)
        for one in logs
        for seq in range(one.start, one.head.seq + 1)
    ]
    if any(await runtime.gather_bounded(marks, limit=2 * MARKED_AT_ONCE)):
        for one in logs:
            await _mark_in_turn(collection, one, packs, seen_before)


async def _mark_in_turn(
    collection: Collection, one: _LogRange, packs: PackReader, seen: set[PageKey]
) -> None:
    """Mark the versions of a log of which some lack a page that others may lack too."""
    expired = 0
    async for entry in one.log.entries(one.start, one.head.seq + 1):
        if not entry.has_body:
            continue
        missing = await _mark_version(collection, one.log.branch, entry, packs, seen)
        if missing:
            if not is_expired(entry.seq, newest=await one.log.newest_from(one.head)):
                raise _needed(one.log, entry, missing[0])
            expired += 1
    if expired:
        collection.skipped.append(f"{expired:,} versions of {one.log.branch}: expired meanwhile")


async def _mark_version(
    collection: Collection, branch: str, entry: Entry, packs: PackReader, seen: set[PageKey]
) -> list[Unreadable]:
    """Mark a version's packs; return missing pages, below which references are unknown."""
    check_writable(entry, url=collection.store.url)
    missing: list[Unreadable] = []
    collection.marked |= await packs_of(
        entry, packs, seen=seen, on_unreadable=_noting_missing(missing)
    )
    if entry.kind == "commit":
        collection.versions.add((branch, entry.seq))
    return missing


def _noting_missing(missing: list[Unreadable]) -> Callable[[Unreadable], None]:
    """Take note of pages that are gone; raise at those that are damaged."""

    def note(unreadable: Unreadable) -> None:
        if not unreadable.is_missing:
            raise unreadable.error
        missing.append(unreadable)

    return note


def _needed(log: BranchLog, entry: Entry, missing: Unreadable) -> CorruptionError:
    version = f"{log.branch}@{entry.seq}"
    return CorruptionError(
        f"{version} of {log.store.url!r} needs {missing.reference}, which is gone; nothing was"
        " deleted\nrun tensorlake check, and restore the pack from a copy",
        version=version,
        object=missing.reference.pack.path,
    )


async def _delete(store: Store, paths: list[str]) -> None:
    await runtime.gather_bounded([partial(store.delete, path) for path in paths], limit=AT_ONCE)


def _nbytes(listed: list[ObjectMeta]) -> int:
    return sum(meta.nbytes for meta in listed)


def _packs(count: int, nbytes: int) -> str:
    return f"{count:,} pack{'' if count == 1 else 's'} ({nbytes:,} bytes)"
