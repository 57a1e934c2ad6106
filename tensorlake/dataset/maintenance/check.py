"""``ds.check()`` and its report."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tensorlake.dataset.core.item_counts import Uneven, uneven_rows
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.maintenance.indexes import rebuilt_indexes
from tensorlake.dataset.maintenance.links import link_findings
from tensorlake.dataset.maintenance.references import misfits
from tensorlake.errors import (
    AccessError,
    CorruptionError,
    CorruptSampleError,
    DatasetNotFoundError,
    ReadOnlyError,
    SchemaError,
    SnapshotExpiredError,
    StorageError,
    UncommittedChangesError,
    UnsupportedFeatureError,
)
from tensorlake.format import COPYING, DESCRIPTOR, MAIN, Entry, TensorSpec, entry_path
from tensorlake.quantities import human_nbytes, plural
from tensorlake.reading import ChunkCache, Reader, Snapshot
from tensorlake.storage import Store, open_store, runtime
from tensorlake.types import Link
from tensorlake.versions import (
    BranchLog,
    Checked,
    Finding,
    PackReader,
    Repair,
    check_dataset,
    loaded,
    readable_branch_names,
    repair_dataset,
    resolve,
    sizes_of,
)

__all__ = ["CheckReport", "check", "check_store", "check_url"]

SHOWN = 20
DECODED_ROWS = 64
"""Samples decoded together; if one is damaged, they are decoded one by one."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check; prints as a summary and a line for each finding.

    Attributes:
        url: URL of the dataset.
        findings: Damage and warnings; ``ok`` if there are none.
        left_out: Number of findings beyond those listed.
        repairs: Repairs by ``repair=True``, and damage that it could not repair.
        is_full: Whether chunks were read, rather than only listed.
        samples: Number of media samples decoded.
        entries: Log entries read.
        versions: Versions whose references were verified.
        pages: Index pages read.
        chunks: Chunks referenced.
        packs: Packs in the store.
        unreferenced: Packs that no checked version references: an expired version's, or garbage
            that ``gc`` removes.
        nbytes_read: Bytes of ranges that were read and verified.
        unchanged: Log entries that an earlier check verified, and that are listed unchanged
            together with their packs: with ``full=False`` they are not read again.
    """

    url: str
    findings: tuple[Finding, ...]
    left_out: int
    repairs: tuple[Repair, ...]
    is_full: bool
    samples: int
    entries: int
    versions: int
    pages: int
    chunks: int
    packs: int
    unreferenced: int
    nbytes_read: int
    unchanged: int = 0

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def __repr__(self) -> str:
        damage = sum(one.severity == "damage" for one in self.findings) + self.left_out
        warnings = len(self.findings) + self.left_out - damage
        verdict = ": no damage" if self.findings else ": no problems found"
        if damage:
            verdict = f" is damaged: {plural(damage, 'finding')}"
        if warnings:
            verdict += f", {plural(warnings, 'warning')}"
        chunks = "verified" if self.is_full else "found, not read (full=False)"
        entries = f"{self.entries:,} log {'entry' if self.entries == 1 else 'entries'}"
        facts = [
            plural(self.versions, "version"),
            entries,
            plural(self.pages, "index page"),
            f"{plural(self.chunks, 'chunk')} {chunks}",
            plural(self.packs, "pack"),
            f"{human_nbytes(self.nbytes_read)} read",
        ]
        if self.unchanged:
            entries = "entry" if self.unchanged == 1 else "entries"
            facts.insert(2, f"{self.unchanged:,} {entries} unchanged since an earlier check")
        if self.samples:
            facts.append(f"{plural(self.samples, 'sample')} decoded")
        if self.unreferenced:
            facts.append(f"{plural(self.unreferenced, 'pack')} not needed by these versions")
        lines = [f"{self.url}{verdict}", f"  {' · '.join(facts)}"]
        lines += [f"  {repair}" for repair in self.repairs]
        lines += [f"  {finding}" for finding in self.findings[:SHOWN]]
        more = len(self.findings) + self.left_out - SHOWN
        return "\n".join([*lines, *([f"  … {more:,} more (report.findings)"] if more > 0 else [])])


def check(
    session: Session,
    *,
    full: bool,
    decode: bool,
    repair: bool,
    links: bool,
    progress: bool | None,
) -> CheckReport:
    """Verify the dataset behind a handle, after repairing it if requested."""
    if repair:
        _check_may_repair(session)
    report = check_store(
        session.store,
        full=full,
        decode=decode,
        repair=repair,
        may_write=session.why_read_only is None,
        progress=progress,
    )
    if repair and session.is_writable:
        session.refresh()
    if not links:
        return report
    found, samples = link_findings(session), report.samples
    if decode:
        known = {one.object for one in found}
        for bad, count in _bad_linked_samples(session):
            found += [one for one in bad if one.object not in known]
            samples += count
    return replace(report, findings=(*report.findings, *found), samples=samples)


def check_url(
    url: str,
    *,
    full: bool = True,
    decode: bool = False,
    repair: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> CheckReport:
    """Verify the dataset at a URL, even if it is too damaged to be opened.

    Raises:
        DatasetNotFoundError: There is no dataset, nor parts of one; or a copy is under way.
    """
    store = open_store(url, storage_options=storage_options or None)
    parts = (DESCRIPTOR, entry_path(MAIN, 0), COPYING)
    if not any(runtime.run(store.head(part)) is not None for part in parts):
        raise DatasetNotFoundError(f"no tensorlake dataset at {store.url!r}", dataset=store.url)
    return check_store(
        store, full=full, decode=decode, repair=repair, may_write=True, progress=progress
    )


def check_store(
    store: Store,
    *,
    full: bool,
    decode: bool,
    repair: bool,
    may_write: bool = False,
    progress: bool | None = False,
) -> CheckReport:
    """Verify the dataset in a store."""
    from tensorlake.dataset.core.progress import Progress
    from tensorlake.dataset.runs.damage import damaged_runs

    repairs = (*repair_dataset(store), *rebuilt_indexes(store)) if repair else ()
    total = sum(runtime.run(sizes_of(store)).values()) if full and progress is not False else 0
    with Progress(f"check {store.url}", total=total, shown=progress if full else False) as bar:
        advance = partial(bar.advance, rows=0)
        checked: Checked = runtime.run(
            check_dataset(
                store, full=full, may_write=may_write, is_repaired=repair, progress=advance
            )
        )
    findings, samples = [*checked.findings], 0
    if full:
        findings += _misfits(store)
        findings += _uneven_rows(store)
        findings += damaged_runs(store)
    if decode:
        for found, count in _bad_samples(store):
            samples += count
            findings += found
    return CheckReport(
        url=store.url,
        findings=tuple(findings),
        left_out=checked.left_out,
        repairs=repairs,
        is_full=full,
        samples=samples,
        entries=checked.entries,
        versions=checked.versions,
        pages=checked.pages,
        chunks=checked.chunks,
        packs=checked.packs,
        unreferenced=checked.unreferenced,
        nbytes_read=checked.nbytes_read,
        unchanged=checked.unchanged,
    )


def _check_may_repair(session: Session) -> None:
    session.check_present()
    if session.why_read_only is not None:
        raise ReadOnlyError(
            f"a repair writes, and this handle of {session.store.url!r} may not:"
            f" {session.why_read_only}\nopen it without read_only"
        )
    if not session.is_writable:
        raise ReadOnlyError(
            f"a repair writes, and this handle of {session.store.url!r} is at {session.name!r}"
            "\nrepair from a branch: tl.open(url).repair()"
        )
    if session.transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes, and repairing moves this handle\n"
            "commit or discard them first"
        )


def _newest_versions(store: Store) -> Iterator[Reader]:
    """Read every branch's newest version, except damaged ones, which the check reports."""
    packs, cache = PackReader(store), ChunkCache()
    for branch in runtime.run(readable_branch_names(store)):
        try:
            entry = runtime.run(_newest(store, branch, packs))
            if entry is None or not entry.has_body or entry.kind == "end":
                continue
            snapshot = Snapshot.of_entry(entry, packs, branch=branch)
        except (CorruptionError, SchemaError, SnapshotExpiredError, UnsupportedFeatureError):
            continue
        yield Reader(snapshot, cache)


