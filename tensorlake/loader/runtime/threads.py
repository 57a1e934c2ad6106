"""Worker threads: as many as asked, one queue of tasks, and a sure end.

    submit(task, order)  ──►  tasks, lowest order first, then first come first served
                         ──►  a word for each, which wakes a thread ──► it takes the first task

Tasks are functions without result that deal with their own failures; one that still raises ends
the work of all through ``on_crash``, so that nobody waits for it in vain. Threads are daemons.

``stop`` may be called from anywhere, also where an object is being collected, in whatever thread
and under whatever lock that happens: it sets a flag and puts words into a queue whose ``put`` is
made for that. Waiting for the threads is another call, for those who may wait.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from queue import SimpleQueue
from typing import TypeAlias

from tensorlake.loader.runtime.clocks import thread_times

__all__ = ["Task", "WorkerThreads"]

Task: TypeAlias = Callable[[], None]
END = None  # the last word to a thread; all others are the moment of a task's arrival


class WorkerThreads:
    """A fixed number of threads that run tasks, the most urgent of those that wait first."""

    def __init__(
        self, count: int, *, name: str, waited: Callable[[float], None] | None = None
    ) -> None:
        """Prepare the threads.

        Args:
            count: How many.
            name: What their names begin with.
            waited: Told how long a thread that was idle took to begin a task that had come: it
                waits for the interpreter's lock.
        """
        self.count = count
        self._name = name
        self._waited = waited or _nothing
        self._words: SimpleQueue[float | None] = SimpleQueue()
        self._tasks: list[tuple[int, int, Task]] = []  # a heap; no two have one number
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._threads: list[threading.Thread] = []

    def start(self, on_crash: Callable[[BaseException], None]) -> None:
        """Start the threads; those of workers that are stopped end at once."""
        for number in range(self.count):
            # nothing but the threads holds on_crash: it leads back to whom these workers belong
            thread = threading.Thread(
                target=self._work, args=(on_crash,), name=f"{self._name}-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def submit(self, task: Task, *, order: int = 0) -> None:
        """Run a task in one of the threads, lower orders first; after ``stop`` it is dropped."""
        if not self._is_stopped:
            with self._lock:
                heappush(self._tasks, (order, next(self._numbers), task))
            self._words.put(time.monotonic())

    def stop(self) -> None:
        """Let tasks under way end, and drop the others; takes no lock and waits for nobody."""
        self._is_stopped = True
        for _ in range(self.count):
            self._words.put(END)

    def join(self, timeout_s: float) -> None:
        """Wait for the threads of workers that are stopped, all in all so long."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            dropped, self._tasks = self._tasks, []
        dropped.clear()  # without the lock: they may hold the last reference to anything

    def is_current(self) -> bool:
        """Whether the calling thread is one of these."""
        return threading.current_thread() in self._threads

    def _work(self, on_crash: Callable[[BaseException], None]) -> None:
        while self._await_word():
            task = self._next()
            if task is not None and not self._is_stopped:
                try:
                    task()
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
                    on_crash(error)
            del task  # its batch must not live until the next task comes

    def _await_word(self) -> bool:
        """Wait for a task, and tell how long it was there before this thread could go on."""
        asked, times = time.monotonic(), thread_times()
        came = self._words.get()
        if came is None:
            return False
        late_s = time.monotonic() - max(asked, came)
        self._waited(max(0.0, late_s - thread_times().since(times).ready_s))
        return True

    def _next(self) -> Task | None:
        """Take the first task; None where all were dropped meanwhile."""
        with self._lock:
            return heappop(self._tasks)[2] if self._tasks else None


def _nothing(seconds: float) -> None:
    del seconds
