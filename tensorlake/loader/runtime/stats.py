"""Statistics of a loader: bytes, requests, memory, and busy and waiting times of each stage.

``str()`` of the stats is one table with a sentence that names the stage holding the stream back.

    stage      rate         ceiling       busy  waits for
    fetch      1.9 GB/s     2,530 rows/s  61%   41 requests, 144 MB
    cache      -            -             -     hits 98%, 144 MB of 4 GB
    decode     1,548 img/s  1,630 rows/s  95%   2 threads
    consumer   1,512 rows/s …
    Decoding holds the stream back: it can make 1,630 rows/s and is 95% busy. …

Which stage holds a stream back:

A stage's *ceiling* is the rows per second that it would make if it were the only one: rows over the
time it was busy, shared among its threads. Stages overlap, so the stream is about as fast as its
lowest ceiling. But the busy time means little for a stage that may wait inside, and a request is in
flight nearly always. So the bottleneck is searched from the consumer upstream, among the parts that
do work:

    consumer   never waits for data        its loop, batch_transform, convert or gather
    threads    nearly always busy          decode, transform, collate, unpack or gather;
                                           or they wait for the interpreter's lock
    store      a request always in flight  fetch; cache if chunks are read again; prefetch if it
                                           prevents more requests
    plan       nearly always busy

The first saturated one is the bottleneck: parts before it wait for it, and parts behind it wait for
data. If none is saturated, the time went into start-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from tensorlake.quantities import human_nbytes

__all__ = ["Bottleneck", "LoaderStats", "Stage", "ceilings", "find_bottleneck"]

MEGA = 10**6
LEAST_S = 1e-9
REREAD_SHARE = 0.2  # of the bytes read: from here on the cache is too small
# Of the time after the first batch: a consumer that waits longer for data is not the bottleneck.
STARVED_SHARE = 0.3
# Of the time of all worker threads: from here on they are the bottleneck. Below, a store or an
# index may be.
FULL_SHARE = 0.8
BUSY_SHARE = 0.5  # of the time: with less, the stream did not wait for it
HELD_SHARE = 0.5  # of the fetching time: from here on the prefetch is too small
QUEUED_SHARE = 0.3  # of a stage: from here on processor contention is reported
MORE_PREFETCH = 2  # suggested factor

THREADS = ("decode", "transform", "collate", "unpack", "gather")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the stream."""

    name: str
    ceiling: float  # rows a second
    busy: float  # share of the time, of one of its threads


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The bottleneck of a stream."""

    name: str  # of the stage, "cache", "prefetch", or "" if there is none
    sentence: str


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """A snapshot of a loader's counters; times are seconds, summed over threads.

    Attributes:
        wall_s: From the request for the first batch of each pass to the return of the last.
        fetch_s: With at least one request in flight.
        held_s: With room for more requests, but none made: data read and waiting had used up its
            part of ``prefetch``.
        refetched_nbytes: Bytes, in memory, of chunks that had been in memory before.
        hedged: Requests made again because the first took unusually long; counted in requests.
        in_flight: Maximum number of concurrent reads.
        row_reads: Rows that were read individually, not with their chunk.
        cache_short_nbytes: Additional memory needed to cache all data read of a remote dataset.
        disk_hits: Reads, included in ``requests``, that the disk tier answered without a request.
        disk_misses: … of which it had not everything.
        disk_nbytes: Bytes, included in ``fetched_nbytes``, that it had.
        decoded_hits: Images, included in ``pictures``, whose pixels were on disk.
        disk_cache_nbytes: Bytes in its folder, of all processes.
        disk_cache_capacity: Their maximum; 0 without the tier, or if its disk failed.
        plan_s: Finding rows in the index, including requests for its pages.
        unpack_s: Verifying and decompressing chunks. This, ``gather_s`` and ``decode_s`` are times
            in which their threads ran, or could have if a processor had been free.
        cut_s: Copying rows of small batches, by the consumer's own thread.
        collate_s: Collating samples of different shapes, including your functions.
        queued_s: Time of these three without a free processor, as reported by Linux.
        waiting_s: Threads that had work of these kinds, for the interpreter's lock, or the disk of
            a mapped file; on other systems than Linux also for a processor.
        wait_s: The consumer in ``next()``, of which
        start_s: … until the first batch of a pass was ready,
        blocked_s: … until later ones were,
        convert_s: … making arrays of the framework, on its device,
        batch_transform_s: … in your function of a batch.
        user_s: The consumer between batches.
        packed_tokens: Tokens of packed sequences, eos included. Batches are counted when they are
            made; so is
        padding_tokens: … their padding.
        prefetch_nbytes: The bound of all data between fetch and consumer.
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
    disk_hits: int = 0
    disk_misses: int = 0
    disk_nbytes: int = 0
    decoded_hits: int = 0
    disk_cache_nbytes: int = 0
    disk_cache_capacity: int = 0
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
    packed_tokens: int = 0
    padding_tokens: int = 0

    def __sub__(self, before: LoaderStats) -> LoaderStats:
        """Return the counters since ``before``; sizes and bounds keep their current values."""
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
        """Rows per second, as seen by the consumer."""
        return self.rows / self.wall_s if self.wall_s else 0.0

    @property
    def stages(self) -> Sequence[Stage]:
        """Each stage that did work, with its ceiling and busy share."""
        return ceilings(self)

    @property
    def packed_fill(self) -> float:
        """Share of packed sequences that is not padding; 0 if nothing was packed."""
        return self.packed_tokens / max(self.packed_tokens + self.padding_tokens, 1)

    @property
    def data_s(self) -> float:
        """Seconds that the consumer waited for the loader's other threads."""
        return self.start_s + self.blocked_s

    def bottleneck(self) -> str:
        """Name the stage that holds the stream back, its ceiling, and what would help."""
        return find_bottleneck(self).sentence

    def _reads(self) -> str:
        asked = f"{self.requests:,} requests, at most {self.in_flight} in flight"
        amount = f"{human_nbytes(self.fetched_nbytes)}, {self.row_reads:,} rows alone"
        again = f"; {self.hedged:,} were slow and repeated" if self.hedged else ""
        return f"{asked}{again}; {amount}; {self.mapped_chunks:,} chunks mapped"

    def _kept_images(self) -> str:
        return f"; {self.decoded_hits:,} images from disk" if self.decoded_hits else ""

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
                f"{self.threads} threads{self._kept_images()}",
            ),
            "transform": ("-", "your function, row by row"),
            "collate": ("-", "samples of different shapes, including your functions"),
            "waiting": ("-", "threads with work, for the interpreter's lock"),
            "convert": ("-", "arrays of the framework, on its device"),
            "batch_transform": ("-", "your function, batch by batch"),
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
        if asked := self.disk_hits + self.disk_misses:
            sizes = self.disk_nbytes, self.disk_cache_nbytes, self.disk_cache_capacity
            read, held, most = map(human_nbytes, sizes)
            share = shown_share(self.disk_hits / asked)
            read = f"hits {share}, {read} read, {held} of {most}"
            rows.insert(2, ("disk", "-", "-", "-", read))
        if self.packed_tokens:
            padding = f"{self.padding_tokens:,} of padding"
            filled = f"{self.packed_fill:.1%} filled: {self.packed_tokens:,} tokens, {padding}"
            rows.append(("packing", "-", "-", "-", filled))
        rows.append(("memory", "-", "-", "-", f"batches {human_nbytes(self.batch_nbytes)}"))
        return rows


