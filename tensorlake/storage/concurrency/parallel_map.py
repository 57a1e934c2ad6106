"""Map a function over items in several threads, with the results in the items' order.

    caller's thread:  result 0, result 1, … as each is ready     (its own work overlaps)
    threads:          0  2  3  5 …
                       1    4  6 …

For work that releases the interpreter, as compression and reading do. It uses the threads for
blocking I/O, so that a process needs no others; only some of them take part, and the caller does
the items that no thread has begun when their results are due. So the caller, which may be one of
these threads itself, never waits for a free thread, and packs being written always find one. When
the caller stops, by an error or an interrupt, no item is still being processed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar

from tensorlake.storage.concurrency.runtime import submit_work

__all__ = ["side_by_side", "usable_cores"]

S = TypeVar("S")
T = TypeVar("T")

THREADS_MAX: Final = 8
"""Half of the threads for blocking I/O: the others keep writing."""


def side_by_side(work: Callable[[S], T], items: Iterable[S]) -> Generator[T]:
    """Call `work` for each item in one thread per usable core; yield results in order.

    The first error, in the items' order, is raised in place of its result.

    >>> list(side_by_side(str.upper, ["a", "b", "c"]))
    ['A', 'B', 'C']
    """
    asked = deque((item, Future[T]()) for item in items)
    waiting = iter([*asked])  # shared by all threads; each takes the next in one atomic step

    def take() -> None:
        for item, answer in waiting:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work(item))
                except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
                    answer.set_exception(error)
            del answer  # an error's traceback holds this frame, and the answer holds the error

    threads = min(usable_cores(), THREADS_MAX, len(asked) - 1)
    # each in a copy of the caller's context, so that its read counters count these
    begun = [submit_work(partial(copy_context().run, take)) for _ in range(threads)]
    try:
        while asked:
            yield _result(work, *asked.popleft())
    finally:
        asked.clear()  # as above: this frame holds no answer either
        for _ in waiting:  # no longer waited for
            pass
        wait([one for one in begun if not one.cancel()])


def _result(work: Callable[[S], T], item: S, answer: Future[T]) -> T:
    """Wait for an item that a thread has begun; process any other here."""
    try:
        return work(item) if answer.cancel() else answer.result()
    finally:
        del answer


def usable_cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
