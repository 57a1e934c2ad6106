"""Python's cyclic garbage collector, held still: what is freed meanwhile was in no circle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from tensorlake.storage import runtime

LONG_S = 60.0


@contextmanager
def no_collection() -> Iterator[None]:
    """What is freed here is freed by its last reference, in the thread that dropped it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect_in_the_storage_loop() -> None:
    """Collect circles in the thread of storage's event loop, as whatever it allocates next may."""

    async def collect() -> None:
        gc.collect()

    runtime.run(collect(), timeout_s=LONG_S)