LEVELS = (
    "in_flight",
    "cache_nbytes",
    "cache_capacity",
    "cache_short_nbytes",
    "disk_cache_nbytes",
    "disk_cache_capacity",
    "batch_nbytes",
    "prefetch_nbytes",
    "threads",
)
"""Members that are a current state, not a count."""

SOMETIMES = frozenset({"plan", "transform", "collate", "waiting", "convert", "batch_transform"})
"""Stages that have a line only if they took time."""


def _row(name: str, rate: str, waits: str, stage: Stage | None) -> tuple[str, ...]:
    if stage is None:
        return name, rate, "-", "-", waits
    return name, rate, f"{stage.ceiling:,.0f} rows/s", shown_share(stage.busy), waits


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]


def ceilings(stats: LoaderStats) -> list[Stage]:
    """Return each stage that did work, in the order of the stream."""
    wall = max(stats.wall_s, LEAST_S)
    return [
        Stage(name, stats.rows / busy, min(1.0, busy / wall))
        for name, busy in _seconds(stats).items()
        if busy > 0 and stats.rows
    ]


def find_bottleneck(stats: LoaderStats) -> Bottleneck:
    """Name the stage that holds the stream back, and what would help."""
    stages = {stage.name: stage for stage in ceilings(stats)}
    if not stats.batches or not stages:
        return Bottleneck("", "Nothing has been read yet.")
    name = _saturated(stats, stages)
    if name is None:
        busiest = max(stages.values(), key=lambda stage: stage.busy)
        return Bottleneck(
            "",
            f"No stage is saturated; the busiest is {busiest.name} ({shown_share(busiest.busy)})."
            " Short runs are mostly start-up: measure a whole epoch.",
        )
    what = f"{SUBJECTS[name]} the stream back"
    if name in ("prefetch", "waiting"):
        return Bottleneck(name, f"{what}: {_advice(name, stats)}")
    stage = stages["fetch" if name == "cache" else name]
    return Bottleneck(
        name,
        f"{what}: it can make {stage.ceiling:,.0f} rows/s and is {shown_share(stage.busy)} busy."
        f" {_advice(name, stats)}",
    )


