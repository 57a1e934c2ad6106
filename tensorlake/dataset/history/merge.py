"""Merging a branch into the branch of a handle: the user's call and its report.

The three-way merge itself is in ``versions/merge/merge.py``. This module resolves the names of
branches and tensors, converts the results of a user's function to stored values, and builds the
``MergeReport``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.cells import samples_differ
from tensorlake.dataset.core.item_counts import check_rows
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.commit import SCHEMA_WORDS, Commit
from tensorlake.dataset.history.versions import resolved
from tensorlake.errors import InvalidInputError, InvalidStateError, UncommittedChangesError, shown
from tensorlake.format import Changes, ChunkKind, Schema, TensorSpec, row_ids, rows_of, txid_of
from tensorlake.indexes import PREFIX
from tensorlake.quantities import check_flags, plural
from tensorlake.reading import Reader, Snapshot
from tensorlake.storage import runtime
from tensorlake.types import Column, RaggedColumn, UniformColumn, in_same_terms
from tensorlake.versions import (
    DisputedCells,
    DisputedRows,
    MergedGroups,
    MergeOutcome,
    MergeRequest,
    Ranges,
    State,
    Version,
    describe_conflicts,
    merge_branch,
    version_at,
)

__all__ = [
    "Cells",
    "Disputed",
    "DisputedRow",
    "MergeConflict",
    "MergeReport",
    "OnConflict",
    "list_disputed",
    "merge",
    "with_codes",
]

BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]

COMPARED_NBYTES = 16 << 20
"""Bytes of samples of one shape that are read together from each side."""

COMPARED_CELLS = 4096
"""Number of other samples, whose size is not known in advance."""


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """One cell that both branches changed to different values, passed to a function that decides.

    Attributes:
        tensor: Name of the tensor.
        row: The row's number in the version merged into.
        row_id: Its identity, ``<txid>:<offset>``.
        has_base: Whether the row and tensor existed where the branches diverged.
        base: The value there; None if there was none.
        ours: The value on the branch merged into.
        theirs: The value on the branch merged.
    """

    tensor: str
    row: int
    row_id: str
    has_base: bool
    base: Any
    ours: Any
    theirs: Any


@dataclass(frozen=True, slots=True)
class DisputedRow:
    """A row that one branch deleted and the other changed.

    Attributes:
        row_id: Its identity, ``<txid>:<offset>``.
        deleted_by: The side that deleted it.
        version: The version that still has it.
        row: Its number there.
        tensors: The tensors that were changed.
    """

    row_id: str
    deleted_by: Literal["ours", "theirs"]
    version: str
    row: int
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disputed:
    """The decisions that a merge requires: cells that both changed, rows that one deleted."""

    cells: list[MergeConflict]
    rows: list[DisputedRow]


OnConflict = Literal["error", "ours", "theirs"] | Callable[[MergeConflict], Any]
"""The way to resolve conflicts between changes of both branches."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """The result of a merge, or of its dry run; prints like ``git merge --stat``.

    Attributes:
        ours: The version merged into.
        theirs: The version merged.
        bases: The versions where they diverged; several after merges in both directions.
        how: "merge", "fast-forward" (ours had nothing new) or "nothing" (ours contained theirs).
        added: Rows added by theirs.
        removed: Rows that theirs had deleted.
        updated: Rows of ours with new values, by tensor.
        schema: Changes of the schema, one line each.
        indexes: Indexes made or updated on theirs, one line each: taken, or left out for ours.
        conflicts: Changes of both branches, one line each, resolved or not.
        is_refused: Whether one of them is not resolved; the merge itself then raises.
        published: The commit made; None in a dry run, the head if there was nothing to do.
    """

    ours: str
    theirs: str
    bases: tuple[str, ...]
    how: Literal["nothing", "fast-forward", "merge"]
    added: int = 0
    removed: int = 0
    updated: Mapping[str, int] = field(default_factory=dict[str, int])
    schema: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    is_refused: bool = False
    published: Commit | None = None

    @property
    def commit(self) -> Commit:
        """The commit of the merge.

        Raises:
            InvalidStateError: It was a dry run.
        """
        if self.published is None:
            raise InvalidStateError(
                f"merging {self.theirs} into {self.ours} was a dry run, so there is no commit\n"
                "merge without dry_run=True"
            )
        return self.published

    @property
    def version(self) -> str:
        """The commit's version: ``main@12``."""
        return self.commit.version

    @property
    def digest(self) -> str:
        """The digest of the commit's log entry."""
        return self.commit.digest

    @property
    def message(self) -> str:
        """The commit's message."""
        return self.commit.message

    @property
    def author(self) -> str:
        """Author of the commit."""
        return self.commit.author

    @property
    def time(self) -> dt.datetime:
        """When it was committed."""
        return self.commit.time

    @property
    def parents(self) -> tuple[str, ...]:
        """The versions it is based on: ours, then theirs."""
        return self.commit.parents

    @property
    def changes(self) -> Changes:
        """Its changes to our branch, as recorded."""
        return self.commit.changes

    def __repr__(self) -> str:
        if self.how == "nothing":
            return f"{self.ours} has {self.theirs} already; nothing to merge"
        would = "would conflict" if self.is_refused else "would be published"
        done = would if self.published is None else self.published.version
        lines = [f"{self.ours} + {self.theirs} → {done}   ({self._manner()})"]
        lines += [f" {line}" for line in self.schema]
        if self.added:
            lines.append(f" {plural(self.added, 'row')} added")
        if self.removed:
            lines.append(f" {plural(self.removed, 'row')} removed")
        width = max(map(len, self.updated), default=0)
        lines += [
            f" {name:<{width}}  {plural(count, 'row')} updated"
            for name, count in self.updated.items()
        ]
        lines += [f" {line}" for line in self.indexes]
        lines += [f" conflict: {line}" for line in self.conflicts]
        return "\n".join(lines)

    def _manner(self) -> str:
        if self.how == "fast-forward":
            return f"fast-forward: {self.ours} had nothing new"
        return f"from {', '.join(self.bases)}"


