"""Verifying a whole dataset: every object, every reference, every digest and checksum.

    descriptor ── logs (chain of digests, numbers, parents) ── versions ── pages ── chunks
                  hints · tags · views · pins                            └─ packs (size, directory)

Nothing damaged stops it, and nothing is changed. Versions that were given up are not expected to
be whole, unless a tag names them. Each page and chunk is read once, whatever number of versions
share it, so checking a long log costs little more than checking its head.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial

from tensorlake.errors import (
    CorruptionError,
    InvalidInputError,
    SchemaError,
    UnsupportedFeatureError,
)
from tensorlake.format import (
    BRANCHES,
    DESCRIPTOR,
    PACKS,
    TAGS,
    Descriptor,
    Entry,
    PackId,
    Schema,
    decode_name,
    entry_path,
    head_path,
    parse_entry_path,
    parse_tag_path,
    read_directory,
)
from tensorlake.storage import Store, runtime
from tensorlake.versions.citations import Citation, read_citation
from tensorlake.versions.entries import fence_of
from tensorlake.versions.findings import Finding, Findings
from tensorlake.versions.log import BranchLog
from tensorlake.versions.packs import PackReader
from tensorlake.versions.references import (
    PageKey,
    Reference,
    Unreadable,
    iter_references,
    iter_root_references,
)
from tensorlake.versions.verify import MissingPack, RangeVerifier, describe

__all__ = ["Checked", "check_dataset"]

ENTRIES_AT_ONCE = 32
TRAILER_NBYTES = 64 << 10
"""Read from the end of a pack: most directories fit."""

UPGRADE = "install a newer tensorlake"
RERUN = "run check(repair=True)"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, and what was found."""

    findings: tuple[Finding, ...]
    left_out: int
    entries: int
    versions: int
    pages: int
    chunks: int
    packs: int
    unreferenced: int
    nbytes_read: int


@dataclass(slots=True)
class _LogFacts:
    """What is remembered of one branch's log."""

    branch: str
    newest: int = -1
    expired_before: int = 0
    is_ended: bool = False
    digests: dict[int, str] = field(default_factory=dict[int, str])
    commits: int = 0


