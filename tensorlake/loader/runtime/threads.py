"""Worker threads: a fixed number, one queue of tasks, and a reliable end.

    submit(task, order)  ──►  tasks, lowest order first, then first come first served
                         ──►  a signal for each, which wakes a thread ──► it takes the first task

Tasks are functions without a result that handle their own failures; a task that still raises ends
all work through ``on_crash``, so that no thread waits for it in vain. Threads are daemons.

``stop`` may be called from anywhere, also while an object is being garbage-collected in any thread
and under any lock: it sets a flag and puts signals into a queue whose ``put`` is reentrant. Waiting
for the threads is a separate call, for callers that may wait.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from queue import SimpleQueue
from typing import Protocol, TypeAlias

from tensorlake.loader.runtime.clocks import thread_times

__all__ = ["Processes", "Task", "WorkerThreads"]

Task: TypeAlias = Callable[[], None]
END = None  # the last signal to a thread; all others are the time of a task's arrival


class Processes(Protocol):
    """Processes that the tasks of threads call."""

    def start(self) -> None:
        """Start them."""
        ...

    def stop(self) -> None:
        """End them, without a lock and without waiting."""
        ...

    def join(self, timeout_s: float) -> None:
        """Wait until they have ended."""
        ...


class WorkerThreads:
    """A fixed number of threads that run waiting tasks, the most urgent first."""

    def __init__(
        self,
        count: int,
        *,
        name: str,
        waited: Callable[[float], None] | None = None,
        processes: Processes | None = None,
    ) -> None:
        """Prepare the threads.

        Args:
            count: Number of threads.
            name: Prefix of their names.
            waited: Called with the time that an idle thread took to begin an arrived task: it waits
                for the interpreter's lock.
            processes: Those that the tasks call: they start and end with the threads.
        """
        self.count = count
        self._name = name
        self._waited = waited or _nothing
        self._processes = processes
        self._words: SimpleQueue[float | None] = SimpleQueue()
        self._tasks: list[tuple[int, int, Task]] = []  # a heap; numbers are unique
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._threads: list[threading.Thread] = []

    def start(self, on_crash: Callable[[BaseException], None]) -> None:
        """Start the threads; if the workers are stopped, they end at once."""
        if self._processes is not None:
            self._processes.start()
        for number in range(self.count):
            # only the threads hold on_crash: it leads back to the owner of these workers
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
        """Let running tasks end, and drop the others; takes no lock and does not wait."""
        self._is_stopped = True
        for _ in range(self.count):
            self._words.put(END)
        if self._processes is not None:
            self._processes.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the threads of stopped workers, ``timeout_s`` in total."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._processes is not None:
            self._processes.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            dropped, self._tasks = self._tasks, []
        dropped.clear()  # without the lock: they may hold the last reference to any object

    def is_current(self) -> bool:
        """Return whether the calling thread is one of these."""
        return threading.current_thread() in self._threads

    def _work(self, on_crash: Callable[[BaseException], None]) -> None:
        while self._await_signal():
            task = self._next()
            if task is not None and not self._is_stopped:
                try:
                    task()
                except BaseException as error:  # noqa: BLE001 - passed to the waiting thread
                    on_crash(error)
            del task  # its batch must not live until the next task arrives

    def _await_signal(self) -> bool:
        """Wait for a task, and report how long it had waited before this thread could run."""
        asked, times = time.monotonic(), thread_times()
        came = self._words.get()
        if came is None:
            return False
        late_s = time.monotonic() - max(asked, came)
        self._waited(max(0.0, late_s - thread_times().since(times).ready_s))
        return True

    def _next(self) -> Task | None:
        """Take the first task; None if all were dropped meanwhile."""
        with self._lock:
            return heappop(self._tasks)[2] if self._tasks else None


def _nothing(seconds: float) -> None:
    del seconds
