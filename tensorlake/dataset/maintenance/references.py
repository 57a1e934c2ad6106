"""Checks and computed columns of a schema, and whether they fit its tensors.

    {"ordered": {"tql": "low <= high", "inputs": ["9f3c…", "a07b…"]}}      a check
    {"tql": "SHAPE(image)[0]", "inputs": ["9f3c…"]}                       an expression

Conditions and expressions are texts with the names of tensors and classes, so a rename in one place
may break one that is declared in another: in the same dataset, by another writer or on a branch. A
declaration fits a schema if it can be evaluated there, reads the tensors that it was declared on,
and has the type that its own tensor has. Changes of a schema are refused that would end this, at
the call; where two of them combine to it, the later one is in conflict with the earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import tensorlake_query as tql
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.query.compiled import compiled_query
from tensorlake.dataset.query.source import column_type
from tensorlake.format import Constraint, Schema, TensorSpec
from tensorlake.reading import Selection, Snapshot
from tensorlake.versions import Misfit

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session

__all__ = ["inputs_of", "misfit_of", "misfits", "reads_other_rows"]

QUERIES = tql.ast.Subquery, tql.ast.Exists, tql.ast.InQuery
OF_OTHERS = frozenset({"FRESH", "RUN", "STEP", "STEPS"})
"""Functions whose value for a row depends on more than its stored cells."""


def misfits(session: Session, schema: Schema) -> list[Misfit]:
    """Return the checks and computed columns of a schema that do not fit its tensors."""
    found = [misfit_of(session, schema, name, one) for name, one in schema.constraints.items()]
    found += [_of_column(session, schema, spec) for spec in schema.tensors if spec.compute]
    return [one for one in found if one is not None]


def misfit_of(session: Session, schema: Schema, name: str, constraint: Constraint) -> Misfit | None:
    """Return why a check or a unique key does not fit the tensors of a schema, if it does not."""
    why = _dropped(schema, constraint.inputs)
    text = constraint.tql
    if not why and text is not None:
        try:
            query = tql.ast.Query(where=tql.parse_predicate(text))
            _compiled(session, schema, query, text)
            why = _moved(schema, constraint.inputs, query)
        except tql.QueryError as error:
            why = _said(error)
    reader = f"the check {name!r} ({text})" if text is not None else f"the check {name!r}"
    advice = f"ds.drop_check({name!r})"
    return Misfit(constraint.inputs[0], reader, why, advice) if why else None


def inputs_of(schema: Schema, query: tql.ast.Query) -> tuple[str, ...]:
    """Return the ids of the tensors that a parsed condition or expression reads."""
    names = [node.name for node in tql.ast.walk(query) if isinstance(node, tql.ast.Column)]
    return tuple(schema[name].id for name in dict.fromkeys(names) if name in schema)


@lru_cache(maxsize=256)
def reads_other_rows(text: str) -> bool:
    """Whether a condition depends on other rows, on runs, or on which cells are fresh."""
    nodes = tql.ast.walk(tql.parse_predicate(text))
    return any(isinstance(node, QUERIES) or _is_of_others(node) for node in nodes)


def _of_column(session: Session, schema: Schema, spec: TensorSpec) -> Misfit | None:
    """Return why a computed column does not fit the tensors of a schema, if it does not."""
    compute = spec.compute
    assert compute is not None, "it is computed"
    why = _dropped(schema, compute.inputs)
    text = compute.tql
    if not why and text is not None:
        try:
            expr = tql.parse_predicate(text)
            query = tql.ast.Query(select=(tql.ast.Output(expr, spec.name),))
            compiled = _compiled(session, schema, query, text)
            why = _moved(schema, compute.inputs, query) or _other_type(spec, compiled.columns)
        except tql.QueryError as error:
            why = _said(error)
    of = compute.inputs[0] if compute.inputs else spec.id
    advice = f"ds.alter_tensor({spec.name!r}, compute=…), or ds.drop_tensor({spec.name!r})"
    return Misfit(of, f"the computed column {spec.name!r}", why, advice) if why else None


def _compiled(
    session: Session, schema: Schema, query: tql.ast.Query, text: str
) -> tql.CompiledQuery:
    """Compile a condition or an expression over the stored tensors of a schema; nothing is read."""
    version = session.committed
    state = replace(version.state, schema=schema, roots={})
    snapshot = Snapshot(state, version.packs, version=version.version, digest="")
    view = RowSet(session, Selection(snapshot, schema.stored))
    return compiled_query(view, query, {}, reaches_out=False, text=text)[1]


def _dropped(schema: Schema, inputs: Iterable[str]) -> str:
    is_gone = any(schema.by_id(id_) is None for id_ in inputs)
    return "a tensor that it reads was dropped" if is_gone else ""


def _moved(schema: Schema, inputs: Sequence[str], query: tql.ast.Query) -> str:
    """Report that names in a text are now those of other tensors than it was declared on."""
    if tuple(inputs) == inputs_of(schema, query):
        return ""
    return "its names are those of other tensors than it was declared on"


def _other_type(spec: TensorSpec, columns: Any) -> str:
    """Report that an expression has another type than the tensor that it is declared as."""
    found, wanted = columns[spec.name], column_type(spec.type)
    if (found.kind, found.dtype, found.shape) != (wanted.kind, wanted.dtype, wanted.shape):
        return f"its expression gives {found.dtype or found.kind} of shape {found.shape}"
    unknown = {*(found.names or ())} - {*(wanted.names or ())} if wanted.names else ()
    if unknown:
        return f"its expression gives classes that it does not have: {', '.join(sorted(unknown))}"
    return ""


def _is_of_others(node: tql.ast.Node) -> bool:
    return isinstance(node, tql.ast.Call) and node.name in OF_OTHERS


def _said(error: tql.QueryError) -> str:
    return f"{error.message} (column {error.column} of its text)"
