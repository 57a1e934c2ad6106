"""Calling a user's function over rows, piece by piece: in parallel, in order, in bounded memory.

A piece is some rows. Threads read a piece's columns and call the function, or hand the values to a
process that does; on a Ray cluster the workers read, too (`cluster.py`). At most two pieces per
worker are in progress or queued, and they are consumed in the order of the rows, so a slow consumer
applies backpressure to the readers.

A class whose objects can be called is a function with a state, such as a model: each worker makes
an object of it once, before its first row.
"""

from __future__ import annotations

import inspect
import math
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.structs import expand_names
from tensorlake.dataset.transform.map.items import row_stamps
from tensorlake.errors import InvalidInputError, InvalidStateError, shown
from tensorlake.quantities import checked_integer
from tensorlake.storage import parallel_map

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = [
    "PIECES_A_WORKER",
    "ROWS_A_PIECE",
    "Call",
    "Engine",
    "MapOptions",
    "Needs",
    "Piece",
    "applied",
    "inputs_of",
    "never",
    "new_function",
    "packed",
    "piece_of",
    "pieces_of",
    "results",
    "row_numbers",
    "rows_shown",
]

Int64Array = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
Engine = Literal["threads", "processes", "ray"]

ROWS_A_PIECE = 64
"""Rows of which a function of one row gets each in turn before others may run."""

PIECES_A_WORKER = 2
DEFAULT_WORKERS = 4
WORKERS_MAX = 1024  # threads or processes of one call; more would exhaust a machine's


@dataclass(frozen=True, slots=True)
class Needs:
    """The resources of a cluster that a worker has for itself, beside one processor.

    Attributes:
        num_gpus: Graphics processors; a fraction shares one.
        resources: Custom resources of Ray, by name.
    """

    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(cls, engine: str, num_gpus: Any, resources: Any) -> Needs:
        """Check what a user gave.

        Raises:
            InvalidInputError: It is not an amount of a resource, or the engine has none.
        """
        if engine != "ray" and not (num_gpus is None and resources is None):
            raise InvalidInputError(
                f"num_gpus= and resources= are of engine='ray', and engine={engine!r} runs here"
                "\nleave them out, or give engine='ray'"
            )
        if resources is not None and not isinstance(resources, Mapping):
            raise InvalidInputError(
                f"resources is amounts by name, got {shown(resources)}"
                "\nwrite resources={'name': 1}"
            )
        amounts: dict[Any, Any] = dict(resources or {})
        for name, amount in (("num_gpus", num_gpus or 0), *amounts.items()):
            is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
            if not isinstance(name, str) or not is_number or not 0 <= amount < math.inf:
                raise InvalidInputError(
                    f"{name if name == 'num_gpus' else f'resources[{name!r}]'} is an amount of"
                    f" at least 0, got {shown(amount)}"
                )
        return cls(num_gpus or 0, amounts)


