"""From outlines to runs of pixels, as the COCO API fills polygons (``rleFrPoly``).

A polygon is drawn on a grid five times finer: every point of its edges is listed, and each step
from one fine column to the next crosses a pixel column's middle or not. Sorted, the crossings
are where the mask changes, and the distances between them are its runs: no pixel is filled. The
same pixels as the COCO API's come out, so that masks compare with those of other programs bit by
bit. Outlines of many objects are drawn together, in a few passes over all of their points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.types.run_lengths import decode_run_lengths

__all__ = ["fill_polygons", "polygon_runs"]

Int64Array = npt.NDArray[np.int64]

_SCALE = 5.0
_MIN_POINTS = 3
_MAX_STEPS = 1 << 24
"""Fine points of one object: a hundred times round a picture of 8,000 × 8,000 pixels."""
_STEPS_AT_ONCE = 1 << 20
"""Fine points drawn together: some 100 MB of arrays."""
_PLACE = 1 << 40
"""More than a picture has pixels: polygons' crossings are sorted as one array."""


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
    (runs,) = polygon_runs([polygons], [(height, width)])
    return decode_run_lengths({"size": [height, width], "counts": runs})


def polygon_runs(
    objects: Sequence[Sequence[Any]], sizes: Sequence[tuple[int, int]]
) -> list[Int64Array]:
    """Return the runs of each object's mask: lengths of 0 and 1 in turn, columns first.

    Args:
        objects: The outlines of each, as for `fill_polygons`.
        sizes: Height and width of the picture that each lies on.

    >>> [runs.tolist() for runs in polygon_runs([[[0, 0, 2, 0, 2, 2, 0, 2]], []], [(3, 3)] * 2)]
    [[0, 2, 1, 2, 4], [9]]

    Raises:
        ValueError: An outline is not of points, or has fewer than three; ``args[1]`` is the number
            of the object.
    """
    outlines = [
        _points(outline, one) for one, polygons in enumerate(objects) for outline in polygons
    ]
    owners = np.repeat(np.arange(len(objects)), [len(polygons) for polygons in objects])
    lengths = _steps(outlines, owners)
    changes: list[Int64Array] = []
    start = 0
    while start < len(outlines):
        total = np.cumsum(lengths[start:])
        stop = start + max(1, int(np.searchsorted(total, _STEPS_AT_ONCE, side="right")))
        shapes = np.array([sizes[one] for one in owners[start:stop]], np.int64)
        changes += _changes(_Drawn.of(outlines[start:stop]), shapes)
        start = stop
    firsts = np.searchsorted(owners, np.arange(len(objects) + 1)).tolist()
    return [
        _runs(changes[firsts[one] : firsts[one + 1]], height * width)
        for one, (height, width) in enumerate(sizes)
    ]


def _points(outline: Any, owner: int) -> npt.NDArray[np.float64]:
    """An outline's coordinates, flat."""
    flat = outline
    if len(outline) and hasattr(outline[0], "__len__"):
        flat = list(chain.from_iterable(outline))
    points = np.array(flat, dtype=np.float64).reshape(-1)
    if len(points) % 2 or len(points) < 2 * _MIN_POINTS:
        raise ValueError(f"an outline of {len(points) / 2:g} points", owner)
    if not bool(np.isfinite(points).all()):
        raise ValueError("an outline with a coordinate that is no number", owner)
    return points


def _steps(outlines: Sequence[npt.NDArray[np.float64]], owners: Int64Array) -> Int64Array:
    """How many fine points each outline has, at most."""
    lengths = np.zeros(len(outlines), np.int64)
    for at, points in enumerate(outlines):
        spread = np.abs(np.diff(points.reshape(-1, 2), axis=0)).sum() * 2
        if spread * _SCALE > _MAX_STEPS:
            raise ValueError(f"an outline {spread:.0f} pixels long", int(owners[at]))
        lengths[at] = int(spread * _SCALE) + len(points)
    return lengths


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Every fine point of some outlines' edges, in order, each with the number of its outline."""

    outline: Int64Array
    x: Int64Array
    y: Int64Array

    @classmethod
    def of(cls, outlines: Sequence[npt.NDArray[np.float64]]) -> _Drawn:
        fine = (_SCALE * np.concatenate(outlines) + 0.5).astype(np.int64).reshape(-1, 2)
        counts = np.array([len(points) // 2 for points in outlines])
        ends = np.cumsum(counts)
        following = np.arange(1, len(fine) + 1)
        following[ends - 1] = ends - counts  # the last point is followed by the first
        edge, x, y = _along_edges(fine, fine[following])
        return cls(np.repeat(np.arange(len(outlines)), counts)[edge], x, y)


def _along_edges(start: Int64Array, stop: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """List every fine point of the edges, one step along the longer axis each."""
    xs, ys, xe, ye = start[:, 0], start[:, 1], stop[:, 0], stop[:, 1]
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
    # Along the longer axis steps are whole; across it C truncates toward zero, and these sums are
    # not negative where pixels are
    across = (np.where(is_flat, ys, xs)[edge] + slope[edge] * at + 0.5).astype(np.int64)
    longer = at + np.where(is_flat, xs, ys)[edge]
    flat = is_flat[edge]
    return edge, np.where(flat, longer, across), np.where(flat, across, longer)


def _changes(drawn: _Drawn, shapes: Int64Array) -> list[Int64Array]:
    """Where, counting columns first, the mask of each outline changes."""
    before, after = drawn.x[:-1], drawn.x[1:]
    steps = np.flatnonzero((after != before) & (drawn.outline[1:] == drawn.outline[:-1]))
    before, after = before[steps], after[steps]
    column = np.where(after < before, after, after - 1)
    column = (column + 0.5) / _SCALE - 0.5
    outline = drawn.outline[steps]
    height, width = shapes[outline, 0], shapes[outline, 1]
    inside = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    kept = np.flatnonzero(inside)
    steps, column, outline, height = steps[kept], column[kept], outline[kept], height[kept]
    row = np.minimum(drawn.y[steps], drawn.y[steps + 1])
    row = np.ceil(np.clip((row + 0.5) / _SCALE - 0.5, 0, height))
    place = (column * height + row).astype(np.int64)
    within = place < height * width[kept]
    places = np.sort(outline[within] * _PLACE + place[within])
    # A place crossed twice does not change
    first = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]])[: len(places)])
    often = np.diff(np.concatenate([first, [len(places)]]))
    changing = places[first[often % 2 == 1]]
    ends = np.searchsorted(changing, np.arange(1, len(shapes)) * _PLACE)
    return np.split(changing % _PLACE, ends)


def _runs(changes: Sequence[Int64Array], pixels: int) -> Int64Array:
    """The runs of what some outlines cover together."""
    if not changes:
        return np.array([pixels] if pixels else [], np.int64)
    places = changes[0] if len(changes) == 1 else _united(changes, pixels)
    return np.diff(places, prepend=0, append=pixels)


def _united(changes: Sequence[Int64Array], pixels: int) -> Int64Array:
    """Where the union of several masks changes."""
    even = [np.append(one, pixels) if len(one) % 2 else one for one in changes]
    places = np.concatenate(even)
    steps = np.concatenate([np.where(np.arange(len(one)) % 2 == 0, 1, -1) for one in even])
    order = np.lexsort((-steps, places))  # where one begins as another ends there is no change
    depth = np.cumsum(steps[order])
    borders = (depth == 0) | ((depth == 1) & (steps[order] == 1))
    united = places[order][borders]
    return united[united < pixels]
