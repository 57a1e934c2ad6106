"""From outlines to runs of pixels, as the COCO API fills polygons (``rleFrPoly``).

A polygon is drawn on a grid five times finer, and a mask changes where an edge's fine points step
over the middle of a pixel column: of column c from fine column 5 c + 2 to 5 c + 3. Only these steps
are computed, a few an edge, of all edges together:

    flat edge    the step at fine x is one point of it: its row follows from the slope
    steep edge   the first point beyond the middle: the quotient names it, give or take one

Sorted, the crossings are where the mask changes, and the distances between them are its runs: no
pixel is filled. The same pixels as the COCO API's come out, so that masks compare with those of
other programs bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.types.column import offsets_of
from tensorlake.types.run_lengths import MAX_PIXELS, RunTable, decode_run_lengths

__all__ = ["fill_polygons", "polygon_runs"]

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

_SCALE = 5
_BEFORE_MIDDLE = 2
"""The fine column (of a pixel column's five) after which its middle lies; likewise of rows."""
_MIN_POINTS = 3
_MAX_LENGTH = (1 << 24) / _SCALE
"""Pixels that an outline may be long: a hundred times round a picture of 8,000 × 8,000."""
_CROSSINGS_AT_ONCE = 1 << 16
"""Drawn together: their arrays stay in a processor's cache."""
_PLACE_BITS = 31
"""More than a picture has pixels: what is sorted is one array of outline and place."""
_PLACES = (1 << _PLACE_BITS) - 1
_FAR = float(1 << 40)
"""Beyond any picture: where a point that is farther lies changes nothing."""


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
    runs = polygon_runs([polygons], [(height, width)]).runs
    return decode_run_lengths({"size": [height, width], "counts": runs})


def polygon_runs(objects: Sequence[Sequence[Any]], sizes: Sequence[tuple[int, int]]) -> RunTable:
    """Return the runs of each object's mask.

    Args:
        objects: The outlines of each, as for `fill_polygons`.
        sizes: Height and width of the picture that each lies on.

    >>> table = polygon_runs([[[0, 0, 2, 0, 2, 2, 0, 2]], []], [(3, 3)] * 2)
    >>> table.runs.tolist(), table.counts.tolist()
    ([0, 2, 1, 2, 4, 9], [5, 1])

    Raises:
        ValueError: An outline is not of points, or has fewer than three; ``args[1]`` is the number
            of the object.
    """
    shapes = np.array(sizes, np.int64).reshape(-1, 2)
    pixels = _pixels(shapes)
    owners = np.repeat(np.arange(len(objects)), [len(polygons) for polygons in objects])
    outlines = [outline for polygons in objects for outline in polygons]
    points, counts = _points(outlines, owners)
    _check_lengths(points, counts, owners)
    edges = _Edges.of(points, counts, shapes[owners])
    crossings = np.concatenate([np.zeros(0, np.int64), *map(_changes, edges.parts())])
    changes = _of_objects(crossings, owners, pixels)
    return _table(changes, shapes, pixels)


def _pixels(shapes: Int64Array) -> Int64Array:
    """How many pixels each picture has."""
    beyond = np.flatnonzero(
        (shapes < 0).any(axis=1) | (shapes[:, 0].astype(np.float64) * shapes[:, 1] > MAX_PIXELS)
    )
    if len(beyond):
        height, width = shapes[beyond[0]].tolist()
        raise ValueError(f"a picture of {height} × {width} pixels", int(beyond[0]))
    return shapes[:, 0] * shapes[:, 1]


def _points(outlines: Sequence[Any], owners: Int64Array) -> tuple[Float64Array, Int64Array]:
    """All points of the outlines, (points, 2), and how many each outline has."""
    try:
        lengths = np.fromiter(map(len, outlines), np.int64, len(outlines))
        flat = np.fromiter(chain.from_iterable(outlines), np.float64, int(lengths.sum()))
    except (TypeError, ValueError):  # points in pairs; or what is no number, which is told there
        parts = [_flat(outline) for outline in outlines]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        flat = np.concatenate([np.zeros(0), *parts])
    few = np.flatnonzero((lengths % 2 == 1) | (lengths < 2 * _MIN_POINTS))
    if len(few):
        raise ValueError(f"an outline of {lengths[few[0]] / 2:g} points", int(owners[few[0]]))
    points, counts = flat.reshape(-1, 2), lengths // 2
    if not bool(np.isfinite(flat).all()):
        point = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        outline = int(np.searchsorted(np.cumsum(counts), point, side="right"))
        raise ValueError("an outline with a coordinate that is no number", int(owners[outline]))
    return points, counts


def _flat(outline: Any) -> Float64Array:
    nested = len(outline) and hasattr(outline[0], "__len__")
    flat = list(chain.from_iterable(outline)) if nested else outline
    return np.array(flat, dtype=np.float64).reshape(-1)


@dataclass(frozen=True, slots=True)
class _Edges:
    """Edges that cross the middle of a pixel column inside their picture.

    Attributes:
        outline: Whose edge it is.
        height: Of the picture.
        first: The first pixel column whose middle it crosses.
        counts: How many it crosses.
        is_flat: Whether it is no higher than long.
        x, y: Fine place of the end that it is drawn from: the left, or the upper one.
        slope: Of a flat edge rows a column, of a steep one columns a row.
    """

    outline: Int64Array
    height: Int64Array
    first: Int64Array
    counts: Int64Array
    is_flat: npt.NDArray[np.bool_]
    x: Int64Array
    y: Int64Array
    slope: Float64Array

    @classmethod
    def of(cls, points: Float64Array, counts: Int64Array, shapes: Int64Array) -> _Edges:
        """Find the edges of outlines, each with the shape of its picture."""
        ends = np.cumsum(counts)
        following = np.arange(1, len(points) + 1)
        following[ends - 1] = ends - counts  # the last point is followed by the first
        fine = np.clip(_SCALE * points + 0.5, -_FAR, _FAR).astype(np.int64)
        xs, ys = fine[:, 0], fine[:, 1]
        xe, ye = xs[following], ys[following]
        outline = np.repeat(np.arange(len(counts)), counts)
        width = shapes[outline, 1]
        beyond = _SCALE - 1 - _BEFORE_MIDDLE
        first = np.clip((np.minimum(xs, xe) + beyond) // _SCALE, 0, width)
        crossed = np.clip((np.maximum(xs, xe) + beyond) // _SCALE, 0, width) - first
        kept = np.flatnonzero(crossed)
        xs, ys, xe, ye = xs[kept], ys[kept], xe[kept], ye[kept]
        dx, dy = xe - xs, ye - ys
        is_flat = np.abs(dx) >= np.abs(dy)
        is_turned = np.where(is_flat, dx, dy) < 0
        return cls(
            outline[kept],
            shapes[outline[kept], 0],
            first[kept],
            crossed[kept],
            is_flat,
            np.where(is_turned, xe, xs),
            np.where(is_turned, ye, ys),
            np.where(is_flat, dy, dx) / np.where(is_flat, dx, dy),
        )

    def parts(self) -> Iterator[_Edges]:
        """Yield runs of whole outlines with not too many crossings, an outline at least."""
        ends = np.cumsum(self.counts)
        last = np.flatnonzero(np.diff(self.outline, append=-1))  # edges: of each outline
        start, done = 0, 0
        while start < len(ends):
            at = int(np.searchsorted(ends[last], done + _CROSSINGS_AT_ONCE, side="right"))
            at = max(at, int(np.searchsorted(last, start)) + 1)
            stop = int(last[at - 1]) + 1
            yield self.only(slice(start, stop))
            start, done = stop, int(ends[stop - 1])

    def only(self, which: slice | npt.NDArray[np.bool_]) -> _Edges:
        """Return some of them."""
        return _Edges(
            self.outline[which],
            self.height[which],
            self.first[which],
            self.counts[which],
            self.is_flat[which],
            self.x[which],
            self.y[which],
            self.slope[which],
        )

    def crossings(self) -> tuple[Int64Array, Int64Array]:
        """List every crossing: the number of its edge, and the pixel column."""
        edge = np.repeat(np.arange(len(self.counts)), self.counts)
        before = np.cumsum(self.counts) - self.counts
        return edge, np.arange(len(edge)) + (self.first - before)[edge]


def _check_lengths(points: Float64Array, counts: Int64Array, owners: Int64Array) -> None:
    """Refuse what would be drawn for ever."""
    if not len(counts):
        return
    steps = np.abs(np.diff(points, axis=0, prepend=points[:1])).sum(axis=1)
    starts = offsets_of(counts)[:-1]
    steps[starts] = 0  # from another outline
    lengths = 2 * np.add.reduceat(steps, starts)  # an edge leads back
    long = np.flatnonzero(lengths > _MAX_LENGTH)
    if len(long):
        raise ValueError(f"an outline {lengths[long[0]]:.0f} pixels long", int(owners[long[0]]))


def _changes(edges: _Edges) -> Int64Array:
    """Where the mask of each outline changes, columns first: outline and place, in order."""
    flat = _on_flat_edges(edges.only(edges.is_flat))
    steep = _on_steep_edges(edges.only(~edges.is_flat))
    places = np.sort(np.concatenate([flat, steep]))
    # A place that is crossed twice does not change
    first = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]])[: len(places)])
    often = np.diff(first, append=len(places))
    return places[first[often % 2 == 1]]


