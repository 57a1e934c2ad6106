"""Publishing what never conflicts: work that is fitted to the newest entry, whatever came between.

    build on the head ──► store the last pack ──► age ──► put-if-absent ──► lost: on the new head

Optimizing and repairing change nothing that others do; so instead of being checked for conflicts
they are built anew on each head, and leave out what no longer fits it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tensorlake.errors import ConflictError, InvalidStateError, TransactionExpiredError
from tensorlake.format import Entry, PackTotals
from tensorlake.versions.building import loaded
from tensorlake.versions.entries import check_writable, fence_of, microseconds
from tensorlake.versions.log import BranchLog
from tensorlake.versions.packs import PackReader
from tensorlake.versions.stage import PackStage

__all__ = ["Build", "Yielded", "publish_yielding"]

RACES_MAX = 64
FIRST_RETRY_S = 0.02
RETRY_CEILING_S = 5.0

Build = Callable[[Entry, Sequence[Entry]], Awaitable[Entry | None]]
"""Makes the entry that follows a head; told of all entries since the work began. Its pages go to
the stage. None: there is nothing (more) to publish."""


@dataclass(frozen=True, slots=True)
class Yielded:
    """How it ended: the newest entry, loaded, and whether it is the one that was built."""

    head: Entry
    is_published: bool


async def publish_yielding(
    log: BranchLog, packs: PackReader, stage: PackStage, head: Entry, build: Build
) -> Yielded:
    """Publish what ``build`` makes on the newest entry.

    Args:
        log: The branch's log.
        packs: Where pages are read.
        stage: Where chunks and pages of the work are.
        head: The entry that the work began on, loaded.
        build: Makes the entry.

    Raises:
        ConflictError: The branch moved again and again.
        TransactionExpiredError: The work took longer than the dataset's grace time.
    """
    base, since = head, list[Entry]()
    races = 0
    while races < RACES_MAX:
        renames = stage.renames
        built = await build(head, since)
        if built is None:
            return Yielded(head, is_published=False)
        entry = built.spill(stage)
        await stage.finish()
        if stage.renames != renames:
            continue  # a pack was stored under another name: what cites it is built again
        await _check_age(stage, base, head, packs)
        totals = PackTotals(
            head.packs.count + stage.pack_count, head.packs.nbytes + stage.pack_nbytes
        )
        outcome = await log.publish(entry.changed(packs=totals), hint_later=True)
        if isinstance(outcome, Entry):
            return Yielded(await loaded(outcome, packs), is_published=True)
        came_between = [outcome.winner, *[one async for one in log.after(outcome.winner.seq)]]
        for one in came_between:
            if one.txid == stage.txid:  # an earlier try had landed
                return Yielded(await loaded(one, packs), is_published=True)
        since += came_between
        head = await loaded(came_between[-1], packs)
        if head.kind == "end":
            message = f"branch {log.branch!r} of {log.store.url!r} was deleted meanwhile"
            raise InvalidStateError(message, branch=log.branch)
        check_writable(head, url=log.store.url)
        pause_s = FIRST_RETRY_S * races * random.uniform(1, 20)  # noqa: S311 - jitter
        await asyncio.sleep(min(RETRY_CEILING_S, pause_s))
        races += 1
    raise ConflictError(
        f"{log.branch!r} of {log.store.url!r} moved {RACES_MAX} times meanwhile; nothing is lost\n"
        "call it again when fewer commit",
        branch=log.branch,
    )


async def _check_age(stage: PackStage, base: Entry, head: Entry, packs: PackReader) -> None:
    """Rule 1: what was staged before the head's fence may be collected already."""
    first = stage.first_pack()
    if first is None or fence_of(head).t <= fence_of(base).t:
        return
    meta = await packs.store.head(first.path)
    if meta is None or microseconds(meta.modified) <= fence_of(head).t:
        raise TransactionExpiredError(
            f"transaction {stage.txid} was staged longer ago than the dataset's grace time, so its"
            " chunks may be collected; nothing was published\ncall it again",
            txid=stage.txid,
        )
