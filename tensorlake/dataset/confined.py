"""What a server does for somebody else: it reaches nothing but what it is asked of.

FROM reads ``this`` at any version, and no URL; functions of this process do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.limits import QueryLimits
from tensorlake.errors import CorruptionError, InvalidInputError

if TYPE_CHECKING:
    import tensorlake_query as tql
    from tensorlake.dataset.dataset import Dataset
    from tensorlake.dataset.readable import Readable
    from tensorlake.dataset.view import View
    from tensorlake.loader import Loader

__all__ = [
    "QueryLimits",
    "complete_inside",
    "explain_inside",
    "found_inside",
    "insert_inside",
    "note_condition",
    "query_inside",
    "replay_inside",
    "saved_inside",
    "serve_loader",
]


def query_inside(
    rows: Readable, text: str, params: Mapping[str, Any], limits: QueryLimits | None = None
) -> View:
    """Evaluate a query that reaches no other dataset and no function of this process.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
        QueryLimitError: It passed a limit.
    """
    from tensorlake.dataset.query import run_query

    return run_query(rows, text, params, limits or QueryLimits(), reaches_out=False)


def insert_inside(
    dataset: Dataset,
    text: str,
    params: Mapping[str, Any],
    *,
    names: Sequence[str] = (),
    limits: QueryLimits | None = None,
) -> int:
    """Stage what such a query finds as new rows of the dataset; return how many.

    Args:
        dataset: What is asked, and where the rows go.
        text: The query, as it stands behind ``INSERT INTO this``.
        params: A value for each ``$name``.
        names: Of tensors, one for each output; none: the outputs' own.
        limits: Of the query, and of reading what it found.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
        QueryLimitError: It passed a limit.
    """
    import tensorlake_query as tql
    from tensorlake.dataset.executing import insert_rows
    from tensorlake.dataset.query import engine_errors, run_tree

    limits = limits or QueryLimits()
    parsing = tql.Limits(limits.timeout_s, cancelled=limits.cancelled).deadline(text)
    with engine_errors(dataset):
        query = tql.parse(text, parsing.check_parsing)
    view = run_tree(dataset, query, params, text, limits, reaches_out=False)
    return insert_rows(dataset, view, query, names, limits)


def note_condition(dataset: Dataset, condition: str) -> None:
    """Let it be a conflict when somebody else changes what a condition read: it chose the rows."""
    import tensorlake_query as tql
    from tensorlake.dataset.executing import note_reads
    from tensorlake.dataset.query import engine_errors

    with engine_errors(dataset):
        note_reads(dataset, (tql.parse_predicate(condition),))


def replay_inside(
    rows: Readable, steps: Sequence[Mapping[str, Any]], limits: QueryLimits | None = None
) -> View:
    """Do again what led to a view, as JSON says it; its queries reach nothing else either.

    Raises:
        InvalidInputError: The steps are none.
        QueryError: A query does not fit these rows.
        QueryLimitError: One passed a limit.
    """
    from tensorlake.dataset.saved_views import replayed
    from tensorlake.dataset.steps import steps_from_json

    try:
        parsed = steps_from_json(steps, where="what was asked")
    except CorruptionError as error:
        raise InvalidInputError(f"the steps are none: {error}") from error
    return replayed(rows.frozen(), parsed, limits or QueryLimits(), reaches_out=False)


def saved_inside(dataset: Dataset, name: str, limits: QueryLimits) -> View:
    """Open a saved view; the limits are those of computing its columns.

    Its columns reach no other dataset and no function of this process, whoever saved it.

    Raises:
        ViewNotFoundError: There is none of that name.
    """
    from tensorlake.dataset.saved_views import SavedViews

    return SavedViews(dataset.session, limits, reaches_out=False)[name]


def explain_inside(rows: Readable, text: str, params: Mapping[str, Any]) -> str:
    """Say how such a query would be evaluated, without evaluating it.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
    """
    from tensorlake.dataset.query import compiled_query, engine_errors

    with engine_errors(rows):
        source, compiled = compiled_query(rows.frozen(), text, params, reaches_out=False)
        return compiled.explain(source)


def found_inside(view: View, said: Mapping[str, Any]) -> bytes:
    """Write what a query found, as the SDK of a client reads it."""
    from tensorlake.dataset.pushdown import write_found

    if view.has_rows:
        return write_found(view.rows, said)
    return write_found({name: one.batch for name, one in view.computed.items()}, said)


def complete_inside(rows: Readable, text: str, cursor: int) -> tuple[tql.Completion, ...]:
    """Say what the word before the cursor could become, the most specific kinds first."""
    import tensorlake_query as tql
    from tensorlake.dataset.query import source_of

    return tql.complete(text, cursor, source_of(rows.frozen()).schema)


def serve_loader(
    rows: Readable,
    arguments: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None,
    turns: int = 1,
    keeps_places: bool = False,
) -> Loader:
    """Make the loader whose batches a server sends; see ``tensorlake.loader.frameworks.server``.

    Args:
        rows: Of which batches are made.
        arguments: As for ``ds.loader()``; seed and shuffle are the state's, where there is one.
        state: Where it begins; the beginning of an epoch when it is None.
        turns: Every how many-th batch is made.
        keeps_places: Whether batches keep their size when samples are skipped.

    Raises:
        InvalidInputError: An argument or the state is impossible.
        StateMismatchError: The state is of other rows.
    """
    from tensorlake.dataset.streaming import loader_for_client

    return loader_for_client(rows, arguments, state=state, turns=turns, keeps_places=keeps_places)
