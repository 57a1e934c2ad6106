"""Publishing a transaction: build the entry, put it, and when another was faster, combine.

A commit that loses a race reads what came between, checks it against its own changes
(``combine.find_conflicts``), applies them to the new head and tries again: no chunk is encoded or
sent twice. Staged data survive every failure.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import (
    ConflictError,
    InvalidStateError,
    TransactionExpiredError,
)
from tensorlake.format import Changes, Entry, PackTotals
from tensorlake.storage import runtime
from tensorlake.versions.combine import Conflict, find_conflicts
from tensorlake.versions.entries import check_writable, fence_of, following, microseconds
from tensorlake.versions.log import BranchLog, LostRace
from tensorlake.versions.packs import PackReader
from tensorlake.versions.state import State, state_of
from tensorlake.versions.transaction import Transaction

__all__ = ["CommitRequest", "Published", "author", "loaded", "publish_transaction"]

RACES_MAX = 64
"""Lost races after which a commit gives up; with jitter, 32 writers need far fewer."""

RETRY_CEILING_S = 5.0

SHOWN_ROWS = 3


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
    transaction: Transaction, log: BranchLog, request: CommitRequest
) -> Published:
    """Publish what is staged and return the commit that holds it.

    Raises:
        ConflictError: Another commit changed the same cells; everything stays staged.
        TransactionExpiredError: It was open for longer than the dataset's grace time.
    """
    transaction.working()
    changes = transaction.changes()
    head, head_state, theirs = transaction.base, transaction.base_state, list[Changes]()
    races = 0
    while races < RACES_MAX:
        started = time.monotonic()
        built = runtime.run(_build(transaction, log, head, head_state, theirs, request))
        if built is None:
            continue  # a pack was stored under another name: what cites it is built again
        _check_age(transaction, head)
        outcome = runtime.run(log.publish(built.entry, hint_later=True))
        if isinstance(outcome, Entry):
            if outcome.roots is built.entry.roots:
                return Published(outcome, built.state)
            stored = runtime.run(loaded(outcome, transaction.packs))  # an earlier try had landed
            return Published(stored, state_of(stored))
        came_between = runtime.run(_entries_from(log, outcome))
        for other in came_between:
            # An earlier commit() that ended in doubt may have landed behind another's entry.
            is_ours = other.txid == transaction.txid
            if is_ours or (request.key is not None and request.key in other.keys):
                known = runtime.run(loaded(other, transaction.packs))
                return Published(known, state_of(known))
        theirs += [other.changes for other in came_between if other.kind == "commit"]
        head = runtime.run(loaded(came_between[-1], transaction.packs))
        head_state = state_of(head)
        _refuse_ended(log, head)
        check_writable(head, url=log.store.url)
        _refuse_conflicts(transaction, log, changes, theirs, came_between)
        if races:
            taken_s = time.monotonic() - started
            time.sleep(min(RETRY_CEILING_S, taken_s * random.uniform(1, 20)))  # noqa: S311 - jitter
        races += 1
    message = (
        f"{log.branch!r} of {log.store.url!r} moved {RACES_MAX} times while this commit was"
        " being published; your changes are kept: commit again"
    )
    raise ConflictError(message, branch=log.branch)


async def loaded(entry: Entry, packs: PackReader) -> Entry:
    """Read the parts of an entry that were too large for it."""
    return await entry.load(packs, where=f"entry {entry.seq}") if entry.spilled else entry


async def _build(
    transaction: Transaction,
    log: BranchLog,
    head: Entry,
    head_state: State,
    theirs: list[Changes],
    request: CommitRequest,
) -> Published | None:
    """Apply the transaction to a head and store its packs; None when it must be done again."""
    changes = transaction.changes()
    stage = transaction.stage
    renames = stage.renames
    state = await transaction.apply_to(
        head_state,
        schema=transaction.schema if changes.schema else head_state.schema,
        by_row=frozenset(id_ for other in theirs for id_ in other.update),
        sink=stage,
    )
    entry = following(
        head,
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
        changes=changes,
    ).spill(stage)
    stage.send_open()
    await stage.settled()
    if stage.renames != renames:
        return None
    totals = PackTotals(
        count=head.packs.count + stage.pack_count, nbytes=head.packs.nbytes + stage.pack_nbytes
    )
    return Published(entry.changed(packs=totals), state)


def _check_age(transaction: Transaction, head: Entry) -> None:
    """Rule 1: what was staged before the head's fence may be collected already."""
    if fence_of(head).t <= fence_of(transaction.base).t:
        return
    first = transaction.stage.first_pack()
    if first is None:
        return
    meta = runtime.run(transaction.packs.store.head(first.path))
    if meta is None or microseconds(meta.modified) <= fence_of(head).t:
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
    return [lost.winner, *[entry async for entry in log.after(lost.winner.seq)]]


def _refuse_ended(log: BranchLog, head: Entry) -> None:
    if head.kind == "end":
        message = (
            f"branch {log.branch!r} of {log.store.url!r} was deleted while this transaction was"
            " open; staged changes belong to one branch: ds.discard(), and stage them on another"
        )
        raise InvalidStateError(message, branch=log.branch)


def _refuse_conflicts(
    transaction: Transaction,
    log: BranchLog,
    changes: Changes,
    theirs: list[Changes],
    came_between: list[Entry],
) -> None:
    conflicts = find_conflicts(changes, theirs)
    if not conflicts:
        return
    newest = next(
        (entry for entry in reversed(came_between) if entry.kind == "commit"), came_between[-1]
    )
    base, head = transaction.base.seq, came_between[-1].seq
    described = "; ".join(dict.fromkeys(_describe(transaction, one) for one in conflicts))
    raise ConflictError(
        f"{log.branch!r} moved from {log.branch}@{base} to {log.branch}@{head} while this"
        f" transaction was open; {described} (by {newest.author!r}: {newest.message!r})\n"
        "your changes are kept: ds.discard(), ds.refresh() and stage them again",
        branch=log.branch,
        base=f"{log.branch}@{base}",
        head=f"{log.branch}@{head}",
        conflicts=conflicts,
    )


def _describe(transaction: Transaction, conflict: Conflict) -> str:
    match conflict.what:
        case "update":
            names = {spec.id: spec.name for spec in transaction.base_state.schema.tensors}
            what = f"both changed {names.get(conflict.tensor_id or '', '?')!r}"
        case "delete":
            what = "one deleted what the other changed"
        case "drop":
            names = {spec.id: spec.name for spec in transaction.base_state.schema.tensors}
            name = names.get(conflict.tensor_id or "", "?")
            what = f"one dropped {name!r}, the other gave it new values"
        case "schema":
            what = "both changed the schema"
        case _:
            what = "one reordered rows"
    if not conflict.physical:
        return what
    shown = ", ".join(map(str, conflict.physical[:SHOWN_ROWS]))
    more = ", …" if len(conflict.physical) > SHOWN_ROWS else ""
    return f"{what} of {len(conflict.physical)} rows (physical {shown}{more})"
