"""Evaluation of bound expressions over one batch of rows.

A `Scope` is a set of rows and where their columns come from. It reads each column at most once, and
only when an expression asks; `take` keeps what has been read for the rows that survive.
"""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from tensorlake_query.bound import Apply, Bound, ColumnRef, Constant, RowNumber, ShapeRef, span_of
from tensorlake_query.errors import QueryTypeError
from tensorlake_query.source import ColumnSource, IntArray, UniformBatch
from tensorlake_query.types import is_ragged
from tensorlake_query.vectors import (
    RowError,
    Vector,
    all_valid,
    as_ragged,
    constant,
    from_batch,
    take,
)


class Reader(Protocol):
    """Where the columns of a scope come from."""

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the samples of `rows`."""
        ...

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the sample shapes of `rows`."""
        ...


class SourceReader:
    """Reads a `ColumnSource`, and counts what it reads."""

    def __init__(self, source: ColumnSource) -> None:
        self.rows_read: dict[str, int] = {}
        self._source = source
        self._schema = source.schema

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the samples of `rows`, in the form the column's type asks for."""
        self.rows_read[name] = self.rows_read.get(name, 0) + len(rows)
        return from_batch(self._source.read(name, rows), self._schema[name])

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the sample shapes of `rows`; NULL where the source gives −1."""
        shapes = self._source.shapes(name, rows)
        known = np.asarray((shapes >= 0).all(axis=1))
        return UniformBatch(shapes, None if known.all() else known)


class SlotReader:
    """Columns computed by an aggregation."""

    def __init__(self, slots: Mapping[str, Vector]) -> None:
        self._slots = slots

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the slot's values of some groups."""
        return take(self._slots[name], rows)

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the shapes of the slot's values: a slot is one value a group."""
        vector = self._slots[name]
        return UniformBatch(np.asarray(as_ragged(vector).shapes)[rows])


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
            self._columns[name] = self.reader.column(name, self.rows)
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
        case RowNumber():
            return UniformBatch(scope.rows)
        case Constant(value, column_type):
            return constant(value, column_type, len(scope))
        case Apply():
            return _apply(expr, scope)


def _apply(expr: Apply, scope: Scope) -> Vector:
    vectors = [_evaluate(arg, scope) for arg in expr.args]
    try:
        result = expr.kernel(vectors, len(scope))
    except RowError as error:
        raise QueryTypeError(
            f"row {int(scope.rows[error.position])}: {error.message}",
            text=scope.text,
            span=span_of(expr),
        ) from None
    if not expr.strict:
        return result
    valid = all_valid([result, *vectors])
    if valid is result.valid:
        return result
    if isinstance(result, UniformBatch):
        return UniformBatch(result.values, valid)
    assert is_ragged(expr.type), "a kernel returns ragged samples only where its type says so"
    return type(result)(result.values, result.shapes, valid)
