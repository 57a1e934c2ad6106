"""Parameters: Python and NumPy values as constants of a query, never pasted into its text."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import numpy as np

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.bound import Constant
from tensorlake_query.values.source import AnyArray, ColumnType
from tensorlake_query.values.times import moment_of_value
from tensorlake_query.values.types import BOOL, FLOAT, INT, JSON, NULL_TYPE, TEXT, number
from tensorlake_query.values.vectors import object_array

BYTES = ColumnType("bytes", None, ())


def parameter_value(value: object, expr: ast.Parameter, text: str) -> Constant:
    """Return a Python or NumPy value as a constant.

    Raises:
        QueryTypeError: it is of a type that a query has no value of.
    """
    if isinstance(value, dt.date | dt.timedelta | np.datetime64 | np.timedelta64):
        return moment_of_value(value, text, expr)
    if isinstance(value, np.generic):
        scalar = cast("object", value.item())
        if isinstance(scalar, bool | int | float):
            return Constant(scalar, number(value.dtype), expr, weak=False)
        value = scalar
    if value is None or isinstance(value, bool | float | str):
        return Constant(value, scalar_type(value), expr)
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return Constant(value, scalar_type(value), expr)
    if isinstance(value, bytes):
        return Constant(value, BYTES, expr)
    if isinstance(value, dict):
        return Constant(cast("object", value), replace(JSON, nullable=False), expr)
    weak = not isinstance(value, np.ndarray)
    if isinstance(value, list | tuple | np.ndarray):
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.array(None)
        if array.dtype.kind in "biuf":
            return Constant(array, number(array.dtype, array.shape), expr, weak=weak)
    if isinstance(value, int):
        raise QueryTypeError(
            f"the parameter ${expr.name} is an integer that does not fit in 64 bits",
            text=text,
            span=expr.span,
            hint="give a value as a float; leave a LIMIT as large as this out",
        )
    raise QueryTypeError(
        f"unsupported type of the parameter ${expr.name}: {type(value).__name__}",
        text=text,
        span=expr.span,
        hint="give a number, a boolean, a string, bytes, a dict, or an array of numbers",
    )


def plain_values(value: object) -> AnyArray | None:
    """Return a list of numbers or of texts as an array; None for anything else, or nothing."""
    if isinstance(value, np.ndarray):
        is_plain = value.ndim == 1 and value.dtype.kind in "iuf" and value.size
        return cast("AnyArray", value) if is_plain else None
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    items = list(cast("Iterable[object]", value))
    kinds = set(map(type, items))
    if kinds == {str}:
        return object_array(items)
    if kinds not in ({int}, {float}):
        return None
    try:
        array = np.array(items)
    except OverflowError:
        return None
    is_exact = (array.dtype.kind == "f") == (kinds == {float})  # not integers of 65 bits
    return array if array.dtype.kind in "iuf" and is_exact else None


def scalar_type(value: object) -> ColumnType:
    """Return the type of a number, a boolean, a string or None."""
    if value is None:
        return NULL_TYPE
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT if value < 2**63 else number("uint64")
    return FLOAT if isinstance(value, float) else TEXT
