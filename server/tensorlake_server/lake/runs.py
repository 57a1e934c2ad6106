"""Runs that were recorded beside datasets, kept while their records are the same.

A kept run has read its steps and made the plans of its passes. It answers one request at a time:
its plans move. Later parts of a record are read when it is opened again.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from tensorlake.dataset import runs_inside
from tensorlake.errors import QueryLimitError
from tensorlake.storage import LruCache

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import tensorlake as tl
    from tensorlake.dataset import Dataset, QueryLimits

__all__ = ["KnownRuns"]

KEPT_RUNS = 16  # each with at most a few million steps
POLL_S = 0.2  # until a waiting request sees that its client has gone


class KnownRuns:
    """Opens runs by name. Safe between threads."""

    def __init__(self) -> None:
        self._runs: LruCache[tuple[str, str], tuple[tl.Run, Lock]] = LruCache(KEPT_RUNS)

    @contextmanager
    def open(self, dataset: Dataset, name: str, limits: QueryLimits) -> Generator[tl.Run]:
        """Open a run that was recorded beside a dataset, for one request at a time.

        Raises:
            RunNotFoundError: There is none of this name.
            CorruptionError: Its record is damaged.
            QueryLimitError: Other requests for it take too long.
        """
        run = runs_inside(dataset)[name]
        key = dataset.url, name
        kept = self._runs.get(key)
        if kept is None or kept[0].history.record.content != run.history.record.content:
            kept = run, Lock()
            self._runs.put(key, kept)
        found, lock = kept
        _acquire(lock, name, limits)
        try:
            yield found
        finally:
            lock.release()

    def discard(self, matches: Callable[[str], bool]) -> None:
        """Forget the runs of the datasets whose URLs match."""
        self._runs.discard(lambda key: matches(key[0]))


def _acquire(lock: Lock, name: str, limits: QueryLimits) -> None:
    waited = 0.0
    while not lock.acquire(timeout=POLL_S):
        waited += POLL_S
        is_late = limits.timeout_s is not None and waited > limits.timeout_s
        if is_late or (limits.cancelled is not None and limits.cancelled()):
            raise QueryLimitError(
                f"other requests for run {name!r} took longer than {waited:.0f} s\ntry again"
            )
