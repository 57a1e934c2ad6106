"""Which stage holds a stream back.

A stage's *ceiling* is the rows a second that it would make if it were the only one: rows over the
time it was busy, shared among the threads that do it. Stages overlap, so the stream is about as
fast as its lowest ceiling. But how busy a stage is says little where it may wait inside, and a
request is under way nearly always. So the bottleneck is looked for against the stream, among those
who do the work:

    consumer   never waits for data        its loop, batch_transform, convert or gather
    threads    nearly always busy          decode, transform, collate, unpack or gather;
                                           or they wait for the interpreter's lock
    store      a request always under way  fetch; cache where it is read again; prefetch where that
                                           keeps more from being asked for
    plan       nearly always busy

The first of these that is saturated is it: what stands before it waits for it, and what stands
behind is waiting for data. Where none is, the time went into starting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorlake.quantities import human_nbytes

if TYPE_CHECKING:
    from tensorlake.loader.runtime.stats import LoaderStats

__all__ = [
    "Bottleneck",
    "Stage",
    "ceilings",
    "find_bottleneck",
    "shown_share",
]

MEGA = 10**6
LEAST_S = 1e-9
REREAD_SHARE = 0.2  # of the bytes read: from here on it is the cache that is too small
# Of the time after the first batch: a consumer that waits for data longer is not the bottleneck.
STARVED_SHARE = 0.3
# Of the time of all worker threads: from here on they are it. Below, a store or an index may be.
FULL_SHARE = 0.8
BUSY_SHARE = 0.5  # of the time: less was not what the stream waited for
HELD_SHARE = 0.5  # of the time that is fetched: from here on it is the prefetch that is too small
QUEUED_SHARE = 0.3  # of a stage: from here on it is said that others take the processors
MORE_PREFETCH = 2  # times as much is worth a try

THREADS = ("decode", "transform", "collate", "unpack", "gather")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the stream."""

    name: str
    ceiling: float  # rows a second
    busy: float  # share of the time, of one of its threads


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What holds a stream back."""

    name: str  # of the stage, "cache", "prefetch", or "" where none does
    sentence: str


def ceilings(stats: LoaderStats) -> list[Stage]:
    """Return each stage that did something, in the order of the stream."""
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
    """Tell how long each stage was busy, shared among its threads."""
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
    """Return the stage that all others wait for."""
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
    """Return what the consumer's own thread did longest."""
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
    """Whether much of what is read was, or could have been, in memory."""
    if not stats.cache_short_nbytes:
        return False
    again = stats.refetched_nbytes >= REREAD_SHARE * max(1, stats.fetched_nbytes)
    return again or stats.row_reads >= REREAD_SHARE * stats.rows


def _advice(name: str, stats: LoaderStats) -> str:
    match name:
        case "cache":
            needed = stats.cache_capacity + stats.cache_short_nbytes
            return f"cache='{-(-needed // MEGA)}MB' would hold all of it after the first epoch."
        case "prefetch":
            more = -(-MORE_PREFETCH * stats.prefetch_nbytes // MEGA)
            return (
                f"more could be asked for {shown_share(stats.held_s / stats.fetch_s)} of the time"
                f" that was read, and {human_nbytes(stats.prefetch_nbytes)} were used up."
                f" prefetch='{more}MB', or smaller batches, would help."
            )
        case "waiting":
            share = shown_share(stats.waiting_s / max(stats.threads, 1) / stats.wall_s)
            disk = ", or for the disk that chunks are mapped from" if stats.mapped_chunks else ""
            return (
                f"worker threads that had work waited {share} of the time{disk}."
                " Other threads of this process that run Python have what they wait for: move that"
                " work into a process of its own."
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
                f"More threads (workers={stats.threads} now), or stored pictures nearer the size"
                f" asked for, would help.{others if queued >= QUEUED_SHARE else ''}"
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
    """Write a share for people, at most 100%."""
    return f"{min(value, 1.0):.0%}"
