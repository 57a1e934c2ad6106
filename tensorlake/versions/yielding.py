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

from tensorlake.errors import ConflictError, InvalidStateError
from tensorlake.format import Entry
from tensorlake.versions.entries import check_writable, fence_of
from tensorlake.versions.entry_making import completed
from tensorlake.versions.log import RACES_MAX, BranchLog
from tensorlake.versions.packs import PackReader, loaded
from tensorlake.versions.stage import PackStage

__all__ = ["Build", "Yielded", "publish_yielding"]

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
        entry = await completed(built, stage, renames=renames)
        if entry is None:
            continue
        if fence_of(head).t > fence_of(base).t:
            await stage.check_age(head, advice="call it again")
        outcome = await log.publish(entry, hint_later=True)
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
