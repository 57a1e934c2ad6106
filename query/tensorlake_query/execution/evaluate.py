"""Evaluation of bound expressions over one batch of rows.

A `Scope` is a set of rows and where their columns come from. It reads each column at most once, and
only when an expression asks; `take` and `slice` keep what has been read for the rows that survive.
A scan makes `RunScope`s: consecutive rows, whose numbers are listed only where something asks.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import Struct, field

from tensorlake_query.execution.columns import Reader, RunReader
from tensorlake_query.syntax.ast import Span
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.bound import (
    Apply,
    Bound,
    CodesRef,
    ColumnRef,
    Constant,
    CorpusRef,
    DataRef,
    PartRef,
    QueryRef,
    RowId,
    RowNumber,
    RowSource,
    ShapeRef,
    show,
    span_of,
)
from tensorlake_query.values.memory import Held, TooMuchMemoryError, collecting, current, hold
from tensorlake_query.values.source import ColumnType, IntArray, Region, UniformBatch
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    all_valid,
    constant,
    nbytes_of,
    object_array,
    slice_of,
    take,
)

SHOWN = 60  # characters of an expression, in an error


class Known(Struct):
    """The values read for the rows of a scope, and the memory that they take.

    The arrays of a slice are those of the whole: `whole` keeps their memory, and `shared` is the
    part of it that the rows of the slice have.
    """

    held: Held
    columns: dict[str, Vector] = field(default_factory=dict[str, Vector])
    codes: dict[str, Vector] = field(default_factory=dict[str, Vector])
    shapes: dict[str, Vector] = field(default_factory=dict[str, Vector])
    whole: "Known | None" = None
    shared: int = 0

    @property
    def nbytes(self) -> int:
        """The memory that the rows take."""
        return self.held.nbytes + self.shared

    def cut(self, held: Held, cut: Callable[[Vector], Vector]) -> "Known":
        """Return it for some of the rows; `held` is what that takes."""
        return Known(
            held,
            {name: cut(vector) for name, vector in self.columns.items()},
            {name: cut(vector) for name, vector in self.codes.items()},
            {name: cut(vector) for name, vector in self.shapes.items()},
        )

    def only(self, names: frozenset[str]) -> "Known":
        """Return what is known of some columns, still held here."""
        columns = {name: each for name, each in self.columns.items() if name in names}
        codes = {name: each for name, each in self.codes.items() if name in names}
        shapes = {name: each for name, each in self.shapes.items() if name in names}
        vectors = (*columns.values(), *codes.values(), *shapes.values())
        return Known(hold("a column"), columns, codes, shapes, self, sum(map(nbytes_of, vectors)))


class Scope:
    """Some rows, and the columns that have been read for them."""

    def __init__(
        self, reader: Reader, rows: IntArray | None, text: str, known: Known | None = None
    ) -> None:
        self.reader = reader
        self.text = text
        self._rows: IntArray | None = rows
        self._known = known or Known(hold("a column"))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def rows(self) -> IntArray:
        """The rows' numbers."""
        assert self._rows is not None, "a scope without them lists them itself"
        return self._rows

    def column(self, name: str) -> Vector:
        """Return a column's samples, read at the first call."""
        if name not in self._known.columns:
            before = self._known.held.nbytes
            try:
                with collecting(self._known.held):
                    self._known.columns[name] = self._read(name)
            except TooMuchMemoryError as error:
                self._known.held.resize(before)
                error.operator = f"the column {name!r}"
                raise
            except RowError as error:  # of a stack, or of sides that are brought to one type
                shown = f"{name.removeprefix('#')!r}, row {error.position}: {error.message}"
                raise QueryTypeError(shown, text=self.text, span=_whole(self.text)) from None
        return self._known.columns[name]

    def codes(self, name: str) -> Vector:
        """Return a label column's class codes, of whatever integer dtype costs least."""
        known = self._known
        if name in known.columns and known.columns[name].values.dtype != object:
            return known.columns[name]
        if name not in known.codes:
            with collecting(known.held):
                known.codes[name] = self._read_codes(name)
        return known.codes[name]

    def shapes(self, name: str) -> Vector:
        """Return a column's sample shapes, asked for at the first call."""
        if name not in self._known.shapes:
            with collecting(self._known.held):
                self._known.shapes[name] = self.reader.shapes(name, self.rows)
        return self._known.shapes[name]

    def part(self, name: str, region: Region | None, column_type: ColumnType) -> Vector | None:
        """Return a region of a column's samples, or their distinct elements.

        None where the column has been read, and where it has no parts.
        """
        base = self.reader.base
        if self.reader is not base or name in self._known.columns:
            return None
        return base.part(name, region, column_type, self.rows)

    def numbers(self, positions: IntArray) -> IntArray:
        """Return the numbers of some of the rows."""
        return self.rows[positions]

    def take(self, positions: IntArray, needed: frozenset[str] | None = None) -> "Scope":
        """Return the scope of some of the rows, with what has been read of the needed columns."""
        rows = self.numbers(positions)
        known = self._known if needed is None else self._known.only(needed)
        if not known.nbytes:
            return Scope(self.reader, rows, self.text)
        held = hold("rows that are kept")
        share = len(positions) / max(len(self), 1)
        try:
            held.add(int(known.nbytes * share))
            with collecting(None):
                taken = known.cut(held, partial(take, positions=positions))
        except TooMuchMemoryError:
            taken = None  # what is needed of them is read again
        return Scope(self.reader, rows, self.text, taken)

    def forget(self) -> None:
        """Forget what has been read."""
        self._known = Known(hold("a column"))

    def slice(self, start: int, stop: int) -> "Scope":
        """Return the scope of consecutive ones of the rows; what has been read is not copied."""
        if (start, stop) == (0, len(self)):
            return self
        known = self._known.cut(hold("a column"), partial(slice_of, start=start, stop=stop))
        known.whole = self._known
        known.shared = int(self._known.nbytes * (stop - start) / len(self))
        return self._part(start, stop, known)

    def unread(self, start: int, stop: int) -> "Scope":
        """Return the scope of consecutive ones of the rows, of which nothing has been read."""
        return self._part(start, stop, Known(hold("a column")))

    def _read(self, name: str) -> Vector:
        return self._of_codes(name) or self.reader.column(name, self.rows)

    def _of_codes(self, name: str) -> Vector | None:
        """Return a column by its codes, if these were read; None for those of texts."""
        dtype = self.reader.base.source.schema[name].dtype if name in self._known.codes else None
        if dtype is None:
            return None
        codes = self._known.codes[name]
        return UniformBatch(codes.values.astype(dtype), codes.valid)

    def _read_codes(self, name: str) -> Vector:
        base = self.reader.base
        numbers = base.numbers(name, lambda: self.rows) if self.reader is base else None
        return self.column(name) if numbers is None else numbers

    def _part(self, start: int, stop: int, known: Known) -> "Scope":
        return Scope(self.reader, self.rows[start:stop], self.text, known)


