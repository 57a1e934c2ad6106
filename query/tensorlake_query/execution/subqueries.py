"""Sources that the engine makes of others: a result, some rows, a join, a set operation.

Each reads what it is asked for from the sources beneath, and no more: a column of a join that
nothing names is never read. Where its rows are rows of a plain source, `lineage` tells which.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from tensorlake_query.execution.batches import values_of
from tensorlake_query.execution.evaluate import Scope, evaluate
from tensorlake_query.execution.joins import Making
from tensorlake_query.planning.plan import Joined, Output
from tensorlake_query.values.bound import ColumnRef
from tensorlake_query.values.group_keys import DENSE_MIN
from tensorlake_query.values.lineage import Lineage, lineage_of, row_column
from tensorlake_query.values.source import (
    Batch,
    ColumnSource,
    ColumnStatistics,
    ColumnType,
    IntArray,
    RaggedBatch,
    RunSource,
    SourceBatch,
    TextBatch,
    UniformBatch,
    offers,
)
from tensorlake_query.values.texts import texts_of
from tensorlake_query.values.times import in_finer, is_time, units_per
from tensorlake_query.values.types import is_ragged
from tensorlake_query.values.vectors import (
    Vector,
    as_ragged,
    concatenated,
    constant,
    from_batch,
    is_dense,
    length_of,
    take,
    taken_once,
    to_batch,
    valid_of,
)


class ResultSource:
    """The result of a query as a source: outputs are evaluated where they are read."""

    def __init__(self, outputs: Sequence[Output], scope: Scope) -> None:
        self.scope = scope
        self._outputs = {output.name: output.expr for output in outputs}

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """Types of the outputs."""
        return {name: expr.type for name, expr in self._outputs.items()}

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.scope)

    def read(self, column: str, rows: IntArray) -> Batch:
        """Evaluate an output for some rows."""
        return to_batch(self.vector(column, rows))

    def read_run(self, column: str, start: int, stop: int) -> SourceBatch:
        """Evaluate an output for consecutive rows."""
        if start == stop:
            return self.read(column, np.zeros(0, np.int64))
        return _handed_out(evaluate(self._outputs[column], self.scope.unread(start, stop)))

    def read_codes(self, column: str, start: int, stop: int) -> SourceBatch:
        """Return the class codes of consecutive rows; of a column passed on, as it keeps them."""
        expr = self._outputs[column]
        if isinstance(expr, ColumnRef):
            return to_batch(self.scope.unread(start, stop).codes(expr.name))
        return self.read_run(column, start, stop)

    def vector(self, column: str, rows: IntArray) -> Vector:
        """Evaluate an output for some rows."""
        expr = self._outputs[column]
        if not len(rows):
            return constant(None, expr.type, 0)
        return evaluate(expr, self._at(rows))

    def read_in_parts(self, column: str, rows: IntArray) -> Batch:
        """Evaluate an output for some rows, all at once where there is the memory for it."""
        expr = self._outputs[column]
        if not len(rows):
            return to_batch(constant(None, expr.type, 0))
        return to_batch(values_of([expr], self._at(rows)).vectors[0])

    def shapes(self, column: str, rows: IntArray) -> IntArray:
        """Return sample shapes; of a column that is passed on without reading it."""
        expr = self._outputs[column]
        if isinstance(expr, ColumnRef):
            vector = self._at(rows).shapes(expr.name)
            return np.where(valid_of(vector)[:, None], vector.values, -1)
        made = self.vector(column, rows)
        return np.where(valid_of(made)[:, None], as_ragged(made).shapes, -1)

    def statistics(self, column: str) -> ColumnStatistics | None:
        """Return None: nothing is known before it is computed."""
        del column

    def source_rows(self) -> IntArray | None:
        """Return which rows of a plain source all rows are; None where they are rows of nothing.

        `lineage` answers for some of them, by a gather: about 2 ms for a million rows.
        """
        reader, rows = self.scope.reader, self.scope.rows
        beneath = lineage_of(reader.base.source)
        found = None if beneath is None else reader.source_rows(rows)
        return None if beneath is None or found is None else beneath.rows(found)

    def lineage(self) -> Lineage | None:
        """Return where the rows come from."""
        reader, rows = self.scope.reader, self.scope.rows
        beneath = lineage_of(reader.base.source)
        if beneath is None or reader.source_rows(rows[:0]) is None:
            return None

        def source_rows(positions: IntArray) -> IntArray:
            found = reader.source_rows(rows[positions])
            assert found is not None, "asked above"
            return beneath.rows(found)

        def source_column(name: str) -> str | None:
            expr = self._outputs[name]
            kept = reader.source_column(expr.name) if isinstance(expr, ColumnRef) else None
            return None if kept is None else beneath.column(kept)

        return Lineage(beneath.source, source_rows, source_column)

    def _at(self, rows: IntArray) -> Scope:
        return Scope(self.scope.reader, self.scope.rows[rows], self.scope.text)


class FilteredSource:
    """Some rows of a source, ascending, with all of its columns."""

    def __init__(self, source: ColumnSource, rows: IntArray) -> None:
        self._source = source
        self._rows = rows

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """Types of the columns."""
        return self._source.schema

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def read(self, column: str, rows: IntArray) -> SourceBatch:
        """Read from the source; single numbers of many rows as a run."""
        there, kind = self._rows[rows], self.schema[column]
        is_single = kind.dtype is not None and not kind.shape
        if is_single and offers(self._source, RunSource) and is_dense(there):
            first = int(there[0])
            run = from_batch(self._source.read_run(column, first, int(there[-1]) + 1), kind)
            return take(run, there - first)
        return self._source.read(column, there)

    def shapes(self, column: str, rows: IntArray) -> IntArray:
        """Return sample shapes."""
        return self._source.shapes(column, self._rows[rows])

    def statistics(self, column: str) -> ColumnStatistics | None:
        """Return None: zones are of all rows."""
        del column

    def lineage(self) -> Lineage | None:
        """Return where the rows come from."""
        beneath = lineage_of(self._source)
        if beneath is None:
            return None
        return Lineage(beneath.source, lambda rows: beneath.rows(self._rows[rows]), beneath.column)


class JoinSource:
    """Pairs of rows of two sources; −1 is a side that has no row there, and NULL."""

    def __init__(
        self,
        joined: Joined,
        sources: tuple[ColumnSource, ColumnSource],
        rows: tuple[IntArray, IntArray] | None,
        making: Making | None = None,
    ) -> None:
        self._joined = joined
        self._sources = sources
        self._schema = {**joined.schema, **joined.rows}
        self._found = rows
        self.making = making  # of the rows, if they are not here
        self._numbered: dict[str, tuple[int, Vector]] = {}
        self._whole: dict[tuple[int, str], Vector] = {}  # columns of few rows
        self._runs = tuple(each if offers(each, RunSource) else None for each in sources)
        self._held: object = None

    @property
    def _rows(self) -> tuple[IntArray, IntArray]:
        """The rows of each side; all pairs are made at the first call."""
        if self._found is None:
            assert self.making is not None, "rows are here, or can be made"
            self._found = self.making.pairs()
        return self._found

    def pieces(self) -> "Iterator[JoinSource]":
        """Yield the pairs as joins of their own, which make no more of them than they are asked."""
        assert self.making is not None, "pairs are made"
        for made in self.making.pieces():
            piece: JoinSource = copy(self)
            piece._found, piece._held = made.pairs, made.held
            yield piece

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """Types of the joined columns, and of the row columns of each table."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """How many pairs there are."""
        return len(self._rows[0])

    def read(self, column: str, rows: IntArray) -> SourceBatch:
        """Read a column of the side it belongs to; a USING column of the side that has it."""
        return self._read(column, lambda side: self._there(side, rows))

    def read_run(self, column: str, start: int, stop: int) -> SourceBatch:
        """Read a column for consecutive pairs."""
        return self._read(column, lambda side: _wide(self._rows[side][start:stop]))

    def _read(self, column: str, there: Callable[[int], IntArray]) -> Vector:
        kind = self._schema[column]
        if column not in self._joined.merged:
            side, name = self._joined.sides[column]
            return self._vector(side, name, there(side), kind)
        left, right = self._joined.merged[column]
        on_left = there(0)
        first = self._vector(0, left, on_left, kind)
        if on_left.min(initial=0) >= 0:
            return first
        second = self._vector(1, right, there(1), kind)
        picks = np.where(on_left >= 0, 0, len(on_left)) + np.arange(len(on_left))
        return take(concatenated([first, second]), picks)

    def number(self, column: str) -> bool:
        """Number the texts of a column, for `numbers`; False where that costs more than reading.

        A side that is longer than the join is not numbered, nor is a column that both sides share
        in an outer join.
        """
        if column in self._numbered:
            return True
        if self.making is None or column in self._joined.rows:
            return False
        if column not in self._joined.merged:
            side, name = self._joined.sides[column]
        elif self._joined.kind == "INNER":
            side, name = 0, self._joined.merged[column][0]
        else:
            return False
        num_rows = self._sources[side].num_rows
        is_smaller = num_rows <= max(self._sources[1 - side].num_rows, DENSE_MIN)
        if not is_smaller and num_rows > self.num_rows:
            return False
        self._numbered[column] = side, self.making.numbers(side, name)
        return True

    def is_numbered(self, column: str) -> bool:
        """Return whether `numbers` may be asked."""
        return column in self._numbered

    def numbers(self, column: str, rows: IntArray | slice) -> Vector:
        """Return a number for the text of each row, equal for equal ones."""
        side, vector = self._numbered[column]
        there = _wide(self._rows[side][rows])
        if self._joined.kind == "INNER" or there.min(initial=0) >= 0:
            return take(vector, there)
        known = there >= 0
        padded = concatenated(
            [vector, UniformBatch(np.zeros(1, vector.values.dtype), np.array([False]))]
        )
        return take(padded, np.where(known, there, len(vector.values)))

    def texts(self, column: str, numbers: Vector) -> Vector:
        """Return the texts that numbers stand for, each read from one row that has it."""
        side, vector = self._numbered[column]
        count = len(vector.values)
        first = np.zeros(int(vector.values.max(initial=0)) + 1, np.int64)
        first[vector.values] = np.arange(count)
        name = self._joined.merged[column][side] if column in self._joined.merged else None
        name = self._joined.sides[column][1] if name is None else name
        known = np.flatnonzero(valid_of(numbers))
        kind = replace(self._joined.schema[column], nullable=True)
        read = from_batch(self._sources[side].read(name, first[numbers.values[known]]), kind)
        padded = concatenated([read, constant(None, kind, 1)])
        places = np.full(length_of(numbers), len(known))
        places[known] = np.arange(len(known))
        return take(padded, places)

    def shapes(self, column: str, rows: IntArray) -> IntArray:
        """Return sample shapes; −1s where there is no row."""
        side, name = self._joined.sides[column]
        there = self._there(side, rows)
        known = there >= 0
        shapes = np.full((len(rows), len(self._joined.schema[column].shape)), -1, np.int64)
        shapes[known] = self._sources[side].shapes(name, there[known])
        return shapes

    def statistics(self, column: str) -> ColumnStatistics | None:
        """Return None: pairs are in another order than rows."""
        del column

    def lineage(self) -> Lineage | None:
        """Return where the rows of the side that every pair has come from."""
        kind = self._joined.kind
        if kind == "FULL":
            return None
        side = 1 if kind == "RIGHT" else 0
        beneath = lineage_of(self._sources[side])
        if beneath is None:
            return None

        def source_column(column: str) -> str | None:
            if column in self._joined.merged:
                return beneath.column(self._joined.merged[column][side])
            owner, name = self._joined.sides[column]
            is_read = owner == side and column not in self._joined.rows
            return beneath.column(name) if is_read else None

        return Lineage(
            beneath.source, lambda rows: beneath.rows(self._there(side, rows)), source_column
        )

    def _there(self, side: int, rows: IntArray) -> IntArray:
        return _wide(self._rows[side][rows])

    def _vector(self, side: int, name: str, there: IntArray, joined_type: ColumnType) -> Vector:
        """Return samples of a side; NULL where it has no row."""
        column_type = self._sources[side].schema.get(name, joined_type)
        if self._joined.kind in {"INNER", "CROSS"} or there.min(initial=0) >= 0:
            return _as_type(self._samples(side, name, there), column_type, joined_type)
        known = there >= 0
        found = self._samples(side, name, there[known])
        padded = concatenated([found, constant(None, replace(column_type, nullable=True), 1)])
        places = np.full(len(there), int(known.sum()))
        places[known] = np.arange(int(known.sum()))
        return _as_type(take(padded, places), column_type, joined_type)

    def _samples(self, side: int, name: str, there: IntArray) -> Vector:
        source = self._sources[side]
        if name not in source.schema:
            return row_column(source, name, there)
        column_type = source.schema[name]

        def read(rows: IntArray) -> Vector:
            return from_batch(source.read(name, rows), column_type)

        if is_ragged(column_type) or column_type.dtype is None:
            return taken_once(read, there)
        if column_type.shape:
            return read(there)
        if source.num_rows <= max(len(there), 1):  # each row is wanted more than once, about
            if (side, name) not in self._whole:
                self._whole[side, name] = read(np.arange(source.num_rows))
            return take(self._whole[side, name], there)
        by_run = self._runs[side]
        if by_run is not None and is_dense(there):
            first = int(there[0])
            run = from_batch(by_run.read_run(name, first, int(there[-1]) + 1), column_type)
            return run if length_of(run) == len(there) else take(run, there - first)
        return read(there)


class CombinedSource:
    """Rows of two results end to end, some of them: a set operation."""

    def __init__(
        self, schema: Mapping[str, ColumnType], sides: tuple[ResultSource, ResultSource],
        rows: IntArray, *, by_identity: bool,
    ) -> None:  # fmt: skip
        self._schema = schema
        self._sides = sides
        self._rows = rows
        self._by_identity = by_identity

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """Types that both sides have in common."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def read(self, column: str, rows: IntArray) -> Batch:
        """Read from each side the rows that are its own."""
        return to_batch(self.vector(column, rows))

    def vector(self, column: str, rows: IntArray) -> Vector:
        """Read from each side the rows that are its own."""
        place = list(self._schema).index(column)
        parts, picks = self._split(rows)
        vectors: list[Vector] = []
        for side, part in zip(self._sides, parts, strict=True):
            name = list(side.schema)[place]
            given = side.schema[name]
            vectors.append(_as_type(side.vector(name, part), given, self._schema[column]))
        return take(concatenated(vectors), picks)

    def shapes(self, column: str, rows: IntArray) -> IntArray:
        """Return sample shapes."""
        place = list(self._schema).index(column)
        parts, picks = self._split(rows)
        shapes = [
            side.shapes(list(side.schema)[place], part)
            for side, part in zip(self._sides, parts, strict=True)
        ]
        return np.concatenate(shapes)[picks]

    def statistics(self, column: str) -> ColumnStatistics | None:
        """Return None: nothing is known of the rows."""
        del column

    def lineage(self) -> Lineage | None:
        """Return where the rows come from, where both sides are rows of one source."""
        beneath = [side.lineage() for side in self._sides]
        left, right = beneath
        if not self._by_identity or left is None or right is None:
            return None
        known = (left, right)

        def source_rows(rows: IntArray) -> IntArray:
            parts, picks = self._split(rows)
            found = [each.rows(part) for each, part in zip(known, parts, strict=True)]
            return np.concatenate(found)[picks]

        return Lineage(left.source, source_rows, left.column)

    def _split(self, rows: IntArray) -> tuple[tuple[IntArray, IntArray], IntArray]:
        """Return the rows of each side, and where each is after the two are put end to end."""
        there = self._rows[rows]
        boundary = self._sides[0].num_rows
        on_left = there < boundary
        picks = np.empty(len(rows), np.int64)
        num_left = int(on_left.sum())
        picks[on_left] = np.arange(num_left)
        picks[~on_left] = num_left + np.arange(len(rows) - num_left)
        return (there[on_left], there[~on_left] - boundary), picks


