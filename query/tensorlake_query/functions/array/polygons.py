"""Polygons: their AREA, and the INTERSECTION of each pair.

A polygon is an array (n, 2) of corners, the last joined to the first; a column of polygons has
several in a row. What two have in common is found without clipping. The points above a base line
and below an edge are a trapezoid, and a polygon is the sum of the trapezoids of its edges, those of
edges that lead left counted negatively. So the area that two polygons share is the sum, over each
edge of one and each of the other, of the area that their trapezoids share, an integral of the lower
of two lines. It is exact for any polygons that do not cross themselves.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from msgspec import Struct

from tensorlake_query.functions.array.geometry import bind_area, bind_pairs, shaped
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.values.bound import Bound
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoolArray, ColumnType, IntArray, RaggedBatch
from tensorlake_query.values.types import Shape, number
from tensorlake_query.values.vectors import Vector, all_valid, as_ragged, counts_of, starts_of

XY = 2
NOISE = 1e-12  # of both areas: what rounding leaves of trapezoids that cancel each other
EDGES_NBYTES = 200  # of two edges: their ends, lines and integral
LEFT, LEFT_Y, RIGHT, RIGHT_Y, SIGN = range(5)  # of an edge, from left to right


class Outlines(Struct, frozen=True):
    """The polygons of a batch.

    Attributes:
        points: corners, end to end, float64 (n, 2).
        corners: the number of corners of each polygon.
        in_row: the number of polygons of each row.
    """

    points: AnyArray
    corners: IntArray
    in_row: IntArray

    @staticmethod
    def of(vector: Vector, column_type: ColumnType) -> "Outlines":
        """Return the polygons of a vector: one a row of an array (n, 2), several of a column."""
        if not column_type.has_polygons:
            ragged = as_ragged(vector)
            points = ragged.values.reshape(-1, XY).astype(np.float64, copy=False)
            return Outlines(points, ragged.shapes[:, 0], np.ones(len(ragged.shapes), np.int64))
        rows = cast("list[Sequence[AnyArray] | None]", vector.values.tolist())
        every = [outline for row in rows for outline in row or ()]
        corners = np.array([len(outline) for outline in every], np.int64)
        points = np.concatenate([np.zeros((0, XY)), *every])
        return Outlines(points, corners, np.array([len(row or ()) for row in rows], np.int64))

    def following(self) -> AnyArray:
        """Return the corner after each, the first after the last."""
        places = np.arange(1, len(self.points) + 1)
        filled = self.corners > 0
        starts = starts_of(self.corners)
        places[(starts + self.corners)[filled] - 1] = starts[filled]
        return self.points[places]

    def areas(self) -> AnyArray:
        """Return the area of each polygon; negative where it is drawn the other way."""
        polygon = np.repeat(np.arange(len(self.corners)), self.corners)
        start = self.points[starts_of(self.corners)[polygon]]  # to lose nothing far from 0
        here, there = self.points - start, self.following() - start
        crossed = here[:, 1] * there[:, 0] - here[:, 0] * there[:, 1]
        return np.bincount(polygon, crossed, len(self.corners)) / 2

    def corners_in_row(self) -> IntArray:
        """Return the number of corners, and of edges, of each row."""
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.corners)])
        stops = np.cumsum(self.in_row)
        return before[stops] - before[stops - self.in_row]

    def place_of(self, corner: IntArray, row: IntArray) -> IntArray:
        """Return which polygon of its row a corner is of."""
        polygon = np.repeat(np.arange(len(self.corners)), self.corners)
        return polygon[corner] - starts_of(self.in_row)[row]

    def less(self, origins: AnyArray) -> "Outlines":
        """Return the polygons moved, those of each row by its own origin."""
        row = np.repeat(np.arange(len(origins)), self.corners_in_row())
        return Outlines(self.points - origins[row], self.corners, self.in_row)

    def edges(self) -> AnyArray:
        """Return each edge from left to right, and whether it leads there: (n, 5)."""
        here, there = self.points, self.following()
        leads_right = here[:, :1] <= there[:, :1]
        ends = np.where(leads_right, np.hstack([here, there]), np.hstack([there, here]))
        return np.hstack([ends, np.where(leads_right, 1.0, -1.0)])


def is_polygon(column_type: ColumnType) -> bool:
    """Return whether samples are polygons: an array (n, 2), or a column of several."""
    is_array = len(column_type.shape) == XY and column_type.shape[-1] == XY
    return column_type.has_polygons or (is_array and column_type.kind == "number")


def _bind_area(site: Site) -> Bound:
    return _bind_polygon_area(site) if is_polygon(site.args[0].type) else bind_area(site)


def _bind_intersection(site: Site) -> Bound:
    if any(is_polygon(arg.type) for arg in site.args):
        return _bind_polygon_pairs(site)
    return bind_pairs(site, lambda shared, _either: shared, "float64")


def _bind_polygon_area(site: Site) -> Bound:
    """Bind the area of each polygon."""
    polygon = site.args[0]
    shape = _items(polygon.type)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        outlines = Outlines.of(vectors[0], polygon.type)
        areas = np.abs(outlines.areas())
        like = RaggedBatch(areas, outlines.in_row[:, None], vectors[0].valid)
        return shaped(areas, like.shapes, shape, like)

    column_type = number("float64", shape, nullable=polygon.type.nullable)
    return site.apply(kernel, column_type, cost=16.0)


def _bind_polygon_pairs(site: Site) -> Bound:
    """Bind the area that each polygon of one argument shares with each of the other."""
    types = [arg.type for arg in site.args]
    for arg in site.args:
        if not is_polygon(arg.type):
            raise site.fail("polygons meet polygons, arrays (n, 2) of corners", at=arg)
    shape = (*_items(types[0]), *_items(types[1]))

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        valid = all_valid(vectors)
        a, b = (
            Outlines.of(each, column_type) for each, column_type in zip(vectors, types, strict=True)
        )
        pairs = a.in_row * b.in_row
        shared = _shared(a, b, pairs)
        kept = [one.in_row for one, kind in zip((a, b), types, strict=True) if kind.has_polygons]
        shapes = np.stack(kept, axis=1) if kept else np.zeros((len(pairs), 0), np.int64)
        return of_known(shared, shapes, shape, valid)

    nullable = any(column_type.nullable for column_type in types)
    return site.apply(kernel, number("float64", shape, nullable=nullable), cost=256.0)


def of_known(answers: AnyArray, shapes: IntArray, shape: Shape, valid: BoolArray | None) -> Vector:
    """Return flat answers as samples; arrays that are NULL have none."""
    if shape and valid is not None:
        answers = answers[np.repeat(valid, counts_of(shapes))]
        shapes = np.where(valid[:, None], shapes, 0)
    return shaped(answers, shapes, shape, RaggedBatch(answers, shapes, valid))


def _items(column_type: ColumnType) -> Shape:
    return (None,) if column_type.has_polygons else ()


def _shared(a: Outlines, b: Outlines, pairs: IntArray) -> AnyArray:
    """Return the area that each pair of a row shares, row after row."""
    edges_in_row = [one.corners_in_row() for one in (a, b)]
    origins = np.zeros((len(pairs), XY))
    drawn = edges_in_row[0] > 0
    origins[drawn] = a.points[starts_of(edges_in_row[0])[drawn]]
    a, b = a.less(origins), b.less(origins)
    charge(int((edges_in_row[0] * edges_in_row[1]).sum()) * EDGES_NBYTES)
    row, first, second = paired(*edges_in_row)
    cell = starts_of(pairs)[row] + a.place_of(first, row) * b.in_row[row] + b.place_of(second, row)
    sums = np.bincount(cell, _under_both(a.edges()[first], b.edges()[second]), int(pairs.sum()))
    _, left, right = paired(a.in_row, b.in_row)
    one, other = a.areas()[left], b.areas()[right]
    shared = sums * np.sign(one) * np.sign(other)
    one, other = np.abs(one), np.abs(other)
    shared[shared < NOISE * (one + other)] = 0
    return np.minimum(shared, np.minimum(one, other))


def paired(left: IntArray, right: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Pair the items of each row, so many on the left, with all of its items on the right.

    Returns:
        The row of each pair, and the number of either item among those of all rows.
    """
    counts = left * right
    row = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(row)) - np.repeat(starts_of(counts), counts)
    wide = right[row]
    return row, starts_of(left)[row] + place // wide, starts_of(right)[row] + place % wide