class RunScope(Scope):
    """Consecutive rows, from `start` on."""

    def __init__(
        self, reader: RunReader, start: int, stop: int, text: str, known: Known | None = None
    ) -> None:
        super().__init__(reader, None, text, known)
        self._source = reader
        self.start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self.start

    @property
    def rows(self) -> IntArray:
        """The rows' numbers, listed at the first call."""
        if self._rows is None:
            self._rows = np.arange(self.start, self._stop)
        return self._rows

    def numbers(self, positions: IntArray) -> IntArray:
        """Return the numbers of some of the rows; the others' are not listed."""
        return positions + self.start

    def followed_by(self, other: "Scope") -> "RunScope | None":
        """Return these rows and those of another, unread; None where they are not consecutive."""
        if not isinstance(other, RunScope) or other.reader is not self.reader:
            return None
        if other.start != self._stop:
            return None
        return RunScope(self._source, self.start, self._stop + len(other), self.text)

    def ends(self, name: str) -> IntArray | None:
        """Return after which of the rows, counted from the first, chunks of a column end."""
        ends = self._source.chunk_ends(name, self.start, self._stop)
        return None if ends is None else ends - self.start

    def _read(self, name: str) -> Vector:
        return self._of_codes(name) or self._source.run(name, self.start, self._stop)

    def _read_codes(self, name: str) -> Vector:
        return self._source.codes(name, self.start, self._stop)

    def _part(self, start: int, stop: int, known: Known) -> Scope:
        first = self.start
        return RunScope(self._source, first + start, first + stop, self.text, known)