def merge(
    session: Session,
    name: str | dt.datetime,
    *,
    on_conflict: OnConflict = "error",
    tensors: Sequence[str] | None = None,
    dry_run: bool = False,
    rows: Mapping[str, Literal["ours", "theirs"]] | None = None,
) -> MergeReport:
    """Merge a branch, or any version, into the handle's branch; the handle moves to the result.

    ``rows`` has, by row id, the side that decides a row that one deleted and the other changed.
    """
    check_flags(dry_run=dry_run)
    is_other = not isinstance(on_conflict, str) and not callable(on_conflict)
    if is_other or (not callable(on_conflict) and on_conflict not in ("error", "ours", "theirs")):
        raise InvalidInputError(
            f"merge(on_conflict={shown(on_conflict)}) is not a way to decide conflicts\n"
            "use 'error', 'ours', 'theirs', or a function of a MergeConflict",
            actual=on_conflict,
        )
    with session.lock:
        if session.transaction is not None:
            raise UncommittedChangesError(
                f"{session.store.url!r} has staged changes, which merge({name!r}) would not see\n"
                "commit or discard them first"
            )
        session.staging()  # raises if this handle cannot write, as for any change
        found = resolved(session, name)
        theirs = runtime.run(version_at(session.store, found.branch, found.entry, session.packs))
        cells = Cells(session)
        wanted = None if tensors is None else _ids(theirs, tensors)
        decide = cells.decider(on_conflict) if callable(on_conflict) else on_conflict
        named = "" if tensors is None else f"{', '.join(tensors)} of "
        outcome = merge_branch(
            session.log,
            session.packs,
            theirs,
            MergeRequest(decide, wanted, rows),
            cells,
            head=session.head,
            message=f"merge {named}{theirs.name}",
            dry_run=dry_run,
        )
        if outcome.published is not None:
            session.stand_on(outcome.published)
        elif not dry_run:
            session.refresh()
        return _report(session, outcome)


