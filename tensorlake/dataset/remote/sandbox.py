"""Queries that a server runs for a client: confined to the dataset they are sent to.

FROM reads ``this`` at any version, and no URL; functions of this process do not exist. RUN, STEP
and STEPS ask for runs recorded beside the dataset, whose replay is confined likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.core.query_limits import QueryLimits, pieces_checked
from tensorlake.dataset.core.rowset import HasRows, rowset_of, session_of
from tensorlake.dataset.handles.dataset import View
from tensorlake.errors import CorruptionError, InvalidInputError

if TYPE_CHECKING:
    import tensorlake_query as tql
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.dataset.runs.places import Runs
    from tensorlake.dataset.runs.run import Run
    from tensorlake.dataset.runs.timeline import SeenRow, StepRows
    from tensorlake.loader import ListedBatch, Loader

__all__ = [
    "QueryLimits",
    "complete_inside",
    "copy_inside",
    "explain_inside",
    "export_inside",
    "found_inside",
    "insert_inside",
    "note_condition",
    "query_inside",
    "replay_inside",
    "runs_inside",
    "saved_inside",
    "search_inside",
    "seen_inside",
    "serve_loader",
    "step_inside",
]

COPY_KEY = "copy of a view"


def query_inside(
    rows: HasRows, text: str, params: Mapping[str, Any], limits: QueryLimits | None = None
) -> View:
    """Evaluate a query that reaches no other dataset and no function of this process.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
        QueryLimitError: It passed a limit.
    """
    from tensorlake.dataset.query.run import run_query

    return View(
        run_query(rowset_of(rows), text, params, limits or QueryLimits(), reaches_out=False)
    )


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
        dataset: Dataset that is queried, and that stages the rows.
        text: The query, as after ``INSERT INTO this``.
        params: A value for each ``$name``.
        names: Tensor names, one per output; none: the outputs' own names.
        limits: Limits of the query, and of reading its result.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
        QueryLimitError: It passed a limit.
    """
    import tensorlake_query as tql
    from tensorlake.dataset.query.dml import insert_rows
    from tensorlake.dataset.query.run import engine_errors, run_tree

    limits = limits or QueryLimits()
    parsing = tql.Limits(limits.timeout_s, cancelled=limits.cancelled).deadline(text)
    with engine_errors(session_of(dataset).store.url):
        query = tql.parse(text, parsing.check_parsing)
    view = run_tree(rowset_of(dataset), query, params, text, limits, reaches_out=False)
    return insert_rows(session_of(dataset), view, query, names, limits)


def note_condition(dataset: Dataset, condition: str) -> None:
    """Record the columns read by a condition, so that a concurrent change of them is a conflict."""
    import tensorlake_query as tql
    from tensorlake.dataset.query.dml import note_reads
    from tensorlake.dataset.query.run import engine_errors

    with engine_errors(session_of(dataset).store.url):
        note_reads(session_of(dataset), (tql.parse_predicate(condition),))


def replay_inside(
    rows: HasRows, steps: Sequence[Mapping[str, Any]], limits: QueryLimits | None = None
) -> View:
    """Replay the steps to a view from JSON; its queries are confined, too.

    Raises:
        InvalidInputError: A step is invalid.
        QueryError: A query does not fit these rows.
        QueryLimitError: One passed a limit.
    """
    from tensorlake.dataset.core.steps import steps_from_json
    from tensorlake.dataset.query.saved_views import replayed

    try:
        parsed = steps_from_json(steps, where="the request")
    except CorruptionError as error:
        raise InvalidInputError(f"invalid steps: {error}") from error
    return View(replayed(rowset_of(rows), parsed, limits or QueryLimits(), reaches_out=False))


def saved_inside(dataset: Dataset, name: str, limits: QueryLimits) -> View:
    """Open a saved view; the limits are those of computing its columns.

    Its columns reach no other dataset and no function of this process, independent of who saved it.

    Raises:
        ViewNotFoundError: There is none of that name.
    """
    from tensorlake.dataset.query.saved_views import open_saved

    return View(open_saved(session_of(dataset), name, limits, reaches_out=False))


def export_inside(
    rows: HasRows,
    kind: str,
    dst: Path,
    *,
    columns: Sequence[str] | None,
    check: Callable[[], None],
) -> None:
    """Export rows, as ``view.export``, with a check before each piece, which may raise.

    Raises:
        InvalidInputError: The format cannot hold these rows.
        UnsupportedFeatureError: Likewise, of a type.
    """
    with pieces_checked(check):
        View(rowset_of(rows)).export(kind, dst, columns=columns)


