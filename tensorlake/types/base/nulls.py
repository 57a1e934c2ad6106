"""Insert NULLs into columns, and replace them by values.

A column has an empty or zero sample where a row is NULL, so that positions are rows.
"""

from __future__ import annotations

import numpy as np

from tensorlake.types.base.column import (
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    sizes_of,
)

__all__ = ["with_nulls", "with_value"]


def with_nulls(column: Column, valid: np.ndarray, shape: tuple[int | None, ...]) -> Column:
    """Distribute the samples over the rows that are valid."""
    match column:
        case UniformColumn():
            values = np.zeros((len(valid), *column.values.shape[1:]), dtype=column.values.dtype)
            values[valid] = column.values
            return UniformColumn(values, valid)
        case RaggedColumn():
            return RaggedColumn(column.values, _spread_shapes(column.shapes, valid, shape), valid)
        case EncodedColumn():
            shapes = column.shapes
            if shapes is not None:
                shapes = _spread_shapes(shapes, valid, shape)
            remaining = iter(column.samples)
            samples = [next(remaining) if is_valid else b"" for is_valid in valid.tolist()]
            if column.maps is None:
                return EncodedColumn(samples, shapes, valid)
            maps = iter(column.maps)
            spread = [next(maps) if is_valid else None for is_valid in valid.tolist()]
            return EncodedColumn(samples, shapes, valid, spread)


def with_value(column: Column, filled: Column) -> Column:
    """Replace the NULLs of `column` by the one sample of `filled`."""
    valid = column.valid
    assert valid is not None
    if isinstance(column, UniformColumn) and isinstance(filled, UniformColumn):
        values = column.values.copy()
        values[~valid] = filled.values[0]
        return UniformColumn(values)
    if isinstance(column, RaggedColumn) and isinstance(filled, RaggedColumn):
        shapes = np.where(valid[:, None], column.shapes, filled.shapes)
        lengths = sizes_of(shapes)
        own = np.repeat(valid, lengths)
        values = np.empty(int(lengths.sum()), dtype=column.values.dtype)
        values[own] = column.values
        values[~own] = np.tile(filled.values, len(valid) - int(np.count_nonzero(valid)))
        return RaggedColumn(values, shapes)
    assert isinstance(column, EncodedColumn)
    assert isinstance(filled, EncodedColumn)
    pairs = zip(column.samples, valid.tolist(), strict=True)
    samples = [sample if own else filled.samples[0] for sample, own in pairs]
    if filled.maps is None:
        return EncodedColumn(samples)
    pairs = zip(column.maps or [None] * len(valid), valid.tolist(), strict=True)
    return EncodedColumn(samples, maps=[one if own else filled.maps[0] for one, own in pairs])


def _spread_shapes(
    shapes: np.ndarray, valid: np.ndarray, shape: tuple[int | None, ...]
) -> np.ndarray:
    spread = np.empty((len(valid), len(shape)), dtype=np.int64)
    spread[:] = tuple(length or 0 for length in shape)
    spread[valid] = shapes
    return spread
