"""The physical rows that a version shows: the inverse of its row selection, window by window.

A row that no version on the branch's head shows is *dead*: its values may be dropped when its chunk
is rewritten. Windows keep memory bounded for an axis of any length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.format import PageReader, PhysicalBounds, Root, RowSegments, Summaries, tree

__all__ = ["BoolArray", "visible_rows"]

BoolArray = npt.NDArray[np.bool_]


async def visible_rows(
    rows: Root[RowSegments], start: int, stop: int, pages: PageReader
) -> BoolArray:
    """Return which physical rows [start, stop) the selection shows: bool (stop − start,)."""
    change = np.zeros(stop - start + 1, dtype=np.int8)

    def may_hold(bounds: Summaries[Any]) -> BoolArray:
        table = bounds.table
        if not isinstance(table, PhysicalBounds):
            return np.ones(len(bounds), np.bool_)
        return (table.low < stop) & (table.high > start)

    async for _, segments in tree.scan(rows, pages, keep=may_hold):
        low = segments.base.astype(np.int64)
        reaches = (low < stop) & (low + segments.span.astype(np.int64) > start)
        begins, ends = segments.take(np.flatnonzero(reaches)).to_ranges()
        begins, ends = np.maximum(begins, start) - start, np.minimum(ends, stop) - start
        is_inside = begins < ends
        np.add.at(change, begins[is_inside], 1)
        np.add.at(change, ends[is_inside], -1)
    return np.cumsum(change[:-1], dtype=np.int8) > 0
