"""One read for all who ask for the same thing while it is on its way.

    asks first     ──►  starts the read  ──┐
    asks meanwhile ──►  waits along      ──┴──►  value or error, for each of them
    asks later     ──►  starts another: nothing is kept of a read that has ended

Who stops waiting, being cancelled, disturbs nobody else; when nobody waits any more the read is
cancelled, and has ended before the last one goes on. An error is that of all who waited: the store
below has retried what can be retried, and who asks next tries anew.
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
    """A read under way."""

    task: asyncio.Task[T]
    waiting: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether it may be joined: a loop that was stopped, or forked, took its reads with it."""
        return not self.task.done() and self.task.get_loop() is asyncio.get_running_loop()


class SingleFlight(Generic[K, T]):
    """Reads under way, by what they read; used by the tasks of an event loop."""

    def __init__(self) -> None:
        self._flights: dict[K, _Flight[T]] = {}

    def __len__(self) -> int:
        """Return how many reads are under way."""
        return len(self._flights)

    async def read(self, key: K, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for what is being read already, or else read it."""
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
        """Forget a read that nobody waits for, and let none go on."""
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.task.done():
            flight.task.cancel()
            await asyncio.wait([flight.task])
        if not flight.task.cancelled():
            flight.task.exception()  # else asyncio would report it as seen by nobody