def _seconds(stats: LoaderStats) -> dict[str, float]:
    """Return the busy time of each stage, shared among its threads."""
    threads = max(stats.threads, 1)
    return {
        "fetch": stats.fetch_s,
        "plan": stats.plan_s,
        "unpack": stats.unpack_s / threads,
        "gather": stats.gather_s / threads + stats.cut_s,
        "decode": stats.decode_s / threads,
        "transform": stats.transform_s / threads,
        "collate": stats.collate_s / threads,
        "waiting": stats.waiting_s / threads,
        "convert": stats.convert_s,
        "batch_transform": stats.batch_transform_s,
        "consumer": stats.user_s,
    }


def _saturated(stats: LoaderStats, stages: Mapping[str, Stage]) -> str | None:
    """Return the stage for which all others wait."""
    busy = {name: stages[name].busy for name in THREADS if name in stages}
    work, waiting = sum(busy.values()), _busy(stages, "waiting")
    after_start_s = stats.wall_s - stats.start_s
    if after_start_s > BUSY_SHARE * stats.wall_s:
        loop = 1 - stats.blocked_s / after_start_s
        if loop >= max(1 - STARVED_SHARE, work):
            return _of_loop(stats, stages)
    of_threads = max(busy, key=lambda name: busy[name], default="waiting")
    if waiting > work - stats.queued_s / max(stats.threads, 1) / max(stats.wall_s, LEAST_S):
        of_threads = "waiting"
    if work + waiting >= FULL_SHARE:
        return of_threads
    if _busy(stages, "fetch") >= BUSY_SHARE:
        return _of_store(stats)
    if _busy(stages, "plan") >= BUSY_SHARE:
        return "plan"
    return of_threads if work + waiting >= BUSY_SHARE else None


