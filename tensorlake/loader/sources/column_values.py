"""The values of one column for all rows of a selection: weights, classes, keys of groups.

Read in parts of 2²⁰ rows, by the reader's own reads of rows; 8 bytes per row for numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.storage import runtime
from tensorlake.types import RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["column_values"]

PART_ROWS = 1 << 20


def column_values(rows: SelectedRows, name: str) -> NDArray[Any]:
    """Return a column's values: an array of numbers, codes of classes, or strings.

    Raises:
        InvalidInputError: A row is NULL, or has more than one value.
        TensorNotFoundError: There is no such column.
    """
    parts = [*_parts(rows, name)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _parts(rows: SelectedRows, name: str) -> Iterator[NDArray[Any]]:
    count = rows.selection.num_rows
    for start in range(0, count, PART_ROWS):
        positions = np.arange(start, min(start + PART_ROWS, count))
        column = _read(rows, name, positions)
        if isinstance(column, UniformColumn):
            if column.valid is not None and not column.valid.all():
                raise _null(name, start + int(np.argmin(column.valid)))
            if column.values.ndim != 1:
                raise _many(name, column.values.shape[1:])
            yield column.values
            continue
        for at, value in enumerate(column):
            if value is None:
                raise _null(name, start + at)
            if not isinstance(value, str | int | float | bool):
                raise _many(name, getattr(value, "shape", type(value).__name__))
        yield np.array(column)


def _read(rows: SelectedRows, name: str, positions: Int64Array) -> UniformColumn | list[Any]:
    """Read some rows: an array, or a list of plain values."""
    if name in rows.virtual:
        column = rows.virtual[name].take(positions)
        if isinstance(column, RaggedColumn):
            raise _many(name, "of different lengths")
        return column
    sample_type = rows.selection.snapshot.spec(name).type
    fetched = runtime.run(rows.reader.fetch(name, rows.selection.physical(positions)))()
    if isinstance(fetched, UniformColumn):
        return fetched
    return [sample_type.present_one(fetched, at) for at in range(len(positions))]


def _null(name: str, place: int) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} is NULL at place {place} of the view, so the order of that row is unknown"
        f"\nleave such rows out: view.where('{name} IS NOT NULL')",
        tensor=name,
    )


def _many(name: str, shape: Any) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} has values of shape {shape}; an order needs one value for each row",
        tensor=name,
    )
