"""Workers of ``map``: a function is called over rows in parallel, in order, in bounded memory.

Threads read a piece's columns and call the function, or hand the values to a process that does; on
a Ray cluster the workers read, too (`cluster.py`). At most two pieces per worker are in progress or
queued, and they are consumed in the order of the rows, so a slow consumer applies backpressure to
the readers.
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.transform.map.calls import (
    Call,
    Piece,
    applied,
    inputs_of,
    new_function,
    packed,
    piece_of,
    rows_shown,
)
from tensorlake.dataset.transform.map.cluster import results_from
from tensorlake.errors import InvalidStateError
from tensorlake.storage import parallel_map

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["results"]

Int64Array = npt.NDArray[np.int64]

PIECES_A_WORKER = 2


def results(
    view: RowSet, call: Call, pieces: Iterable[Int64Array], *, has_digests: bool = False
) -> Generator[Piece]:
    """Call the function over rows of a view; results come in the order of the pieces.

    Args:
        view: The rows.
        call: The function; with ``batch_size`` it gets a piece at once.
        pieces: Positions, a few rows at a time.
        has_digests: Whether rows are digested where they are read.
    """
    if call.engine == "ray":
        ahead = PIECES_A_WORKER * call.workers - 1
        yield from results_from(view, call, pieces, ahead=ahead, has_digests=has_digests)
        return
    with _callers(call) as invoke, ThreadPoolExecutor(call.workers, "tensorlake-map") as pool:

        def run(positions: Int64Array) -> Piece:
            given, digests = inputs_of(view, call, positions, has_digests=has_digests)
            try:
                returned = invoke(given)
            except BrokenProcessPool as error:
                raise InvalidStateError(
                    f"a worker process ended before the function returned, for"
                    f" {rows_shown(view, positions)} or rows beside: it was killed, often for the"
                    " memory it took, or ended itself\nlet fewer processes or smaller"
                    " batches run at once, or look on with engine='threads'"
                ) from error
            return piece_of(view, positions, returned, call, digests=digests)

        ahead = PIECES_A_WORKER * call.workers - 1
        try:
            yield from parallel_map(run, pieces, pool=pool, ahead=ahead)
        finally:  # also where the user stopped it: what runs ends with the row it is at
            invoke.stop()


class _Stop(Protocol):
    """Signals cancellation between processes."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Invoke:
    """Calls the function for each of some values, somewhere."""

    run: Callable[[list[dict[str, Any]]], list[Any]]
    stop: Callable[[], None]

    def __call__(self, given: list[dict[str, Any]]) -> list[Any]:
        return self.run(given)


@contextmanager
def _callers(call: Call) -> Generator[_Invoke]:
    """Give how the function is called: here, or in processes that are started before any thread."""
    if call.engine == "threads":
        stop, own = threading.Event(), threading.local()

        def call_here(given: list[dict[str, Any]]) -> list[Any]:
            if not hasattr(own, "function"):
                own.function = new_function(call.function)
            return applied(own.function, given, stop.is_set)

        yield _Invoke(call_here, stop.set)
        return
    # Forked, a child has the function whatever it is: a lambda cannot be sent. It only computes:
    # stores are read here.
    method = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    is_ended = context.Event()
    with ProcessPoolExecutor(
        call.workers, mp_context=context, initializer=_hold, initargs=(call.function, is_ended)
    ) as pool:
        pool.submit(_held_here).result()
        try:
            yield _Invoke(
                lambda given: pickle.loads(pool.submit(_apply_held, given).result()),  # noqa: S301 - our own children's
                is_ended.set,
            )
        finally:
            pool.shutdown(cancel_futures=True)


_held: dict[str, Any] = {}
"""The function of a worker process, and its stop; one a process, set when it starts."""


def _hold(function: Callable[[Any], Any], stop: _Stop) -> None:
    _held.update(function=function, stop=stop)


def _held_here() -> bool:
    return "function" in _held


def _apply_held(given: Sequence[Mapping[str, Any]]) -> bytes:
    """Call the function, and make of what it returned bytes that can be sent, whatever it was."""
    if "own" not in _held:
        _held["own"] = new_function(_held["function"])
    return packed(applied(_held["own"], given, _held["stop"].is_set))
