"""Running a plan: batches of rows flow from the scan up, each with the columns read for its rows.

A step reads the columns that no step before it has read, for the rows that reached it; the rule
`read_late` makes that all there is to read. Batches are sized so that one is a few
milliseconds of work, and between them the deadline is checked.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import structs

from tensorlake_query.bound import (
    Apply,
    Bound,
    CodesRef,
    Constant,
    CorpusRef,
    QueryRef,
    walk_bound,
)
from tensorlake_query.derived import CombinedSource, JoinSource, ResultSource
from tensorlake_query.errors import QueryTypeError
from tensorlake_query.evaluate import RunScope, Scope, evaluate
from tensorlake_query.functions.membership import Members
from tensorlake_query.functions.search import WORDS_COST, Corpus
from tensorlake_query.joins import Pairs, all_pairs, matching_pairs, with_unmatched
from tensorlake_query.ordering import Ordering
from tensorlake_query.plan import (
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
)
from tensorlake_query.readers import SourceReader
from tensorlake_query.relations import Combined, Derived, Joined, Other, Relation, This
from tensorlake_query.run import Run
from tensorlake_query.set_operation import kept_rows
from tensorlake_query.source import ColumnSource, ColumnType, UniformBatch
from tensorlake_query.statement import Statement
from tensorlake_query.steps import (
    aggregated,
    arranged,
    distinct_rows,
    expanded,
    sampled,
    ungrouped,
    windowed,
)
from tensorlake_query.vectors import Vector, concatenated, constant, take
from tensorlake_query.zones import candidate_ranges

BATCH_NBYTES = (
    8 << 20
)  # of samples a batch: a few milliseconds of arithmetic, within the caches of a large core
MAX_BATCH_ROWS = 1 << 18  # of numbers of FULL_NBYTES; more of narrower ones: a mebibyte is cached
FULL_NBYTES = 4
FIRST_BATCH_ROWS = 1 << 13  # of a scan, which LIMIT may end there; the next ones grow
BATCH_GROWTH = 4
MEDIA_NBYTES = 1 << 19  # a decoded picture of unknown size
RAGGED_SIZE = 16  # elements along a dimension that differs by row
OBJECT_NBYTES = 128
# of what is computed for a batch, in units of one operation on one number: a function of the user,
# or BM25, takes as long for each of a few thousand rows as addition for all of them
MAX_BATCH_COST = 1 << 21
MAX_PAIRS = 1_000_000  # tested together where a join has no key


class Executor:
    """Runs the statements of one query; what several of them name is run once."""

    def __init__(self, this: ColumnSource, run: Run) -> None:
        self._this = this
        self._run = run
        self._opened: dict[int, ColumnSource] = {}
        self._answers: dict[int, object] = {}

    def result(self, statement: Statement) -> ResultSource:
        """Return what a statement gives."""
        scan = list(chain(statement.plan))[-1]
        relation = scan.relation if isinstance(scan, Scan | Nothing) else This({})
        source = self._opened_relation(relation)
        reader = SourceReader(source, self._run.meter, self.answer)
        self._run.readers.append(reader)
        block = _Block(self._run, reader)
        scope = block.joined(statement.plan.input)
        return ResultSource(statement.plan.outputs, scope)

    def _opened_relation(self, relation: Relation) -> ColumnSource:
        if isinstance(relation, This):
            return self._this
        if isinstance(relation, Other):
            return relation.source
        key = id(relation)
        if key not in self._opened:
            match relation:
                case Derived(_, statement):
                    self._opened[key] = self.result(statement)
                case Joined():
                    self._opened[key] = self._joined(relation)
                case Combined():
                    self._opened[key] = self._combined(relation)
        return self._opened[key]

    def answer(self, query: QueryRef | CorpusRef, reader: SourceReader) -> object:
        """Return what a query inside an expression gives, run at the first call."""
        key = id(query)
        if key not in self._answers:
            self._answers[key] = (
                self._corpus(query, reader)
                if isinstance(query, CorpusRef)
                else self._queried(query)
            )
        return self._answers[key]

    def _corpus(self, corpus: CorpusRef, reader: SourceReader) -> Corpus:
        scope = Scope(reader, np.arange(reader.source.num_rows), self._run.text)
        texts = (
            evaluate(corpus.texts, piece)
            for piece in pieces(scope, [corpus.texts], self._run, cost=WORDS_COST)
        )
        return Corpus.of(texts, corpus.words)

    def _queried(self, query: QueryRef) -> object:
        result = self.result(query.statement)
        name, column_type = next(iter(result.schema.items()))
        if query.use == "exists":
            return result.num_rows > 0
        if query.use == "members":
            return Members.of(self._all(result, name), column_type)
        return self._value(query, result, name)

    def _value(self, query: QueryRef, result: ResultSource, name: str) -> object:
        if result.num_rows > 1:
            raise QueryTypeError(
                f"a query used as a value gives one row, and this gives {result.num_rows:,}",
                text=self._run.text,
                span=query.syntax.span,
                hint="aggregate, or write LIMIT 1",
            )
        vector = self._all(result, name)
        if not result.num_rows or (vector.valid is not None and not vector.valid[0]):
            return None
        return vector.values[0]

    def _all(self, result: ResultSource | CombinedSource, name: str) -> Vector:
        """Return a column of a result for all rows, batch by batch."""
        stop, step = result.num_rows, rows_of(_sample_nbytes(result.schema[name]))
        batches: list[Vector] = []
        for first in range(0, stop, step):
            self._run.deadline.check(first, stop)
            batches.append(result.vector(name, np.arange(first, min(first + step, stop))))
        return concatenated(batches) if batches else result.vector(name, np.arange(0))

    def _joined(self, joined: Joined) -> JoinSource:
        sources = self._opened_relation(joined.left), self._opened_relation(joined.right)
        sizes = sources[0].num_rows, sources[1].num_rows
        if joined.keys:
            sides = [
                self._columns(source, [pair[number] for pair in joined.keys])
                for number, source in enumerate(sources)
            ]
            pairs = matching_pairs(sides[0], sides[1], sizes, self._run.check_made)
            pairs = self._tested(joined, sources, pairs)
        else:
            pairs = self._crossed(joined, sources, sizes)
        return JoinSource(joined, sources, with_unmatched(pairs, joined.kind, sizes))

    def _crossed(
        self, joined: Joined, sources: tuple[ColumnSource, ColumnSource], sizes: tuple[int, int]
    ) -> Pairs:
        step = max(MAX_PAIRS // max(sizes[1], 1), 1)
        found: list[Pairs] = []
        made = 0
        for start in range(0, sizes[0], step):
            self._run.deadline.check(start, sizes[0])
            pairs = all_pairs(start, min(start + step, sizes[0]), sizes[1])
            found.append(self._tested(joined, sources, pairs))
            self._run.check_made(len(found[-1][0]), before=made)
            made += len(found[-1][0])
        none = np.zeros(0, np.int64)
        return (
            np.concatenate([none, *(left for left, _ in found)]),
            np.concatenate([none, *(right for _, right in found)]),
        )

    def _tested(
        self, joined: Joined, sources: tuple[ColumnSource, ColumnSource], pairs: Pairs
    ) -> Pairs:
        if joined.residual is None or not len(pairs[0]):
            return pairs
        inner = structs.replace(joined, kind="INNER")
        reader = SourceReader(JoinSource(inner, sources, pairs), self._run.meter, self.answer)
        block = _Block(self._run, reader)
        kept = block.joined(Filter(Scan(()), joined.residual)).rows
        return pairs[0][kept], pairs[1][kept]

    def _columns(self, source: ColumnSource, exprs: Sequence[Bound]) -> list[Vector]:
        reader = SourceReader(source, self._run.meter, self.answer)
        self._run.readers.append(reader)
        scope = Scope(reader, np.arange(source.num_rows), self._run.text)
        return compute(exprs, scope, self._run)

    def _combined(self, combined: Combined) -> CombinedSource:
        sides = self.result(combined.left), self.result(combined.right)
        sizes = sides[0].num_rows, sides[1].num_rows
        if combined.by_identity:
            left, right = ([_row_numbers(side)] for side in sides)
        elif combined.op == "UNION" and combined.keeps_all:
            left, right = [], []
        else:
            whole = CombinedSource(combined.schema, sides, np.arange(sum(sizes)), by_identity=False)
            both = {name: self._all(whole, name) for name in combined.schema}
            places = np.arange(sizes[0]), np.arange(sizes[0], sum(sizes))
            left, right = ([take(each, rows) for each in both.values()] for rows in places)
        rows = kept_rows(combined.op, left, right, sizes, keeps_all=combined.keeps_all)
        return CombinedSource(combined.schema, sides, rows, by_identity=combined.by_identity)


def _row_numbers(side: ResultSource) -> Vector:
    lineage = side.lineage()
    assert lineage is not None, "both sides are rows of one source"
    return UniformBatch(lineage.rows(np.arange(side.num_rows)))


def compute(exprs: Sequence[Bound], scope: Scope, run: Run) -> list[Vector]:
    """Return the values of expressions for every row; a column they share is read once."""
    collected: list[list[Vector]] = [[] for _ in exprs]
    parts = pieces(scope, exprs, run) if exprs and len(scope) else ()
    for _, made in run.workers.mapped(partial(values_of, exprs), parts, exprs):
        for vectors, vector in zip(collected, made, strict=True):
            vectors.append(vector)
    return columns_of_batches(collected, exprs)


def values_of(exprs: Sequence[Bound], piece: Scope) -> list[Vector]:
    """Return the values of expressions for one batch."""
    return [evaluate(expr, piece) for expr in exprs]


def batch_rows(exprs: Sequence[Bound], cost: float = 0.0) -> int:
    """Return how many rows make a batch, from the largest sample and the dearest kernel of them."""
    nodes = [node for expr in exprs for node in walk_bound(expr)]
    dearest = max([cost, *(node.cost for node in nodes if isinstance(node, Apply))])
    largest = max((_sample_nbytes(node.type) for node in nodes if _takes_memory(node)), default=1)
    return max(min(rows_of(largest), int(MAX_BATCH_COST // max(dearest, 1.0))), 1)


def rows_of(nbytes: int) -> int:
    """Return how many rows make a batch, from what one of them takes."""
    return min(max(BATCH_NBYTES // nbytes, 1), MAX_BATCH_ROWS * max(FULL_NBYTES // nbytes, 1))


def columns_of_batches(
    collected: Sequence[Sequence[Vector]], exprs: Sequence[Bound]
) -> list[Vector]:
    """Return each expression's batches as one vector."""
    return [
        concatenated(vectors) if vectors else constant(None, expr.type, 0)
        for vectors, expr in zip(collected, exprs, strict=True)
    ]


