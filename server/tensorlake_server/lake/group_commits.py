"""Group commit: small appends of clients that come together are published by one commit.

    append ──► queue of the branch ──► up to MOST_MEMBERS, or group_wait_s after the first one
                                            │ one thread per branch
                                            ▼
                                  commit_members: one commit, an outcome for each

While a group is published the next one gathers, so a busy branch has one commit after another, each
with all that came meanwhile. A client is answered when its rows are durable, or refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread

from tensorlake.dataset import commit_members
from tensorlake.errors import TensorlakeError
from tensorlake.storage import LruCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.dataset import Dataset, Member, MemberOutcome
    from tensorlake_server.lake.lake import Lake

__all__ = ["MOST_APPEND_NBYTES", "GroupCommits"]

MOST_APPEND_NBYTES = 128 << 10
"""Bodies of appends that share a commit; a longer one is worth a commit of its own."""

MOST_MEMBERS = 64
MOST_GROUP_NBYTES = 128 << 10
"""Bytes of bodies after which a group waits for no more."""

MOST_DESCRIBED_NBYTES = 12 << 10
"""Bytes of messages and authors in one commit, whose meta has at most 16 KiB."""

DESCRIBED_NBYTES = 64  # of a member, beside its message and author
THREADS = 8  # that publish: one for each branch that is written to
KEPT_BRANCHES = 16  # handles of branches that are written to


@dataclass(slots=True)
class _Waiting:
    member: Member
    nbytes: int
    outcome: asyncio.Future[tuple[MemberOutcome, int]]

    @property
    def described_nbytes(self) -> int:
        texts = self.member.message + (self.member.author or "")
        return DESCRIBED_NBYTES + 6 * len(texts)  # as JSON escapes the worst of them


@dataclass(slots=True)
class _Branch:
    """Appends to one branch that wait; ``is_full`` is set when they wait for no more."""

    waiting: deque[_Waiting] = field(default_factory=deque["_Waiting"])
    is_full: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> list[_Waiting]:
        """Take the members of the next group, in their order."""
        taken: list[_Waiting] = []
        described = 0
        while self.waiting and len(taken) < MOST_MEMBERS:
            described += self.waiting[0].described_nbytes
            if taken and described > MOST_DESCRIBED_NBYTES:
                break
            taken.append(self.waiting.popleft())
        self.is_full.clear()
        return taken


class GroupCommits:
    """The appends that wait, by branch. Used on the event loop.

    Args:
        lake: All of it; who appends was let in before.
        wait_s: How long the first member of a group waits for others.
    """

    def __init__(self, lake: Lake, wait_s: float) -> None:
        self._lake = lake
        self._wait_s = wait_s
        self._branches: dict[tuple[str, str], _Branch] = {}
        self._handles: LruCache[tuple[str, str], Dataset] = LruCache(KEPT_BRANCHES)
        self._threads = CapacityLimiter(THREADS)
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(
        self, name: str, branch: str, member: Member, nbytes: int
    ) -> tuple[MemberOutcome, int]:
        """Publish rows together with those of others; return the outcome, and the rows there are.

        Args:
            name: The dataset.
            branch: The branch.
            member: The rows, their author, message and key.
            nbytes: Bytes of the body.

        Raises:
            TensorlakeError: The branch cannot be opened.
        """
        outcome = asyncio.get_running_loop().create_future()
        key = name, branch
        queue = self._branches.get(key)
        if queue is None:
            queue = self._branches[key] = _Branch()
            task = asyncio.create_task(self._publish_all(key, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.waiting.append(_Waiting(member, nbytes, outcome))
        total = sum(one.nbytes for one in queue.waiting)
        if len(queue.waiting) >= MOST_MEMBERS or total >= MOST_GROUP_NBYTES:
            queue.is_full.set()
        return await outcome

    async def _publish_all(self, key: tuple[str, str], queue: _Branch) -> None:
        """Publish one group after another, until none is left."""
        while queue.waiting:
            try:
                async with asyncio.timeout(self._wait_s):
                    await queue.is_full.wait()
            except TimeoutError:
                pass  # they have waited long enough
            group = queue.take()
            members = [one.member for one in group]
            try:
                found = await to_thread.run_sync(
                    self._published, key, members, limiter=self._threads
                )
            except Exception as error:  # noqa: BLE001 - each of them is answered with it
                for one in group:
                    if not one.outcome.done():
                        one.outcome.set_exception(error)
                continue
            for one, outcome in zip(group, found, strict=True):
                if not one.outcome.done():
                    one.outcome.set_result(outcome)
        del self._branches[key]

    def _published(
        self, key: tuple[str, str], members: Sequence[Member]
    ) -> list[tuple[MemberOutcome, int]]:
        """Publish a group, on a handle that is kept; one that fails is opened again, once."""
        kept = self._handles.get(key)
        if kept is not None:
            try:
                found = self._outcomes(kept, members)
            except TensorlakeError:  # the dataset may have been created again
                found = []
            if any(outcome.commit is not None for outcome, _ in found):
                return found
            self._handles.discard(lambda one: one == key)
        dataset = self._lake.begin(*key).dataset
        found = self._outcomes(dataset, members)
        if any(outcome.commit is not None for outcome, _ in found):
            self._handles.put(key, dataset)
        return found

    def _outcomes(
        self, dataset: Dataset, members: Sequence[Member]
    ) -> list[tuple[MemberOutcome, int]]:
        found = commit_members(dataset, members)
        return [(outcome, self._rows_at(dataset, outcome)) for outcome in found]

    def _rows_at(self, dataset: Dataset, outcome: MemberOutcome) -> int:
        if outcome.commit is None or outcome.commit.version == dataset.version:
            return len(dataset)
        return len(dataset.at(outcome.commit.version))
