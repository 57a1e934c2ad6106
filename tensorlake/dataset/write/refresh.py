"""Moving a handle to its branch's newest commit, with staged changes or without.

A commit is reapplied to concurrent commits automatically where nothing conflicts. Here the user
requests it: to see both sides before committing, or to decide which takes precedence.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import get_args

from tensorlake.dataset.core.session import Session
from tensorlake.errors import InvalidInputError, UncommittedChangesError, shown
from tensorlake.quantities import check_flags
from tensorlake.versions import OnConflict

__all__ = ["noting_reads", "refresh"]


def refresh(session: Session, *, keep_staged: bool, on_conflict: OnConflict) -> None:
    """Move a session to the newest entry of its branch.

    Tensors that were added and not written to yet go along: they belong to no row, so nothing of
    them is staged for rows that the newer version may not have.

    Raises:
        UncommittedChangesError: Something else is staged, and ``keep_staged`` is not given.
        ConflictError: Staged changes conflict with a commit in between; nothing moved.
    """
    check_flags(keep_staged=keep_staged)
    if not isinstance(on_conflict, str) or on_conflict not in get_args(OnConflict):
        raise InvalidInputError(
            f"refresh(on_conflict={shown(on_conflict)})\n"
            f"give one of {', '.join(map(repr, get_args(OnConflict)))}",
            actual=on_conflict,
        )
    if keep_staged:
        session.rebase(on_conflict)
        return
    transaction = session.transaction
    if transaction is not None and transaction.only_adds_tensors:
        session.rebase(on_conflict)
        return
    if transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes; refresh would leave them behind\n"
            "ds.refresh(keep_staged=True) takes them along, ds.commit() publishes them on the"
            " newest version, ds.discard() forgets them"
        )
    session.refresh()


@contextmanager
def noting_reads(session: Session, names: Sequence[str]) -> Generator[None]:
    """Let what is staged in the block conflict with changes of these columns too.

    Raises:
        UncommittedChangesError: Something is staged already.
    """
    session.check_open()
    if session.transaction is not None:
        raise UncommittedChangesError(
            f"a transaction of {session.store.url!r} was begun over staged changes\n"
            "commit or discard them first"
        )
    if isinstance(names, str):
        raise InvalidInputError(
            f"transaction(reads={shown(names)})\ngive a list: reads=[{shown(names)}]"
        )
    for name in names:
        session.committed.spec(name)
    session.reads = tuple(names)
    try:
        yield
    finally:
        session.reads = ()
