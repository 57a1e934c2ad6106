"""What a loader did: bytes, requests, memory, and how long each stage was busy or waited for.

``str()`` of the stats is one table with a sentence that names the stage holding the stream back.

    stage      rate         ceiling       busy  waits for
    fetch      1.9 GB/s     2,530 rows/s  61%   41 requests, 144 MB
    cache      -            -             -     hits 98%, 144 MB of 4 GB
    decode     1,548 img/s  1,630 rows/s  95%   2 threads
    consumer   1,512 rows/s …
    Decoding holds the stream back: it can make 1,630 rows/s and is 95% busy. …

The *ceiling* of a stage is the rows a second that it could make if nothing else took time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from tensorlake.loader.runtime.bottleneck import Stage, ceilings, find_bottleneck, shown_share
from tensorlake.quantities import human_nbytes

__all__ = ["LoaderStats"]


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """A snapshot of a loader's counters; times are seconds, summed over threads.

    Attributes:
        wall_s: From asking for the first batch of each pass to the last one's return.
        fetch_s: With at least one request under way.
        held_s: With room for more requests, and none made: what is read and waits had used up its
            part of ``prefetch``.
        refetched_nbytes: Bytes, in memory, of chunks that had been there before.
        hedged: Requests made again because the first took unusually long; counted in requests.
        in_flight: The most reads under way at the same time.
        row_reads: Rows that were read by themselves, and not with their chunk.
        cache_short_nbytes: How much more memory would hold all that is read of a remote dataset.
        plan_s: Finding rows in the index, its pages' requests included.
        unpack_s: Verifying and decompressing chunks. This, ``gather_s`` and ``decode_s`` are times
            in which their threads ran, or could have if a processor had been free.
        cut_s: Copying rows of small batches, by the consumer's own thread.
        collate_s: Collating samples of different shapes, your functions included.
        queued_s: Of these three, without a processor: others had them all. Linux tells it.
        waiting_s: Threads that had work of these kinds, for the interpreter's lock, or the disk of
            a mapped file; on other systems than Linux also for a processor.
        wait_s: The consumer in ``next()``. Of it
        start_s: … until the first batch of a pass was ready,
        blocked_s: … until later ones were,
        convert_s: … making arrays of the framework, on its device,
        batch_transform_s: … in your function of a batch.
        user_s: The consumer between batches.
        prefetch_nbytes: The bound of all that waits between fetch and consumer.
    """

    wall_s: float = 0.0
    batches: int = 0
    rows: int = 0
    requests: int = 0
    hedged: int = 0
    fetched_nbytes: int = 0
    refetched_nbytes: int = 0
    row_reads: int = 0
    fetch_s: float = 0.0
    held_s: float = 0.0
    in_flight: int = 0
    mapped_chunks: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_nbytes: int = 0
    cache_capacity: int = 0
    cache_short_nbytes: int = 0
    batch_nbytes: int = 0
    prefetch_nbytes: int = 0
    plan_s: float = 0.0
    unpack_s: float = 0.0
    gather_s: float = 0.0
    cut_s: float = 0.0
    pictures: int = 0
    decode_s: float = 0.0
    transform_s: float = 0.0
    collate_s: float = 0.0
    queued_s: float = 0.0
    waiting_s: float = 0.0
    threads: int = 1
    skipped: int = 0
    wait_s: float = 0.0
    start_s: float = 0.0
    blocked_s: float = 0.0
    convert_s: float = 0.0
    batch_transform_s: float = 0.0
    user_s: float = 0.0

    def __sub__(self, before: LoaderStats) -> LoaderStats:
        """Return what happened since; what is held or bounded stays as it is now."""
        changed = {
            one.name: getattr(self, one.name) - getattr(before, one.name)
            for one in fields(self)
            if one.name not in LEVELS
        }
        return LoaderStats(**changed, **{name: getattr(self, name) for name in LEVELS})

    def __str__(self) -> str:
        lines = _aligned([("stage", "rate", "ceiling", "busy", "waits for"), *self._rows()])
        return "\n".join([*lines, self.bottleneck()])

    @property
    def rows_per_s(self) -> float:
        """Rows a second, as the consumer saw them."""
        return self.rows / self.wall_s if self.wall_s else 0.0

    @property
    def stages(self) -> Sequence[Stage]:
        """Each stage that did something, with its ceiling and how busy it was."""
        return ceilings(self)

    @property
    def data_s(self) -> float:
        """Seconds that the consumer waited for the loader's other threads."""
        return self.start_s + self.blocked_s

    def bottleneck(self) -> str:
        """Name the stage that holds the stream back, its ceiling, and what would help."""
        return find_bottleneck(self).sentence

    def _reads(self) -> str:
        asked = f"{self.requests:,} requests, at most {self.in_flight} under way"
        amount = f"{human_nbytes(self.fetched_nbytes)}, {self.row_reads:,} rows alone"
        again = f"; {self.hedged:,} were slow and made again" if self.hedged else ""
        return f"{asked}{again}; {amount}; {self.mapped_chunks:,} chunks mapped"

    def _rows(self) -> list[tuple[str, ...]]:
        stages = {stage.name: stage for stage in self.stages}
        asked = self.cache_hits + self.cache_misses
        hits = shown_share(self.cache_hits / asked if asked else 0.0)
        fetched = f"{human_nbytes(self.fetched_nbytes / max(self.fetch_s, 1e-9))}/s"
        seconds = max(self.wall_s, 1e-9)
        details = {
            "fetch": (fetched if self.fetched_nbytes else "-", self._reads()),
            "plan": ("-", "where rows are: one thread, pages of the index"),
            "unpack": ("-", "checksums and compression"),
            "gather": ("-", "memory"),
            "decode": (
                f"{self.pictures / seconds:,.0f} img/s" if self.pictures else "-",
                f"{self.threads} threads",
            ),
            "transform": ("-", "your function, a row at a time"),
            "collate": ("-", "samples of different shapes, your functions included"),
            "waiting": ("-", "threads that have work, for the interpreter's lock"),
            "convert": ("-", "arrays of the framework, on its device"),
            "batch_transform": ("-", "your function, a batch at a time"),
            "consumer": (
                f"{self.rows_per_s:,.0f} rows/s",
                f"data {shown_share(self.data_s / seconds)} of the time",
            ),
        }
        rows = [
            _row(name, *texts, stages.get(name))
            for name, texts in details.items()
            if name in stages or name not in SOMETIMES
        ]
        held = f"{human_nbytes(self.cache_nbytes)} of {human_nbytes(self.cache_capacity)}"
        rows.insert(1, ("cache", "-", "-", "-", f"hits {hits}, {held}"))
        rows.append(("memory", "-", "-", "-", f"batches {human_nbytes(self.batch_nbytes)}"))
        return rows


LEVELS = (
    "in_flight",
    "cache_nbytes",
    "cache_capacity",
    "cache_short_nbytes",
    "batch_nbytes",
    "prefetch_nbytes",
    "threads",
)
"""Members that are a state, and not a count of what happened."""

SOMETIMES = frozenset({"plan", "transform", "collate", "waiting", "convert", "batch_transform"})
"""Stages that have a line only where they took time."""


def _row(name: str, rate: str, waits: str, stage: Stage | None) -> tuple[str, ...]:
    if stage is None:
        return name, rate, "-", "-", waits
    return name, rate, f"{stage.ceiling:,.0f} rows/s", shown_share(stage.busy), waits


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]
