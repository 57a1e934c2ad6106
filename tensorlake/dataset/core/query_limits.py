"""Limits of a query: time, memory and cancellation. And a check of what reads rows in pieces."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

__all__ = ["QueryLimits", "checked_pieces", "pieces_checked"]

T = TypeVar("T")

UNKNOWN_MEMORY_NBYTES = 16 << 30  # if the machine does not report its memory
CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
"""Memory limit of a container, in version 2 and 1 of control groups."""

MORE_MEMORY = "or allow more: ds.query(…, max_memory='64GiB')"


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of a query: seconds, bytes of samples, and a cancellation event.

    Attributes:
        timeout_s: Seconds; None: never.
        max_nbytes: Bytes of samples read; None: unlimited.
        cancelled: Checked between batches.
        memory_nbytes: Bytes in memory at once, during the query and during each later evaluation
            of its columns; None: half of the memory of the machine.
        advice: How to allow more memory, for the error.
    """

    timeout_s: float | None = None
    max_nbytes: int | None = None
    cancelled: Callable[[], bool] | None = None
    memory_nbytes: int | None = None
    advice: str = MORE_MEMORY

    @property
    def most_held_nbytes(self) -> int:
        """The memory limit."""
        return half_of_memory() if self.memory_nbytes is None else self.memory_nbytes


@cache
def half_of_memory() -> int:
    """Half of the memory of this machine, or of what its container may use."""
    known = UNKNOWN_MEMORY_NBYTES
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        known = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for place in CGROUP_LIMITS:
        try:
            limit = Path(place).read_text(encoding="ascii").strip()
        except OSError:
            continue  # no such version here
        if limit.isdigit():  # "max" where there is none
            known = min(known, int(limit))
    return known // 2


_check: ContextVar[Callable[[], None] | None] = ContextVar("check of pieces", default=None)


@contextmanager
def pieces_checked(check: Callable[[], None]) -> Generator[None]:
    """Call a function before each piece of rows that the body reads; it raises to end that."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def checked_pieces(pieces: Iterable[T]) -> Iterator[T]:
    """Yield pieces, each after the check that the caller is in; see `pieces_checked`."""
    check = _check.get()
    for piece in pieces:
        if check is not None:
            check()
        yield piece
