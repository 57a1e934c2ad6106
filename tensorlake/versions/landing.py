"""Publishing what cites a pinned version: a merge, or a restore.

What is published is prepared against the branch's head; when another writer was faster, it is
prepared again against the new one. Rule 1 holds for the pin as for pack 0: whichever is older
than the fence stood on ends the attempt (``docs/reference/format.md``, "Garbage").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tensorlake.errors import ConflictError, InvalidStateError
from tensorlake.format import Entry, PageSink
from tensorlake.storage import Store, runtime
from tensorlake.versions.bases import Version
from tensorlake.versions.entries import check_writable, fence_of
from tensorlake.versions.entry_making import entry_after
from tensorlake.versions.log import RACES_MAX, BranchLog
from tensorlake.versions.packs import PackReader, loaded
from tensorlake.versions.pins import Pin, pinned
from tensorlake.versions.stage import PackStage
from tensorlake.versions.state import Published, State, state_of

__all__ = ["Draft", "holding", "publish_draft"]


@dataclass(frozen=True, slots=True)
class Draft:
    """What an entry is to say.

    Attributes:
        build: Makes its content; index pages go to the sink.
        members: Other members of the entry: message, parents, merged, changes, …
        verify: Refuses the content where it does not go together.
    """

    build: Callable[[PageSink], Awaitable[State]]
    members: Mapping[str, Any]
    verify: Callable[[State], None] | None = None


@contextmanager
def holding(store: Store, version: Version, stage: PackStage) -> Generator[Pin]:
    """Pin a version for the caller's thread, as ``pinned`` does on the storage loop."""
    context = pinned(store, version.branch, version.entry, txid=stage.txid)
    pin = runtime.run(context.__aenter__())
    try:
        yield pin
    except BaseException as error:
        runtime.run(context.__aexit__(type(error), error, error.__traceback__))
        raise
    runtime.run(context.__aexit__(None, None, None))


def publish_draft(
    log: BranchLog,
    packs: PackReader,
    stage: PackStage,
    pin: Pin,
    *,
    head: Entry,
    prepare: Callable[[Entry], Draft | None],
) -> Published | None:
    """Publish what ``prepare`` makes for the branch's head; None when it made nothing.

    Args:
        log: The branch.
        packs: Reads it.
        stage: The transaction.
        pin: Holds what is cited.
        head: The newest entry, read before the pin was put.
        prepare: Makes the draft for a head; called again after each lost race.

    Raises:
        ConflictError: ``prepare`` found one, or the branch never stood still.
        InvalidStateError: The branch has ended.
        TransactionExpiredError: It took longer than the dataset's grace time.
    """
    begun_t = fence_of(head).t
    for race in range(RACES_MAX):
        _refuse_ended(log, head)
        check_writable(head, url=log.store.url)
        draft = prepare(head)
        if draft is None:
            return None
        built: Published | None = None
        while built is None:  # None: a pack was stored under another name, what cites it is old
            build = partial(draft.build, stage)
            made = entry_after(head, build, draft.members, stage=stage, branch=log.branch)
            built = runtime.run(made)
        if draft.verify is not None:
            draft.verify(built.state)
        if fence_of(head).t > begun_t:
            runtime.run(_check_age(log.store, stage, pin, head))
        outcome = runtime.run(log.publish(built.entry, hint_later=True))
        if isinstance(outcome, Entry):
            if outcome.roots is built.entry.roots:
                return Published(outcome, built.state)
            stored = runtime.run(loaded(outcome, packs))  # an earlier try had landed
            return Published(stored, state_of(stored))
        outcome.pause(race)
        newest, landed = runtime.run(_after(log, outcome.winner, stage.txid))
        if landed is not None:
            stored = runtime.run(loaded(landed, packs))
            return Published(stored, state_of(stored))
        head = runtime.run(loaded(newest, packs))
    raise ConflictError(
        f"{log.branch!r} of {log.store.url!r} moved {RACES_MAX} times while this was being"
        " published\ncall it again",
        branch=log.branch,
    )


async def _check_age(store: Store, stage: PackStage, pin: Pin, head: Entry) -> None:
    await pin.check_age(store, head)
    await stage.check_age(head, advice="call it again")


async def _after(log: BranchLog, winner: Entry, txid: str) -> tuple[Entry, Entry | None]:
    """The newest entry, and ours, where an earlier try of unknown outcome had landed."""
    entry = winner
    landed = entry if entry.txid == txid else None
    async for entry in log.after(winner.seq):
        landed = entry if entry.txid == txid else landed
    return entry, landed


def _refuse_ended(log: BranchLog, head: Entry) -> None:
    if head.kind == "end":
        raise InvalidStateError(
            f"branch {log.branch!r} of {log.store.url!r} was deleted; nothing is published on it"
            " any more\nopen another branch: ds.at('main')",
            branch=log.branch,
        )
