"""Calling a user's function over rows, piece by piece: side by side, in order, in bounded memory.

A piece is some rows. Threads read a piece's columns and call the function, or hand the values to a
process that does. At most two pieces a worker are under way or waiting to be taken, and they are
taken in the order of the rows, so a slow consumer holds the readers back.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from tensorlake.dataset.view import View

__all__ = ["Call", "Engine", "Piece", "results"]

Int64Array = npt.NDArray[np.int64]
Engine = Literal["threads", "processes"]

ROWS_A_PIECE = 64
"""Rows of which a function of one row gets each in turn before others may run."""

PIECES_A_WORKER = 2
DEFAULT_WORKERS = 4


@dataclass(frozen=True, slots=True)
class Call:
    """What is called, on what, and by whom.

    Attributes:
        function: The user's.
        columns: The columns it is given.
        batch_size: Rows it is given at once; None: one, as a dict of values.
        engine: Where it runs.
        workers: How many run side by side.
        may_skip: Whether what raises is left out.
    """

    function: Callable[[dict[str, Any]], Any]
    columns: tuple[str, ...]
    batch_size: int | None
    engine: Engine
    workers: int
    may_skip: bool

    @classmethod
    def checked(
        cls,
        function: Callable[[dict[str, Any]], Any],
        columns: tuple[str, ...],
        *,
        batch_size: int | None,
        engine: str,
        workers: int | None,
        on_error: str,
    ) -> Call:
        """Check what a user gave.

        Raises:
            InvalidInputError: One of the arguments is none.
            UnsupportedFeatureError: The engine is one that is not there.
        """
        count = DEFAULT_WORKERS if workers is None else workers
        if not callable(function):
            message = f"map() takes a function, got {type(function).__name__}"
            raise InvalidInputError(message, actual=type(function).__name__)
        if engine == "ray":
            raise UnsupportedFeatureError(
                "map(engine='ray') is not there in this version\nuse engine='processes'",
                actual=engine,
            )
        if engine not in ("threads", "processes"):
            raise InvalidInputError(f"engine={engine!r}: give 'threads' or 'processes'")
        if on_error not in ("raise", "skip"):
            raise InvalidInputError(f"on_error={on_error!r}: give 'raise' or 'skip'")
        if count < 1 or (batch_size is not None and batch_size < 1):
            raise InvalidInputError(
                f"batch_size={batch_size}, workers={workers}: give numbers of 1 or more"
            )
        return cls(function, columns, batch_size, engine, count, on_error == "skip")  # pyright: ignore[reportArgumentType] - checked above


@dataclass(frozen=True, slots=True)
class Piece:
    """What the function returned for some rows.

    Attributes:
        positions: Their positions in the view.
        outputs: What it returned, for each row or for all at once; of those it raised for, none.
        skipped: Positions of the rows it raised for, with the errors.
    """

    positions: Int64Array
    outputs: list[Any]
    skipped: tuple[tuple[Int64Array, Exception], ...]


def results(view: View, call: Call, *, start: int = 0, stop: int | None = None) -> Iterator[Piece]:
    """Call the function over rows [start, stop) of a view; pieces come in the order of the rows."""
    last = len(view) if stop is None else stop
    size = call.batch_size or ROWS_A_PIECE
    starts = iter(range(start, last, size))
    with _callers(call) as invoke, ThreadPoolExecutor(call.workers, "tensorlake-map") as pool:

        def run(first: int) -> Piece:
            positions = np.arange(first, min(last, first + size), dtype=np.int64)
            given = _values(view, call, positions)
            return _piece(view, positions, invoke(given), call)

        ahead: deque[Future[Piece]] = deque()
        try:
            for first in starts:
                ahead.append(pool.submit(run, first))
                if len(ahead) >= PIECES_A_WORKER * call.workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for one in ahead:
                one.cancel()


def _values(view: View, call: Call, positions: Int64Array) -> list[dict[str, Any]]:
    """What the function is given: a dict of values for each row, or one of columns."""
    columns = {
        name: _column(view, name, positions, is_whole=call.batch_size is not None)
        for name in call.columns
    }
    if call.batch_size is not None:
        return [columns]
    return [{name: column[at] for name, column in columns.items()} for at in range(len(positions))]


def _column(view: View, name: str, positions: Int64Array, *, is_whole: bool) -> Any:
    selection = view.selection()
    if name == "_row":
        return selection.row_numbers(positions)
    if name in view.computed:
        computed = view.computed[name].take(positions)
        if is_whole:
            return computed.present()
        return [computed.present_one(at) for at in range(len(positions))]
    sample_type = view.schema[name]
    column = view.reader().read(name, selection.physical(positions))
    has_nulls = column.valid is not None and not bool(column.valid.all())
    if is_whole and not has_nulls:
        return sample_type.present(column, tensor=name)
    return [sample_type.present_one(column, at) for at in range(len(positions))]


def _piece(view: View, positions: Int64Array, returned: list[Any], call: Call) -> Piece:
    rows = [positions[at : at + 1] for at in range(len(positions))]
    each = [positions] if call.batch_size is not None else rows
    skipped: list[tuple[Int64Array, Exception]] = []
    outputs: list[Any] = []
    kept: list[Int64Array] = []
    for at, output in zip(each, returned, strict=True):
        if not isinstance(output, _Raised):
            outputs.append(output)
            kept.append(at)
            continue
        if not call.may_skip:
            numbers = view.selection().row_numbers(at) if view.has_rows else at
            shown = f"row {numbers[0]}" if len(at) == 1 else f"rows {numbers[0]} to {numbers[-1]}"
            output.error.add_note(f"raised by the function of map(), for {shown} of {view.url!r}")
            raise output.error
        skipped.append((at, output.error))
    none = np.zeros(0, dtype=np.int64)
    return Piece(np.concatenate([none, *kept]), outputs, tuple(skipped))


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception in the place of an output: the rows beside it are good."""

    error: Exception


def _apply(function: Callable[[Any], Any], given: Sequence[Any]) -> list[Any]:
    outputs: list[Any] = []
    for one in given:
        try:
            outputs.append(function(one))
        except Exception as error:  # noqa: BLE001 - told, or skipped, where the rows are known
            outputs.append(_Raised(error))
    return outputs


@contextmanager
def _callers(call: Call) -> Generator[Callable[[list[dict[str, Any]]], list[Any]]]:
    """Give how the function is called: here, or in processes that are started before any thread."""
    if call.engine == "threads":
        yield lambda given: _apply(call.function, given)
        return
    # Forked, a child has the function whatever it is: a lambda cannot be sent. It only computes:
    # stores are read here.
    method = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(
        call.workers, mp_context=context, initializer=_hold, initargs=(call.function,)
    ) as pool:
        pool.submit(_held_here).result()
        try:
            yield lambda given: pool.submit(_apply_held, given).result()
        finally:
            pool.shutdown(cancel_futures=True)


_held: dict[str, Callable[[Any], Any]] = {}
"""The function of a worker process; one a process, set when it starts."""


def _hold(function: Callable[[Any], Any]) -> None:
    _held["function"] = function


def _held_here() -> bool:
    return "function" in _held


def _apply_held(given: Sequence[Mapping[str, Any]]) -> list[Any]:
    return _apply(_held["function"], given)
