"""What a loader did: bytes, requests, and how long each stage was busy or waited for.

``str()`` of the stats is one table with a sentence that names the stage holding the stream back.

    stage     rate        busy  waits for
    fetch     1.9 GB/s    61%   41 requests, 143.9 MB
    cache     -           -     hits 98%, 143.9 MB held
    decode    1,548 img/s 95%   2 threads
    consumer  1,512 rows/s
    Decoding holds the stream back (95% busy). …
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

__all__ = ["Counters", "LoaderStats", "Stopwatch"]

BUSY_ENOUGH = 0.8  # a stage this busy is the one to look at
KILO = 1000
WAITING = 0.1  # a consumer that waits for less of its time than this is the slow one itself


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """A snapshot of a loader's counters; times are seconds, summed over threads."""

    wall_s: float = 0.0
    batches: int = 0
    rows: int = 0
    requests: int = 0
    fetched_nbytes: int = 0
    fetch_s: float = 0.0  # with at least one request under way
    mapped_chunks: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_nbytes: int = 0
    plan_s: float = 0.0
    gather_s: float = 0.0
    pictures: int = 0
    decode_s: float = 0.0
    transform_s: float = 0.0
    threads: int = 1
    skipped: int = 0
    wait_s: float = 0.0  # the consumer for a batch
    user_s: float = 0.0  # the consumer between batches

    def __str__(self) -> str:
        wall = max(self.wall_s, 1e-9)
        asked = self.cache_hits + self.cache_misses
        rows = [
            ("stage", "rate", "busy", "waits for"),
            (
                "fetch",
                f"{_bytes(self.fetched_nbytes / max(self.fetch_s, 1e-9))}/s"
                if self.requests
                else "-",
                _share(self.fetch_s / wall) if self.requests else "-",
                (
                    f"{self.requests:,} requests, {_bytes(self.fetched_nbytes)};"
                    f" {self.mapped_chunks:,} chunks mapped"
                ),
            ),
            (
                "cache",
                "-",
                "-",
                (
                    f"hits {_share(self.cache_hits / asked if asked else 0.0)},"
                    f" {_bytes(self.cache_nbytes)} held"
                ),
            ),
            (
                "gather",
                f"{self.rows / max(self.gather_s, 1e-9):,.0f} rows/s",
                _share(self.gather_s / wall),
                "one thread a batch",
            ),
            (
                "decode",
                f"{self.pictures / wall:,.0f} img/s" if self.pictures else "-",
                _share(self._decode_share) if self.pictures else "-",
                f"{self.threads} threads",
            ),
            (
                "transform",
                "-",
                _share(self.transform_s / wall / self.threads) if self.transform_s else "-",
                "",
            ),
            (
                "consumer",
                f"{self.rows / wall:,.0f} rows/s",
                _share(self.user_s / wall),
                f"waits for data {_share(self.wait_s / wall)}",
            ),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows]
        return "\n".join([*lines, self.bottleneck()])

    @property
    def _decode_share(self) -> float:
        return self.decode_s / max(self.wall_s, 1e-9) / max(self.threads, 1)

    def bottleneck(self) -> str:
        """Name the stage that holds the stream back, and what would help."""
        wall = max(self.wall_s, 1e-9)
        if not self.batches:
            return "Nothing has been read yet."
        if self.wait_s / wall < WAITING:
            return (
                f"Your own loop holds the stream back: it waits for data"
                f" {_share(self.wait_s / wall)} of the time."
            )
        stages = {
            "decode": self._decode_share,
            "transform": self.transform_s / wall / max(self.threads, 1),
            "fetch": self.fetch_s / wall,
            "gather": self.gather_s / wall,
        }
        name = max(stages, key=lambda stage: stages[stage])
        share = _share(stages[name])
        sentences = {
            "decode": f"Decoding holds the stream back ({share} busy). More threads (workers=),"
            " or stored images nearer the size asked for, would help.",
            "transform": f"Your transform holds the stream back ({share} busy). Work on whole"
            " batches (batch_transform=) would help.",
            "fetch": f"Reading holds the stream back ({share} busy). A larger cache= or a"
            " nearer store would help.",
            "gather": f"Copying rows holds the stream back ({share} busy). Fewer columns"
            " (columns=) would help.",
        }
        if stages[name] < BUSY_ENOUGH and name == "fetch" and not self.requests:
            return f"No stage is saturated; the busiest is {name} ({share})."
        return sentences[name]


class Counters:
    """The counters behind ``LoaderStats``; safe to add to from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {one.name: 0 for one in fields(LoaderStats)}
        self._fetching = 0
        self._fetch_start = 0.0

    def add(self, **amounts: float) -> None:
        """Add to some counters."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount

    @contextmanager
    def timed(self, name: str) -> Generator[None]:
        """Add the time that the body takes."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(**{name: time.perf_counter() - start})

    def fetch_started(self) -> None:
        """Count a request as under way."""
        with self._lock:
            if self._fetching == 0:
                self._fetch_start = time.perf_counter()
            self._fetching += 1

    def fetch_ended(self, nbytes: int, *, requests: int) -> None:
        """Count what was read at once as answered, and by how many requests."""
        with self._lock:
            self._fetching -= 1
            self._values["requests"] += requests
            self._values["fetched_nbytes"] += nbytes
            if self._fetching == 0:
                self._values["fetch_s"] += time.perf_counter() - self._fetch_start

    def snapshot(self, **known: int) -> LoaderStats:
        """Return the counters as they are, with some that others keep."""
        with self._lock:
            values = dict(self._values)
        values.update(known)
        times = {name: value for name, value in values.items() if name.endswith("_s")}
        counts = {name: int(value) for name, value in values.items() if name not in times}
        return LoaderStats(**times, **counts)  # pyright: ignore[reportArgumentType] - by suffix


@dataclass(slots=True)
class Stopwatch:
    """Time between laps, for a consumer that alternates between waiting and working."""

    last: float = field(default_factory=time.perf_counter)

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = time.perf_counter()
        passed, self.last = now - self.last, now
        return passed


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < KILO:
            return f"{count:,.0f} {unit}" if unit in ("B", "kB") else f"{count:,.1f} {unit}"
        count /= KILO
    return f"{count:,.1f} TB"


def _share(value: float) -> str:
    return f"{min(value, 1.0):.0%}"
