"""Probes of passes: a loader like the user's streams for a while, and its counters are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from tensorlake.loader.diagnosis.estimate import Estimate
from tensorlake.loader.diagnosis.probes import held_row
from tensorlake.loader.runtime.clocks import queued_by_thread
from tensorlake.loader.runtime.stats import LoaderStats

__all__ = ["HeldBatch", "HeldRows", "HeldSamples", "PassFigures", "Streamed", "stream"]

MAX_HELD_ROWS = 32
STARVED = 0.5  # threads that wait for a processor, on average
BLOCKS = 6  # of a pass; their rates show how uncertain it is


class Streamed(Protocol):
    """A loader of a probe."""

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass."""
        ...

    def stats(self) -> LoaderStats:
        """The counters."""
        ...

    def close(self) -> None:
        """End its threads."""
        ...


@dataclass(frozen=True, slots=True)
class PassFigures:
    """Figures of a pass after its first batch.

    Attributes:
        seconds: The time.
        cpu_s: Processor seconds of this process.
        queued_s: Seconds that its threads waited for a processor.
        stats: The counters of this time.
        parts: The counters of parts of it.
        rate: Rows per second, with the range of the parts.
    """

    seconds: float
    cpu_s: float
    queued_s: float
    stats: LoaderStats
    parts: tuple[LoaderStats, ...]
    rate: Estimate

    @property
    def used_cores(self) -> float:
        """Cores that the process used."""
        return self.cpu_s / self.seconds

    @property
    def is_starved(self) -> bool:
        """Whether threads waited for a processor, so that it used all the cores that it got."""
        return self.queued_s > STARVED * self.seconds

    @property
    def batch_rows(self) -> float:
        """Mean rows of a batch."""
        return self.stats.rows / self.stats.batches

    def per_row(self, *counters: str, less: str | None = None) -> Estimate:
        """Return the sum of counters, less one, divided by the rows.

        The range is that of the means without one of the parts: rows of a part alone may have been
        worked on in the part before.
        """

        def mean(parts: Sequence[LoaderStats]) -> float:
            whole = sum(getattr(one, name) for one in parts for name in counters)
            away = sum(getattr(one, less) for one in parts) if less else 0.0
            return max(whole - away, 0.0) / max(sum(one.rows for one in parts), 1)

        rest = [self.parts[:number] + self.parts[number + 1 :] for number in range(len(self.parts))]
        means = [mean(parts) for parts in (self.parts, *rest) if any(one.rows for one in parts)]
        return Estimate(means[0], min(means), max(means))

    def per_s(self, counter: str) -> Estimate:
        """Return a counter divided by the seconds, with the range of the parts."""
        mean = getattr(self.stats, counter) / self.stats.wall_s
        spread = Estimate.of([getattr(one, counter) / one.wall_s for one in self.parts])
        return Estimate(mean, min(spread.low, mean), max(spread.high, mean))


@dataclass(frozen=True, slots=True)
class _Mark:
    """A moment of a pass."""

    at: float
    cpu_s: float
    queued_s: dict[str, float]
    stats: LoaderStats

    @classmethod
    def now(cls, loader: Streamed) -> _Mark:
        """Read the clocks and the counters."""
        return cls(time.perf_counter(), time.process_time(), queued_by_thread(), loader.stats())

    def queued_since(self, before: _Mark) -> float:
        """Return the seconds that threads waited for a processor."""
        then = before.queued_s
        return sum(queued - then[name] for name, queued in self.queued_s.items() if name in then)

    def rate_since(self, before: _Mark) -> float:
        """Return rows per second."""
        return (self.stats.rows - before.stats.rows) / (self.at - before.at)


def stream(
    loader: Streamed, use: Callable[[Any], Any] | None, *, seconds: float
) -> PassFigures | None:
    """Stream for a while; None if the loader has no batch.

    Counted is what follows the first batch of a pass, which waits for the pass to start. A pass
    that ends early is followed by another one, until there are some parts to compare.

    Args:
        loader: The loader.
        use: Called with each batch.
        seconds: When to end; a batch is not cut short.
    """
    stop = time.perf_counter() + seconds
    passes: list[list[_Mark]] = []
    begun = _Mark.now(loader)
    while sum(map(len, passes)) < BLOCKS and (not passes or time.perf_counter() < stop):
        marks = _marks(loader, use, stop=stop, every=seconds / BLOCKS)
        if not marks:
            return None
        passes.append(marks)
    parts = [pair for marks in passes for pair in pairwise(marks)]
    if not parts:  # passes of one batch: then with their start
        parts = [*pairwise([begun, *(marks[0] for marks in passes)])]
    taken_s = sum(after.at - before.at for before, after in parts)
    mean = sum(after.stats.rows - before.stats.rows for before, after in parts) / taken_s
    spread = Estimate.of([after.rate_since(before) for before, after in parts])
    first, last = parts[0][0], parts[-1][1]
    return PassFigures(
        seconds=last.at - first.at,
        cpu_s=last.cpu_s - first.cpu_s,
        queued_s=sum(after.queued_since(before) for before, after in parts),
        stats=last.stats - first.stats,
        parts=tuple(after.stats - before.stats for before, after in parts),
        rate=Estimate(mean, min(spread.low, mean), max(spread.high, mean)),
    )


def _marks(
    loader: Streamed, use: Callable[[Any], Any] | None, *, stop: float, every: float
) -> list[_Mark]:
    """Stream a pass until a time, and at least two batches; return marks from its first one on."""
    marks: list[_Mark] = []
    for count, batch in enumerate(loader, start=1):
        if use is not None:
            use(batch)
        now = time.perf_counter()
        is_over = now >= stop and count > 1
        if not marks or is_over or now - marks[-1].at >= every:
            marks.append(_Mark.now(loader))
        if is_over:
            return marks
    if marks and loader.stats().rows > marks[-1].stats.rows:
        marks.append(_Mark.now(loader))
    return marks


@dataclass(slots=True)
class HeldBatch:
    """A converter that keeps a batch before it is converted; else the one that it wraps."""

    inner: Any
    batch: dict[str, Any] | None = None

    def convert(self, batch: dict[str, Any]) -> Any:
        """Convert a batch, and keep the arrays of the first."""
        if self.batch is None:
            self.batch = dict(batch)
        return self.inner.convert(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(slots=True)
class HeldRows:
    """A transform that keeps some rows, and returns next to nothing."""

    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a copy of the row."""
        if len(self.rows) < MAX_HELD_ROWS:
            self.rows.append(held_row(row))
        return {"_kept": 0}


@dataclass(slots=True)
class HeldSamples:
    """A collate function that keeps the samples of its first call."""

    function: Callable[[list[Any]], Any]
    samples: list[Any] = field(default_factory=list[Any])

    def __call__(self, samples: list[Any]) -> Any:
        """Keep a copy of the samples, and collate them."""
        if not self.samples:
            self.samples = [copy(one) for one in samples]
        return self.function(samples)