def _whole(text: str) -> Span:
    return Span(0, len(text))


def evaluate(expr: Bound, scope: Scope) -> Vector:
    """Return the values of an expression for every row of a scope.

    Raises:
        QueryTypeError: the values of a row do not fit together.
    """
    with np.errstate(all="ignore"):  # division by zero and overflow give what NumPy gives
        vector, held = _evaluate(expr, scope)
    if held is not None:
        held.move_to(current())
    return vector


def _evaluate(expr: Bound, scope: Scope) -> tuple[Vector, Held | None]:
    """Return values and their memory; None if the scope holds it, or no holder does."""
    if isinstance(expr, Apply):
        return _apply(expr, scope)
    if isinstance(expr, PartRef):
        return _part(expr, scope)
    return _found(expr, scope), None


def _found(expr: Bound, scope: Scope) -> Vector:
    match expr:
        case ColumnRef(name):
            return scope.column(name)
        case CodesRef(name):
            return scope.codes(name)
        case ShapeRef(name):
            return scope.shapes(name)
        case Constant(value, column_type):
            return constant(value, column_type, len(scope))
        case Apply() | PartRef():
            return evaluate(expr, scope)
        case QueryRef() | CorpusRef():
            return _answer(expr, scope)
        case RowNumber() | RowId() | RowSource() | DataRef():
            return _placed(expr, scope)


def _placed(expr: RowNumber | RowId | RowSource | DataRef, scope: Scope) -> Vector:
    """Return a value that depends on a row's position in its source."""
    rows = scope.reader.source_rows(scope.rows)
    if rows is None:
        raise _failure(RowError("a group is not a row of the source", 0), expr, scope)
    base = scope.reader.base
    try:
        if isinstance(expr, RowNumber):
            return base.row_column("_row", rows) if expr.is_stored else UniformBatch(rows)
        if isinstance(expr, RowId):
            return base.row_column("_row_id", rows)
        if isinstance(expr, RowSource):
            return base.row_column("_source", rows)
        return _data(expr, scope)
    except RowError as error:
        raise _failure(error, expr, scope) from None


def _data(expr: DataRef, scope: Scope) -> Vector:
    base = scope.reader.base
    wanted = evaluate(expr.row, scope)
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
        return UniformBatch(np.broadcast_to(object_array([answer]), len(scope)))
    return constant(answer, expr.type, len(scope))


def _part(expr: PartRef, scope: Scope) -> tuple[Vector, Held | None]:
    """Read parts of samples; compute it from whole ones where these are read, or have no parts."""
    held = hold("parts of a column")
    try:
        with collecting(held):
            vector = scope.part(expr.name, expr.region, expr.type)
    except TooMuchMemoryError as error:
        error.place = error.place or span_of(expr)
        raise
    return _evaluate(expr.whole, scope) if vector is None else (vector, held)


def _apply(expr: Apply, scope: Scope) -> tuple[Vector, Held]:
    """Apply a kernel; what its arguments take goes back when this returns."""
    made = [_evaluate(arg, scope) for arg in expr.args]
    vectors = [vector for vector, _ in made]
    held = hold("an expression")
    try:
        with collecting(held):
            result = expr.kernel(vectors, len(scope))
        # of objects the kernel knows what it has made; arrays tell it themselves
        taken = nbytes_of(result)
        held.resize(max(held.nbytes, taken) if result.values.dtype == object else taken)
    except RowError as error:
        raise _failure(error, expr, scope) from None
    except TooMuchMemoryError as error:
        error.place = error.place or span_of(expr)
        if error.operator == held.operator:
            error.operator = f"{show(expr):.{SHOWN}}"
        raise
    if expr.strict:
        valid = all_valid([result, *vectors])
        if valid is not result.valid:
            result = replace(result, valid=valid)
    return result, held


def _failure(error: RowError, expr: Bound, scope: Scope) -> QueryTypeError:
    rows = scope.reader.source_rows(scope.rows)
    known = rows is not None and error.position < len(rows)
    where = f"row {int(rows[error.position])}: " if rows is not None and known else ""
    return QueryTypeError(where + error.message, text=scope.text, span=span_of(expr))
