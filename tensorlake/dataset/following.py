"""``ds.follow()``: the commits of a branch, as they come.

A branch's log has no gaps, so looking for the next entry is one request, whatever the dataset's
size, and a commit is never missed: who goes on from the last one that they saw sees them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tensorlake.dataset.history import Commit, tensor_names
from tensorlake.dataset.session import Session
from tensorlake.errors import InvalidInputError
from tensorlake.format import Entry
from tensorlake.storage import runtime
from tensorlake.versions import BranchLog

__all__ = ["follow"]


def follow(
    session: Session,
    *,
    poll_s: float = 1.0,
    timeout_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Commit]:
    """Yield the commits after the handle's version; see ``Dataset.follow``."""
    if poll_s <= 0:
        raise InvalidInputError(f"follow(poll_s={poll_s!r})\ngive a time above 0", actual=poll_s)
    log = BranchLog(session.store, session.branch, follows_hint=session.mirror_of is not None)
    return _commits(log, session.head, poll_s, timeout_s, sleep, clock)


def _commits(
    log: BranchLog,
    head: Entry,
    poll_s: float,
    timeout_s: float | None,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Iterator[Commit]:
    # For commits whose schema is too large for their entries.
    names = tensor_names(head)
    seen, quiet_since = head.seq, clock()
    while True:
        for entry in runtime.run(log.all_after(seen)):
            seen, quiet_since = entry.seq, clock()
            if entry.kind == "commit":
                yield Commit.of_entry(entry, log.branch, names=names)
            if entry.kind == "end":
                return
        if timeout_s is not None and clock() - quiet_since >= timeout_s:
            return
        sleep(poll_s)
