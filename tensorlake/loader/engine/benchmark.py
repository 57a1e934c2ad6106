"""Measure a loader: whole epochs, with its counters sampled along the way.

``measure_epochs`` streams epochs and discards the batches, as the fastest consumer would; twenty
times a second it records the change of the counters. ``tensorlake bench`` prints and plots the
result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from tensorlake.loader.runtime.stats import LoaderStats

__all__ = ["Epoch", "Sample", "measure_epochs"]

SAMPLE_S = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of one interval of the run, since the previous sample."""

    seconds: float  # since the run began
    stats: LoaderStats


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of the run."""

    number: int
    seconds: float
    first_batch_s: float
    stats: LoaderStats
    samples: tuple[Sample, ...]

    @property
    def rows_per_s(self) -> float:
        """Rows per second, from the request for the first batch to the return of the last."""
        return self.stats.rows / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        stages = {
            stage.name: {"ceiling_rows_per_s": stage.ceiling, "busy": stage.busy}
            for stage in self.stats.stages
        }
        return {
            "epoch": self.number,
            "seconds": self.seconds,
            "first_batch_s": self.first_batch_s,
            "rows": self.stats.rows,
            "rows_per_s": self.rows_per_s,
            "requests": self.stats.requests,
            "fetched_nbytes": self.stats.fetched_nbytes,
            "stages": stages,
            "bottleneck": self.stats.bottleneck(),
        }


class CountedBatches(Protocol):
    """A loader, or another library's batches with counters."""

    @property
    def epoch(self) -> int:
        """Number of the current epoch, or the next."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Stream an epoch."""
        ...

    def stats(self) -> LoaderStats:
        """The counters since the first batch."""
        ...


def measure_epochs(
    loader: CountedBatches, epochs: int, *, max_batches: int | None = None
) -> list[Epoch]:
    """Stream ``epochs`` epochs of at most ``max_batches`` batches each.

    Args:
        loader: A loader without other iterators, or batches counted as its are.
        epochs: Number of epochs.
        max_batches: Leave an epoch after this number of batches; None streams it whole.
    """
    measured: list[Epoch] = []
    began = perf_counter()
    for _ in range(epochs):
        before = last = loader.stats()
        number, started = loader.epoch, perf_counter()
        first_batch_s = 0.0
        samples: list[Sample] = []
        for count, _batch in enumerate(loader, start=1):
            now = perf_counter()
            if count == 1:
                first_batch_s = now - started
            if now - began >= SAMPLE_S + (samples[-1].seconds if samples else 0.0):
                current = loader.stats()
                samples.append(Sample(now - began, current - last))
                last = current
            if count == max_batches:
                break
        seconds = perf_counter() - started
        stats = loader.stats() - before
        measured.append(Epoch(number, seconds, first_batch_s, stats, tuple(samples)))
    return measured
