"""Map rows of a version to physical rows: the row selection, read on demand.

A version that nothing was deleted from or sorted has one segment, in its log entry: a row and its
physical row differ by a constant. Any other selection is a tree, and is searched like the index of
a tensor (``index/index.py``): in the tree first, and in memory once as many leaves were requested
as it has. A small selection that is used repeatedly becomes one array.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorlake.format import PageReader, Root, RowSegments, SegmentKind, physical_rows
from tensorlake.reading.index.index import leaf_count, leaves_touched
from tensorlake.storage import runtime
from tensorlake.versions import table_of

__all__ = ["MATERIALISED_ROWS_MAX", "RowMap"]

Int64Array = npt.NDArray[np.int64]

MATERIALISED_ROWS_MAX = 1 << 23
"""Up to this many rows, the map from row to physical row is cached as one array of 64 MiB."""

MATERIALISED_SHARE = 8
"""The array is built once one row in this many was looked up: building takes a step per row."""

LOADED_LEAVES_MAX = 2048
"""A larger selection stays in its tree: these leaves take 256 MiB."""


class RowMap:
    """The rows of one version. Thread-safe."""

    def __init__(self, root: Root[RowSegments], pages: PageReader) -> None:
        self.root = root
        self._pages = pages
        self._loaded: RowSegments | None = None
        self._array: Int64Array | None = None
        self._leaves = leaf_count(root.children)
        self._leaves_read = 0
        self._rows_read = 0

    @property
    def num_rows(self) -> int:
        """The number of rows of the version."""
        return self.root.rows

    @property
    def base(self) -> int | None:
        """The physical row of row 0, if all others follow consecutively; else None."""
        segments = self._segments
        if segments is None or len(segments) != 1 or segments.kind[0] != SegmentKind.RANGE:
            return None
        return int(segments.base[0])

    def physical(self, rows: Int64Array) -> Int64Array:
        """Map rows to physical rows; any order, repeats allowed."""
        if self._array is not None:
            return self._array[rows]
        segments = self._segments
        if segments is None and self._is_loading_due(rows):
            segments = self._loaded = runtime.run(table_of(self.root, self._pages))
        if segments is None:
            return runtime.run(physical_rows(self.root, rows, self._pages))
        if len(segments) == 1 and segments.kind[0] == SegmentKind.RANGE:
            base = int(segments.base[0])
            return rows + base if base else rows
        self._rows_read += len(rows)
        if self._rows_read * MATERIALISED_SHARE >= self.num_rows <= MATERIALISED_ROWS_MAX:
            parts = [segments.expand(entry) for entry in range(len(segments))]
            self._array = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
            return self._array[rows]
        return _looked_up(segments, rows)

    @property
    def _segments(self) -> RowSegments | None:
        """Return the whole selection if in memory; the tail becomes a table on first use."""
        if self._loaded is None and not self.root.children:
            self._loaded = self.root.tail
        return self._loaded

    def _is_loading_due(self, rows: Int64Array) -> bool:
        if self._leaves > LOADED_LEAVES_MAX:
            return False
        if len(rows):
            self._leaves_read += leaves_touched(rows, self._leaves, self.root.body_rows)
        return self._leaves_read >= self._leaves


def _looked_up(segments: RowSegments, rows: Int64Array) -> Int64Array:
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    entry = np.searchsorted(segments.stops, ordered, side="right")
    starts = segments.stops - segments.rows.astype(np.int64)
    found = np.empty(len(rows), dtype=np.int64)
    found[order] = segments.physical_at(entry, ordered - starts[entry])
    return found
