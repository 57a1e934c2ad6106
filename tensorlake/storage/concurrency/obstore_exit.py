"""Wait for obstore's threads before the interpreter exits.

A thread of obstore that delivers an answer needs the interpreter for a moment longer than the
caller who receives it.  If the process ends in that moment, the interpreter refuses the thread,
which aborts the process (7 of 100 that exited right after their last request).  So every future of
obstore is watched by a weak reference; at exit we cancel pending requests and wait until obstore
has released all of them.
"""

from __future__ import annotations

import atexit
import gc
import time
from functools import cache
from typing import Any, Final, TypeVar
from weakref import WeakSet

import obstore

from tensorlake.storage.concurrency.runtime import stop

T = TypeVar("T")

PAUSES: Final = 2000  # two seconds; longer on a busy machine
PAUSE_S: Final = 0.001  # releases the interpreter to waiting threads

_pending: WeakSet[Any] = WeakSet()  # Any: obstore's own awaitables


def watched(awaitable: T) -> T:
    """Return a future of obstore, tracked until obstore has released it."""
    _register()
    _pending.add(awaitable)
    return awaitable


def settle() -> None:
    """Cancel pending requests and wait, at most `PAUSES`, until no thread needs the interpreter."""
    stop()
    if _pending:
        gc.collect()  # a future that failed is in a cycle with its error's traceback
    for _ in range(PAUSES):
        if not _pending:
            return
        time.sleep(PAUSE_S)
        obstore.Bytes(b"")  # any call makes obstore drop the references it could not drop before


@cache
def _register() -> None:
    atexit.register(settle)
