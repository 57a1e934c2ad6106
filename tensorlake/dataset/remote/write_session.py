"""Sessions for writes by a client of a server: the start of a server's transactions.

The client read some version, and perhaps sent the same work before: the handle is at the version
that it read, so that conflicts with later commits are found, and work that was committed before is
answered by its commit instead of being staged twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlake.dataset.core.rowset import session_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.handles.open import open_dataset
from tensorlake.dataset.history.commit import Commit
from tensorlake.dataset.history.versions import tag
from tensorlake.dataset.remote.work_key import WorkKey
from tensorlake.errors import InvalidInputError, VersionNotFoundError
from tensorlake.storage import runtime
from tensorlake.versions import BranchLog, CommitRequest, Resolved, check_free_name, entry_number

__all__ = ["Work", "begin_work"]


@dataclass(frozen=True, slots=True)
class Work:
    """A handle to stage on, or the commit that did this work before.

    Attributes:
        dataset: Writable, nothing staged.
        done: The commit that has the key; None when there is none yet.
        key: Names the work.
    """

    dataset: Dataset
    done: Commit | None
    key: WorkKey | None = None

    def commit(self, message: str, *, author: str | None, tags: Sequence[str] = ()) -> Commit:
        """Publish staged changes in the name of an author; complete work done before.

        Args:
            message: Commit message.
            author: Author; None is this process's user.
            tags: Names for what is published. That they are free is seen before it is.

        Raises:
            InvalidInputError: A tag's name is taken, or none.
            ConflictError: Another commit changed the same.
            InvalidStateError: Another's work took the key meanwhile.
        """
        session = session_of(self.dataset)
        commit = self.done
        if commit is None:
            for name in tags:
                runtime.run(check_free_name(session.store, name))
            keys = () if self.key is None else self.key.keys
            request = CommitRequest(message, author, key=keys[0] if keys else None, keys=keys[1:])
            entry = session.commit(request)
            if self.key is not None:
                self.key.is_of(entry, session.branch)
            commit = Commit.of_entry(entry, session.branch)
        for name in tags:  # each that is there already, as it should be, is left as it is
            tag(session, name, commit.version)
        return commit


def begin_work(
    url: str,
    branch: str,
    *,
    base: str | None = None,
    key: WorkKey | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Work:
    """Open a branch for writing.

    Args:
        url: The dataset.
        branch: The branch: nothing else, though ``tl.open`` would know a tag or a commit by it.
        base: The version of it that was read, as ``main@12``; None is its newest.
        key: Names the work, which is done once: see ``Dataset.commit``.
        storage_options: As ``tl.open`` takes them.

    Raises:
        VersionNotFoundError: There is no such branch.
        InvalidInputError: ``base`` is not one of its versions.
        InvalidStateError: The key is that of other work.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-work", {"x": "int64"})
        >>> key = WorkKey("one", "digest of who sends it, and of the rows")
        >>> work = begin_work("memory://doc-work", "main", key=key)
        >>> work.dataset.extend({"x": [1]})
        >>> work.commit("one row", author="ana").version
        'main@1'
        >>> begin_work("memory://doc-work", "main", key=key).done.version
        'main@1'
    """
    dataset = open_dataset(url, branch, storage_options=storage_options)
    session = session_of(dataset)
    session.packs.links.is_followed = False  # a client names the files
    if session.branch != branch or session.name != branch:
        raise VersionNotFoundError(
            f"{url!r} has no branch {branch!r}\nits branches: {', '.join(dataset.branches)}",
            version=branch,
        )
    done = None
    if key is not None:
        entry = session.commit(CommitRequest(key=key.name))  # nothing is staged: this only looks
        done = Commit.of_entry(entry, branch) if key.is_of(entry, branch) else None
    if base is None or base == dataset.version or done is not None:
        return Work(dataset, done, key)
    of, _, text = base.rpartition("@")
    number = entry_number(text)
    if of != branch or number is None:
        raise InvalidInputError(
            f"base_version {base!r} is not a version of the branch {branch!r}"
            f"\npass the version that was read, such as {dataset.version!r}",
            actual=base,
        )
    entry = runtime.run(BranchLog(session.store, branch).existing(number))
    resolved = Resolved(branch, entry, is_writable=True, name=branch, mirror_of=session.mirror_of)
    links = session.packs.links
    older = Session(session.store, resolved, options=session.options, links=links)
    return Work(Dataset(older), None, key)