def copy_inside(
    view: View,
    url: str,
    *,
    message: str,
    meta: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Make a dataset of a view, as ``view.materialize``; processes that do at once make one.

    Raises:
        InvalidInputError: There is such a dataset, with rows.
    """
    from tensorlake.dataset.transform.materialize import materialize

    materialize(
        rowset_of(view),
        url,
        encode=None,
        message=message,
        storage_options=storage_options,
        key=COPY_KEY,
        meta=meta,
    ).close()


def runs_inside(dataset: Dataset) -> Runs:
    """Return the runs beside a dataset; their replay reaches no other dataset and no function."""
    from tensorlake.dataset.runs.places import runs_of

    return runs_of(rowset_of(dataset), reaches_out=False)


def step_inside(
    dataset: Dataset, run: Run, step: int, rank: int | None = None
) -> tuple[View, StepRows]:
    """Return the rows of a step's batch that a version shows, with the values logged of them.

    Raises:
        InvalidInputError: There is no such step or rank.
        SnapshotExpiredError: The version that the run read has expired.
    """
    from tensorlake.dataset.runs.values import with_step_values

    whole = rowset_of(dataset)
    found = run.history.step_rows(step, rank, whole.selection.snapshot)
    rows = whole.take(found.rows[found.rows >= 0])
    return View(with_step_values(rows, run.history.step_values(step))), found


def seen_inside(dataset: Dataset, run: Run, row: int, *, reads_values: bool) -> SeenRow:
    """Return the steps of a run whose batches had a row of a version, and the values logged of it.

    Args:
        dataset: The version.
        run: The run.
        row: Number of the row.
        reads_values: Whether to read the values that were logged of rows, which may be many.

    Raises:
        SnapshotExpiredError: A version that it read has expired.
    """
    from tensorlake.dataset.core.row_identity import ids_of

    snapshot = rowset_of(dataset).selection.snapshot
    physical = snapshot.physical(np.array([row], np.int64))
    return run.history.seen_row(ids_of(snapshot, physical)[0], reads_values=reads_values)


def search_inside(
    rows: HasRows,
    column: str,
    query: Any,
    k: int,
    *,
    limits: QueryLimits | None = None,
    **arguments: Any,
) -> View:
    """Search rows as ``ds.search`` does; a condition reaches no other dataset and no function.

    Raises:
        InvalidInputError: An argument does not fit.
        QueryLimitError: It passed a limit.
    """
    from tensorlake.dataset.query.search import search

    limits = limits or QueryLimits()
    found = search(rowset_of(rows), column, query, k, limits=limits, reaches_out=False, **arguments)
    return View(found)


def explain_inside(rows: HasRows, text: str, params: Mapping[str, Any]) -> str:
    """Describe how such a query would be evaluated, without evaluating it.

    Raises:
        QueryError: The text is not TQL, or names what does not exist here.
    """
    from tensorlake.dataset.query.compiled import compiled_query
    from tensorlake.dataset.query.run import engine_errors

    here = rowset_of(rows)
    with engine_errors(here.url):
        source, compiled = compiled_query(here, text, params, reaches_out=False)
        return compiled.explain(source)


def found_inside(rows: HasRows, facts: Mapping[str, Any]) -> bytes:
    """Write what a query found, as the SDK of a client reads it."""
    from tensorlake.dataset.query.pushdown import write_found

    found = rowset_of(rows)
    if found.has_rows:
        return write_found(found.rows, facts)
    return write_found({name: one.batch for name, one in found.computed.items()}, facts)


def complete_inside(rows: HasRows, text: str, cursor: int) -> tuple[tql.Completion, ...]:
    """Complete the word before the cursor, the most specific kinds first."""
    import tensorlake_query as tql
    from tensorlake.dataset.query.tables import source_of

    return tql.complete(text, cursor, source_of(rowset_of(rows)).schema)


def serve_loader(
    rows: HasRows,
    arguments: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None,
    turns: int = 1,
    keeps_places: bool = False,
    batches: Sequence[ListedBatch] = (),
) -> Loader:
    """Make the loader whose batches a server sends; see ``tensorlake.loader.frameworks.server``.

    Args:
        rows: Rows of the batches.
        arguments: As for ``ds.loader()``; seed and shuffle come from the state, if any.
        state: Where it begins; the beginning of an epoch when it is None.
        turns: Every how many-th batch is made.
        keeps_places: Whether batches keep their size when samples are skipped.
        batches: The batches, if their rows are listed; without a state then.

    Raises:
        InvalidInputError: An argument or the state is impossible.
        StateMismatchError: The state is of other rows.
    """
    from tensorlake.dataset.transform.loaders import loader_for_client

    return loader_for_client(
        rowset_of(rows),
        arguments,
        state=state,
        turns=turns,
        keeps_places=keeps_places,
        batches=batches,
    )
