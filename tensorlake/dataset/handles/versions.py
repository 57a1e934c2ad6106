"""Versions of a dataset: log, other handles, branches, tags, diff.

A handle never jumps: what opens another version gives a new handle.
"""

from __future__ import annotations

import datetime as dt
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from tensorlake.dataset.core.rowset import HasDatasets, HasSession
from tensorlake.dataset.history import follow as following
from tensorlake.dataset.history import merge as merging
from tensorlake.dataset.history import restore as restoring
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.history.commit import Commit
from tensorlake.dataset.history.log import Log, commit_graph
from tensorlake.dataset.history.merge import MergeReport, OnConflict
from tensorlake.errors import UncommittedChangesError
from tensorlake.quantities import Duration, checked_integer
from tensorlake.versions import Tag

__all__ = [
    "at",
    "branch",
    "delete_branch",
    "delete_tag",
    "follow",
    "graph",
    "log",
    "merge",
    "pull",
    "restore",
    "revert",
    "tag",
]


Dataset = TypeVar("Dataset")  # the class that has these methods, and stands above them


def at(self: HasDatasets[Dataset], version: str | dt.datetime) -> Dataset:
    """Open another version as a new handle: a branch is writable, a commit or tag is not.

    A time is looked for among the commits of this handle's branch.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-at", {"x": "int64"})
        >>> ds.append({"x": 1})
        >>> first = ds.commit("one row")
        >>> ds.at("main@0").count(), ds.at(first.time).count()
        (0, 1)
    """
    return self.__dataset__(versioning.at(self.__session__, version))


def branch(self: HasDatasets[Dataset], name: str, at: str | dt.datetime | None = None) -> Dataset:
    """Start a branch at a version (default: this one) and open it as a new handle.

    Raises:
        InvalidInputError: The name was used before.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-branch", {"x": "int64"})
        >>> fix = ds.branch("fix")
        >>> fix.append({"x": 1})
        >>> fix.commit("one row").version
        'fix@2'
        >>> len(ds), len(fix)
        (0, 1)
    """
    if self.__session__.transaction is not None and at is None:
        raise UncommittedChangesError(
            f"{self.__session__.store.url!r} has staged changes, which would not be on the new"
            " branch\n"
            "commit or discard them first, or name a version: ds.branch(name, at=…)"
        )
    return self.__dataset__(versioning.branch(self.__session__, name, at))


def log(self: HasSession, limit: int | None = None) -> Log:
    """Commits up to this version, newest first, read lazily.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-log-of", {"x": "int64"})
        >>> ds.append({"x": 1})
        >>> _ = ds.commit("one row")
        >>> [commit.message for commit in ds.log()]
        ['one row', 'create']
    """
    return versioning.log(self.__session__, limit)


def graph(self: HasSession, limit: int | None = None) -> Iterator[Commit]:
    """Commits that led to this version, newest first, including merged branches.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-graph", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> [commit.version for commit in ds.graph()]
        ['main@1', 'main@0']
    """
    if limit is not None:
        limit = checked_integer(limit, name="limit", most=sys.maxsize)
    commits = commit_graph(self.__session__.store, self.__session__.branch, self.__session__.head)
    return islice(commits, limit)


def follow(  # noqa: D417 - a method: self
    self: HasSession,
    *,
    poll: Duration = 1.0,
    timeout: Duration | None = None,
    poll_s: Duration | None = None,
    timeout_s: Duration | None = None,
) -> Iterator[Commit]:
    """Iterate over new commits of the branch as they are published.

    The handle stays where it is: ``ds.refresh()`` or ``ds.at(commit.version)`` moves on.

    Args:
        poll: How often to look, in seconds or as "5s" or a timedelta; each look is one small
            request.
        timeout: Stop when no commit was published for this duration; 0 yields existing ones, None
            never stops but at the branch's end.
        poll_s: Deprecated: ``poll``.
        timeout_s: Deprecated: ``timeout``.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-follow", {"x": "int64"})
        >>> writer = tl.open("memory://doc-follow")
        >>> writer.append({"x": 1})
        >>> writer.commit("one").version
        'main@1'
        >>> [commit.message for commit in ds.follow(timeout=0)]
        ['one']
    """
    for old, value in (("poll_s", poll_s), ("timeout_s", timeout_s)):
        if value is not None:
            message = f"follow({old}=) is deprecated\nwrite {old.removesuffix('_s')}="
            warnings.warn(message, DeprecationWarning, stacklevel=2)
    return following.follow(
        self.__session__,
        poll=poll if poll_s is None else poll_s,
        timeout=timeout if timeout_s is None else timeout_s,
    )


def tag(  # noqa: D417 - a method: self
    self: HasSession,
    name: str,
    at: str | dt.datetime | None = None,
    *,
    expires: dt.datetime | Duration | None = None,
) -> Tag:
    """Name a version.

    Args:
        name: The tag; it does not move, and its name is never used twice.
        at: The version: a commit, branch, tag or aware datetime. None: this handle's.
        expires: When garbage collection may remove the tag: an aware datetime, or a duration from
            now, such as "90d"; None: never.

    Raises:
        InvalidInputError: The name is taken by another version.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-tag", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> _ = ds.tag("v1")
        >>> tl.open("memory://doc-tag", "v1").count()
        3
    """
    return versioning.tag(self.__session__, name, at, expires=expires)


