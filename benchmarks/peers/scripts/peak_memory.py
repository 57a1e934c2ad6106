"""The most memory that a process and its workers have while a clock runs.

Imported by our own contenders and by scripts that a peer's Python runs: it imports nothing of ours.
"""

from __future__ import annotations

import threading
import time
from typing import Any

RESTING_S = 0.1
GROWN = 1.25  # times what was resident: enough to add up anew what is shared
SHARED_S = 1.0  # how long what is shared is taken to stay as it is


class PeakMemory(threading.Thread):
    """Watch the memory of this process and its children (PSS), while the clock runs.

    The kernel adds PSS up page by page, 12 ms for 550 MB, and took a sixth of the processor time of
    a short epoch when it was asked ten times a second. It knows the resident size (RSS)
    directly. So PSS is read when RSS has grown, and once a second; in between, the size of shared
    memory is assumed to be constant.
    """

    def __init__(self, *, has_workers: bool = True) -> None:
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()
        self.has_workers = has_workers

    def run(self) -> None:
        import psutil

        own = psutil.Process()
        known, shared, asked = 0, 0, 0.0
        while not self.ended.wait(RESTING_S):
            every = [own, *(own.children(recursive=True) if self.has_workers else ())]
            resident = self.add_up(every, lambda one: one.memory_info().rss)
            if resident > GROWN * known or time.monotonic() > asked + SHARED_S:
                known, asked = resident, time.monotonic()
                shared = resident - self.add_up(every, lambda one: one.memory_full_info().pss)
            self.most = max(self.most, resident - shared)

    def add_up(self, processes: list[Any], nbytes_of: Any) -> int:
        import psutil

        total = 0
        for process in processes:
            try:
                total += nbytes_of(process)
            except psutil.Error:
                continue  # it has just ended
        return total
