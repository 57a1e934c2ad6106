"""Matrix products with one BLAS thread, in threads of our own.

The threads of OpenBLAS wait for each other by spinning: on cores that others use as well a product
takes up to 30 times as long (measured, docs/decisions/0150). Blocks that are each computed by one
thread do not wait for one another. Where NumPy has another BLAS, its own threads remain.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import TypeVar

import numpy as np

__all__ = ["in_threads", "one_blas_thread"]

T = TypeVar("T")
R = TypeVar("R")

_lock = Lock()
_users = 0
_before = 0


@contextmanager
def one_blas_thread() -> Generator[None]:
    """Let NumPy's OpenBLAS compute in the calling threads alone; for the whole process."""
    global _users, _before  # noqa: PLW0603 - the setting is the process's
    calls = _thread_calls()
    if calls is None:
        yield
        return
    get_count, set_count = calls
    with _lock:
        if _users == 0:
            _before = get_count()
            set_count(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                set_count(_before)


def in_threads(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call a function of each item, in as many threads as there are cores; in order."""
    items = list(items)
    count = min(len(items), os.cpu_count() or 1)
    if count <= 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(count, "tensorlake-vectors") as pool:
        return list(pool.map(call, items))


@lru_cache(maxsize=1)
def _thread_calls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Find the functions of the OpenBLAS that NumPy's wheels contain."""
    try:
        library = ctypes.CDLL(np.linalg._umath_linalg.__file__)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no public name leads to NumPy's own library
        get_count = library.scipy_openblas_get_num_threads64_
        set_count = library.scipy_openblas_set_num_threads64_
    except (AttributeError, OSError):
        return None
    return get_count, set_count
