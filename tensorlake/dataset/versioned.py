"""The versions of a dataset, as its handle shows them: log, other handles, branches, tags, diff.

A handle never jumps: what opens another version gives a new handle.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Self

from tensorlake.dataset import versioning
from tensorlake.dataset.commit_log import Log
from tensorlake.dataset.history import Diff
from tensorlake.dataset.session import Session
from tensorlake.errors import UncommittedChangesError
from tensorlake.versions import Tag

__all__ = ["Versioned"]


class Versioned:
    """What a ``Dataset`` says and does about versions."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def log(self, limit: int | None = None) -> Log:
        """Commits up to this version, newest first, read as far as they are looked at."""
        return versioning.log(self.session, limit)

    def at(self, version: str | dt.datetime) -> Self:
        """Open another version as a new handle: a branch is writable, a commit or tag is not."""
        return type(self)(versioning.at(self.session, version))

    def branch(self, name: str, at: str | dt.datetime | None = None) -> Self:
        """Start a branch at a version (default: this one) and open it as a new handle.

        Raises:
            InvalidInputError: The name was used before.
        """
        if self.session.transaction is not None and at is None:
            raise UncommittedChangesError(
                f"{self.session.store.url!r} has staged changes, which would not be on the new"
                " branch\n"
                "commit or discard them first, or name a version: ds.branch(name, at=…)"
            )
        return type(self)(versioning.branch(self.session, name, at))

    @property
    def branches(self) -> list[str]:
        """Names of the branches."""
        return versioning.branches(self.session)

    def tag(
        self,
        name: str,
        expires: dt.datetime | None = None,
        *,
        at: str | dt.datetime | None = None,
    ) -> Tag:
        """Name a version.

        Args:
            name: The tag; it does not move, and its name is never used twice.
            expires: From when on a collection may give it up, an aware time; None: never.
            at: The version; None is this handle's.

        Raises:
            InvalidInputError: The name is taken by another version.
        """
        return versioning.tag(self.session, name, at, expires=expires)

    @property
    def tags(self) -> Mapping[str, Tag]:
        """The tags, by name."""
        return versioning.tags(self.session)

    def delete_tag(self, name: str) -> None:
        """Give up a tag; its name stays used."""
        versioning.delete_tag(self.session, name)

    def diff(self, a: str | None = None, b: str | None = None) -> Diff:
        """Compare versions by row identity.

        Without arguments what is staged; with one, from that version to this handle's; with two,
        from the first to the second.
        """
        return versioning.diff(self.session, a, b)
