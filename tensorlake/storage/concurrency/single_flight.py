"""Share one read among all callers that request the same object while it is in flight.

    first caller   ──►  starts the read  ──┐
    during it      ──►  waits as well    ──┴──►  value or error, for each of them
    after it       ──►  starts another: nothing is cached of a read that has ended

A caller that is cancelled does not affect the others; when the last one is cancelled, so is the
read, which has ended before that caller continues. All callers get the same error: the store below
has retried what can be retried, and a later call starts a new read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tensorlake.storage.concurrency.runtime import to_loop

__all__ = ["SingleFlight"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Flight(Generic[T]):
    """A read in flight."""

    task: asyncio.Task[T]
    waiting: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether it may be joined: the reads of a stopped or forked loop never finish."""
        return not self.task.done() and self.task.get_loop() is asyncio.get_running_loop()


class SingleFlight(Generic[K, T]):
    """Reads in flight by their keys; used by the tasks of an event loop."""

    def __init__(self) -> None:
        self._flights: dict[K, _Flight[T]] = {}

    def __len__(self) -> int:
        """Return the number of reads in flight."""
        return len(self._flights)

    async def read(self, key: K, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Join the read of `key` in flight, or else start it."""
        await to_loop()
        flight = self._flights.get(key)
        if flight is None or not flight.is_under_way:
            flight = self._flights[key] = _Flight(asyncio.create_task(read()))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                await self._end(key, flight)
            del flight  # it holds the error, whose traceback holds this frame

    async def _end(self, key: K, flight: _Flight[T]) -> None:
        """Drop a read without waiting callers, and cancel it."""
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.task.done():
            flight.task.cancel()
            await asyncio.wait([flight.task])
        if not flight.task.cancelled():
            flight.task.exception()  # else asyncio would report it as never retrieved
