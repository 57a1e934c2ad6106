"""Operations on versions: log, other handles, branches, tags, differences."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.diff import Difference, diff_snapshots
from tensorlake.dataset.history.log import Log, commits_to
from tensorlake.errors import (
    DamagedBranchWarning,
    DamagedTagWarning,
    InvalidInputError,
    ReadOnlyError,
    UncommittedChangesError,
    shown,
)
from tensorlake.format import Entry
from tensorlake.quantities import Duration, checked_integer, duration_of
from tensorlake.reading import Snapshot
from tensorlake.storage import runtime
from tensorlake.versions import (
    FoundNames,
    Resolved,
    SavedView,
    Tag,
    commit_under,
    create_branch,
    create_tag,
    loaded,
    readable_heads,
    readable_tags,
    readable_views,
    resolve,
)
from tensorlake.versions import delete_tag as delete_tag_object

__all__ = [
    "adopt",
    "at",
    "branch",
    "branches",
    "delete_tag",
    "diff",
    "log",
    "resolved",
    "snapshot_at",
    "tag",
    "tags",
    "views",
]

T = TypeVar("T")
SKEW = dt.timedelta(minutes=1)
"""Maximum difference between the clocks of users who name a version by its time."""


def log(session: Session, limit: int | None) -> Log:
    """Commits up to the handle's version, newest first, through the branch's parents."""
    if limit is not None:
        limit = checked_integer(limit, name="limit", advice="leave it out for all commits")
    pages = commits_to(session.store, session.branch, session.head, limit=limit)
    return Log(pages, limit)


def at(session: Session, version: str | dt.datetime) -> Session:
    """Open another version of the same dataset."""
    is_mirror = session.mirror_of is not None
    found = resolved(session, version, follows_hint=is_mirror)
    made = Session(
        session.store,
        replace(found, mirror_of=session.mirror_of),
        read_only=session.why_read_only is not None,
        options=session.options,
        chunks=session.chunks,
        links=session.packs.links,
    )
    adopt(made, session)
    return made


def adopt(session: Session, other: Session) -> None:
    """Let a session compute and check what another one does, by what its Dataset gave it."""
    session.functions, session.narrowed = other.functions, other.narrowed
    session.expressions, session.constraints = other.expressions, other.constraints
    session.misfits = other.misfits


def branch(session: Session, name: str, version: str | dt.datetime | None) -> Session:
    """Start a branch and open it."""
    session.check_present()
    _refuse_mirror(session, f"branch({shown(name)})")
    source = _cited(session, version)
    made = create_branch(
        session.store, name, source_branch=source[0], source=source[1], packs=session.packs
    )
    runtime.run(made)
    return at(session, name)


def branches(session: Session) -> list[str]:
    """Return the names of branches that have not ended; include damaged ones, with a warning."""
    found = runtime.run(readable_heads(session.store))
    for name, error in found.unreadable.items():
        warnings.warn(
            f"branch {name!r} of {session.store.url!r} cannot be read: {str(error).splitlines()[0]}"
            "\nthe others can; run tensorlake check for details",
            DamagedBranchWarning,
            stacklevel=3,
        )
    return found.branches


def tag(
    session: Session,
    name: str,
    version: str | dt.datetime | None,
    *,
    expires: dt.datetime | Duration | None = None,
) -> Tag:
    """Name a version."""
    session.check_present()
    version, expires = _version_and_expiry(version, expires)
    _refuse_mirror(session, f"tag({shown(name)})")
    if version is None and session.transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes, which tag {shown(name)} would not name\n"
            "commit or discard them first"
        )
    source_branch, source = _cited(session, version)
    until = None if expires is None else _expiry(name, expires)
    made = create_tag(session.store, name, source, source_branch, expires=until)
    return runtime.run(made)


def _expiry(name: str, expires: dt.datetime | Duration) -> dt.datetime:
    """Return the time at which a tag expires: as it was given, or a duration from now."""
    now = dt.datetime.now(dt.UTC)
    problem = "is neither an aware datetime nor a duration"
    if not isinstance(expires, dt.datetime):
        try:
            return now + duration_of(expires, what="expires")
        except (InvalidInputError, OverflowError) as error:
            raise _wrong_expiry(name, expires, problem) from error
    elif expires.tzinfo is not None:
        if expires > now:
            return expires
        problem = "is in the past"
    raise _wrong_expiry(name, expires, problem)


def _wrong_expiry(name: str, expires: object, problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"expires={shown(expires)} {problem}"
        "\nwrite expires='90d', or datetime.now(timezone.utc) + timedelta(days=90)",
        argument="expires",
        actual=expires,
        tag=name,
    )


def _version_and_expiry(
    version: str | dt.datetime | None, expires: dt.datetime | Duration | None
) -> tuple[str | dt.datetime | None, dt.datetime | Duration | None]:
    """Accept a second argument in the future as ``expires``, whose place it had in 0.1."""
    if (
        expires is not None
        or not isinstance(version, dt.datetime)
        or version.tzinfo is None
        or version - dt.datetime.now(dt.UTC) <= SKEW
    ):
        return version, expires
    warnings.warn(
        "tag(name, time) names the version of that time, and this time is in the future: it is"
        " taken as expires= for now\nwrite ds.tag(name, expires=time)",
        DeprecationWarning,
        stacklevel=4,
    )
    return None, version


def tags(session: Session) -> Mapping[str, Tag]:
    """Return the tags by name; leave out damaged ones, with a warning."""
    return _with_warnings(session, runtime.run(readable_tags(session.store)))


def views(session: Session) -> Mapping[str, SavedView]:
    """Return the saved views by name; leave out damaged ones, with a warning."""
    return _with_warnings(session, runtime.run(readable_views(session.store)))


def _with_warnings(session: Session, names: FoundNames[T]) -> dict[str, T]:
    """Warn of unreadable tags and saved views; return the others."""
    for name, error in names.unreadable.items():
        warnings.warn(
            f"the tag or saved view {name!r} of {session.store.url!r} cannot be read:"
            f" {str(error).splitlines()[0]}\nthe others can; run tensorlake check for details",
            DamagedTagWarning,
            stacklevel=4,
        )
    return names.found


def delete_tag(session: Session, name: str) -> None:
    """Delete a tag."""
    session.check_present()
    _refuse_mirror(session, f"delete_tag({shown(name)})")
    runtime.run(delete_tag_object(session.store, name))


def _refuse_mirror(session: Session, call: str) -> None:
    """Refuse to change names in a mirror, which has those of its source.

    Raises:
        ReadOnlyError: It is a mirror.
    """
    if session.mirror_of is not None:
        raise ReadOnlyError(
            f"{call}: {session.store.url!r} mirrors {session.mirror_of!r}, and only tl.copy writes"
            " to it\ndo it there and bring the mirror up to date, or copy it without mirror=True",
            dataset=session.store.url,
            mirror_of=session.mirror_of,
        )


def _cited(session: Session, version: str | dt.datetime | None) -> tuple[str, Entry]:
    if version is None:
        under = runtime.run(commit_under(session.store, session.branch, session.head))
        return session.branch, under
    found = resolved(session, version)
    under = runtime.run(commit_under(session.store, found.branch, found.entry))
    return found.branch, under


def resolved(
    session: Session, version: str | dt.datetime, *, follows_hint: bool = False
) -> Resolved:
    """Find a version of the handle's dataset; a time is one of its branch.

    Raises:
        DatasetNotFoundError: The dataset was deleted, and perhaps created again, since.
    """
    session.confirm()
    found = resolve(session.store, version, branch=session.branch, follows_hint=follows_hint)
    return runtime.run(found)


def diff(session: Session, a: str | dt.datetime | None, b: str | dt.datetime | None) -> Difference:
    """Compare two versions, or staged changes with their base."""
    if a is None and b is not None:
        raise InvalidInputError(f"diff(None, {shown(b)}): give the older version first")
    if a is None:
        return diff_snapshots(
            session, session.committed, session.snapshot(), after_name="staged changes"
        )
    before = snapshot_at(session, a)
    after = session.snapshot() if b is None else snapshot_at(session, b)
    return diff_snapshots(session, before, after)


def snapshot_at(session: Session, version: str | dt.datetime) -> Snapshot:
    """Read another version with the handle's own readers."""
    cited_branch, entry = _cited(session, version)
    entry = runtime.run(loaded(entry, session.packs))
    return Snapshot.of_entry(entry, session.packs, branch=cited_branch)
