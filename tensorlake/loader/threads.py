"""Worker threads: as many as asked, one queue of tasks, and a sure end.

Tasks are functions without result that deal with their own failures; one that still raises ends
the work of all through ``on_crash``, so that nobody waits for it in vain. Threads are daemons.

``stop`` may be called from anywhere, also where an object is being collected, in whatever thread
and under whatever lock that happens: it sets a flag and puts words into a queue whose ``put`` is
made for that. Waiting for the threads is another call, for those who may wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeAlias

__all__ = ["Task", "WorkerThreads"]

Task: TypeAlias = Callable[[], None]


class WorkerThreads:
    """A fixed number of threads that run tasks in the order given."""

    def __init__(self, count: int, *, name: str) -> None:
        self.count = count
        self._name = name
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
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

    def submit(self, task: Task) -> None:
        """Run a task in one of the threads; after ``stop`` it is dropped."""
        if not self._is_stopped:
            self._tasks.put(task)

    def stop(self) -> None:
        """Let tasks under way end, and drop the others; takes no lock and waits for nobody."""
        self._is_stopped = True
        for _ in range(self.count):
            self._tasks.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the threads of workers that are stopped, all in all so long."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        try:
            while True:
                self._tasks.get_nowait()  # a task that came while it was stopped holds its group
        except Empty:
            pass  # nothing waits any more
        for thread in self._threads:
            if thread.is_alive():
                self._tasks.put(None)  # for when it comes back from its task

    def is_current(self) -> bool:
        """Whether the calling thread is one of these."""
        return threading.current_thread() in self._threads

    def _work(self, on_crash: Callable[[BaseException], None]) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            if not self._is_stopped:
                try:
                    task()
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
                    on_crash(error)
            del task  # its batch must not live until the next task comes
