"""Batches of one run computed side by side: NumPy lets go of the interpreter while it computes.

Results come in the order of their batches, as if computed one after the other. Three things run in
the calling thread: conditions so cheap that handing a batch over costs as much; functions of the
user, which may not be thread-safe; and queries inside expressions, which are runs of their own.

Work on all rows at once is left while it is under way: a sort of 10⁷ rows is one call of NumPy that
nothing interrupts. It runs in a thread of its own; the calling thread waits, looks at the deadline,
and receives Ctrl-C. Where the run ends, it ends there and then; the thread's result is dropped, and
it stops at its next charge of memory, or at the end of the call that it is in.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from threading import Event, Thread
from typing import TypeVar

from tensorlake_query.values.bound import Apply, Bound, CorpusRef, QueryRef, walk_bound
from tensorlake_query.values.memory import Account, TooMuchMemoryError

Item = TypeVar("Item")
Made = TypeVar("Made")

# operations on each row: one comparison of a label is over before another thread has the batch
THREADED_COST = 4.0
WATCHED_ROWS = 50_000  # of fewer, work is over in some 10 ms
POLL_S = 0.02
MAX_THREADS = 8  # of one query: a server answers several at once


class Workers:
    """The threads of one run; none is started for a run of a single batch."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def mapped(
        self, function: Callable[[Item], Made], items: Iterable[Item], exprs: Sequence[Bound]
    ) -> Iterator[tuple[Item, Made]]:
        """Yield each item with what the function makes of it, in order.

        The first item is done alone: a LIMIT may end the run there. When the caller stops, work in
        progress is awaited, so that no thread outlives its run.

        Args:
            function: evaluates expressions for an item; called in several threads.
            items: the work; read by the caller's thread, a few ahead.
            exprs: what the function evaluates.
        """
        iterator = iter(items)
        for item in iterator:
            yield item, function(item)
            break
        if not are_threadable(exprs):
            yield from ((item, function(item)) for item in iterator)
            return
        begun: deque[tuple[Item, Future[Made]]] = deque()
        try:
            for item in iterator:
                context = copy_context()  # what the caller counts, and how NumPy is to warn
                begun.append((item, self._started().submit(context.run, function, item)))
                if len(begun) > thread_count():
                    yield _finished(begun, function)
            while begun:
                yield _finished(begun, function)
        finally:
            for _, future in begun:
                future.cancel()
            for _, future in begun:
                if not future.cancelled():
                    future.exception()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(thread_count(), "tensorlake-query")
        return self._pool


def _finished(
    begun: deque[tuple[Item, Future[Made]]], function: Callable[[Item], Made]
) -> tuple[Item, Made]:
    """Return what was begun first; once more, alone, where others held the memory it needs."""
    item, future = begun.popleft()
    try:
        return item, future.result()
    except TooMuchMemoryError:
        wait([other for _, other in begun])
    del future  # and with it what its error refers to
    return item, function(item)


def are_threadable(exprs: Sequence[Bound]) -> bool:
    """Return whether expressions may be evaluated in several threads at once, and gain by it."""
    nodes = [node for expr in exprs for node in walk_bound(expr)]
    calls = [node for node in nodes if isinstance(node, Apply)]
    return sum(call.cost for call in calls) >= THREADED_COST and not any(
        isinstance(node, QueryRef | CorpusRef) or (isinstance(node, Apply) and node.role == "user")
        for node in nodes
    )


def watched(work: Callable[[], Made], check: Callable[[], None], account: Account) -> Made:
    """Return the result of work, or raise what `check` raises while it is under way.

    Args:
        work: reads nothing from a source, and calls no function of the user.
        check: called from time to time.
        account: closed when the work is left.
    """
    made: list[Made] = []
    failed: list[BaseException] = []
    is_over = Event()

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)
        finally:
            is_over.set()

    context = copy_context()
    Thread(target=context.run, args=(run,), name="tensorlake-query-step", daemon=True).start()
    try:
        while not is_over.wait(POLL_S):
            check()
    except BaseException:
        account.close()
        raise
    if failed:
        raise failed.pop()
    return made.pop()


def thread_count() -> int:
    """Return how many threads a run may use."""
    known = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(known(0)) if known else os.cpu_count() or 1
    return min(cores, MAX_THREADS)
