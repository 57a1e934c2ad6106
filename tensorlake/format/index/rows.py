"""Row selections: the physical rows of a version, in order, as a counted tree of segments.

Building chooses segments by what the rows look like: long runs of consecutive rows become RANGE,
ascending ones with gaps HOLES (a bitmap, at most 64 Ki rows each), anything else PACKED. Fresh data
is one segment; deleting splits segments only at deleted rows. No function allocates an array as
long as the axis.
"""

from __future__ import annotations

from contextlib import aclosing
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorlake.format.index.bounds import PhysicalBounds
from tensorlake.format.index.segments import RowSegments
from tensorlake.format.trees import tree
from tensorlake.format.trees.lookup import locate, scan
from tensorlake.format.trees.nodes import LIMITS

if TYPE_CHECKING:
    from typing import Any

    from tensorlake.format.pages.summaries import Summaries
    from tensorlake.format.trees.nodes import PageSink, PageSource, Root, TreeLimits
    from tensorlake.format.trees.page_reader import PageReader

# A run this long is a RANGE: 30 bytes against 128 of bitmap, before compression.
_LONG_RUN = 1024
# Outside dense stretches a shorter run is cheaper as a RANGE than as packed numbers.
_LONE_RUN = 64
# A selection of few runs stays readable and inline.
_FEW_RUNS = 32
# At one row in 16 a bitmap takes as many bytes as packed 16-bit numbers.
_DENSITY = 16
_MAX_GAP = 4096
_BITMAP_ROWS = 65536
_PACKED_ROWS = 8192

_Rows = npt.NDArray[np.int64]
_RANGE, _HOLES, _PACKED = range(3)


def select_rows(physical: _Rows) -> RowSegments:
    """Return the segments of some physical rows: any order, repetition allowed."""
    if not len(physical):
        return RowSegments.empty()
    breaks = np.flatnonzero(np.diff(physical) != 1) + 1
    starts = physical[np.concatenate([[0], breaks])]
    stops = physical[np.concatenate([breaks - 1, [len(physical) - 1]])] + 1
    return select_ranges(starts, stops)


def select_ranges(starts: _Rows, stops: _Rows) -> RowSegments:
    """Return the segments of the physical rows of some ranges [start, stop), in their order."""
    starts, stops = _merged(starts, stops)
    if len(starts) <= _FEW_RUNS:
        return RowSegments.ranges(starts, stops)
    lengths = stops - starts
    is_long = lengths >= _LONG_RUN
    gaps = starts[1:] - stops[:-1]
    is_near = (gaps > 0) & (gaps <= _MAX_GAP) & ~is_long[1:] & ~is_long[:-1]
    first = np.flatnonzero(np.concatenate([[True], ~is_near]))
    last = np.concatenate([first[1:], [len(starts)]]) - 1
    rows = np.add.reduceat(lengths, first)
    is_dense = (rows * _DENSITY >= stops[last] - starts[first]) & (rows >= _LONE_RUN)
    is_dense &= last > first
    stretch = np.repeat(np.arange(len(first)), last - first + 1)
    category = np.where(lengths >= _LONE_RUN, _RANGE, _PACKED)
    category = np.where(is_dense[stretch], _HOLES, category)
    # Neighbouring stretches of bitmaps stay apart; runs of any other category go together.
    group = np.where(category == _HOLES, stretch + len(_CATEGORIES), category)
    borders = np.flatnonzero(np.diff(group)) + 1
    parts: list[RowSegments] = []
    for begin, end in pairwise([0, *borders.tolist(), len(starts)]):
        build = _CATEGORIES[int(category[begin])]
        parts += build(starts[begin:end], stops[begin:end])
    return RowSegments.concat(parts)


async def physical_rows(
    root: Root[RowSegments], rows: _Rows, pages: PageSource | PageReader
) -> _Rows:
    """Return the physical rows that some rows of a version show; any order."""
    if not len(rows):
        return np.zeros(0, np.int64)
    if bool((rows[1:] >= rows[:-1]).all()):
        located = await locate(root, rows, pages)
        return located.table.physical_at(located.entry, located.offset)
    ordered, inverse = np.unique(rows, return_inverse=True)
    located = await locate(root, ordered, pages)
    return located.table.physical_at(located.entry, located.offset)[inverse]


