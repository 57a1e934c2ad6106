"""Rasterize polygons to RLE, as the COCO API does (``rleFrPoly``), pixel for pixel.

The places where a polygon crosses the middles of pixel columns are, in order, where its mask
changes; the masks of an object's polygons are united, and the distances between the remaining
changes are its runs: no pixel is filled.

    changes of a polygon      a   b     c   d        place of a pixel, columns first
    of another of the object    e     f
    united                    a       f c   d
    runs                    a  f − a …               zeros first, up to the image's end

A polygon is drawn on a grid five times finer, and a mask changes where an edge's fine points step
over the middle of a pixel column: for column c from fine column 5 c + 2 to 5 c + 3. Only these
steps are computed, a few per edge, for all edges together:

    flat edge    the step at fine x is one point of it: its row follows from the slope
    steep edge   the first point beyond the middle: given by the quotient, give or take one

To sort all of them at once, the masks of polygons are placed one after another on one line:

    polygon 0                        polygon 1
    0 (first pixel) … pixels (end)   pixels + 1 (first pixel) …      pixels columns first

Objects are drawn a few at a time, so that intermediate results stay in a processor's cache and in
memory that was used before. Sums are rounded as in the COCO API, so masks compare with those of
other programs bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.types.base.column import offsets_of
from tensorlake.types.vision.rle import MAX_PIXELS, RunTable, decode_run_lengths

__all__ = ["fill_polygons", "polygon_runs"]

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

_SCALE = 5
"""Fine columns of a pixel column, and fine rows of a pixel."""
_BEFORE_MIDDLE = 2
"""The fine column (of a pixel column's five) after which its middle is; likewise for rows."""
_FAR = float(1 << 40)
"""Beyond any image: points farther away change nothing."""
_SORTED_AT_ONCE = 512
"""Places of a few polygons: sorting a thousand separately takes a third of the time."""
_MAX_INT32 = (1 << 31) - 1
_MIN_POINTS = 3
_MAX_LENGTH = (1 << 24) / _SCALE
"""Longest polygon in pixels: a hundred times around an image of 8,000 × 8,000."""
_NUMBERS_AT_ONCE = 1 << 15
"""Coordinates read together."""
_CROSSINGS_AT_ONCE = 1 << 15
"""Crossings computed together. Half as many take a tenth longer; twice as many need so much memory
that the system reclaims it in between, which costs a third."""


def fill_polygons(polygons: Sequence[Any], height: int, width: int) -> np.ndarray:
    """Return the mask that some polygons cover together, bool (height, width).

    Args:
        polygons: Each flat x, y, x, y, … or points (x, y).
        height: Height of the image.
        width: Width of the image.

    >>> fill_polygons([[0, 0, 2, 0, 2, 2, 0, 2]], 3, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 0]])

    Raises:
        ValueError: A polygon is not a list of points, or has fewer than three.
    """
    runs = polygon_runs([polygons], [(height, width)]).runs
    return decode_run_lengths({"size": [height, width], "counts": runs})


def polygon_runs(
    objects: Sequence[Sequence[Any]], sizes: Sequence[tuple[int, int]] | np.ndarray
) -> RunTable:
    """Return the runs of each object's mask.

    Args:
        objects: The polygons of each, as for `fill_polygons`.
        sizes: Height and width of the image of each.

    >>> table = polygon_runs([[[0, 0, 2, 0, 2, 2, 0, 2]], []], [(3, 3)] * 2)
    >>> table.runs.tolist(), table.counts.tolist()
    ([0, 2, 1, 2, 4, 9], [5, 1])

    Raises:
        ValueError: A polygon is not a list of points, or has fewer than three; ``args[1]`` is the
            number
            of the object.
    """
    shapes = np.array(sizes, np.int64).reshape(-1, 2)
    _check_pixels(shapes)
    numbers = np.array([sum(map(len, polygons)) for polygons in objects], np.int64)
    drawn = [
        table
        for start, stop in _cut(numbers, _NUMBERS_AT_ONCE)
        for table in _drawn(objects[start:stop], shapes[start:stop], start)
    ]
    nothing = np.zeros(0, np.int64)
    counts = np.concatenate([nothing, *(counts for counts, _ in drawn)])
    runs = np.concatenate([nothing, *(runs for _, runs in drawn)])
    return RunTable(shapes, counts, runs)


def _check_pixels(shapes: Int64Array) -> None:
    beyond = np.flatnonzero(
        (shapes < 0).any(axis=1) | (shapes[:, 0].astype(np.float64) * shapes[:, 1] > MAX_PIXELS)
    )
    if len(beyond):
        height, width = shapes[beyond[0]].tolist()
        raise ValueError(f"an image of {height} × {width} pixels", int(beyond[0]))


def _cut(weights: npt.NDArray[Any], at_once: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of items that weigh at most `at_once` together, at least one each."""
    ends = np.cumsum(weights)
    start, done = 0, 0
    while start < len(ends):
        stop = max(int(ends.searchsorted(done + at_once, side="right")), start + 1)
        yield start, stop
        start, done = stop, int(ends[stop - 1])


def _drawn(
    objects: Sequence[Sequence[Any]], shapes: Int64Array, first: int
) -> Iterator[tuple[Int64Array, npt.NDArray[Any]]]:
    """Yield the runs of batches of objects, with their counts; ``first`` is the first's number."""
    owners = np.repeat(np.arange(len(objects)), [len(polygons) for polygons in objects])
    points, counts = _points(
        [outline for polygons in objects for outline in polygons], owners + first
    )
    _check_lengths(points, counts, owners + first)
    edges = _Edges.of(points, counts, shapes[owners])
    crossings = np.bincount(owners[edges.outline], edges.counts, minlength=len(objects))
    for start, stop in _cut(crossings, _CROSSINGS_AT_ONCE):
        outlines = owners.searchsorted([start, stop])
        bounds = edges.outline.searchsorted(outlines)
        part = edges.only(bounds[0], bounds[1], outlines[0])
        yield _runs(part, owners[slice(*outlines)] - start, shapes[start:stop].prod(axis=1))


def _runs(
    edges: _Edges, owners: Int64Array, pixels: Int64Array
) -> tuple[Int64Array, npt.NDArray[Any]]:
    """Draw objects with the given pixel counts; ``owners`` is the object of each polygon."""
    stretches = offsets_of(pixels[owners] + 1)
    changes = _changes_of(edges, stretches)
    ends = (np.cumsum(pixels + 1) - 1).astype(changes.dtype)
    changes = _of_objects(changes, stretches.astype(changes.dtype), owners, ends)
    # Convert places of changes to the lengths between, the last up to the end
    before = changes.searchsorted(ends)
    counts = before + 1
    counts[1:] -= before[:-1]
    line = np.insert(changes, before, ends)
    starts = offsets_of(counts)[:-1]
    runs = line.copy()
    runs[1:] -= line[:-1]
    runs[starts] = line[starts] - (ends - pixels.astype(ends.dtype))
    if bool((pixels == 0).any()):  # one empty run, where there should be none
        runs = runs[np.repeat(pixels > 0, counts)]
        counts[pixels == 0] = 0
    return counts, runs


def _points(outlines: Sequence[Any], owners: Int64Array) -> tuple[Float64Array, Int64Array]:
    """Return all points of the polygons, (points, 2), and the number of each polygon."""
    try:
        lengths = np.fromiter(map(len, outlines), np.int64, len(outlines))
        flat = np.fromiter(chain.from_iterable(outlines), np.float64, int(lengths.sum()))
    except (TypeError, ValueError):  # points in pairs; or not numbers, which raises there
        parts = [_flat(outline) for outline in outlines]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        flat = np.concatenate([np.zeros(0), *parts])
    few = np.flatnonzero((lengths % 2 == 1) | (lengths < 2 * _MIN_POINTS))
    if len(few):
        raise ValueError(f"a polygon of {lengths[few[0]] / 2:g} points", int(owners[few[0]]))
    points, counts = flat.reshape(-1, 2), lengths // 2
    if not bool(np.isfinite(flat).all()):
        point = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        outline = int(np.searchsorted(np.cumsum(counts), point, side="right"))
        raise ValueError("a polygon with a coordinate that is not a number", int(owners[outline]))
    return points, counts


def _flat(outline: Any) -> Float64Array:
    nested = len(outline) and hasattr(outline[0], "__len__")
    flat = list(chain.from_iterable(outline)) if nested else outline
    return np.array(flat, dtype=np.float64).reshape(-1)


def _check_lengths(points: Float64Array, counts: Int64Array, owners: Int64Array) -> None:
    """Reject polygons that would take too long to draw."""
    if not len(counts) or 4 * int(counts.max()) * np.ptp(points) <= _MAX_LENGTH:
        return  # as long as all points lie one box apart
    steps = np.abs(np.diff(points, axis=0, prepend=points[:1])).sum(axis=1)
    starts = offsets_of(counts)[:-1]
    steps[starts] = 0  # from another polygon
    lengths = 2 * np.add.reduceat(steps, starts)  # an edge leads back
    long = np.flatnonzero(lengths > _MAX_LENGTH)
    if len(long):
        raise ValueError(f"a polygon {lengths[long[0]]:.0f} pixels long", int(owners[long[0]]))


def _of_objects(
    changes: npt.NDArray[Any],
    stretches: npt.NDArray[Any],
    owners: Int64Array,
    ends: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Convert the changes of polygons to those of each object's union of polygons."""
    bounds = changes.searchsorted(stretches)
    counts = bounds[1:] - bounds[:-1]
    last = ends[owners]
    ours = changes + np.repeat(last + 1 - stretches[1:], counts)
    is_shared = (np.bincount(owners, minlength=len(ends)) > 1)[owners]
    if bool(is_shared.any()):
        of_shared = np.repeat(is_shared, counts)
        united = _united(ours[of_shared], counts[is_shared], last[is_shared])
        ours = np.concatenate([ours[~of_shared], united])
        ours.sort(kind="stable")  # merges the two
    # Drop runs that begin after the last pixel
    starts, stops = ours.searchsorted(ends), ours.searchsorted(ends, side="right")
    some = (starts < stops).nonzero()[0].tolist()
    if not some:
        return ours
    return np.delete(ours, [at for one in some for at in range(starts[one], stops[one])])


def _united(
    changes: npt.NDArray[Any], counts: Int64Array, last: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return where the unions of objects' polygons change, from changes polygon by polygon."""
    starts = np.cumsum(counts) - counts
    is_end = (np.arange(len(changes)) - np.repeat(starts, counts)) % 2
    closing = last[counts % 2 == 1]
    # Beginnings sort before ends: where one begins as another ends there is no change
    events = np.concatenate([changes << 1 | is_end.astype(changes.dtype), closing << 1 | 1])
    events.sort(kind="stable")
    depth = np.cumsum(1 - 2 * (events & 1))
    return events[(depth == 0) | ((depth == 1) & (events & 1 == 0))] >> 1


@dataclass(frozen=True, slots=True)
class _Edges:
    """Edges that cross the middle of a pixel column inside their image, polygon by polygon.

    Attributes:
        outline: The polygon of the edge.
        counts: The number of pixel columns that it crosses.
        height: Height of the image.
        place: Place in its polygon's mask of the uppermost pixel of the first crossed column.
        is_steep: Whether it is higher than long.
        x, y: Fine place of the end that it is drawn from: the left, or the upper one.
        slope: Rows per column of a flat edge, columns per row of a steep one.
        goal: Distance from x to the first crossing of a flat edge; its place for a steep one.
    """

    outline: Int64Array
    counts: Int64Array
    height: Int64Array
    place: Int64Array
    is_steep: npt.NDArray[np.bool_]
    x: Float64Array
    y: Float64Array
    slope: Float64Array
    goal: Float64Array

    @classmethod
    def of(cls, points: Float64Array, counts: Int64Array, shapes: Int64Array) -> _Edges:
        """Find the edges of polygons, given their points, point counts and image shapes."""
        ends = np.cumsum(counts)
        following = np.arange(1, len(points) + 1)
        following[ends - 1] = ends - counts  # the last point is followed by the first
        fine = np.trunc(np.clip(_SCALE * points + 0.5, -_FAR, _FAR))
        x, y = fine[:, 0], fine[:, 1]
        # The number of the first middle at or after a point; two points give those between
        behind = np.floor((x + (_SCALE - 1 - _BEFORE_MIDDLE)) / _SCALE)
        behind = np.clip(behind, 0, np.repeat(shapes[:, 1], counts)).astype(np.int64)
        crossed = behind[following] - behind
        kept = np.flatnonzero(crossed)
        to = following[kept]
        outline = np.repeat(np.arange(len(counts)), counts)[kept]
        height = shapes[outline, 0]
        first = np.minimum(behind[kept], behind[to])
        xs, ys, xe, ye = x[kept], y[kept], x[to], y[to]
        dx, dy = xe - xs, ye - ys
        is_flat = np.abs(dx) >= np.abs(dy)
        is_turned = np.where(is_flat, dx, dy) < 0
        slope = np.where(is_flat, dy, dx) / np.where(is_flat, dx, dy)
        x_drawn = np.where(is_turned, xe, xs)
        middle = (_SCALE * first + _BEFORE_MIDDLE).astype(np.float64)
        # Of the two points of a flat edge the upper one counts: the first where the edge goes down
        goal = np.where(is_flat, middle - x_drawn + (slope < 0), middle + 1)
        return cls(
            outline,
            np.abs(crossed[kept]),
            height,
            first * height,
            ~is_flat,
            x_drawn,
            np.where(is_turned, ye, ys),
            slope,
            goal,
        )

    def only(self, start: int, stop: int, outline: int) -> _Edges:
        """Return a range of edges, with ``outline`` the first polygon's number."""
        return _Edges(
            self.outline[start:stop] - outline,
            self.counts[start:stop],
            self.height[start:stop],
            self.place[start:stop],
            self.is_steep[start:stop],
            self.x[start:stop],
            self.y[start:stop],
            self.slope[start:stop],
            self.goal[start:stop],
        )


def _changes_of(edges: _Edges, stretches: Int64Array) -> npt.NDArray[Any]:
    """Return where the mask of each polygon changes, in order.

    Args:
        edges: Edges of polygons numbered from 0.
        stretches: Start of each polygon's mask on the line of places, and the end of all.
    """
    is_short = _SCALE * int(stretches[-1]) < _MAX_INT32 - _SCALE
    dtype = np.int32 if is_short else np.int64
    edge = np.repeat(np.arange(len(edges.counts)), edges.counts)
    ends = edges.counts.cumsum()
    column = np.arange(len(edge)) - (ends - edges.counts).take(edge)
    row = _rows(edges, edge, column)
    highest = int(edges.height.max(initial=0))
    place = row.clip(0, _SCALE * highest, out=row).astype(dtype)
    place += _BEFORE_MIDDLE
    place //= _SCALE
    height = edges.height.astype(dtype).take(edge)
    np.minimum(place, height, out=place)
    height *= column.astype(dtype)
    place += height
    place += (stretches.take(edges.outline) + edges.place).astype(dtype).take(edge)
    is_last = edges.outline[1:] != edges.outline[:-1]
    _sort(place, ends[:-1][is_last])
    return _odd(place)


def _rows(edges: _Edges, edge: Int64Array, column: Int64Array) -> Float64Array:
    """Return fine rows of the crossings of each edge's columns, before rounding down."""
    along = _SCALE * column + edges.goal.take(edge)
    # As if all were flat; the few steep ones follow
    rows = edges.slope.take(edge)
    rows *= along
    rows += edges.y.take(edge)
    rows += 0.5
    at = edges.is_steep.take(edge).nonzero()[0]
    rows[at] = _of_steep(edges, edge.take(at), along.take(at))
    return rows


def _of_steep(edges: _Edges, edge: Int64Array, goal: Float64Array) -> Float64Array:
    slope = edges.slope.take(edge)
    start = edges.x.take(edge)
    is_rising = slope > 0

    def is_before(along: Float64Array) -> npt.NDArray[np.bool_]:
        return (start + slope * along + 0.5 >= goal) != is_rising

    # The quotient is exact except for its last bit
    along = np.floor((goal - 0.5 - start) / slope)
    along += is_before(along)
    along += is_before(along)
    return edges.y.take(edge) + along - 1


def _sort(places: npt.NDArray[Any], ends: Int64Array) -> None:
    """Sort the places of consecutive polygons, given the ends of all but the last."""
    wanted = np.arange(_SORTED_AT_ONCE, len(places), _SORTED_AT_ONCE)
    found = ends.take(ends.searchsorted(wanted), mode="clip").tolist() if len(ends) else []
    bounds = [0, *found, len(places)]
    for start, stop in pairwise(bounds):
        places[start:stop].sort()


def _odd(places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Keep, once each, the sorted places that are crossed an odd number of times."""
    again = (places[1:] == places[:-1]).nonzero()[0]
    if not len(again):
        return places
    firsts = np.append(0, (again[1:] != again[:-1] + 1).nonzero()[0] + 1)
    often = np.append(firsts[1:], len(again)) - firsts + 1
    kept = np.ones(len(places), np.bool_)
    kept[again] = kept[again + 1] = False
    kept[again[firsts]] = often % 2 == 1
    return places[kept]
