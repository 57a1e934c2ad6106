"""Indexing: how ``ds[…]`` and ``ds["t"][…] =`` select rows.

An int is one row; a slice, a list, an integer array or a boolean mask are several; a Predicate is
evaluated by TQL; a View of the same dataset names its rows by their identity, so that it still
means the same rows after others were deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.errors import (
    InvalidInputError,
    RowNotFoundError,
    SchemaError,
    ShapeMismatchError,
    TensorNotFoundError,
    did_you_mean,
    shown,
)
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.format import TensorSpec

__all__ = [
    "not_null",
    "positions_of",
    "row_position",
    "slice_bounds",
    "unfit_expression",
    "unknown_column",
]

Int64Array = npt.NDArray[np.int64]


def row_position(row: int, count: int, *, what: str) -> int:
    """Check one row number, negative ones counting from the end.

    Raises:
        RowNotFoundError: There is no such row.
    """
    position = row + count if row < 0 else row
    if not 0 <= position < count:
        raise RowNotFoundError(
            f"{what} has {count:,} rows, no row {shown(row)}\n"
            f"rows are 0 to {count - 1}, or -1 from the end",
            row=row,
            expected=count,
        )
    return position


def positions_of(
    rows: slice | Sequence[int] | npt.ArrayLike, count: int, *, what: str
) -> Int64Array:
    """Bring a slice, list, integer array or mask to row positions, in the order named.

    Raises:
        RowNotFoundError: One of the rows does not exist.
        InvalidInputError: It names no rows.
    """
    if isinstance(rows, slice):
        return np.arange(*slice_bounds(rows, count, what=what), dtype=np.int64)
    try:
        named = np.asarray(rows)
    except ValueError as error:  # lists of different lengths
        raise _no_rows(rows, what) from error
    if named.dtype == np.bool_:
        if named.shape != (count,):
            raise ShapeMismatchError(
                f"a mask over {what} has one bool a row: expected shape ({count},),"
                f" got {named.shape}",
                expected=(count,),
                actual=named.shape,
            )
        return np.flatnonzero(named).astype(np.int64)
    if named.size == 0:
        return np.empty(0, dtype=np.int64)
    if named.ndim != 1 or named.dtype.kind not in "iu" or _has_booleans(rows):
        raise _no_rows(rows, what)
    positions = named.astype(np.int64)
    positions = np.where(positions < 0, positions + count, positions)
    if len(bad := np.flatnonzero((positions < 0) | (positions >= count))):
        row_position(int(named[bad[0]]), count, what=what)
    return positions


def slice_bounds(rows: slice, count: int, *, what: str) -> tuple[int, int, int]:
    """Return start, stop and step of a slice of ``count`` items.

    Raises:
        InvalidInputError: They are not integers, or the step is 0.
    """
    if is_whole_number(rows.step) and rows.step == 0:
        raise InvalidInputError(f"a slice of {what} has the step 0\ngive 1, or leave it out")
    try:
        return rows.indices(count)
    except (TypeError, ValueError) as error:
        bounds = ":".join("" if one is None else shown(one) for one in _parts(rows))
        raise InvalidInputError(
            f"{what} cannot be indexed by [{bounds}]\nthe bounds of a slice are integers",
            actual=rows,
        ) from error


def _parts(rows: slice) -> tuple[Any, ...]:
    return (rows.start, rows.stop) if rows.step is None else (rows.start, rows.stop, rows.step)


def _has_booleans(rows: Any) -> bool:
    """Whether a list mixes booleans and integers, which NumPy would read as rows 0 and 1."""
    is_list = isinstance(rows, list | tuple)
    return is_list and not {bool, np.bool_}.isdisjoint(map(type, cast("list[Any]", rows)))


def _no_rows(rows: Any, what: str) -> InvalidInputError:
    several = "a slice, a list of integers, a boolean mask, a Predicate or a View"
    form = (
        f"give {several}; for one row, a list of its number: [{shown(rows)}]"
        if is_whole_number(rows)
        else f"give an integer, {several}"
    )
    return InvalidInputError(
        f"{what} cannot be indexed by {type(rows).__name__} {shown(rows)}\n{form}",
        actual=type(rows).__name__,
    )


def unfit_expression(spec: TensorSpec, why: str) -> SchemaError:
    """Build the error for a column whose expression does not fit the schema."""
    text = "" if spec.compute is None else spec.compute.tql
    return SchemaError(
        f"{spec.name!r} is computed by {text!r}, which cannot be evaluated: {why}"
        f"\ngive another expression: ds.alter_tensor({spec.name!r}, compute='…'); or leave it out",
        tensor=spec.name,
    )


def not_null(name: str) -> str:
    """Return the condition that a tensor has a value, as a literal of Python for advice.

    >>> print(not_null("x"), not_null("in"))
    'x IS NOT NULL' '"in" IS NOT NULL'
    """
    from tensorlake_query import print_name

    return repr(f"{print_name(name)} IS NOT NULL")


def unknown_column(name: object, known: Sequence[str]) -> TensorNotFoundError:
    """Build the error, with the nearest known name."""
    hint = did_you_mean(name, known)
    return TensorNotFoundError(
        f"no column {shown(name)}{hint}\ncolumns: {', '.join(known) or 'none'}",
        tensor=name,
        expected=tuple(known),
    )
