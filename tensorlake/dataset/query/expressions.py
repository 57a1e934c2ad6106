"""Columns that a TQL expression computes: declared in the schema, evaluated when they are read.

    {"tql": "SHAPE(image)[0]", "inputs": ["9f3c…"]}      in the schema
    ds["height"], WHERE height > 100                     like any computed column of a view

They are never stale, since nothing of them is stored: their tensor is a fill, which appends extend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.indexing import unfit_expression
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.query.run import engine_errors, run_tree
from tensorlake.dataset.query.source import column_type
from tensorlake.errors import DTypeMismatchError, QueryError, SchemaError, shown
from tensorlake.format import Compute, TensorSpec
from tensorlake.reading import Selection
from tensorlake.types import Struct, as_type

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.reading import Snapshot

__all__ = ["add_expression", "alter_expression", "expression_columns"]

KNOWN = "expressions"


def add_expression(session: Session, name: str, sample_type: Any, text: str) -> None:
    """Stage a column that an expression computes.

    Raises:
        DTypeMismatchError: The expression gives another type.
        SchemaError: It may be NULL, and the type is not nullable.
        QueryError: It is not an expression of the stored tensors.
    """
    if isinstance(sample_type, Struct):
        raise SchemaError(
            f"{shown(name)} cannot be computed as a Struct\nadd a column for each field",
            tensor=name,
        )
    with session.lock:
        transaction = session.staging()
        spec = replace(TensorSpec.new(name, as_type(sample_type)), fill=None)
        transaction.add_tensor(_with_expression(session.snapshot(), session, spec, text))


def alter_expression(session: Session, name: str, text: str) -> None:
    """Stage another expression for a column that one computes.

    Raises:
        SchemaError: None computes it.
    """
    with session.lock:
        transaction = session.staging()
        spec = transaction.schema[name]
        if not spec.is_virtual:
            raise SchemaError(
                f"{name!r} is stored, and an expression is not\ndrop it, and add it again:"
                f" ds.drop_tensor({name!r})",
                tensor=name,
            )
        changed = _with_expression(session.snapshot(), session, spec, text)
        if changed != spec:
            transaction.change_spec(changed, what="metadata")


def expression_columns(rows: RowSet) -> dict[str, Computed]:
    """Return the columns of all rows of a version that expressions compute, by name.

    Reading one raises that does not fit the schema, as earlier versions could publish in a merge.
    """
    snapshot = rows.selection.snapshot
    known: tuple[str, Mapping[str, Computed]] | None = snapshot.opened.get(KNOWN)
    if known is not None and known[0] == snapshot.digest:
        return {**known[1]}
    found: dict[str, Computed] = {}
    for spec in snapshot.schema.tensors:
        if spec.compute is None or spec.compute.tql is None:
            continue
        try:
            text = spec.compute.tql
            found[spec.name] = _evaluated(rows, spec.name, text)[0].declared_by(text)
        except QueryError as error:
            found[spec.name] = _unfit(rows, spec, error)
    snapshot.opened[KNOWN] = snapshot.digest, found
    return {**found}


def _unfit(rows: RowSet, spec: TensorSpec, error: QueryError) -> Computed:
    """Return a column that can be left out, and not be read."""
    compute = spec.compute
    assert compute is not None
    assert compute.tql is not None, "an expression computes it"
    message = str(error).partition("\n")[0]

    def read(_: object) -> NoReturn:
        raise unfit_expression(spec, message)

    positions = np.arange(rows.selection.num_rows)
    made = Computed(column_type(spec.type), read=read, positions=positions)
    return made.declared_by(compute.tql)


def _evaluated(rows: RowSet, name: str, text: str) -> tuple[Computed, list[str]]:
    """Return the column of an expression over stored columns, and the names of these."""
    with engine_errors(rows.url):
        expr = tql.parse_predicate(text)
    query = tql.ast.Query(select=(tql.ast.Output(expr, name),))
    made = run_tree(rows, query, {}, text, reaches_out=False)
    if not made.has_rows or name not in made.computed:
        raise SchemaError(
            f"{shown(text)} of {name!r} is not a value computed for each row"
            "\ngive an expression of columns, such as 'SHAPE(image)[0]'",
            tensor=name,
        )
    read = [node.name for node in tql.ast.walk(query) if isinstance(node, tql.ast.Column)]
    return made.computed[name], read


def _with_expression(
    snapshot: Snapshot, session: Session, spec: TensorSpec, text: str
) -> TensorSpec:
    schema = snapshot.schema
    rows = RowSet(session, Selection(snapshot, schema.stored))
    column, read = _evaluated(rows, spec.name, text)
    wanted = column_type(spec.type)
    found = column.type
    if (found.kind, found.dtype, found.shape) != (wanted.kind, wanted.dtype, wanted.shape):
        given = f"{found.dtype or found.kind} of shape {found.shape}"
        raise DTypeMismatchError(
            f"{shown(text)} gives {given}, and {spec.name!r} is declared as"
            f" {spec.type.describe()}\ndeclare that type, or write CAST(… AS …)",
            tensor=spec.name,
            expected=spec.type.describe(),
            actual=given,
        )
    if found.nullable and not spec.type.nullable:
        raise SchemaError(
            f"{shown(text)} may be NULL, and {spec.name!r} is declared as {spec.type.describe()}"
            "\ndeclare it with nullable=True, as in tl.Scalar('float64', nullable=True), or give"
            " another value: COALESCE(…, 0)",
            tensor=spec.name,
        )
    inputs = tuple(schema[name].id for name in dict.fromkeys(read) if name in schema)
    compute, declared = Compute(inputs, tql=text), replace(spec.type, nullable=True)
    return replace(spec, type=declared, compute=compute)  # its cells are a fill, and so NULL
