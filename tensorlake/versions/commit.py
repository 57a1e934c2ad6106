"""Publishing a transaction: build the entry, put it, and when another was faster, combine.

    build (pages, packs, entry) ──► publish ──► ours: done
            ▲                          │ another's
            └── rebase onto the head ◄─┘ ──► conflicts: ConflictError, all is staged as before

A lost race costs the entries in between, a few comparisons and one more put: no chunk is encoded or
sent twice. Whatever fails, what was staged stays staged on the entry it was staged on.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    InvalidStateError,
    StorageError,
    TransactionExpiredError,
)
from tensorlake.format import Entry, PackTotals
from tensorlake.storage import runtime
from tensorlake.versions.conflict_report import conflict_error
from tensorlake.versions.contest import CellsDiffer
from tensorlake.versions.entries import check_writable, fence_of, following, microseconds
from tensorlake.versions.log import BranchLog, LostRace
from tensorlake.versions.packs import PackReader
from tensorlake.versions.schema_combine import OnConflict
from tensorlake.versions.state import State, state_of
from tensorlake.versions.transaction import Savepoint, Transaction

__all__ = [
    "CommitRequest",
    "Published",
    "author",
    "loaded",
    "move_transaction",
    "publish_transaction",
]

RACES_MAX = 64
"""Lost races after which a commit gives up; with jitter, 32 writers need far fewer."""

RETRY_CEILING_S = 5.0


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What a user says about a commit."""

    message: str = ""
    author: str | None = None
    key: str | None = None
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A commit that stands, and what it says."""

    entry: Entry
    state: State


def publish_transaction(
    transaction: Transaction, log: BranchLog, request: CommitRequest, *, differ: CellsDiffer
) -> Published:
    """Publish what is staged and return the commit that holds it.

    Args:
        transaction: The changes.
        log: Of the branch they were staged on.
        request: What the user says of them.
        differ: Compares cells, where another commit may have changed the same.

    Raises:
        ConflictError: Another commit changed the same cells; everything stays staged.
        TransactionExpiredError: It was open for longer than the dataset's grace time.
        CommitOutcomeUnknownError: Nobody said whether it was published: commit again to know.
    """
    transaction.working()
    before = transaction.savepoint()
    try:
        return _publish(transaction, before, log, request, differ)
    except BaseException:
        transaction.roll_back(before)
        raise


def _publish(
    transaction: Transaction,
    staged: Savepoint,
    log: BranchLog,
    request: CommitRequest,
    differ: CellsDiffer,
) -> Published:
    came: list[Entry] = []
    races = 0
    while races < RACES_MAX:
        built = runtime.run(_build(transaction, log, request))
        if built is None:
            continue  # a pack was stored under another name: what cites it is built again
        _check_age(transaction)
        outcome = _put(transaction, log, built.entry)
        if isinstance(outcome, Entry):
            if outcome.roots is built.entry.roots:
                return Published(outcome, built.state)
            return _stored(outcome, transaction.packs)  # an earlier try had landed
        if races:  # before looking again: what is seen must still be new when the entry is put
            _wait(outcome.put_s)
        races += 1
        between = runtime.run(_entries_from(log, outcome))
        known = _answer(transaction, between, request.key)
        if known is not None:
            return _stored(known, transaction.packs)
        came += between
        transaction.roll_back(staged)  # so that a conflict is told in rows the user knows
        move_transaction(transaction, log, came, differ=differ)
        if not transaction.has_changes:
            return _stored(transaction.base, transaction.packs)  # they had done the same
    message = (
        f"{log.branch!r} of {log.store.url!r} moved {RACES_MAX} times while this commit was"
        " being published; your changes are kept: commit again"
    )
    raise ConflictError(message, branch=log.branch)


def _wait(put_s: float) -> None:
    """Let others pass: 1 to 20 times what a put takes, so that some tens of writers get through."""
    time.sleep(min(RETRY_CEILING_S, put_s * random.uniform(1, 20)))  # noqa: S311 - jitter


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


def _put(transaction: Transaction, log: BranchLog, entry: Entry) -> Entry | LostRace:
    """Publish an entry, remembering where it may stand when nobody says so."""
    doubted = transaction.doubted
    transaction.doubted = entry.seq if doubted is None else min(doubted, entry.seq)
    try:
        outcome = runtime.run(log.publish(entry, hint_later=True))
    except StorageError as error:
        if not isinstance(error, CommitOutcomeUnknownError):
            transaction.doubted = doubted  # the store said no: nothing new stands anywhere
        raise
    return outcome


def _answer(transaction: Transaction, between: Sequence[Entry], key: str | None) -> Entry | None:
    """The entry that is this transaction, landed behind another's, or that answers its key."""
    if transaction.is_among(between):
        return next(entry for entry in between if entry.txid == transaction.txid)
    return next((entry for entry in between if key is not None and key in entry.keys), None)


def _stored(entry: Entry, packs: PackReader) -> Published:
    whole = runtime.run(loaded(entry, packs))
    return Published(whole, state_of(whole))


async def loaded(entry: Entry, packs: PackReader) -> Entry:
    """Read the parts of an entry that were too large for it."""
    return await entry.load(packs, where=f"entry {entry.seq}") if entry.spilled else entry


async def _build(
    transaction: Transaction, log: BranchLog, request: CommitRequest
) -> Published | None:
    """Make the entry and store its packs; None when it must be done again."""
    stage, base = transaction.stage, transaction.base
    renames = stage.renames
    state = await transaction.final_state()
    entry = following(
        base,
        branch=log.branch,
        kind="commit",
        txid=transaction.txid,
        author=author() if request.author is None else request.author,
        message=request.message,
        meta=dict(request.meta or {}),
        keys=() if request.key is None else (request.key,),
        schema=state.schema.to_json(),
        roots=dict(state.roots),
        rows=state.rows,
        row_ids=state.row_ids,
        physical=state.physical,
        changes=transaction.changes(),
    ).spill(stage)
    stage.send_open()
    await stage.settled()
    if stage.renames != renames:
        return None
    totals = PackTotals(
        count=base.packs.count + stage.pack_count, nbytes=base.packs.nbytes + stage.pack_nbytes
    )
    return Published(entry.changed(packs=totals), state)


def _check_age(transaction: Transaction) -> None:
    """Rule 1: what was staged before the head's fence may be collected already."""
    fence = fence_of(transaction.base)
    if fence.t <= transaction.began_at_fence:
        return
    first = transaction.stage.first_pack()
    if first is None:
        return
    meta = runtime.run(transaction.packs.store.head(first.path))
    if meta is None or microseconds(meta.modified) <= fence.t:
        message = (
            f"transaction {transaction.txid} was staged longer ago than the dataset's grace time;"
            " its chunks may be collected: stage the changes again on a fresh handle"
        )
        raise TransactionExpiredError(message, txid=transaction.txid)


def author() -> str:
    """Name who commits: TENSORLAKE_AUTHOR, else the login name, else "unknown"."""
    for name in ("TENSORLAKE_AUTHOR", "LOGNAME", "USER", "USERNAME"):
        if value := os.environ.get(name):
            return value
    return "unknown"


async def _entries_from(log: BranchLog, lost: LostRace) -> list[Entry]:
    return [lost.winner, *await log.all_after(lost.winner.seq)]


def _refuse_ended(log: BranchLog, head: Entry) -> None:
    if head.kind == "end":
        message = (
            f"branch {log.branch!r} of {log.store.url!r} was deleted while this transaction was"
            " open; staged changes belong to one branch: ds.discard(), and stage them on another"
        )
        raise InvalidStateError(message, branch=log.branch)
