"""``.select``, ``.order_by``, ``.filter``: queries written as method calls.

They build the same syntax tree as TQL text and are evaluated by the same plans; ``view.tql`` shows
what they say. Only ``filter`` runs Python for each row, and warns that it does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset.predicate import Predicate
from tensorlake.dataset.query import engine_errors, run_tree, run_where
from tensorlake.dataset.query_warnings import SlowFilterWarning
from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.dataset.readable import Readable
    from tensorlake.dataset.row import Row
    from tensorlake.dataset.view import View

__all__ = ["filter_rows", "order_by", "select"]


def select(rows: Readable, names: tuple[str, ...], expressions: Mapping[str, str]) -> View:
    """Keep the columns named, and add computed ones."""
    if not names and not expressions:
        raise InvalidInputError(
            "select() names no column\nselect('image', area='SIZE(image)'), or '*' for all of them"
        )
    with engine_errors(rows):
        outputs = [
            tql.ast.Output(tql.ast.Star() if name == "*" else tql.ast.Column(name))
            for name in names
        ]
        outputs += [
            tql.ast.Output(tql.parse_predicate(text), alias) for alias, text in expressions.items()
        ]
    return run_tree(rows, tql.ast.Query(select=tuple(outputs)), {})


def order_by(rows: Readable, keys: tuple[str, ...], params: Mapping[str, Any]) -> View:
    """Put rows in order."""
    if not keys:
        raise InvalidInputError("order_by() names no key\norder_by('score DESC', 'label')")
    with engine_errors(rows):
        parsed = tql.parse(f"ORDER BY {', '.join(keys)}")
    is_only_order = isinstance(parsed, tql.ast.Query) and parsed == tql.ast.Query(
        order_by=parsed.order_by
    )
    if not is_only_order or not isinstance(parsed, tql.ast.Query):
        raise InvalidInputError(f"order_by{keys!r} says more than keys\nuse query() for the rest")
    return run_tree(rows, parsed, params)


def filter_rows(rows: Readable, condition: Callable[[Row], Any] | Predicate | str) -> View:
    """Keep the rows for which a Python function, or a condition, holds."""
    if isinstance(condition, str | Predicate):
        return run_where(rows, condition, {})
    if not callable(condition):
        what = type(condition).__name__
        raise InvalidInputError(f"filter() takes a function of a row, got {what} {condition!r:.60}")
    warnings.warn(
        "filter() calls Python for every row; where() takes a condition, query() any TQL",
        SlowFilterWarning,
        stacklevel=3,
    )
    view = rows.frozen()
    kept = [position for position, row in enumerate(view) if condition(row)]
    return view[np.array(kept, np.int64)]
