"""Versions as a user handles them: log, other handles, branches, tags, differences."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import partial

from tensorlake.dataset.difference import diff_snapshots
from tensorlake.dataset.history import Commit, Diff, Log
from tensorlake.dataset.session import Session
from tensorlake.errors import InvalidInputError, UncommittedChangesError
from tensorlake.format import Entry
from tensorlake.reading import Snapshot
from tensorlake.storage import runtime
from tensorlake.versions import (
    BranchLog,
    Tag,
    commit_under,
    create_branch,
    create_tag,
    list_branches,
    list_tags,
    loaded,
    resolve,
)
from tensorlake.versions import delete_tag as delete_tag_object

__all__ = ["at", "branch", "branches", "delete_tag", "diff", "log", "tag", "tags"]

READ_AT_ONCE = 32
"""Log entries read together: a page of ``log`` costs one round trip."""


def log(session: Session, limit: int | None) -> Log:
    """Commits up to the handle's version, newest first, through the branch's parents."""
    return runtime.run(_log(session, limit))


async def _log(session: Session, limit: int | None) -> Log:
    commits = Log()
    branch_name: str | None = session.branch
    entry: Entry | None = session.head
    while branch_name is not None and entry is not None:
        branch_log, upper = BranchLog(session.store, branch_name), entry
        oldest = upper
        for stop in range(upper.seq + 1, 0, -READ_AT_ONCE):
            numbers = range(stop - 1, max(stop - 1 - READ_AT_ONCE, -1), -1)
            factories = [partial(branch_log.existing, n) for n in numbers if n != upper.seq]
            read = await runtime.gather_bounded(factories, limit=READ_AT_ONCE)
            for one in [upper, *read] if upper.seq in numbers else read:
                oldest = one if one.kind == "commit" else oldest
                if one.kind == "commit":
                    commits.append(Commit.of_entry(one, branch_name))
                if limit is not None and len(commits) >= limit:
                    return commits
        source = next((p for p in oldest.parents if p.branch != branch_name), None)
        branch_name = None if source is None else source.branch
        if source is not None:
            entry = await BranchLog(session.store, source.branch).existing(source.seq)
    return commits


def at(session: Session, version: str | dt.datetime) -> Session:
    """Open another version of the same dataset."""
    resolved = runtime.run(resolve(session.store, version))
    return Session(
        session.store,
        resolved,
        read_only=session.why_read_only is not None,
        options=session.options,
        chunks=session.chunks,
    )


def branch(session: Session, name: str, version: str | dt.datetime | None) -> Session:
    """Start a branch and open it."""
    source = _cited(session, version)
    made = create_branch(
        session.store, name, source_branch=source[0], source=source[1], packs=session.packs
    )
    runtime.run(made)
    return at(session, name)


def branches(session: Session) -> list[str]:
    """Names of the branches, ended ones left out."""
    return runtime.run(list_branches(session.store))


def tag(
    session: Session,
    name: str,
    version: str | dt.datetime | None,
    *,
    expires: dt.datetime | None = None,
) -> Tag:
    """Name a version."""
    if version is None and session.transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes, which tag {name!r} would not name\n"
            "commit or discard them first"
        )
    source_branch, source = _cited(session, version)
    if expires is not None and expires.tzinfo is None:
        message = f"expires={expires.isoformat()!r} has no time zone; give an aware datetime"
        raise InvalidInputError(message, tag=name)
    made = create_tag(session.store, name, source, source_branch, expires=expires)
    return runtime.run(made)


def tags(session: Session) -> Mapping[str, Tag]:
    """The tags, by name."""
    return runtime.run(list_tags(session.store))


def delete_tag(session: Session, name: str) -> None:
    """Give up a tag."""
    runtime.run(delete_tag_object(session.store, name))


def _cited(session: Session, version: str | dt.datetime | None) -> tuple[str, Entry]:
    if version is None:
        under = runtime.run(commit_under(session.store, session.branch, session.head))
        return session.branch, under
    resolved = runtime.run(resolve(session.store, version))
    under = runtime.run(commit_under(session.store, resolved.branch, resolved.entry))
    return resolved.branch, under


def diff(session: Session, a: str | None, b: str | None) -> Diff:
    """Compare two versions, or what is staged with its base."""
    if a is None and b is not None:
        raise InvalidInputError(f"diff(None, {b!r}): give the older version first")
    if a is None:
        return diff_snapshots(
            session, session.committed, session.snapshot(), after_name="staged changes"
        )
    before = _snapshot(session, a)
    after = session.snapshot() if b is None else _snapshot(session, b)
    return diff_snapshots(session, before, after)


def _snapshot(session: Session, version: str) -> Snapshot:
    cited_branch, entry = _cited(session, version)
    entry = runtime.run(loaded(entry, session.packs))
    return Snapshot.of_entry(entry, session.packs, branch=cited_branch)