@dataclass(slots=True)
class _Check:
    """A check under way."""

    store: Store
    packs: PackReader
    findings: Findings
    ranges: RangeVerifier
    logs: dict[str, _LogFacts] = field(default_factory=dict[str, _LogFacts])
    foreign: list[tuple[str, str, int, str]] = field(
        default_factory=list[tuple[str, str, int, str]]
    )  # (path, branch, seq, digest) cited from another branch
    seen: set[PageKey] = field(default_factory=set[PageKey])
    referenced: set[PackId] = field(default_factory=set[PackId])
    entries: int = 0
    versions: int = 0


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
    sizes = {
        pack: meta.nbytes
        async for meta in store.list(PACKS)
        if (pack := PackId.from_path(meta.path)) is not None
    }
    stored = set(sizes)
    ranges = RangeVerifier(store, findings, full, sizes, progress)
    check = _Check(store, PackReader(store), findings, ranges)
    await _check_descriptor(check)
    for folder in await store.folders(BRANCHES):
        await _check_branch(check, folder)
    _check_foreign(check)
    async for meta in store.list(TAGS):
        await _check_tag(check, meta.path)
    await ranges.flush()
    await _report_missing(check)
    if full:
        await runtime.gather_bounded(
            [partial(_check_directory, check, pack) for pack in sorted(stored)],
            limit=ENTRIES_AT_ONCE,
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


async def _check_descriptor(check: _Check) -> None:
    data = await check.store.get(DESCRIPTOR)
    if data is None:
        check.findings.add(DESCRIPTOR, "it is missing: nobody can open the dataset")
        return
    try:
        Descriptor.from_bytes(data)
    except CorruptionError as error:
        check.findings.add_error(DESCRIPTOR, error)
    except UnsupportedFeatureError as error:
        _add_unsupported(check, DESCRIPTOR, error)


def _add_unsupported(check: _Check, path: str, error: UnsupportedFeatureError) -> None:
    first = str(error).splitlines()[0]
    check.findings.add(path, first, severity="warning", advice=UPGRADE)


# Logs


async def _check_branch(check: _Check, folder: str) -> None:
    try:
        facts = _LogFacts(decode_name(folder))
    except CorruptionError as error:
        check.findings.add_error(f"{BRANCHES}{folder}/", error, severity="warning")
        return
    check.logs[facts.branch] = facts
    numbers: list[int] = []
    async for meta in check.store.list(f"{BRANCHES}{folder}/"):
        parsed = parse_entry_path(meta.path)
        if parsed is not None:
            numbers.append(parsed[1])
        elif meta.path != head_path(facts.branch):
            check.findings.add(
                meta.path,
                "it is no part of the format",
                severity="warning",
                advice="remove it if you know it",
            )
    log = BranchLog(check.store, facts.branch)
    facts.newest = max(numbers, default=-1)
    for absent in sorted(set(range(facts.newest + 1)) - set(numbers))[:ENTRIES_AT_ONCE]:
        what = "it is missing from a log that goes on after it"
        check.findings.add(entry_path(facts.branch, absent), what)
    newest = await _entry(check, log, facts.newest) if numbers else None
    if newest is not None:
        facts.expired_before = fence_of(newest).expired_before
        facts.is_ended = newest.kind == "end"
    before: Entry | None = None
    async for seq, entry in _entries(check, log, numbers):
        if entry is not None:
            await _check_entry(check, facts, seq, entry, before)
        before = entry
    await _check_hint(check, facts)
    if facts.branch == "main" and (not numbers or facts.commits == 0):
        check.findings.add(f"{BRANCHES}{folder}/", "the branch main has no commit")


async def _entries(
    check: _Check, log: BranchLog, numbers: list[int]
) -> AsyncIterator[tuple[int, Entry | None]]:
    """Read a log forwards, some entries at once; None for those that cannot be read."""
    for start in range(0, len(numbers), ENTRIES_AT_ONCE):
        some = numbers[start : start + ENTRIES_AT_ONCE]
        reads = [partial(_entry, check, log, seq) for seq in some]
        for seq, entry in zip(
            some, await runtime.gather_bounded(reads, limit=ENTRIES_AT_ONCE), strict=True
        ):
            yield seq, entry


async def _entry(check: _Check, log: BranchLog, seq: int) -> Entry | None:
    path = entry_path(log.branch, seq)
    try:
        return await log.entry(seq)
    except CorruptionError as error:
        check.findings.add_error(path, error)
    except UnsupportedFeatureError as error:
        _add_unsupported(check, path, error)
    return None


async def _check_entry(
    check: _Check, facts: _LogFacts, seq: int, entry: Entry, before: Entry | None
) -> None:
    path = entry_path(facts.branch, seq)
    check.entries += 1
    facts.digests[seq] = entry.digest
    facts.commits += entry.kind == "commit"
    for what in _chain_faults(seq, entry, before):
        check.findings.add(path, what)
    for parent in entry.parents:
        if parent.branch != facts.branch:
            check.foreign.append((path, parent.branch, parent.seq, parent.digest))
        elif facts.digests.get(parent.seq, parent.digest) != parent.digest or parent.seq >= seq:
            check.findings.add(path, f"its parent {facts.branch}@{parent.seq} is another entry")
    for branch, last in entry.merged.items():
        check.foreign.append((path, branch, last, ""))
    if entry.features.unknown_write:
        names = ", ".join(map(repr, entry.features.unknown_write))
        what = f"writers must know {names}: here the dataset is read only"
        check.findings.add(path, what, severity="warning", advice=UPGRADE)
    is_expected = not facts.is_ended and seq >= facts.expired_before
    if entry.kind == "commit" and is_expected:
        await _check_version(check, entry, f"{facts.branch}@{seq}", path)


def _chain_faults(seq: int, entry: Entry, before: Entry | None) -> list[str]:
    faults: list[str] = []
    if seq == 0 and entry.prev is not None:
        faults.append("it is entry 0 and cites one before it")
    if entry.kind == "begin" and seq != 0:
        faults.append("a begin entry stands inside the log")
    if before is None or before.seq != seq - 1:
        return faults
    if entry.prev != before.digest:
        faults.append(f"it does not follow entry {seq - 1}: another digest is cited")
    if entry.time <= before.time:
        faults.append(f"its time is not after that of entry {seq - 1}")
    if before.kind == "end":
        faults.append("it stands after the branch's end")
    old, new = fence_of(before), fence_of(entry)
    if new.t < old.t or new.expired_before < old.expired_before:
        faults.append("its fence is lower than one before it")
    if entry.has_body and entry.physical < before.physical:
        faults.append("its axis of physical rows is shorter than before")
    return faults


async def _check_version(check: _Check, entry: Entry, version: str, path: str) -> None:
    """Verify all that a version refers to, but what was verified for another."""
    check.versions += 1

    def note(unreadable: Unreadable) -> None:
        reference = unreadable.reference
        check.referenced.add(reference.pack)
        if unreadable.is_missing:
            check.ranges.missing.setdefault(
                reference.pack, MissingPack(reference.pack, version, describe(reference))
            )
            return
        first = str(unreadable.error).splitlines()[0]
        check.findings.add(
            reference.pack.path,
            f"{describe(reference)} of {version} cannot be read: {first}",
            offset=reference.offset,
            advice=f"{RERUN}, or restore it from a copy",
        )

    try:
        for what in await _body_faults(check, entry, version):
            check.findings.add(path, what)
        references = iter_references(entry, check.packs, seen=check.seen, on_unreadable=note)
        async for reference in references:
            await _take(check, reference, version)
    except UnsupportedFeatureError as error:
        _add_unsupported(check, path, error)


async def _take(check: _Check, reference: Reference, version: str) -> None:
    check.referenced.add(reference.pack)
    # Pages of chunk indexes were read, and verified, to list what they refer to.
    is_read = reference.kind == "page" and reference.what not in {"rows", "row_ids"}
    await check.ranges.add(reference, version, is_read=is_read)


async def _body_faults(check: _Check, entry: Entry, version: str) -> list[str]:
    if entry.spilled:
        try:
            entry = await entry.load(check.packs, where=version)
        except CorruptionError:
            return []  # iter_references says which page
    try:
        schema = Schema.from_json(entry.schema or {})
    except (SchemaError, InvalidInputError) as error:
        return [f"its schema cannot be read: {str(error).splitlines()[0]}"]
    faults = [
        f"the index of {spec.name!r} covers {'no' if root is None else f'{root.rows:,}'} rows of"
        f" {entry.physical:,}"
        for spec in schema.tensors
        if (root := entry.roots.get(spec.id)) is None or root.rows != entry.physical
    ]
    if entry.row_ids is None or entry.row_ids.rows != entry.physical:
        faults.append(f"its row ids do not cover its {entry.physical:,} physical rows")
    return faults


async def _check_hint(check: _Check, facts: _LogFacts) -> None:
    path = head_path(facts.branch)
    data = await check.store.get(path)
    if data is None:
        return  # best effort: it may never have been written
    what = "it is damaged"
    try:
        hint = Entry.from_bytes(data, where=path)
    except (CorruptionError, UnsupportedFeatureError):
        hint = None
    if hint is not None and facts.digests.get(hint.seq) == hint.digest:
        return
    if hint is not None:
        if hint.seq > facts.newest:  # a commit that was published while this check went on
            later = await BranchLog(check.store, facts.branch).entry(hint.seq)
            if later is not None and later.digest == hint.digest:
                return
        what = f"it is a copy of an entry {hint.seq} that this branch does not have"
    check.findings.add(
        path,
        f"{what}; it is a hint, which costs requests and is never trusted",
        severity="warning",
        advice=f"commit, or {RERUN}, to write a new one",
    )


def _check_foreign(check: _Check) -> None:
    for path, branch, seq, digest in check.foreign:
        facts = check.logs.get(branch)
        if facts is None:
            check.findings.add(path, f"it cites branch {branch!r}, which does not exist")
        elif seq > facts.newest or (digest and facts.digests.get(seq, digest) != digest):
            check.findings.add(path, f"it cites {branch}@{seq}, which is another entry or none")


# Tags, views, pins


async def _check_tag(check: _Check, path: str) -> None:
    if parse_name(path) is None:
        what = "it is no part of the format"
        check.findings.add(path, what, severity="warning", advice="remove it if you know it")
        return
    try:
        citation = await read_citation(check.store, path)
        if citation is not None and not citation.is_pin:
            await _check_citation(check, citation, path)
    except CorruptionError as error:
        check.findings.add_error(path, error)


def parse_name(path: str) -> str | None:
    """Name the tag at a path; None where no tag lies."""
    try:
        return parse_tag_path(path)
    except CorruptionError:
        return None


async def _check_citation(check: _Check, citation: Citation, path: str) -> None:
    version = f"{citation.branch}@{citation.seq}"
    entry = await BranchLog(check.store, citation.branch).entry(citation.seq)
    if entry is None or entry.digest != citation.digest:
        what = f"it names {version}, which is {'missing' if entry is None else 'another entry'}"
        check.findings.add(path, what, advice="delete the tag, or restore the log from a copy")
        return
    await _check_version(check, entry, version, path)
    if citation.rows is not None:
        references = iter_root_references(citation.rows, check.packs, what="rows", seen=check.seen)
        async for reference in references:
            await _take(check, reference, version)


# Packs


async def _report_missing(check: _Check) -> None:
    """Report packs that are gone, but those of versions given up while this check went on."""
    for one in check.ranges.missing.values():
        if await _is_given_up_since(check, one.version):
            continue
        what = f"the pack is missing: {one.what} of {one.version} lies in it"
        check.findings.add(one.pack.path, what, advice=f"{RERUN}, or restore it from a copy")


async def _is_given_up_since(check: _Check, version: str) -> bool:
    branch, _, number = version.rpartition("@")
    facts = check.logs.get(branch)
    if facts is None or facts.is_ended or int(number) < facts.expired_before:
        return False  # a tag holds it: it was given up before
    try:
        head = await BranchLog(check.store, branch).head()
    except CorruptionError:
        return False
    return head is not None and (head.kind == "end" or int(number) < fence_of(head).expired_before)


async def _check_directory(check: _Check, pack: PackId) -> None:
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
"""What a page may have at most (``docs/reference/format.md``, "Pages")."""
