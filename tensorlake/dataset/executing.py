"""``ds.execute``: UPDATE, DELETE and INSERT, staged like every other change.

What their conditions and expressions read is noted: a commit by somebody else that changed it
meanwhile is a conflict, for then the same statement might have changed other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset.computed import Computed
from tensorlake.dataset.query import engine_errors, run_tree
from tensorlake.dataset.stored import StoredColumn
from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.dataset.dataset import Dataset
    from tensorlake.dataset.view import View

__all__ = ["execute"]

BATCH_ROWS = 1024
"""Rows inserted together."""


def execute(dataset: Dataset, text: str, params: Mapping[str, Any]) -> int:
    """Stage a change; return how many rows it changes."""
    with engine_errors(dataset):
        change = tql.parse_change(text)
    if change.table != "this":
        raise InvalidInputError(
            f"a statement changes 'this', not {change.table!r}\nopen the other dataset, and"
            " execute it there"
        )
    with dataset.session.lock:
        match change:
            case tql.ast.Update():
                return _update(dataset, change, params)
            case tql.ast.Delete(where=where):
                view = run_tree(dataset, tql.ast.Query(where=where), params)
                count = dataset.delete(view) if len(view) else 0
                _note_reads(dataset, () if where is None else (where,))
                return count
            case tql.ast.Insert():
                return _insert(dataset, change, params)


def _update(dataset: Dataset, change: tql.ast.Update, params: Mapping[str, Any]) -> int:
    for assignment in change.assignments:
        if assignment.name not in dataset.schema:
            known = ", ".join(dataset.schema)
            raise InvalidInputError(
                f"UPDATE sets {assignment.name!r}, which is no tensor\ntensors: {known}"
            )
    outputs = tuple(
        tql.ast.Output(assignment.value, f"value {number}")
        for number, assignment in enumerate(change.assignments)
    )
    view = run_tree(dataset, tql.ast.Query(outputs, where=change.where), params)
    if not len(view):
        return 0
    rows = dataset.frozen()[view.rows]
    values = [_values(view, f"value {number}") for number in range(len(outputs))]
    for assignment, value in zip(change.assignments, values, strict=True):
        dataset.assign(assignment.name, rows, value)
    exprs = [assignment.value for assignment in change.assignments]
    _note_reads(dataset, exprs if change.where is None else [*exprs, change.where])
    return len(view)


def _values(view: View, name: str) -> Any:
    """One value a row, whether a column of the dataset was selected or computed from."""
    if name in view.computed:
        return _stored_values(view.computed[name])
    return view[name][:]


def _stored_values(computed: Computed) -> Any:
    """Values as an assignment takes them: labels by name, for codes are one column's own."""
    names = computed.type.names
    presented = computed.present()
    if names is None or computed.type.shape or not isinstance(presented, np.ndarray):
        return presented
    return [names[code] for code in presented.tolist()]


def _insert(dataset: Dataset, change: tql.ast.Insert, params: Mapping[str, Any]) -> int:
    query = change.query
    view = run_tree(dataset, query, params) if isinstance(query, tql.ast.Query) else None
    if view is None:
        view = dataset.query(tql.print_query(query), **params)
    outputs = [*view.computed, *view.selection().columns]
    selected = _output_names(query, view) or outputs
    names = change.names or tuple(selected)
    if len(names) != len(selected):
        raise InvalidInputError(
            f"INSERT names {len(names)} columns and its query gives {len(selected)}\nname as many"
        )
    count = len(view)
    for batch in _batches(view, dict(zip(selected, names, strict=True))):
        dataset.extend(batch)
    return count


def _output_names(query: tql.ast.Statement, view: View) -> list[str]:
    """Outputs in the order in which they are written; computed ones stand apart in a view."""
    if not isinstance(query, tql.ast.Query) or not query.select:
        return []
    names: list[str] = []
    for output in query.select:
        if isinstance(output.expr, tql.ast.Star):
            return [*view.selection().columns, *view.computed]
        expr = output.expr
        default = expr.name if isinstance(expr, tql.ast.Column) else tql.print_expr(expr)
        names.append(output.alias or default)
    return names


def _batches(view: View, targets: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    selection, reader = view.selection(), view.reader()
    for start in range(0, len(view), BATCH_ROWS):
        positions = np.arange(start, min(start + BATCH_ROWS, len(view)))
        batch: dict[str, Any] = {}
        for name, target in targets.items():
            if name in view.computed:
                batch[target] = _stored_values(view.computed[name].take(positions))
                continue
            stored = reader.read(name, selection.physical(positions), decode=False)
            batch[target] = StoredColumn(view.schema[name], stored)
        yield batch


def _note_reads(dataset: Dataset, exprs: tuple[tql.ast.Expr, ...] | list[tql.ast.Expr]) -> None:
    transaction = dataset.session.transaction
    if transaction is None:
        return
    schema = dataset.session.committed.schema
    names = {
        node.name
        for expr in exprs
        for node in tql.ast.walk(expr)
        if isinstance(node, tql.ast.Column) and node.name in dataset.schema
    }
    known = {spec.name for spec in schema.tensors}
    transaction.reads |= {schema[name].id for name in names & known}
