"""Polygons move with their image, clipped to what is left of it (Sutherland and Hodgman, 1974).

A concave polygon that the border cuts into several pieces stays one: its pieces are joined along
the border, which changes neither its pixels nor its area.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.decode.annotations.boxes import MIN_AREA

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry import Placement

__all__ = ["move_polygons"]


def move_polygons(
    polygons: Sequence[NDArray[np.floating]], placement: Placement
) -> tuple[list[NDArray[np.float32]], NDArray[np.bool_]]:
    """Move polygons (points, 2) as ``placement`` moves the image.

    Returns:
        All polygons, clipped; and which of them keep at least one square pixel.
    """
    left, top, right, bottom = placement.visible
    limits = (left, right), (top, bottom)
    moved: list[NDArray[np.float32]] = []
    kept = np.zeros(len(polygons), np.bool_)
    for number, polygon in enumerate(polygons):
        points = np.array(polygon, np.float64).reshape(-1, 2)
        placement.move_points(points)
        clipped = _clipped(points, limits)
        kept[number] = _area(clipped) >= MIN_AREA
        moved.append(clipped.astype(np.float32))
    return moved, kept


def _clipped(
    points: NDArray[np.float64], limits: tuple[tuple[int, int], tuple[int, int]]
) -> NDArray[np.float64]:
    for axis, (low, high) in enumerate(limits):
        for bound, sign in ((low, 1), (high, -1)):
            inside = (points[:, axis] - bound) * sign >= 0
            if not inside.all():
                points = _cut(points, inside, axis, bound)
    return points


def _cut(
    points: NDArray[np.float64], inside: NDArray[np.bool_], axis: int, bound: int
) -> NDArray[np.float64]:
    """Keep the part of a polygon on one side of a line, with a point where an edge crosses it."""
    following, follows_inside = np.roll(points, -1, axis=0), np.roll(inside, -1)
    crosses = inside != follows_inside
    steps = following[crosses] - points[crosses]
    share = (bound - points[crosses, axis]) / steps[:, axis]
    crossings = points[crosses] + share[:, None] * steps
    crossings[:, axis] = bound
    order = np.concatenate([2 * np.flatnonzero(inside), 2 * np.flatnonzero(crosses) + 1])
    return np.concatenate([points[inside], crossings])[np.argsort(order)]


def _area(points: NDArray[np.float64]) -> float:
    x, y = points[:, 0], points[:, 1]
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
