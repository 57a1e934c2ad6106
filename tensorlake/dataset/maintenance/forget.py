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
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import (
    id_of_text,
    ids_of,
    is_id_text,
    physical_of,
    rows_of_ids,
    text_of_id,
)
from tensorlake.dataset.core.rowset import RowSet, everything, rowset_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.maintenance.forgotten import (
    ForgetReport,
    Forgotten,
    joined_reports,
    read_forgotten,
)
from tensorlake.dataset.maintenance.forgotten_texts import Texts
from tensorlake.dataset.maintenance.indexes import rebuild_indexes
from tensorlake.dataset.maintenance.optimize import leave_packs
from tensorlake.dataset.maintenance.redacted import keep_redacted, names_of, redact_runs
from tensorlake.dataset.maintenance.trace import (
    held_by,
    readable_versions,
)
from tensorlake.dataset.query.run import run_where
from tensorlake.dataset.write import staging
from tensorlake.errors import (
    ConflictError,
    InvalidInputError,
    InvalidStateError,
    QueryError,
    ReadOnlyError,
    UncommittedChangesError,
    UnsupportedFeatureError,
    shown,
)
from tensorlake.format import INDEXES, ROW_ID, Entry, PackId
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
    if session.head.bases:
        raise UnsupportedFeatureError(
            f"forget() erases data of {session.store.url!r} alone, and this fork reads data of"
            f" {session.head.bases[0].url!r}\nforget the rows there; or copy the data into the fork"
            " first: ds.absorb()",
            feature="pack-bases",
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
    meant = set[str]() if where is None else _begin(dataset, session, where)
    pending = [one for one in read_forgotten(session.store) if not one.is_finished]
    begun = [one for one in pending if one.cleaned is None]
    for one in begun:
        _clean(session, one)
    session.refresh()
    if finish:
        _finish(session, pending)
    own = pending if finish else [one for one in begun if not meant.isdisjoint(one.rows)]
    names = {one.id for one in own or pending}
    report = joined_reports([one for one in read_forgotten(session.store) if one.id in names])
    return replace(report, is_new=bool(own))


def _begin(dataset: Any, session: Session, where: Any) -> set[str]:
    """Record the rows that are meant and are not recorded yet; take texts of them out of runs.

    Returns:
        The ids of all rows that are meant.
    """
    ids = _wanted(session, where)
    recorded = read_forgotten(session.store)
    known = {row for one in recorded for row in one.rows}
    begun = {row for one in recorded if one.cleaned is None for row in one.rows}  # to be continued
    still = np.zeros(len(ids), np.bool_)
    for _, snapshot in _all_versions(session):
        still |= rows_of_ids(ids, snapshot) >= 0
    texts_of = list(map(text_of_id, ids))
    is_new = np.array([one not in known for one in texts_of], np.bool_)
    is_begun = np.array([one in begun for one in texts_of], np.bool_)
    texts = Texts.of_condition(where)
    packs, bounded, branches = set[PackId](), set[str](), set[str]()
    new = ids[(is_new | still) & ~is_begun]
    for entry, snapshot in _all_versions(session):
        physical = physical_of(ids, snapshot)
        physical = physical[physical >= 0]
        if not len(physical):
            continue
        reader = session.reader(snapshot)
        texts.add_values(reader, snapshot.rows_of(physical))
        physical = physical_of(new, snapshot)
        found = _packs_with(reader, entry, physical[physical >= 0]) if len(new) else set[PackId]()
        if found:
            packs |= found
            branches.add(snapshot.version.rpartition("@")[0])
            bounded |= {spec.name for spec in snapshot.schema if not spec.type.personal}
    runs = texts.runs_with(session.store)
    if len(new):
        names = _names_with(session, new, packs)
        begun_now: dict[str, Any] = {
            "packs": sorted(map(str, packs)),
            "branches": sorted(branches),
            "bounded": sorted(bounded),
            "names": names,
            "renamed": names_of(session, names),
            "run_tags": redact_runs(session, dataset, new),
            "redacted": sorted(runs),
        }
        Forgotten.begin(session.store, held_by(dataset, new, with_ended=True), begun_now)
    texts.redact(session.store, runs)
    return set(texts_of)


def _wanted(session: Session, where: Any) -> Ids:
    """Return the ids of the rows that are meant: by a condition in any version, a view, or ids.

    Raises:
        QueryError: No version has what the condition names.
        InvalidInputError: The view is of another dataset, or an id is not one.
    """
    if hasattr(where, "__rowset__"):
        rows = rowset_of(where)
        if rows.url != session.store.url or not rows.has_rows:
            what = f"rows of {rows.url!r}" if rows.has_rows else "aggregates"
            raise InvalidInputError(
                f"forget() of {session.store.url!r} got {what}\ngive a view of its rows",
                argument="where",
            )
        selection = rows.selection
        return np.unique(ids_of(selection.snapshot, selection.physical(selection.all_positions())))
    if isinstance(where, str) and is_id_text(where):
        where = [where]
    if isinstance(where, list | tuple | np.ndarray):
        given: list[Any] = list(np.atleast_1d(where) if isinstance(where, np.ndarray) else where)
        texts = [one if isinstance(one, str) else shown(one) for one in given]
        if not texts:
            raise InvalidInputError("forget() got no row ids\ngive them as row_ids lists them")
        return np.unique(np.concatenate([np.zeros(0, ROW_ID), *map(id_of_text, texts)]))
    found: list[Ids] = []
    failed: list[QueryError] = []
    states: set[tuple[str, str, str]] = set()
    versions = [(session, session.committed)]
    versions += [(None, snapshot) for _, snapshot in _all_versions(session)]
    for own, snapshot in versions:
        key = str(snapshot.state.rows), str(snapshot.state.roots), str(snapshot.schema)
        if key in states:
            continue
        states.add(key)
        rows = everything(own or versioning.at(session, snapshot.version))
        try:
            found.append(ids_of(snapshot, _matching(rows, where)))
        except QueryError as error:  # this version lacks a tensor of the condition
            failed.append(error)
    if not found:
        raise failed[0]
    return np.unique(np.concatenate(found))


def _names_with(session: Session, ids: Ids, packs: set[PackId]) -> list[str]:
    """Return the tags and saved views of versions that have chunks of rows."""
    names: list[str] = []
    for name, named in {**versioning.tags(session), **versioning.views(session)}.items():
        found = versioning.resolved(session, named.version)
        entry = runtime.run(loaded(found.entry, session.packs))
        snapshot = Snapshot.of_entry(entry, session.packs, branch=found.branch)
        physical = physical_of(ids, snapshot)
        physical = physical[physical >= 0]
        if len(physical) and _packs_with(session.reader(snapshot), entry, physical) & packs:
            names.append(name)
    return names


def _all_versions(session: Session) -> Iterator[tuple[Entry, Snapshot]]:
    """List the versions that can be read: those of branches, then those with a name."""
    yield from readable_versions(session, with_ended=True)
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

    def without(there: Session) -> None:
        if not _is_clean(there, ids, packs):
            _clean_branch(there, ids, packs)

    left = keep_redacted(session, ids, one.id[:8], one.renamed, one.run_tags, without)
    clean = dict[str, int]()
    for branch in runtime.run(readable_branch_names(session.store)):
        there = versioning.at(session, branch)
        if not there.is_writable:  # it has ended, and with it all its versions
            if branch in one.branches:
                clean[branch] = there.head.seq + 1
            continue
        is_clean = _is_clean(there, ids, packs)
        if not is_clean:
            _clean_branch(there, ids, packs)
        if not is_clean or branch in {*one.branches, *left}:
            clean[branch] = int(there.committed.version.rpartition("@")[2])
    named = {**versioning.tags(session), **versioning.views(session)}
    deleted = [*one.names]
    for name, found in named.items():
        branch, _, number = found.version.rpartition("@")
        has_rows = (physical_of(ids, versioning.snapshot_at(session, found.version)) >= 0).any()
        is_since = has_rows and int(number) < clean.get(branch, 0)
        if name in one.names or is_since:
            versioning.delete_tag(session, name)
            deleted.append(name)
    for branch, number in clean.items():
        runtime.run(expire_before(session.store, branch, number))
    one.put_cleaned(session.store, clean, list(dict.fromkeys(deleted)))


def _is_clean(session: Session, ids: Ids, packs: set[PackId]) -> bool:
    """Whether a branch's newest version neither shows rows nor refers to their packs."""
    snapshot = session.committed
    if not (physical_of(ids, snapshot) >= 0).any():
        return True
    if (rows_of_ids(ids, snapshot) >= 0).any():
        return False
    entry = runtime.run(loaded(session.head, session.packs))

    async def refers() -> bool:
        await runtime.to_loop()
        return any([one.pack in packs async for one in iter_references(entry, session.packs)])

    return not runtime.run(refers())


def _clean_branch(session: Session, ids: Ids, packs: set[PackId]) -> None:
    """Delete rows of a branch, and move all else out of their packs.

    Raises:
        ConflictError: Others changed the same chunks again and again.
    """
    for _ in range(RACES_MAX):
        rows = rows_of_ids(ids, session.committed)
        present = rows[rows >= 0]
        if len(present):
            staging.delete(session, everything(session).selection, present)
            session.commit(CommitRequest(f"forget {plural(len(present), 'row')}"))
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
