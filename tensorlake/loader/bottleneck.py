"""Which stage holds a stream back: the one whose ceiling is the lowest.

A stage's *ceiling* is the rows a second that it would make if it were the only one: rows over the
time it was busy, shared among the threads that do it. Stages overlap, so the stream is about as
fast as its lowest ceiling; when all are far above what was seen, the time went into starting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorlake.loader.stats import LoaderStats

__all__ = [
    "Bottleneck",
    "Stage",
    "ceilings",
    "find_bottleneck",
    "shown_share",
]

MEGA = 10**6
IDLE_CEILING = 2.0  # times the rate seen: above it no stage was what the stream waited for
LEAST_S = 1e-9
REREAD_SHARE = 0.2  # of the bytes read: from here on it is the cache that is too small


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the stream."""

    name: str
    ceiling: float  # rows a second
    busy: float  # share of the time, of one of its threads


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What holds a stream back."""

    name: str  # of the stage, "cache", or "" where none does
    sentence: str


def ceilings(stats: LoaderStats) -> list[Stage]:
    """Return each stage that did something, in the order of the stream."""
    threads = max(stats.threads, 1)
    seconds = {
        "fetch": stats.fetch_s,
        "unpack": stats.unpack_s / threads,
        "gather": stats.gather_s + stats.plan_s,
        "decode": stats.decode_s / threads,
        "transform": stats.transform_s / threads,
        "consumer": stats.user_s,
    }
    wall = max(stats.wall_s, LEAST_S)
    return [
        Stage(name, stats.rows / busy, min(1.0, busy / wall))
        for name, busy in seconds.items()
        if busy > 0 and stats.rows
    ]


def find_bottleneck(stats: LoaderStats) -> Bottleneck:
    """Name the stage with the lowest ceiling, and what would raise it."""
    stages = ceilings(stats)
    if not stats.batches or not stages:
        return Bottleneck("", "Nothing has been read yet.")
    lowest = min(stages, key=lambda stage: stage.ceiling)
    if lowest.ceiling > IDLE_CEILING * stats.rows_per_s:
        return Bottleneck(
            "",
            f"No stage is saturated; the busiest is {lowest.name} ({shown_share(lowest.busy)})."
            " Short runs are mostly start-up: measure a whole epoch.",
        )
    name = lowest.name
    if name == "fetch" and _rereads(stats):
        name = "cache"
    what = (
        f"it can make {lowest.ceiling:,.0f} rows/s and is {shown_share(lowest.busy)} busy."
        f" {_advice(name, stats)}"
    )
    return Bottleneck(name, f"{SUBJECTS[name]} the stream back: {what}")


SUBJECTS = {
    "fetch": "Reading from the store holds",
    "cache": "The cache is too small, and reading again from the store holds",
    "unpack": "Unpacking chunks holds",
    "gather": "Copying rows holds",
    "decode": "Decoding holds",
    "transform": "Your transform holds",
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
        case "fetch":
            return "A nearer store, fewer columns (columns=), or smaller samples would help."
        case "unpack":
            return "More threads (workers=), or a lighter codec, would help."
        case "gather":
            return "Fewer columns (columns=), or larger batches, would help."
        case "decode":
            return (
                f"More threads (workers={stats.threads} now), or stored pictures nearer the size"
                " asked for, would help."
            )
        case "transform":
            return "Work on whole batches (batch_transform=), or steps of tl.decode, would help."
        case _:
            return "The loader waits for it; nothing here would help."


def shown_share(value: float) -> str:
    """Write a share for people, at most 100%."""
    return f"{min(value, 1.0):.0%}"
