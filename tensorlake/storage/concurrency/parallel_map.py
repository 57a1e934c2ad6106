"""Map a function over items in several threads, with the results in the items' order.

    caller's thread:  result 0, result 1, … as each is due       (its own work overlaps)
    threads:          1  2  4 …
                      0  3  5 …          at most `ahead` of them beyond the one that is due

For work that releases the interpreter, as compression, decoding and reading do. Items are taken
from their iterable by the caller's thread, when they are begun.

Without a pool, the threads are those for blocking I/O, so that a process needs no others; only some
of them take part, and the caller does what no thread has begun when it is due, beginning with the
first item. So the caller, which may be one of these threads itself, never waits for a free thread,
and packs being written always find one. When it stops, by an error or an interrupt, no item is
still being processed. Items in a pool of the caller's begin with the call, and those in progress
when the caller stops end with the pool.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Generic, TypeVar

from tensorlake.storage.concurrency.runtime import submit_work

__all__ = ["parallel_map", "usable_cores"]

S = TypeVar("S")
T = TypeVar("T")

THREADS_MAX: Final = 8
"""Half of the threads for blocking I/O: the others keep writing."""


def parallel_map(
    work: Callable[[S], T],
    items: Iterable[S],
    *,
    pool: Executor | None = None,
    ahead: int | None = None,
) -> Generator[T]:
    """Call `work` for each item; yield results in the items' order.

    The first error, in the items' order, is raised in place of its result; no item is begun after.

    Args:
        work: Called in a copy of the caller's context, so that its read counters count.
        items: The items.
        pool: Its threads do the work; without one, the threads for blocking I/O and the caller.
        ahead: How many items are begun beyond the one that is due: one per usable core.

    >>> list(parallel_map(str.upper, ["a", "b", "c"]))
    ['A', 'B', 'C']
    """
    most = min(usable_cores(), THREADS_MAX) if ahead is None else ahead
    items_begun = _Begun(work, iter(items), pool, most)
    if pool is not None:
        items_begun.refill()
    return _results(items_begun)


@dataclass(slots=True)
class _Begun(Generic[S, T]):
    """Items that are begun, with their results to come, in order."""

    work: Callable[[S], T]
    waiting: Iterator[S]
    pool: Executor | None
    ahead: int
    queue: deque[tuple[S, Future[T]]] | None = None

    def refill(self) -> bool:
        """Begin items; return whether one is due."""
        queue = self.queue
        if queue is None:
            queue = self.queue = deque()
            if self.pool is None:  # the caller's own: no thread is needed for a single item
                queue.extend((item, Future()) for item in islice(self.waiting, 1))
        submit = submit_work if self.pool is None else self.pool.submit
        for item in islice(self.waiting, max(0, self.ahead + 1 - len(queue))):
            queue.append((item, Future()))  # first: an interrupt leaves no item that runs unknown
            submit(partial(copy_context().run, _process, self.work, *queue[-1]))
        return len(queue) > 0

    def next_result(self) -> T:
        """Wait for the item that is due, or process it here; it is in the queue until then."""
        assert self.queue
        item, future = self.queue[0]
        try:
            result = self.work(item) if self.pool is None and future.cancel() else future.result()
            self.queue.popleft()
            return result
        finally:
            del future  # as in _process

    def stop(self) -> None:
        """Leave out what no thread has begun; wait for the rest in threads that are not ours."""
        queue, self.queue = self.queue or (), None
        running = [future for _, future in queue if not future.cancel()]
        if self.pool is None:
            wait(running)


def _results(begun: _Begun[S, T]) -> Generator[T]:
    try:
        while begun.refill():
            yield begun.next_result()
    finally:
        begun.stop()


def _process(work: Callable[[S], T], item: S, future: Future[T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work(item))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
            future.set_exception(error)
    del future  # an error's traceback holds this frame, and the future holds the error


def usable_cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