@dataclass(frozen=True, slots=True)
class MapOptions:
    """The options of ``ds.map`` for calls of its function."""

    batch_size: int | None
    engine: str
    workers: int | None
    on_error: str
    storage_options: Mapping[str, Any] | None
    num_gpus: float | None = None
    resources: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A user's function, its inputs and its workers.

    Attributes:
        function: The user's.
        columns: The columns it is given.
        batch_size: Rows it is given at once; None: one, as a dict of values.
        engine: Where it runs.
        workers: How many run side by side.
        may_skip: Whether what raises is left out.
        needs: What each worker has for itself.
    """

    function: Callable[[dict[str, Any]], Any]
    columns: tuple[str, ...]
    batch_size: int | None
    engine: Engine
    workers: int
    may_skip: bool
    needs: Needs = Needs()

    @classmethod
    def of(
        cls,
        function: Callable[[dict[str, Any]], Any],
        rows: RowSet,
        columns: Sequence[str] | None,
        options: MapOptions,
    ) -> Call:
        """Check what a user gave.

        Raises:
            InvalidInputError: An argument is invalid.
            MissingExtraError: The engine is "ray", and Ray is not installed.
        """
        engine, on_error, workers = options.engine, options.on_error, options.workers
        batch_size = options.batch_size
        if not callable(function):
            message = f"map() takes a function, got {type(function).__name__}"
            raise InvalidInputError(message, actual=type(function).__name__)
        if not isinstance(engine, str) or engine not in ("threads", "processes", "ray"):
            raise InvalidInputError(f"engine={shown(engine)}: give 'threads', 'processes' or 'ray'")
        if not isinstance(on_error, str) or on_error not in ("raise", "skip"):
            raise InvalidInputError(f"on_error={shown(on_error)}: give 'raise' or 'skip'")
        for name, number in (("batch_size", batch_size), ("workers", workers)):
            if number is not None:
                most = WORKERS_MAX if name == "workers" else None
                checked_integer(number, name=name, least=1, most=most)
        needs = Needs.of(engine, options.num_gpus, options.resources)
        names = _columns(rows, columns)
        count = DEFAULT_WORKERS if workers is None else workers
        if engine == "ray":
            from tensorlake.dataset.transform.map.cluster import workers_on

            count = min(WORKERS_MAX, workers_on(rows, needs, wanted=workers))
        may_skip = on_error == "skip"
        return cls(function, names, batch_size, engine, count, may_skip, needs)  # pyright: ignore[reportArgumentType] - checked above


def _columns(view: RowSet, columns: Sequence[str] | None) -> tuple[str, ...]:
    known = (*view.selection.columns, *view.computed)
    if isinstance(columns, str):
        message = (
            f"columns is a list of names, got {shown(columns)}\nwrite columns=[{shown(columns)}]"
        )
        raise InvalidInputError(message, actual=columns)
    columns = None if columns is None else expand_names(columns, (*known, "_row"))
    for name in columns or ():
        if name not in known and name != "_row":
            raise unknown_column(name, (*known, "_row"))
    return known if columns is None else tuple(columns)


@dataclass(frozen=True, slots=True)
class Piece:
    """The results of the function for some rows.

    Attributes:
        positions: Their positions in the view.
        outputs: Its results, for each row or for all at once, without rows for which it raised.
        skipped: Positions of the rows it raised for, with the errors.
        digests: Digests of all its rows, in the order in which they were given.
    """

    positions: Int64Array
    outputs: list[Any]
    skipped: tuple[tuple[Int64Array, Exception], ...]
    digests: Digests | None = None


def pieces_of(rows: int, call: Call) -> Iterator[Int64Array]:
    """Yield the positions of all rows, in pieces."""
    size = call.batch_size or ROWS_A_PIECE
    for start in range(0, rows, size):
        yield np.arange(start, min(rows, start + size), dtype=np.int64)


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
        from tensorlake.dataset.transform.map.cluster import results_from

        yield from results_from(view, call, pieces, has_digests=has_digests)
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


def row_numbers(view: RowSet, positions: Int64Array) -> Int64Array:
    """Return the row numbers of positions in a view; an aggregate has its positions alone."""
    return view.selection.row_numbers(positions) if view.has_rows else positions


def rows_shown(view: RowSet, positions: Int64Array) -> str:
    """Name rows of a view, next to one another, for a message."""
    numbers = row_numbers(view, positions)
    first, last = numbers[0], numbers[-1]
    described = f"row {first}" if len(positions) == 1 else f"rows {first} to {last}"
    return f"{described} of {view.url!r}"


def inputs_of(
    view: RowSet, call: Call, positions: Int64Array, *, has_digests: bool
) -> tuple[list[dict[str, Any]], Digests | None]:
    """Read the function's inputs, a dict of values for each row or one of columns; and digests."""
    digests = row_stamps(view, call.columns, positions) if has_digests else None
    columns = {
        name: _column(view, name, positions, is_whole=call.batch_size is not None)
        for name in call.columns
    }
    if call.batch_size is not None:
        return [columns], digests
    rows = range(len(positions))
    return [{name: column[at] for name, column in columns.items()} for at in rows], digests


def _column(view: RowSet, name: str, positions: Int64Array, *, is_whole: bool) -> Any:
    selection = view.selection
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


def piece_of(
    view: RowSet,
    positions: Int64Array,
    returned: list[Any],
    call: Call,
    *,
    digests: Digests | None,
) -> Piece:
    """Sort what a function returned from what it raised.

    Raises:
        Exception: The user's, with a note of its rows, unless such rows are left out.
    """
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
            described = rows_shown(view, at)
            output.error.add_note(f"raised by the function of map(), for {described}")
            raise output.error
        skipped.append((at, output.error))
    none = np.zeros(0, dtype=np.int64)
    return Piece(np.concatenate([none, *kept]), outputs, tuple(skipped), digests)


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception in the place of an output: the rows beside it are good."""

    error: Exception


class _Stop(Protocol):
    """Signals cancellation between processes."""

    def is_set(self) -> bool: ...


def new_function(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a function, or a new object of a class whose objects can be called."""
    if not isinstance(function, type) or not any("__call__" in vars(one) for one in function.mro()):
        return function
    return cast("Callable[[Any], Any]", function())


def never() -> bool:
    """Never stop."""
    return False


def applied(
    function: Callable[[Any], Any], given: Sequence[Any], is_stopped: Callable[[], bool]
) -> list[Any]:
    """Call a function for each of some values; what it raises takes the place of its output."""
    outputs: list[Any] = []
    for one in given:
        if is_stopped():
            break
        try:
            output = function(one)
            outputs.append([*output] if inspect.isgenerator(output) else output)
        except Exception as error:  # noqa: BLE001 - is_ended, or skipped, where the rows are known
            outputs.append(_Raised(error))
    return outputs


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


def packed(outputs: list[Any]) -> bytes:
    """Pickle outputs; those that cannot be sent between processes become errors."""
    try:
        sent = pickle.dumps(outputs, pickle.HIGHEST_PROTOCOL)
        if any(isinstance(one, _Raised) for one in outputs):
            pickle.loads(sent)  # noqa: S301 - what was just made: some errors cannot be made again
    except Exception:  # noqa: BLE001 - whatever a user's class raises; found one by one
        return pickle.dumps([_sendable(one) for one in outputs], pickle.HIGHEST_PROTOCOL)
    return sent


def _sendable(output: Any) -> Any:
    try:
        pickle.loads(pickle.dumps(output, pickle.HIGHEST_PROTOCOL))  # noqa: S301 - as above
    except Exception as error:  # noqa: BLE001 - as above
        if isinstance(output, _Raised):
            return _Raised(RuntimeError(f"{type(output.error).__name__}: {output.error}"))
        return _Raised(
            InvalidInputError(
                f"the function returned what cannot be sent between processes: {error}"
                "\nreturn arrays, numbers or text, or call it here: engine='threads'"
            )
        )
    return output
