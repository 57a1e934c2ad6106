"""The commit protocol: how anything becomes the next version of a branch. It is written once, here.

    prepare(head, since) ─► draft ─► build: pages, entry ─► packs stored ─► age ─► put-if-absent
        ▲                                                                      ours │ another's
        │                                                                  returned ◄─► pause
        └─ head: the newest entry, since: all since the first head ◄─ none of them is ours ─┘

Commits, merges, restores, compaction, sorting and repairs differ in the draft alone: how it is
fitted to a head, after a race was lost to a newer one.

Invariants:
- An entry can be seen only after all packs that it cites are durable, and only if what it cites is
  younger than the fence of the entry before it (rule 1 of ``docs/reference/format.md``, "Garbage").
- A transaction has at most one entry: before a lost race is answered by another try, the entries
  that came in between are searched for an earlier one, and for the keys of the work.
- ``since`` holds *all* entries after the head that the work began on, whatever number of races was
  lost: a draft for the newest head takes every earlier winner's changes into account.
- Success is returned only for an entry that is durable.
- An entry follows one that is in the store: where the head was seen some time ago, it is read again
  while the packs are stored. The dataset may have been deleted, and created again, since.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorlake.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    InvalidStateError,
    StorageError,
)
from tensorlake.format import Entry, PageSink
from tensorlake.storage import LocalStore, runtime
from tensorlake.versions.log.entries import check_writable, fence_of
from tensorlake.versions.log.log import RACES_MAX, BranchLog, LostRace
from tensorlake.versions.log.state import Published, State, state_of
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.refs.pins import Pin
from tensorlake.versions.transaction.entry import completed, entry_of
from tensorlake.versions.transaction.groups import without_dropped

__all__ = ["Advice", "Doubt", "Draft", "Outcome", "Prepare", "Publication", "publish"]


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry to be published after one head.

    Attributes:
        build: Makes its content; index pages go to the sink. None: there is nothing to publish.
            Called again when a pack was stored under another name, so that the pages cite it.
        members: Other members of the entry: message, author, changes, keys, parents, …
        verify: Refuses the content where its values do not go together.
        keeps_schema: Whether the schema is known to be the head's.
    """

    build: Callable[[PageSink], Awaitable[State | None]]
    members: Mapping[str, Any]
    verify: Callable[[State], None] | None = None
    keeps_schema: bool = False


Prepare = Callable[[Entry, Sequence[Entry]], Draft | None]
"""Makes the draft for a head, given all entries since the work began; called in the caller's
thread, once for each race. None: there is nothing to publish (any more)."""


