"""RUN, STEP and STEPS in queries: values and steps of the runs recorded beside a dataset.

    RUN('resnet-50', 'loss')             the last value logged for the row; 'first', 'mean'
    STEP('resnet-50', epoch => 2)        the step whose batch had the row in an epoch
    STEPS('resnet-50')                   all of them

Steps are computed from the order of the run: a pass over its places, none over data.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.row_identity import ids_of, rows_of_ids
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.runs.places import runs_of
from tensorlake.dataset.runs.values import Which, values_by_id
from tensorlake.errors import InvalidInputError

__all__ = ["functions_of"]

Int64Array = npt.NDArray[np.int64]
FLOAT = tql.ColumnType("number", "float64", (), nullable=True)
STEP = tql.ColumnType("number", "int64", (), nullable=True)
STEPS = tql.ColumnType("number", "int64", (None,))


def functions_of(view: RowSet) -> dict[str, tql.Function]:
    """Return the functions of the runs beside a view's dataset."""
    return {
        "RUN": tql.row_function(
            "RUN",
            partial(_logged, view),
            usage="RUN(name, value)",
            summary="The last value that a run logged for the row; 'first' or 'mean' as a third.",
            arity=(2, 3),
        ),
        "STEP": tql.row_function(
            "STEP",
            partial(_step, view),
            usage="STEP(name, epoch => 0)",
            summary="The last step of a run's epoch whose batch had the row.",
            arity=(1, 1),
            options=("epoch",),
        ),
        "STEPS": tql.row_function(
            "STEPS",
            partial(_steps, view),
            usage="STEPS(name)",
            summary="The steps of a run whose batches had the row.",
            arity=(1, 1),
        ),
    }


def _logged(
    view: RowSet, name: object, value: object, which: object = "last"
) -> tuple[tql.ColumnType, Any]:
    if which not in get_args(Which):
        raise InvalidInputError(f"{which!r} is none of {', '.join(map(repr, get_args(Which)))}")
    table = runs_of(view)[_text(name)].logged(_text(value))
    snapshot = view.selection.snapshot
    ids, values = values_by_id(table, str(value), cast("Which", which))
    rows = rows_of_ids(ids, snapshot)
    return FLOAT, partial(_looked_up, *_sorted(rows, values), FLOAT)


def _step(view: RowSet, name: object, *, epoch: object = None) -> tuple[tql.ColumnType, Any]:
    if epoch is not None and type(epoch) is not int:
        raise InvalidInputError(f"epoch is an integer, not {epoch!r}")
    rows, steps = _rows_and_steps(view, _text(name), epoch=epoch, is_one=True)
    is_last = np.ones(len(rows), dtype=np.bool_)
    is_last[:-1] = rows[1:] != rows[:-1]
    return STEP, partial(_looked_up, rows[is_last], steps[is_last], STEP)


def _steps(view: RowSet, name: object) -> tuple[tql.ColumnType, Any]:
    rows, steps = _rows_and_steps(view, _text(name), epoch=None, is_one=False)

    def read(wanted: Int64Array) -> tql.RaggedBatch:
        start = np.searchsorted(rows, wanted, "left")
        counts = np.searchsorted(rows, wanted, "right") - start
        stops = np.cumsum(counts)
        places = np.arange(int(counts.sum())) - np.repeat(stops - counts - start, counts)
        return tql.RaggedBatch(steps[places], counts[:, None])

    return STEPS, read


def _rows_and_steps(
    view: RowSet, name: str, *, epoch: int | None, is_one: bool
) -> tuple[Int64Array, Int64Array]:
    """Return rows of the queried version, ascending, and a step of each, ascending for a row."""
    snapshot = view.selection.snapshot
    rows, steps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for seen in runs_of(view)[name].seen(epoch, last=is_one):
        mapped = seen.rows
        if seen.snapshot.digest != snapshot.digest:
            ids = ids_of(seen.snapshot, seen.snapshot.physical(seen.rows))
            mapped = rows_of_ids(ids, snapshot)
        rows.append(mapped[mapped >= 0])
        steps.append(seen.steps[mapped >= 0])
    together, all_steps = np.concatenate(rows), np.concatenate(steps)
    order = np.lexsort((all_steps, together))
    return together[order], all_steps[order]


def _sorted(rows: Int64Array, values: npt.NDArray[Any]) -> tuple[Int64Array, npt.NDArray[Any]]:
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    return rows[order], values[order]


def _looked_up(
    rows: Int64Array, values: npt.NDArray[Any], column_type: tql.ColumnType, wanted: Int64Array
) -> tql.UniformBatch:
    """Return the values of some rows; NULL where there is none."""
    at = np.minimum(np.searchsorted(rows, wanted), max(len(rows) - 1, 0))
    valid = rows[at] == wanted if len(rows) else np.zeros(len(wanted), dtype=np.bool_)
    found = np.zeros(len(wanted), dtype=np.dtype(column_type.dtype))
    found[valid] = values[at[valid]]
    return tql.UniformBatch(found, valid)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"a name in quotes is expected, not {value!r}")
    return value
