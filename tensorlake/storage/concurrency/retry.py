"""Retry operations that are safe to repeat: the only retries in the project.

These are reads, and idempotent writes. Never `put_if_absent`: a repeated request would find its own
first success and report it as another writer's; a publisher reads the object back instead.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and how long to wait between attempts: exponential, with jitter, bounded."""

    attempts: int = 8
    first_delay_s: float = 0.1
    max_delay_s: float = 10.0
    deadline_s: float = 120.0

    def delay_s(self, attempt: int, jitter: float) -> float:
        """Return the wait after attempt number `attempt` (from 1); `jitter` is in [0, 1).

        >>> RetryPolicy().delay_s(3, jitter=0.0), RetryPolicy().delay_s(3, jitter=0.5)
        (0.2, 0.30000000000000004)
        """
        full = min(self.max_delay_s, self.first_delay_s * 2.0 ** (attempt - 1))
        return full * (0.5 + jitter / 2)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The clock, sleep and randomness that retries use; tests pass their own."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


async def retry(
    call: Callable[[], Awaitable[T]],
    *,
    policy: RetryPolicy,
    is_transient: Callable[[Exception], bool],
    surroundings: Surroundings | None = None,
) -> T:
    """Await `call()` until it succeeds; the last error is raised unchanged.

    Args:
        call: Makes one attempt.
        policy: How many attempts, how far apart, until when.
        is_transient: Whether another attempt could succeed where this error came.
        surroundings: Clock, sleep and randomness.
    """
    world = surroundings or Surroundings()
    deadline = world.clock() + policy.deadline_s
    attempt = 1
    while True:
        try:
            return await call()
        except Exception as error:
            delay = policy.delay_s(attempt, world.jitter())
            is_last = attempt >= policy.attempts or world.clock() + delay > deadline
            if is_last or not is_transient(error):
                raise
        await world.sleep(delay)
        attempt += 1
