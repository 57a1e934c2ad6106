"""The plan of a copy: the entries of each log, the tags, and the packs that these need.

The source changes meanwhile: commits are added, versions expire and are collected. So a plan is
made from the current logs, and made again when a pack that it names is found missing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tensorlake.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    SnapshotExpiredError,
    VersionNotFoundError,
)
from tensorlake.format import MAIN, TAGS, Descriptor, Entry, PackId, parse_tag_path
from tensorlake.storage import Store, runtime
from tensorlake.versions.log.entries import fence_of, is_expired
from tensorlake.versions.log.log import BranchLog, branch_heads
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.reachability import PageKey, packs_of, packs_of_root
from tensorlake.versions.refs.copy_claim import refuse_unfinished
from tensorlake.versions.refs.create import read_descriptor
from tensorlake.versions.refs.refs import commit_under, resolve
from tensorlake.versions.refs.registry import Citation, read_citation

__all__ = [
    "ENTRIES_AT_ONCE",
    "CopyPlan",
    "check_history",
    "packs_in_bases",
    "plan_history",
    "plan_version",
]

ENTRIES_AT_ONCE = 32
"""Entries of a log, or tags, read together: enough to hide a store's latency."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The objects to copy.

    Attributes:
        descriptor: Descriptor of the source.
        heads: The last entry to copy of each branch, main first.
        version: The requested version; None: all.
        tags: Paths of the tags, views and tombstones to copy.
        packs: The packs that all of it needs.
        reader: The reader that found them; it knows the bases of a fork.
    """

    descriptor: Descriptor
    heads: Mapping[str, Entry]
    version: tuple[str, Entry] | None
    reader: PackReader
    tags: tuple[str, ...] = ()
    packs: frozenset[PackId] = field(default_factory=frozenset[PackId])


async def plan_version(source: Store, version: str | dt.datetime | None) -> CopyPlan:
    """Plan the copy of one version, without its history."""
    descriptor = await _descriptor(source)
    resolved = await resolve(source, version)
    entry = await commit_under(source, resolved.branch, resolved.entry)
    packs = PackReader(source)
    packs.read_for(f"{resolved.branch}@{entry.seq}")
    entry = await loaded(entry, packs)
    return CopyPlan(
        descriptor,
        {},
        (resolved.branch, entry),
        packs,
        packs=frozenset(await packs_of(entry, packs)),
    )


async def plan_history(source: Store, version: str | dt.datetime | None) -> CopyPlan:
    """Plan the copy of every branch, or of those that one version is based on, up to it."""
    descriptor = await _descriptor(source)
    packs = PackReader(source)
    heads: dict[str, Entry] = {}
    cited: tuple[str, Entry] | None = None
    if version is None:
        begun = await branch_heads(source)
        heads = {name: head for name, head in begun.items() if head.kind != "begin"}
    else:
        resolved = await resolve(source, version)
        entry = await loaded(resolved.entry, packs)
        cited = (resolved.branch, entry)
        for name, seq in entry.merged.items():
            heads[name] = await BranchLog(source, name).existing(seq)
        heads[resolved.branch] = entry
    if MAIN not in heads:
        raise VersionNotFoundError(
            f"{str(version)!r} of {source.url!r} is not based on branch 'main', without which a"
            " dataset cannot be opened\ncopy it with history=False",
            version=version,
        )
    heads = {MAIN: heads.pop(MAIN), **heads}
    found, seen = set[PackId](), set[PageKey]()
    for name, head in heads.items():
        found |= await _packs_of_log(BranchLog(source, name), head, packs, seen)
    paths = [one.path async for one in source.list(TAGS) if parse_tag_path(one.path) is not None]
    reads = [partial(read_citation, source, path) for path in paths]
    citations = await runtime.gather_bounded(reads, limit=ENTRIES_AT_ONCE)
    kept = {
        path: citation  # None: a tombstone, because the name stays used
        for path, citation in zip(paths, citations, strict=True)
        if citation is None or (not citation.is_pin and _is_within(citation, heads))
    }
    found |= await _packs_of_citations(source, [one for one in kept.values() if one], packs, seen)
    return CopyPlan(descriptor, heads, cited, packs, tuple(kept), frozenset(found))


def _is_within(citation: Citation, heads: Mapping[str, Entry]) -> bool:
    head = heads.get(citation.branch)
    return head is not None and citation.seq <= head.seq


async def _packs_of_log(
    log: BranchLog, head: Entry, packs: PackReader, seen: set[PageKey]
) -> set[PackId]:
    """Return the packs of a log's versions that have not expired; none for an ended log."""
    if head.kind == "end":
        return set()
    found: set[PackId] = set()
    async for entry in log.entries(fence_of(head).expired_before, head.seq + 1):
        if entry.has_body:
            packs.read_for(f"{log.branch}@{entry.seq}")
            found |= await packs_of(entry, packs, seen=seen)
    return found


async def _packs_of_citations(
    source: Store, citations: Sequence[Citation], packs: PackReader, seen: set[PageKey]
) -> set[PackId]:
    reads = [partial(BranchLog(source, one.branch).existing, one.seq) for one in citations]
    entries = await runtime.gather_bounded(reads, limit=ENTRIES_AT_ONCE)
    found: set[PackId] = set()
    for citation, entry in zip(citations, entries, strict=True):
        found |= await packs_of(entry, packs, seen=seen)
        if citation.rows is not None:
            found |= await packs_of_root(citation.rows, packs, what="rows", seen=seen)
    return found


async def check_history(source: Store, plan: CopyPlan) -> None:
    """Determine why packs are missing that the history of a version needs.

    Raises:
        SnapshotExpiredError: Versions that it is based on have expired since.
    """
    assert plan.version is not None
    branch, entry = plan.version
    for name, head in plan.heads.items():
        newest = await BranchLog(source, name).newest_from(head)
        if is_expired(fence_of(head).expired_before, newest=newest):
            raise SnapshotExpiredError(
                f"{branch}@{entry.seq} of {source.url!r} is based on versions of {name!r} that"
                " have expired and were collected, so they cannot be copied with it\n"
                "copy it alone: history=False; or, without version=, every version that is left",
                version=f"{branch}@{entry.seq}",
                branch=name,
            )


async def _descriptor(source: Store) -> Descriptor:
    descriptor = await read_descriptor(source)
    if descriptor is None:
        await refuse_unfinished(source)
        message = f"no tensorlake dataset at {source.url!r}, so there is nothing to copy"
        raise DatasetNotFoundError(message, dataset=source.url)
    return descriptor


def refuse_mirror_of_version(*, version: object, history: bool) -> None:
    """Refuse a mirror of a part: a mirror copies everything."""
    if version is not None or not history:
        raise InvalidInputError(
            "a mirror has every version of its source, so it takes neither version= nor"
            " history=False\nleave them out, or copy without mirror=True"
        )


async def packs_in_bases(
    plan: CopyPlan, present: Collection[PackId]
) -> list[tuple[Store, dict[PackId, int]]]:
    """Find the packs of a fork that its own store lacks: each base, and the bytes of its packs."""
    places = plan.reader.places
    if not places.bases:
        return []
    elsewhere = sorted(pack for pack in plan.packs if pack not in present)
    found = await runtime.gather_bounded(
        [partial(places.nbytes_in_bases, pack) for pack in elsewhere], limit=ENTRIES_AT_ONCE
    )
    by_store: dict[str, tuple[Store, dict[PackId, int]]] = {}
    for pack, one in zip(elsewhere, found, strict=True):
        if one is not None:
            by_store.setdefault(one[0].url, (one[0], {}))[1][pack] = one[1]
    return list(by_store.values())
