"""Places in an image: CENTER, NORMALIZE, POLYGON_CONTAINS.

`NORMALIZE(boxes, [x, y, width, height])` gives the coordinates of boxes in a window, from 0 to 1,
as when `image[y:y + height, x:x + width]` is cut out. `NORMALIZE(x)` makes vectors of length 1.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query.functions.array.geometry import corners_of, picked, required_boxes, shaped
from tensorlake_query.functions.array.polygons import Outlines, of_known, paired
from tensorlake_query.functions.array.reductions import runs_along, shaped_as
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import required_number
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, RaggedBatch, UniformBatch
from tensorlake_query.values.types import describe, number
from tensorlake_query.values.vectors import Vector, all_valid, as_ragged, counts_of, starts_of

XY = 2
CROSSED_NBYTES = 160  # of a point and an edge: both ends of it, where they meet


def _bind_center(site: Site) -> Bound:
    boxes = required_boxes(site, site.args[0])
    shape = (*boxes.type.shape[:-1], XY)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        ragged = as_ragged(vectors[0])
        corners = corners_of(ragged, boxes.type.box_format)
        centers = (corners[:, :XY] + corners[:, XY:]) / 2
        shapes = ragged.shapes.copy()
        shapes[:, -1] = XY
        return shaped(centers.reshape(-1), shapes, shape, ragged)

    column_type = number("float64", shape, nullable=boxes.type.nullable)
    return site.apply(kernel, column_type, args=(boxes,), cost=4.0)


def _bind_normalize(site: Site) -> Bound:
    if len(site.args) == 1:
        return _bind_unit(site)
    boxes, window = required_boxes(site, site.args[0]), site.args[1]
    given = np.asarray(window.value) if isinstance(window, Constant) else np.zeros(0)
    if given.shape != (4,) or not (given[XY:] > 0).all():
        raise site.fail(
            "NORMALIZE takes boxes and a window [x, y, width, height]",
            at=window,
            hint="write NORMALIZE(boxes, [100, 100, 400, 400])",
        )
    origin = np.concatenate([given[:XY], given[:XY]]).astype(np.float64)
    if boxes.type.box_format in {"xywh", "cxcywh"}:
        origin[XY:] = 0  # a size has no place
    scale = np.concatenate([given[XY:], given[XY:]]).astype(np.float64)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        vector = vectors[0]
        values = (vector.values.reshape(-1, 4) - origin) / scale
        return replace(vector, values=values.reshape(vector.values.shape))

    column_type = replace(boxes.type, dtype="float64", kind="number")
    return site.apply(kernel, column_type, args=(boxes, window), cost=4.0)


def _bind_unit(site: Site) -> Bound:
    operand = required_number(site, site.args[0])
    if not operand.type.shape:
        shown = f"{show(operand)} is {describe(operand.type)}"
        raise site.fail(f"a vector is needed, and {shown}", at=operand)
    given = np.dtype(operand.type.dtype)
    dtype = given if given.kind == "f" else np.dtype(np.float64)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        vector = vectors[0]
        if isinstance(vector, UniformBatch):
            values = vector.values.astype(dtype, copy=False)
            length = np.sqrt((values * values).sum(axis=-1, keepdims=True))
            return UniformBatch((values / length).astype(dtype, copy=False), vector.valid)
        runs = np.repeat(vector.shapes[:, -1], counts_of(vector.shapes[:, :-1]))
        values = vector.values.astype(dtype, copy=False)
        squares = np.zeros(len(runs), dtype)
        filled = runs > 0
        if filled.any():
            squares[filled] = np.add.reduceat(values * values, starts_of(runs)[filled])
        return replace(vector, values=values / np.repeat(np.sqrt(squares), runs))

    column_type = number(dtype, operand.type.shape, nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand,), cost=4.0)


def _bind_polygon_contains(site: Site) -> Bound:
    if site.args[0].type.has_polygons:
        return _bind_outlines_contain(site)
    polygon, points = (required_number(site, arg) for arg in site.args)
    if len(polygon.type.shape) != XY or polygon.type.shape[-1] != XY:
        raise site.fail(
            f"a polygon is an array (n, 2) of corners, and {show(polygon)} is "
            f"{describe(polygon.type)}",
            at=polygon,
        )
    _check_points(site, points)
    rest = points.type.shape[:-1]

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        valid = all_valid(vectors)
        corners, places = (as_ragged(vector) for vector in vectors)
        pairs = np.concatenate([corners.shapes[:, :1], places.shapes[:, :-1]], axis=1)
        if valid is not None:
            pairs[~valid] = 0
        charge(int(counts_of(pairs).sum()) * CROSSED_NBYTES)
        edge = picked(corners, pairs, 0)
        point = picked(places, pairs, 1)
        crossed = _crosses(corners, edge, places.values.reshape(-1, XY)[point])
        values, runs, kept = runs_along(RaggedBatch(crossed, pairs, valid), 0)
        odd = np.zeros(len(runs), np.bool_)
        filled = runs > 0
        if filled.any():
            sums = np.add.reduceat(values.astype(np.int64), starts_of(runs)[filled])
            odd[filled] = sums % 2 == 1
        like = RaggedBatch(crossed, pairs, valid)
        return shaped_as(odd, np.ones(len(odd), np.bool_), kept, like, rest)

    nullable = polygon.type.nullable or points.type.nullable
    column_type = number("bool", rest, nullable=nullable)
    return site.apply(kernel, column_type, args=(polygon, points), cost=64.0)


def _check_points(site: Site, points: Bound) -> None:
    if points.type.shape[-1:] != (XY,):
        shown = f"{show(points)} is {describe(points.type)}"
        raise site.fail(f"points [x, y] are needed, and {shown}", at=points)


def _bind_outlines_contain(site: Site) -> Bound:
    """Bind it for a column of polygons: each polygon of a row meets each point."""
    polygons, points = site.args[0], required_number(site, site.args[1])
    _check_points(site, points)
    shape = (None, *points.type.shape[:-1])

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        valid = all_valid(vectors)
        outlines, places = Outlines.of(vectors[0], polygons.type), as_ragged(vectors[1])
        corners, in_row = outlines.corners_in_row(), counts_of(places.shapes[:, :-1])
        pairs = outlines.in_row * in_row
        charge(int((corners * in_row).sum()) * CROSSED_NBYTES)
        row, edge, point = paired(corners, in_row)
        start, stop = outlines.points[edge], outlines.following()[edge]
        crossed = _crossed(start, stop, places.values.reshape(-1, XY)[point])
        within = point - starts_of(in_row)[row]
        cell = starts_of(pairs)[row] + outlines.place_of(edge, row) * in_row[row] + within
        odd = np.bincount(cell, crossed, int(pairs.sum())) % 2 == 1
        shapes = np.concatenate([outlines.in_row[:, None], places.shapes[:, :-1]], axis=1)
        return of_known(odd, shapes, shape, valid)

    nullable = polygons.type.nullable or points.type.nullable
    column_type = number("bool", shape, nullable=nullable)
    return site.apply(kernel, column_type, args=(polygons, points), cost=64.0)


def _crosses(corners: RaggedBatch, edge: AnyArray, point: AnyArray) -> AnyArray:
    counts = corners.shapes[:, 0]
    flat = corners.values.reshape(-1, XY).astype(np.float64)
    following = np.arange(len(flat)) + 1
    stops = np.cumsum(counts)
    filled = counts > 0
    following[stops[filled] - 1] = (stops - counts)[filled]  # the last corner joins the first
    return _crossed(flat[edge], flat[following[edge]], point)


def _crossed(start: AnyArray, stop: AnyArray, point: AnyArray) -> AnyArray:
    """Return which edges a ray from a point to the right crosses."""
    x, y = point[:, 0], point[:, 1]
    spans = (start[:, 1] > y) != (stop[:, 1] > y)
    rise = np.where(spans, stop[:, 1] - start[:, 1], 1.0)
    at = start[:, 0] + (y - start[:, 1]) * (stop[:, 0] - start[:, 0]) / rise
    return spans & (x < at)


FUNCTIONS = (
    Function("CENTER", "CENTER(boxes)", "Middle [x, y] of each box.", (1, 1), _bind_center),
    Function(
        "NORMALIZE",
        "NORMALIZE(boxes, [x, y, width, height])",
        "Boxes in a window, from 0 to 1; NORMALIZE(x) makes vectors of length 1.",
        (1, 2),
        _bind_normalize,
    ),
    Function(
        "POLYGON_CONTAINS",
        "POLYGON_CONTAINS(polygon, points)",
        "Do the points [x, y] lie inside the polygon.",
        (2, 2),
        _bind_polygon_contains,
    ),
)
