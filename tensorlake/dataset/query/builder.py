"""``.select``, ``.order_by``, ``.unnest``, ``.filter``: queries written as method calls.

They build the same syntax tree as TQL text and are evaluated by the same plans; ``view.tql`` shows
the query. Only ``filter`` runs Python for each row, and warns that it does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.query.run import engine_errors, run_tree, run_where
from tensorlake.errors import InvalidInputError, SlowFilterWarning, shown

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["filter_rows", "order_by", "select", "unnest"]


def select(
    rows: RowSet, given: tuple[str | Sequence[str], ...], expressions: Mapping[str, str]
) -> RowSet:
    """Select the named columns, and add computed ones."""
    names = _texts("select", given, "select('image', area='SIZE(image)')")
    for name, text in expressions.items():
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give values
            raise InvalidInputError(
                f"select({name}=…) takes a TQL expression as a string, got {shown(text)}"
                f"\nwrite select({name}='x + 1')",
                argument=name,
                actual=text,
            )
    if not names and not expressions:
        raise InvalidInputError(
            "select() names no column\nselect('image', area='SIZE(image)'), or '*' for all of them"
        )
    with engine_errors(rows.url):
        outputs = [
            tql.ast.Output(tql.ast.Star() if name == "*" else tql.ast.Column(name))
            for name in names
        ]
        outputs += [
            tql.ast.Output(tql.parse_predicate(text), alias) for alias, text in expressions.items()
        ]
    return run_tree(rows, tql.ast.Query(select=tuple(outputs)), {})


def order_by(
    rows: RowSet, given: tuple[str | Sequence[str], ...], params: Mapping[str, Any]
) -> RowSet:
    """Sort rows."""
    keys = _texts("order_by", given, "order_by('score DESC', 'label')")
    if not keys:
        raise InvalidInputError("order_by() names no key\norder_by('score DESC', 'label')")
    with engine_errors(rows.url):
        parsed = tql.parse(f"ORDER BY {', '.join(keys)}")
    is_only_order = isinstance(parsed, tql.ast.Query) and parsed == tql.ast.Query(
        order_by=parsed.order_by
    )
    if not is_only_order or not isinstance(parsed, tql.ast.Query):
        raise InvalidInputError(
            f"order_by{shown(keys)} contains more than keys\nuse query() for other clauses"
        )
    return run_tree(rows, parsed, params)


def unnest(rows: RowSet, given: tuple[str | Sequence[str], ...]) -> RowSet:
    """Make a row of each item of some columns."""
    example = "unnest('boxes', 'label')"
    names = _texts("unnest", given, example)
    if not names:
        raise InvalidInputError(f"unnest() names no column\n{example}")
    columns = tuple(tql.ast.Column(name) for name in names)
    return run_tree(rows, tql.ast.Query(ungroup_by=columns), {})


def _texts(call: str, given: tuple[str | Sequence[str], ...], example: str) -> tuple[str, ...]:
    """Return names or keys, passed one by one or in one list."""
    listed: tuple[Any, ...] = given
    if len(given) == 1 and isinstance(given[0], list | tuple):
        listed = tuple(given[0])
    wrong = next((one for one in listed if not isinstance(one, str)), None)
    if wrong is not None or not all(isinstance(one, str) for one in listed):
        raise InvalidInputError(
            f"{call}() takes strings, one by one or as one list, got {shown(wrong)}\n{example}",
            argument=call,
            actual=wrong,
        )
    return listed


def filter_rows(
    rows: RowSet,
    condition: Callable[[Any], Any] | Predicate | str,
    row_at: Callable[[int], Any],
) -> RowSet:
    """Select rows by a Python function of ``row_at(position)``, or by a condition."""
    if isinstance(condition, str | Predicate):
        warnings.warn(
            "filter(condition) is deprecated, since filter() takes a function of a row\n"
            "write where(condition)",
            DeprecationWarning,
            stacklevel=3,
        )
        return run_where(rows, condition, {})
    if not callable(condition):
        raise InvalidInputError(
            f"filter() takes a function of a row, got {shown(condition)}"
            "\nselect rows by a condition with where('x > 1')",
            actual=condition,
        )
    warnings.warn(
        "filter() calls Python for every row; where() takes a condition, query() any TQL",
        SlowFilterWarning,
        stacklevel=3,
    )
    kept = [position for position in range(len(rows)) if condition(row_at(position))]
    return rows.take(np.array(kept, np.int64))