def delete_tag(self: HasSession, name: str) -> None:
    """Delete a tag, or a saved view; its name stays reserved.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-delete-tag", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> _ = ds.tag("v1")
        >>> ds.delete_tag("v1")
        >>> list(ds.tags)
        []
    """
    versioning.delete_tag(self.__session__, name)


def merge(  # noqa: D417 - a method: self
    self: HasSession,
    name: str | dt.datetime,
    on_conflict: OnConflict = "error",
    tensors: Sequence[str] | None = None,
    dry_run: bool = False,  # noqa: FBT001, FBT002 - the contract's signature
) -> MergeReport:
    """Merge a branch into this handle's branch, three-way by row identity, and publish it.

    Rows that theirs added come after ours; no chunk is copied. The handle moves to the result.

    Args:
        name: The branch, or any version.
        on_conflict: How to resolve conflicts: "error" raises, "ours" keeps this branch's
            values, "theirs" the other's, or a function that is given a ``MergeConflict`` and
            returns the cell's value.
        tensors: Take only updates of these of theirs' tensors: no rows, no other tensors. Such
            a merge is not remembered; a later one of everything finds their cells equal.
        dry_run: Only report what would happen, conflicts included.

    Raises:
        ConflictError: There are conflicts, and ``on_conflict="error"``; nothing was published.
        UncommittedChangesError: There are staged changes.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-merge", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> fix = ds.branch("fix")
        >>> fix["x"][0] = 10
        >>> _ = fix.commit("ten")
        >>> ds.append({"x": 4})
        >>> _ = ds.commit("four")
        >>> ds.merge("fix")
        main@2 + fix@2 → main@3   (from main@1)
         x  1 row updated
        >>> ds["x"][:]
        array([10,  2,  3,  4])
    """
    return merging.merge(
        self.__session__, name, on_conflict=on_conflict, tensors=tensors, dry_run=dry_run
    )


def pull(  # noqa: D417 - a method: self
    self: HasSession,
    version: str | dt.datetime | None = None,
    on_conflict: OnConflict = "error",
    *,
    dry_run: bool = False,
) -> MergeReport:
    """Merge a newer version of the base of a fork into this handle's branch, and publish it.

    It is a merge as of two branches, from the version of the base that the branch contains: rows
    that the base added come after ours. No chunk is copied; the version is tagged in the base where
    that can be written.

    Args:
        version: The base's version; None: the newest of the branch that was forked.
        on_conflict: As of `merge`.
        dry_run: Only report what would happen, conflicts included.

    Raises:
        ConflictError: Both changed the same cells, and ``on_conflict="error"``; nothing was
            published.
        DatasetNotFoundError: The base is gone.
        InvalidInputError: The branch has no base.
        UncommittedChangesError: There are staged changes.

    Example:
        >>> import tensorlake as tl
        >>> base = tl.create("memory://doc-pull-base", {"x": "int64"})
        >>> base.extend({"x": [1, 2, 3]})
        >>> _ = base.commit("three")
        >>> ds = tl.fork("memory://doc-pull-base", "memory://doc-pull")
        >>> ds["x"][1] = 20
        >>> _ = ds.commit("corrected")
        >>> base.append({"x": 4})
        >>> _ = base.commit("four")
        >>> ds.pull()
        main@1 + main@2 of memory://doc-pull-base → main@2   (from main@1 of memory://doc-pull-base)
         1 row added
        >>> ds["x"][:], ds.bases[0].version
        (array([ 1, 20,  3,  4]), 'main@2')
    """
    return merging.pull(self.__session__, version, on_conflict=on_conflict, dry_run=dry_run)


def restore(self: HasSession, version: str | dt.datetime) -> Commit:
    """Publish a commit whose content is that of an older version; the handle moves to it.

    Rows keep their identity, and the log its history. There is nothing to restore of the newest
    version: its commit is returned, and nothing is published.

    Raises:
        SnapshotExpiredError: The version has expired.
        UncommittedChangesError: There are staged changes.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-restore", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> ds.restore("main@0").version, len(ds)
        ('main@2', 0)
    """
    return restoring.restore(self.__session__, version)


def revert(self: HasSession, version: str | dt.datetime) -> None:
    """Stage the inverse of one commit, by row identity; later changes stay.

    Rows that it deleted are restored as new rows at the end; class names that it added stay.

    Raises:
        ConflictError: Later commits changed the same cells or rows.
        UncommittedChangesError: There are staged changes.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-revert", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> ds["x"][0] = 10
        >>> commit = ds.commit("ten")
        >>> ds.revert(commit.version)
        >>> ds["x"][:]
        array([1, 2, 3])
        >>> ds.discard()
    """
    restoring.revert(self.__session__, version)


def delete_branch(self: HasSession, name: str) -> None:
    """End a branch: nothing is committed to it any more, and its name stays reserved.

    Its data stay readable until a garbage collection.

    Raises:
        InvalidInputError: It is main.
        VersionNotFoundError: There is none of this name.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-delete-branch", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> ds.branch("fix").close()
        >>> ds.delete_branch("fix")
        >>> list(ds.branches)
        ['main']
    """
    restoring.delete_branch(self.__session__, name)
