"""Where outlines cross the middles of pixel columns: the places at which their masks change.

A polygon is drawn on a grid five times finer, and a mask changes where an edge's fine points step
over the middle of a pixel column: of column c from fine column 5 c + 2 to 5 c + 3. Only these steps
are computed, a few an edge, of all edges together:

    flat edge    the step at fine x is one point of it: its row follows from the slope
    steep edge   the first point beyond the middle: the quotient names it, give or take one

So that all are sorted at once, the masks of outlines lie one behind another on one line of places:

    outline 0                        outline 1
    0 (first pixel) … pixels (end)   pixels + 1 (first pixel) …      pixels columns first

The sums are those of the COCO API, rounded as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SCALE", "Edges", "changes_of"]

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

SCALE = 5
"""Fine columns of a pixel column, and fine rows of a pixel."""
_BEFORE_MIDDLE = 2
"""The fine column (of a pixel column's five) after which its middle lies; likewise of rows."""
_FAR = float(1 << 40)
"""Beyond any picture: where a point that is farther lies changes nothing."""
_SORTED_AT_ONCE = 512
"""Places, of a few outlines: sorting a thousand apart takes a third of sorting them together."""
_MAX_INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges that cross the middle of a pixel column inside their picture, outline by outline.

    Attributes:
        outline: Whose edge it is.
        counts: How many pixel columns it crosses.
        height: Of the picture.
        place: That of the uppermost pixel of the first column it crosses, in its outline's mask.
        is_steep: Whether it is higher than long.
        x, y: Fine place of the end that it is drawn from: the left, or the upper one.
        slope: Of a flat edge rows a column, of a steep one columns a row.
        goal: Of a flat edge how far from x the first crossing is, of a steep one where.
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
    def of(cls, points: Float64Array, counts: Int64Array, shapes: Int64Array) -> Edges:
        """Find the edges of outlines, each with so many points, and the shape of its picture."""
        ends = np.cumsum(counts)
        following = np.arange(1, len(points) + 1)
        following[ends - 1] = ends - counts  # the last point is followed by the first
        fine = np.trunc(np.clip(SCALE * points + 0.5, -_FAR, _FAR))
        x, y = fine[:, 0], fine[:, 1]
        # The number of the first middle at or behind a point: of two points, what lies between
        behind = np.floor((x + (SCALE - 1 - _BEFORE_MIDDLE)) / SCALE)
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
        middle = (SCALE * first + _BEFORE_MIDDLE).astype(np.float64)
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

    def only(self, start: int, stop: int, outline: int) -> Edges:
        """Return a run of them, with ``outline`` the first outline's number."""
        return Edges(
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


def changes_of(edges: Edges, stretches: Int64Array) -> npt.NDArray[Any]:
    """Return where the mask of each outline changes, in order.

    Args:
        edges: Of outlines numbered from 0.
        stretches: Where the mask of each outline begins on the line of places, and where all end.
    """
    is_short = SCALE * int(stretches[-1]) < _MAX_INT32 - SCALE
    dtype = np.int32 if is_short else np.int64
    edge = np.repeat(np.arange(len(edges.counts)), edges.counts)
    ends = edges.counts.cumsum()
    column = np.arange(len(edge)) - (ends - edges.counts).take(edge)
    row = _rows(edges, edge, column)
    highest = int(edges.height.max(initial=0))
    place = row.clip(0, SCALE * highest, out=row).astype(dtype)
    place += _BEFORE_MIDDLE
    place //= SCALE
    height = edges.height.astype(dtype).take(edge)
    np.minimum(place, height, out=place)
    height *= column.astype(dtype)
    place += height
    place += (stretches.take(edges.outline) + edges.place).astype(dtype).take(edge)
    is_last = edges.outline[1:] != edges.outline[:-1]
    _sort(place, ends[:-1][is_last])
    return _odd(place)


def _rows(edges: Edges, edge: Int64Array, column: Int64Array) -> Float64Array:
    """Fine rows of the crossings of each edge's columns, before they are rounded down."""
    along = SCALE * column + edges.goal.take(edge)
    # As if all were flat; a few are not
    rows = edges.slope.take(edge)
    rows *= along
    rows += edges.y.take(edge)
    rows += 0.5
    at = edges.is_steep.take(edge).nonzero()[0]
    rows[at] = _of_steep(edges, edge.take(at), along.take(at))
    return rows


def _of_steep(edges: Edges, edge: Int64Array, goal: Float64Array) -> Float64Array:
    slope = edges.slope.take(edge)
    start = edges.x.take(edge)
    is_rising = slope > 0

    def is_before(along: Float64Array) -> npt.NDArray[np.bool_]:
        return (start + slope * along + 0.5 >= goal) != is_rising

    # A quotient is right but for its last bit
    along = np.floor((goal - 0.5 - start) / slope)
    along += is_before(along)
    along += is_before(along)
    return edges.y.take(edge) + along - 1


def _sort(places: npt.NDArray[Any], ends: Int64Array) -> None:
    """Sort the places of outlines that lie one behind another, where each but the last ends."""
    wanted = np.arange(_SORTED_AT_ONCE, len(places), _SORTED_AT_ONCE)
    found = ends.take(ends.searchsorted(wanted), mode="clip").tolist() if len(ends) else []
    bounds = [0, *found, len(places)]
    for start, stop in pairwise(bounds):
        places[start:stop].sort()


def _odd(places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Of sorted places keep those that are crossed an odd number of times, once."""
    again = (places[1:] == places[:-1]).nonzero()[0]
    if not len(again):
        return places
    firsts = np.append(0, (again[1:] != again[:-1] + 1).nonzero()[0] + 1)
    often = np.append(firsts[1:], len(again)) - firsts + 1
    kept = np.ones(len(places), np.bool_)
    kept[again] = kept[again + 1] = False
    kept[again[firsts]] = often % 2 == 1
    return places[kept]
