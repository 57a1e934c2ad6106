"""Probe of a store: the plan's own reads, with several numbers of requests in flight."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, TypeAlias

from tensorlake.loader.diagnosis.estimate import Estimate
from tensorlake.storage import runtime

__all__ = ["Curve", "Request", "probe_store"]

Request: TypeAlias = tuple[int, Callable[[], Awaitable[Any]]]
"""Bytes, and the read."""

IN_FLIGHT = (1, 4, 16, 64)
PATIENCE = 10  # times its share of the time: then a request is given up


@dataclass(frozen=True, slots=True)
class Curve:
    """The speed of a store.

    Attributes:
        latency_s: Median seconds of a request that is alone.
        rates: Bytes per second by number of requests in flight.
    """

    latency_s: float
    rates: tuple[tuple[int, Estimate], ...]


@dataclass(slots=True)
class _Answers:
    """When requests ended, their bytes, and how long they took."""

    ended: list[float] = field(default_factory=list[float])
    nbytes: list[int] = field(default_factory=list[int])
    took: list[float] = field(default_factory=list[float])


def probe_store(requests: Sequence[Request], *, seconds: float) -> Curve | None:
    """Read with 1, 4, 16 and 64 requests in flight; None if there is nothing to read.

    Args:
        requests: The reads, in the order of the plan; made again after the last.
        seconds: For all of them; requests in flight at the end are waited for.
    """
    if not requests:
        return None
    endless = cycle(requests)
    each = seconds / len(IN_FLIGHT)
    found: list[tuple[int, Estimate]] = []
    latency_s = 0.0
    for count in IN_FLIGHT:
        answers, began = _Answers(), time.perf_counter()
        runtime.run(_read(endless, answers, count=count, seconds=each))
        if not answers.ended:
            break
        if count == 1:
            latency_s = sorted(answers.took)[len(answers.took) // 2]
        found.append((count, _rate(answers, began)))
    return Curve(latency_s, tuple(found)) if found else None


async def _read(
    requests: Iterator[Request], answers: _Answers, *, count: int, seconds: float
) -> None:
    stop = time.perf_counter() + seconds

    async def one_after_the_other() -> None:
        for nbytes, read in requests:
            began = time.perf_counter()
            await read()
            ended = time.perf_counter()
            answers.ended.append(ended)
            answers.nbytes.append(nbytes)
            answers.took.append(ended - began)
            if ended >= stop:
                return

    tasks = [asyncio.create_task(one_after_the_other()) for _ in range(count)]
    done, late = await asyncio.wait(tasks, timeout=PATIENCE * seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for task in done:
        task.result()  # raises what a read raised


def _rate(answers: _Answers, began: float) -> Estimate:
    """Return bytes per second; the range is that of as many independent arrivals."""
    rate = sum(answers.nbytes) / (answers.ended[-1] - began)
    spread = rate / math.sqrt(len(answers.ended))
    return Estimate(rate, rate - spread / 2, rate + spread)
