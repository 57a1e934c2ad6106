"""Merging a branch into the branch of a handle: the user's call and its report.

The three-way merge itself is in ``versions/merge/merge.py``. This module resolves the names of
branches and tensors, converts the results of a user's function to stored values, and builds the
``MergeReport``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.cells import Cells, DisputedRow, MergeConflict
from tensorlake.dataset.history.commit import Commit, schema_words
from tensorlake.dataset.history.versions import resolved
from tensorlake.errors import InvalidInputError, InvalidStateError, UncommittedChangesError, shown
from tensorlake.format import Changes
from tensorlake.indexes import PREFIX
from tensorlake.quantities import check_flags, plural
from tensorlake.storage import runtime
from tensorlake.versions import (
    MergedGroups,
    MergeOutcome,
    MergeRequest,
    Version,
    base_tagged,
    check_writable,
    describe_conflicts,
    merge_branch,
    version_at,
    version_of_base,
)

__all__ = [
    "Disputed",
    "DisputedRow",
    "MergeConflict",
    "MergeReport",
    "OnConflict",
    "list_disputed",
    "merge",
    "pull",
]


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
        conflicts: Changes of both branches, one line each, resolved or not; in a dry run also the
            check that rows of the result break.
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
    with _ready(session, on_conflict, f"merge({shown(name)})", dry_run=dry_run):
        found = resolved(session, name)
        theirs = runtime.run(version_at(session.store, found.branch, found.entry, session.packs))
        wanted = None if tensors is None else _ids(theirs, tensors)
        named = "" if tensors is None else f"{', '.join(tensors)} of "
        request = MergeRequest(_decision(Cells(session), on_conflict), wanted, rows)
        message = f"merge {named}{theirs.name}"
        return _merged(session, theirs, request, message=message, dry_run=dry_run)


def pull(
    session: Session,
    version: str | dt.datetime | None = None,
    *,
    on_conflict: OnConflict = "error",
    dry_run: bool = False,
) -> MergeReport:
    """Merge a version of the base of a fork into the handle's branch; see ``Dataset.pull``."""
    with _ready(session, on_conflict, "pull()", dry_run=dry_run):
        session.refresh()
        if not session.head.bases:
            raise InvalidInputError(
                f"{session.store.url!r} at {session.name!r} has no base, whose versions could be"
                " pulled\nmerge a branch: ds.merge(name); or copy rows: ds.extend(view)",
                version=session.name,
            )
        base = session.head.bases[0]
        theirs = runtime.run(version_of_base(session.packs, base, version))
        request = MergeRequest(_decision(Cells(session), on_conflict))
        return _merged(
            session,
            theirs,
            request,
            message=f"pull {theirs.name}",
            dry_run=dry_run,
            hold=partial(base_tagged, session.packs, theirs),
        )


@contextmanager
def _ready(
    session: Session, on_conflict: OnConflict, call: str, *, dry_run: bool
) -> Generator[None]:
    """Check the arguments of a merge, and hold a handle that has nothing staged."""
    check_flags(dry_run=dry_run)
    is_other = not isinstance(on_conflict, str) and not callable(on_conflict)
    if is_other or (not callable(on_conflict) and on_conflict not in ("error", "ours", "theirs")):
        raise InvalidInputError(
            f"{call.partition('(')[0]}(on_conflict={shown(on_conflict)}) is not a way to decide"
            " conflicts\nuse 'error', 'ours', 'theirs', or a function of a MergeConflict",
            actual=on_conflict,
        )
    with session.lock:
        if session.transaction is not None:
            raise UncommittedChangesError(
                f"{session.store.url!r} has staged changes, which {call} would not see\n"
                "commit or discard them first"
            )
        if dry_run and session.is_writable:  # a folder that may only be read will do
            session.check_present()
            check_writable(session.head, url=session.store.url)
        else:
            session.staging()  # raises if this handle cannot write, as for any change
        yield


def _decision(cells: Cells, on_conflict: OnConflict) -> Any:
    return cells.decider(on_conflict) if callable(on_conflict) else on_conflict


def _merged(
    session: Session,
    theirs: Version,
    request: MergeRequest,
    *,
    message: str,
    dry_run: bool,
    hold: Callable[[], AbstractContextManager[None]] | None = None,
) -> MergeReport:
    outcome = merge_branch(
        session.log,
        session.packs,
        theirs,
        request,
        Cells(session),
        head=session.head,
        message=message,
        dry_run=dry_run,
        hold=hold,
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
        schema=tuple(schema_words(plan.merged.changes, names)),
        indexes=() if outcome.groups is None else tuple(_index_lines(outcome.groups)),
        conflicts=(*describe_conflicts(plan), *filter(None, [outcome.broken])),
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
