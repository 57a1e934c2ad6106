"""A publication by itself: a store whose clock is moved by hand, and work that stores one page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorlake.format import Changes, Entry, PageSink
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import FaultyStore
from tensorlake.versions import BranchLog
from tensorlake.versions.log.state import State, state_of
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.transaction.publish import Doubt, Draft, Outcome, Publication, publish

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
ENTRY = "branches/main/"


class WatchedStore(MemoryStore):
    """Remembers what was synced, as a folder would bring it to disk; its clock is moved by hand."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: self.now_)
        self.now_ = NOON
        self.synced: list[str] = []

    async def sync(self, paths: Sequence[str]) -> None:
        self.synced += paths
        await super().sync(paths)


@dataclass
class Work:
    """A transaction that puts one page in its pack, and says what the head says."""

    store: FaultyStore
    keys: tuple[str, ...] = ()
    stage: PackStage = field(init=False)
    doubt: Doubt = field(default_factory=Doubt)
    prepared: list[tuple[int, list[int]]] = field(default_factory=list[Any])
    verify: Callable[[State], None] | None = None
    says_something: Callable[[Entry], bool] = lambda _head: True

    def __post_init__(self) -> None:
        self.stage = PackStage(self.store)
        self.log = BranchLog(self.store, "main")

    def prepare(self, head: Entry, since: Sequence[Entry]) -> Draft | None:
        self.prepared.append((head.seq, [entry.seq for entry in since]))
        if not self.says_something(head):
            return None

        async def build(sink: PageSink) -> State:
            sink.add(b"page", rows=1, entries=1, height=0)
            return state_of(head)

        members: dict[str, Any] = {"message": "work", "changes": Changes()}
        if self.keys:
            members["keys"] = self.keys
        return Draft(build, members, verify=self.verify, keeps_schema=True)

    def publish(self, head: Entry | None = None, **given: Any) -> Outcome:
        head = self.head() if head is None else head
        packs = PackReader(self.store)
        work = Publication(
            self.log,
            packs,
            self.stage,
            keys=self.keys,
            doubt=self.doubt,
            **{"began_at_fence": 0, **given},
        )
        return publish(work, head, self.prepare)

    def head(self) -> Entry:
        head = run(self.log.head())
        assert head is not None
        return head
