"""Restore older content: a whole version (restore), or the changes of one commit (revert).

Restoring publishes immediately, because it references stored data. Reverting stages changes: it is
a merge of the version before the commit, with the commit as base, and the older values are stored
again, so that nothing staged depends on a version that may expire meanwhile.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.cells import Cells, with_codes
from tensorlake.dataset.history.commit import Commit
from tensorlake.dataset.history.versions import resolved
from tensorlake.dataset.write.rewrite import edits_for
from tensorlake.errors import (
    InvalidInputError,
    ReadOnlyError,
    UncommittedChangesError,
    UnsupportedFeatureError,
    shown,
)
from tensorlake.format import Schema, TensorSpec, rows_of
from tensorlake.storage import runtime
from tensorlake.types import ClassLabel, Column
from tensorlake.versions import (
    BranchLog,
    MergePlan,
    MergeRequest,
    Side,
    Transaction,
    Version,
    end_branch,
    merge_conflict_error,
    plan_merge,
    restore_version,
    rows_in,
    version_at,
)

__all__ = ["delete_branch", "restore", "revert"]

Int64Array = npt.NDArray[np.int64]

ROWS_AT_ONCE = 1 << 14
"""Rows restored together: memory stays bounded however many rows a commit deleted."""


def restore(session: Session, version: str | dt.datetime) -> Commit:
    """Publish a commit with the content of another version; the handle moves to it."""
    with session.lock:
        _refuse_staged(session, f"restore({shown(version)})")
        session.staging()  # raises if this handle cannot write, as for any change
        source = _version(session, version)
        published = restore_version(
            session.log,
            session.packs,
            source,
            head=session.head,
            message=f"restore {source.name}",
        )
        session.stand_on(published)
        return Commit.of_entry(published.entry, session.branch)


def delete_branch(session: Session, name: str) -> None:
    """End a branch."""
    session.check_present()
    if session.why_read_only is not None:
        raise ReadOnlyError(
            f"delete_branch({name!r}): this handle of {session.store.url!r} cannot write:"
            f" {session.why_read_only}\nopen it without read_only=True",
            version=session.name,
        )
    runtime.run(end_branch(session.store, name))


def revert(session: Session, version: str | dt.datetime) -> None:
    """Stage the inverse of one commit, row by row."""
    with session.lock:
        _refuse_staged(session, f"revert({shown(version)})")
        transaction = session.staging()
        commit = _version(session, version)
        before = _before(session, commit)
        ours = runtime.run(version_at(session.store, session.branch, session.head, session.packs))
        pages = session.packs.pages
        cells = Cells(session)
        base = Side(commit, pages)
        plan = plan_merge(
            [base],
            Side(ours, pages),
            Side(before, pages),
            MergeRequest(),
            cells=cells,
            was_reordered=lambda _base, _side: False,  # restored rows are last in any case
        )
        _refuse_types(plan)
        if plan.conflicts or plan.merged.clashes:
            raise merge_conflict_error(
                plan, session.log, "error", what=f"reverting {commit.name} on {ours.name}"
            )
        savepoint = transaction.savepoint()
        try:
            _Reverting(session, transaction, plan, cells).stage()
        except BaseException:
            transaction.roll_back(savepoint)
            raise


def _refuse_types(plan: MergePlan) -> None:
    changed = [change["name"] for change in plan.merged.changes if change["op"] == "type"]
    if changed:
        raise UnsupportedFeatureError(
            f"the type of {changed[0]!r} was changed, and values stored since may not fit the older"
            " one; such a commit cannot be reverted\nbring the whole version back:"
            " ds.restore(version)",
            tensor=changed[0],
        )


def _refuse_staged(session: Session, call: str) -> None:
    if session.transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes, which {call} would mix up\n"
            "commit or discard them first"
        )


def _version(session: Session, version: str | dt.datetime) -> Version:
    found = resolved(session, version)
    return runtime.run(version_at(session.store, found.branch, found.entry, session.packs))


def _before(session: Session, commit: Version) -> Version:
    """Return the version before a commit of its branch, with the class names that are kept."""
    log = BranchLog(session.store, commit.branch)
    number = next((p.seq for p in commit.entry.parents if p.branch == commit.branch), None)
    if number is None:
        raise InvalidInputError(
            f"{commit.name} is the first commit of its branch; there is nothing before it to go"
            " back to\nchoose a later commit, see ds.log()",
            version=commit.name,
        )
    entry = runtime.run(log.existing(number))
    before = runtime.run(version_at(session.store, commit.branch, entry, session.packs))
    schema = _with_later_names(before.state.schema, commit.state.schema)
    return replace(before, state=replace(before.state, schema=schema))


def _with_later_names(schema: Schema, later: Schema) -> Schema:
    """Keep class names that the commit added: rows may have them by now."""
    for spec in schema.tensors:
        after = later.by_id(spec.id)
        if after is None or not isinstance(spec.type, ClassLabel):
            continue
        if isinstance(after.type, ClassLabel) and len(after.type.names) > len(spec.type.names):
            names = (*spec.type.names, *after.type.names[len(spec.type.names) :])
            label = spec.type.with_names(names)
            schema = schema.replace(replace(spec, type=label, class_ids=after.class_ids))
    return schema


class _Reverting:
    """Stages a plan by storing the older values again."""

    def __init__(
        self, session: Session, transaction: Transaction, plan: MergePlan, cells: Cells
    ) -> None:
        self._session = session
        self._transaction = transaction
        self._plan = plan
        self._cells = cells
        self._before = plan.theirs.version

    def stage(self) -> None:
        """Stage everything: the schema, cells, deleted rows and restored rows."""
        plan, transaction = self._plan, self._transaction
        for change in plan.merged.changes:
            self._stage_schema(str(change["op"]), str(change["tensor"]))
        here, there = transaction.schema.constraints, plan.merged.schema.constraints
        for name in dict.fromkeys((*here, *there)):
            if here.get(name) != there.get(name):
                transaction.change_constraints(name, there.get(name))
        for tensor_id, tensor in plan.merged.tensors.items():
            changed = plan.updated.get(tensor_id)
            if tensor.source == "incoming":
                self._stage_cells(tensor_id, *plan.taken[tensor_id].rows()[1:])
            elif changed is not None and len(changed):
                cells = plan.taken[tensor_id]
                self._stage_cells(tensor_id, *cells.within_one(changed).rows()[1:])
        if len(plan.deleted):
            physical = rows_in(plan.deleted)
            described = plan.ours.version.state.rows
            rows = runtime.run(rows_of(described, physical, self._session.packs.pages))
            order = np.argsort(rows, kind="stable")
            transaction.delete(rows[order], physical[order])
        for start, stop in zip(*(column.tolist() for column in plan.added), strict=True):
            for first in range(start, stop, ROWS_AT_ONCE):
                self._stage_rows(np.arange(first, min(stop, first + ROWS_AT_ONCE)))

    def _stage_schema(self, what: str, tensor_id: str) -> None:
        transaction = self._transaction
        tensor = self._plan.merged.tensors.get(tensor_id)
        spec = transaction.schema.by_id(tensor_id)
        if what == "metadata" and (tensor is None or tensor.spec == spec):
            return  # of a check
        if tensor is None:
            assert spec is not None  # the plan drops it, so it exists
            transaction.drop_tensor(spec)
        elif what == "add":
            transaction.add_tensor(tensor.spec)
        else:
            transaction.change_spec(tensor.spec, what=what)

    def _stage_cells(self, tensor_id: str, physical: Int64Array, source: Int64Array) -> None:
        transaction = self._transaction
        spec = transaction.schema.by_id(tensor_id)
        assert spec is not None  # the plan's tensors are those of the schema staged before
        order = np.argsort(physical, kind="stable")
        for start in range(0, len(order), ROWS_AT_ONCE):
            some = order[start : start + ROWS_AT_ONCE]
            column = self._stored(spec, source[some])
            snapshot = self._session.snapshot()
            edits = edits_for(
                self._session.reader(snapshot),
                transaction,
                spec,
                physical=physical[some],
                column=column,
            )
            transaction.edit(spec, edits, physical[some])

    def _stage_rows(self, source: Int64Array) -> None:
        columns = {
            spec.id: self._stored(spec, source)
            if self._before.state.schema.by_id(spec.id) is not None
            else spec.type.fill_column(spec.fill, len(source))
            for spec in self._transaction.schema.tensors
        }
        self._transaction.append(columns, len(source))

    def _stored(self, spec: TensorSpec, rows: Int64Array) -> Column:
        """Return samples of the older version in the tensor's current encoding."""
        column = self._cells.read(self._before, spec.id, rows, decode=False)
        codes = self._plan.merged.tensors[spec.id].read_as.codes
        return spec.type.adapt(with_codes(column, codes))
