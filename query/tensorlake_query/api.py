"""The entry points: compile a query against a schema, run it over a source.

    compile_query(text, schema, params={"k": 5}).run(source)  →  QueryResult

A compiled query is immutable and knows its result's columns before any data is read.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import structs

from tensorlake_query.binding.compile import bind_statement
from tensorlake_query.binding.scope import Environment
from tensorlake_query.execution.batches import compute
from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.execution.evaluate import Scope
from tensorlake_query.execution.executor import Executor
from tensorlake_query.execution.lookups import Found, found_by_indexes
from tensorlake_query.execution.run import Deadline, Run, StepCounts, WatchedTables
from tensorlake_query.execution.subqueries import ResultSource
from tensorlake_query.functions.registry import Function
from tensorlake_query.planning.estimate import expected_reads, filtered_sides, scanned_source
from tensorlake_query.planning.explain import explain
from tensorlake_query.planning.nearest import order_indexes
from tensorlake_query.planning.plan import (
    Aggregate,
    Nothing,
    Output,
    Scan,
    Statement,
    This,
    Ungroup,
    Window,
    chain,
)
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import (
    QueryError,
    QueryLimitError,
    QueryNameError,
    joined,
    listed,
    nearest,
)
from tensorlake_query.syntax.parser import check_depth, parse
from tensorlake_query.syntax.printer import print_query
from tensorlake_query.syntax.seeds import seeded
from tensorlake_query.values.memory import Account
from tensorlake_query.values.meter import Meter
from tensorlake_query.values.source import (
    Batch,
    ColumnSource,
    ColumnType,
    IntArray,
    ObjectBatch,
    Tables,
)
from tensorlake_query.values.types import TEXT
from tensorlake_query.values.vectors import to_batch
from tensorlake_query.warnings import warnings_of

PLAN_COLUMN = "plan"
SHORT_TEXT = 4096  # characters that are parsed in a few milliseconds


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a run.

    Attributes:
        rows: the selected rows of `source`, in order; None for groups, values and EXPLAIN.
        columns: computed columns by output name, aligned with `rows` (or with the groups).
        passthrough: output name → column of `source`, for columns shown as they are (never read).
        rows_read: how many samples of each column were read.
        source: what `rows` are rows of: the source asked, or another that FROM named.
        num_rows: how many rows the result has.
        computed: names of the computed columns, also of those left for `read`.
        nbytes: the memory that it holds, about.
    """

    rows: IntArray | None
    columns: dict[str, Batch]
    passthrough: dict[str, str]
    rows_read: dict[str, int]
    source: ColumnSource | None
    num_rows: int
    computed: tuple[str, ...]
    nbytes: int = 0
    _result: ResultSource | None = field(repr=False, default=None)
    _run: Run | None = field(repr=False, default=None)

    def read(self, name: str, positions: IntArray) -> Batch:
        """Compute an output for some positions of the result, now.

        Raises:
            QueryLimitError: it takes more memory than the query may hold.
        """
        assert self._result is not None, "a plan has no columns to read"
        assert self._run is not None, "a result was run"
        with self._run.reading().entered():
            return self._result.read_in_parts(name, np.asarray(positions, np.int64))

    def shapes(self, name: str, positions: IntArray) -> IntArray:
        """Return sample shapes of an output; −1s where NULL."""
        assert self._result is not None, "a plan has no columns to read"
        return self._result.shapes(name, np.asarray(positions, np.int64))


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run ends by itself.

    Attributes:
        timeout_s: seconds, checked between batches, and in one whenever memory is taken.
        max_nbytes: bytes of samples read.
        cancelled: called between batches, and in one whenever memory is taken.
        clock: gives the seconds that `timeout_s` counts.
        memory_nbytes: bytes held at once, by the run, and by each later reading of its result.
        advice: how to allow more memory, for the error to say.
        started_s: when `timeout_s` begins, by the clock; None: when the run does.
    """

    timeout_s: float | None = None
    max_nbytes: int | None = None
    cancelled: Callable[[], bool] | None = None
    clock: Callable[[], float] = time.monotonic
    memory_nbytes: int | None = None
    advice: str = ""
    started_s: float | None = None

    def deadline(self, text: str) -> Deadline:
        """Return when the run of a text must end."""
        started = self.clock() if self.started_s is None else self.started_s
        stop = None if self.timeout_s is None else started + self.timeout_s
        return Deadline(self.clock, stop, self.timeout_s, text, self.cancelled)


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query checked against a schema, and the plan to run it.

    Attributes:
        text: canonical TQL.
        columns: names and types of the output, in order.
        selects_rows: whether the result is rows of a source (not of groups, not a plan).
        warnings: what its writer may not have meant.
        is_repeatable: whether compiling it again with equal arguments gives the same plan; not
            where it draws from a seed, or calls functions of the user.
    """

    text: str
    columns: Mapping[str, ColumnType]
    selects_rows: bool
    warnings: tuple[str, ...]
    is_repeatable: bool
    _statement: Statement = field(repr=False)
    _written: str = field(repr=False)
    _explains: bool = field(repr=False, default=False)
    _analyzes: bool = field(repr=False, default=False)

    @property
    def is_rowwise(self) -> bool:
        """Whether each output depends on its row of the source alone: `evaluate` gives them all.

        It does not where rows are pairs, groups or elements, or a window looks at others.
        """
        *steps, scan = chain(self._statement.plan)
        return (
            self.selects_rows
            and not any(isinstance(step, Aggregate | Ungroup | Window) for step in steps)
            and isinstance(scan, Scan | Nothing)
            and isinstance(scan.relation, This)
        )

    def explain(self, source: ColumnSource | None = None) -> str:
        """Return the plan as text, the last step first; then what it may read of a source."""
        plan = self._statement.plan
        if source is None:
            return explain(plan)
        scanned = scanned_source(plan, source)
        found = None if scanned is None else self._found(*scanned)
        ranges = None if found is None else found.candidates()
        sides = [self._found(*side) for side in filtered_sides(plan, source)]
        lines = [each.describe() for each in (found, *sides) if each is not None]
        if scanned is not None:
            lines += order_indexes(plan, scanned[1])
        return "\n".join([explain(plan), *lines, *expected_reads(plan, source, ranges)])

    def _found(self, scan: Scan, asked: ColumnSource) -> Found | None:
        """Ask indexes, as a run does, about conditions without queries: these are not run."""
        plain = tuple(each for each in scan.lookups if all(one.is_fixed for one in each.questions))
        with self._run(Limits()).entered() as run:
            reader = SourceReader(asked, run.meter, Executor(asked, run).answer)
            return found_by_indexes(structs.replace(scan, lookups=plain), reader, run.text)

    def run(
        self,
        source: ColumnSource,
        *,
        timeout_s: float | None = None,
        max_nbytes: int | None = None,
        cancelled: Callable[[], bool] | None = None,
        compute_columns: bool = True,
        spent: Callable[[], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        memory_nbytes: int | None = None,
        advice: str = "",
        started_s: float | None = None,
    ) -> QueryResult:
        """Run over a source that has the schema the query was compiled against.

        Args:
            source: where the columns come from.
            timeout_s: stop with an error after this number of seconds, checked between batches.
            max_nbytes: stop with an error after reading this number of bytes of samples.
            cancelled: called between batches; when true, stop with an error.
            compute_columns: False leaves computed columns to `QueryResult.read`.
            spent: reports the cost of reading: the last line of EXPLAIN ANALYZE.
            clock: gives the seconds that `timeout_s` counts.
            memory_nbytes: stop with an error before more bytes are held at once.
            advice: how to allow more memory, for that error to say.
            started_s: when `timeout_s` begins, by the clock, such as before parsing; None: now.

        Raises:
            QueryLimitError: a limit was passed.
            QueryTypeError: the values of a row do not fit together.
        """
        limits = Limits(timeout_s, max_nbytes, cancelled, clock, memory_nbytes, advice, started_s)
        if self._analyzes:
            found = self.analyze(source, limits)
            return self._plan_result(found if spent is None else f"{found}\n{spent()}")
        if self._explains:
            return self._plan_result(self.explain(source))
        with self._run(limits).entered() as run:
            result = Executor(source, run).result(self._statement)
            return self._result(result, run, compute_columns=compute_columns)

    def analyze(self, source: ColumnSource, limits: Limits | None = None) -> str:
        """Run over a source, and return the plan with what each step did."""
        with self._run(limits or Limits(), counts=StepCounts()).entered() as run:
            result = Executor(source, run).result(self._statement)
            self._result(result, run, compute_columns=True)
        assert run.counts is not None, "given above"
        lines = [explain(self._statement.plan, run.counts.note)]
        lines += [f"read {name}: {n:,} samples" for name, n in sorted(_all_read(run).items())]
        lines += run.lookups
        lines.append(f"read in all: {run.meter.nbytes:,} bytes of samples")
        return "\n".join(lines)

    def evaluate(
        self,
        source: ColumnSource,
        output_name: str,
        rows: IntArray,
        limits: Limits | None = None,
    ) -> Batch:
        """Return one output column for some rows of the source.

        Raises:
            QueryNameError: the query has no such output.
            QueryLimitError: a limit was passed.
        """
        output = self._output(output_name)
        with self._run(limits or Limits()).entered() as run:
            executor = Executor(source, run)
            reader = SourceReader(source, run.meter, executor.answer)
            scope = Scope(reader, np.asarray(rows, np.int64), self._written)
            return to_batch(compute([output.expr], scope, run)[0])

    def _result(self, result: ResultSource, run: Run, *, compute_columns: bool) -> QueryResult:
        lineage = result.lineage() if self._statement.selects_rows else None
        passthrough: dict[str, str] = {}
        computed: list[Output] = []
        for output in self._statement.plan.outputs:
            column = None if lineage is None else lineage.column(output.name)
            if column is not None:
                passthrough[output.name] = column
            else:
                computed.append(output)
        columns: dict[str, Batch] = {}
        if compute_columns:
            exprs = [output.expr for output in computed]
            vectors = compute(exprs, result.scope, run)
            columns = {
                output.name: to_batch(vector)
                for output, vector in zip(computed, vectors, strict=True)
            }
        result.scope.forget()  # what its rows were found by is not what they are read for
        return QueryResult(
            rows=None if lineage is None else result.source_rows(),
            columns=columns,
            passthrough=passthrough,
            rows_read=_all_read(run),
            source=None if lineage is None else lineage.source,
            num_rows=result.num_rows,
            computed=tuple(output.name for output in computed),
            nbytes=run.memory.held,
            _result=result,
            _run=run,
        )

    def _plan_result(self, text: str) -> QueryResult:
        lines: list[object] = list(text.split("\n"))
        batch = ObjectBatch(lines)
        return QueryResult(None, {PLAN_COLUMN: batch}, {}, {}, None, len(lines), (PLAN_COLUMN,))

    def _output(self, name: str) -> Output:
        for output in self._statement.plan.outputs:
            if output.name == name and self.selects_rows:
                return output
        raise QueryNameError(
            f"the query has no row-wise output {name!r}",
            text=self._written,
            span=ast.Span(0, len(self._written)),
            hint=joined(nearest(name, self.columns), listed("outputs", self.columns)),
        )

    def _run(self, limits: Limits, counts: StepCounts | None = None) -> Run:
        def too_much(nbytes: int) -> QueryLimitError:
            return QueryLimitError(
                f"the query read {nbytes:,} bytes of samples, more than {limits.max_nbytes:,}",
                text=self._written,
                span=ast.Span(0, len(self._written)),
                hint="allow more, or narrow it with WHERE or LIMIT",
            )

        deadline = limits.deadline(self._written)
        return Run(
            deadline,
            Meter(limits.max_nbytes, too_much),
            self._written,
            counts,
            memory=Account(
                limits.memory_nbytes, deadline.check_batch if deadline.may_end else None
            ),
            advice=limits.advice,
        )


def _all_read(run: Run) -> dict[str, int]:
    read: dict[str, int] = {}
    for reader in run.readers:
        for name, count in reader.rows_read.items():
            read[name] = read.get(name, 0) + count
    return read


def compile_query(
    query: str | ast.Statement | None,
    source_schema: Mapping[str, ColumnType],
    *,
    params: Mapping[str, Any] | None = None,
    tables: Tables | None = None,
    functions: Mapping[str, Function] | None = None,
    seed: int | None = None,
    optimize: bool = True,
    text: str | None = None,
    limits: Limits | None = None,
) -> CompiledQuery:
    """Parse, bind and optimize a query.

    Args:
        query: TQL, or its syntax tree, or None for all rows and columns.
        source_schema: the columns of the source it will run over.
        params: a value for each `$name`: numbers, strings, booleans, None, arrays; a
            `ColumnSource` for a table.
        tables: finds what FROM names beside `this`.
        functions: the user's functions by name (`user_function`).
        seed: what RANDOM() and SAMPLE BY draw from; it is written into the canonical text, so that
            the text gives the same rows again. None draws from 0, and writes nothing.
        optimize: False keeps the plan as written, which gives the same result more slowly.
        text: what the syntax tree's places are in, for errors to point at; None: its own text.
        limits: ends parsing, by its timeout or when cancelled.

    Raises:
        QuerySyntaxError: the text is not TQL.
        QueryNameError: a name, class or parameter does not exist, or a parameter is not used.
        QueryTypeError: parts of it do not fit together.
        QueryLimitError: it is too long, nested too deeply, or a limit was passed.
    """
    called: set[str] = set()

    def environment(written: str) -> Environment:
        deadline = (limits or Limits()).deadline(written)
        opened = WatchedTables(tables, deadline) if tables and deadline.may_end else tables
        return Environment(
            source_schema,
            params or {},
            written,
            opened,
            functions or {},
            seed or 0,
            optimize,
            used_functions=called,
        )

    if text is not None and isinstance(query, ast.Query | ast.SetQuery):
        check_depth(query, text)
        parsed, statement = query, _checked(query, environment(text))
    else:
        parsed, statement = _bound(query, environment, limits or Limits())
        text = query if isinstance(query, str) else print_query(parsed)
    canonical, is_random = _canonical(parsed, seed)
    return CompiledQuery(
        text=canonical,
        columns={PLAN_COLUMN: TEXT} if parsed.explain else statement.columns,
        selects_rows=statement.selects_rows and not parsed.explain,
        warnings=warnings_of(statement.plan),
        is_repeatable=not is_random and not called,
        _statement=statement,
        _written=text,
        _explains=parsed.explain,
        _analyzes=parsed.analyze,
    )


def _canonical(query: ast.Statement, seed: int | None) -> tuple[str, bool]:
    """Return the canonical text, and whether it draws from the seed."""
    text = print_query(query)
    is_random = "RANDOM()" in text or "SAMPLE BY" in text
    if is_random and seed is not None:
        text = print_query(seeded(query, seed))
    return text, is_random


def _bound(
    query: str | ast.Statement | None,
    environment: Callable[[str], Environment],
    limits: Limits,
) -> tuple[ast.Statement, Statement]:
    """Return the syntax tree of a query, and the tree bound.

    A tree that was built without text is bound as it is: no grammar is loaded, and a list of a
    million values is not written out and read back. Only if that fails is it, so that the error has
    a text to point at.
    """
    if isinstance(query, str):
        deadline = limits.deadline(query)
        parsed = parse(query, deadline.check_parsing)
        env = structs.replace(environment(query), check=deadline.check_binding)
        return parsed, _checked(parsed, env)
    tree = query or ast.Query()
    check_depth(tree, "")
    text = print_query(tree)
    if len(text) <= SHORT_TEXT and any(node.span != ast.NOWHERE for node in ast.walk(tree)):
        tree = parse(text)  # its places are those of another text, such as that of `ds.where`
    try:
        return tree, _checked(tree, environment(text))
    except QueryError:
        _checked(parse(text), environment(text))
        raise


def _checked(query: ast.Statement, env: Environment) -> Statement:
    statement = bind_statement(query, env)
    env.check_params_used()
    return statement
