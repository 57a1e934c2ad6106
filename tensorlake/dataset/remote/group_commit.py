"""Group commit: rows of many writers published by one commit, each answered on its own.

    member    stage ──► members staged together ──► one entry: keys of all, meta["members"]
      │ its rows are refused: it fails alone                │ refused, by a constraint: each alone
      ▼                                                     ▼
    error                                            commit, or error, of each

A member is identified in the log by its keys; one without a key is given a random one. So it is
known of each whether an entry has its rows, also when another server has published some of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tensorlake.dataset.core.rowset import session_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.history.commit import Commit
from tensorlake.dataset.remote.work_key import WorkKey
from tensorlake.errors import (
    CommitOutcomeUnknownError,
    InvalidStateError,
    StorageError,
    TensorlakeError,
)
from tensorlake.format import Entry
from tensorlake.versions import CommitRequest

__all__ = ["Member", "MemberOutcome", "commit_members"]

KEY_NBYTES = 8
AUTHORS_CHARACTERS = 256
ROUNDS_MAX = 8
"""Commits tried because another server had published members of the group."""


@dataclass(frozen=True, slots=True)
class Member:
    """Rows of one writer.

    Attributes:
        stage: Stages them on a dataset, all or none.
        message: Message of the writer.
        author: The writer.
        key: Names the work: committed once, however often it is sent.
    """

    stage: Callable[[Dataset], None]
    message: str = ""
    author: str | None = None
    key: WorkKey | None = None


@dataclass(frozen=True, slots=True)
class MemberOutcome:
    """The commit that has a member's rows, or why none has them.

    Attributes:
        is_repeated: Whether the commit had been made before, under the member's key.
    """

    commit: Commit | None = None
    error: TensorlakeError | None = None
    is_repeated: bool = False


@dataclass(slots=True)
class _Open:
    """A member that has no outcome yet: its keys, and how many rows it staged."""

    member: Member
    keys: tuple[str, ...]
    places: list[int]
    rows: int = 0

    def is_in(self, entry: Entry, branch: str) -> bool:
        key = self.member.key
        return self.keys[0] in entry.keys if key is None else key.is_of(entry, branch)


@dataclass(slots=True)
class _Group:
    dataset: Dataset
    outcomes: list[MemberOutcome | None]
    open: list[_Open] = field(default_factory=list[_Open])

    @property
    def session(self) -> Session:
        return session_of(self.dataset)

    def find(self, one: _Open, entry: Entry, *, is_repeated: bool = False) -> None:
        """End a member whose rows the entry has, or whose key it has for other work."""
        try:
            is_there = one.is_in(entry, self.session.branch)
        except InvalidStateError as error:
            self.end(one, MemberOutcome(error=error))
            return
        if is_there:
            commit = Commit.of_entry(entry, self.session.branch)
            self.end(one, MemberOutcome(commit, is_repeated=is_repeated))

    def end(self, one: _Open, outcome: MemberOutcome) -> None:
        """Give a member its outcome; those that sent the same key get its commit."""
        for number, place in enumerate(one.places):
            is_repeated = outcome.is_repeated or (number > 0 and outcome.commit is not None)
            self.outcomes[place] = replace(outcome, is_repeated=is_repeated)
        self.open.remove(one)


def commit_members(dataset: Dataset, members: Sequence[Member]) -> list[MemberOutcome]:
    """Publish the rows of all members, by one commit where that is possible.

    Args:
        dataset: A handle of the branch, with nothing staged. It is moved to the newest version.
        members: The writers, in the order in which their rows follow each other.

    Returns:
        The outcome of each. One whose rows are refused does not stop the others.
    """
    dataset.refresh()
    group = _Group(dataset, [None] * len(members))
    by_name: dict[str, _Open] = {}
    later: list[int] = []  # of a name that other work in this group has: one after the other
    for place, member in enumerate(members):
        key = member.key
        if key is None:
            group.open.append(_Open(member, (secrets.token_hex(KEY_NBYTES),), [place]))
        elif key.name not in by_name:
            by_name[key.name] = _Open(member, key.keys, [place])
            group.open.append(by_name[key.name])
        elif key == by_name[key.name].member.key:
            by_name[key.name].places.append(place)
        else:
            later.append(place)
    _answer_known(group)
    for _ in range(ROUNDS_MAX):
        if not group.open:
            break
        _commit_together(group)
    for one in list(group.open):
        group.end(one, MemberOutcome(error=_too_many_rounds(dataset)))
    if later:
        found = commit_members(dataset, [members[place] for place in later])
        for place, outcome in zip(later, found, strict=True):
            group.outcomes[place] = outcome
    return [outcome for outcome in group.outcomes if outcome is not None]


def _answer_known(group: _Group) -> None:
    """End the members whose keys the log has already."""
    for one in list(group.open):
        if one.member.key is not None:  # nothing is staged: it looks only
            entry = group.session.commit(CommitRequest(key=one.keys[0]))
            group.find(one, entry, is_repeated=True)


def _commit_together(group: _Group) -> None:
    """Stage and publish all open members; refused together, each is published alone."""
    try:
        _publish(group, list(group.open))
    except StorageError as error:
        _fail_all(group, error)
    except TensorlakeError as error:
        group.dataset.discard()
        if len(group.open) == 1:
            _fail_all(group, error)
        for one in list(group.open):
            try:
                _publish(group, [one])
            except TensorlakeError as own:
                group.dataset.discard()
                group.end(one, MemberOutcome(error=own))


def _fail_all(group: _Group, error: TensorlakeError) -> None:
    group.dataset.discard()
    for one in list(group.open):
        group.end(one, MemberOutcome(error=error))


def _publish(group: _Group, chosen: Sequence[_Open]) -> None:
    """Publish members by one commit; those that the entry has, which may be another's, end."""
    staged: list[_Open] = []
    for one in chosen:
        before = len(group.dataset)
        try:
            one.member.stage(group.dataset)
        except TensorlakeError as error:
            group.end(one, MemberOutcome(error=error))
        else:
            one.rows = len(group.dataset) - before
            staged.append(one)
    if not staged:
        return
    request = _request(staged)
    try:
        entry = group.session.commit(request)
    except CommitOutcomeUnknownError:
        entry = group.session.commit(request)  # finds out
    for one in staged:
        group.find(one, entry)
        if not one.rows and one in group.open:
            group.end(one, MemberOutcome(Commit.of_entry(entry, group.session.branch)))
    group.dataset.discard()


def _request(staged: Sequence[_Open]) -> CommitRequest:
    members = [one.member for one in staged]
    keys = tuple(key for one in staged for key in one.keys)
    if len(members) == 1:
        return CommitRequest(members[0].message, members[0].author, keys=keys)
    authors = list(dict.fromkeys(filter(None, (one.author for one in members))))
    described = [
        {"author": one.member.author, "message": one.member.message, "rows": one.rows}
        for one in staged
    ]
    return CommitRequest(
        f"appends of {len(members)} writers",
        ", ".join(authors)[:AUTHORS_CHARACTERS] or None,
        meta={"members": described},
        keys=keys,
    )


def _too_many_rounds(dataset: Dataset) -> TensorlakeError:
    return StorageError(
        f"other servers published members of {ROUNDS_MAX} group commits of {dataset.url!r}"
        "\nsend the rows again, with the same key"
    )
