"""Save rows under a name, open them again, and replay the steps that led to them.

A saved view references rows of one version, in an order; when opened, it has the same rows, the
same digest (so loaders can resume) and, if any, the same query. `SavedViews` shows them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.query_limits import QueryLimits
from tensorlake.dataset.core.rowset import RowSet, committed_rows, everything
from tensorlake.dataset.core.steps import (
    ColumnsStep,
    QueryStep,
    Steps,
    steps_from_json,
    steps_to_json,
)
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.query.compiled import compiled_query
from tensorlake.dataset.query.run import NO_LIMITS, engine_errors, run_query
from tensorlake.dataset.query.source import SelectionSource
from tensorlake.errors import (
    InvalidInputError,
    InvalidStateError,
    ReadOnlyError,
    UncommittedChangesError,
    VersionNotFoundError,
)
from tensorlake.format import Root, RowSegments, select_rows
from tensorlake.quantities import plural
from tensorlake.reading import Selection
from tensorlake.storage import runtime
from tensorlake.versions import (
    BranchLog,
    SavedView,
    check_text,
    read_descriptor,
    read_view,
    save_view,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensorlake.dataset.core.session import Session

__all__ = ["open_saved", "replayed", "rerun", "save", "unpinned_tables"]

Int64Array = npt.NDArray[np.int64]


def save(view: RowSet, name: str, message: str) -> RowSet:
    """Save a view's rows under a name; return the saved view."""
    check_text(message, what="the message")
    view.session.check_present()
    view.selection.snapshot.check_alive()
    view = committed_rows(view)
    selection = view.selection
    snapshot = selection.snapshot
    url = view.url
    if snapshot.is_staged:
        raise UncommittedChangesError(
            f"the view {name!r} shows staged changes of {url!r}, which others cannot read\n"
            "commit them, then repeat the query and save it"
        )
    if not view.has_rows:
        raise InvalidInputError(
            f"{name!r} would be of aggregates, which have no rows of {url!r} to save\n"
            "save the rows that they are of, and query that view"
        )
    if view.computed and view.steps is None:
        raise InvalidInputError(
            f"{', '.join(map(repr, view.computed))} of the view {name!r} was computed by a query,"
            " and rows were then chosen by hand; only both by queries can be saved\n"
            "choose rows in the query (WHERE, LIMIT), or leave the column out: view[[…]].save(name)"
        )
    for table in _tables(view) if view.computed else ():
        raise InvalidInputError(
            f"{', '.join(map(repr, view.computed))} of the view {name!r} was computed with"
            f" {table!r}, which names no version, and would change as it does\n"
            f"write FROM \"{table}\" VERSION 'main@1' (the one you mean), or leave the column out",
            name=name,
        )
    if view.session.why_read_only is not None:
        raise ReadOnlyError(
            f"the view {name!r} is of a handle of {url!r} that cannot write:"
            f" {view.session.why_read_only}\nopen it without, and save the view there"
        )
    store = view.session.store
    branch, _, number = snapshot.version.rpartition("@")
    entry = runtime.run(BranchLog(store, branch).existing(int(number)))
    if entry.digest != snapshot.digest:
        raise VersionNotFoundError(
            f"{url!r} has another {snapshot.version} than the view {name!r} is of: the dataset was"
            " deleted and created again\nopen it again: tl.open(url)",
            version=snapshot.version,
        )
    descriptor = runtime.run(read_descriptor(store))
    assert descriptor is not None  # the dataset is open
    saved = save_view(
        store,
        snapshot.packs,
        SavedView(
            name=name,
            branch=branch,
            seq=entry.seq,
            digest=entry.digest,
            rows=Root.of(RowSegments.empty()),
            columns=view.columns,
            selection=selection.digest,
            query=None if view.steps is None else tuple(steps_to_json(view.steps)),
            message=message,
        ),
        _segments(selection),
        entry=entry,
        grace_s=descriptor.grace_s,
    )
    return replace(view, name=saved.name)


def rerun(view: RowSet) -> RowSet:
    """Replay the steps of a view over the newest version of its branch."""
    if view.steps is None:
        raise InvalidStateError(
            f"rows of this view of {view.url!r} {view.version} were chosen by hand, which means"
            " nothing in another version\nonly a view that queries led to can be run again"
        )
    session = versioning.at(view.session, view.session.branch)
    return replayed(everything(session), view.steps)


def replayed(
    view: RowSet, steps: Steps, limits: QueryLimits = NO_LIMITS, *, reaches_out: bool = True
) -> RowSet:
    """Replay steps, one after another, over the rows of a view."""
    here = view
    for step in steps:
        match step:
            case QueryStep(tql=text, params=params):
                here = run_query(here, text, params, limits, reaches_out=reaches_out)
            case ColumnsStep(names=names):
                here = here.with_columns(names)
    return here


def _tables(view: RowSet) -> list[str]:
    """List other datasets that the view's queries read at their newest version."""
    queries = [step.tql for step in view.steps or () if isinstance(step, QueryStep)]
    return [table for text in queries for table in unpinned_tables(text)]


def _segments(selection: Selection) -> RowSegments:
    snapshot = selection.snapshot
    if selection.rows is None:
        return runtime.run(table_of(snapshot.state.rows, snapshot.packs.pages))
    return select_rows(selection.physical(selection.all_positions()))


