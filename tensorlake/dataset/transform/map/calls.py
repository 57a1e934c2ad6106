"""The calls of ``map``: a user's function, its inputs, and what it returned, piece by piece.

A piece is some rows. A class whose objects can be called is a function with a state, such as a
model: each worker makes an object of it once, before its first row.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.structs import expand_names
from tensorlake.dataset.transform.map.items import row_stamps
from tensorlake.dataset.transform.map.resources import Needs, refuse_memory, workers_on
from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import checked_integer

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = [
    "RAY_CALL",
    "ROWS_A_PIECE",
    "Call",
    "Engine",
    "MapOptions",
    "Piece",
    "applied",
    "inputs_of",
    "never",
    "new_function",
    "packed",
    "piece_of",
    "pieces_of",
    "row_numbers",
    "rows_shown",
]

Int64Array = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
Engine = Literal["threads", "processes", "ray"]

ROWS_A_PIECE = 64
"""Rows of which a function of one row gets each in turn before others may run."""

RAY_CALL = "map(engine='ray')"
IN_MEMORY = "copy it to a place that they do: tl.copy(src, dst), or map it here: engine='threads'"

DEFAULT_WORKERS = 4
WORKERS_MAX = 1024  # threads or processes of one call; more would exhaust a machine's


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
        needs: The resources that each worker has for itself.
    """

    function: Callable[[dict[str, Any]], Any]
    columns: tuple[str, ...]
    batch_size: int | None
    engine: Engine
    workers: int
    may_skip: bool
    needs: Needs = field(default_factory=Needs)

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
            refuse_memory(rows.session.store, call=RAY_CALL, instead=IN_MEMORY)
            count = min(WORKERS_MAX, workers_on(needs, call=RAY_CALL, wanted=workers))
        may_skip = on_error == "skip"
        return cls(function, names, batch_size, engine, count, may_skip, needs)  # pyright: ignore[reportArgumentType] - checked above


def _columns(view: RowSet, columns: Sequence[str] | None) -> tuple[str, ...]:
    known = view.columns
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
