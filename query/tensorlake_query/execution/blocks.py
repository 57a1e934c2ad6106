"""Steps of one source: batches of rows come from the scan up, each with its columns.

A step reads the columns that no step before it has read, for the rows that reached it; the rule
`read_late` makes that all there is to read. Batches are sized so that one is a few
milliseconds of work, and between them the deadline is checked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from tensorlake_query.execution.aggregation import (
    Grouping,
    TooSparseError,
    is_streamed,
    streamed_exprs,
)
from tensorlake_query.execution.batches import (
    BATCH_GROWTH,
    FIRST_BATCH_ROWS,
    compute,
    pieces,
    rows_of,
    sample_nbytes,
    values_of,
)
from tensorlake_query.execution.columns import Reader, SlotReader, SourceReader
from tensorlake_query.execution.elements import ungrouped
from tensorlake_query.execution.evaluate import RunScope, Scope
from tensorlake_query.execution.filters import passing
from tensorlake_query.execution.lookups import Found, found_by_indexes
from tensorlake_query.execution.operators import (
    aggregated,
    arranged,
    distinct_rows,
    expanded,
    limited,
    sampled,
    windowed,
)
from tensorlake_query.execution.run import ROW_NBYTES, Run
from tensorlake_query.execution.subqueries import JoinSource
from tensorlake_query.functions.aggregate.accumulators import Counts
from tensorlake_query.planning.nearest import (
    first_rows,
    order_indexes,
    orders_all_rows,
    uses_index,
)
from tensorlake_query.planning.plan import (
    Aggregate,
    Arrange,
    Distinct,
    Expand,
    Filter,
    Limit,
    Nothing,
    Plan,
    Project,
    Sample,
    Scan,
    Sort,
    TopK,
    Ungroup,
    Window,
    chain,
    expressions,
)
from tensorlake_query.planning.zone_maps import ZonesByBound, best_first, candidate_ranges
from tensorlake_query.values.bound import Bound, ColumnRef, is_placed
from tensorlake_query.values.memory import working
from tensorlake_query.values.order import Ordering
from tensorlake_query.values.source import IntArray, UniformBatch
from tensorlake_query.values.vectors import Vector, length_of, take

AllRows = Expand | Aggregate | Ungroup | Window | Distinct | Arrange | Sample
OPERATORS: dict[type[Plan], str] = {
    Expand: "EXPAND BY",
    Aggregate: "GROUP BY",
    Ungroup: "UNGROUP BY",
    Window: "OVER (…)",
    Distinct: "DISTINCT",
    Arrange: "ARRANGE BY",
    Sample: "SAMPLE BY",
}


class Block:
    """One chain of steps over one source."""

    def __init__(
        self, run: Run, reader: SourceReader, needed: Mapping[int, frozenset[str]] | None = None
    ) -> None:
        self._run = run
        self._reader = reader
        self._needed = needed or {}
        self._ordering: Ordering | None = None  # the one that is being made, and its zones
        self._zones: ZonesByBound | None = None
        self._is_by_piece = False  # whether pairs of a join are looked at once, and not held

    def joined(self, plan: Plan) -> Scope:
        """Return all rows of a step as one scope, in order."""
        only: Scope | None = None  # with what has been read of it; of many batches only the rows
        reader: Reader | None = None
        rows: list[IntArray] = []  # none while all batches are consecutive
        for scope in self.stream(plan):
            before, only = only, scope if reader is None else None
            if isinstance(before, RunScope):
                only = before.followed_by(scope)
            if reader is not None and only is None:
                rows += [scope.rows] if before is None else [before.rows, scope.rows]
            reader = scope.reader
            self._run.keep(len(scope) * ROW_NBYTES)
        if only is not None:
            return only
        if reader is None:
            return self._no_rows(plan)
        with working(sum(each.nbytes for each in rows)):
            return Scope(reader, np.concatenate(rows), self._run.text)

    def _no_rows(self, plan: Plan) -> Scope:
        """Return what a step that gave no batch gives: no rows, with the step's own columns."""
        none = np.zeros(0, np.int64)
        scope = Scope(self._reader, none, self._run.text)
        for step in reversed([*chain(plan)]):
            if isinstance(step, Aggregate | Ungroup | Window):
                scope = Scope(self._of_all(step, scope).reader, none, self._run.text)
        return scope

    def stream(self, plan: Plan) -> Iterator[Scope]:
        """Yield the rows of a step, batch by batch."""
        if self._run.counts is None:
            yield from self._steps(plan)
            return
        yield from self._run.counts.timed(plan, self._steps(plan))

    def _steps(self, plan: Plan) -> Iterator[Scope]:
        match plan:
            case Scan():
                yield from self._scan(plan)
            case Nothing():
                return
            case Filter():
                yield from self._kept(plan)
            case Limit():
                yield from self._limited(plan)
            case Project(step):
                yield from self.stream(step)
            case Sort() | TopK():
                yield self._checked(self._sorted(plan))
            case Aggregate() if (slots := self._of_pairs(plan)) is not None:
                yield self._checked(self._groups(slots))
            case Aggregate() if (numbered := self._numbered(plan)) is not None:
                yield self._checked(self._aggregated(plan, numbered))
            case _:
                scope = self.joined(plan.input)
                with np.errstate(all="ignore"):  # as in `evaluate`: what NumPy gives is the answer
                    made = self._held_of_all(plan, scope)
                yield self._checked(made)

    def _numbered(self, plan: Aggregate) -> frozenset[str] | None:
        """Return the keys of a join whose texts are numbered, so that no pair reads its text.

        None where an aggregation is not made batch by batch.
        """
        source, names = self._reader.source, frozenset[str]()
        if isinstance(source, JoinSource) and all(
            isinstance(step, Filter | Scan) for step in chain(plan.input)
        ):
            names = frozenset(
                key.name
                for key in plan.keys
                if isinstance(key, ColumnRef) and key.type.kind == "text" and not key.type.shape
            )
        if not is_streamed(plan, self._needed.get(id(plan)), names):
            return None
        with self._run.step(OPERATORS[Aggregate]):
            are_numbered = all(
                isinstance(source, JoinSource) and source.number(name) for name in names
            )
        return names if are_numbered else None

    def _aggregated(self, plan: Aggregate, numbered: frozenset[str]) -> Scope:
        """Return one row a group, made batch by batch."""
        grouping = Grouping(plan, numbered)
        exprs = streamed_exprs(plan, numbered)
        parts = self._parts(plan.input, exprs)
        work = partial(values_of, exprs, check=self._run.deadline.check)
        self._is_by_piece = self._sees_pairs_once(plan)

        try:
            with self._run.step(OPERATORS[Aggregate]), np.errstate(all="ignore"):
                for piece, values in self._run.workers.mapped(work, parts, exprs):
                    grouping.add(values.vectors, len(piece))
                    values.held.drop()
                slots = grouping.slots(self._reader)
        except TooSparseError:
            slots = None
        self._is_by_piece = False
        if slots is None:
            return self._held_of_all(plan, self.joined(plan.input))
        return self._groups(slots)

    def _of_pairs(self, plan: Aggregate) -> Sequence[Vector] | None:
        """Return keys and aggregates of the pairs of a join, where none of them has to be a row."""
        source = self._reader.source
        if not isinstance(source, JoinSource) or source.making is None:
            return None
        if not isinstance(plan.input, Scan) or not is_streamed(plan, self._needed.get(id(plan))):
            return None
        if plan.keys:
            with self._run.step(OPERATORS[Aggregate]), np.errstate(all="ignore"):
                return source.making.grouped(plan)
        asks_for_count = all(each.accumulate is Counts for each in plan.calls)
        count = source.making.count() if asks_for_count and not expressions(plan) else None
        return None if count is None else [UniformBatch(np.array([count]))] * len(plan.calls)

    def _groups(self, slots: Sequence[Vector]) -> Scope:
        """Return one row a group; `slots` are the keys and aggregates."""
        reader = SlotReader({f"#{n}": each for n, each in enumerate(slots)}, self._reader)
        self._run.keep(reader.nbytes)
        count = length_of(slots[0]) if slots else 1
        return Scope(reader, np.arange(count), self._run.text)

    def _sees_pairs_once(self, plan: Aggregate) -> bool:
        """Return whether an aggregation is of the pairs of a join, whatever their places."""
        below = list(chain(plan.input))
        return (
            isinstance(self._reader.source, JoinSource)
            and all(isinstance(step, Filter | Scan) for step in below)
            and not any(is_placed(expr) for step in (plan, *below) for expr in expressions(step))
        )

    def _held_of_all(self, plan: AllRows, scope: Scope) -> Scope:
        """Return what such a step makes, and hold what that takes; what making it took goes."""
        with self._run.step(OPERATORS[type(plan)]):
            made = self._of_all(plan, scope)
        self._run.keep(made.reader.nbytes)
        return made

    def _of_all(self, plan: AllRows, scope: Scope) -> Scope:
        """Return what a step that looks at all rows at once makes of them."""
        run = self._run
        match plan:
            case Expand():
                return run.watched(len(scope), partial(expanded, plan, scope, run.check_made))
            case Aggregate():
                columns = self._values(expressions(plan), scope)
                return run.watched(len(scope), partial(aggregated, plan, scope, columns))
            case Ungroup():
                return ungrouped(plan, scope, self._values, run.check_made)
            case Window():
                columns = [self._values(call.expressions, scope) for call in plan.calls]
                return run.watched(len(scope), partial(windowed, plan, scope, columns))
            case Distinct(_, exprs):
                work = partial(distinct_rows, self._values(exprs, scope), len(scope))
                return scope.take(run.watched(len(scope), work))
            case Arrange(_, exprs):
                work = partial(arranged, self._values(exprs, scope), len(scope))
                return scope.take(run.watched(len(scope), work))
            case Sample():
                weights = self._values([plan.weight], scope)[0]
                work = partial(sampled, plan, weights, scope, run.text)
                return scope.take(run.watched(len(scope), work))

    def _checked(self, scope: Scope) -> Scope:
        """Pass on what a step made of all rows at once; the time may be up by now."""
        self._run.deadline.check(len(scope), len(scope))
        return scope

    def _values(self, exprs: Sequence[Bound], scope: Scope) -> list[Vector]:
        return compute(exprs, scope, self._run)

    def _parts(self, step: Plan, exprs: Sequence[Bound]) -> Iterator[Scope]:
        """Yield the rows of a step in batches that suit some expressions."""
        return self._cut(self.stream(step), exprs)

    def _cut(self, scopes: Iterable[Scope], exprs: Sequence[Bound]) -> Iterator[Scope]:
        return (piece for scope in scopes for piece in pieces(scope, exprs, self._run))

    def _kept(self, plan: Filter) -> Iterator[Scope]:
        filters = [plan]
        while isinstance(filters[-1].input, Filter) and self._run.counts is None:
            filters.append(filters[-1].input)  # counted, each is a step of its own
        exprs = tuple(each.predicate for each in reversed(filters))
        needed, below = self._needed.get(id(plan)), filters[-1].input
        found = found_by_indexes(below, self._reader, self._run.text)
        if found is None:
            return self._passed(exprs, needed, self._parts(below, exprs))
        return self._found(found, exprs, needed)

    def _passed(
        self, exprs: tuple[Bound, ...], needed: frozenset[str] | None, parts: Iterator[Scope]
    ) -> Iterator[Scope]:
        check = self._run.deadline.check
        made = self._run.workers.mapped(partial(passing, exprs, check, needed), parts, exprs)
        return (kept for _, kept in made if kept is not None)

    def _found(
        self, found: Found, exprs: tuple[Bound, ...], needed: frozenset[str] | None
    ) -> Iterator[Scope]:
        """Yield the rows that indexes found, in order with those that a scan does."""
        self._run.lookups.append(found.describe())
        rest = tuple(expr for expr in exprs if all(expr is not one for one in found.answered))
        for rows, start, stop in found.pieces():
            scope = Scope(self._reader, rows, self._run.text)
            if len(rows):
                yield from self._passed(rest, needed, self._cut([scope], rest)) if rest else [scope]
            if start < stop:
                scopes = self._ranges(found.scan, np.array([[start, stop]]))
                yield from self._passed(exprs, needed, self._cut(scopes, exprs))

    def _pieces(self, plan: Scan) -> Iterator[Scope]:
        source = self._reader.source
        assert isinstance(source, JoinSource), "only pairs come by piece"
        for piece in source.pieces():
            scope = RunScope(self._reader.over(piece), 0, piece.num_rows, self._run.text)
            for name in plan.columns:
                scope.column(name)
            if len(scope):
                yield scope

    def _scan(self, plan: Scan) -> Iterator[Scope]:
        if self._is_by_piece:
            yield from self._pieces(plan)
            return
        ranges = candidate_ranges(plan.prunable, self._reader.source)
        if self._zones is not None:
            ranges = self._zones.ordered(ranges)
        yield from self._ranges(plan, ranges)

    def _ranges(self, plan: Scan, ranges: IntArray) -> Iterator[Scope]:
        run, reader = self._run, self._reader
        schema = reader.source.schema
        num_rows = reader.source.num_rows
        largest = max((sample_nbytes(schema[name]) for name in plan.columns), default=1)
        step = rows_of(largest)
        size = min(FIRST_BATCH_ROWS, step)
        for start, stop in ranges.tolist():
            if self._is_beyond(start):
                continue
            first = start
            while first < stop:
                run.deadline.check(first, num_rows)
                last = min(first + size, stop)
                if last - first == step:
                    last -= last % step  # chunks of numbers end there: none is copied
                scope = RunScope(reader, first, last, run.text)
                for name in plan.columns:
                    scope.column(name)
                yield scope
                first = last
                size = min(size * BATCH_GROWTH, step)
        run.deadline.check(num_rows, num_rows)

    def _is_beyond(self, row: int) -> bool:
        """Return whether no row of this one's zone can be among the first of an order."""
        if self._zones is None or self._ordering is None or self._ordering.bound is None:
            return False
        return self._zones.is_beyond(row, self._ordering.bound)

    def _sorted(self, plan: Sort | TopK) -> Scope:
        limit = plan.count if isinstance(plan, TopK) else None
        self._zones = best_first(plan, self._reader.source)
        ordering = self._ordering = Ordering(plan.keys, limit, by_row=self._zones is not None)
        reader = None
        exprs = [key.expr for key in plan.keys]
        parts = self._ordered(plan, exprs)
        work = partial(values_of, exprs, check=self._run.deadline.check)
        with self._run.step("ORDER BY"):
            for piece, values in self._run.workers.mapped(work, parts, exprs):
                reader = piece.reader
                vectors, nbytes = values.vectors, values.held.nbytes
                reaching = ordering.reaching(vectors[0])
                if reaching is None:
                    ordering.add(piece.rows, vectors, nbytes)
                elif len(reaching):
                    nbytes = nbytes * len(reaching) // len(piece)
                    vectors = [take(vector, reaching) for vector in vectors]
                    ordering.add(piece.numbers(reaching), vectors, nbytes)
                values.held.drop()
            rows = self._run.watched(ordering.num_rows, ordering.rows)
        if reader is None:
            return self._no_rows(plan.input)
        return Scope(reader, rows, self._run.text)

    def _ordered(self, plan: Sort | TopK, exprs: Sequence[Bound]) -> Iterator[Scope]:
        """Yield the rows that an order is of, or those that an index finds to be the first."""
        if not isinstance(plan, TopK) or not uses_index(plan, self._reader.source):
            return self._parts(plan.input, exprs)
        whole = None if orders_all_rows(plan.input) else self.joined(plan.input)
        rows = None if whole is None else whole.rows
        is_plain = whole is None or whole.reader is self._reader
        if is_plain and (rows is None or bool((np.diff(rows) > 0).all())):
            found = first_rows(plan, self._reader.source, rows)
            if found is not None:
                self._run.lookups += order_indexes(plan, self._reader.source)
                return pieces(Scope(self._reader, found, self._run.text), exprs, self._run)
        if whole is None:
            return self._parts(plan.input, exprs)
        return pieces(whole, exprs, self._run)

    def _limited(self, plan: Limit) -> Iterator[Scope]:
        count = plan.count
        if plan.percent is not None:
            whole = self.joined(plan.input)
            start, stop = plan.offset, plan.offset + int(len(whole) * plan.percent / 100)
            yield whole.slice(min(start, len(whole)), min(stop, len(whole)))
            return
        yield from limited(plan.offset, count, lambda: self.stream(plan.input))
