"""Forget rows: remove them from all branches and names, then from the store.

    at once        the rows of a condition, in every version ─► recorded
                   ─► deleted from each branch; chunks of their packs are moved, indexes rebuilt
                   ─► tags and views of versions with them deleted, those versions expired
    after grace    collected ─► the packs are confirmed to be gone ─► the report

Every step can be repeated: a call that was stopped is continued by the next one, from the record.
A version *has* a row if its axis has the physical row, shown or not: a deleted row has values in
chunks until they are moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import ids_of, physical_of, rows_of_ids
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.maintenance.forgotten import ForgetReport, Forgotten, read_forgotten
from tensorlake.dataset.maintenance.indexes import rebuild_indexes
from tensorlake.dataset.maintenance.optimize import leave_packs
from tensorlake.dataset.maintenance.trace import held_by, id_of_text, readable_versions, text_of_id
from tensorlake.dataset.query.run import run_where
from tensorlake.dataset.write import staging
from tensorlake.errors import (
    ConflictError,
    InvalidInputError,
    InvalidStateError,
    QueryError,
    ReadOnlyError,
    UncommittedChangesError,
)
from tensorlake.format import ROW_ID, Entry, PackId
from tensorlake.quantities import plural
from tensorlake.reading import Reader, Snapshot
from tensorlake.storage import runtime
from tensorlake.versions import (
    CommitRequest,
    collect_garbage,
    expire_before,
    iter_references,
    loaded,
    readable_branch_names,
)

__all__ = ["ForgetReport", "forget"]

Ids = npt.NDArray[Any]
RACES_MAX = 5
INDEXES = "index/"


def forget(dataset: Any, session: Session, where: Any, *, finish: bool) -> ForgetReport:
    """Forget rows; see ``ds.forget``."""
    session.check_present()
    if not session.is_writable:
        raise ReadOnlyError(
            f"this handle is at {session.name!r} of {session.store.url!r} and cannot write"
            + (f": {session.why_read_only}\n" if session.why_read_only else "\n")
            + "forget() commits to branches: open the dataset without a version",
            version=session.name,
        )
    if session.transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes, and forget() commits to every branch\n"
            "commit or discard them first"
        )
    if where is None and not finish:
        raise InvalidInputError(
            "forget() takes a condition: ds.forget(\"name = 'Ben'\")\nto collect what was forgotten"
            " before: ds.forget(finish=True)",
            argument="where",
        )
    if where is not None:
        _begin(dataset, session, where)
    pending = [one for one in read_forgotten(session.store) if not one.is_finished]
    for one in pending:
        if one.cleaned is None:
            _clean(session, one)
    session.refresh()
    if finish:
        _finish(session, pending)
    names = {one.id for one in pending}
    return _joined([one for one in read_forgotten(session.store) if one.id in names])


def _begin(dataset: Any, session: Session, where: Any) -> None:
    """Record the rows that meet a condition in any version, and are not recorded yet."""
    found = [ids_of(session.committed, _matching(everything(session), where))]
    states: set[int] = set()
    for _, snapshot in _all_versions(session):
        key = hash((str(snapshot.state.rows), str(snapshot.state.roots)))
        if key in states:
            continue
        states.add(key)
        rows = everything(versioning.at(session, snapshot.version))
        try:
            found.append(ids_of(snapshot, _matching(rows, where)))
        except QueryError:  # a tensor of the condition was not there yet
            continue
    ids = np.unique(np.concatenate(found))
    known = {row for one in read_forgotten(session.store) for row in one.rows}
    still = np.zeros(len(ids), np.bool_)
    for _, snapshot in _all_versions(session):
        still |= rows_of_ids(ids, snapshot) >= 0
    is_new = np.array([text_of_id(one) not in known for one in ids], np.bool_)
    ids = ids[is_new | still]
    if not len(ids):
        return
    packs: set[PackId] = set()
    for entry, snapshot in _all_versions(session):
        physical = physical_of(ids, snapshot)
        if (physical >= 0).any():
            packs |= _packs_with(session.reader(snapshot), entry, physical[physical >= 0])
    Forgotten.begin(session.store, sorted(map(str, packs)), held_by(dataset, ids))


def _all_versions(session: Session) -> Iterator[tuple[Entry, Snapshot]]:
    """List the versions that can be read: those of branches, then those with a name."""
    yield from readable_versions(session)
    for named in {**versioning.tags(session), **versioning.views(session)}.values():
        found = versioning.resolved(session, named.version)
        entry = runtime.run(loaded(found.entry, session.packs))
        yield entry, Snapshot.of_entry(entry, session.packs, branch=found.branch)


def _matching(rows: RowSet, where: Any) -> npt.NDArray[np.int64]:
    """Return the physical rows that meet a condition."""
    selection = run_where(rows, where, {}).selection
    return selection.physical(selection.all_positions())


def _packs_with(reader: Reader, entry: Entry, physical: npt.NDArray[np.int64]) -> set[PackId]:
    """Return the packs that have chunks of physical rows, or an index of them."""
    snapshot = reader.snapshot
    found: set[PackId] = set()
    for name in snapshot.schema.names:
        found |= {key.pack for key in reader.locate(name, physical).chunks if not key.is_fill}

    async def of_indexes() -> set[PackId]:
        await runtime.to_loop()
        references = iter_references(entry, snapshot.packs)
        return {one.pack async for one in references if one.what.startswith(INDEXES)}

    return found | (runtime.run(of_indexes()) if snapshot.state.groups else set())


def _clean(session: Session, one: Forgotten) -> None:
    """Remove rows from every branch and name, and expire the versions that have them."""
    ids = np.concatenate([np.zeros(0, ROW_ID), *map(id_of_text, one.rows)])
    packs = {PackId.parse(pack) for pack in one.packs}
    clean = dict[str, int]()
    for branch in runtime.run(readable_branch_names(session.store)):
        there = versioning.at(session, branch)
        if (physical_of(ids, there.committed) >= 0).any():
            _clean_branch(there, ids, packs)
            clean[branch] = int(there.committed.version.rpartition("@")[2])
    deleted: list[str] = []
    for name, named in {**versioning.tags(session), **versioning.views(session)}.items():
        branch, _, number = named.version.rpartition("@")
        has_rows = (physical_of(ids, versioning.snapshot_at(session, named.version)) >= 0).any()
        if has_rows and int(number) < clean.get(branch, int(number) + 1):
            versioning.delete_tag(session, name)
            deleted.append(name)
    for branch, number in clean.items():
        runtime.run(expire_before(session.store, branch, number))
    one.put_cleaned(session.store, clean, deleted)


def _clean_branch(session: Session, ids: Ids, packs: set[PackId]) -> None:
    """Delete rows of a branch, and move all else out of their packs.

    Raises:
        ConflictError: Others changed the same chunks again and again.
    """
    for _ in range(RACES_MAX):
        rows = rows_of_ids(ids, session.committed)
        shown = rows[rows >= 0]
        if len(shown):
            staging.delete(session, everything(session).selection, shown)
            session.commit(CommitRequest(f"forget {plural(len(shown), 'row')}"))
        report = leave_packs(session, packs)
        rebuild_indexes(session)
        session.refresh()
        if not report.yielded and not (rows_of_ids(ids, session.committed) >= 0).any():
            return
    raise ConflictError(
        f"{session.branch!r} of {session.store.url!r} changed {RACES_MAX} times while rows were"
        " removed from it\ncall forget() again when there are fewer commits",
        branch=session.branch,
    )


def _finish(session: Session, pending: Iterable[Forgotten]) -> None:
    """Collect, and confirm that the packs are gone.

    Raises:
        InvalidStateError: They are not: the grace time has not passed, or something needs them.
    """
    store = session.store
    cleaned = [one for one in read_forgotten(store) if one.id in {own.id for own in pending}]
    if not cleaned:
        raise InvalidInputError(
            "forget(finish=True): nothing is left to be collected\nforget rows first:"
            " ds.forget(condition)"
        )
    collected = runtime.run(collect_garbage(store))
    paths = sorted({PackId.parse(pack).path for one in cleaned for pack in one.packs})
    heads = [partial(store.head, path) for path in paths]
    metas = runtime.run(runtime.gather_bounded(heads, limit=32))
    left = [path for path, meta in zip(paths, metas, strict=True) if meta is not None]
    if left:
        is_young = collected.young_packs > 0
        why = "the grace time has not passed" if is_young else "tiled samples, or others, need them"
        raise InvalidStateError(
            f"{len(left)} of {len(paths)} packs with values of the rows are still there: {why}"
            f"\n   {left[0]}" + ("\ncall ds.forget(finish=True) again later" if is_young else "")
        )
    for one in cleaned:
        one.put_report(store, one.report)


def _joined(parts: list[Forgotten]) -> ForgetReport:
    reports = [one.report for one in parts]
    if len(reports) == 1:
        return reports[0]
    if not reports:
        return ForgetReport()
    held = [one.held for one in reports]
    first, *_ = held
    runs = {
        name: tuple(sorted({step for one in held for step in one.runs.get(name, ())}))
        for name in dict.fromkeys(name for one in held for name in one.runs)
    }

    def all_of(name: str, of: Iterable[Any]) -> Any:
        return tuple(dict.fromkeys(value for one in of for value in getattr(one, name)))

    together = type(first)(
        all_of("row_ids", held),
        all_of("versions", held),
        all_of("tags", held),
        all_of("views", held),
        runs,
        {name: why for one in held for name, why in one.unknown.items()},
    )
    return ForgetReport(
        all_of("rows", reports),
        together,
        all_of("deleted", reports),
        all_of("packs", reports),
        all_of("bounds", reports),
        is_finished=all(one.is_finished for one in reports),
    )
