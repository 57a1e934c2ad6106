"""The dtypes that samples may have, and their names in schemas.

A dtype is written by NumPy's name (``"float32"``) and is little-endian wherever it is stored.
"""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np

from tensorlake.errors import SchemaError

__all__ = ["DTYPE_NAMES", "parse_dtype"]

DTYPE_NAMES = (
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
    *("complex64", "complex128"),
)


def parse_dtype(value: Any) -> np.dtype:
    """Return the dtype that a name, a NumPy dtype or a NumPy scalar type stands for.

    `value` is what a user wrote.

    >>> parse_dtype("uint16"), parse_dtype(np.float32), parse_dtype(">i4")
    (dtype('uint16'), dtype('float32'), dtype('int32'))

    Raises:
        SchemaError: Samples cannot have this dtype.
    """
    try:
        dtype = np.dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in DTYPE_NAMES or value is None:
        close = difflib.get_close_matches(str(value), DTYPE_NAMES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise SchemaError(
            f"{value!r} is not a dtype of samples{hint}\nuse one of {', '.join(DTYPE_NAMES)}",
            actual=value,
        )
    return np.dtype(dtype.name)  # native order; the codec writes little-endian
