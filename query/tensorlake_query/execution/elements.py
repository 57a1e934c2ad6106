"""UNGROUP BY and UNNEST: one row for each element of some columns, the others repeat.

The elements of consecutive rows are consecutive in the samples that hold them, so that a batch of
elements is a slice of the values of a few rows; nothing is held for each element.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.execution.evaluate import RunScope, Scope
from tensorlake_query.planning.plan import Ungroup
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.bound import Bound, ColumnRef, span_of
from tensorlake_query.values.source import ColumnType, IntArray, UniformBatch
from tensorlake_query.values.stacks import element_at, first_sizes, list_lengths
from tensorlake_query.values.vectors import Vector, take

Values = Callable[[Sequence[Bound], Scope], list[Vector]]


def ungrouped(
    plan: Ungroup, scope: Scope, values: Values, check_made: Callable[[int], None]
) -> Scope:
    """Return one row for each element of the split columns; `check_made` gets the number first.

    Raises:
        QueryTypeError: they have different lengths in some row.
    """
    lengths: IntArray | None = None
    first = next(iter(plan.split))
    for column in plan.columns:
        assert isinstance(column, ColumnRef), "only columns are split"
        if column.type.dtype is None:
            found = list_lengths(values([column], scope)[0])
        else:
            found = first_sizes(scope.shapes(column.name))
        if lengths is None:
            lengths = found
        elif (lengths != found).any():
            at = int(np.flatnonzero(lengths != found)[0])
            raise QueryTypeError(
                f"row {int(scope.rows[at])}: {first!r} has {lengths[at]} elements "
                f"and {column.name!r} has {found[at]}",
                text=scope.text,
                span=span_of(column),
                hint="columns that are taken apart together have one length in each row",
            )
    assert lengths is not None, "UNGROUP BY names a column"
    count = int(lengths.sum())
    check_made(count)
    return RunScope(UngroupReader(scope, lengths, plan.split), 0, count, scope.text)


class UngroupReader:
    """One row for each element of some columns; the others repeat.

    Elements are numbered row after row: those of row i of `scope` begin at `starts[i]`.
    """

    def __init__(self, scope: Scope, lengths: IntArray, split: Mapping[str, ColumnType]) -> None:
        self._scope = scope.unread(0, len(scope))
        self._reader = scope.reader
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        self._split = split

    @property
    def nbytes(self) -> int:
        """Values held for the elements."""
        return 2 * self._starts.nbytes

    @property
    def base(self) -> SourceReader:
        """The source underneath."""
        return self._reader.base

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the elements of a split column, the samples of another."""
        if name not in self._split:
            return self._reader.column(name, self._scope.numbers(self._places(rows)))
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return self.run(name, int(rows[0]), int(rows[-1]) + 1)
        places = self._places(rows)
        distinct, at = np.unique(places, return_inverse=True)
        samples = self._reader.column(name, self._scope.numbers(distinct))  # each once
        return element_at(samples, at.reshape(-1), rows - self._starts[places], self._split[name])

    def run(self, name: str, start: int, stop: int) -> Vector:
        """Return consecutive elements, as their samples have them, or the samples of another."""
        first, last = self._around(start, stop)
        return self._of_run(name, start, stop, self._scope.unread(first, last).column(name))

    def codes(self, name: str, start: int, stop: int) -> Vector:
        """Return the class codes of consecutive elements, as narrow as the source has them."""
        first, last = self._around(start, stop)
        return self._of_run(name, start, stop, self._scope.unread(first, last).codes(name))

    def chunk_ends(self, name: str, start: int, stop: int) -> IntArray | None:
        """Return None: chunks are of samples."""
        del name, start, stop
        return None

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return sample shapes: of an element, those of its stack without the first size."""
        shapes = self._reader.shapes(name, self._scope.numbers(self._places(rows)))
        if name not in self._split:
            return shapes
        return UniformBatch(shapes.values[:, 1:], shapes.valid)

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return the rows beneath: they repeat."""
        return self._reader.source_rows(self._scope.numbers(self._places(rows)))

    def source_column(self, name: str) -> str | None:
        """Return the source column; None for a split column."""
        return None if name in self._split else self._reader.source_column(name)

    def _places(self, rows: IntArray) -> IntArray:
        """Return the place among the rows beneath of each element."""
        if len(rows) and (rows[1:] >= rows[:-1]).all():
            first, last = self._around(int(rows[0]), int(rows[-1]) + 1)
            counts = np.diff(np.searchsorted(rows, self._starts[first : last + 1]))
            return np.repeat(np.arange(first, last), counts)
        return np.searchsorted(self._starts, rows, "right") - 1

    def _of_run(self, name: str, start: int, stop: int, samples: Vector) -> Vector:
        """Return elements of the samples that they are of, or these, repeated."""
        first, last = self._around(start, stop)
        bounds = np.clip(self._starts[first : last + 1], start, stop)
        if name not in self._split:
            return take(samples, np.repeat(np.arange(last - first), np.diff(bounds)))
        column_type = self._split[name]
        if samples.values.dtype != object and None not in column_type.shape:
            sizes = [size or 0 for size in column_type.shape]
            values, count = samples.values, int(self._starts[last] - self._starts[first])
            if values.size == count * math.prod(sizes):  # a NULL has no element here, nor there
                skipped = start - int(self._starts[first])
                values = values.reshape(count, *sizes)
                return UniformBatch(values[skipped : skipped + stop - start])
        places = np.repeat(np.arange(last - first), np.diff(bounds))
        within = np.arange(start, stop) - self._starts[places + first]
        return element_at(samples, places, within, column_type)

    def _around(self, start: int, stop: int) -> tuple[int, int]:
        """Return the places of the rows beneath that elements `start` … `stop` − 1 are of."""
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        return first, max(first, int(np.searchsorted(self._starts, stop)))
