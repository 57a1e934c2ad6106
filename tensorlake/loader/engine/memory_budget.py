"""The memory budget of a pass: data between fetch and user, in two parts, each with a bound.

    planned ─► admitted ─────────────────► opened ─────────────────► taken
               its chunks are requested    its batches are made      by the consumer
               fetch: counted from being   batches: counted from
               requested to being cut      being opened to being taken

``prefetch`` is the sum of both bounds, and groups pass both borders in the order of the plan. With
one bound for both, batches use up the memory that fetching needs: the floats of an image are six
times its JPEG, so at 200 ms per request three requests were in flight where twelve could be. And
batches that the consumer does not take fill only their own part: all data behind them waits in
stored form.

Two groups of any size are always admitted and opened: one is made while one is used.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorlake.loader.runtime.threads import Task
    from tensorlake.loader.sources.batch_group import Group

__all__ = ["MIN_GROUPS", "Budget", "batch_nbytes_of", "bounds"]

MIN_GROUPS = 2
# Chunks wait for the latency of a store, batches only for an occasionally late consumer. Of
# 256 MiB these are six batches of 64 images of 224², as many as decoding in the order of the plan
# fills at the same time (docs/decisions/0031).
BATCH_SHARE = 4


def bounds(prefetch_nbytes: int) -> tuple[int, int]:
    """Divide the prefetch into the bounds of fetching and of batches."""
    batches = prefetch_nbytes // BATCH_SHARE
    return prefetch_nbytes - batches, batches


@dataclass(slots=True)
class _Place:
    """The budget counted for a waiting group."""

    stored_nbytes: int  # 0 once its chunks are released
    batch_nbytes: int
    held: list[Task] = field(default_factory=list["Task"])  # until it is opened
    is_open: bool = False


class Budget:
    """Decides which groups may fetch and decode; safe to use from many threads.

    Deferred tasks are run by the thread that opens their group, with no lock held.
    """

    def __init__(self, prefetch_nbytes: int, *, most_groups: int) -> None:
        self._most_stored, self._most_made = bounds(prefetch_nbytes)
        self._most_groups = most_groups
        self._lock = threading.Lock()
        self._places: dict[Group, _Place] = {}  # admitted and not taken, in the plan's order
        self._closed: deque[Group] = deque()
        self._stored_nbytes = 0
        self._made_nbytes = 0

    @property
    def groups(self) -> list[Group]:
        """The groups that are admitted and not taken."""
        with self._lock:
            return list(self._places)

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes counted for fetching and for batches."""
        return self._stored_nbytes, self._made_nbytes

    def admit(self, group: Group, *, held_nbytes: int = 0) -> bool:
        """Admit a group, whose chunks may then be requested, if there is room.

        ``held_nbytes`` are those of blocks, which windows pin beyond their groups.
        """
        with self._lock:
            count = len(self._places)
            fits = self._stored_nbytes + held_nbytes + group.stored_nbytes <= self._most_stored
            if count >= MIN_GROUPS and not (fits and count < self._most_groups):
                return False
            self._places[group] = _Place(group.stored_nbytes, group.batch_nbytes)
            self._closed.append(group)
            self._stored_nbytes += group.stored_nbytes
            self._open()  # no task is deferred for it yet
        return True

    def submit(self, group: Group, task: Task) -> None:
        """Run a task that makes a group's batches as soon as they may take memory."""
        with self._lock:
            place = self._places.get(group)  # None: the pass has ended
            if place is not None and not place.is_open:
                place.held.append(task)
                return
        task()

    def cut(self, group: Group, made_nbytes: int) -> None:
        """Count a group's chunks as released, and its batches at their actual size."""
        with self._lock:
            place = self._places.get(group)
            if place is None:  # the consumer has it already and gathers it
                return
            self._stored_nbytes -= place.stored_nbytes
            self._made_nbytes += made_nbytes - place.batch_nbytes
            place.stored_nbytes, place.batch_nbytes = 0, made_nbytes
            tasks = self._open()
        _run(tasks)

    def take(self, group: Group) -> None:
        """Count a group as the consumer's."""
        with self._lock:
            place = self._places.pop(group, None)
            if place is None:
                return
            self._stored_nbytes -= place.stored_nbytes
            self._made_nbytes -= place.batch_nbytes
            tasks = self._open()
        _run(tasks)

    def clear(self) -> list[Group]:
        """Remove all groups and their deferred tasks; return the groups."""
        with self._lock:
            groups = list(self._places)
            self._places.clear()
            self._closed.clear()
            self._stored_nbytes = self._made_nbytes = 0
        return groups

    def _open(self) -> list[Task]:
        """Open the next groups that fit; return their deferred tasks."""
        tasks: list[Task] = []
        while self._closed:
            place = self._places[self._closed[0]]
            count = len(self._places) - len(self._closed)
            fits = self._made_nbytes + place.batch_nbytes <= self._most_made
            if count >= MIN_GROUPS and not fits:
                break
            self._closed.popleft()
            self._made_nbytes += place.batch_nbytes
            place.is_open = True
            tasks += place.held
            place.held = []
        return tasks


def batch_nbytes_of(batches: Iterable[Mapping[str, Any]]) -> int:
    """Return the memory of batches: their arrays and the samples in their lists."""
    return sum(_nbytes_of(values) for batch in batches for values in batch.values())


def _nbytes_of(values: Any) -> int:
    if isinstance(values, list | tuple):
        return sum(map(_nbytes_of, values))
    if isinstance(values, bytes | bytearray | str):
        return len(values)
    nbytes = getattr(values, "nbytes", 0)  # Any: the result of a transform or collate function
    return nbytes if isinstance(nbytes, int) else 0


def _run(tasks: Iterable[Callable[[], None]]) -> None:
    for task in tasks:
        task()
