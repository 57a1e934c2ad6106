"""Hedged reads: an unusually slow request is repeated, and the first answer is used.

A store answers most requests in similar time and a few much later, and one batch waits for the
slowest of all its requests (Dean and Barroso, "The Tail at Scale", CACM 2013). So a request is
repeated when it has taken three times the recent 95th percentile:

    one range         ───────────────────────────────▶  cancelled
    the same             └ 3 × the 95th percentile ──▶ answer

    eight in a call   ───────────────────────────────▶  cancelled
    each alone           └ ───────▶ ──▶ ──▶ …           answers; each is hedged again

A store is asked for small ranges by calls of up to eight requests, which cost little more than one.
A call is over with its slowest request: of *n* requests of which 95 % take the usual time it does
with a probability of 0.95ⁿ, and that quantile of calls is the 95th percentile of requests.

At most one request in five is repeated: a store that slows down as a whole does not get twice the
load.
The hedge is below the readers (``PackReader``): chunks, rows, parts of samples and headers alike.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.types import Buffer

__all__ = ["Hedge"]

Ranges: TypeAlias = Sequence[tuple[int, int]]
Ask: TypeAlias = "Callable[[Ranges], Awaitable[list[Buffer]]]"

RECENT = 128  # calls that define the usual time
LEAST_KNOWN = 16  # with fewer no time is unusual
USUAL = 0.95  # of the requests
SLOW = 3.0  # times as long
LEAST_S = 0.25  # a shorter wait is not worth a request; also the interval of checks
MOST_SHARE = 0.2  # of the requests: if 1 % are slow, 8 % of calls of eight are late
LARGE_NBYTES = 1 << 20  # of a request, whose time follows from its bytes


class Hedge:
    """Reads of one pass; used on the storage loop alone."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        # seconds and requests of calls: of small requests, and of large ones
        self._took: tuple[deque[tuple[float, int]], ...] = (
            deque(maxlen=RECENT),
            deque(maxlen=RECENT),
        )
        self._requests = 0
        self._repeated = 0

    async def read(self, ask: Ask, ranges: Ranges) -> list[Buffer]:
        """Read ranges by one call, and repeat their requests if it takes unusually long.

        Args:
            ask: Requests ranges, each time it is called.
            ranges: Ranges [start, stop), each of which is a request.

        Raises:
            Exception: The exception of the last read in flight.
        """
        count = len(ranges)
        nbytes = sum(stop - start for start, stop in ranges)
        recent = self._took[nbytes >= LARGE_NBYTES * count]
        self._requests += count
        began = time.monotonic()
        running: set[asyncio.Future[list[Buffer]]] = {asyncio.ensure_future(ask(ranges))}
        try:
            while not (await asyncio.wait(running, timeout=LEAST_S))[0]:
                if not self._is_slow(time.monotonic() - began, recent):
                    continue  # the usual time may change meanwhile
                self._repeated += count
                self._counters.add(hedged=count, requests=count)
                running.add(asyncio.ensure_future(self._again(ask, ranges)))
                break
            answer = await _first_answer(running)
        finally:
            for one in running:
                one.cancel()
        recent.append((time.monotonic() - began, count))
        return answer

    async def _again(self, ask: Ask, ranges: Ranges) -> list[Buffer]:
        """Request ranges one by one: which of them is late is not known."""
        if len(ranges) == 1:
            return await ask(ranges)
        each = await asyncio.gather(*(self.read(ask, [one]) for one in ranges))
        return [*chain.from_iterable(each)]

    def _is_slow(self, took_s: float, recent: deque[tuple[float, int]]) -> bool:
        """Return whether a call of that age is repeated; False until the usual time is known."""
        if len(recent) < LEAST_KNOWN or self._repeated >= self._requests * MOST_SHARE:
            return False
        in_time = int(sum(USUAL**count for _, count in recent))
        usual_s, _ = sorted(recent)[min(in_time, len(recent) - 1)]
        return took_s >= SLOW * usual_s


async def _first_answer(running: set[asyncio.Future[list[Buffer]]]) -> list[Buffer]:
    """Return the first successful answer, else raise the last error."""
    waiting = set(running)
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        failed = [one for one in done if one.cancelled() or one.exception() is not None]
        good = done.difference(failed)
        if good or not waiting:
            return (good or done).pop().result()
