"""Committing a transaction: its draft for the loop of ``publish.py``, before and after lost races.

    staged changes ──► draft ──► publish ──► ours: done
            ▲                       │ another's
            └── moved to the head ◄─┘ ──► conflicts: ConflictError, all is staged as before

A lost race costs the entries in between, a few comparisons and one more put: no chunk is encoded or
sent twice. After any failure, the changes stay staged on their original entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorlake.errors import InvalidInputError
from tensorlake.format import Entry, PageSink
from tensorlake.storage import runtime
from tensorlake.versions.log.entries import check_text
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import Published, State
from tensorlake.versions.packs.reader import loaded
from tensorlake.versions.transaction.conflict_report import conflict_error
from tensorlake.versions.transaction.conflicts import CellsDiffer, OnConflict
from tensorlake.versions.transaction.publish import Advice, Draft, Publication, publish
from tensorlake.versions.transaction.transaction import Transaction

__all__ = [
    "CommitRequest",
    "move_transaction",
    "publish_transaction",
]

ADVICE = Advice(
    raced="what is staged is kept: commit again",
    expired="stage the changes again on a fresh handle",
    ended="staged changes belong to one branch: ds.discard(), and stage them on another",
)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The user's message and key of a commit.

    Attributes:
        keys: More keys, of the members of a group commit: an entry with one of them is returned.

    Raises:
        InvalidInputError: The message or the key is not a string, or the key is empty.
    """

    message: str = ""
    author: str | None = None
    key: str | None = None
    meta: Mapping[str, Any] | None = None
    keys: tuple[str, ...] = ()

    @property
    def all_keys(self) -> tuple[str, ...]:
        """Every key of the commit."""
        return self.keys if self.key is None else (self.key, *self.keys)

    def __post_init__(self) -> None:
        check_text(self.message, what="the message")
        if self.key is not None and not check_text(self.key, what="the key"):
            raise InvalidInputError("the key is empty\nname the piece of work, or give no key")


def publish_transaction(
    transaction: Transaction,
    log: BranchLog,
    request: CommitRequest,
    *,
    differ: Callable[[], CellsDiffer],
    verify: Callable[[Transaction], None],
    seen: float,
) -> Published:
    """Publish what is staged and return the commit that holds it.

    Args:
        transaction: The changes.
        log: Log of the branch they were staged on.
        request: The user's message and key.
        differ: Makes what compares cells, where another commit may have changed the same.
        verify: Refuses inconsistent changes; also after they move to another commit.
        seen: When the entry that they are staged on was last seen, by ``time.monotonic``.

    Raises:
        DatasetNotFoundError: The dataset was deleted meanwhile; everything stays staged.
        ConflictError: Another commit changed the same cells; everything stays staged.
        TransactionExpiredError: It was open for longer than the dataset's grace time.
        CommitOutcomeUnknownError: Its publication is unconfirmed: commit again to find out.
    """
    transaction.working()
    before = transaction.savepoint()
    work = replace(_publication(transaction, log, request.all_keys), seen=seen)

    def prepare(head: Entry, since: Sequence[Entry]) -> Draft | None:
        if since:
            # From where the user staged them: a conflict is reported in rows that the user knows.
            transaction.roll_back(before)
            _move(transaction, log, head, since, differ=differ(), on_conflict="error")
        verify(transaction)
        if since and not transaction.has_changes and not request.all_keys:
            return None  # others did the same
        return _draft(transaction, request)

    try:
        return publish(work, transaction.base, prepare).published
    except BaseException:
        transaction.roll_back(before)
        raise


def move_transaction(
    transaction: Transaction,
    log: BranchLog,
    between: Sequence[Entry],
    *,
    differ: CellsDiffer,
    on_conflict: OnConflict = "error",
) -> None:
    """Move staged changes onto the last of the entries that follow their base.

    Raises:
        ConflictError: They changed the same cells; the staged changes keep their base.
        InvalidStateError: The branch has ended.
    """
    head = runtime.run(loaded(between[-1], transaction.packs))
    _publication(transaction, log).check_head(head)
    _move(transaction, log, head, between, differ=differ, on_conflict=on_conflict)


def _publication(
    transaction: Transaction, log: BranchLog, keys: tuple[str, ...] = ()
) -> Publication:
    return Publication(
        log,
        transaction.packs,
        transaction.stage,
        began_at_fence=transaction.began_at_fence,
        keys=keys,
        doubt=transaction.doubt,
        advice=ADVICE,
    )


def _draft(transaction: Transaction, request: CommitRequest) -> Draft:
    async def build(sink: PageSink) -> State:
        del sink  # the transaction's own stage
        return await transaction.final_state()

    members: dict[str, Any] = {
        "message": request.message,
        "meta": dict(request.meta or {}),
        "keys": request.all_keys,
        "changes": transaction.changes(),
    }
    if request.author is not None:
        members["author"] = request.author
    keeps_schema = transaction.schema is transaction.base_state.schema
    return Draft(build, members, keeps_schema=keeps_schema)


def _move(
    transaction: Transaction,
    log: BranchLog,
    head: Entry,
    between: Sequence[Entry],
    *,
    differ: CellsDiffer,
    on_conflict: OnConflict,
) -> None:
    conflicts = transaction.rebase(
        head, between, branch=log.branch, differ=differ, on_conflict=on_conflict
    )
    if conflicts:
        raise conflict_error(
            conflicts,
            base=transaction.base,
            state=transaction.base_state,
            between=between,
            changes=transaction.changes(),
            reads=transaction.reads,
            branch=log.branch,
            url=log.store.url,
            pages=transaction.packs.pages,
            on_conflict=on_conflict,
        )
