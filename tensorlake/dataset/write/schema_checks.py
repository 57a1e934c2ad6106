"""Checks of stored values before a change of the schema: NULLs, and classes by code.

Statistics answer for most chunks without a read; of the others only what may hold it is read: the
validity in chunk headers, or the codes. Rows that the version does not show count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChunkKind, Extents, TensorSpec
from tensorlake.reading import Reader
from tensorlake.types import RaggedColumn, UniformColumn

__all__ = ["count_rows_of_classes", "find_null"]

Int64Array = npt.NDArray[np.int64]

ROWS_AT_ONCE = 1 << 18
"""Rows looked at together: 2 MiB of row numbers."""


def find_null(reader: Reader, spec: TensorSpec) -> int | None:
    """Find a row whose sample is NULL; None where there is none."""
    extents = reader.snapshot.extents(spec.id)
    for physical, rows in _shown(reader, extents, np.flatnonzero(_may_be_null(extents))):
        is_null = reader.is_null(spec.name, physical)
        if bool(is_null.any()):
            return int(rows[is_null].min())
    return None


def count_rows_of_classes(reader: Reader, spec: TensorSpec, codes: Sequence[int]) -> Int64Array:
    """Count the rows that hold each of these class codes."""
    extents = reader.snapshot.extents(spec.id)
    counts = np.zeros(len(codes), np.int64)
    for physical, _ in _shown(reader, extents, np.flatnonzero(_may_hold(extents, codes))):
        column = reader.read(spec.name, physical, decode=False)
        assert isinstance(column, UniformColumn | RaggedColumn)
        if isinstance(column, RaggedColumn):
            row_of_item = np.repeat(np.arange(len(column)), column.lengths)
            counts += [len(np.unique(row_of_item[column.values == code])) for code in codes]
            continue
        values = column.values if column.valid is None else column.values[column.valid]
        counts += [np.count_nonzero(values == code) for code in codes]
    return counts


def _may_be_null(extents: Extents) -> npt.NDArray[np.bool_]:
    suspects = ~extents.statistics.known
    if extents.statistics.table is not None:
        suspects[extents.statistics.known] = extents.statistics.table.null_count > 0
    return suspects


def _may_hold(extents: Extents, codes: Sequence[int]) -> npt.NDArray[np.bool_]:
    suspects = ~extents.statistics.known
    table = extents.statistics.table
    if table is None:
        return suspects
    may = ~table.is_empty
    if table.minimum is not None and table.maximum is not None and table.domain == "int64":
        lows, highs = table.minimum, table.maximum
        inside = np.any([(lows <= code) & (highs >= code) for code in codes], axis=0)
        may &= ~(table.has_minimum & table.has_maximum) | inside
    if table.labels is not None and table.label_count is not None:
        owner = np.repeat(np.arange(len(table)), table.label_count)
        holds = np.zeros(len(table), np.bool_)
        holds[owner[np.isin(table.labels, codes)]] = True
        may &= ~table.has_labels | holds
    suspects[extents.statistics.known] = may
    return suspects


def _shown(
    reader: Reader, extents: Extents, entries: Int64Array
) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Physical rows of extents that the version shows, and their rows, a part at a time."""
    starts = extents.stops - extents.rows.astype(np.int64)
    for entry in entries.tolist():
        if extents.kind[entry] == ChunkKind.HOLE:
            continue
        stop = int(extents.stops[entry])
        for start in range(int(starts[entry]), stop, ROWS_AT_ONCE):
            physical = np.arange(start, min(stop, start + ROWS_AT_ONCE), dtype=np.int64)
            rows = reader.snapshot.rows_of(physical)
            is_shown = rows >= 0
            if bool(is_shown.any()):
                yield physical[is_shown], rows[is_shown]
