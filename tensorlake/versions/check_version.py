"""Verifying one version: its body, and every page and chunk that it refers to."""

from __future__ import annotations

from collections.abc import Callable

from tensorlake.errors import (
    CorruptionError,
    InvalidInputError,
    SchemaError,
    SnapshotExpiredError,
    UnsupportedFeatureError,
)
from tensorlake.format import Entry, Schema
from tensorlake.versions.check_run import RERUN, CheckRun, add_unsupported
from tensorlake.versions.references import Reference, Unreadable, iter_references
from tensorlake.versions.verify import MissingPack, describe

__all__ = ["check_version", "noting", "take"]


async def check_version(check: CheckRun, entry: Entry, version: str, path: str) -> None:
    """Verify all that a version refers to, but what was verified for another."""
    check.versions += 1
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


def noting(check: CheckRun, version: str) -> Callable[[Unreadable], None]:
    """Make what notes the pages of a version that cannot be read."""

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

    return note


async def take(check: CheckRun, reference: Reference, version: str) -> None:
    """Verify a range that a version needs, now or with others."""
    check.referenced.add(reference.pack)
    # Pages of chunk indexes were read, and verified, to list what they refer to.
    is_read = reference.kind == "page" and reference.what not in {"rows", "row_ids"}
    await check.ranges.add(reference, version, is_read=is_read)


async def _body_faults(check: CheckRun, entry: Entry, version: str) -> list[str]:
    if entry.spilled:
        try:
            entry = await entry.load(check.packs, where=version)
        except (CorruptionError, SnapshotExpiredError):
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
