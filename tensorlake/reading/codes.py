"""Class codes in memory: as narrow as they are where they are kept, widened where handed out.

A chunk of class codes decodes as int64, what NumPy and torch index with, and few datasets have more
than 256 classes. Kept as uint8 they take an eighth of the memory, and a scan that compares them
reads an eighth of the bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.types import Column, EncodedColumn, SampleType

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["holds_codes", "narrowed", "widened"]


def holds_codes(sample_type: SampleType) -> bool:
    """Tell whether samples are classes."""
    return sample_type.query_kind == "label"


def narrowed(column: Column) -> Column:
    """Return a column of whole numbers in the narrowest unsigned dtype that holds them.

    >>> from tensorlake.types import UniformColumn
    >>> narrowed(UniformColumn(np.array([3, 255]))).values.dtype
    dtype('uint8')
    """
    if isinstance(column, EncodedColumn) or not column.values.size:
        return column
    low, high = int(column.values.min()), int(column.values.max())
    narrow = np.min_scalar_type(high)
    if low < 0 or narrow.itemsize >= column.values.dtype.itemsize:
        return column
    return replace(column, values=column.values.astype(narrow))


def widened(column: Column, dtype: npt.DTypeLike) -> Column:
    """Return a column of whole numbers in the dtype that they had before they were narrowed."""
    if isinstance(column, EncodedColumn) or column.values.dtype == dtype:
        return column
    return replace(column, values=column.values.astype(dtype))
