"""Work for many items in several threads, its answers in the items' order.

    caller's thread:  answer 0, answer 1, … as each is there     (what it does meanwhile overlaps)
    threads:          0  2  3  5 …
                       1    4  6 …

For work that gives the interpreter away, as compressing and reading do. The threads are those for
blocking I/O, so that a process has no others; few of them take part, and what none of them has
begun when its answer is due, the caller does. So nobody waits for a thread that is not there: the
caller may be one of them itself, and packs on their way to a disk always find one. When the caller
stops, by an error or an interrupt, nothing of it is still being done.
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
"""Half of those for blocking I/O: the others keep writing."""


def side_by_side(work: Callable[[S], T], items: Iterable[S]) -> Generator[T]:
    """Do work for each item in as many threads as there are processors; yield in order.

    The first error, in the items' order, is raised where its answer would be.

    >>> list(side_by_side(str.upper, ["a", "b", "c"]))
    ['A', 'B', 'C']
    """
    asked = deque((item, Future[T]()) for item in items)
    waiting = iter([*asked])  # taken from by all threads, each time in one atomic step

    def take() -> None:
        for item, answer in waiting:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work(item))
                except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
                    answer.set_exception(error)
            del answer  # an error's traceback holds this frame, and the answer holds the error

    threads = min(usable_cores(), THREADS_MAX, len(asked) - 1)
    # each in a copy of the caller's context: what counts its reads counts these
    begun = [submit_work(partial(copy_context().run, take)) for _ in range(threads)]
    try:
        while asked:
            yield _result(work, *asked.popleft())
    finally:
        asked.clear()  # as above: this frame holds no answer either
        for _ in waiting:  # nobody waits for these any more
            pass
        wait([one for one in begun if not one.cancel()])


def _result(work: Callable[[S], T], item: S, answer: Future[T]) -> T:
    """Wait for what a thread has begun; do here what none has, and now none will."""
    try:
        return work(item) if answer.cancel() else answer.result()
    finally:
        del answer


def usable_cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