async def rows_of(
    root: Root[RowSegments], physical: _Rows, pages: PageSource | PageReader
) -> _Rows:
    """Return the first row of a version that shows each physical row; -1 where none does."""
    wanted, inverse = np.unique(physical, return_inverse=True)
    found = np.full(len(wanted), -1, np.int64)

    def holds_any(bounds: Summaries[Any]) -> npt.NDArray[np.bool_]:
        table = bounds.table
        if not isinstance(table, PhysicalBounds):
            return np.ones(len(bounds), np.bool_)
        low = np.searchsorted(wanted, table.low.astype(np.int64))
        return low < np.searchsorted(wanted, table.high.astype(np.int64))

    async with aclosing(scan(root, pages, keep=holds_any)) as scanned:
        async for start, segments in scanned:
            rows = segments.positions_of(wanted)
            found = np.where((found < 0) & (rows >= 0), rows + start, found)
            if not (found < 0).any():
                break
    return found[inverse]


async def delete_rows(
    root: Root[RowSegments],
    rows: _Rows,
    pages: PageSource | PageReader,
    sink: PageSink,
    *,
    limits: TreeLimits = LIMITS,
) -> Root[RowSegments]:
    """Remove rows (sorted, unique) from a selection."""
    if not len(rows):
        return root
    located = await locate(root, rows, pages)
    table = located.table
    lengths = table.rows.astype(np.int64)
    is_apart = located.starts[1:] != located.starts[:-1] + lengths[:-1]
    borders = [0, *(np.flatnonzero(is_apart) + 1).tolist(), len(table)]
    edits: list[tuple[int, int, RowSegments]] = []
    for begin, end in pairwise(borders):
        start, stop = int(located.starts[begin]), int(located.starts[end - 1] + lengths[end - 1])
        first, last = np.searchsorted(rows, [start, stop])
        ranges = table.take(np.arange(begin, end)).to_ranges()
        edits.append((start, stop, select_ranges(*_without(*ranges, rows[first:last] - start))))
    return await tree.replace(root, edits, pages, sink, limits=limits)


def _without(starts: _Rows, stops: _Rows, removed: _Rows) -> tuple[_Rows, _Rows]:
    """Cut the rows at some positions (sorted, unique) out of runs."""
    ends = np.cumsum(stops - starts)
    begins = ends - (stops - starts)
    cut_begins = np.sort(np.concatenate([begins, removed + 1]))
    cut_ends = np.sort(np.concatenate([ends, removed]))
    is_kept = cut_ends > cut_begins
    cut_begins, cut_ends = cut_begins[is_kept], cut_ends[is_kept]
    run = np.searchsorted(begins, cut_begins, side="right") - 1
    shift = starts[run] - begins[run]
    return cut_begins + shift, cut_ends + shift


def _merged(starts: _Rows, stops: _Rows) -> tuple[_Rows, _Rows]:
    is_filled = stops > starts
    starts, stops = starts[is_filled], stops[is_filled]
    is_first = np.concatenate([[True], starts[1:] != stops[:-1]])[: len(starts)]
    is_last = np.concatenate([is_first[1:], [True]])[: len(starts)]
    return starts[is_first], stops[is_last]


def _plain(starts: _Rows, stops: _Rows) -> list[RowSegments]:
    return [RowSegments.ranges(starts, stops)]


def _bitmaps(starts: _Rows, stops: _Rows) -> list[RowSegments]:
    parts: list[RowSegments] = []
    for low in range(int(starts[0]), int(stops[-1]), _BITMAP_ROWS):
        high = min(low + _BITMAP_ROWS, int(stops[-1]))
        first = int(np.searchsorted(stops, low, side="right"))
        last = int(np.searchsorted(starts, high))
        if first < last:
            change = np.zeros(high - low + 1, np.int8)
            change[np.maximum(starts[first:last] - low, 0)] = 1
            change[np.minimum(stops[first:last], high) - low] = -1
            parts.append(RowSegments.holes(low, np.cumsum(change[:-1]).astype(np.bool_)))
    return parts


def _numbers(starts: _Rows, stops: _Rows) -> list[RowSegments]:
    lengths = stops - starts
    ends = np.cumsum(lengths)
    physical = np.arange(int(ends[-1])) + np.repeat(starts - (ends - lengths), lengths)
    return [
        RowSegments.packed(physical[at : at + _PACKED_ROWS])
        for at in range(0, len(physical), _PACKED_ROWS)
    ]


_CATEGORIES = (_plain, _bitmaps, _numbers)