def _misfits(store: Store) -> Iterator[Finding]:
    """Find checks and computed columns that do not fit their tensors; older writers left them."""
    from tensorlake.dataset.runs.functions import functions_of

    for reader in _newest_versions(store):
        version, schema = reader.snapshot.version, reader.snapshot.schema
        if not schema.constraints and all(spec.compute is None for spec in schema):
            continue
        session = Session(store, runtime.run(resolve(store, version)), read_only=True)
        session.functions = functions_of
        for one in misfits(session, schema):
            yield Finding(f"{one.reader} in {version}", None, one.why, "warning", one.advice)


def _uneven_rows(store: Store) -> list[Finding]:
    """Find rows whose labels do not fit their boxes or images; older writers could commit them."""
    found: list[Finding] = []
    for reader in _newest_versions(store):
        try:
            found += [_uneven(one, reader.snapshot.version) for one in uneven_rows(reader)]
        except (CorruptionError, SnapshotExpiredError, UnsupportedFeatureError):
            continue  # the check of its chunks reports the reason
    return found


def _uneven(one: Uneven, version: str) -> Finding:
    return Finding(
        f"row {one.row} of {one.name!r} in {version}",
        None,
        str(one),
        "damage",
        f"give the row {one.wanted}: ds[{one.name!r}][{one.row}] = …, or"
        f" ds[{one.items!r}][{one.row}] = …, and commit",
    )


