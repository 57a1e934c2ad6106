"""``map`` in place: a function over rows, whose outputs fill tensors of this dataset.

Outputs are staged for the rows they were made from, by row id, in groups that bound memory; when
anything raises, the handle is as it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.item_counts import items_first
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.query.assignment import assign
from tensorlake.dataset.transform.map.calls import Call, MapOptions, Piece, pieces_of
from tensorlake.dataset.transform.map.outputs import (
    check_column,
    named_output,
    naming_the_row,
    output_nbytes,
    types_of,
)
from tensorlake.dataset.transform.map.report import MapCount, MapReport
from tensorlake.dataset.transform.map.workers import results
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.dataset.write.staging import all_or_nothing
from tensorlake.errors import SchemaError, ShapeMismatchError
from tensorlake.quantities import plural
from tensorlake.types import SampleType

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.query.predicate import Predicate

__all__ = ["fill_rows"]

Int64Array = npt.NDArray[np.int64]

STAGED_ROWS = 8192
STAGED_NBYTES = 64 << 20
"""Outputs staged together: whole chunks where they are small, bounded memory where they are not."""


def fill_rows(
    session: Session,
    function: Callable[[dict[str, Any]], Any],
    *,
    schema: Mapping[str, Any] | None,
    columns: Sequence[str] | None,
    where: str | Predicate | None,
    options: MapOptions,
) -> None:
    """Call a function on the rows of a dataset, and stage what it returns as its tensors."""
    before = everything(session)
    call = Call.of(function, before, columns, options)
    session.map_report = _fill(session, before, where, call, schema)


def _fill(
    session: Session,
    before: RowSet,
    where: str | Predicate | None,
    call: Call,
    schema: Mapping[str, Any] | None,
) -> MapReport:
    """Stage the outputs for the rows of a dataset, or those that meet a condition, as its tensors.

    Tensors are added first, so that a condition may select rows without outputs, even at first.
    """
    types = types_of(schema, everything(session).schema)
    count = MapCount(types)
    with all_or_nothing(session):
        count.added = _add_tensors(session, types)
        rows = before
        if where is not None:
            from tensorlake.dataset.query.run import run_where

            rows = before.take(run_where(everything(session), where, {}).rows)
        for positions, columns in _groups(
            count.noting(rows, results(rows, call, pieces_of(len(rows), call))), [*types], call
        ):
            named = rows.take(positions)
            for name in items_first(columns, everything(session).schema):
                with naming_the_row(rows, positions):
                    assign(session, name, named, columns[name])
        return count.report(session, is_staged=session.transaction is not None)


def _add_tensors(session: Session, types: Mapping[str, SampleType]) -> list[str]:
    schema = everything(session).schema
    added: list[str] = []
    for name, wanted in types.items():
        found = schema.get(name)
        if found is None:
            schema_changes.add_tensor(session, name, replace(wanted, nullable=True), None)
            added.append(name)
        elif replace(found, nullable=True) != replace(wanted, nullable=True):
            raise SchemaError(
                f"{name!r} is {found.describe()} already, and map() would make it"
                f" {wanted.describe()}\ngive its type in schema=, or another name",
                tensor=name,
                expected=found.describe(),
                actual=wanted.describe(),
            )
    return added


def _groups(
    pieces: Iterator[Piece], names: Sequence[str], call: Call
) -> Iterator[tuple[Int64Array, dict[str, list[Any]]]]:
    """Gather outputs until they are worth staging."""
    positions: list[Int64Array] = []
    columns: dict[str, list[Any]] = {name: [] for name in names}
    rows = nbytes = 0
    for piece in pieces:
        if not len(piece.positions):
            continue
        if call.batch_size is None:
            outputs = _transposed(piece, names)
        else:
            outputs = named_output(piece.outputs[0], names, is_batch=True)
        for name in names:
            values: Any = outputs[name]  # Any: what the function returned
            check_column(name, values, len(piece.positions))
            if len(values) != len(piece.positions):
                raise ShapeMismatchError(
                    f"the function of map() returned {len(values):,} values of {name!r} for"
                    f" {plural(len(piece.positions), 'row')}\nreturn one for each row; one to many"
                    " makes a new dataset: to=url",
                    tensor=name,
                    expected=len(piece.positions),
                    actual=len(values),
                )
            columns[name].extend(values)
            nbytes += int(getattr(values, "nbytes", 0)) or sum(map(output_nbytes, values))
        positions.append(piece.positions)
        rows += len(piece.positions)
        if rows >= STAGED_ROWS or nbytes >= STAGED_NBYTES:
            yield np.concatenate(positions), columns
            positions, columns = [], {name: [] for name in names}
            rows = nbytes = 0
    if positions:
        yield np.concatenate(positions), columns


def _transposed(piece: Piece, names: Sequence[str]) -> dict[str, list[Any]]:
    rows = [named_output(output, names, is_batch=False) for output in piece.outputs]
    return {name: [row[name] for row in rows] for name in names}