@dataclass(slots=True)
class Doubt:
    """The highest number at which an entry of a transaction may be, without a confirming answer.

    Entries are read from the transaction's base on, so all lower numbers were seen by then too.
    """

    seq: int | None = None

    def find(self, txid: str, entries: Sequence[Entry]) -> Entry | None:
        """Find the transaction among the entries after its base; else end a doubt they settle."""
        for entry in entries:
            if entry.txid == txid:
                return entry
        if self.seq is not None and entries and entries[-1].seq >= self.seq:
            self.seq = None  # the number is another's
        return None


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice in errors of a publication."""

    raced: str = "call it again when fewer processes commit"
    expired: str = "call it again"
    ended: str = "open another branch: ds.at('main')"


@dataclass(frozen=True, slots=True)
class Publication:
    """A transaction that is to become an entry of a branch.

    Attributes:
        log: The branch's log.
        packs: Reads entries and pages.
        stage: The transaction's packs.
        began_at_fence: Time of the fence of the entry that the work began on: staged and pinned
            objects are younger.
        pin: Holds a version of which chunks are cited.
        keys: An entry with one of them is this work, published by any writer.
        doubt: Remembers a try of unknown outcome, for the next publication of the transaction.
        advice: The last lines of errors.
        seen: When the first head was last seen in the store, by ``time.monotonic``.
    """

    log: BranchLog
    packs: PackReader
    stage: PackStage
    began_at_fence: int
    pin: Pin | None = None
    keys: Sequence[str] = ()
    doubt: Doubt = field(default_factory=Doubt)
    advice: Advice = field(default_factory=Advice)
    seen: float = field(default_factory=time.monotonic)

    def found_in(self, entries: Sequence[Entry]) -> Entry | None:
        """Find this work among entries: an earlier try, or another's entry with one of the keys."""
        own = self.doubt.find(self.stage.txid, entries)
        return own or next(
            (one for one in entries if not set(self.keys).isdisjoint(one.keys)), None
        )

    def check_head(self, head: Entry) -> None:
        """Refuse to publish after an entry.

        Raises:
            InvalidStateError: It ends the branch.
            UnsupportedFeatureError: It needs writers that know more.
        """
        url = self.log.store.url
        if head.kind == "end":
            raise InvalidStateError(
                f"branch {self.log.branch!r} of {url!r} was deleted meanwhile: nothing can be"
                f" published on it\n{self.advice.ended}",
                branch=self.log.branch,
            )
        check_writable(head, url=url)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a publication ended.

    Attributes:
        published: The entry that holds the work; the newest one where nothing was to be published.
        is_published: Which of the two.
    """

    published: Published
    is_published: bool


def publish(work: Publication, head: Entry, prepare: Prepare) -> Outcome:
    """Publish what ``prepare`` makes, on the newest entry; never call it on the storage loop.

    Args:
        work: Whose packs, which log.
        head: An entry of the log, loaded. The work began on it; newer ones cost a lost race.
        prepare: Makes the draft.

    Raises:
        ConflictError: ``prepare`` found a conflict, or other writers won every race.
        InvalidStateError: The branch has ended.
        TransactionExpiredError: It took longer than the dataset's grace time.
        CommitOutcomeUnknownError: It is unknown whether the entry was stored.
    """
    log, packs = work.log, work.packs
    looks_again = log.is_unconfirmed(work.seen)
    # A folder answers at once: there nothing is handed to the storage loop.
    run = runtime.run_here if isinstance(log.store, LocalStore) else runtime.run
    since: list[Entry] = []
    for race in range(RACES_MAX):
        work.check_head(head)
        draft = prepare(head, since)
        is_seen = race > 0 or not looks_again
        built = None if draft is None else run(_built(work, head, draft, is_seen=is_seen))
        if draft is None or built is None:
            if since:
                runtime.run(log.sync(head))  # it counts as success: others did the same
            return Outcome(_stored(head, packs), is_published=False)
        if draft.verify is not None:
            draft.verify(built.state)
        outcome = run(_put(work, head, built.entry))
        if isinstance(outcome, Entry):
            is_built = outcome.roots is built.entry.roots  # else an earlier try had landed
            published = Published(outcome, built.state) if is_built else _stored(outcome, packs)
            return Outcome(published, is_published=True)
        outcome.pause(race)
        between = runtime.run(_entries_from(log, outcome.winner))
        found = work.found_in(between)
        if found is not None:
            runtime.run(log.sync(found))
            return Outcome(_stored(found, packs), is_published=True)
        since += between
        head = runtime.run(loaded(between[-1], packs))
    raise ConflictError(
        f"{log.branch!r} of {log.store.url!r} moved {RACES_MAX} times while this was being"
        f" published; nothing was lost\n{work.advice.raced}",
        branch=log.branch,
    )


async def _built(
    work: Publication, head: Entry, draft: Draft, *, is_seen: bool
) -> Published | None:
    """Make the entry, and store the packs that it cites; None where it would change nothing.

    In a folder the last pack may still be on its way to the disk: see ``_put``.
    """
    stage = work.stage
    while True:
        renames = stage.renames
        state = await draft.build(stage)
        if state is None:
            return None
        if state.groups:
            state = replace(state, groups=without_dropped(state.groups, state.schema))
        entry = entry_of(
            head, state, draft.members, stage=stage, branch=work.log.branch,
            keeps_schema=draft.keeps_schema,
        )  # fmt: skip
        if not is_seen and runtime.runs_here():
            await work.log.confirm(head)
            is_seen = True
        looking = None if is_seen else asyncio.ensure_future(work.log.confirm(head))
        try:
            entry = await completed(entry, stage, renames=renames, packs_may_follow=True)
        finally:
            if looking is not None:
                await looking
        is_seen = True
        if entry is not None:
            return Published(entry, state)


async def _put(work: Publication, head: Entry, entry: Entry) -> Entry | LostRace:
    """Publish an entry, recording where it may be if no answer confirms it."""
    if fence_of(head).t > work.began_at_fence:
        if work.pin is not None:
            await work.pin.check_age(work.log.store, head)
        await work.stage.check_age(head, advice=work.advice.expired)
    doubt = work.doubt
    before = doubt.seq

    def about_to_be_seen() -> None:
        work.stage.check_synced()
        doubt.seq = entry.seq if before is None else max(before, entry.seq)

    try:
        outcome = await work.log.publish(entry, hint_later=True, after=about_to_be_seen)
    except StorageError as error:
        if not isinstance(error, CommitOutcomeUnknownError):
            doubt.seq = before  # the store refused it: it is nowhere
        raise
    if isinstance(outcome, LostRace):
        doubt.seq = before  # the number is another's, whatever fails from here on
    return outcome


def _stored(entry: Entry, packs: PackReader) -> Published:
    whole = runtime.run(loaded(entry, packs))
    return Published(whole, state_of(whole))


async def _entries_from(log: BranchLog, winner: Entry) -> list[Entry]:
    return [winner, *await log.all_after(winner.seq)]
