"""Publishing a transaction: build the entry, put it, and when another was faster, combine.

    build (pages, packs, entry) ──► publish ──► ours: done
            ▲                          │ another's
            └── rebase onto the head ◄─┘ ──► conflicts: ConflictError, all is staged as before

A lost race costs the entries in between, a few comparisons and one more put: no chunk is encoded or
sent twice. Whatever fails, what was staged stays staged on the entry it was staged on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    InvalidInputError,
    InvalidStateError,
    StorageError,
)
from tensorlake.format import Entry
from tensorlake.storage import LocalStore, runtime
from tensorlake.versions.conflict_report import conflict_error
from tensorlake.versions.contest import CellsDiffer, OnConflict
from tensorlake.versions.entries import author, check_writable, fence_of
from tensorlake.versions.entry_making import entry_after
from tensorlake.versions.log import RACES_MAX, BranchLog, LostRace
from tensorlake.versions.packs import PackReader, loaded
from tensorlake.versions.state import Published, state_of
from tensorlake.versions.texts import check_text
from tensorlake.versions.transaction import Savepoint, Transaction

__all__ = [
    "CommitRequest",
    "move_transaction",
    "publish_transaction",
]


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What a user says about a commit.

    Raises:
        InvalidInputError: The message or the key is no text, or the key is empty.
    """

    message: str = ""
    author: str | None = None
    key: str | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_text(self.message, what="the message")
        if self.key is not None and not check_text(self.key, what="the key"):
            raise InvalidInputError("the key is empty\nname the piece of work, or give no key")


def publish_transaction(
    transaction: Transaction,
    log: BranchLog,
    request: CommitRequest,
    *,
    differ: CellsDiffer,
    verify: Callable[[Transaction], None],
) -> Published:
    """Publish what is staged and return the commit that holds it.

    Args:
        transaction: The changes.
        log: Of the branch they were staged on.
        request: What the user says of them.
        differ: Compares cells, where another commit may have changed the same.
        verify: Refuses changes that do not go together; also as they stand on another commit.

    Raises:
        ConflictError: Another commit changed the same cells; everything stays staged.
        TransactionExpiredError: It was open for longer than the dataset's grace time.
        CommitOutcomeUnknownError: Nobody said whether it was published: commit again to know.
    """
    transaction.working()
    before = transaction.savepoint()
    try:
        verify(transaction)
        return _publish(transaction, before, log, request, differ, verify)
    except BaseException:
        transaction.roll_back(before)
        raise


def _publish(
    transaction: Transaction,
    staged: Savepoint,
    log: BranchLog,
    request: CommitRequest,
    differ: CellsDiffer,
    verify: Callable[[Transaction], None],
) -> Published:
    # A folder answers at once: there nothing is handed to the storage loop.
    run = runtime.run_here if isinstance(log.store, LocalStore) else runtime.run
    came: list[Entry] = []
    races = 0
    while races < RACES_MAX:
        attempt = run(_attempt(transaction, log, request))
        if attempt is None:
            continue  # a pack was stored under another name: what cites it is built again
        built, outcome = attempt
        if isinstance(outcome, Entry):
            if outcome.roots is built.entry.roots:
                return Published(outcome, built.state)
            return _stored(outcome, transaction.packs)  # an earlier try had landed
        outcome.pause(races)
        races += 1
        between = runtime.run(_entries_from(log, outcome))
        known = _answer(transaction, between, request.key)
        if known is not None:
            runtime.run(log.sync(known))
            return _stored(known, transaction.packs)
        came += between
        transaction.roll_back(staged)  # so that a conflict is told in rows the user knows
        move_transaction(transaction, log, came, differ=differ)
        verify(transaction)
        if not transaction.has_changes and request.key is None:
            runtime.run(log.sync(transaction.base))
            return _stored(transaction.base, transaction.packs)  # they had done the same
    message = (
        f"{log.branch!r} of {log.store.url!r} moved {RACES_MAX} times while this commit was"
        " being published; your changes are kept: commit again"
    )
    raise ConflictError(message, branch=log.branch)


def move_transaction(
    transaction: Transaction,
    log: BranchLog,
    between: Sequence[Entry],
    *,
    differ: CellsDiffer,
    on_conflict: OnConflict = "error",
) -> None:
    """Let what is staged stand on the last of the entries that follow its base.

    Raises:
        ConflictError: They changed the same; what is staged stands where it stood.
        InvalidStateError: The branch has ended.
    """
    head = runtime.run(loaded(between[-1], transaction.packs))
    _refuse_ended(log, head)
    check_writable(head, url=log.store.url)
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


async def _attempt(
    transaction: Transaction, log: BranchLog, request: CommitRequest
) -> tuple[Published, Entry | LostRace] | None:
    """Make the entry, store its packs, publish it; None when it must be done again."""
    stage, base = transaction.stage, transaction.base
    members = {
        "author": author(log.store) if request.author is None else request.author,
        "message": request.message,
        "meta": dict(request.meta or {}),
        "keys": () if request.key is None else (request.key,),
        "changes": transaction.changes(),
    }
    built = await entry_after(
        base,
        transaction.final_state,
        members,
        stage=stage,
        branch=log.branch,
        is_same_schema=transaction.schema is transaction.base_state.schema,
        packs_may_follow=True,
    )
    if built is None:
        return None
    if fence_of(base).t > transaction.began_at_fence:
        advice = "stage the changes again on a fresh handle"
        await stage.check_age(base, advice=advice)
    return built, await _put(transaction, log, built.entry)


async def _put(transaction: Transaction, log: BranchLog, entry: Entry) -> Entry | LostRace:
    """Publish an entry, remembering where it may stand when nobody says so."""
    doubted = transaction.doubted

    def check_packs() -> None:
        transaction.stage.check_synced()
        transaction.doubted = entry.seq if doubted is None else min(doubted, entry.seq)

    try:
        outcome = await log.publish(entry, hint_later=True, after=check_packs)
    except StorageError as error:
        if not isinstance(error, CommitOutcomeUnknownError):
            transaction.doubted = doubted  # the store said no: nothing new stands anywhere
        raise
    if isinstance(outcome, LostRace):
        transaction.doubted = doubted  # the number is another's, whatever fails from here on
    return outcome


def _answer(transaction: Transaction, between: Sequence[Entry], key: str | None) -> Entry | None:
    """The entry that is this transaction, landed behind another's, or that answers its key."""
    if transaction.is_among(between):
        return next(entry for entry in between if entry.txid == transaction.txid)
    return next((entry for entry in between if key is not None and key in entry.keys), None)


def _stored(entry: Entry, packs: PackReader) -> Published:
    whole = runtime.run(loaded(entry, packs))
    return Published(whole, state_of(whole))


async def _entries_from(log: BranchLog, lost: LostRace) -> list[Entry]:
    return [lost.winner, *await log.all_after(lost.winner.seq)]


def _refuse_ended(log: BranchLog, head: Entry) -> None:
    if head.kind == "end":
        message = (
            f"branch {log.branch!r} of {log.store.url!r} was deleted while this transaction was"
            " open; staged changes belong to one branch: ds.discard(), and stage them on another"
        )
        raise InvalidStateError(message, branch=log.branch)
