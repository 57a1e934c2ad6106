"""Worker threads: as many as asked, one queue of tasks, and a sure end.

Tasks are functions without result that deal with their own failures; one that still raises ends
the work of all through ``on_crash``, so that nobody waits for it in vain. Threads are daemons and
hold no reference to the loader: forgetting a loader ends them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeAlias

__all__ = ["Task", "WorkerThreads"]

Task: TypeAlias = Callable[[], None]


class WorkerThreads:
    """A fixed number of threads that run tasks in the order given."""

    def __init__(self, count: int, *, name: str, on_crash: Callable[[BaseException], None]) -> None:
        self.count = count
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._is_closed = threading.Event()
        self._threads = [
            threading.Thread(
                target=_work,
                args=(self._tasks, self._is_closed, on_crash),
                name=f"{name}-{number}",
                daemon=True,
            )
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> None:
        """Run a task in one of the threads; after ``close`` it is dropped."""
        if not self._is_closed.is_set():
            self._tasks.put(task)

    def close(self, timeout_s: float) -> None:
        """Drop the tasks that wait, let those under way end, and wait for the threads."""
        self._is_closed.set()
        try:
            while True:
                self._tasks.get_nowait()
        except Empty:
            pass  # nothing waits any more
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)


def _work(
    tasks: SimpleQueue[Task | None],
    is_closed: threading.Event,
    on_crash: Callable[[BaseException], None],
) -> None:
    while True:
        task = tasks.get()
        if task is None:
            return
        if is_closed.is_set():
            continue
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the task
            on_crash(error)
        del task  # its batch must not live until the next task comes
