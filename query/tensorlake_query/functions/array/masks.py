"""Masks compared pixel by pixel: IOU and INTERSECTS of booleans.

A mask is booleans (height, width), several are (n, height, width): BinaryMask, InstanceMask, or
a comparison such as `segments = 2`. Each mask of `a` meets each of `b` of the same row. Rows whose
masks have one size are compared together, by one matrix product of their pixels.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tensorlake_query.functions.registry import Site
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, ColumnType, RaggedBatch, UniformBatch
from tensorlake_query.values.types import describe, number
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    all_valid,
    as_ragged,
    conform,
    counts_of,
    starts_of,
    take,
)

PAIR_NBYTES = 48  # of two masks: their answer, what they share, what either has
PIXEL_NBYTES = 8  # to be multiplied
PIXELS = 2  # a mask's own dimensions: height and width

Measure = Callable[[AnyArray, AnyArray], AnyArray]  # shared pixels, pixels of either → answer


def is_mask(column_type: ColumnType) -> bool:
    """Tell whether samples are one mask or several."""
    return column_type.kind == "bool" and len(column_type.shape) >= PIXELS


def bind_mask_pairs(site: Site, measure: Measure, dtype: str) -> Bound:
    """Bind a comparison of every mask of one argument with every mask of the other."""
    for arg in site.args:
        if not is_mask(arg.type):
            raise site.fail(
                f"masks are compared with masks, and {show(arg)} is {describe(arg.type)}",
                at=arg,
                hint=f"write {show(arg)} = 1, or another condition on its pixels",
            )
    left, right = (arg.type.shape[:-PIXELS] for arg in site.args)
    shape = (*left, *right)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        valid = all_valid(vectors)
        a, b = (as_ragged(vector) for vector in vectors)
        _check_sizes(a, b, valid)
        pairs = np.concatenate([a.shapes[:, :-PIXELS], b.shapes[:, :-PIXELS]], axis=1)
        if valid is not None:
            pairs[~valid] = 0
        values = _compared(a, b, counts_of(pairs), measure).astype(dtype)
        if not shape:
            return UniformBatch(values, valid)
        result = RaggedBatch(values, pairs, valid)
        if None in shape:
            return result
        return conform(result, tuple(size or 0 for size in shape))

    nullable = any(arg.type.nullable for arg in site.args)
    return site.apply(kernel, number(dtype, shape, nullable=nullable), cost=4096.0)


def _compared(a: RaggedBatch, b: RaggedBatch, counts: AnyArray, measure: Measure) -> AnyArray:
    charge(int(counts.sum()) * PAIR_NBYTES)
    answers = np.zeros(int(counts.sum()))
    starts = starts_of(counts)
    sizes = np.concatenate([a.shapes, b.shapes], axis=1)
    filled = (counts > 0) & (a.shapes[:, -PIXELS:] == b.shapes[:, -PIXELS:]).all(axis=1)
    rows = np.flatnonzero(filled)
    distinct, which = np.unique(sizes[rows], axis=0, return_inverse=True)
    for number_of_size in range(len(distinct)):
        alike = rows[which.reshape(-1) == number_of_size]
        first, second = _pixels(a, alike), _pixels(b, alike)
        shared = first @ second.transpose(0, 2, 1)
        either = first.sum(axis=2)[:, :, None] + second.sum(axis=2)[:, None, :] - shared
        places = starts[alike][:, None] + np.arange(shared[0].size)
        answers[places] = measure(shared, either).reshape(len(alike), -1)
    return answers


def _pixels(masks: RaggedBatch, rows: AnyArray) -> AnyArray:
    """Return the masks of rows of one size as (row, mask, pixel), ready to be multiplied."""
    charge(int(counts_of(masks.shapes[rows]).sum()) * PIXEL_NBYTES)
    chosen = take(masks, rows)
    *many, height, width = masks.shapes[rows[0]].tolist()
    return chosen.values.reshape(len(rows), math.prod(many), height * width).astype(np.float64)


def _check_sizes(a: RaggedBatch, b: RaggedBatch, valid: AnyArray | None) -> None:
    differs = (a.shapes[:, -PIXELS:] != b.shapes[:, -PIXELS:]).any(axis=1)
    differs &= (counts_of(a.shapes[:, :-PIXELS]) > 0) & (counts_of(b.shapes[:, :-PIXELS]) > 0)
    if valid is not None:
        differs &= valid
    if differs.any():
        position = int(np.flatnonzero(differs)[0])
        first, second = (
            "×".join(map(str, one.shapes[position, -PIXELS:].tolist())) for one in (a, b)
        )
        raise RowError(f"a mask of {first} pixels and one of {second}", position)
