"""Evaluation of bound expressions over one batch of rows.

A `Scope` is a set of rows and where their columns come from. It reads each column at most once, and
only when an expression asks; `take` keeps what has been read for the rows that survive.
"""

import numpy as np

from tensorlake_query.ast import Span
from tensorlake_query.bound import (
    Apply,
    Bound,
    ColumnRef,
    Constant,
    CorpusRef,
    DataRef,
    QueryRef,
    RowId,
    RowNumber,
    ShapeRef,
    span_of,
)
from tensorlake_query.errors import QueryTypeError
from tensorlake_query.readers import Reader
from tensorlake_query.source import IntArray, UniformBatch
from tensorlake_query.types import is_ragged
from tensorlake_query.vectors import (
    RowError,
    Vector,
    all_valid,
    constant,
    object_array,
    take,
)


class Scope:
    """Some rows, and the columns that have been read for them."""

    def __init__(self, reader: Reader, rows: IntArray, text: str) -> None:
        self.reader = reader
        self.rows = rows
        self.text = text
        self._columns: dict[str, Vector] = {}
        self._shapes: dict[str, Vector] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Vector:
        """Return a column's samples, read at the first call."""
        if name not in self._columns:
            try:
                self._columns[name] = self.reader.column(name, self.rows)
            except RowError as error:  # of a stack: the position is a group's
                shown = f"{name!r}, group {error.position}: {error.message}"
                raise QueryTypeError(shown, text=self.text, span=_whole(self.text)) from None
        return self._columns[name]

    def shapes(self, name: str) -> Vector:
        """Return a column's sample shapes, asked for at the first call."""
        if name not in self._shapes:
            self._shapes[name] = self.reader.shapes(name, self.rows)
        return self._shapes[name]

    def take(self, positions: IntArray) -> "Scope":
        """Return the scope of some of the rows, with what has been read of them."""
        scope = Scope(self.reader, self.rows[positions], self.text)
        scope._columns = {name: take(vector, positions) for name, vector in self._columns.items()}
        scope._shapes = {name: take(vector, positions) for name, vector in self._shapes.items()}
        return scope


def _whole(text: str) -> Span:
    return Span(0, len(text))


def evaluate(expr: Bound, scope: Scope) -> Vector:
    """Return the values of an expression for every row of a scope.

    Raises:
        QueryTypeError: the values of a row do not fit together.
    """
    with np.errstate(all="ignore"):  # division by zero and overflow give what NumPy gives
        return _evaluate(expr, scope)


def _evaluate(expr: Bound, scope: Scope) -> Vector:
    match expr:
        case ColumnRef(name):
            return scope.column(name)
        case ShapeRef(name):
            return scope.shapes(name)
        case Constant(value, column_type):
            return constant(value, column_type, len(scope))
        case Apply():
            return _apply(expr, scope)
        case QueryRef() | CorpusRef():
            return _answer(expr, scope)
        case RowNumber() | RowId() | DataRef():
            return _placed(expr, scope)


def _placed(expr: RowNumber | RowId | DataRef, scope: Scope) -> Vector:
    """Return what depends on where a row stands in its source."""
    rows = scope.reader.source_rows(scope.rows)
    if rows is None:
        raise _failure(RowError("a group is no row of the source", 0), expr, scope)
    base = scope.reader.base
    try:
        if isinstance(expr, RowNumber):
            return UniformBatch(base.stored_rows(rows) if expr.is_stored else rows)
        if isinstance(expr, RowId):
            return base.row_ids(rows)
        return _data(expr, scope)
    except RowError as error:
        raise _failure(error, expr, scope) from None


def _data(expr: DataRef, scope: Scope) -> Vector:
    base = scope.reader.base
    wanted = _evaluate(expr.row, scope)
    num_rows = base.source.num_rows
    rows = wanted.values.astype(np.int64)
    rows = np.where(rows < 0, rows + num_rows, rows)
    found = (rows >= 0) & (rows < num_rows)
    if wanted.valid is not None:
        found &= wanted.valid
    if not found.any():
        return constant(None, expr.type, len(scope))
    distinct, places = np.unique(np.where(found, rows, rows[found][0]), return_inverse=True)
    samples = take(base.column(expr.name, distinct), places.reshape(-1))
    valid = all_valid([samples, UniformBatch(samples.values, found)])
    if isinstance(samples, UniformBatch):
        return UniformBatch(samples.values, valid)
    return type(samples)(samples.values, samples.shapes, valid)


def _answer(expr: QueryRef | CorpusRef, scope: Scope) -> Vector:
    base = scope.reader.base
    answer = base.answer(expr, base)
    if (
        isinstance(expr, CorpusRef) or expr.use == "members"
    ):  # one object that the kernel of IN knows how to ask
        return UniformBatch(object_array([answer]).repeat(len(scope)))
    return constant(answer, expr.type, len(scope))


def _apply(expr: Apply, scope: Scope) -> Vector:
    vectors = [_evaluate(arg, scope) for arg in expr.args]
    try:
        result = expr.kernel(vectors, len(scope))
    except RowError as error:
        raise _failure(error, expr, scope) from None
    if not expr.strict:
        return result
    valid = all_valid([result, *vectors])
    if valid is result.valid:
        return result
    if isinstance(result, UniformBatch):
        return UniformBatch(result.values, valid)
    assert is_ragged(expr.type), "a kernel returns ragged samples only where its type says so"
    return type(result)(result.values, result.shapes, valid)


def _failure(error: RowError, expr: Bound, scope: Scope) -> QueryTypeError:
    rows = scope.reader.source_rows(scope.rows)
    known = rows is not None and error.position < len(rows)
    where = f"row {int(rows[error.position])}: " if rows is not None and known else ""
    return QueryTypeError(where + error.message, text=scope.text, span=span_of(expr))
