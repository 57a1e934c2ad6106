"""Boxes and masks: IOU, INTERSECTS, and what AREA and INTERSECTION make of them.

Four numbers are corners `[x1, y1, x2, y2]` unless the column specifies otherwise (`box_format`:
corner and size, or centre and size); indexing whole boxes keeps the format, arithmetic does not.

`IOU(a, b)` compares every box of `a` with every box of `b` of the same row: (k, 4) and (m, 4) give
(k, m); one box against one box gives one number. A box that is empty or turned inside out has no
area, and an IOU of 0. Truth values (height, width) are masks: see `masks.py`.
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tensorlake_query.functions.array.masks import bind_mask_pairs, is_mask
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import adapted, required_number
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoxFormat, IntArray, RaggedBatch, UniformBatch
from tensorlake_query.values.types import Shape, describe, number
from tensorlake_query.values.vectors import (
    Vector,
    all_valid,
    as_ragged,
    conform,
    counts_of,
    starts_of,
    walk,
)

CORNERS = 4
CORNER_FORMATS = frozenset({None, "xyxy"})
PAIR_NBYTES = 240  # of two boxes: their corners, those they share, three areas, the answer

Measure = Callable[[AnyArray, AnyArray], AnyArray]  # of shared areas and areas of both


def bind_area(site: Site) -> Bound:
    """Bind the area of each box."""
    boxes = required_boxes(site, site.args[0])
    shape = boxes.type.shape[:-1]

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        vector = as_ragged(vectors[0])
        is_plain = boxes.type.box_format in CORNER_FORMATS
        corners = vector.values.reshape(-1, CORNERS) if is_plain else None
        if corners is None or corners.dtype.kind != "f":
            corners = corners_of(vector, boxes.type.box_format)
        return shaped(
            areas_of(corners),
            vector.shapes[:, :-1],
            shape,
            vector,
        )

    column_type = number("float64", shape, nullable=boxes.type.nullable)
    return site.apply(kernel, column_type, args=(boxes,), cost=4.0)


def _bind_pairs(measure: Measure, dtype: str) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        return bind_pairs(site, measure, dtype)

    return bind


def bind_pairs(site: Site, measure: Measure, dtype: str) -> Bound:
    """Bind a comparison of every box, or mask, of one argument with every one of the other."""
    if any(is_mask(arg.type) for arg in site.args):
        return bind_mask_pairs(site, measure, dtype)
    boxes = [required_boxes(site, arg) for arg in site.args]
    formats: list[BoxFormat | None] = [one.type.box_format for one in boxes]
    args = adapted(boxes)
    left, right = (arg.type.shape[:-1] for arg in args)
    shape = (*left, *right)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        valid = all_valid(vectors)
        a, b = (as_ragged(vector) for vector in vectors)
        pairs = np.concatenate([a.shapes[:, :-1], b.shapes[:, :-1]], axis=1)
        if valid is not None:
            pairs[~valid] = 0
        charge(int(counts_of(pairs).sum()) * PAIR_NBYTES)
        first = corners_of(a, formats[0])[picked(a, pairs, 0)]
        second = corners_of(b, formats[1])[picked(b, pairs, a.shapes.shape[1] - 1)]
        shared = shared_areas(first, second)
        values = measure(shared, areas_of(first) + areas_of(second) - shared)
        return shaped(values, pairs, shape, RaggedBatch(values, pairs, valid))

    column_type = number(dtype, shape, nullable=any(arg.type.nullable for arg in args))
    return site.apply(kernel, column_type, args=args, cost=64.0)


def required_boxes(site: Site, expr: Bound) -> Bound:
    """Return an argument as boxes, or fail saying what it is."""
    boxes = required_number(site, expr)
    shape = boxes.type.shape
    if shape[-1:] != (CORNERS,):
        raise site.fail(
            f"boxes [x1, y1, x2, y2] are needed, and {show(expr)} is {describe(expr.type)}", at=expr
        )
    return boxes


def corners_of(boxes: RaggedBatch, box_format: BoxFormat | None) -> AnyArray:
    """Return all boxes of a batch as corners, float64."""
    values = boxes.values.reshape(-1, CORNERS).astype(np.float64, copy=False)
    if box_format in CORNER_FORMATS:
        return values
    place, size = values[:, :2], values[:, 2:]
    low = place - size / 2 if box_format == "cxcywh" else place
    return np.concatenate([low, low + size], axis=1)


def areas_of(corners: AnyArray) -> AnyArray:
    """Return the areas of boxes, float64; of one turned inside out 0."""
    sides = [
        np.subtract(corners[:, axis + 2], corners[:, axis], dtype=np.float64) for axis in (0, 1)
    ]
    for side in sides:
        np.maximum(side, 0, out=side)
    return np.multiply(*sides, out=sides[0])


def shared_areas(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return the areas that pairs of boxes have in common."""
    low, high = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    return areas_of(np.concatenate([low, high], axis=1))


def _overlaps(shared: AnyArray, union: AnyArray) -> AnyArray:
    return np.divide(shared, union, out=np.zeros_like(union), where=union > 0)


def _intersects(shared: AnyArray, _union: AnyArray) -> AnyArray:
    return shared > 0


def picked(items: RaggedBatch, pairs: IntArray, first: int) -> IntArray:
    """Return, for each pair, the number of its item (last axis: one) among all of the batch."""
    own = items.shapes[:, :-1]
    strides = np.zeros_like(pairs)
    step = np.ones(len(own), np.int64)
    for dimension in range(own.shape[1] - 1, -1, -1):
        strides[:, first + dimension] = step
        step = step * own[:, dimension]
    return walk(starts_of(counts_of(own)), strides, pairs)


def shaped(values: AnyArray, shapes: IntArray, shape: Shape, like: RaggedBatch) -> Vector:
    """Return flat answers as samples of `shapes`."""
    if not shape:
        return UniformBatch(values, like.valid)  # fixed boxes are held for NULL rows too
    result = RaggedBatch(values, shapes, like.valid)
    return result if None in shape else conform(result, cast("tuple[int, ...]", shape))


FUNCTIONS = (
    Function(
        "IOU",
        "IOU(a, b)",
        "Intersection over union of each pair of boxes, or of masks, of the row.",
        (2, 2),
        _bind_pairs(_overlaps, "float64"),
    ),
    Function(
        "INTERSECTS",
        "INTERSECTS(a, b)",
        "Do the boxes, or the masks, of each pair share any area.",
        (2, 2),
        _bind_pairs(_intersects, "bool"),
    ),
)