def _of_loop(stats: LoaderStats, stages: Mapping[str, Stage]) -> str | None:
    """Return the longest work of the consumer's own thread."""
    named = {
        "consumer": stats.user_s,
        "batch_transform": stats.batch_transform_s,
        "convert": stats.convert_s,
    }
    rest = stats.wall_s - stats.data_s - sum(named.values())  # batches were made in that thread
    making = {name: _busy(stages, name) for name in ("gather", "plan") if name in stages}
    if making:
        named[max(making, key=lambda name: making[name])] = rest
    did = [name for name in named if name in stages]
    return max(did, key=lambda name: named[name], default=None)


def _of_store(stats: LoaderStats) -> str:
    if stats.held_s >= HELD_SHARE * stats.fetch_s:
        return "prefetch"
    return "cache" if _rereads(stats) else "fetch"


def _busy(stages: Mapping[str, Stage], name: str) -> float:
    return stages[name].busy if name in stages else 0.0


SUBJECTS = {
    "fetch": "Reading from the store holds",
    "cache": "The cache is too small, and reading again from the store holds",
    "prefetch": "prefetch= is too small, and reading from the store with few requests holds",
    "plan": "Finding rows in the index holds",
    "unpack": "Unpacking chunks holds",
    "gather": "Copying rows holds",
    "decode": "Decoding holds",
    "transform": "Your transform holds",
    "collate": "Collating holds",
    "waiting": "Waiting for the interpreter's lock holds",
    "convert": "Making the framework's arrays holds",
    "batch_transform": "Your batch_transform holds",
    "consumer": "Your own loop holds",
}


def _rereads(stats: LoaderStats) -> bool:
    """Return whether much of the data read was, or could have been, in memory."""
    if not stats.cache_short_nbytes:
        return False
    again = stats.refetched_nbytes >= REREAD_SHARE * max(1, stats.fetched_nbytes)
    return again or stats.row_reads >= REREAD_SHARE * stats.rows


def _advice(name: str, stats: LoaderStats) -> str:
    match name:
        case "cache":
            needed = stats.cache_capacity + stats.cache_short_nbytes
            return f"cache='{-(-needed // MEGA)}MB' would cache all of it after the first epoch."
        case "prefetch":
            more = -(-MORE_PREFETCH * stats.prefetch_nbytes // MEGA)
            return (
                f"more requests were possible for {shown_share(stats.held_s / stats.fetch_s)} of"
                f" the time spent reading, but {human_nbytes(stats.prefetch_nbytes)} were used up."
                f" prefetch='{more}MB', or smaller batches, would help."
            )
        case "waiting":
            share = shown_share(stats.waiting_s / max(stats.threads, 1) / stats.wall_s)
            disk = ", or for the disk that chunks are mapped from" if stats.mapped_chunks else ""
            return (
                f"worker threads with work waited {share} of the time{disk}."
                " Other Python threads of this process hold the lock: move their work into a"
                " separate process."
            )
        case "fetch":
            return "A nearer store, fewer columns (columns=), or smaller samples would help."
        case "plan":
            return "Fewer columns (columns=), larger batches, or ds.optimize() would help."
        case "unpack":
            return "More threads (workers=), or a lighter codec, would help."
        case "gather":
            return "Fewer columns (columns=), or larger batches, would help."
        case "decode":
            queued = stats.queued_s / stats.decode_s
            others = f" Its threads waited for a processor {shown_share(queued)} of that."
            return (
                f"More threads (workers={stats.threads} now), or images stored closer to the"
                f" requested size, would help.{others if queued >= QUEUED_SHARE else ''}"
            )
        case "transform":
            return "Work on whole batches (batch_transform=), or steps of tl.decode, would help."
        case "collate":
            return "A form of tl.collate instead of your function, or fewer columns, would help."
        case "convert":
            return "Fewer columns (columns=), or smaller dtypes (tl.decode.Cast), would help."
        case "batch_transform":
            return "It runs in your loop's thread: do less there, or on the device."
        case _:
            return "The loader waits for it; nothing here would help."


def shown_share(value: float) -> str:
    """Format a share as a percentage, at most 100%."""
    return f"{min(value, 1.0):.0%}"
