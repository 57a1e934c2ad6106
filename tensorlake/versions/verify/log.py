"""Verify the log of a branch: its entries, their order, and its hint."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from functools import partial

from tensorlake.errors import CorruptionError, UnsupportedFeatureError
from tensorlake.format import (
    BRANCHES,
    MAIN,
    Entry,
    decode_name,
    entry_path,
    head_path,
    parse_entry_path,
)
from tensorlake.storage import FIRST_STORED, ObjectMeta, runtime
from tensorlake.versions.log.entries import EPOCH, fence_of, microseconds
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.verify.mark import listed
from tensorlake.versions.verify.run import RERUN, UPGRADE, CheckRun, LogFacts, add_unsupported
from tensorlake.versions.verify.version import check_version

__all__ = ["chain_faults", "check_branch", "check_foreign"]

ENTRIES_AT_ONCE = 32

FAR_MICROSECONDS = 300_000_000
"""Entries whose time is further in the future than this are reported."""


async def check_branch(check: CheckRun, folder: str) -> None:
    """Verify the log in a folder, and every version of it that has not expired."""
    try:
        facts = LogFacts(decode_name(folder))
    except CorruptionError as error:
        check.findings.add_error(f"{BRANCHES}{folder}/", error, severity="warning")
        return
    check.logs[facts.branch] = facts
    stored: dict[int, ObjectMeta] = {}
    async for meta in check.store.list(f"{BRANCHES}{folder}/"):
        parsed = parse_entry_path(meta.path)
        if parsed is not None:
            stored[parsed[1]] = meta
        elif meta.path != head_path(facts.branch):
            check.findings.add(
                meta.path,
                "it is not part of the format",
                severity="warning",
                advice="remove it if you know it",
            )
    log, numbers = BranchLog(check.store, facts.branch), sorted(stored)
    facts.newest = max(numbers, default=-1)
    for absent in sorted(set(range(facts.newest + 1)) - set(numbers))[:ENTRIES_AT_ONCE]:
        what = "it is missing from a log that continues after it"
        check.findings.add(entry_path(facts.branch, absent), what)
    newest = await _entry(check, log, facts.newest) if numbers else None
    if newest is not None:
        facts.expired_before = fence_of(newest).expired_before
        facts.is_ended = newest.kind == "end"
    facts.listed = listed(stored[seq] for seq in numbers)
    await _skip_unchanged(check, facts, log, stored)
    numbers = [seq for seq in numbers if seq >= facts.unchanged]
    before: Entry | None = None
    async for seq, entry in _entries(check, log, numbers):
        if entry is not None:
            await _check_entry(check, facts, seq, entry, before)
        before = entry
    await _check_hint(check, facts)
    if facts.branch == MAIN and (not numbers or facts.commits == 0):
        check.findings.add(f"{BRANCHES}{folder}/", "the branch main has no commit")


async def _skip_unchanged(
    check: CheckRun, facts: LogFacts, log: BranchLog, stored: dict[int, ObjectMeta]
) -> None:
    """Record how far an earlier check verified a log that is listed unchanged."""
    marked = None if check.mark is None else check.mark.logs.get(facts.branch)
    if marked is None or listed(stored[seq] for seq in sorted(stored) if seq <= marked.seq) != (
        marked.listed
    ):
        return
    entry = await _entry(check, log, marked.seq)
    if entry is not None and entry.digest == marked.digest:
        facts.unchanged = marked.seq
        facts.commits = 1  # a log without one has no mark
        check.unchanged += marked.seq + 1


async def _entries(
    check: CheckRun, log: BranchLog, numbers: list[int]
) -> AsyncIterator[tuple[int, Entry | None]]:
    """Read a log forwards, several entries at once; None for unreadable ones."""
    for start in range(0, len(numbers), ENTRIES_AT_ONCE):
        some = numbers[start : start + ENTRIES_AT_ONCE]
        reads = [partial(_entry, check, log, seq) for seq in some]
        for seq, entry in zip(
            some, await runtime.gather_bounded(reads, limit=ENTRIES_AT_ONCE), strict=True
        ):
            yield seq, entry


async def _entry(check: CheckRun, log: BranchLog, seq: int) -> Entry | None:
    path = entry_path(log.branch, seq)
    try:
        return await log.entry(seq)
    except CorruptionError as error:
        check.findings.add_error(path, error)
    except UnsupportedFeatureError as error:
        add_unsupported(check, path, error)
    return None


async def _check_entry(
    check: CheckRun, facts: LogFacts, seq: int, entry: Entry, before: Entry | None
) -> None:
    path = entry_path(facts.branch, seq)
    check.entries += seq > facts.unchanged
    facts.digests[seq] = entry.digest
    facts.commits += entry.kind == "commit"
    for what in chain_faults(seq, entry, before):
        check.findings.add(path, what)
    for parent in entry.parents:
        if parent.branch != facts.branch:
            check.foreign.append((path, parent.branch, parent.seq, parent.digest))
        elif (
            await _digest(check, facts, parent.seq, parent.digest) != parent.digest
            or parent.seq >= seq
        ):
            check.findings.add(path, f"its parent {facts.branch}@{parent.seq} is another entry")
    for branch, last in entry.merged.items():
        check.foreign.append((path, branch, last, ""))
    await _check_time(check, path, entry, before)
    if entry.features.unknown_write:
        names = ", ".join(map(repr, entry.features.unknown_write))
        what = f"writers must know {names}: here the dataset is read only"
        check.findings.add(path, what, severity="warning", advice=UPGRADE)
    is_expected = not facts.is_ended and seq >= facts.expired_before
    if entry.kind == "commit" and is_expected and seq > facts.unchanged:
        await check_version(check, entry, f"{facts.branch}@{seq}", path)


async def _check_time(check: CheckRun, path: str, entry: Entry, before: Entry | None) -> None:
    """Report the first entry whose writer's clock was ahead; later ones had to exceed its time."""
    if before is not None and entry.time == before.time + 1:
        return
    now = await check.store.now() if entry.stored is None else None
    latest = microseconds(now) if now is not None else entry.stored or 0
    if FIRST_STORED <= latest < entry.time - FAR_MICROSECONDS:
        stored = "by the store's clock it is" if now is not None else "its store dates it"
        what = f"its time, {_shown(entry.time)}, is in the future: {stored} {_shown(latest)}"
        what += "" if now is not None else ", which counts"
        advice = f"set the clock of the machine on which {entry.author or 'its author'!r} writes"
        check.findings.add(path, what, severity="warning", advice=advice)


