"""Hedged reads: what takes unusually long is asked for once more, and the first answer is taken.

A store answers most requests alike and a few much later, and one batch waits for the slowest of all
its chunks (Dean and Barroso, "The Tail at Scale", CACM 2013). So a read is asked for again when it
has taken three times as long as all but one in twenty did lately:

    first    ────────────────────────────────────▶  cancelled
    second             └ after 3 × the 95th percentile ───▶ answer

One read in twenty at most is: a store that slows down as a whole is not asked for twice as much.
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

RECENT = 128  # answers that say what is usual
LEAST_KNOWN = 16  # with fewer nothing is unusual
USUAL = 0.95  # of the answers
SLOW = 3.0  # times as long
LEAST_S = 0.25  # less is not worth a request; and how often a read that takes longer is looked at
MOST_SHARE = 0.05  # of the reads


class Hedge:
    """Reads of one pass; used on the storage loop alone."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._took: deque[float] = deque(maxlen=RECENT)
        self._reads = 0
        self._asked_again = 0

    def _is_slow(self, took_s: float) -> bool:
        """Whether a read of that age is asked for again; false while nobody knows what is usual."""
        if len(self._took) < LEAST_KNOWN or self._asked_again >= self._reads * MOST_SHARE:
            return False
        usual = sorted(self._took)[int(len(self._took) * USUAL)]
        return took_s >= SLOW * usual

    async def read(self, ask: Ask) -> Buffer:
        """Read, and once more where it takes unusually long.

        Args:
            ask: Begins the read, each time it is called.

        Raises:
            Exception: What the last read that was still under way raised.
        """
        self._reads += 1
        began = time.monotonic()
        running: set[asyncio.Future[Buffer]] = {asyncio.ensure_future(ask())}
        try:
            while not (await asyncio.wait(running, timeout=LEAST_S))[0]:
                if not self._is_slow(time.monotonic() - began):
                    continue  # what is usual may change meanwhile
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
    """Return the first answer that is no error, else raise the last error."""
    waiting = set(running)
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        failed = [one for one in done if one.cancelled() or one.exception() is not None]
        good = done.difference(failed)
        if good or not waiting:
            return (good or done).pop().result()
