"""Constraints of a dataset: declared, evaluated where changes are published, and listed.

A commit evaluates them on its result: after a lost race on that of both writers, in a merge on that
of both branches, since two valid edits of a row can combine to an invalid one. Only rows are read
that are new, or in which a column of the constraint was changed; all rows where it is new itself,
or where a class that it may name has another name.
Keys are compared with the rows whose chunk may have one of them by its statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.maintenance.references import inputs_of, misfit_of, reads_other_rows
from tensorlake.dataset.query.compiled import compiled_query
from tensorlake.dataset.query.predicate import membership
from tensorlake.dataset.query.run import engine_errors, matching_positions, positions_where
from tensorlake.dataset.write.key_matching import codes_of
from tensorlake.dataset.write.unique_keys import (
    READ_ROWS,
    count_of,
    integers_of,
    occurs_again,
    read_rows,
    repeated_integers,
    rows_apart,
    shown_rows,
)
from tensorlake.errors import (
    ConstraintError,
    InvalidInputError,
    QueryError,
    SchemaError,
    shown,
)
from tensorlake.format import Constraint, Schema, TensorSpec
from tensorlake.quantities import check_flags, plural
from tensorlake.reading import Selection
from tensorlake.types import Bytes, ClassLabel, Column, EncodedColumn, Scalar, Text, UniformColumn
from tensorlake.versions import (
    Misfit,
    Ranges,
    rows_in,
    union,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.reading import Snapshot

__all__ = [
    "Check",
    "add_check",
    "checks",
    "drop_check",
    "refuse_violations",
    "unique_key",
    "violations",
]

Int64Array = npt.NDArray[np.int64]

ROWS_LISTED = 1000
"""Rows that an error lists."""

ASKED_NUMBERS, ASKED_TEXTS = 64, 512
"""Keys that a query looks for; more are compared with all that are stored, in less time."""


@dataclass(frozen=True, slots=True)
class Check:
    """A constraint of a dataset.

    Attributes:
        condition: TQL that must not be false for a row; "" of a unique key.
        unique: The tensors of a unique key.
        valid: Whether rows that were there before it were checked, too.
    """

    condition: str = ""
    unique: tuple[str, ...] = field(default=())
    valid: bool = True

    def __str__(self) -> str:
        return self.condition or f"unique ({', '.join(self.unique)})"


def add_check(session: Session, name: str, condition: str, *, valid: bool) -> None:
    """Stage a condition that must hold of every row, unless ``valid`` is False, of new ones.

    Raises:
        ConstraintError: It does not hold.
        InvalidInputError: The name is taken, or an argument is invalid.
        QueryError: The condition is not one on the stored tensors of a row.
    """
    for argument, value in (("name", name), ("condition", condition)):
        if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise InvalidInputError(
                f"add_check({argument}={shown(value)}): give a text", argument=argument
            )
    check_flags(valid=valid)
    with session.lock:
        transaction = session.staging()
        snapshot = session.snapshot()
        schema = snapshot.schema
        if name in schema.constraints:
            raise InvalidInputError(
                f"{session.store.url!r} has a check {name!r} already\ndrop it first:"
                f" ds.drop_check({name!r})",
                argument="name",
            )
        inputs = _inputs(session, snapshot, condition)
        constraint = Constraint(condition, inputs, bool(valid))
        if valid:
            broken = violations(session, snapshot, name, constraint)
            _refuse(session, name, constraint, broken, schema)
        transaction.change_constraints(name, constraint)


def drop_check(session: Session, name: str) -> None:
    """Stage that a check, or a unique key, is gone.

    Raises:
        InvalidInputError: There is none of this name.
    """
    with session.lock:
        transaction = session.staging()
        known = transaction.schema.constraints
        if not isinstance(name, str) or name not in known:  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            listed = ", ".join(map(repr, known)) or "none"
            raise InvalidInputError(
                f"{session.store.url!r} has no check {shown(name)}\nchecks: {listed}",
                argument="name",
            )
        transaction.change_constraints(name, None)


def checks(schema: Schema) -> dict[str, Check]:
    """Describe the constraints of a schema."""
    return {name: _described(schema, one) for name, one in schema.constraints.items()}


def unique_key(schema: Schema, names: Sequence[str] | str) -> tuple[str, Constraint]:
    """Return the constraint that keys occur once, and its name.

    Raises:
        SchemaError: A tensor cannot be a key.
    """
    are_names = isinstance(names, str | list | tuple) and all(isinstance(one, str) for one in names)  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
    listed = (names,) if isinstance(names, str) else tuple(names) if are_names else ()
    if not listed or len({*listed}) < len(listed):
        raise SchemaError(
            f"unique={shown(names)}: a key has tensors, each once\ngive their names: unique=('id',)"
        )
    specs = [schema[name] for name in listed]
    for spec in specs:
        is_scalar = spec.type.layout == "uniform" and not spec.type.shape
        if spec.is_virtual or not (is_scalar or isinstance(spec.type, Text | Bytes)):
            raise SchemaError(
                f"unique=: {spec.name!r} is {spec.type.describe()}, which cannot be a key"
                "\na key is a number, a boolean, a class, a string or bytes, one per row",
                tensor=spec.name,
            )
    name = f"unique({', '.join(spec.name for spec in specs)})"
    return name, Constraint(None, tuple(spec.id for spec in specs))


def refuse_violations(
    session: Session, snapshot: Snapshot, changed: Mapping[str, Ranges], before: Schema
) -> None:
    """Refuse content that breaks a constraint.

    Args:
        session: The handle's.
        snapshot: The content to publish.
        changed: By tensor id, its physical rows that were given values; of "", all those that are
            new, or shown again.
        before: The schema of the entry that it follows: what it does not have is evaluated over
            all rows.

    Raises:
        ConstraintError: Rows break one.
    """
    schema = snapshot.schema
    together: dict[bytes | None, tuple[Ranges | None, list[str]]] = {}
    for name, constraint in schema.constraints.items():
        rows: Ranges | None = None
        if not constraint.valid or _holds_still(name, schema, before):
            rows = union([changed[id_] for id_ in ("", *constraint.inputs) if id_ in changed])
            if not len(rows):
                continue
        key = None if rows is None else rows.tobytes()
        together.setdefault(key, (rows, []))[1].append(name)
    for rows, names in together.values():
        conditions = [name for name in names if schema.constraints[name].tql is not None]
        are_met = len(conditions) > 1 and _are_met(session, snapshot, conditions, rows)
        for name in names:
            constraint = schema.constraints[name]
            if are_met and constraint.tql is not None:
                continue
            broken = violations(session, snapshot, name, constraint, rows)
            _refuse(session, name, constraint, broken, schema)


def _holds_still(name: str, schema: Schema, before: Schema) -> bool:
    """Whether rows that met a constraint before meet it if their cells are the same."""
    constraint = schema.constraints[name]
    if before.constraints.get(name) != constraint:
        return False
    if constraint.tql is None:
        return True
    if reads_other_rows(constraint.tql):  # as earlier versions accepted
        return False
    pairs = ((before.by_id(id_), schema.by_id(id_)) for id_ in constraint.inputs)
    return all(old is None or new is None or _keeps_names(old, new) for old, new in pairs)


def _keeps_names(old: TensorSpec, new: TensorSpec) -> bool:
    """Whether each class has the name that it had; conditions are on names."""
    if not isinstance(old.type, ClassLabel) or not isinstance(new.type, ClassLabel):
        return True
    return new.type.names[: len(old.type.names)] == old.type.names


def violations(
    session: Session,
    snapshot: Snapshot,
    name: str,
    constraint: Constraint,
    rows: Ranges | None = None,
) -> Int64Array:
    """Return the rows of a version that break a constraint, ascending.

    Args:
        session: The handle's.
        snapshot: The version.
        name: The constraint's name.
        constraint: The constraint.
        rows: Only these physical rows; None: all.

    Raises:
        SchemaError: It cannot be evaluated on the version's tensors.
    """
    chosen = None if rows is None else shown_rows(snapshot, rows)
    if chosen is not None and not len(chosen):
        return chosen
    if constraint.tql is None:
        misfit = misfit_of(session, snapshot.schema, name, constraint)
        if misfit is not None:
            raise _unfit(session, misfit)
        return _repeated(session, snapshot, constraint, chosen)
    view = RowSet(session, Selection(snapshot, snapshot.schema.stored, chosen))
    try:
        found = positions_where(view, f"NOT ({constraint.tql}\n)", {}, reaches_out=False)
    except QueryError as error:
        misfit = misfit_of(session, snapshot.schema, name, constraint)
        if misfit is None:
            raise
        raise _unfit(session, misfit) from error
    return found if chosen is None else chosen[found]


def _unfit(session: Session, misfit: Misfit) -> SchemaError:
    """Build the error for a constraint of an earlier version that reads what is gone."""
    return SchemaError(
        f"{misfit.reader} of {session.store.url!r} cannot be evaluated: {misfit.why}"
        f"\ndrop it, and add it again as it is to be: {misfit.advice}"
    )


def _are_met(
    session: Session, snapshot: Snapshot, names: Sequence[str], rows: Ranges | None
) -> bool:
    """Whether rows meet several conditions: a conjunction is false where one of them is."""
    known = snapshot.schema.constraints
    whole = " AND ".join(f"({known[name].tql}\n)" for name in names)
    chosen = None if rows is None else shown_rows(snapshot, rows)
    if chosen is not None and not len(chosen):
        return True
    view = RowSet(session, Selection(snapshot, snapshot.schema.stored, chosen))
    try:
        return not len(positions_where(view, f"NOT ({whole})", {}, reaches_out=False))
    except QueryError:  # each alone tells which it is
        return False


def _refuse(
    session: Session, name: str, constraint: Constraint, rows: Int64Array, schema: Schema
) -> None:
    if not len(rows):
        return
    more = f", and {plural(len(rows) - 1, 'other row')}" if len(rows) > 1 else ""
    raise ConstraintError(
        f"row {rows[0]}{more} of {session.store.url!r} would break the check {name!r}:"
        f" {_described(schema, constraint)}\ncorrect these rows and commit again, or ds.discard();"
        " nothing was published",
        check=name,
        rows=tuple(rows[:ROWS_LISTED].tolist()),
    )


def _described(schema: Schema, constraint: Constraint) -> Check:
    specs = [schema.by_id(id_) for id_ in constraint.inputs]
    names = tuple("?" if spec is None else spec.name for spec in specs)
    if constraint.tql is None:
        return Check(unique=names)
    return Check(constraint.tql, valid=constraint.valid)


def _inputs(session: Session, snapshot: Snapshot, condition: str) -> tuple[str, ...]:
    """Return the ids of the tensors that a condition reads."""
    view = RowSet(session, Selection(snapshot, snapshot.schema.stored))
    with engine_errors(view.url):
        query = tql.ast.Query(where=tql.parse_predicate(condition))
        inputs = inputs_of(snapshot.schema, query)
        is_of_others = reads_other_rows(condition)
        if not is_of_others:
            _, compiled = compiled_query(view, query, {}, reaches_out=False, condition=condition)
            is_of_others = not compiled.is_rowwise
        if not inputs or is_of_others:
            raise InvalidInputError(
                f"add_check(condition={shown(condition)}): it must depend on the stored values of"
                " one row alone, without a query inside it\ngive a condition such as 'x > 0'",
                argument="condition",
            )
    return inputs


def _repeated(
    session: Session, snapshot: Snapshot, constraint: Constraint, chosen: Int64Array | None
) -> Int64Array:
    """Return the rows, or those of them that are chosen, whose key another row has."""
    reader = session.reader(snapshot)
    specs = [snapshot.schema.by_id(id_) for id_ in constraint.inputs]
    keys = [spec for spec in specs if spec is not None]  # all of them: it fits
    is_whole = chosen is None
    rows = np.arange(snapshot.num_rows) if chosen is None else chosen
    columns = {spec.id: read_rows(reader, snapshot, spec, rows) for spec in keys}
    numbers = integers_of(keys, columns)
    if numbers is None:
        others = rows[:0]
        if not is_whole:
            apart = rows_apart(snapshot, None, rows)
            others = _others(session, snapshot, keys[0], columns[keys[0].id], rows, apart)
        known, given = codes_of(reader, snapshot.physical(others), keys, columns)
        is_key = given >= 0
        return rows[is_key & (occurs_again(given) | np.isin(given, known))]
    others = repeated_integers(reader, snapshot, keys[0], numbers, None if is_whole else rows)
    return rows[others]


def _others(
    session: Session,
    snapshot: Snapshot,
    spec: TensorSpec,
    column: Column,
    rows: Int64Array,
    apart: Ranges,
) -> Int64Array:
    """Return rows apart from some among which are all that may have one of their keys.

    A query finds them if they are many: by an index of the column, or by the values alone.

    Args:
        session: The handle's.
        snapshot: The version.
        spec: The first tensor of the key.
        column: Its values in the rows.
        rows: The rows.
        apart: The other rows that may have one of these values.
    """
    values = None
    most = ASKED_TEXTS if isinstance(spec.type, Text) else ASKED_NUMBERS
    if count_of(apart) > READ_ROWS and len(rows) <= most:
        values = _literals(spec, column)
    if values is None:
        return rows_in(apart)
    view = RowSet(session, Selection(snapshot, (spec.name,)))
    found = matching_positions(view, membership(spec.name, values))
    return np.setdiff1d(found, rows, assume_unique=True)


def _literals(spec: TensorSpec, column: Column) -> list[int | str] | None:
    """Return values as a query has them, without NULL; None where it may not compare them alike."""
    valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    if isinstance(spec.type, Text) and isinstance(column, EncodedColumn):
        pairs = zip(column.samples, valid.tolist(), strict=True)
        return [str(sample, "utf-8") for sample, is_valid in pairs if is_valid]
    if type(spec.type) is Scalar and isinstance(column, UniformColumn):
        is_integer = column.values.dtype.kind in "iu"
        return column.values[valid].tolist() if is_integer else None
    return None
