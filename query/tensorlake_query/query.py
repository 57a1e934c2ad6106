"""The entry points: compile a query against a schema, run it over a source.

    compile_query(text, schema, params={"k": 5}).run(source)  →  QueryResult

A compiled query is immutable and knows its result's columns before any data is read.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorlake_query import ast
from tensorlake_query.bound import ColumnRef
from tensorlake_query.errors import QueryError, QueryNameError, joined, listed, nearest
from tensorlake_query.evaluate import Scope, SourceReader
from tensorlake_query.executor import Deadline, Run, compute, run_plan
from tensorlake_query.parser import check_depth, parse
from tensorlake_query.plan import Output, Project, explain
from tensorlake_query.printer import print_query
from tensorlake_query.rules import optimized
from tensorlake_query.source import Batch, ColumnSource, ColumnType, IntArray, ObjectBatch
from tensorlake_query.statement import Statement, bind_query
from tensorlake_query.types import TEXT
from tensorlake_query.vectors import to_batch

PLAN_COLUMN = "plan"
SHORT_TEXT = 4096  # characters that are parsed in a few milliseconds


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a run gives.

    Attributes:
        rows: the selected rows of the source, in order; None for aggregates and EXPLAIN.
        columns: computed columns by output name, aligned with `rows` (or with the groups).
        passthrough: output name → source column, for columns shown as they are (never read).
        rows_read: how many samples of each column were read.
    """

    rows: IntArray | None
    columns: dict[str, Batch]
    passthrough: dict[str, str]
    rows_read: dict[str, int]


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query checked against a schema, and the plan to run it.

    Attributes:
        text: canonical TQL.
        columns: names and types of the output, in order.
        selects_rows: whether the result is rows of the source (not aggregates, not a plan).
    """

    text: str
    columns: Mapping[str, ColumnType]
    selects_rows: bool
    _plan: Project = field(repr=False)
    _written: str = field(repr=False)
    _explains: bool = field(repr=False, default=False)

    def explain(self) -> str:
        """Return the plan as text, the last step first."""
        return explain(self._plan)

    def run(
        self,
        source: ColumnSource,
        *,
        timeout_s: float | None = None,
        compute_columns: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> QueryResult:
        """Run over a source that has the schema the query was compiled against.

        Args:
            source: where the columns come from.
            timeout_s: stop with an error after so many seconds, checked between batches.
            compute_columns: False leaves the virtual columns of selected rows to `evaluate`.
            clock: gives the seconds that `timeout_s` counts.

        Raises:
            QueryLimitError: the timeout has passed.
            QueryTypeError: the values of a row do not fit together.
        """
        if self._explains:
            lines: list[object] = list(self.explain().split("\n"))
            return QueryResult(None, {PLAN_COLUMN: ObjectBatch(lines)}, {}, {})
        reader = SourceReader(source)
        deadline = self._deadline(timeout_s, clock)
        run = Run(source, reader, deadline, self._written)
        scope = run_plan(self._plan, run)
        passthrough: dict[str, str] = {}
        computed: list[Output] = []
        for output in self._plan.outputs:
            if self.selects_rows and isinstance(output.expr, ColumnRef):
                passthrough[output.name] = output.expr.name
            elif compute_columns or not self.selects_rows:
                computed.append(output)
        vectors = compute([output.expr for output in computed], scope, deadline)
        columns = {
            output.name: to_batch(vector) for output, vector in zip(computed, vectors, strict=True)
        }
        rows = scope.rows if self.selects_rows else None
        return QueryResult(rows, columns, passthrough, dict(reader.rows_read))

    def evaluate(self, source: ColumnSource, output_name: str, rows: IntArray) -> Batch:
        """Return one output column for some rows of the source.

        Raises:
            QueryNameError: the query has no such output.
        """
        output = self._output(output_name)
        scope = Scope(SourceReader(source), np.asarray(rows, np.int64), self._written)
        return to_batch(compute([output.expr], scope, self._deadline(None, time.monotonic))[0])

    def _output(self, name: str) -> Output:
        for output in self._plan.outputs:
            if output.name == name and self.selects_rows:
                return output
        raise QueryNameError(
            f"the query has no row-wise output {name!r}",
            text=self._written,
            span=ast.Span(0, len(self._written)),
            hint=joined(nearest(name, self.columns), listed("outputs", self.columns)),
        )

    def _deadline(self, timeout_s: float | None, clock: Callable[[], float]) -> Deadline:
        stop = None if timeout_s is None else clock() + timeout_s
        return Deadline(clock, stop, timeout_s, self._written)


def compile_query(
    query: str | ast.Query | None,
    source_schema: Mapping[str, ColumnType],
    *,
    params: Mapping[str, Any] | None = None,
    optimize: bool = True,
) -> CompiledQuery:
    """Parse, bind and optimize a query.

    Args:
        query: TQL, or its syntax tree, or None for all rows and columns.
        source_schema: the columns of the source it will run over.
        params: a value for each `$name`: numbers, text, truth values, None, arrays.
        optimize: False keeps the plan as written, which gives the same result more slowly.

    Raises:
        QuerySyntaxError: the text is not TQL.
        QueryNameError: a name, class or parameter does not exist, or a parameter is not used.
        QueryTypeError: parts of it do not fit together.
        QueryLimitError: it is too long or nested too deeply.
    """
    parsed, statement = _bound(query, source_schema, params or {})
    written = query if isinstance(query, str) else print_query(parsed)
    plan = optimized(statement.plan) if optimize else statement.plan
    columns = {output.name: output.type for output in plan.outputs}
    return CompiledQuery(
        text=print_query(parsed),
        columns={PLAN_COLUMN: TEXT} if parsed.explain else columns,
        selects_rows=statement.selects_rows and not parsed.explain,
        _plan=plan,
        _written=written,
        _explains=parsed.explain,
    )


def _bound(
    query: str | ast.Query | None, schema: Mapping[str, ColumnType], params: Mapping[str, object]
) -> tuple[ast.Query, Statement]:
    """Return the syntax tree of a query, and the tree bound.

    A tree that was built without text is bound as it is: no grammar is loaded, and a list of a
    million values is not written out and read back. Only if that fails is it, so that the error has
    a text to point at.
    """
    if isinstance(query, str):
        parsed = parse(query)
        return parsed, bind_query(parsed, schema, params, query)
    tree = query or ast.Query()
    check_depth(tree, "")
    text = print_query(tree)
    if len(text) <= SHORT_TEXT and any(node.span != ast.NOWHERE for node in ast.walk(tree)):
        tree = parse(text)  # its places are those of another text, such as that of `ds.where`
    try:
        return tree, bind_query(tree, schema, params, text)
    except QueryError:
        bind_query(parse(text), schema, params, text)
        raise
