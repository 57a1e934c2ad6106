"""How new values of some rows become extents: rewrite the chunk, or split around a new one.

A chunk of up to 1 MiB is rewritten: it stays one read. A larger one is left alone; the new values
get a chunk of their own and the extent is split around them, unless that makes more than 16 pieces
(format.md, "Chunks"). An array with ``updates="overlay"`` is never rewritten: all new rows of a
call are stored in one chunk, in row order, and the extents of the others are split around them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChunkKind, Extents, TensorSpec
from tensorlake.reading import ChunkIndex, Reader
from tensorlake.types import Array, Column, concat, slice_rows, take
from tensorlake.versions import Edit, Transaction, distinct, ranges_of

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
        reader: Reader of the snapshot that the handle sees.
        transaction: Transaction that stages the chunks.
        spec: The tensor.
        physical: The rows assigned: sorted, each once.
        column: Their values, in the same order.
    """
    if isinstance(spec.type, Array) and spec.type.updates == "overlay":
        starts, old = reader.index(spec.name).stretches(physical)
        return _overlaid(starts, old, transaction.place_column(spec, column).to_table(), physical)
    edits: list[Edit] = []
    for window in _windows(reader.index(spec.name), spec, physical):
        begin, end = np.searchsorted(physical, [window.start, window.stop])
        rows = physical[begin:end]
        values = slice_rows(column, int(begin), int(end))
        if _should_rewrite(window, rows):
            merged = _merged(reader, spec, window, rows, values)
            extents = transaction.place_column(spec, merged).to_table()
            edits.append((window.start, window.stop, extents))
        else:
            edits += _split(transaction.place_column(spec, values).to_table(), rows)
    return edits


@dataclass(frozen=True, slots=True)
class _Window:
    """Physical rows [start, stop) that are rewritten together, or not at all."""

    start: int
    stop: int
    nbytes: int  # of the chunk they are stored in now; 0 for a fill


def _windows(index: ChunkIndex, spec: TensorSpec, physical: Int64Array) -> list[_Window]:
    """The windows that hold assigned rows: an extent each, but pieces of a fill."""
    starts, extents = index.windows(physical)
    stops = starts + extents.rows.astype(np.int64)
    pairs = zip(starts.tolist(), stops.tolist(), extents.nbytes.tolist(), strict=True)
    windows: list[_Window] = []
    for start, stop, nbytes in pairs:
        if nbytes:
            windows.append(_Window(start, stop, nbytes))
            continue
        step = max(1, spec.chunk_nbytes // max(1, _row_nbytes(spec)))
        inside = physical[np.searchsorted(physical, start) : np.searchsorted(physical, stop)]
        for piece in distinct((inside - start) // step).tolist():
            first = start + piece * step
            windows.append(_Window(first, min(stop, first + step), 0))
    return windows


def _row_nbytes(spec: TensorSpec) -> int:
    return spec.layout.row_nbytes if spec.layout.kind is ChunkKind.UNIFORM else RAGGED_ROW_NBYTES


RAGGED_ROW_NBYTES = 256
"""Assumed size of a sample of unknown length when a fill is cut into chunks."""


def _should_rewrite(window: _Window, rows: Int64Array) -> bool:
    if len(rows) == window.stop - window.start:
        return True
    if 2 * len(ranges_of(rows)) + 1 > PIECES_MAX:
        return True
    return 0 < window.nbytes <= REWRITTEN_NBYTES_MAX


def _merged(
    reader: Reader, spec: TensorSpec, window: _Window, rows: Int64Array, values: Column
) -> Column:
    """The window's rows with the new values in place."""
    count = window.stop - window.start
    if len(rows) == count:
        return values
    all_rows = np.arange(window.start, window.stop, dtype=np.int64)
    old = reader.read(spec.name, all_rows, decode=False)
    source = np.arange(count, dtype=np.int64)
    source[rows - window.start] = count + np.arange(len(rows))
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


def _overlaid(starts: Int64Array, old: Extents, new: Extents, rows: Int64Array) -> list[Edit]:
    """One edit for each stretch of adjoining extents: their other rows, and those of new chunks.

    Args:
        starts: The first physical row of each old extent.
        old: The extents that hold the rows.
        new: The extents of the new values.
        rows: The physical rows that are given new values: sorted, each once.
    """
    stops = starts + old.rows.astype(np.int64)
    borders = rows[new.stops[:-1]]  # the first row of each further chunk
    cuts = distinct(np.concatenate((starts, stops, ranges_of(rows).reshape(-1), borders)))
    begin, end = cuts[:-1], cuts[1:]
    window = np.searchsorted(stops, begin, side="right")
    is_held = starts[np.minimum(window, len(starts) - 1)] <= begin  # else between two extents
    begin, end, window = begin[is_held], end[is_held], window[is_held]
    place = np.minimum(np.searchsorted(rows, begin), len(rows) - 1)
    is_new = rows[place] == begin
    chunk = np.searchsorted(new.stops, place, side="right")
    skipped = np.where(is_new, place - (new.stops - new.rows)[chunk], begin - starts[window])

    both = Extents.concat([old, new])
    entry = np.where(is_new, len(old) + chunk, window)
    pieces = both.take(entry)
    pieces = replace(
        pieces,
        rows=(end - begin).astype(np.uint32),
        skip=(pieces.skip + skipped).astype(np.uint32),
        units=pieces.units.keep(end - begin == both.rows[entry]),
    )
    first = np.flatnonzero(np.append(True, begin[1:] != end[:-1]))
    last = np.append(first[1:], len(begin))
    return [
        (int(begin[one]), int(end[other - 1]), pieces.take(np.arange(one, other)))
        for one, other in zip(first.tolist(), last.tolist(), strict=True)
    ]
