"""Hedged reads: an unusually slow request is repeated, and the first answer is used.

A store answers most requests in similar time and a few much later, and one batch waits for the
slowest of all its chunks (Dean and Barroso, "The Tail at Scale", CACM 2013). So a read is repeated
when it has taken three times the recent 95th percentile:

    first    ────────────────────────────────────▶  cancelled
    second             └ after 3 × the 95th percentile ───▶ answer

At most one read in twenty is repeated: a store that slows down as a whole does not get double load.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.types import Buffer

__all__ = ["Hedge"]

Ask: TypeAlias = "Callable[[], Coroutine[Any, Any, Buffer]]"

RECENT = 128  # answers that define the usual time
LEAST_KNOWN = 16  # with fewer no time is unusual
USUAL = 0.95  # of the answers
SLOW = 3.0  # times as long
LEAST_S = 0.25  # a shorter wait is not worth a request; also the interval of checks
MOST_SHARE = 0.05  # of the reads


class Hedge:
    """Reads of one pass; used on the storage loop alone."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._took: deque[float] = deque(maxlen=RECENT)
        self._reads = 0
        self._asked_again = 0

    def _is_slow(self, took_s: float) -> bool:
        """Return whether a read of that age is repeated; False until the usual time is known."""
        if len(self._took) < LEAST_KNOWN or self._asked_again >= self._reads * MOST_SHARE:
            return False
        usual = sorted(self._took)[int(len(self._took) * USUAL)]
        return took_s >= SLOW * usual

    async def read(self, ask: Ask) -> Buffer:
        """Read, and repeat the read if it takes unusually long.

        Args:
            ask: Starts the read, each time it is called.

        Raises:
            Exception: The exception of the last read in flight.
        """
        self._reads += 1
        began = time.monotonic()
        running: set[asyncio.Future[Buffer]] = {asyncio.ensure_future(ask())}
        try:
            while not (await asyncio.wait(running, timeout=LEAST_S))[0]:
                if not self._is_slow(time.monotonic() - began):
                    continue  # the usual time may change meanwhile
                self._asked_again += 1
                self._counters.add(hedged=1, requests=1)
                running.add(asyncio.ensure_future(ask()))
                break
            answer = await _first_answer(running)
        finally:
            for one in running:
                one.cancel()
        self._took.append(time.monotonic() - began)
        return answer


async def _first_answer(running: set[asyncio.Future[Buffer]]) -> Buffer:
    """Return the first successful answer, else raise the last error."""
    waiting = set(running)
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        failed = [one for one in done if one.cancelled() or one.exception() is not None]
        good = done.difference(failed)
        if good or not waiting:
            return (good or done).pop().result()