def row_numbers_of(side: ResultSource) -> Vector:
    """Return which rows of its source a result's rows are."""
    lineage = side.lineage()
    assert lineage is not None, "both sides are rows of one source"
    return UniformBatch(lineage.rows(np.arange(side.num_rows)))


def _handed_out(vector: Vector) -> SourceBatch:
    """Return a vector as a batch; texts as they are, without an object for each."""
    texts = texts_of(vector.values)
    if texts is None:
        return to_batch(vector)
    return TextBatch(texts.content, texts.offsets, vector.valid)


def _wide(rows: IntArray) -> IntArray:
    return rows.astype(np.int64, copy=False)


def _as_type(vector: Vector, given: ColumnType, column_type: ColumnType) -> Vector:
    """Bring a vector of one side to the type that both have in common."""
    if column_type.dtype is None:
        return vector
    values = vector.values.astype(column_type.dtype, copy=False)
    made = replace(vector, values=values)
    if is_time(column_type) and units_per(column_type, given) > 1:
        unit = column_type.timestamp_unit or column_type.duration_unit or "s"
        made = in_finer(made, units_per(column_type, given), unit)
    if is_ragged(column_type) and isinstance(made, UniformBatch):
        ragged = as_ragged(made)
        return RaggedBatch(ragged.values, ragged.shapes, ragged.valid)
    return made
