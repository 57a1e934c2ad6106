"""From outlines to runs of pixels, as the COCO API fills polygons (``rleFrPoly``).

A polygon is drawn on a grid five times finer, and a mask changes where an edge's fine points step
over the middle of a pixel column: of column c from fine column 5 c + 2 to 5 c + 3. Only these steps
are computed, a few an edge, of all edges together:

    flat edge    the step at fine x is one point of it: its row follows from the slope
    steep edge   the first point beyond the middle: the quotient names it, give or take one

Sorted, the crossings are where the mask changes, and the distances between them are its runs: no
pixel is filled. So that all are sorted at once, masks lie one behind another on one line of places:

    outline 0                        outline 1
    0 (first pixel) … pixels (end)   pixels + 1 (first pixel) …      pixels columns first

The same pixels as the COCO API's come out, so that masks compare with those of other programs bit
by bit.
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
_DIGIT_BITS = 16
"""What is sorted at once: NumPy counts numbers of 16 bits, and compares longer ones."""
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


def polygon_runs(
    objects: Sequence[Sequence[Any]], sizes: Sequence[tuple[int, int]] | np.ndarray
) -> RunTable:
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
    stretches = offsets_of(pixels[owners] + 1)
    edges = _Edges.of(points, counts, shapes[owners], stretches[:-1])
    changes = np.concatenate([np.zeros(0, np.int64), *map(_changes, edges.parts())])
    ends = np.cumsum(pixels + 1) - 1
    return _table(_of_objects(changes, stretches, owners, ends), shapes, pixels, ends)


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
        counts: How many pixel columns it crosses.
        height: Of the picture.
        place: That of the uppermost pixel of the first column it crosses, in its outline's stretch.
        is_flat: Whether it is no higher than long.
        middle: Fine column of the middle of the first pixel column that it crosses.
        x, y: Fine place of the end that it is drawn from: the left, or the upper one.
        slope: Of a flat edge rows a column, of a steep one columns a row.
    """

    outline: Int64Array
    counts: Int64Array
    height: Int64Array
    place: Int64Array
    is_flat: npt.NDArray[np.bool_]
    middle: Int64Array
    x: Int64Array
    y: Int64Array
    slope: Float64Array

    @classmethod
    def of(
        cls, points: Float64Array, counts: Int64Array, shapes: Int64Array, stretches: Int64Array
    ) -> _Edges:
        """Find the edges of outlines, each with the shape of its picture, and its first place."""
        ends = np.cumsum(counts)
        following = np.arange(1, len(points) + 1)
        following[ends - 1] = ends - counts  # the last point is followed by the first
        fine = np.clip(_SCALE * points + 0.5, -_FAR, _FAR).astype(np.int64)
        xs, ys = fine[:, 0], fine[:, 1]
        xe, ye = xs[following], ys[following]
        width = np.repeat(shapes[:, 1], counts)
        beyond = _SCALE - 1 - _BEFORE_MIDDLE
        first = np.clip((np.minimum(xs, xe) + beyond) // _SCALE, 0, width)
        crossed = np.clip((np.maximum(xs, xe) + beyond) // _SCALE, 0, width) - first
        kept = np.flatnonzero(crossed)
        xs, ys, xe, ye, first = xs[kept], ys[kept], xe[kept], ye[kept], first[kept]
        dx, dy = xe - xs, ye - ys
        is_flat = np.abs(dx) >= np.abs(dy)
        is_turned = np.where(is_flat, dx, dy) < 0
        outline = np.repeat(np.arange(len(counts)), counts)[kept]
        height = shapes[outline, 0]
        return cls(
            outline,
            crossed[kept],
            height,
            stretches[outline] + first * height,
            is_flat,
            _SCALE * first + _BEFORE_MIDDLE,
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

    def only(self, which: slice | Int64Array) -> _Edges:
        """Return some of them."""
        return _Edges(
            self.outline[which],
            self.counts[which],
            self.height[which],
            self.place[which],
            self.is_flat[which],
            self.middle[which],
            self.x[which],
            self.y[which],
            self.slope[which],
        )

    def of_crossings(self, each: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a number of each edge for each of its crossings."""
        return np.repeat(each, self.counts)

    def columns(self) -> Int64Array:
        """Number the pixel columns that each edge crosses, from 0."""
        columns = np.arange(self.counts.sum())
        return columns - self.of_crossings(np.cumsum(self.counts) - self.counts)


def _check_lengths(points: Float64Array, counts: Int64Array, owners: Int64Array) -> None:
    """Refuse what would be drawn for ever."""
    if not len(counts) or 4 * int(counts.max()) * np.ptp(points) <= _MAX_LENGTH:
        return  # as long as all points lie one box apart
    steps = np.abs(np.diff(points, axis=0, prepend=points[:1])).sum(axis=1)
    starts = offsets_of(counts)[:-1]
    steps[starts] = 0  # from another outline
    lengths = 2 * np.add.reduceat(steps, starts)  # an edge leads back
    long = np.flatnonzero(lengths > _MAX_LENGTH)
    if len(long):
        raise ValueError(f"an outline {lengths[long[0]]:.0f} pixels long", int(owners[long[0]]))


def _changes(edges: _Edges) -> Int64Array:
    """Where the mask of each outline changes, in order."""
    flat = _on_flat_edges(edges.only(np.flatnonzero(edges.is_flat)))
    steep = _on_steep_edges(edges.only(np.flatnonzero(~edges.is_flat)))
    places = _sorted(np.concatenate([flat, steep]))
    # A place that is crossed twice does not change
    again = np.flatnonzero(places[1:] == places[:-1])
    if not len(again):
        return places
    is_first = np.diff(again, prepend=-2) > 1
    often = np.diff(np.flatnonzero(is_first), append=len(again)) + 1
    kept = np.ones(len(places), np.bool_)
    kept[again] = kept[again + 1] = False
    kept[again[is_first]] = often % 2 == 1
    return places[kept]


def _on_flat_edges(edges: _Edges) -> Int64Array:
    columns = edges.columns()
    # Of the two points the upper one counts: the first where the edge goes down
    along = _SCALE * columns + edges.of_crossings(edges.middle - edges.x + (edges.slope < 0))
    row = edges.of_crossings(edges.y) + edges.of_crossings(edges.slope) * along + 0.5
    return _placed(edges, columns, row.astype(np.int64))


def _on_steep_edges(edges: _Edges) -> Int64Array:
    columns = edges.columns()
    slope = edges.of_crossings(edges.slope)
    start = edges.of_crossings(edges.x)
    goal = _SCALE * columns + edges.of_crossings(edges.middle + 1)
    is_rising = slope > 0

    def is_beyond(along: Int64Array) -> npt.NDArray[np.bool_]:
        return (start + slope * along + 0.5 >= goal) == is_rising

    # The sums are those of the COCO API, rounded as there; a quotient is right but for its last bit
    along = np.floor((goal - 0.5 - start) / slope).astype(np.int64)
    along += ~is_beyond(along)
    along += ~is_beyond(along)
    return _placed(edges, columns, edges.of_crossings(edges.y) + along - 1)


def _placed(edges: _Edges, columns: Int64Array, row: Int64Array) -> Int64Array:
    """Places of crossings at fine rows."""
    height = edges.of_crossings(edges.height)
    pixel = np.clip((row + _BEFORE_MIDDLE) // _SCALE, 0, height)
    return edges.of_crossings(edges.place) + columns * height + pixel


def _sorted(places: Int64Array) -> Int64Array:
    """Sort digit by digit, the last first: in half the time of comparing."""
    if not len(places):
        return places
    first = int(places.min())
    for shift in range(0, (int(places.max()) - first).bit_length(), _DIGIT_BITS):
        digits = ((places - first) >> shift).astype(np.uint16)
        places = places[np.argsort(digits, kind="stable")]
    return places


def _of_objects(
    changes: Int64Array, stretches: Int64Array, owners: Int64Array, ends: Int64Array
) -> Int64Array:
    """From the changes of outlines to those of what each object's outlines cover together."""
    counts = np.diff(np.searchsorted(changes, stretches))
    last = ends[owners]
    ours = changes + np.repeat(last + 1 - stretches[1:], counts)
    is_shared = (np.bincount(owners, minlength=len(ends)) > 1)[owners]
    if bool(is_shared.any()):
        of_shared = np.repeat(is_shared, counts)
        united = _united(ours[of_shared], counts[is_shared], last[is_shared])
        ours = np.sort(np.concatenate([ours[~of_shared], united]), kind="stable")  # merges the two
    # What begins behind the last pixel is not there
    starts, stops = np.searchsorted(ours, ends), np.searchsorted(ours, ends, side="right")
    some = np.flatnonzero(starts < stops).tolist()
    if not some:
        return ours
    return np.delete(ours, [at for one in some for at in range(starts[one], stops[one])])


def _united(changes: Int64Array, counts: Int64Array, last: Int64Array) -> Int64Array:
    """Where the unions of objects' outlines change; of changes that lie outline by outline."""
    starts = np.cumsum(counts) - counts
    is_end = (np.arange(len(changes)) - np.repeat(starts, counts)) % 2
    closing = last[counts % 2 == 1]
    # Beginnings sort before ends: where one begins as another ends there is no change
    events = np.sort(np.concatenate([changes << 1 | is_end, closing << 1 | 1]), kind="stable")
    depth = np.cumsum(1 - 2 * (events & 1))
    return events[(depth == 0) | ((depth == 1) & (events & 1 == 0))] >> 1


def _table(
    changes: Int64Array, shapes: Int64Array, pixels: Int64Array, ends: Int64Array
) -> RunTable:
    """From where masks change to the lengths between, the last up to the end."""
    before = np.searchsorted(changes, ends)
    has_pixels = pixels > 0
    line = np.insert(changes, before[has_pixels], ends[has_pixels])
    counts = np.diff(before, prepend=0) + has_pixels
    runs = np.diff(line, prepend=0)
    starts = offsets_of(counts)[:-1][has_pixels]
    runs[starts] = line[starts] - (ends - pixels)[has_pixels]
    return RunTable(shapes, counts, runs)
