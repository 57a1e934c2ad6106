"""Counters behind ``LoaderStats``: added to by every stage, from any thread.

Nested timings count once, for the inner one. Built-in stages never sleep and make no requests, so
the time in which their thread could run is their work, and the rest was spent waiting: for the
interpreter's lock, or the disk of a mapped file. User functions may wait for anything, and all
their time counts as theirs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

from tensorlake.loader.runtime.clocks import Times, thread_times
from tensorlake.loader.runtime.stats import LoaderStats

__all__ = ["Counters", "Stopwatch"]

NO_TIMES = Times(0.0, 0.0)
OWN_WORK = frozenset({"unpack_s", "gather_s", "decode_s"})


class _Inner(threading.local):
    """Times measured inside the timing that a thread is in."""

    wall_s = 0.0
    times = NO_TIMES


class Counters:
    """The counters so far; a snapshot of them is a ``LoaderStats``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {one.name: 0 for one in fields(LoaderStats)}
        self._fetching = 0
        self._fetch_start = 0.0
        self._inner = _Inner()
        self._held: dict[str, bool] = {}
        self._held_start: float | None = None

    def add(self, **amounts: float) -> None:
        """Add to some counters."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount

    @property
    def has_rows(self) -> bool:
        """Whether any row was handed out."""
        return self._values["rows"] > 0

    def rows_within(self, seconds: float) -> float:
        """Return how many rows functions take some seconds for, by the rows so far; 0: unknown."""
        with self._lock:
            taken_s = self._values["transform_s"] + self._values["collate_s"]
            return seconds * self._values["rows"] / max(taken_s, 1e-9)

    def waited(self, seconds: float) -> None:
        """Add the time that a thread waited with work to do."""
        self.add(waiting_s=seconds)

    @contextmanager
    def timed(self, name: str) -> Generator[None]:
        """Add the time that the body takes; for built-in stages, also the part spent waiting."""
        inner = self._inner
        outer_wall_s, outer_times = inner.wall_s, inner.times
        inner.wall_s, inner.times = 0.0, NO_TIMES
        wall, times = time.perf_counter(), thread_times()
        try:
            yield
        finally:
            whole_s, passed = time.perf_counter() - wall, thread_times().since(times)
            own_s, own = whole_s - inner.wall_s, passed.since(inner.times)
            inner.wall_s, inner.times = outer_wall_s + whole_s, outer_times.plus(passed)
            if name in OWN_WORK:
                ready_s = min(own.ready_s, own_s)  # two clocks, slightly different
                queued_s = min(own.queued_s, ready_s)
                self.add(**{name: ready_s, "queued_s": queued_s, "waiting_s": own_s - ready_s})
            else:
                self.add(**{name: own_s})

    def hold(self, **reasons: bool) -> None:
        """Set or clear reasons why no more is fetched; time is counted while all of them hold.

        Args:
            reasons: ``full``: the plan waits for room in the prefetch. ``chunks``, ``rows``: the
                readers of these could make more requests at once.
        """
        with self._lock:
            self._held.update(reasons)
            is_held = "full" in self._held and all(self._held.values())
            if is_held and self._held_start is None:
                self._held_start = time.perf_counter()
            elif not is_held and self._held_start is not None:
                self._values["held_s"] += time.perf_counter() - self._held_start
                self._held_start = None

    def fetch_started(self) -> None:
        """Count a request as under way."""
        with self._lock:
            if self._fetching == 0:
                self._fetch_start = time.perf_counter()
            self._fetching += 1
            self._values["in_flight"] = max(self._values["in_flight"], self._fetching)

    def fetch_ended(self, nbytes: int, *, requests: int) -> None:
        """Count one read as answered, with its bytes and number of requests."""
        with self._lock:
            self._fetching -= 1
            self._values["requests"] += requests
            self._values["fetched_nbytes"] += nbytes
            if self._fetching == 0:
                self._values["fetch_s"] += time.perf_counter() - self._fetch_start

    def snapshot(self, **known: float) -> LoaderStats:
        """Return the current counters, together with some that other objects keep."""
        with self._lock:
            values = dict(self._values)
            if self._fetching:  # requests in flight count up to now
                values["fetch_s"] += time.perf_counter() - self._fetch_start
            if self._held_start is not None:
                values["held_s"] += time.perf_counter() - self._held_start
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
