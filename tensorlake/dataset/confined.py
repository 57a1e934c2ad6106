"""Queries of somebody else, as a server runs them: they reach nothing but what they are asked of.

FROM reads ``this`` at any version, and no URL; functions of this process do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorlake_query as tql
    from tensorlake.dataset.readable import Readable
    from tensorlake.dataset.view import View

__all__ = ["complete_inside", "explain_inside", "query_inside"]


def query_inside(rows: Readable, text: str, params: Mapping[str, Any]) -> View:
    """Evaluate a query that reaches no other dataset and no function of this process.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
    """
    from tensorlake.dataset.query import run_query

    return run_query(rows, text, params, reaches_out=False)


def explain_inside(rows: Readable, text: str, params: Mapping[str, Any]) -> str:
    """Say how such a query would be evaluated, without evaluating it.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
    """
    from tensorlake.dataset.query import compiled_query, engine_errors

    with engine_errors(rows):
        return compiled_query(rows.frozen(), text, params, reaches_out=False)[1].explain()


def complete_inside(rows: Readable, text: str, cursor: int) -> tuple[tql.Completion, ...]:
    """Say what the word before the cursor could become, the most specific kinds first."""
    import tensorlake_query as tql
    from tensorlake.dataset.query import source_of

    return tql.complete(text, cursor, source_of(rows.frozen()).schema)
