"""What a copy takes: which entries of which logs, which tags, and the packs that these need.

The source goes on meanwhile: commits come, versions are given up and collected. So a plan is made
from the logs as they are now, and made again when a pack that it names turns out to be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from tensorlake.errors import DatasetNotFoundError, InvalidInputError, VersionNotFoundError
from tensorlake.format import MAIN, TAGS, Descriptor, Entry, PackId, parse_tag_path
from tensorlake.storage import Store, runtime
from tensorlake.versions.citations import Citation, read_citation
from tensorlake.versions.creation import read_descriptor
from tensorlake.versions.entries import fence_of
from tensorlake.versions.log import BranchLog, branch_names
from tensorlake.versions.packs import PackReader, loaded
from tensorlake.versions.references import PageKey, packs_of, packs_of_root
from tensorlake.versions.refs import commit_under, resolve

__all__ = ["ENTRIES_AT_ONCE", "CopyPlan", "plan_history", "plan_version"]

ENTRIES_AT_ONCE = 32
"""Entries of a log read together: enough to hide a store's latency."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What is to be copied.

    Attributes:
        descriptor: The source's.
        heads: The last entry to copy of each branch, main first.
        version: The version that was asked for; None: all.
        tags: Paths of the tags, views and tombstones to copy.
        packs: The packs that all of it needs.
    """

    descriptor: Descriptor
    heads: Mapping[str, Entry]
    version: tuple[str, Entry] | None
    tags: tuple[str, ...] = ()
    packs: frozenset[PackId] = field(default_factory=frozenset[PackId])


async def plan_version(source: Store, version: str | None) -> CopyPlan:
    """Plan the copy of one version, without its history."""
    descriptor = await _descriptor(source)
    resolved = await resolve(source, version)
    entry = await commit_under(source, resolved.branch, resolved.entry)
    packs = PackReader(source)
    entry = await loaded(entry, packs)
    return CopyPlan(
        descriptor,
        {},
        (resolved.branch, entry),
        packs=frozenset(await packs_of(entry, packs)),
    )


async def plan_history(source: Store, version: str | None) -> CopyPlan:
    """Plan the copy of every branch, or of those that one version stands on, up to it."""
    descriptor = await _descriptor(source)
    packs = PackReader(source)
    heads: dict[str, Entry] = {}
    cited: tuple[str, Entry] | None = None
    if version is None:
        for name in await branch_names(source):
            head = await BranchLog(source, name).head()
            if head is not None and head.kind != "begin":
                heads[name] = head
    else:
        resolved = await resolve(source, version)
        entry = await loaded(resolved.entry, packs)
        cited = (resolved.branch, entry)
        for name, seq in entry.merged.items():
            heads[name] = await BranchLog(source, name).existing(seq)
        heads[resolved.branch] = entry
    if MAIN not in heads:
        raise VersionNotFoundError(
            f"{version!r} of {source.url!r} does not stand on branch 'main', without which no"
            " dataset can be opened\ncopy it with history=False",
            version=version,
        )
    heads = {MAIN: heads.pop(MAIN), **heads}
    found, seen = set[PackId](), set[PageKey]()
    for name, head in heads.items():
        found |= await _packs_of_log(BranchLog(source, name), head, packs, seen)
    tags: list[str] = []
    async for meta in source.list(TAGS):
        citation = await read_citation(source, meta.path)
        if citation is None:
            if parse_tag_path(meta.path) is not None:
                tags.append(meta.path)  # a tombstone: the name stays used
        elif not citation.is_pin and _is_within(citation, heads):
            tags.append(meta.path)
            found |= await _packs_of_citation(source, citation, packs, seen)
    return CopyPlan(descriptor, heads, cited, tuple(tags), frozenset(found))


def _is_within(citation: Citation, heads: Mapping[str, Entry]) -> bool:
    head = heads.get(citation.branch)
    return head is not None and citation.seq <= head.seq


async def _packs_of_log(
    log: BranchLog, head: Entry, packs: PackReader, seen: set[PageKey]
) -> set[PackId]:
    """Packs of the versions that a log has not given up; of an ended one, of none."""
    if head.kind == "end":
        return set()
    found: set[PackId] = set()
    for first in range(fence_of(head).expired_before, head.seq + 1, ENTRIES_AT_ONCE):
        numbers = range(first, min(head.seq, first + ENTRIES_AT_ONCE - 1) + 1)
        reads = [partial(log.existing, seq) for seq in numbers if seq != head.seq]
        entries = await runtime.gather_bounded(reads, limit=ENTRIES_AT_ONCE)
        for entry in [*entries, *([head] if head.seq in numbers else [])]:
            if entry.has_body:
                found |= await packs_of(entry, packs, seen=seen)
    return found


async def _packs_of_citation(
    source: Store, citation: Citation, packs: PackReader, seen: set[PageKey]
) -> set[PackId]:
    entry = await BranchLog(source, citation.branch).existing(citation.seq)
    found = await packs_of(entry, packs, seen=seen)
    if citation.rows is not None:
        found |= await packs_of_root(citation.rows, packs, what="rows", seen=seen)
    return found


async def _descriptor(source: Store) -> Descriptor:
    descriptor = await read_descriptor(source)
    if descriptor is None:
        message = f"no tensorlake dataset at {source.url!r}, so there is nothing to copy"
        raise DatasetNotFoundError(message, dataset=source.url)
    return descriptor


def refuse_mirror_of_version(*, version: str | None, history: bool) -> None:
    """A mirror is of everything."""
    if version is not None or not history:
        raise InvalidInputError(
            "a mirror has every version of its source, so it takes neither version= nor"
            " history=False\nleave them out, or copy without mirror=True"
        )
