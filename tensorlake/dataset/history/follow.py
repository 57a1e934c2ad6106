"""``ds.follow()``: the commits of a branch, as they are published.

A branch's log has no gaps, so looking for the next entry is one request, whatever the dataset's
size, and no commit is missed by a reader that continues after the last one it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import TIMEOUT_MAX

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.commit import Commit, tensor_names
from tensorlake.errors import InvalidInputError, shown
from tensorlake.format import Entry
from tensorlake.quantities import Duration, seconds_of
from tensorlake.storage import runtime
from tensorlake.versions import BranchLog

__all__ = ["follow"]


def follow(
    session: Session,
    *,
    poll: Duration = 1.0,
    timeout: Duration | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Commit]:
    """Yield the commits after the handle's version; see ``Dataset.follow``."""
    interval = seconds_of(poll, what="poll")
    if not 0 < interval <= TIMEOUT_MAX:
        raise InvalidInputError(
            f"poll={shown(poll)}: give a duration above 0, such as 1.0 or '5s'",
            argument="poll",
            actual=poll,
        )
    quiet = None if timeout is None else seconds_of(timeout, what="timeout")
    log = BranchLog(session.store, session.branch, follows_hint=session.mirror_of is not None)
    return _commits(log, session.head, interval, quiet, sleep, clock)


def _commits(
    log: BranchLog,
    head: Entry,
    poll_s: float,
    timeout_s: float | None,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Iterator[Commit]:
    # Reads the pages of schemas that are too large for their entries.
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
