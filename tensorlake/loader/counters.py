"""Counters behind ``LoaderStats``: added to by every stage, from any thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

from tensorlake.loader.stats import LoaderStats

__all__ = ["Counters", "Stopwatch"]


class Counters:
    """What happened so far; a snapshot of it is a ``LoaderStats``."""

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

    @property
    def has_rows(self) -> bool:
        """Whether any row was handed out."""
        return self._values["rows"] > 0

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
            self._values["in_flight"] = max(self._values["in_flight"], self._fetching)

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
            if self._fetching:  # what is under way counts up to now
                values["fetch_s"] += time.perf_counter() - self._fetch_start
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
