"""Queries and predicates over a dataset or view; the only door to the query engine.

Errors of the engine come out under both trees: ``tl.QueryNameError`` is raised as a class that is
also ``tensorlake_query.QueryNameError``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake import errors
from tensorlake.dataset.column_source import SelectionSource
from tensorlake.dataset.computed import Computed, take_all
from tensorlake.dataset.predicate import Predicate
from tensorlake.dataset.steps import QueryStep
from tensorlake.dataset.view import View
from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.dataset.readable import Readable

__all__ = ["explain_query", "matching_positions", "run_query", "run_where"]

Int64Array = npt.NDArray[np.int64]


def run_query(rows: Readable, text: str, params: Mapping[str, Any]) -> View:
    """Evaluate a TQL query over what ``rows`` shows now."""
    if not isinstance(text, str):
        message = f"query() takes TQL text, got {type(text).__name__} {text!r:.60}"
        raise InvalidInputError(message, actual=type(text).__name__)
    rows = rows.frozen()
    with engine_errors(rows):
        source = _source(rows)
        query = tql.compile_query(text, source.schema, params=params)
        return _view(rows, source, query, params)


def run_where(rows: Readable, condition: str | Predicate, params: Mapping[str, Any]) -> View:
    """Evaluate a condition over what ``rows`` shows now."""
    rows = rows.frozen()
    with engine_errors(rows):
        expr = (
            condition.expr if isinstance(condition, Predicate) else tql.parse_predicate(condition)
        )
        source = _source(rows)
        query = tql.compile_query(tql.ast.Query(where=expr), source.schema, params=params)
        return _view(rows, source, query, params)


def matching_positions(rows: Readable, predicate: Predicate) -> Int64Array:
    """Positions of the rows that meet a predicate, in order."""
    with engine_errors(rows):
        source = _source(rows)
        query = tql.compile_query(tql.ast.Query(where=predicate.expr), source.schema, params={})
        found = query.run(source).rows
    assert found is not None  # a query without aggregates selects rows
    return found


def explain_query(rows: Readable, text: str, params: Mapping[str, Any]) -> str:
    """Say how a query would be evaluated."""
    with engine_errors(rows):
        return tql.compile_query(text, _source(rows).schema, params=params).explain()


def _source(rows: Readable) -> SelectionSource:
    selection = rows.selection()
    return SelectionSource(selection, rows.session.reader(selection.snapshot))


def _view(
    rows: View, source: SelectionSource, query: tql.CompiledQuery, params: Mapping[str, Any]
) -> View:
    result = query.run(source)
    selection = rows.selection()
    steps = None if rows.steps is None else (*rows.steps, QueryStep(query.text, dict(params)))
    computed = {
        name: Computed(query.columns[name], batch) for name, batch in result.columns.items()
    }
    if result.rows is None:
        return View(
            rows.session,
            selection.with_rows(np.empty(0, dtype=np.int64)).with_columns(()),
            computed=computed,
            tql=query.text,
            explanation=query.explain(),
            has_rows=False,
            steps=steps,
        )
    renamed = {new: old for new, old in result.passthrough.items() if new != old}
    if renamed:
        raise errors.UnsupportedFeatureError(
            f"a stored column cannot be renamed by a query yet: {renamed!r}\n"
            "select it under its own name, or compute something from it"
        )
    kept = selection.with_rows(result.rows).with_columns(tuple(result.passthrough))
    inherited = {
        name: column for name, column in rows.computed.items() if name in result.passthrough
    }
    return View(
        rows.session,
        kept,
        computed={**take_all(inherited, result.rows), **computed},
        tql=query.text,
        explanation=query.explain(),
        steps=steps,
    )


class _SyntaxError(errors.QuerySyntaxError, tql.QuerySyntaxError):
    """Under both trees."""


class _TypeError(errors.QueryTypeError, tql.QueryTypeError):
    """Under both trees."""


class _NameError(errors.QueryNameError, tql.QueryNameError):
    """Under both trees."""


class _LimitError(errors.QueryLimitError, tql.QueryLimitError):
    """Under both trees."""


BOTH_TREES: Mapping[type[tql.QueryError], type[errors.QueryError]] = {
    tql.QuerySyntaxError: _SyntaxError,
    tql.QueryTypeError: _TypeError,
    tql.QueryNameError: _NameError,
    tql.QueryLimitError: _LimitError,
}


@contextmanager
def engine_errors(rows: Readable) -> Generator[None]:
    """Raise the engine's errors as tensorlake's, with the same words and places."""
    try:
        yield
    except tql.QueryError as error:
        kind = BOTH_TREES.get(type(error), errors.QueryError)
        raise kind(
            str(error),
            dataset=rows.url,
            text=error.text,
            span=error.span,
            line=error.line,
            column=error.column,
            hint=error.hint,
        ) from error
