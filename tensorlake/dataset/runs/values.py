"""Numbers that a program logs, and the rows that they are of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.row_identity import ids_of, matched_ids
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.runs.tables import Table
from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import is_whole_number

__all__ = ["IDS", "number", "numbers", "row_ids", "row_numbers", "with_values"]

Int64Array = npt.NDArray[np.int64]
IDS = ("txid_high", "txid_low", "offset")
"""The columns of a row id."""


def with_values(rows: RowSet, table: Table, name: str) -> RowSet:
    """Return the rows that a table has values of, with the last value of each as a column."""
    import tensorlake_query as tql

    if name in rows.schema:
        raise InvalidInputError(f"the dataset has a tensor {name!r}, and the View would have two")
    table = table.filter(table.column(name).is_valid())
    ids = np.empty(len(table), [(one, np.uint64) for one in IDS])
    for one in IDS:
        ids[one] = table.column(one).to_numpy()
    positions, kept = matched_ids(ids, rows.selection)
    values = table.column(name).to_numpy()[kept]
    steps = table.column("step").to_numpy()[kept]
    order = np.lexsort((np.arange(len(steps)), steps, positions))
    is_last = np.ones(len(order), dtype=np.bool_)
    is_last[:-1] = positions[order][1:] != positions[order][:-1]
    last = order[is_last]
    own = Computed(tql.ColumnType("number", "float64", ()), tql.UniformBatch(values[last]))
    taken = rows.take(positions[last])
    return replace(taken, computed={**taken.computed, name: own})


def _array(value: Any) -> npt.NDArray[Any]:
    for method in ("detach", "cpu"):  # a torch tensor, of any device
        if hasattr(value, method):
            value = getattr(value, method)()
    return np.asarray(value)


def row_numbers(value: Any) -> Int64Array:
    """Return the numbers of a batch's rows.

    Raises:
        InvalidInputError: They are not integers, one for each row.
    """
    array = _array(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(f"rows= is a batch's '_row', got {shown(value)}")
    return array.astype(np.int64)


def number(name: str, value: Any) -> float:
    """Return a scalar that is logged as a float.

    Raises:
        InvalidInputError: It is not one number.
    """
    if is_whole_number(value) or isinstance(value, float):
        return float(value)
    array = _array(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"log({name}=…) is a number, got {shown(value)}\nvalues of rows are per_row={{{name!r}:"
            " …}"
        )
    return float(array.reshape(()))


def numbers(name: str, value: Any) -> npt.NDArray[np.float64]:
    """Return values of rows that are logged as floats, of shape (rows,).

    Raises:
        InvalidInputError: They are not one number for each row.
    """
    array = _array(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "biuf"):
        raise InvalidInputError(
            f"per_row={{{name!r}: …}} is one number a row, got {shown(value)}", argument="per_row"
        )
    return array.astype(np.float64)


def row_ids(rows: RowSet, given: Int64Array) -> npt.NDArray[Any]:
    """Return the ids of rows of a version, by their numbers.

    Raises:
        InvalidInputError: The version does not have such a row.
    """
    snapshot = rows.selection.snapshot
    wrong = given[(given < 0) | (given >= snapshot.num_rows)]
    if len(wrong):
        raise InvalidInputError(
            f"rows= has {int(wrong[0])}, and the version has {snapshot.num_rows:,} rows"
            "\ngive batch['_row']"
        )
    return ids_of(snapshot, snapshot.physical(given))
