"""A lock that a forked child finds free.

A thread that holds a lock while another forks does not exist in the child: the lock would never be
released there. The state that such a lock guards must be consistent between any two operations on
it, as a cache is.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final

__all__ = ["ForkLock"]

_locks: Final[weakref.WeakSet[ForkLock]] = weakref.WeakSet()


class ForkLock:
    """A reentrant lock, for `with`; free again in every forked child.

    Where it is taken for a microsecond, `with lock.current:` avoids two calls of Python functions.
    """

    __slots__ = ("__weakref__", "current")

    def __init__(self) -> None:
        self.current = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self.current.acquire()

    def __exit__(self, *error: object) -> None:
        self.current.release()

    def free(self) -> None:
        """Forget the holder, a thread of the parent."""
        self.current = threading.RLock()


def _free_all() -> None:
    for lock in list(_locks):
        lock.free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