def open_saved(
    session: Session, name: str, limits: QueryLimits = NO_LIMITS, *, reaches_out: bool = True
) -> RowSet:
    """Open saved rows; the limits apply to computing their columns.

    Raises:
        ViewNotFoundError: There is no view of this name.
    """
    saved = runtime.run(read_view(session.store, name))
    return _opened(session, saved, limits, reaches_out=reaches_out)


def _opened(
    session: Session, saved: SavedView, limits: QueryLimits, *, reaches_out: bool
) -> RowSet:
    there = versioning.at(session, saved.version)
    snapshot = there.committed
    if snapshot.digest != saved.digest:
        raise InvalidStateError(
            f"the view {saved.name!r} of {session.store.url!r} cites {saved.version} with another"
            " digest\nrun tensorlake check",
            view=saved.name,
        )
    columns = tuple(name for name in saved.columns if name in snapshot.schema.stored)
    selection = Selection(snapshot, columns)
    if (selection.digest, selection.num_rows) != (saved.selection, saved.rows.rows):
        segments = runtime.run(table_of(saved.rows, snapshot.packs.pages))
        parts = [segments.expand(entry) for entry in range(len(segments))]
        physical = np.concatenate([*parts, np.empty(0, np.int64)])
        selection = Selection(snapshot, columns, snapshot.rows_of(physical))
    steps = None
    if saved.query is not None:
        steps = steps_from_json(saved.query, where=f"the view {saved.name!r}")
    last = next((s for s in reversed(steps or ()) if isinstance(s, QueryStep)), None)
    whole = everything(there)
    declared = {
        name: column.take(selection.row_numbers(selection.all_positions()))
        for name, column in whole.computed.items()
        if name in saved.columns
    }
    known = {*columns, *declared}
    computed = [name for name in saved.columns if name not in known]
    view = RowSet(
        there,
        selection,
        tql=None if last is None else last.tql,
        explanation=_explanation(saved),
        steps=steps,
        name=saved.name,
        computed=declared,
        order=tuple(saved.columns),
    )
    if computed and steps is not None:
        made = _computed(view, whole, steps, computed, limits, reaches_out=reaches_out)
        view = replace(view, computed={**declared, **made})
    return view


def _computed(
    view: RowSet,
    whole: RowSet,
    steps: Steps,
    names: list[str],
    limits: QueryLimits,
    *,
    reaches_out: bool,
) -> dict[str, Computed]:
    """Compute columns again, on demand, for the saved rows.

    A column that depends on nothing but its row is computed for those rows alone. One that looks
    at other rows (a join, a window, a query over a query) needs what led to it to be done again.
    """
    queries = [step for step in steps if isinstance(step, QueryStep)]
    if len(queries) == 1:
        with engine_errors(view.url):
            source, query = compiled_query(
                whole, queries[0].tql, queries[0].params, reaches_out=reaches_out
            )
        if query.is_rowwise:
            return {
                name: Computed(
                    query.columns[name],
                    read=partial(_evaluated, view, source, query, name, limits),
                    positions=view.rows,
                )
                for name in names
            }
    again = replayed(whole, steps, limits, reaches_out=reaches_out)
    if not np.array_equal(again.rows, view.rows):
        raise InvalidStateError(
            f"what led to the view {view.name!r} of {view.url!r} {view.version} now selects other"
            f" rows, so that {', '.join(map(repr, names))} cannot be computed for its own\n"
            "a function of yours, or a dataset in FROM, is not what it was: run the query again,"
            " and save that",
            view=view.name,
        )
    return {name: again.computed[name] for name in names}


def _evaluated(
    view: RowSet,
    source: SelectionSource,
    query: tql.CompiledQuery,
    name: str,
    limits: QueryLimits,
    rows: Int64Array,
) -> tql.Batch:
    held = tql.Limits(memory_nbytes=limits.most_held_nbytes, advice=limits.advice)
    with engine_errors(view.url):
        return query.evaluate(source, name, rows, held)


def _explanation(saved: SavedView) -> str:
    lines = [
        f"saved view {saved.name!r}: {plural(saved.rows.rows, 'row')} of {saved.version}, kept",
        f"saved by {saved.author}" + (f": {saved.message}" if saved.message else ""),
    ]
    if saved.query is None:
        lines.append("rows were chosen by hand")
    lines += [str(step.get("tql", step.get("columns"))) for step in saved.query or ()]
    return "\n".join(lines)


def unpinned_tables(text: str) -> list[str]:
    """Names of the datasets that a query reads without naming a version of them.

    ``this`` is the version that the query is asked of, and a name of WITH is a query.

    >>> unpinned_tables("SELECT * FROM this AS a JOIN pets AS b USING (x), cars VERSION 'main@1'")
    ['pets']
    """
    found: list[str] = []
    named = {"this"}
    for node in _nodes(tql.parse(text)):
        match node:
            case tql.ast.CommonTable(name):
                named.add(name)
            case tql.ast.Table(tql.ast.Column(name=name), None):
                found.append(name)
            case _:
                pass
    return [name for name in dict.fromkeys(found) if name not in named]


def _nodes(tree: msgspec.Struct) -> Iterator[msgspec.Struct]:
    """Yield every node of a syntax tree, those of queries inside expressions among them."""
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(cast("tuple[Any, ...]", node))
        elif isinstance(node, msgspec.Struct):
            yield node
            stack.extend(getattr(node, name) for name in node.__struct_fields__)
