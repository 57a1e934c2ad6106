"""Verifying a whole dataset: every object, every reference, every digest and checksum.

    descriptor ── logs (chain of digests, numbers, parents) ── versions ── pages ── chunks
                  hints · tags · views · pins                            └─ packs (size, directory)

Nothing damaged stops it, and nothing is changed. Expired versions are not expected to be complete,
unless a tag names them. Each page and chunk is read once, whatever number of versions share it, so
checking a long log costs little more than checking its head.
"""

from __future__ import annotations

from collections.abc import Callable
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
    read_directory,
)
from tensorlake.storage import Store, runtime
from tensorlake.versions.log.entries import is_given_up
from tensorlake.versions.log.findings import RESTORE, Finding, Findings
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.packs.copy import sizes_of
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.reachability import iter_root_references
from tensorlake.versions.refs.copy_claim import refuse_unfinished
from tensorlake.versions.refs.descriptors import second_puts
from tensorlake.versions.refs.registry import Citation, name_at, read_citation
from tensorlake.versions.verify.bytes import RangeVerifier
from tensorlake.versions.verify.log import check_branch, check_foreign
from tensorlake.versions.verify.run import RERUN, CheckRun, add_unsupported
from tensorlake.versions.verify.version import check_version, noting, take

__all__ = ["Checked", "check_dataset"]

PACKS_AT_ONCE = 32
TRAILER_NBYTES = 64 << 10
"""Read from the end of a pack: most directories fit."""


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
    nbytes_read: int


async def check_dataset(
    store: Store, *, full: bool, progress: Callable[[int], None] = lambda _: None
) -> Checked:
    """Verify everything.

    Args:
        store: The dataset's store.
        full: Read every chunk; False: logs, tags and index pages, and that packs are long enough.
        progress: Told of bytes as they are read.
    """
    findings = Findings()
    sizes = await sizes_of(store)
    stored = set(sizes)
    ranges = RangeVerifier(store, findings, full, sizes, progress)
    check = CheckRun(store, PackReader(store), findings, ranges)
    await _check_descriptor(check)
    for folder in await store.folders(BRANCHES):
        await check_branch(check, folder)
    check_foreign(check)
    async for meta in store.list(TAGS):
        await _check_tag(check, meta.path)
    await ranges.flush()
    await _report_missing(check)
    if full:
        await runtime.gather_bounded(
            [partial(_check_directory, check, pack) for pack in sorted(stored)],
            limit=PACKS_AT_ONCE,
        )
    return Checked(
        findings=tuple(findings.kept),
        left_out=findings.left_out,
        entries=check.entries,
        versions=check.versions,
        pages=ranges.pages,
        chunks=ranges.chunks,
        packs=len(stored),
        unreferenced=len(stored - check.referenced),
        nbytes_read=ranges.nbytes_read,
    )


async def _check_descriptor(check: CheckRun) -> None:
    data = await check.store.get(DESCRIPTOR)
    if data is None:
        await refuse_unfinished(check.store)
        what = "it is missing: the dataset cannot be opened"
        check.findings.add(DESCRIPTOR, what, advice=await _descriptor_advice(check.store))
        return
    if await check.store.head(COPYING) is not None:
        what = "a copy ended before it removed this; the dataset is whole"
        check.findings.add(
            COPYING,
            what,
            severity="warning",
            advice="copy again, or run ds.gc() when the grace time has passed",
        )
    try:
        own = descriptor_path(Descriptor.from_bytes(data).id)
    except CorruptionError as error:
        first = str(error).splitlines()[0]
        check.findings.add(DESCRIPTOR, first, advice=await _descriptor_advice(check.store))
        return
    except UnsupportedFeatureError as error:
        add_unsupported(check, DESCRIPTOR, error)
        return
    for second in await second_puts(check.store):
        if second.path != own:
            what = f"it is another dataset's: this one's is {own!r}"
            check.findings.add(second.path, what, severity="warning", advice="delete it")
        elif second.data != data:
            what = "it differs from the descriptor, which could not be restored from it"
            check.findings.add(second.path, what, severity="warning", advice=RERUN)


async def _descriptor_advice(store: Store) -> str:
    is_there = any(second.error is None for second in await second_puts(store))
    return RERUN if is_there else RESTORE


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
        if await _is_given_up_since(check, one.version):
            continue
        what = f"the pack is missing: {one.what} of {one.version} lies in it"
        check.findings.add(one.pack.path, what, advice=f"{RERUN}, or restore it from a copy")


async def _is_given_up_since(check: CheckRun, version: str) -> bool:
    branch, _, number = version.rpartition("@")
    facts = check.logs.get(branch)
    if facts is None or facts.is_ended or int(number) < facts.expired_before:
        return False  # a tag holds it: it was given up before
    try:
        head = await BranchLog(check.store, branch).head()
    except CorruptionError:
        return False
    return head is not None and is_given_up(int(number), newest=head)


async def _check_directory(check: CheckRun, pack: PackId) -> None:
    """Salvage reads a pack's directory; no reader does."""
    path, size = pack.path, check.ranges.sizes[pack]
    if await check.store.head(path) is None:
        return  # collected since
    try:
        nbytes = min(size, TRAILER_NBYTES)
        tail = await check.store.get_range(path, size - nbytes, size)
        needed = directory_nbytes(tail)
        if needed > nbytes:
            tail = await check.store.get_range(path, max(0, size - needed), size)
        read_directory(tail, where=path)
    except CorruptionError as error:
        first = str(error).splitlines()[0]
        check.findings.add(
            path,
            f"its directory, which only salvage reads, is damaged ({first})",
            severity="warning",
            advice="nothing that a version shows is touched",
        )


def directory_nbytes(tail: bytes | bytearray | memoryview) -> int:
    """How many bytes from a pack's end hold its directory and trailer."""
    view = memoryview(tail)
    if len(view) < TRAILER:
        return len(view)
    return min(int.from_bytes(view[-16:-8], "little"), MAX_DIRECTORY_NBYTES) + TRAILER


TRAILER = 24
MAX_DIRECTORY_NBYTES = 64 << 20
"""Maximum bytes of a page (``docs/reference/format.md``, "Pages")."""