def _under_both(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return the signed area below both edges of each pair, above the lowest of their ends."""
    low, high = np.maximum(a[:, LEFT], b[:, LEFT]), np.minimum(a[:, RIGHT], b[:, RIGHT])
    width = np.maximum(high - low, 0)
    first, second = (_line(edges, (low, high)) for edges in (a, b))
    begin, end = first[0] - second[0], first[1] - second[1]
    both = np.abs(begin) + np.abs(end)
    crosses = begin * end < 0
    squares = np.divide(begin**2 + end**2, both, out=np.zeros_like(both), where=both > 0)
    apart = np.where(crosses, squares, both) / 2
    heights = (first[0] + first[1] + second[0] + second[1]) / 2
    return a[:, SIGN] * b[:, SIGN] * width * (heights - apart) / 2


def _line(edges: AnyArray, at: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray]:
    """Return the height of edges at two places; of upright ones anything: they have no width."""
    run = edges[:, RIGHT] - edges[:, LEFT]
    slope = np.divide(
        edges[:, RIGHT_Y] - edges[:, LEFT_Y], run, out=np.zeros_like(run), where=run > 0
    )
    first, second = (edges[:, LEFT_Y] + (x - edges[:, LEFT]) * slope for x in at)
    return first, second


FUNCTIONS = (
    Function("AREA", "AREA(boxes)", "Area of each box, or polygon.", (1, 1), _bind_area),
    Function(
        "INTERSECTION",
        "INTERSECTION(a, b)",
        "Area that each pair of boxes, polygons or masks of the row shares.",
        (2, 2),
        _bind_intersection,
    ),
)
