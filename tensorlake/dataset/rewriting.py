"""How new values of some rows become extents: rewrite the chunk, or split around a new one.

A chunk of up to 1 MiB is rewritten: it stays one read. A larger one is left alone; the new values
get a chunk of their own and the extent is split around them, unless that makes more than 16 pieces
(format.md, "Chunks").
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorlake.format import Extents, TensorSpec
from tensorlake.reading import Reader
from tensorlake.types import Column, concat, slice_rows, take
from tensorlake.versions import Edit, Transaction, ranges_of

__all__ = ["edits_for"]

Int64Array = npt.NDArray[np.int64]

REWRITTEN_NBYTES_MAX = 1 << 20
PIECES_MAX = 16


def edits_for(
    reader: Reader,
    transaction: Transaction,
    spec: TensorSpec,
    *,
    physical: Int64Array,
    column: Column,
) -> list[Edit]:
    """Make chunks of new values, and the edits that let the tensor's index cite them.

    Args:
        reader: Of the snapshot that the handle sees.
        transaction: Where the chunks go.
        spec: The tensor.
        physical: The rows assigned: sorted, each once.
        column: Their values, in the same order.
    """
    extents = reader.snapshot.extents(spec.id)
    starts = extents.stops - extents.rows.astype(np.int64)
    of_row = np.searchsorted(extents.stops, physical, side="right")
    touched, first = np.unique(of_row, return_index=True)
    bounds = np.append(first, len(physical)).tolist()
    edits: list[Edit] = []
    for extent, begin, end in zip(touched.tolist(), bounds[:-1], bounds[1:], strict=True):
        window = (int(starts[extent]), int(extents.stops[extent]))
        rows = physical[begin:end]
        values = slice_rows(column, begin, end)
        if _should_rewrite(int(extents.nbytes[extent]), window, rows):
            merged = _merged(reader, spec, window, rows, values)
            edits.append((*window, transaction.store_column(spec, merged)))
        else:
            edits += _split(transaction.store_column(spec, values), rows)
    return edits


def _should_rewrite(nbytes: int, window: tuple[int, int], rows: Int64Array) -> bool:
    if len(rows) == window[1] - window[0]:
        return True
    if nbytes == 0:  # a fill: its other rows must stay unwritten
        return False
    return nbytes <= REWRITTEN_NBYTES_MAX or 2 * len(ranges_of(rows)) + 1 > PIECES_MAX


def _merged(
    reader: Reader, spec: TensorSpec, window: tuple[int, int], rows: Int64Array, values: Column
) -> Column:
    """The window's rows with the new values in place."""
    count = window[1] - window[0]
    if len(rows) == count:
        return values
    old = reader.read(spec.name, np.arange(*window, dtype=np.int64), decode=False)
    source = np.arange(count, dtype=np.int64)
    source[rows - window[0]] = count + np.arange(len(rows))
    return take(concat([old, values]), source)


def _split(extents: Extents, rows: Int64Array) -> list[Edit]:
    """One edit for each run of consecutive rows, citing its part of the new chunks."""
    edits: list[Edit] = []
    done = 0
    for start, stop in ranges_of(rows).tolist():
        count = stop - start
        edits.append((start, stop, extents.slice_rows(done, done + count)))
        done += count
    return edits
