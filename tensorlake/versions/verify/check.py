"""Verify a whole dataset: every object, every reference, every digest and checksum.

    descriptor ── logs (chain of digests, numbers, parents) ── versions ── pages ── chunks
                  hints · tags · views · pins                            └─ packs (size, directory)

Damage does not stop it, and it changes nothing except the mark (``verify/mark.py``). Expired
versions are not expected to be complete, unless a tag names them. Each page and chunk is read once,
even if many versions share it, so checking a long log costs little more than checking its head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tensorlake.errors import CorruptionError, UnsupportedFeatureError
from tensorlake.format import (
    BRANCHES,
    COPYING,
    DESCRIPTOR,
    TAGS,
    Descriptor,
    PackId,
    descriptor_path,
)
from tensorlake.storage import ObjectMeta, Store, runtime
from tensorlake.versions.log.entries import is_expired
from tensorlake.versions.log.findings import RESTORE, Finding, Findings
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.packs.copy import packs_in
from tensorlake.versions.packs.directory import stored_directory
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.reachability import iter_root_references
from tensorlake.versions.refs.copy_claim import refuse_unfinished
from tensorlake.versions.refs.descriptors import second_puts
from tensorlake.versions.refs.registry import Citation, name_at, read_citation
from tensorlake.versions.verify.bases import check_bases
from tensorlake.versions.verify.bytes import RangeVerifier
from tensorlake.versions.verify.log import check_branch, check_foreign
from tensorlake.versions.verify.mark import Mark, MarkedLog, keep_mark, read_mark
from tensorlake.versions.verify.run import RERUN, CheckRun, add_unsupported
from tensorlake.versions.verify.version import (
    check_version,
    noting,
    take,
    warn_of_earlier_indexes,
)

__all__ = ["Checked", "check_dataset"]

PACKS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Checked:
    """The extent of a check, and its findings."""

    findings: tuple[Finding, ...]
    left_out: int
    entries: int
    versions: int
    pages: int
    chunks: int
    packs: int
    unreferenced: int
    unchanged: int
    nbytes_read: int


async def check_dataset(
    store: Store,
    *,
    full: bool,
    may_write: bool = False,
    is_repaired: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Checked:
    """Verify everything.

    Args:
        store: The dataset's store.
        full: Read every chunk. False: read logs, tags and index pages, and compare the lengths of
            packs, except for versions that an earlier check verified and whose objects are
            listed unchanged.
        may_write: Whether to leave a mark for the next check, if nothing is damaged.
        is_repaired: Whether a repair came before, so that no other can be advised.
        progress: Called with bytes as they are read.
    """
    findings = Findings()
    packs = await packs_in(store)
    stored, sizes = set(packs), {pack: meta.nbytes for pack, meta in packs.items()}
    reader = PackReader(store)
    ranges = RangeVerifier(store, findings, full, sizes, progress, reader.places)
    check = CheckRun(store, reader, findings, ranges, is_repaired=is_repaired)
    descriptor = await _check_descriptor(check)
    if descriptor is not None and not full:
        await _use_mark(check, descriptor, packs)
    for folder in await store.folders(BRANCHES):
        await check_branch(check, folder)
    await check_foreign(check)
    async for meta in store.list(TAGS):
        await _check_tag(check, meta.path)
    await ranges.flush()
    await _report_missing(check)
    await warn_of_earlier_indexes(check)
    if not check.referenced <= stored:
        await check_bases(check)
    if full:
        await runtime.gather_bounded(
            [partial(_check_directory, check, pack) for pack in sorted(stored)],
            limit=PACKS_AT_ONCE,
        )
    if may_write and descriptor is not None and descriptor.mirror_of is None:
        await keep_mark(store, _mark_of(check, descriptor, packs), before=check.mark)
    return Checked(
        findings=tuple(findings.kept),
        left_out=findings.left_out,
        entries=check.entries,
        versions=check.versions,
        pages=ranges.pages,
        chunks=ranges.chunks,
        packs=len(stored),
        unreferenced=len(stored - check.referenced),
        unchanged=check.unchanged,
        nbytes_read=ranges.nbytes_read,
    )


async def _check_descriptor(check: CheckRun) -> Descriptor | None:
    data = await check.store.get(DESCRIPTOR)
    if data is None:
        await refuse_unfinished(check.store)
        what = "it is missing: the dataset cannot be opened"
        check.findings.add(DESCRIPTOR, what, advice=await _descriptor_advice(check))
        return None
    if await check.store.head(COPYING) is not None:
        what = "a copy ended before it removed this; the dataset is whole"
        check.findings.add(
            COPYING,
            what,
            severity="warning",
            advice="copy again, or run ds.gc() when the grace time has passed",
        )
    try:
        descriptor = Descriptor.from_bytes(data)
    except CorruptionError as error:
        first = str(error).splitlines()[0]
        check.findings.add(DESCRIPTOR, first, advice=await _descriptor_advice(check))
        return None
    except UnsupportedFeatureError as error:
        add_unsupported(check, DESCRIPTOR, error)
        return None
    own = descriptor_path(descriptor.id)
    for second in await second_puts(check.store):
        if second.path != own:
            what = f"it is another dataset's: this one's is {own!r}"
            check.findings.add(second.path, what, severity="warning", advice="delete it")
        elif second.data != data:
            what = "it differs from the descriptor, which could not be restored from it"
            check.findings.add(
                second.path,
                what,
                severity="warning",
                advice=RESTORE if check.is_repaired else RERUN,
            )
    return descriptor


async def _use_mark(
    check: CheckRun, descriptor: Descriptor, packs: Mapping[PackId, ObjectMeta]
) -> None:
    """Accept the result of an earlier check if all of its packs are listed unchanged."""
    mark = await read_mark(check.store, descriptor.id)
    needed = None if mark is None else mark.packs_among(packs)
    if needed is not None:
        check.mark = mark
        check.referenced |= needed


def _mark_of(
    check: CheckRun, descriptor: Descriptor, packs: Mapping[PackId, ObjectMeta]
) -> Mark | None:
    """Describe the verified objects; None if one is damaged, unknown or missing."""
    is_damaged = any(one.severity == "damage" for one in check.findings.kept)
    if is_damaged or check.findings.left_out or check.is_unsure:
        return None
    logs = {
        branch: MarkedLog(facts.newest, facts.digests[facts.newest], facts.listed)
        for branch, facts in check.logs.items()
        if facts.commits
    }
    if not check.referenced <= packs.keys():
        return None  # published, or expired and collected, since they were listed
    return Mark.of(descriptor.id, logs, (packs[pack] for pack in check.referenced))


async def _descriptor_advice(check: CheckRun) -> str:
    is_there = any(second.error is None for second in await second_puts(check.store))
    return RERUN if is_there and not check.is_repaired else RESTORE


# Tags, views, pins


async def _check_tag(check: CheckRun, path: str) -> None:
    if name_at(path) is None:
        what = "it is not part of the format"
        check.findings.add(path, what, severity="warning", advice="remove it if you know it")
        return
    try:
        citation = await read_citation(check.store, path)
        if citation is not None and not citation.is_pin:
            await _check_citation(check, citation, path)
    except CorruptionError as error:
        check.findings.add_error(path, error)


async def _check_citation(check: CheckRun, citation: Citation, path: str) -> None:
    version = f"{citation.branch}@{citation.seq}"
    entry = await BranchLog(check.store, citation.branch).entry(citation.seq)
    if entry is None or entry.digest != citation.digest:
        what = f"it names {version}, which is {'missing' if entry is None else 'another entry'}"
        check.findings.add(path, what, advice="delete the tag, or restore the log from a copy")
        return
    await check_version(check, entry, version, path)
    if citation.rows is not None:
        note = noting(check, version)
        async for reference in iter_root_references(
            citation.rows, check.packs, what="rows", seen=check.seen, on_unreadable=note
        ):
            await take(check, reference, version)


# Packs


async def _report_missing(check: CheckRun) -> None:
    """Report missing packs, except those of versions that expired during this check."""
    for one in check.ranges.missing.values():
        if await _has_expired_since(check, one.version):
            continue
        what = f"the pack is missing: {one.what} of {one.version} is in it"
        check.findings.add(one.pack.path, what, advice=check.repair_advice)


async def _has_expired_since(check: CheckRun, version: str) -> bool:
    branch, _, number = version.rpartition("@")
    facts = check.logs.get(branch)
    if facts is None or facts.is_ended or int(number) < facts.expired_before:
        return False  # a tag keeps it readable: it expired before
    try:
        head = await BranchLog(check.store, branch).head()
    except CorruptionError:
        return False
    return head is not None and is_expired(int(number), newest=head)


async def _check_directory(check: CheckRun, pack: PackId) -> None:
    """Verify the directory of a pack, which is only needed for repair."""
    path, size = pack.path, check.ranges.sizes[pack]
    if await check.store.head(path) is None:
        return  # collected since
    try:
        await stored_directory(check.store, pack, size)
    except CorruptionError as error:
        first = str(error).splitlines()[0]
        check.findings.add(
            path,
            f"its directory, which only salvage reads, is damaged ({first})",
            severity="warning",
            advice="nothing that a version shows is touched",
        )
