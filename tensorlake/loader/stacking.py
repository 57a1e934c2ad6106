"""Stacking: rows that a user's transform returned, made one batch again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, RaggedBatchError
from tensorlake.loader.collate import collate_ragged

if TYPE_CHECKING:
    from tensorlake.loader.columns import ColumnPlan

__all__ = ["checked_row", "stack_rows"]


def checked_row(made: object, row: int) -> Mapping[str, Any]:
    """Return what a transform made of a row.

    Raises:
        InvalidInputError: It is no row; where the function forgot to return it, None.
    """
    if not isinstance(made, Mapping):
        raise InvalidInputError(
            f"transform= returned {type(made).__name__} for row {row}, not a dict"
            "\nreturn the row: {name: value, …}; rows are chosen before, by ds.query(…)",
            argument="transform",
            row=row,
            actual=type(made).__name__,
        )
    return made


def stack_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[ColumnPlan]) -> dict[str, Any]:
    """Make one entry a name: arrays of one shape are stacked, text and objects are listed.

    Raises:
        InvalidInputError: Rows differ in their names.
        RaggedBatchError: Arrays differ in shape, and the column is not collated.
    """
    if not rows:
        return {}
    planned = {column.name: column for column in columns}
    names = list(rows[0])
    for row in rows:
        if list(row) != names:
            raise InvalidInputError(
                f"transform returned the names {list(row)!r} after {names!r}"
                "\nreturn the same names for every row",
                expected=names,
                actual=list(row),
            )
    batch: dict[str, Any] = {}
    for name in names:
        values = [row[name] for row in rows]
        column = planned.get(name)
        if column is not None and column.collate is not None and column.dtype is not None:
            arrays = [None if one is None else np.asarray(one) for one in values]
            dtype = next((one.dtype for one in arrays if one is not None), column.dtype)
            batch |= collate_ragged(name, arrays, column.shape, column.collate, dtype)
        else:
            batch[name] = _stacked(name, values)
    return batch


def _stacked(name: str, values: list[Any]) -> Any:
    if not all(isinstance(one, np.ndarray | np.generic | int | float) for one in values):
        return [*values]
    arrays = [np.asarray(one) for one in values]
    shapes = {one.shape for one in arrays}
    if len(shapes) > 1:
        shown = ", ".join(map(str, sorted(shapes)[:4]))
        raise RaggedBatchError(
            f"transform returned {name!r} in different shapes, {shown}, which cannot be stacked"
            f"\nreturn one shape, or give collate={{{name!r}: 'list'}} for a ragged column",
            tensor=name,
        )
    return np.stack(arrays)