def pieces(scope: Scope, exprs: Sequence[Bound], run: Run, *, cost: float = 0.0) -> Iterator[Scope]:
    """Cut a scope into batches that suit what is computed; check the deadline before each.

    What is made of them by the caller may cost more than they do: `cost` of it for each row.
    """
    step = batch_rows(exprs, cost)
    for start in range(0, len(scope), step):
        run.deadline.check(start, len(scope))
        yield scope.slice(start, min(start + step, len(scope)))


class _Block:
    """One chain of steps over one source."""

    def __init__(self, run: Run, reader: SourceReader) -> None:
        self._run = run
        self._reader = reader

    def joined(self, plan: Plan) -> Scope:
        """Return all rows of a step as one scope, in order."""
        scopes = list(self.stream(plan))
        if not scopes:
            return self._no_rows(plan)
        if len(scopes) == 1:
            return scopes[0]
        rows = np.concatenate([scope.rows for scope in scopes])
        return Scope(scopes[0].reader, rows, self._run.text)

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
            case _:
                scope = self.joined(plan.input)
                with np.errstate(all="ignore"):  # as in `evaluate`: what NumPy gives is the answer
                    made = self._of_all(plan, scope)
                yield self._checked(made)

    def _of_all(
        self,
        plan: Expand | Aggregate | Ungroup | Window | Distinct | Arrange | Sample,
        scope: Scope,
    ) -> Scope:
        """Return what a step that looks at all rows at once makes of them."""
        run = self._run
        match plan:
            case Expand():
                return expanded(plan, scope, run.check_made)
            case Aggregate():
                return aggregated(plan, scope, self._values)
            case Ungroup():
                return ungrouped(plan, scope, self._values, run.check_made)
            case Window():
                return windowed(plan, scope, self._values)
            case Distinct(_, exprs):
                return scope.take(distinct_rows(self._values(exprs, scope), len(scope)))
            case Arrange(_, exprs):
                return scope.take(arranged(self._values(exprs, scope), len(scope)))
            case Sample():
                weights = self._values([plan.weight], scope)[0]
                return scope.take(sampled(plan, weights, scope, run.text))

    def _checked(self, scope: Scope) -> Scope:
        """Pass on what a step made of all rows at once; the time may be up by now."""
        self._run.deadline.check(len(scope), len(scope))
        return scope

    def _values(self, exprs: Sequence[Bound], scope: Scope) -> list[Vector]:
        return compute(exprs, scope, self._run)

    def _parts(self, step: Plan, exprs: Sequence[Bound]) -> Iterator[Scope]:
        """Yield the rows of a step in batches that suit some expressions."""
        return (piece for scope in self.stream(step) for piece in pieces(scope, exprs, self._run))

    def _kept(self, plan: Filter) -> Iterator[Scope]:
        exprs = (plan.predicate,)
        found = self._run.workers.mapped(
            partial(_passing, plan.predicate), self._parts(plan.input, exprs), exprs
        )
        return (kept for _, kept in found if kept is not None)

    def _scan(self, plan: Scan) -> Iterator[Scope]:
        run, reader = self._run, self._reader
        schema = reader.source.schema
        num_rows = reader.source.num_rows
        largest = max((_sample_nbytes(schema[name]) for name in plan.columns), default=1)
        step = rows_of(largest)
        size = min(FIRST_BATCH_ROWS, step)
        for start, stop in candidate_ranges(plan.prunable, reader.source).tolist():
            first = start
            while first < stop:
                run.deadline.check(first, num_rows)
                scope = RunScope(reader, first, min(first + size, stop), run.text)
                for name in plan.columns:
                    scope.column(name)
                yield scope
                first += size
                size = min(size * BATCH_GROWTH, step)
        run.deadline.check(num_rows, num_rows)

    def _sorted(self, plan: Sort | TopK) -> Scope:
        limit = plan.count if isinstance(plan, TopK) else None
        ordering = Ordering(plan.keys, limit)
        reader = None
        exprs = [key.expr for key in plan.keys]
        parts = self._parts(plan.input, exprs)
        for piece, values in self._run.workers.mapped(partial(values_of, exprs), parts, exprs):
            reader = piece.reader
            ordering.add(piece.rows, values)
        if reader is None:
            return self._no_rows(plan.input)
        return Scope(reader, ordering.rows(), self._run.text)

    def _limited(self, plan: Limit) -> Iterator[Scope]:
        count = plan.count
        if plan.percent is not None:
            whole = self.joined(plan.input)
            start, stop = plan.offset, plan.offset + int(len(whole) * plan.percent / 100)
            yield whole.slice(min(start, len(whole)), min(stop, len(whole)))
            return
        skip = plan.offset
        if count == 0:
            return
        for scope in self.stream(plan.input):
            start = min(skip, len(scope))
            skip -= start
            stop = len(scope) if count is None else min(start + count, len(scope))
            if stop > start:
                yield scope.slice(start, stop)
            if count is not None:
                count -= stop - start
                if count == 0:
                    return


def _passing(predicate: Bound, piece: Scope) -> Scope | None:
    """Return the rows of a batch where a condition is true, neither false nor NULL."""
    condition = evaluate(predicate, piece)
    is_true = np.asarray(condition.values, np.bool_)
    if condition.valid is not None:
        is_true = is_true & condition.valid
    kept = np.flatnonzero(is_true)
    if len(kept) == len(is_true):
        return piece
    return piece.take(kept) if len(kept) else None


def _takes_memory(node: Bound) -> bool:
    """Tell whether a node's values are an array: a constant is one, and few classes are bytes."""
    return not isinstance(node, Constant | CodesRef)


def _sample_nbytes(column_type: ColumnType) -> int:
    if column_type.dtype is None:
        return OBJECT_NBYTES
    if column_type.kind == "media" and None in column_type.shape:
        return MEDIA_NBYTES
    if column_type.kind == "bool" and column_type.shape.count(None) > 1:  # a mask
        return MEDIA_NBYTES
    nbytes = np.dtype(column_type.dtype).itemsize
    for size in column_type.shape:
        nbytes *= RAGGED_SIZE if size is None else max(size, 1)
    return nbytes
