"""``ds.execute``: UPDATE, DELETE and INSERT, staged like every other change.

Columns that their conditions and expressions read are recorded: a concurrent commit that changes
them is a conflict, since the same statement might then have changed other rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorlake_query as tql
from tensorlake.dataset.core.item_counts import items_first
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.core.stored_columns import refuse_names_of_files
from tensorlake.dataset.query.assignment import delete
from tensorlake.dataset.query.run import NO_LIMITS, QueryLimitError, engine_errors, run_tree
from tensorlake.dataset.write.staging import all_or_nothing, assign_by_selection, extend
from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import plural
from tensorlake.storage import counted

if TYPE_CHECKING:
    from tensorlake.dataset.core.query_limits import QueryLimits
    from tensorlake.dataset.core.session import Session

__all__ = ["execute", "insert_rows", "note_reads"]


def execute(session: Session, text: str, params: Mapping[str, Any]) -> int:
    """Stage a change; return how many rows it changes."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(f"execute() takes TQL text, got {shown(text)}", actual=text)
    with engine_errors(session.store.url):
        change = tql.parse_change(text)
        _check_names(session, change, text)
    with session.lock:
        match change:
            case tql.ast.Update():
                return _update(session, change, params, text)
            case tql.ast.Delete(where=where):
                view = run_tree(everything(session), tql.ast.Query(where=where), params, text)
                count = delete(session, view) if len(view) else 0
                note_reads(session, () if where is None else (where,))
                return count
            case tql.ast.Insert():
                return _insert(session, change, params, text)


def _check_names(session: Session, change: tql.ast.Change, text: str) -> None:
    """Refuse a change that names a missing tensor, or one tensor twice."""
    if change.table.name != "this":
        raise tql.QueryNameError(
            f"a statement changes 'this', not {change.table.name!r}",
            text=text,
            span=change.table.span,
            hint="open the other dataset, and execute it there",
        )
    verb, targets = "UPDATE sets", ()
    if isinstance(change, tql.ast.Update):
        targets = tuple((each.name, each.span) for each in change.assignments)
    elif isinstance(change, tql.ast.Insert):
        verb, targets = "INSERT names", tuple((each.name, each.span) for each in change.names)
    seen: set[str] = set()
    schema = everything(session).schema
    for name, span in targets:
        if name not in schema:
            raise _no_tensor(session, f"{verb} {name!r}", name, text, span)
        if name in seen:
            message = f"{verb} {name!r} twice"
            raise tql.QueryNameError(message, text=text, span=span, hint="give it one value")
        seen.add(name)


def _no_tensor(
    session: Session, message: str, name: str, text: str, span: tql.ast.Span
) -> tql.QueryNameError:
    if (spec := session.snapshot().schema.by_name.get(name)) is not None and spec.is_virtual:
        message = f"{message}, which an expression computes"
        hint = f"leave it out, or change the expression: ds.alter_tensor({name!r}, compute='…')"
    else:
        message = f"{message}, which is not a tensor"
        hint = tql.known_names(name, "tensors", everything(session).schema)
    return tql.QueryNameError(message, text=text, span=span, hint=hint)


def _update(session: Session, change: tql.ast.Update, params: Mapping[str, Any], text: str) -> int:
    outputs = tuple(
        tql.ast.Output(assignment.value, f"value {number}", span=assignment.value.span)
        for number, assignment in enumerate(change.assignments)
    )
    view = run_tree(everything(session), tql.ast.Query(outputs, where=change.where), params, text)
    if not view.has_rows:
        with engine_errors(session.store.url):
            raise tql.QueryTypeError(
                "UPDATE sets one value for each row, and an aggregate gives one for all",
                text=text,
                span=tql.ast.Span(outputs[0].span.start, outputs[-1].span.stop),
                hint="write a query of its own: SET x = (SELECT MAX(y))",
            )
    if not len(view):
        return 0
    here = everything(session)
    rows = here.selection.with_rows(view.rows)
    values = {
        assignment.name: _values(view, f"value {number}")
        for number, assignment in enumerate(change.assignments)
    }
    for name, given in values.items():
        refuse_names_of_files(given, here.schema[name], tensor=name)
    with all_or_nothing(session):
        for name in items_first(values, here.schema):
            now = everything(session).selection
            assign_by_selection(session, name, rows, now, values[name], call="UPDATE")
    exprs = [assignment.value for assignment in change.assignments]
    note_reads(session, exprs if change.where is None else [*exprs, change.where])
    return len(view)


def _values(view: RowSet, name: str) -> Any:
    """Return one value per row, from a selected or a computed column."""
    if name in view.computed:
        return view.computed[name].values()
    selection = view.selection
    column = view.reader().read(name, selection.physical(selection.all_positions()))
    return view.schema[name].present(column, tensor=name)


