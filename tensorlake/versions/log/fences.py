"""Fences: the collector's marks in the logs of branches.

    … ─ commit 11 ─ fence 12 {t, expired_before} ─ commit 13 ─ …

A fence is an entry like any other, published at the next free number, so commits are ordered
relative to it: a commit based on it, or on any later entry, must not have been staged by store time
``t``, and the versions below ``expired_before`` have expired. It repeats the body of the commit it
is based on (``of``), or has none if the branch has no commit yet.

Invariant: both numbers never decrease along a log, for any order of writers; each entry carries the
largest of its log (docs/reference/format.md, "Garbage", rule 1).
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlake.errors import ConflictError
from tensorlake.format import Changes, Entry, Fence, new_txid
from tensorlake.versions.log.entries import author, check_writable, fence_of, following, time_in
from tensorlake.versions.log.log import BranchLog

__all__ = ["Fenced", "append_fence"]

RACES_MAX = 1000
"""Lost races after which fencing fails: a log that grows this fast would cause an endless loop."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """A log after fencing.

    Attributes:
        fence: The fence that binds its writers from here on.
        is_ended: Whether the branch had already ended: then it does not get a fence.
        number: The entry appended; None if the log already carried the fence, or has ended.
    """

    fence: Fence
    is_ended: bool
    number: int | None


async def append_fence(log: BranchLog, head: Entry, fence: Fence) -> Fenced:
    """Make a log carry at least ``fence``, retrying after races lost to its writers.

    Args:
        log: The log of a branch.
        head: Its newest entry, as far as the caller knows.
        fence: The minimum to carry; values that are already higher in the log are kept.

    Raises:
        UnsupportedFeatureError: The log needs writer features that this version lacks.
        ConflictError: The log kept moving.
    """
    if head.kind == "end":
        return Fenced(fence_of(head), is_ended=True, number=None)
    expired_before = fence_of(head).expired_before
    for _ in range(RACES_MAX):
        carried = fence_of(head)
        raised = _largest(carried, fence)
        if head.kind == "end":
            # It ended in between. It counts as live: data that it showed at the start stays marked.
            return Fenced(Fence(carried.t, expired_before), is_ended=False, number=None)
        if raised == carried:
            return Fenced(carried, is_ended=False, number=None)
        check_writable(head, url=log.store.url)
        outcome = await log.publish(await _fence_entry(log, head, raised))
        if isinstance(outcome, Entry):
            await log.write_hint(outcome)
            return Fenced(raised, is_ended=False, number=outcome.seq)
        head = await log.newest_from(outcome.winner)
    raise ConflictError(
        f"{log.branch!r} of {log.store.url!r} moved {RACES_MAX} times while it was being fenced;"
        " try again when there are fewer commits",
        branch=log.branch,
    )


def _largest(carried: Fence, fence: Fence) -> Fence:
    return Fence(max(carried.t, fence.t), max(carried.expired_before, fence.expired_before))


async def _fence_entry(log: BranchLog, head: Entry, fence: Fence) -> Entry:
    return following(
        head,
        branch=log.branch,
        now=await time_in(log.store),
        kind="fence",
        txid=new_txid(),
        author=author(log.store),
        message="",
        of=head.seq if head.kind == "commit" else head.of,
        changes=Changes(),
        fence=fence,
    )
