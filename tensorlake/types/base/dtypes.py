"""The dtypes that samples may have, and their names in schemas.

A dtype is written by NumPy's name (``"float32"``) and is little-endian wherever it is stored.
Three floats are narrower than NumPy's; ml_dtypes defines them:

    bfloat16        1 sign, 8 exponent, 7 mantissa bits    float32 without its last 16 bits
    float8_e4m3fn   1, 4, 3                                ±448, NaN, no infinity (OCP 8-bit floats)
    float8_e5m2     1, 5, 2                                float16 without its last 8 bits

They are stored and read unchanged. Programs that do not support them (TQL, Arrow, pandas, JSON) get
`widened_floats`: the same numbers as float32, which represents each of them exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tensorlake.errors import SchemaError, did_you_mean, shown
from tensorlake.types.base.column import Column, EncodedColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DTYPE_NAMES",
    "NARROW_FLOATS",
    "float_limits",
    "holds_floats",
    "is_narrow_float",
    "parse_dtype",
    "widened_column",
    "widened_dtype",
    "widened_floats",
]

ColumnT = TypeVar("ColumnT", bound=Column)

NARROW_FLOATS: Final = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
DTYPE_NAMES = (
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
    *NARROW_FLOATS,
    *("complex64", "complex128"),
)
_REGISTERED = 2  # NumPy's `isbuiltin` of dtypes that a library registered


def parse_dtype(value: Any) -> np.dtype:
    """Return the dtype of a name, a NumPy dtype or a NumPy scalar type.

    `value` is what a user wrote.

    >>> parse_dtype("uint16"), parse_dtype(np.float32), parse_dtype(">i4")
    (dtype('uint16'), dtype('float32'), dtype('int32'))
    >>> parse_dtype("bfloat16")
    dtype(bfloat16)

    Raises:
        SchemaError: Samples cannot have this dtype.
    """
    if isinstance(value, str) and value in NARROW_FLOATS:
        return _narrow_floats()[value]
    try:
        dtype = np.dtype(value)
    except Exception:  # noqa: BLE001 - NumPy parses strings, and formats what is none of its values
        dtype = None
    if dtype is None or dtype.name not in DTYPE_NAMES or value is None:
        hint = did_you_mean(value, DTYPE_NAMES)
        raise SchemaError(
            f"{shown(value)} is not a dtype of samples{hint}\nuse one of {', '.join(DTYPE_NAMES)}",
            actual=value,
        )
    if is_narrow_float(dtype):
        return dtype
    return np.dtype(dtype.name)  # native order; the codec writes little-endian


def is_narrow_float(dtype: np.dtype) -> bool:
    """Whether a dtype is one of the floats that NumPy itself lacks.

    >>> is_narrow_float(parse_dtype("float8_e5m2")), is_narrow_float(np.dtype("float16"))
    (True, False)
    """
    return dtype.isbuiltin == _REGISTERED and dtype.name in NARROW_FLOATS


def holds_floats(dtype: np.dtype) -> bool:
    """Whether elements are real floats of any width."""
    return dtype.kind == "f" or is_narrow_float(dtype)


def float_limits(dtype: np.dtype) -> Any:
    """Return `numpy.finfo` of a float or complex dtype, including narrow ones."""
    if is_narrow_float(dtype):
        import ml_dtypes

        return ml_dtypes.finfo(dtype)
    return np.finfo(dtype)


def widened_dtype(dtype: np.dtype) -> np.dtype:
    """Return float32 for a narrow float, and any other dtype unchanged."""
    return np.dtype(np.float32) if is_narrow_float(dtype) else dtype


def widened_floats(values: np.ndarray) -> np.ndarray:
    """Return the same numbers in a dtype that every program supports: narrow floats as float32.

    >>> widened_floats(np.array([1.5, 3], parse_dtype("bfloat16")))
    array([1.5, 3. ], dtype=float32)
    """
    return values.astype(np.float32) if is_narrow_float(values.dtype) else values


def widened_column(column: ColumnT) -> ColumnT:
    """Return a column whose elements are `widened_floats`; others unchanged."""
    if isinstance(column, EncodedColumn) or not is_narrow_float(column.values.dtype):
        return column
    return replace(column, values=widened_floats(column.values))


def _narrow_floats() -> Mapping[str, np.dtype]:
    import ml_dtypes

    return {name: np.dtype(getattr(ml_dtypes, name)) for name in NARROW_FLOATS}