def _insert(session: Session, change: tql.ast.Insert, params: Mapping[str, Any], text: str) -> int:
    query, names = change.query, [each.name for each in change.names]
    view = run_tree(everything(session), query, params, text)
    selected, schema = _selected(session, query, view, names), everything(session).schema
    with engine_errors(session.store.url):
        if names and len(names) != len(selected):
            raise tql.QueryTypeError(
                f"INSERT names {plural(len(names), 'tensor')} and its query gives {len(selected)}",
                text=text,
                span=tql.ast.Span(change.names[0].span.start, change.names[-1].span.stop),
                hint="name as many",
            )
        for name in () if names else selected:
            if name not in schema:
                message = f"the query returns {name!r}"
                raise _no_tensor(session, message, name, text, _place_of(name, query))
    return insert_rows(session, view, query, names)


def _place_of(name: str, query: tql.ast.Statement) -> tql.ast.Span:
    """Return where a query's output is in the text; the whole query if it has no name there."""
    outputs = query.select if isinstance(query, tql.ast.Query) else ()
    return next((each.span for each in outputs if _output_name(each) == name), query.span)


def insert_rows(
    session: Session,
    view: RowSet,
    query: tql.ast.Statement,
    names: Sequence[str],
    limits: QueryLimits = NO_LIMITS,
) -> int:
    """Stage the result of a query as new rows; return their number.

    Args:
        session: Session that stages them.
        view: Result of the query.
        query: The query, for the order of its outputs.
        names: Tensor names, one per output; none: the outputs' own names, without those of ``*``
            that an expression of the dataset computes.
        limits: Limits for reading; rows staged before remain staged.

    Raises:
        InvalidInputError: There are more names than outputs, or fewer.
        QueryLimitError: A limit was passed.
    """
    selected = _selected(session, query, view, names)
    targets = tuple(names) or tuple(selected)
    if len(targets) != len(selected):
        raise InvalidInputError(
            f"INSERT names {plural(len(targets), 'tensor')} and its query gives {len(selected)}"
            "\nname as many"
        )
    started = time.monotonic()
    with counted() as tally:
        for batch in view.column_batches(dict(zip(selected, targets, strict=True))):
            _check_limits(limits, time.monotonic() - started, tally.nbytes)
            extend(session, batch, call="INSERT")
    is_one = isinstance(query, tql.ast.Query)  # a combined query may have read all rows
    copied = {name for name in selected if name not in view.computed}
    if _reads_this(query):
        _note_columns(
            session, copied | _columns_of([query]) if is_one else {*everything(session).schema}
        )
    return len(view)


def _check_limits(limits: QueryLimits, seconds: float, nbytes: int) -> None:
    if limits.timeout_s is not None and seconds > limits.timeout_s:
        raise QueryLimitError(
            f"the rows to insert were not all read within {limits.timeout_s:g} s"
            "\ninsert fewer at a time: LIMIT … OFFSET …"
        )
    if limits.max_nbytes is not None and nbytes > limits.max_nbytes:
        raise QueryLimitError(
            f"the rows to insert have more than {limits.max_nbytes:,} bytes"
            "\ninsert fewer at a time: LIMIT … OFFSET …"
        )


def _reads_this(query: tql.ast.Statement) -> bool:
    """Return whether a query reads rows of the dataset's current version."""
    for node in tql.ast.walk(query):
        if isinstance(node, tql.ast.Query) and node.source is None:
            return True
        if isinstance(node, tql.ast.Table) and node.version is None:
            source = node.source
            if isinstance(source, tql.ast.Column) and source.name == "this":
                return True
    return False


def _selected(
    session: Session, query: tql.ast.Statement, view: RowSet, targets: Sequence[str]
) -> list[str]:
    """Return outputs in the order of the query; a view has computed ones separately."""
    schema = session.snapshot().schema
    own = {spec.name for spec in schema.tensors if spec.is_virtual} if not targets else set[str]()
    names: list[str] = []
    for output in query.select if isinstance(query, tql.ast.Query) else ():
        if isinstance(output.expr, tql.ast.Star):
            return [name for name in view.columns if name not in own]
        names.append(_output_name(output))
    return names or [*view.columns]


def _output_name(output: tql.ast.Output) -> str:
    expr = output.expr
    if isinstance(expr, tql.ast.Star):
        return "*"
    default = expr.name if isinstance(expr, tql.ast.Column) else tql.print_expr(expr)
    return output.alias or default


def note_reads(session: Session, exprs: Sequence[tql.ast.Expr]) -> None:
    """Record the columns read, so that a concurrent change of them is a conflict."""
    _note_columns(session, _columns_of(exprs))


def _columns_of(nodes: Sequence[tql.ast.Node]) -> set[str]:
    """Return the names in an expression, except those inside other queries."""
    found = (inner for node in nodes for inner in tql.ast.walk(node))
    return {node.name for node in found if isinstance(node, tql.ast.Column)}


def _note_columns(session: Session, names: set[str]) -> None:
    transaction = session.transaction
    if transaction is None:
        return
    schema = session.committed.schema
    known = {spec.name for spec in schema.tensors}
    transaction.reads |= {schema[name].id for name in names & known}
