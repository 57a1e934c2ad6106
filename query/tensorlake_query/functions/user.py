"""Functions of the user: Python over NumPy arrays, called in a query by name."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.values.bound import Bound
from tensorlake_query.values.source import (
    BoolArray,
    ColumnType,
    ObjectBatch,
    RaggedBatch,
    UniformBatch,
)
from tensorlake_query.values.types import BOOL, JSON, TEXT, number
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    constant,
    object_array,
    take,
    to_batch,
    valid_of,
)

USER_COST = 1000.0  # Python for each row, against one arithmetic operation on an array element
MAX_ARGUMENTS = 64
_NAME = re.compile(r"[^\W\d]\w*\Z")


def user_function(
    name: str,
    function: Callable[..., Any],
    *,
    dtype: str,
    shape: tuple[int, ...] = (),
    vectorized: bool = False,
    usage: str = "",
    summary: str = "A function of yours.",
) -> Function:
    """Make a function that queries can call, by `tl.udf` or as the plug-in of a package.

    Args:
        name: how queries call it, in any case.
        function: takes one argument for each of the call. Vectorized, it takes whole batches
            (arrays of n rows; lists where samples differ in shape, of text, of JSON) and returns n
            answers; else it takes one row's values and returns one answer. Rows with a NULL are
            left out.
        dtype: of its answers: a NumPy dtype, "text" or "json".
        shape: of one answer; () for a single number.
        vectorized: whether it takes whole batches.
        usage: how a call of it is written, such as "BRIGHTNESS(image)".
        summary: what it gives, in one sentence.

    Raises:
        ValueError: the name is not valid, or the dtype is unknown.
    """
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is not a valid function name")
    column_type = _answer_type(dtype, shape)

    def bind(site: Site) -> Bound:
        def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
            return _called(name, function, vectors, num_rows, column_type, vectorized=vectorized)

        nullable = any(arg.type.nullable for arg in site.args)
        made = replace(column_type, nullable=nullable or column_type.kind == "json")
        return site.apply(kernel, made, cost=USER_COST, role="user")

    usage = usage or f"{name.upper()}(…)"
    return Function(name.upper(), usage, summary, (0, MAX_ARGUMENTS), bind)


def _answer_type(dtype: str, shape: tuple[int, ...]) -> ColumnType:
    if dtype in {"text", "str"}:
        return TEXT
    if dtype == "json":
        return JSON
    if not isinstance(dtype, str | type | np.dtype):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise TypeError(f"a dtype is named by a string, got {type(dtype).__name__}")
    known = np.dtype(dtype)
    if known.kind not in "biuf":
        raise ValueError(f"a function gives numbers, booleans, text or JSON, not {dtype!r}")
    return replace(BOOL, shape=shape) if known.kind == "b" else number(known, shape)


def _called(
    name: str,
    function: Callable[..., Any],
    vectors: Sequence[Vector],
    num_rows: int,
    column_type: ColumnType,
    *,
    vectorized: bool,
) -> Vector:
    valid = np.ones(num_rows, np.bool_)
    for vector in vectors:
        valid &= valid_of(vector)
    if vectorized:
        return _of_known(name, function, vectors, valid, column_type)
    arguments = [_argument(vector) for vector in vectors]
    rows: list[Any] = []
    for row in range(num_rows):
        if not valid[row]:
            rows.append(None)
            continue
        try:
            rows.append(function(*(argument[row] for argument in arguments)))
        except Exception as error:
            message = f"{name} failed: {type(error).__name__}: {error}"
            raise RowError(message, row) from error
    return _answers(name, rows, column_type, valid)


def _of_known(
    name: str,
    function: Callable[..., Any],
    vectors: Sequence[Vector],
    valid: BoolArray,
    column_type: ColumnType,
) -> Vector:
    """Call a vectorized function for the rows without NULL."""
    known = np.flatnonzero(valid)
    if vectors and not len(known):
        return constant(None, column_type, len(valid))
    if len(known) < len(valid):
        vectors = [take(vector, known) for vector in vectors]
    try:
        answers = function(*(_argument(vector) for vector in vectors))
    except Exception as error:
        message = f"{name} failed: {type(error).__name__}: {error}"
        raise RowError(message, int(known[0]) if len(known) else 0) from error
    if len(answers) != len(known):
        raise RowError(f"{name} gave {len(answers)} answers for {len(known)} rows", 0)
    try:
        made = _answers(name, answers, column_type, valid[known])
    except RowError as error:
        raise RowError(error.message, int(known[error.position])) from error.__cause__
    if len(known) == len(valid):
        return made
    places = np.zeros(len(valid), np.int64)
    places[known] = np.arange(len(known))
    spread = take(made, places)
    return replace(spread, valid=valid & valid_of(spread))


def _argument(vector: Vector) -> Any:
    """Return what a function is given of an argument: an array, or a list."""
    batch = to_batch(vector)
    if isinstance(batch, ObjectBatch):
        return batch.values
    if isinstance(batch, RaggedBatch):
        counts = np.prod(batch.shapes, axis=1, dtype=np.int64)
        parts = np.split(batch.values, np.cumsum(counts)[:-1])
        return [
            part.reshape(shape) for part, shape in zip(parts, batch.shapes.tolist(), strict=True)
        ]
    return batch.values


def _answers(name: str, answers: Any, column_type: ColumnType, valid: Any) -> Vector:
    if column_type.dtype is None:
        values = object_array(list(cast("Sequence[object]", answers)))
        known = np.array([each is not None for each in values.tolist()], np.bool_)
        if column_type.kind == "text":
            for row, each in enumerate(values.tolist()):
                if each is not None and not isinstance(each, str):
                    raise RowError(f"{name} gave {type(each).__name__} where text is needed", row)
            values[~known] = ""
        return UniformBatch(values, known & valid)
    shape = cast("tuple[int, ...]", column_type.shape)
    filler = np.zeros(shape, column_type.dtype)
    if not isinstance(answers, np.ndarray):
        answers = [filler if each is None else each for each in answers]
    try:
        made = np.asarray(answers, column_type.dtype)
    except (TypeError, ValueError) as error:
        raise RowError(
            f"{name} returned a value that is not {column_type.dtype}: {error}", 0
        ) from error
    if made.shape != (len(valid), *shape):
        raise RowError(f"{name} gave answers of shape {made.shape[1:]}, not {shape}", 0)
    return UniformBatch(made, valid)