def _on_flat_edges(edges: _Edges) -> Int64Array:
    edge, column = edges.crossings()
    slope = edges.slope[edge]
    # Of the two points the upper one counts: the first where the edge goes down
    along = _SCALE * column + _BEFORE_MIDDLE - edges.x[edge] + (slope < 0)
    row = (edges.y[edge] + slope * along + 0.5).astype(np.int64)
    return _placed(edges, edge, column, row)


def _on_steep_edges(edges: _Edges) -> Int64Array:
    edge, column = edges.crossings()
    slope, start = edges.slope[edge], edges.x[edge]
    goal = _SCALE * column + _BEFORE_MIDDLE + 1
    is_rising = slope > 0

    def is_beyond(along: Int64Array) -> npt.NDArray[np.bool_]:
        return (start + slope * along + 0.5 >= goal) == is_rising

    # The sums are those of the COCO API, rounded as there; a quotient is right but for its last bit
    along = np.floor((goal - 0.5 - start) / slope).astype(np.int64)
    along += ~is_beyond(along)
    along += ~is_beyond(along)
    return _placed(edges, edge, column, edges.y[edge] + along - 1)


def _placed(edges: _Edges, edge: Int64Array, column: Int64Array, row: Int64Array) -> Int64Array:
    """Outline and place, as one number, of crossings at fine rows."""
    height = edges.height[edge]
    pixel = np.clip((row + _BEFORE_MIDDLE) // _SCALE, 0, height)
    return edges.outline[edge] << _PLACE_BITS | column * height + pixel


def _of_objects(changes: Int64Array, owners: Int64Array, pixels: Int64Array) -> Int64Array:
    """From the changes of outlines to those of what each object's outlines cover together."""
    outline, place = changes >> _PLACE_BITS, changes & _PLACES
    owner = owners[outline]
    inside = place < pixels[owner]
    outline, place, owner = outline[inside], place[inside], owner[inside]
    ours = owner << _PLACE_BITS | place
    is_shared = (np.bincount(owners, minlength=len(pixels)) > 1)[owner]
    if not bool(is_shared.any()):
        return ours
    united = _united(ours[is_shared], outline[is_shared], owners, pixels)
    return np.sort(np.concatenate([ours[~is_shared], united]), kind="stable")  # merges the two


def _united(
    changes: Int64Array, outline: Int64Array, owners: Int64Array, pixels: Int64Array
) -> Int64Array:
    """Where the unions of objects' outlines change; of changes that lie outline by outline."""
    starts = np.flatnonzero(np.diff(outline, prepend=-1))
    counts = np.diff(starts, append=len(outline))
    is_end = (np.arange(len(outline)) - np.repeat(starts, counts)) % 2
    open_ended = owners[outline[starts[counts % 2 == 1]]]
    closing = open_ended << _PLACE_BITS | pixels[open_ended]
    # Beginnings sort before ends: where one begins as another ends there is no change
    events = np.sort(np.concatenate([changes << 1 | is_end, closing << 1 | 1]), kind="stable")
    depth = np.cumsum(1 - 2 * (events & 1))
    borders = events[(depth == 0) | ((depth == 1) & (events & 1 == 0))] >> 1
    return borders[(borders & _PLACES) < pixels[borders >> _PLACE_BITS]]


def _table(changes: Int64Array, shapes: Int64Array, pixels: Int64Array) -> RunTable:
    """From where masks change to the lengths between, the last up to the end."""
    owner, place = changes >> _PLACE_BITS, changes & _PLACES
    has_pixels = pixels > 0
    counts = np.bincount(owner, minlength=len(pixels)) + has_pixels
    offsets = offsets_of(counts)
    ends = np.empty(offsets[-1], np.int64)
    ends[np.arange(len(place)) + (np.cumsum(has_pixels) - has_pixels)[owner]] = place
    ends[offsets[1:][has_pixels] - 1] = pixels[has_pixels]
    runs = np.diff(ends, prepend=0)
    starts = offsets[:-1][has_pixels]
    runs[starts] = ends[starts]
    return RunTable(shapes, counts, runs)
