"""Work of a handle that continues after its call has returned: the compaction of a branch's tail.

    ds.commit() ─► acknowledged ─► Background.begin ─► returns to the user
                                       └─ thread ──────────────────────► entry, or nothing
    the handle's next call that changes the dataset, or close() ─► join() ─┘

Invariants:
- The work never fails the user's call: errors of ours are logged, and lose nothing, as the commit
  that it follows was acknowledged before. Any other error is a defect, and the thread reports it.
- A dataset is not deleted under it: a deletion in this process waits for it first.
- It ends before the interpreter begins to: then threads can no longer be started, on which storage
  relies. Work that takes longer than ``EXIT_TIMEOUT_S`` is cancelled.
- A forked child has the handle but not the thread: there it has nothing to join.
- At most ``AT_ONCE`` run in one process; more are not begun.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Final

from tensorlake.errors import TensorlakeError
from tensorlake.storage import ForkLock, runtime
from tensorlake.versions.log.state import Published

__all__ = ["Background"]

_log = logging.getLogger("tensorlake.versions")

AT_ONCE: Final = 4
"""Compactions of a process at once: a server has many handles."""

EXIT_TIMEOUT_S: Final = 5.0
CANCEL_TIMEOUT_S: Final = 10.0  # a cancelled call waits for its store


class Background:
    """A function that runs in a thread of its own and returns what it published, or nothing."""

    def __init__(self, work: Callable[[], Published | None], *, url: str, what: str) -> None:
        self._work = work
        self.url, self._what = url, what
        self._pid = os.getpid()
        self._scope = runtime.Scope()
        self._published: Published | None = None
        self._thread = threading.Thread(target=self._run, name="tensorlake-tail", daemon=True)

    @classmethod
    def begin(
        cls, work: Callable[[], Published | None], *, url: str, what: str
    ) -> Background | None:
        """Begin, unless the interpreter ends or as much as is allowed is under way.

        Args:
            work: Publishes something, or finds that there is nothing to publish.
            url: URL of the store that it works on.
            what: A description of it, for the log.
        """
        begun = cls(work, url=url, what=what)
        with _lock:
            if not _may_begin():
                return None
            _running.add(begun)
            begun._thread.start()
        return begun

    @staticmethod
    def join_all(url: str) -> None:
        """Wait for all work of this process on a store."""
        for one in list(_running):
            if one.url == url:
                one.join()

    def join(self) -> Published | None:
        """Wait for it, and return what it published; None in a forked child."""
        if self._pid != os.getpid():
            return None
        self._thread.join()
        return self._published

    def end(self) -> None:
        """Wait for it for a while, then cancel it."""
        self._thread.join(EXIT_TIMEOUT_S)
        self._scope.cancel()
        self._thread.join(CANCEL_TIMEOUT_S)

    def _run(self) -> None:
        try:
            with self._scope.entered():
                self._published = self._work()
        except (TensorlakeError, CancelledError) as error:
            reason = str(error).partition("\n")[0] or "it was cancelled"
            _log.info("%s was dropped; nothing is lost: %s", self._what, reason)
        finally:
            with _lock:
                _running.discard(self)


_lock = ForkLock()
_running: set[Background] = set()
_is_watched = False


def _may_begin() -> bool:
    global _is_watched  # noqa: PLW0603 - one per process, set when the first one begins
    if len(_running) >= AT_ONCE or not threading.main_thread().is_alive():
        return False
    if not _is_watched:
        # atexit would be too late: executors take no work any more once the main thread has ended.
        threading._register_atexit(_end_all)  # noqa: SLF001 # pyright: ignore - no public name
        _is_watched = True
    return True


def _end_all() -> None:
    for one in list(_running):
        one.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # the threads belong to the parent