def _bad_samples(store: Store) -> Iterator[tuple[list[Finding], int]]:
    """Decode every media sample of every branch's newest version, a few at a time."""
    for reader in _newest_versions(store):
        snapshot = reader.snapshot
        for spec in snapshot.schema.tensors:
            if not spec.type.is_media or isinstance(spec.type, Link):
                continue  # files elsewhere are checked by links=True
            for start in range(0, snapshot.num_rows, DECODED_ROWS):
                rows = np.arange(start, min(snapshot.num_rows, start + DECODED_ROWS))
                yield _decoded(reader, snapshot, spec, rows), len(rows)


def _bad_linked_samples(session: Session) -> Iterator[tuple[list[Finding], int]]:
    """Read and decode the linked files of the handle's version, a few at a time."""
    snapshot = session.committed
    reader = session.reader(snapshot)
    for spec in snapshot.schema.tensors:
        if isinstance(spec.type, Link):
            for start in range(0, snapshot.num_rows, DECODED_ROWS):
                rows = np.arange(start, min(snapshot.num_rows, start + DECODED_ROWS))
                yield _decoded(reader, snapshot, spec, rows), len(rows)


async def _newest(store: Store, branch: str, packs: PackReader) -> Entry | None:
    head = await BranchLog(store, branch).head()
    return None if head is None else await loaded(head, packs)


def _decode(reader: Reader, spec: TensorSpec, physical: np.ndarray) -> None:
    """Decode samples, and drop them; those that are read lazily a block at a time."""
    if not spec.type.is_lazy:
        reader.read(spec.name, physical)
        return
    for source in reader.samples(spec.name, physical):
        if source is not None:
            deque(spec.type.handle_class(spec.type.handle_type, source).blocks(), maxlen=0)


def _decoded(
    reader: Reader, snapshot: Snapshot, spec: TensorSpec, rows: np.ndarray
) -> list[Finding]:
    elsewhere = (StorageError, AccessError) if isinstance(spec.type, Link) else ()
    try:
        _decode(reader, spec, snapshot.physical(rows))
    except (CorruptSampleError, *elsewhere) as error:
        if len(rows) > 1:
            return [
                found for row in rows for found in _decoded(reader, snapshot, spec, np.array([row]))
            ]
        return [
            Finding(
                f"row {int(rows[0])} of {spec.name!r} in {snapshot.version}",
                None,
                str(error).splitlines()[0],
                "damage",
                "to train without it: on_error='skip'; or give the row another value",
            )
        ]
    except (CorruptionError, SnapshotExpiredError) as error:
        first = str(error).splitlines()[0]
        what = f"rows {int(rows[0])} … {int(rows[-1])} of {spec.name!r} in {snapshot.version}"
        return [Finding(what, None, first, "damage", "restore the object from a copy")]
    return []