def _shown(time: int) -> str:
    return (EPOCH + dt.timedelta(microseconds=time)).isoformat(sep=" ", timespec="seconds")


def chain_faults(seq: int, entry: Entry, before: Entry | None) -> list[str]:
    """List what contradicts the previous entry, which is None if it cannot be read."""
    faults: list[str] = []
    if seq == 0 and entry.prev is not None:
        faults.append("it is entry 0 and cites one before it")
    if entry.kind == "begin" and seq != 0:
        faults.append("a begin entry is inside the log")
    if before is None or before.seq != seq - 1:
        return faults
    if entry.prev != before.digest:
        faults.append(f"it does not follow entry {seq - 1}: another digest is cited")
    if entry.time <= before.time:
        faults.append(f"its time is not after that of entry {seq - 1}")
    if before.kind == "end":
        faults.append("it is after the branch's end")
    old, new = fence_of(before), fence_of(entry)
    if new.t < old.t or new.expired_before < old.expired_before:
        faults.append("its fence is lower than one before it")
    if entry.has_body and entry.physical < before.physical:
        faults.append("its axis of physical rows is shorter than before")
    return faults


async def _check_hint(check: CheckRun, facts: LogFacts) -> None:
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
        if hint.seq > facts.newest or hint.seq < facts.unchanged:  # published since, or not read
            later = await BranchLog(check.store, facts.branch).entry(hint.seq)
            if later is not None and later.digest == hint.digest:
                return
        what = f"it is a copy of an entry {hint.seq} that this branch does not have"
    check.findings.add(
        path,
        f"{what}; it is a hint, which costs requests and is never trusted",
        severity="warning",
        advice=f"commit{'' if check.is_repaired else f', or {RERUN},'} to write a new one",
    )


async def check_foreign(check: CheckRun) -> None:
    """Verify citations of other branches, once all logs are read."""
    for path, branch, seq, digest in check.foreign:
        facts = check.logs.get(branch)
        if facts is None:
            check.findings.add(path, f"it cites branch {branch!r}, which does not exist")
        elif seq > facts.newest or (digest and await _digest(check, facts, seq, digest) != digest):
            check.findings.add(path, f"it cites {branch}@{seq}, which is another entry or none")


async def _digest(check: CheckRun, facts: LogFacts, seq: int, cited: str) -> str:
    """Return an entry's digest; the cited one if it is unreadable, which was reported before."""
    if seq not in facts.digests and 0 <= seq < facts.unchanged:
        entry = await _entry(check, BranchLog(check.store, facts.branch), seq)
        if entry is not None:
            facts.digests[seq] = entry.digest
    return facts.digests.get(seq, cited)
