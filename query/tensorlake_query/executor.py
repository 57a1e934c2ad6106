"""Running a plan: batches of rows flow from the scan up; a column is read when a step needs it.

A filter that stands alone reads its columns for the rows that the filters before it kept, and for
no other row; that is all there is to late reading. Batches are sized so that one is a few
milliseconds of work, and between them the deadline is checked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tensorlake_query import ast
from tensorlake_query.bound import Bound, walk_bound
from tensorlake_query.errors import QueryLimitError
from tensorlake_query.evaluate import Scope, SlotReader, SourceReader, evaluate
from tensorlake_query.grouping import group_rows
from tensorlake_query.ordering import Ordering
from tensorlake_query.plan import (
    Aggregate,
    Filter,
    Limit,
    Nothing,
    Plan,
    Project,
    Scan,
    Sort,
    SortKey,
    TopK,
    expressions,
)
from tensorlake_query.source import ColumnSource, ColumnType
from tensorlake_query.vectors import Vector, concatenated, constant
from tensorlake_query.zones import candidate_ranges

BATCH_NBYTES = (
    8 << 20
)  # of samples a batch: a few milliseconds of arithmetic, within the caches of a large core
MAX_BATCH_ROWS = 65_536
MEDIA_NBYTES = 1 << 19  # a decoded picture of unknown size
RAGGED_SIZE = 16  # elements along a dimension that differs by row
OBJECT_NBYTES = 128


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a run must end; `clock` gives seconds."""

    clock: Callable[[], float]
    stop: float | None
    timeout_s: float | None
    text: str

    def check(self, done: int, total: int) -> None:
        """Raise when the time is up.

        Raises:
            QueryLimitError: the timeout has passed.
        """
        if self.stop is not None and self.clock() > self.stop:
            raise QueryLimitError(
                f"the query ran past its timeout of {self.timeout_s} s, "
                f"{done:,} rows into a step of {total:,}",
                text=self.text,
                span=ast.Span(0, len(self.text)),
                hint="give more time, or narrow it with WHERE or LIMIT",
            )


@dataclass(frozen=True, slots=True)
class Run:
    """What the steps of one run share."""

    source: ColumnSource
    reader: SourceReader
    deadline: Deadline
    text: str


def run_plan(plan: Project, run: Run) -> Scope:
    """Return the rows that a plan selects, in order (or the groups, where it aggregates)."""
    return _joined(list(_stream(plan.input, run)), run)


def compute(exprs: Sequence[Bound], scope: Scope, deadline: Deadline) -> list[Vector]:
    """Return the values of expressions for every row; a column they share is read once."""
    collected: list[list[Vector]] = [[] for _ in exprs]
    for piece in _pieces(scope, exprs, deadline) if exprs and len(scope) else ():
        for vectors, expr in zip(collected, exprs, strict=True):
            vectors.append(evaluate(expr, piece))
    return _columns(collected, exprs)


