"""Statements of a query: each opens its source, joins or combines others, and runs its steps."""

from functools import partial

import numpy as np

from tensorlake_query.binding.set_operation import kept_rows
from tensorlake_query.execution.batches import (
    pieces,
    rows_of,
    sample_nbytes,
    values_of,
)
from tensorlake_query.execution.blocks import Block
from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.execution.evaluate import Scope
from tensorlake_query.execution.filters import needed_above, needed_by
from tensorlake_query.execution.pairing import Pairing
from tensorlake_query.execution.run import Run
from tensorlake_query.execution.subqueries import (
    CombinedSource,
    FilteredSource,
    JoinSource,
    ResultSource,
    row_numbers_of,
)
from tensorlake_query.functions.scalar.membership import Members
from tensorlake_query.functions.text.search import WORDS_COST, Corpus
from tensorlake_query.planning.plan import (
    Combined,
    Derived,
    Filter,
    Filtered,
    Joined,
    Nothing,
    Other,
    Relation,
    Scan,
    Statement,
    This,
    chain,
)
from tensorlake_query.syntax.ast import Span
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.bound import Bound, ColumnRef, CorpusRef, QueryRef
from tensorlake_query.values.memory import charge, working
from tensorlake_query.values.source import ColumnSource, IntArray, WordsSource
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    concatenated,
    deep_nbytes_of,
    nbytes_of,
    take,
)

MEMBER_NBYTES = 128  # of a value in a set, beside itself


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
        block = Block(self._run, reader, needed_above(statement.plan.input, needed_by(statement)))
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
                case Filtered():
                    self._opened[key] = self._filtered(relation)
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
        source = reader.source
        if isinstance(corpus.texts, ColumnRef) and isinstance(source, WordsSource):
            known = source.text_statistics(corpus.texts.name, corpus.words)
            if known is not None:
                return Corpus.known(known)
        scope = Scope(reader, np.arange(source.num_rows), self._run.text)
        texts = (
            values_of([corpus.texts], piece).vectors[0]
            for piece in pieces(scope, [corpus.texts], self._run, cost=WORDS_COST)
        )
        return Corpus.of(texts, corpus.words)

    def _queried(self, query: QueryRef) -> object:
        result = self.result(query.statement)
        name, column_type = next(iter(result.schema.items()))
        if query.use == "exists":
            return result.num_rows > 0
        if query.use == "members":
            with self._run.step("the list of IN (SELECT …)"):
                vector = self._all(result, name)
                charge(result.num_rows * MEMBER_NBYTES)
                members = Members.of(vector, column_type)
            self._run.keep(deep_nbytes_of(vector) + len(members.texts) * MEMBER_NBYTES)
            return members
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
        stop, step = result.num_rows, rows_of(sample_nbytes(result.schema[name]))
        batches: list[Vector] = []
        for first in range(0, stop, step):
            self._run.deadline.check(first, stop)
            rows = np.arange(first, min(first + step, stop))
            try:
                batches.append(result.vector(name, rows))
            except RowError as error:  # of sides that are brought to one type
                text = self._run.text
                message, span = f"{name!r}: {error.message}", Span(0, len(text))
                raise QueryTypeError(message, text=text, span=span) from None
        with working(sum(map(nbytes_of, batches))):
            return concatenated(batches) if batches else result.vector(name, np.arange(0))

    def _joined(self, joined: Joined) -> JoinSource:
        sources = self._opened_relation(joined.left), self._opened_relation(joined.right)
        pairing = Pairing(self._run, joined, sources, self.answer, self._passing)
        return JoinSource(joined, sources, None, pairing)

    def _filtered(self, filtered: Filtered) -> FilteredSource:
        source = self._opened_relation(filtered.relation)
        reader = SourceReader(source, self._run.meter, self.answer)
        self._run.readers.append(reader)
        block = Block(self._run, reader, needed_above(filtered.plan, frozenset()))
        return FilteredSource(source, block.joined(filtered.plan).rows)

    def _passing(self, source: ColumnSource, condition: Bound) -> IntArray:
        """Return the rows of a source that meet a condition."""
        reader = SourceReader(source, self._run.meter, self.answer)
        plan = Filter(Scan(()), condition)
        block = Block(self._run, reader, needed_above(plan, frozenset()))
        return np.concatenate([np.zeros(0, np.int64), *(each.rows for each in block.stream(plan))])

    def _combined(self, combined: Combined) -> CombinedSource:
        sides = self.result(combined.left), self.result(combined.right)
        with self._run.step(combined.op):
            rows = self._combined_rows(combined, sides)
        self._run.keep(rows.nbytes)
        return CombinedSource(combined.schema, sides, rows, by_identity=combined.by_identity)

    def _combined_rows(
        self, combined: Combined, sides: tuple[ResultSource, ResultSource]
    ) -> IntArray:
        sizes = sides[0].num_rows, sides[1].num_rows
        if combined.by_identity:
            left, right = ([row_numbers_of(side)] for side in sides)
        elif combined.op == "UNION" and combined.keeps_all:
            left, right = [], []
        else:
            whole = CombinedSource(combined.schema, sides, np.arange(sum(sizes)), by_identity=False)
            both = {name: self._all(whole, name) for name in combined.schema}
            places = np.arange(sizes[0]), np.arange(sizes[0], sum(sizes))
            left, right = ([take(each, rows) for each in both.values()] for rows in places)
        work = partial(kept_rows, combined.op, left, right, sizes, keeps_all=combined.keeps_all)
        return self._run.watched(sum(sizes), work)
