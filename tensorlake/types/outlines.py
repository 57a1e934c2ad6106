"""From outlines to runs of pixels, as the COCO API fills polygons (``rleFrPoly``).

A polygon is drawn on a grid five times finer: every point of its edges is listed, and each step
from one fine column to the next crosses a pixel column's middle or not. Sorted, the crossings
are where the mask changes. The same pixels as the COCO API's come out, so that masks compare with
those of other programs bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["fill_polygons"]

_SCALE = 5.0
_MIN_POINTS = 3


def fill_polygons(polygons: Sequence[Any], height: int, width: int) -> np.ndarray:
    """Return the mask that some outlines cover together, bool (height, width).

    Args:
        polygons: Each flat x, y, x, y, … or points (x, y).
        height: Of the picture.
        width: Of the picture.

    >>> fill_polygons([[0, 0, 2, 0, 2, 2, 0, 2]], 3, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 0]])

    Raises:
        ValueError: An outline is not of points, or has fewer than three.
    """
    covered = np.zeros((width, height), dtype=np.bool_)
    for polygon in polygons:
        points = np.asarray(polygon, dtype=np.float64).reshape(-1, 2)
        if len(points) < _MIN_POINTS:
            raise ValueError(f"an outline of {len(points)} points")
        crossings = _crossings(points, height, width)
        changes = np.bincount(crossings, minlength=height * width + 1)[: height * width]
        covered |= (np.cumsum(changes) % 2 == 1).reshape(width, height)
    return covered.T


def _crossings(points: np.ndarray, height: int, width: int) -> np.ndarray:
    """Where, counting columns first, the mask changes."""
    fine = (_SCALE * points + 0.5).astype(np.int64)
    x, y = _along_edges(np.concatenate([fine, fine[:1]]))
    before_x, before_y, x, y = x[:-1], y[:-1], x[1:], y[1:]
    steps = x != before_x
    column = np.where(x < before_x, x, x - 1)[steps]
    column = (column + 0.5) / _SCALE - 0.5
    row = np.where(y < before_y, y, before_y)[steps]
    row = np.ceil(np.clip((row + 0.5) / _SCALE - 0.5, 0, height))
    inside = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    return (column[inside] * height + row[inside]).astype(np.int64)


def _along_edges(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List every fine point of the edges, one step along the longer axis each."""
    xs, ys, xe, ye = corners[:-1, 0], corners[:-1, 1], corners[1:, 0], corners[1:, 1]
    dx, dy = np.abs(xe - xs), np.abs(ys - ye)
    is_flat = dx >= dy
    flipped = (is_flat & (xs > xe)) | (~is_flat & (ys > ye))
    xs, xe = np.where(flipped, xe, xs), np.where(flipped, xs, xe)
    ys, ye = np.where(flipped, ye, ys), np.where(flipped, ys, ye)
    steps = np.maximum(dx, dy)
    span = np.where(steps == 0, 1, steps)
    slope = np.where(is_flat, ye - ys, xe - xs) / span
    counts = steps + 1
    edge = np.repeat(np.arange(len(counts)), counts)
    along = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.where(flipped[edge], steps[edge] - along, along)
    across = slope[edge] * at
    flat = is_flat[edge]
    # C truncates toward zero, and these sums are not negative where pixels are
    x = np.where(flat, at + xs[edge], (xs[edge] + across + 0.5).astype(np.int64))
    y = np.where(flat, (ys[edge] + across + 0.5).astype(np.int64), at + ys[edge])
    return x, y