def batch_rows(*exprs: Bound) -> int:
    """Return how many rows make a batch, from the largest sample that the expressions hold."""
    largest = max(
        (_sample_nbytes(node.type) for expr in exprs for node in walk_bound(expr)), default=1
    )
    return min(max(BATCH_NBYTES // largest, 1), MAX_BATCH_ROWS)


def _sample_nbytes(column_type: ColumnType) -> int:
    if column_type.dtype is None:
        return OBJECT_NBYTES
    if column_type.kind == "media" and None in column_type.shape:
        return MEDIA_NBYTES
    nbytes = np.dtype(column_type.dtype).itemsize
    for size in column_type.shape:
        nbytes *= RAGGED_SIZE if size is None else max(size, 1)
    return nbytes


def _pieces(scope: Scope, exprs: Sequence[Bound], deadline: Deadline) -> Iterator[Scope]:
    """Cut a scope into batches that suit what is computed; check the deadline before each."""
    step = batch_rows(*exprs)
    for start in range(0, len(scope), step):
        deadline.check(start, len(scope))
        stop = min(start + step, len(scope))
        yield scope if stop - start == len(scope) else scope.take(np.arange(start, stop))


def _stream(plan: Plan, run: Run) -> Iterator[Scope]:
    """Yield the rows of a step, batch by batch."""
    match plan:
        case Scan():
            yield from _scan(plan, run)
        case Nothing():
            return
        case Filter(step, predicate):
            for scope in _stream(step, run):
                for piece in _pieces(scope, (predicate,), run.deadline):
                    condition = evaluate(predicate, piece)
                    is_true = np.asarray(condition.values, np.bool_)
                    if condition.valid is not None:
                        is_true = is_true & condition.valid
                    if is_true.all():
                        yield piece
                    elif is_true.any():
                        yield piece.take(np.flatnonzero(is_true))
        case Aggregate():
            yield _aggregate(plan, run)
        case Sort(step, keys):
            yield _sorted(step, keys, None, run)
        case TopK(step, keys, count):
            yield _sorted(step, keys, count, run)
        case Limit():
            yield from _limited(plan, run)
        case Project(step):
            yield from _stream(step, run)


def _scan(plan: Scan, run: Run) -> Iterator[Scope]:
    schema = run.source.schema
    largest = max((_sample_nbytes(schema[name]) for name in plan.columns), default=1)
    step = min(max(BATCH_NBYTES // largest, 1), MAX_BATCH_ROWS)
    for start, stop in candidate_ranges(plan.prunable, run.source).tolist():
        for first in range(start, stop, step):
            run.deadline.check(first, run.source.num_rows)
            scope = Scope(run.reader, np.arange(first, min(first + step, stop)), run.text)
            for name in plan.columns:
                scope.column(name)
            yield scope
    run.deadline.check(run.source.num_rows, run.source.num_rows)


def _sorted(step: Plan, keys: tuple[SortKey, ...], limit: int | None, run: Run) -> Scope:
    ordering = Ordering(keys, limit)
    scopes: list[Scope] = []
    exprs = [key.expr for key in keys]
    for scope in _stream(step, run):
        scopes = [scope]
        for piece in _pieces(scope, exprs, run.deadline):
            ordering.add(piece.rows, [evaluate(expr, piece) for expr in exprs])
    reader = scopes[0].reader if scopes else run.reader
    return Scope(reader, ordering.rows(), run.text)


def _limited(plan: Limit, run: Run) -> Iterator[Scope]:
    count = plan.count
    if plan.percent is not None:
        whole = _joined(list(_stream(plan.input, run)), run)
        start, stop = plan.offset, plan.offset + int(len(whole) * plan.percent / 100)
        yield whole.take(np.arange(len(whole))[start:stop])
        return
    skip = plan.offset
    if count == 0:
        return
    for scope in _stream(plan.input, run):
        start = min(skip, len(scope))
        skip -= start
        stop = len(scope) if count is None else min(start + count, len(scope))
        if stop > start:
            yield scope.take(np.arange(start, stop))
        if count is not None:
            count -= stop - start
            if count == 0:
                return


def _aggregate(plan: Aggregate, run: Run) -> Scope:
    exprs = expressions(plan)
    collected: list[list[Vector]] = [[] for _ in exprs]
    num_rows = 0
    for scope in _stream(plan.input, run):
        num_rows += len(scope)
        for piece in _pieces(scope, exprs, run.deadline) if exprs else ():
            for vectors, expr in zip(collected, exprs, strict=True):
                vectors.append(evaluate(expr, piece))
    columns = _columns(collected, exprs)
    keys, arguments = columns[: len(plan.keys)], iter(columns[len(plan.keys) :])
    groups = group_rows(keys, num_rows)
    slots = [*groups.keys]
    for call in plan.calls:
        argument = None if call.argument is None else next(arguments)
        slots.append(call.compute(argument, groups.of_row, groups.count))
    named = {f"#{position}": vector for position, vector in enumerate(slots)}
    return Scope(SlotReader(named), np.arange(groups.count), run.text)


def _columns(collected: Sequence[Sequence[Vector]], exprs: Sequence[Bound]) -> list[Vector]:
    """Return each expression's batches as one vector."""
    return [
        concatenated(vectors) if vectors else constant(None, expr.type, 0)
        for vectors, expr in zip(collected, exprs, strict=True)
    ]


def _joined(scopes: list[Scope], run: Run) -> Scope:
    """Return one scope over the rows of several, in order."""
    if len(scopes) == 1:
        return scopes[0]
    rows = [scope.rows for scope in scopes]
    reader = scopes[0].reader if scopes else run.reader
    return Scope(reader, np.concatenate(rows) if rows else np.zeros(0, np.int64), run.text)