def list_disputed(session: Session, name: str, *, most: int) -> Disputed:
    """Read what a merge would have to decide, up to `most` of each; nothing is published.

    Cells of tensors that are ``per`` one another are listed together: where one is disputed, so
    are all that differ. Cells of media are left out: they are large, and a person decides them by
    looking at both.
    """
    found: list[MergeConflict] = []
    cells = Cells(session)

    def note(conflict: MergeConflict) -> Any:
        found.append(conflict)
        return conflict.ours

    decide = cells.decider(note)
    with session.lock:
        named = resolved(session, name)
        theirs = runtime.run(version_at(session.store, named.branch, named.entry, session.packs))
        outcome = merge_branch(
            session.log,
            session.packs,
            theirs,
            MergeRequest(decide, rows={}),
            cells,
            head=session.head,
            message="",
            dry_run=True,
        )
        plan = outcome.plan
        for disputed in () if plan is None else plan.disputed:
            if len(found) < most and not disputed.tensor.spec.type.is_media:
                decide(disputed.first(most - len(found)))
        rows = [row for some in (plan.disputed_rows if plan else ()) for row in cells.rows(some)]
    return Disputed(found, rows[:most])


def _ids(theirs: Version, names: Sequence[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise InvalidInputError(
            f"merge(tensors={shown(names)}) is a str; give a list: tensors=[{shown(names)}]",
            actual=names,
        )
    return frozenset(theirs.state.schema[name].id for name in names)


def _report(session: Session, outcome: MergeOutcome) -> MergeReport:
    entry = None if outcome.published is None else outcome.published.entry
    if outcome.how == "nothing":
        entry = outcome.ours.entry
    plan = outcome.plan
    report = MergeReport(
        ours=outcome.ours.name,
        theirs=outcome.theirs.name,
        bases=tuple(base.name for base in outcome.bases),
        how=outcome.how,
        published=None if entry is None else Commit.of_entry(entry, session.branch),
    )
    if plan is None:
        return report
    names = {id_: tensor.spec.name for id_, tensor in plan.merged.tensors.items()}
    counts = {
        names[id_]: int((rows[:, 1] - rows[:, 0]).sum()) for id_, rows in plan.updated.items()
    }
    return replace(
        report,
        added=plan.added_rows,
        removed=int((plan.deleted[:, 1] - plan.deleted[:, 0]).sum()),
        updated={name: count for name, count in counts.items() if count},
        schema=tuple(
            SCHEMA_WORDS[change["op"]].format(change["name"]) for change in plan.merged.changes
        ),
        indexes=() if outcome.groups is None else tuple(_index_lines(outcome.groups)),
        conflicts=tuple(describe_conflicts(plan)),
        is_refused=outcome.is_refused,
    )


def _index_lines(groups: MergedGroups) -> Iterator[str]:
    for names, what in (
        (groups.taken, "taken; optimize() indexes the other rows"),
        (groups.left, "left out: ours changed or dropped one of that name"),
    ):
        for name in names:
            if name.startswith(PREFIX):
                yield f"index {name.removeprefix(PREFIX)!r} of theirs {what}"


class Cells:
    """Reads and compares cells of versions for a merge (the ``CellReader`` of ``versions``)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._readers: dict[str, Reader] = {}

    def differs(
        self,
        tensor_id: str,
        one: tuple[Version, Int64Array],
        other: tuple[Version, Int64Array],
        *,
        codes: tuple[Sequence[int] | None, Sequence[int] | None],
    ) -> BoolArray:
        """Return for pairs of physical rows whether their stored values differ."""
        count, step = len(one[1]), _cells_at_once(self._spec(one[0], tensor_id))
        found = np.zeros(count, dtype=np.bool_)
        for start in range(0, count, step):
            part = slice(start, min(count, start + step))
            left, right = (
                with_codes(self.read(version, tensor_id, rows[part], decode=False), table)
                for (version, rows), table in zip((one, other), codes, strict=True)
            )
            declared = self._spec(one[0], tensor_id).type
            same = in_same_terms(left, declared, right, declared)
            found[part] = samples_differ(*same)
        return found

    def read(
        self, version: Version, tensor_id: str, rows: Int64Array, *, decode: bool = True
    ) -> Column:
        """Read samples of physical rows."""
        name = self._spec(version, tensor_id).name
        return self._reader(version).read(name, rows, decode=decode)

    def verify(
        self,
        state: State,
        changed: Mapping[str, Int64Array],
        touched: Mapping[str, Ranges],
        before: Schema,
    ) -> None:
        """Refuse a row that breaks a constraint, or has labels of one version, boxes of another."""
        snapshot = Snapshot(state, self._session.packs, version="the merge", digest="")
        if state.schema.constraints:
            self._session.constraints(self._session, snapshot, touched, before)
        if not changed:
            return
        check_rows(
            self._session.reader(snapshot),
            changed,
            call="merge()",
            advice="the branches gave {name!r} and {items!r} of it: assign them alike on one of"
            " the branches, and merge again; nothing was published",
        )

    def decider(
        self, function: Callable[[MergeConflict], Any]
    ) -> Callable[[DisputedCells], Column]:
        """Convert a function of one cell to one that returns the stored values of many."""

        def decide(disputed: DisputedCells) -> Column:
            spec = disputed.tensor.spec
            sides = (disputed.base, disputed.ours, disputed.theirs)
            values = [self._values(side, spec.id, len(disputed.ours[1])) for side in sides]
            version, physical = disputed.ours
            pages = self._session.packs.pages
            ids = runtime.run(row_ids(version.state.row_ids, physical, pages))
            rows = runtime.run(rows_of(version.state.rows, physical, pages))
            answers = [
                function(
                    MergeConflict(
                        tensor=spec.name,
                        row=int(row),
                        row_id=f"{txid_of(row_id)}:{int(row_id['offset'])}",
                        has_base=disputed.base is not None,
                        base=base,
                        ours=ours,
                        theirs=theirs,
                    )
                )
                for row, row_id, base, ours, theirs in zip(rows, ids, *values, strict=True)
            ]
            return spec.type.convert(answers, tensor=spec.name, call="merge(on_conflict=)")

        return decide

    def rows(self, disputed: DisputedRows) -> Iterator[DisputedRow]:
        """Name rows that one side deleted, in the version that still has them."""
        version, physical = disputed.shown
        numbers = runtime.run(rows_of(version.state.rows, physical, self._session.packs.pages))
        for row_id, row, tensors in zip(disputed.ids, numbers, disputed.tensors, strict=True):
            yield DisputedRow(row_id, disputed.deleted_by, version.name, int(row), tensors)

    def _values(
        self, side: tuple[Version, Int64Array] | None, tensor_id: str, count: int
    ) -> list[Any]:
        if side is None or side[0].state.schema.by_id(tensor_id) is None:
            return [None] * count
        version, rows = side
        column = self.read(version, tensor_id, rows)
        declared = self._spec(version, tensor_id).type
        return [declared.present_one(column, at) for at in range(count)]

    def _reader(self, version: Version) -> Reader:
        found = self._readers.get(version.name)
        if found is None:
            snapshot = Snapshot(
                version.state,
                self._session.packs,
                version=version.name,
                digest=version.entry.digest,
            )
            found = self._readers[version.name] = self._session.reader(snapshot)
        return found

    def _spec(self, version: Version, tensor_id: str) -> TensorSpec:
        spec = version.state.schema.by_id(tensor_id)
        assert spec is not None  # only tensors that both sides have are compared
        return spec


def _cells_at_once(spec: TensorSpec) -> int:
    if spec.layout.kind is not ChunkKind.UNIFORM:
        return COMPARED_CELLS
    return max(1, COMPARED_NBYTES // max(1, spec.layout.row_nbytes))


def with_codes(column: Column, codes: Sequence[int] | None) -> Column:
    """Convert a column of class codes to those of the merge's result."""
    if codes is None or not isinstance(column, UniformColumn | RaggedColumn):
        return column
    return replace(column, values=np.asarray(codes, dtype=column.values.dtype)[column.values])
