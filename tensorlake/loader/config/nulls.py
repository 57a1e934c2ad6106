"""NULLs in columns whose batches are arrays: reported when the loader is made, or replaced.

``null={"score": 0}`` replaces NULL as if the value were stored: it is decoded, normalized and
collated like other samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import (
    InvalidInputError,
    NullColumnWarning,
    ShapeMismatchError,
    TensorlakeError,
    shown,
)
from tensorlake.loader.config.collate import quoted
from tensorlake.types import EncodedColumn, Image

if TYPE_CHECKING:
    from tensorlake.types import Column, SampleType

__all__ = ["NullColumnWarning", "null_column", "null_in_column"]


def null_column(
    name: str, sample_type: SampleType, value: Any, *, shape: tuple[int, ...] | None = None
) -> Column:
    """Return the stored sample that replaces NULL.

    A number replaces all elements of a sample, or all pixels of an image. ``shape`` is the shape of
    all other images, if they have one.

    Raises:
        InvalidInputError: The value does not fit the column's type.
    """
    if value is None:
        raise InvalidInputError(
            f"null={{{name!r}: None}}: None is NULL itself\ngive a value, or leave {name!r} out",
            tensor=name,
        )
    sample = value
    if np.ndim(value) == 0 and not isinstance(value, str | bytes):
        if isinstance(sample_type, Image):
            sample = _plain_image(name, sample_type, value, shape)
        elif sample_type.shape and sample_type.layout != "encoded":
            sample = np.full([length or 0 for length in sample_type.shape], value)
    column = sample_type.convert([sample], tensor=name, call="null=")
    if shape is not None and isinstance(column, EncodedColumn) and column.shapes is not None:
        own = tuple(column.shapes[0].tolist())
        if own != shape:
            raise ShapeMismatchError(
                f"null={{{name!r}: …}} is an image of shape {own}, others of {name!r} are {shape}"
                f"\ngive one of that shape, or a number for all its pixels: null={{{name!r}: 0}}",
                tensor=name,
                expected=shape,
                actual=own,
            )
    return column


def _plain_image(name: str, sample_type: Image, value: Any, shape: tuple[int, ...] | None) -> Any:
    if not isinstance(value, int | np.integer) or not 0 <= value <= np.iinfo(sample_type.dtype).max:
        raise InvalidInputError(
            f"null={{{name!r}: {shown(value)}}}: pixels of {name!r} are {sample_type.dtype}"
            f"\ngive one of its numbers, or an image: null={{{name!r}: 0}}",
            tensor=name,
            actual=value,
        )
    return np.full(shape or (1, 1, sample_type.shape[2] or 1), value, sample_type.dtype)


def null_in_column(
    name: str, sample_type: SampleType, row: int, *, lists_null: bool = True
) -> InvalidInputError:
    """Build the error for a column of arrays that contains NULLs."""
    query = f"ds.query('WHERE {quoted(name)} IS NOT NULL')"
    as_list = f", or collate={{{name!r}: 'list'}}, where NULL is None" if lists_null else ""
    return InvalidInputError(
        f"{name!r} is NULL in row {row} of the view, and an array has no place for it"
        f"\ngive it a value, null={{{name!r}: {_example(name, sample_type)}}}{as_list}; or select"
        f" rows that have it: {query}",
        tensor=name,
        row=row,
    )


def _example(name: str, sample_type: SampleType) -> str:
    """Return an example value that the type accepts."""
    for value in (0, False, [], "1970-01-01", "1970-01-01T00:00:00Z"):
        try:
            null_column(name, sample_type, value)
        except TensorlakeError:
            continue
        return repr(value)
    return "…"
