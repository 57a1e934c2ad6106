"""Steps over the rows of others: neighbours, groups, elements, windows, draws, limits."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tensorlake_query.binding.sampling import checked_weights, drawn
from tensorlake_query.execution.columns import GroupReader, Reader, SourceReader
from tensorlake_query.execution.evaluate import Scope
from tensorlake_query.planning.plan import Aggregate, Expand, Sample, Window
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.bound import Bound, span_of
from tensorlake_query.values.group_keys import by_group, group_rows
from tensorlake_query.values.memory import charge, working
from tensorlake_query.values.source import IntArray, UniformBatch
from tensorlake_query.values.texts import repeated
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    as_ragged,
    deep_nbytes_of,
    distinct,
    numbered,
    take,
)

DRAWN_NBYTES = 48  # of a draw: a random number, a place among the weights, a row
WEIGHED_NBYTES = 32
ARRANGED_NBYTES = 64  # of a row: its group, its place in it, its place in all
REDUCED_NBYTES = 64  # of a row that is aggregated: its value, its group, its place in the order
Values = Callable[[Sequence[Bound], Scope], list[Vector]]


def expanded(plan: Expand, scope: Scope, check_made: Callable[[int], None]) -> Scope:
    """Return each row among its neighbours in the source; `check_made` gets the number first."""
    num_rows = scope.reader.base.source.num_rows
    before, after = min(plan.before, num_rows), min(plan.after, num_rows)  # as many as there are
    start = np.maximum(scope.rows - before, 0)
    stop = np.minimum(scope.rows + after + 1, num_rows)
    counts = stop - start
    check_made(int(counts.sum()))
    rows = repeated(start, counts) + numbered(counts)
    if not plan.overlaps:
        rows = distinct(rows)
    return Scope(scope.reader, rows, scope.text)


def aggregated(plan: Aggregate, scope: Scope, columns: Sequence[Vector]) -> Scope:
    """Return one row a group; `columns` are the values of the plan's expressions."""
    keys, arguments = columns[: len(plan.keys)], iter(columns[len(plan.keys) :])
    groups = group_rows(keys, len(scope))
    is_of_most = groups.count * 2 > len(scope)  # then keys are taken for groups that are kept
    slots = [*(groups.keys_of_row if is_of_most else groups.keys)]
    for call in plan.calls:
        argument = None if call.argument is None else next(arguments)
        with working(len(scope) * REDUCED_NBYTES):
            slots.append(call.compute(argument, groups.of_row, groups.count))
    named = {f"#{position}": vector for position, vector in enumerate(slots)}
    by_row = frozenset(f"#{position}" for position in range(len(keys) * is_of_most))
    reader = GroupReader(named, scope.reader, scope.rows, groups, by_row)
    return Scope(reader, np.arange(groups.count), scope.text)


def windowed(plan: Window, scope: Scope, columns: Sequence[Sequence[Vector]]) -> Scope:
    """Return the same rows beside the values of window functions, from those of their arguments."""
    slots = {
        f"#w{number}": call.evaluate(vectors, len(scope))
        for number, (call, vectors) in enumerate(zip(plan.calls, columns, strict=True))
    }
    return Scope(WindowReader(scope.reader, scope.rows, slots), np.arange(len(scope)), scope.text)


class WindowReader:
    """The rows of another reader, with the values of window functions beside them."""

    def __init__(self, reader: Reader, rows: IntArray, slots: Mapping[str, Vector]) -> None:
        self._reader = reader
        self._rows = rows
        self._slots = slots

    @property
    def nbytes(self) -> int:
        """Values held beside the rows."""
        return self._rows.nbytes + sum(map(deep_nbytes_of, self._slots.values()))

    @property
    def base(self) -> SourceReader:
        """The source underneath."""
        return self._reader.base

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return a slot's values, or the samples of the rows beneath."""
        if name in self._slots:
            return take(self._slots[name], rows)
        return self._reader.column(name, self._rows[rows])

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return sample shapes."""
        if name in self._slots:
            return UniformBatch(np.asarray(as_ragged(self._slots[name]).shapes)[rows])
        return self._reader.shapes(name, self._rows[rows])

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return the rows beneath."""
        return self._reader.source_rows(self._rows[rows])

    def source_column(self, name: str) -> str | None:
        """Return the source column; None for slots."""
        return None if name in self._slots else self._reader.source_column(name)


def distinct_rows(values: Sequence[Vector], num_rows: int) -> IntArray:
    """Return the positions of the first of each set of equal rows, in order."""
    return group_rows(values, num_rows).first


def arranged(keys: Sequence[Vector], num_rows: int) -> IntArray:
    """Return the positions of rows with each group spread evenly over the whole."""
    groups = group_rows(keys, num_rows)
    charge(num_rows * ARRANGED_NBYTES)
    order = by_group(groups.of_row, groups.count)
    counts = np.bincount(groups.of_row, minlength=groups.count)
    place = np.empty(num_rows)
    place[order] = (numbered(counts) + 0.5) / repeated(counts, counts)
    return np.lexsort((groups.of_row, place))


def sampled(plan: Sample, weights: Vector, scope: Scope, text: str) -> IntArray:
    """Return the positions of rows drawn by weight.

    Raises:
        QueryTypeError: a weight is not above 0.
    """
    try:
        checked = checked_weights(weights)
    except RowError as error:
        row = int(scope.rows[error.position])
        message, span = f"row {row}: {error.message}", span_of(plan.weight)
        raise QueryTypeError(message, text=text, span=span) from None
    count = len(scope) if plan.count is None else plan.count
    if plan.percent is not None:
        count = int(len(scope) * plan.percent / 100)
    charge(count * DRAWN_NBYTES + len(checked) * WEIGHED_NBYTES)
    return drawn(checked, count, plan.seed, replace=plan.replace)


def limited(
    offset: int, count: int | None, scopes: Callable[[], Iterator[Scope]]
) -> Iterator[Scope]:
    """Yield ``count`` rows from the row ``offset`` on; no batch is read after the last of them."""
    if count == 0:
        return
    for scope in scopes():
        start = min(offset, len(scope))
        offset -= start
        stop = len(scope) if count is None else min(start + count, len(scope))
        if stop > start:
            yield scope.slice(start, stop)
        if count is not None:
            count -= stop - start
            if count == 0:
                return
