"""Verify one version: its body, and every page and chunk that it references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorlake.errors import (
    CorruptionError,
    InvalidInputError,
    SchemaError,
    SnapshotExpiredError,
    UnsupportedFeatureError,
)
from tensorlake.format import COVERED, INDEXES, Entry, Schema, StatisticsTable, Summaries
from tensorlake.types import ClassLabel
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import coverage_faults, group_faults
from tensorlake.versions.reachability import Reference, Unreadable, iter_references
from tensorlake.versions.rows.class_names import class_names
from tensorlake.versions.verify.bytes import MissingPack, describe
from tensorlake.versions.verify.run import CheckRun, add_unsupported

__all__ = ["body_faults", "check_version", "noting", "take", "warn_of_earlier_indexes"]


async def check_version(check: CheckRun, entry: Entry, version: str, path: str) -> None:
    """Verify all references of a version, except those verified for another version."""
    check.versions += 1
    check.packs.use(entry)
    try:
        for what in await _body_faults(check, entry, version):
            check.findings.add(path, what)
        note = noting(check, version)
        async for reference in iter_references(
            entry, check.packs, seen=check.seen, on_unreadable=note
        ):
            await take(check, reference, version)
    except UnsupportedFeatureError as error:
        add_unsupported(check, path, error)
    except CorruptionError as error:
        check.findings.add_error(path, error)


def noting(check: CheckRun, version: str) -> Callable[[Unreadable], None]:
    """Return a function that records the unreadable pages of a version."""

    def note(unreadable: Unreadable) -> None:
        reference = unreadable.reference
        check.referenced.add(reference.pack)
        if unreadable.is_missing:
            check.ranges.missing.setdefault(
                reference.pack, MissingPack(reference.pack, version, describe(reference))
            )
            return
        first = str(unreadable.error).splitlines()[0]
        check.ranges.damaged[reference.pack.path, reference.offset] = reference.what
        check.findings.add(
            reference.pack.path,
            f"{describe(reference)} of {version} cannot be read: {first}",
            offset=reference.offset,
            advice=check.repair_advice,
        )

    return note


async def take(check: CheckRun, reference: Reference, version: str) -> None:
    """Verify a range that a version needs, now or in a batch."""
    check.referenced.add(reference.pack)
    # Pages of chunk indexes were already read and verified when their references were listed.
    is_listed = reference.what in {"rows", "row_ids"} or reference.what.endswith(COVERED)
    is_read = reference.kind == "page" and not is_listed
    await check.ranges.add(reference, version, is_read=is_read)


async def warn_of_earlier_indexes(check: CheckRun) -> None:
    """Turn damage to indexes that no branch's newest version has into warnings.

    Nothing is lost with an index, and those of earlier versions are not built again.
    """
    places = {at for at, what in check.ranges.damaged.items() if what.startswith(INDEXES)}
    if not places:
        return
    for branch, facts in check.logs.items():
        entry = await BranchLog(check.store, branch).entry(facts.newest)
        if entry is None or not entry.has_body:
            continue
        check.packs.use(entry)
        async for one in iter_references(entry, check.packs, on_unreadable=_keeping(places)):
            places.discard((one.pack.path, one.offset))
    for number, finding in enumerate(check.findings.kept):
        if (finding.object, finding.offset) in places:
            check.findings.kept[number] = replace(
                finding,
                severity="warning",
                advice="queries of that version scan the column; it goes when the version expires",
            )


def _keeping(places: set[tuple[str, int]]) -> Callable[[Unreadable], None]:
    """Return a function that leaves the place of an unreadable page out of places."""

    def note(unreadable: Unreadable) -> None:
        places.discard((unreadable.reference.pack.path, unreadable.reference.offset))

    return note


async def _body_faults(check: CheckRun, entry: Entry, version: str) -> list[str]:
    if entry.spilled:
        try:
            entry = await entry.load(check.packs, where=version)
        except (CorruptionError, SnapshotExpiredError):
            return []  # iter_references reports the page
    return body_faults(entry) or _code_faults(entry, Schema.from_json(entry.schema or {}))


def _code_faults(entry: Entry, schema: Schema) -> list[str]:
    """List tensors whose statistics show class codes beyond their names."""
    faults: list[str] = []
    for spec in schema.tensors:
        known = len(class_names(spec))
        if not isinstance(spec.type, ClassLabel):
            continue
        root = entry.roots[spec.id]
        summaries = [child.summary for child in root.children if child.summary is not None]
        highest = max(map(_highest, (*summaries, root.tail.statistics)), default=-1)
        if highest >= known:
            faults.append(f"{spec.name!r} has class codes up to {highest:,}, and {known:,} names")
    return faults


def _highest(statistics: Summaries[StatisticsTable]) -> int:
    table = statistics.table
    if table is None or table.maximum is None or table.domain != "int64":
        return -1
    return max(table.maximum[table.has_maximum].tolist(), default=-1)


def body_faults(entry: Entry) -> list[str]:
    """List the faults of a body whose pages are loaded, without reading its trees."""
    try:
        schema = Schema.from_json(entry.schema or {})
    except (SchemaError, InvalidInputError) as error:
        return [f"its schema cannot be read: {str(error).splitlines()[0]}"]
    return coverage_faults(entry, schema) + group_faults(entry)
