"""Stacks: samples of several rows as one array with a new first axis, and the way back.

The result of GROUP BY for a column that is not a key, and the input of UNGROUP BY. Numbers become
arrays `(None, *shape)`; text, JSON and bytes become JSON lists, whose type remembers the element's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from tensorlake_query.values.source import ColumnType, IntArray, RaggedBatch, UniformBatch
from tensorlake_query.values.types import JSON
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    as_ragged,
    conform,
    counts_of,
    object_array,
    python_values,
    starts_of,
    strides_of,
    valid_of,
    walk,
)


def stacked_type(column_type: ColumnType) -> ColumnType:
    """Return the type of a stack of samples."""
    if column_type.dtype is None:
        return replace(JSON, nullable=False, element=column_type)
    return replace(
        column_type, shape=(None, *column_type.shape), nullable=False, element=column_type
    )


def element_type(column_type: ColumnType) -> ColumnType:
    """Return the type of what UNGROUP BY takes out of a sample."""
    if column_type.element is not None:
        return column_type.element
    return replace(column_type, shape=column_type.shape[1:], nullable=False)


def stacked(samples: Vector, counts: IntArray) -> Vector:
    """Stack runs of `counts` samples.

    Raises:
        RowError: samples of one run have different shapes, or one is NULL; the position is the run.
    """
    stops = np.cumsum(counts)
    if samples.values.dtype == object and isinstance(samples, UniformBatch):
        values = list(_objects(samples))
        runs = [values[start:stop] for start, stop in zip(stops - counts, stops, strict=True)]
        return UniformBatch(object_array(runs))
    run = np.repeat(np.arange(len(counts)), counts)
    if samples.valid is not None and not samples.valid.all():
        position = int(run[np.flatnonzero(~samples.valid)[0]])
        raise RowError("a NULL cannot be stacked: keep it out by WHERE … IS NOT NULL", position)
    shapes = as_ragged(samples).shapes
    firsts = shapes[stops - counts] if len(shapes) else shapes
    differs = (shapes != firsts[run]).any(axis=1)
    if differs.any():
        at = int(np.flatnonzero(differs)[0])
        shown = f"{tuple(firsts[run[at]].tolist())} and {tuple(shapes[at].tolist())}"
        raise RowError(f"samples of shapes {shown} cannot be stacked", int(run[at]))
    flat = samples.values.reshape(-1)
    return RaggedBatch(flat, np.concatenate([counts[:, None], firsts], axis=1))


def first_sizes(shapes: Vector) -> IntArray:
    """Return how many elements each sample has along its first axis; none where it is NULL."""
    sizes = shapes.values[:, 0].astype(np.int64)
    return sizes if shapes.valid is None else np.where(shapes.valid, sizes, 0)


def list_lengths(samples: Vector) -> IntArray:
    """Return how many elements each list of texts or JSON has; none where it is NULL or no list."""
    if isinstance(samples, RaggedBatch):
        return np.where(valid_of(samples), samples.shapes[:, 0], 0)
    lengths = [
        len(cast("list[object]", each)) if isinstance(each, list) else 0
        for each in _objects(samples)
    ]
    return np.array(lengths, np.int64)


def element_at(
    samples: Vector, places: IntArray, positions: IntArray, column_type: ColumnType
) -> Vector:
    """Return elements of samples, of the type given: of the sample at each place, one position."""
    if samples.values.dtype == object and isinstance(samples, UniformBatch):
        lists = cast("Sequence[Sequence[object]]", _objects(samples))
        pairs = zip(places.tolist(), positions.tolist(), strict=True)
        chosen = [lists[place][at] for place, at in pairs]
        valid = np.array([each is not None for each in chosen], np.bool_)
        return UniformBatch(object_array(chosen), None if valid.all() else valid)
    ragged = as_ragged(samples)
    strides = strides_of(ragged.shapes)[places]
    base = starts_of(counts_of(ragged.shapes))[places] + positions * strides[:, 0]
    shapes = ragged.shapes[places, 1:]
    if not shapes.shape[1]:
        return UniformBatch(ragged.values[base])
    result = RaggedBatch(ragged.values[walk(base, strides[:, 1:], shapes)], shapes)
    if None in column_type.shape:
        return result
    return conform(result, cast("tuple[int, ...]", column_type.shape))


def _objects(samples: Vector) -> Sequence[object]:
    if samples.valid is None:
        return python_values(samples.values)
    return [
        each if ok else None
        for each, ok in zip(python_values(samples.values), samples.valid, strict=True)
    ]
