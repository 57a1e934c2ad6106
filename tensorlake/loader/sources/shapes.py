"""Shapes and NULLs of a view: whether all its images have one size, and whether any row is NULL.

    statistics     of the whole version, from the index: if one shape, or no NULL, nothing is read
    headers        otherwise, of the view's own rows: until two differ, or one is NULL

A version is immutable, so the result at the loader's construction is valid for all its epochs. NULL
has no shape. Statistics are bounds: they may cover rows that were deleted or overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.loader.sources.mix import MixSelection

if TYPE_CHECKING:
    from tensorlake.loader.plan.selection import Reader, Selection

__all__ = ["first_null", "shape_bounds", "shape_of_rows"]

FIRST_ROWS = 64  # shapes checked together; four times as many after each equal batch
MOST_ROWS = 1 << 16


def shape_bounds(reader: Reader, tensor: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the smallest and largest extent of samples along each axis, from the index.

    The smallest is larger than the largest if all samples are NULL; None if there are none.
    """
    table = reader.index(tensor).bounds
    if table is None or table.shape_min is None or table.shape_max is None:
        return None
    known = table.has_shapes
    if not bool(known.any()):
        return None
    lows, highs = table.shape_min[known].min(axis=0), table.shape_max[known].max(axis=0)
    return tuple(lows.tolist()), tuple(highs.tolist())


def shape_of_rows(
    selection: Selection, reader: Reader, tensor: str, axes: slice = slice(None)
) -> tuple[int, ...] | None:
    """Return the shape of every row of a selection; None if they differ, or there are none.

    Args:
        selection: The rows.
        reader: Reads them.
        tensor: Name of the tensor.
        axes: The axes that count.
    """
    found: set[tuple[int, ...]] = set()
    for part, own in _parts(selection, reader):
        for shape in _shapes(part, own, tensor, axes):
            found.add(shape)
            if len(found) > 1:
                return None
    return next(iter(found), None)


def _parts(selection: Selection, reader: Reader) -> list[tuple[Selection, Reader]]:
    """Split a mix into its sources, which have their own statistics."""
    if isinstance(selection, MixSelection):
        return [(one.selection, one.reader) for one in selection.sources]
    return [(selection, reader)]


def _shapes(
    selection: Selection, reader: Reader, tensor: str, axes: slice
) -> Iterator[tuple[int, ...]]:
    bounds = shape_bounds(reader, tensor)
    if bounds is not None and bounds[0][axes] == bounds[1][axes] and selection.num_rows:
        yield bounds[0][axes]
        return
    start, count = 0, FIRST_ROWS
    while start < selection.num_rows:
        positions = np.arange(start, min(start + count, selection.num_rows))
        shapes = reader.shapes(tensor, selection.physical(positions))
        for shape in np.unique(shapes[shapes[:, 0] >= 0][:, axes], axis=0).tolist():
            yield tuple(shape)
        start, count = start + count, min(4 * count, MOST_ROWS)


def first_null(selection: Selection, reader: Reader, tensor: str) -> int | None:
    """Return the position of the first row that is NULL; None if there is none."""
    before = 0
    for own, part in _parts(selection, reader):
        found = _first_null(own, part, tensor)
        if found is not None:
            return before + found
        before += own.num_rows
    return None


def _first_null(selection: Selection, reader: Reader, tensor: str) -> int | None:
    bounds = reader.index(tensor).bounds
    if bounds is not None and not bool(bounds.null_count.any()):
        return None
    start, count = 0, FIRST_ROWS
    while start < selection.num_rows:
        positions = np.arange(start, min(start + count, selection.num_rows))
        is_null = reader.is_null(tensor, selection.physical(positions))
        if bool(is_null.any()):
            return start + int(np.argmax(is_null))
        start, count = start + count, min(4 * count, MOST_ROWS)
    return None
