"""Queries and predicates over a dataset or view; the only module that calls the query engine.

Errors of the engine belong to both trees: ``tl.QueryNameError`` is raised as a class that is
also ``tensorlake_query.QueryNameError``. Columns computed for selected rows are not evaluated
here: the view evaluates them for the rows that are read.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake import errors
from tensorlake.dataset.core.computed import Computed, take_all
from tensorlake.dataset.core.query_limits import QueryLimits
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.core.steps import QueryStep
from tensorlake.dataset.query.compiled import compiled_query
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.query.pushdown import ask_server
from tensorlake.dataset.query.source import SelectionSource
from tensorlake.dataset.query.tables import source_of
from tensorlake.errors import InvalidInputError, QueryWarning, shown
from tensorlake.quantities import plural
from tensorlake.reading import Selection
from tensorlake.storage import Tally, counted, span

__all__ = [
    "NO_LIMITS",
    "QueryLimitError",
    "QueryLimits",
    "engine_errors",
    "matching_positions",
    "positions_where",
    "run_query",
    "run_tree",
    "run_where",
]

Int64Array = npt.NDArray[np.int64]


NO_LIMITS = QueryLimits()
NARROWS = "STEP"
"""In queries with a function that tells rows: others are not parsed for it."""


def run_query(
    rows: RowSet,
    text: str,
    params: Mapping[str, Any],
    limits: QueryLimits = NO_LIMITS,
    *,
    reaches_out: bool = True,
) -> RowSet:
    """Evaluate a TQL query over the current version of ``rows``.

    Args:
        rows: A dataset or view.
        text: The query.
        params: A value for each ``$name``.
        limits: Limits of the query.
        reaches_out: Whether FROM may open other datasets, and user functions may be called.
    """
    if not isinstance(text, str):
        message = f"query() takes TQL text, got {type(text).__name__} {shown(text)}"
        raise InvalidInputError(message, actual=type(text).__name__)
    return _run(rows, text, params, limits, reaches_out=reaches_out)


def run_where(rows: RowSet, condition: str | Predicate, params: Mapping[str, Any]) -> RowSet:
    """Evaluate a condition over the current version of ``rows``."""
    if isinstance(condition, Predicate):
        if not condition.is_writable:  # nor could the step be run again
            return rows.take(matching_positions(rows, condition))
        return run_tree(rows, tql.ast.Query(where=condition.expr), params)
    if not isinstance(condition, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give functions and masks
        raise InvalidInputError(
            f"where() takes TQL text or a Predicate, got {shown(condition)}"
            "\nwhere('x > 1'), where(ds['x'] > 1); a function of a row is for filter()",
            argument="condition",
            actual=condition,
        )
    with engine_errors(rows.url):
        expr = tql.parse_predicate(condition)
    query = tql.ast.Query(where=expr)
    return _run(rows, query, params, NO_LIMITS, reaches_out=True, condition=condition)


def run_tree(
    rows: RowSet,
    query: tql.ast.Statement,
    params: Mapping[str, Any],
    text: str | None = None,
    limits: QueryLimits = NO_LIMITS,
    *,
    reaches_out: bool = True,
) -> RowSet:
    """Evaluate a syntax tree over the current version of ``rows``.

    Args:
        rows: A dataset or view.
        query: The query.
        params: A value for each ``$name``.
        text: Source text, for positions in errors.
        limits: Limits of the query.
        reaches_out: As for `run_query`.
    """
    return _run(rows, query, params, limits, reaches_out=reaches_out, text=text)


def positions_where(
    rows: RowSet,
    condition: str | Predicate,
    params: Mapping[str, Any],
    limits: QueryLimits = NO_LIMITS,
    *,
    reaches_out: bool = True,
) -> Int64Array:
    """Return the positions of the rows that meet a condition: TQL text, or a Predicate."""
    if isinstance(condition, Predicate):
        return matching_positions(rows, condition)
    if not isinstance(condition, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give functions and masks
        raise InvalidInputError(
            f"where= takes TQL text or a Predicate, got {shown(condition)}"
            "\nwhere='x > 1', where=ds['x'] > 1",
            argument="where",
            actual=condition,
        )
    with span("query") as traced, engine_errors(rows.url):
        traced.note(url=rows.url)
        query = tql.ast.Query(where=tql.parse_predicate(condition))
        source, compiled = compiled_query(
            rows, query, params, reaches_out=reaches_out, condition=condition
        )
        for message in compiled.warnings:
            warnings.warn(message, QueryWarning, stacklevel=5)
        found = compiled.run(
            source,
            timeout_s=limits.timeout_s,
            max_nbytes=limits.max_nbytes,
            cancelled=limits.cancelled,
            memory_nbytes=limits.most_held_nbytes,
            advice=limits.advice,
        ).rows
    assert found is not None, "a condition selects rows"
    return found


def matching_positions(rows: RowSet, predicate: Predicate) -> Int64Array:
    """Return the positions of the rows that meet a predicate, in order."""
    with engine_errors(rows.url):
        source = source_of(rows)
        query = tql.compile_query(tql.ast.Query(where=predicate.expr), source.schema, params={})
        found = query.run(
            source, memory_nbytes=NO_LIMITS.most_held_nbytes, advice=NO_LIMITS.advice
        ).rows
    assert found is not None  # a query without aggregates selects rows
    return found


def _run(
    view: RowSet,
    query: str | tql.ast.Statement,
    params: Mapping[str, Any],
    limits: QueryLimits,
    *,
    reaches_out: bool,
    text: str | None = None,
    condition: str | None = None,
) -> RowSet:
    started_s = time.monotonic()
    parsing = tql.Limits(limits.timeout_s, cancelled=limits.cancelled, started_s=started_s)
    with span("query") as traced, engine_errors(view.url):
        traced.note(url=view.url)
        rows, asked = _narrowed(view, query, params, parsing, reaches_out=reaches_out)
        source, compiled = compiled_query(
            rows,
            asked,
            params,
            reaches_out=reaches_out,
            text=query if isinstance(query, str) and asked is not query else text,
            limits=parsing,
            condition=condition,
        )
        for message in compiled.warnings:
            warnings.warn(message, QueryWarning, stacklevel=5)
        found = ask_server(view, compiled, query, params)
        explanation = _Explanation(compiled, source if found is None else None)
        made = _Made(view, compiled, params, explanation, is_built=not isinstance(query, str))
        if isinstance(found, dict):
            return made.of_found_values(found)
        if found is not None:
            return _over_rows(view, query, params, found, made, limits)
        with counted() as tally:
            result = compiled.run(
                source,
                timeout_s=limits.timeout_s,
                max_nbytes=limits.max_nbytes,
                cancelled=limits.cancelled,
                compute_columns=False,
                spent=lambda: _spent(tally),
                memory_nbytes=limits.most_held_nbytes,
                advice=limits.advice,
                started_s=started_s,
            )
        traced.note(nbytes=tally.nbytes, requests=tally.requests)
        if result.rows is None or not isinstance(result.source, SelectionSource):
            return made.of_values(result)
        return made.of_rows(result, result.source, result.rows, is_whole=rows is not view)


def _narrowed(
    view: RowSet,
    query: str | tql.ast.Statement,
    params: Mapping[str, Any],
    limits: tql.Limits,
    *,
    reaches_out: bool,
) -> tuple[RowSet, str | tql.ast.Statement]:
    """Return the rows that a query has to look at, and the query, parsed if these are fewer."""
    if isinstance(query, str) and NARROWS not in query.upper():
        return view, query
    if isinstance(query, str):
        parsed = tql.parse(query, limits.deadline(query).check_parsing)
    else:
        parsed = query
    if not isinstance(parsed, tql.ast.Query) or parsed.where is None:
        return view, query
    if parsed.source or parsed.tables or parsed.expand or parsed.explain or not view.has_rows:
        return view, query
    rows = view.session.narrowed(view, parsed, params, reaches_out=reaches_out)
    return rows, query if rows is view else parsed


def _over_rows(
    view: RowSet,
    query: str | tql.ast.Statement,
    params: Mapping[str, Any],
    rows: Int64Array,
    made: _Made,
    limits: QueryLimits,
) -> RowSet:
    """Return the view of a query whose rows a server has found."""
    parsed = tql.parse(query) if isinstance(query, str) else query
    assert isinstance(parsed, tql.ast.Query), "others run here"
    selection = view.selection
    chosen = Selection(selection.snapshot, selection.columns, rows)
    there = RowSet(view.session, chosen, computed=take_all(view.computed, rows))
    outputs = tql.ast.Query(select=parsed.select)
    used = {node.name for node in tql.ast.walk(outputs) if isinstance(node, tql.ast.Parameter)}
    given = {name: value for name, value in params.items() if name in used}
    source, compiled = compiled_query(there, outputs, given, reaches_out=True)
    result = compiled.run(
        source,
        compute_columns=False,
        memory_nbytes=limits.most_held_nbytes,
        advice=limits.advice,
    )
    return made.of_rows(result, source, np.arange(len(rows)), is_whole=True)


class _Explanation:
    """The plan of a query and its reads, determined when it is shown, since that reads as well.

    Reads of a server are not known here, and another process receives only the plan.
    """

    def __init__(self, query: tql.CompiledQuery, source: SelectionSource | None) -> None:
        self._query = query
        self._source = source

    def __str__(self) -> str:
        return self._query.explain(self._source)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self._query.explain(),)


class _Made:
    """Converts a result to a view of rows, or of values alone."""

    def __init__(
        self,
        view: RowSet,
        query: tql.CompiledQuery,
        params: Mapping[str, Any],
        explanation: _Explanation,
        *,
        is_built: bool,
    ) -> None:
        self._view = view
        self._query = query
        step = QueryStep(query.text, dict(params))
        self._steps = None if view.steps is None else (*view.steps, step)
        self._text = _over(view.tql, query.text) if is_built and view.tql else query.text
        self._explanation = explanation

    def of_values(self, result: tql.QueryResult) -> RowSet:
        """Make a view without rows of a dataset: groups, values, a plan."""
        self._check_decoded(self._query.columns)
        everything = np.arange(result.num_rows)
        read, held = partial(self._read, result), result.nbytes
        return self._without_rows(
            {
                name: Computed(kind, result.columns[name])
                if name in result.columns  # a plan
                else Computed(kind, read=partial(read, name), positions=everything, held=held)
                for name, kind in self._query.columns.items()
            }
        )

    def of_found_values(self, found: Mapping[str, tql.Batch]) -> RowSet:
        """Return a view of values computed elsewhere."""
        return self._without_rows(
            {name: Computed(kind, found[name]) for name, kind in self._query.columns.items()}
        )

    def _without_rows(self, computed: Mapping[str, Computed]) -> RowSet:
        selection = self._view.selection
        return RowSet(
            self._view.session,
            selection.with_rows(np.empty(0, dtype=np.int64)).with_columns(()),
            computed=computed,
            tql=self._text,
            explanation=self._explanation,
            has_rows=False,
            steps=self._steps,
        )

    def of_rows(
        self,
        result: tql.QueryResult,
        source: SelectionSource,
        rows: Int64Array,
        *,
        is_whole: bool = False,
    ) -> RowSet:
        """Make a view of the rows of the dataset in the result.

        Args:
            result: Result of the query.
            source: Source of the query.
            rows: Rows of the source.
            is_whole: Whether the source is the narrowed rows of the view.
        """
        base = source.view
        assert base is not None, "every source of a query here is a view"
        if not base.has_rows:
            return self.of_values(result)
        selection = base.selection
        stored = [
            name
            for name, column in result.passthrough.items()
            if name == column and name in selection.columns
        ]
        self._check_decoded(set(self._query.columns).difference(stored))
        read = partial(self._read, result)
        is_computed = any(name not in stored for name in self._query.columns)
        positions = np.arange(result.num_rows if is_computed else 0)
        computed: dict[str, Computed] = {}
        for name in self._query.columns:
            if name in stored:
                continue
            inherited = result.passthrough.get(name)
            if inherited is not None and inherited in base.computed:
                computed[name] = base.computed[inherited].take(rows)
            else:
                computed[name] = Computed(
                    self._query.columns[name],
                    read=partial(read, name),
                    positions=positions,
                    held=result.nbytes,
                    renamed=inherited if inherited in selection.columns else "",
                )
        is_same = is_whole or base is self._view
        return RowSet(
            base.session,
            selection.with_rows(rows).with_columns(tuple(stored)),
            computed=computed,
            tql=self._text,
            explanation=self._explanation,
            steps=self._steps if is_same else None,
            order=tuple(self._query.columns),
        )

    def _check_decoded(self, names: Iterable[str]) -> None:
        """Refuse media that are read as handles where they are not stored columns of the view.

        Raises:
            QueryTypeError: The result has some, of the other side of a join for example.
        """
        for name in names:
            handle = self._query.columns[name].handle
            if handle is not None:
                raise tql.QueryTypeError(
                    f"{name!r} is {handle}, which a query only returns as a stored column of the"
                    " rows that it selects",
                    text=self._query.text,
                    span=tql.ast.Span(0, len(self._query.text)),
                    hint=f"select other columns, such as SHAPE({tql.print_name(name)}), or"
                    f" _row_id, and read {name!r} in its own dataset",
                )

    def _read(self, result: tql.QueryResult, name: str, positions: Int64Array) -> tql.Batch:
        with engine_errors(self._view.url):
            return result.read(name, positions)


def _spent(tally: Tally) -> str:
    requests = plural(tally.requests, "request")
    return f"read from the store: {plural(tally.nbytes, 'byte')} in {requests}"


def _over(inner: str, outer: str) -> str:
    """Combine two steps in one text."""
    query, beneath = tql.parse(outer), tql.parse(inner)
    if not isinstance(query, tql.ast.Query) or query.source is not None or beneath.explain:
        return outer
    table = tql.ast.Table(tql.ast.Subquery(beneath))
    return tql.print_query(tql.ast.with_fields(query, source=table))


@errors.shown_as(errors.QuerySyntaxError)
class QuerySyntaxError(errors.QuerySyntaxError, tql.QuerySyntaxError):
    """Under both trees."""


@errors.shown_as(errors.QueryTypeError)
class QueryTypeError(errors.QueryTypeError, tql.QueryTypeError):
    """Under both trees."""


@errors.shown_as(errors.QueryNameError)
class QueryNameError(errors.QueryNameError, tql.QueryNameError):
    """Under both trees."""


@errors.shown_as(errors.QueryLimitError)
class QueryLimitError(errors.QueryLimitError, tql.QueryLimitError):
    """Under both trees."""


@errors.shown_as(errors.QueryUnsupportedError)
class QueryUnsupportedError(errors.QueryUnsupportedError, tql.QueryUnsupportedError):
    """Under both trees."""


BOTH_TREES: Mapping[type[tql.QueryError], type[errors.QueryError]] = {
    tql.QuerySyntaxError: QuerySyntaxError,
    tql.QueryTypeError: QueryTypeError,
    tql.QueryNameError: QueryNameError,
    tql.QueryLimitError: QueryLimitError,
    tql.QueryUnsupportedError: QueryUnsupportedError,
}


@contextmanager
def engine_errors(url: str) -> Generator[None]:
    """Raise the engine's errors as tensorlake's, with the same words and places."""
    try:
        yield
    except RecursionError:
        raise QueryLimitError(
            "the query is built from too many queries, one inside or on top of another, for the"
            " stack of Python\nsave or materialize a step: view.save(name), view.materialize(url)",
            dataset=url,
        ) from None  # not a thousand frames
    except tql.QueryError as error:
        kind = BOTH_TREES.get(type(error), errors.QueryError)
        raise kind(
            str(error),
            dataset=url,
            text=error.text,
            span=error.span,
            line=error.line,
            column=error.column,
            hint=error.hint,
        ) from error.__cause__  # not the engine's own: it says the same, under forty lines more
