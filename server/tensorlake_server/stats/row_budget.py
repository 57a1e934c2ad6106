"""Rows that statistics are counted over: all of them, or runs spread evenly over all.

A request's time, memory and bytes are bounded by how many rows it looks at, and that follows from
what is stored alone: the same version gives the same answer, for every client and however fast the
store is. The first rows would not be a sample of the others: data come sorted by class, by camera,
by day. So a part is up to RUNS runs of consecutive rows, as far apart as they can be.

    rows      0 ............................................. n
    counted   ####......####......####......####......####....
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.dataset import rowset_of
from tensorlake_server.bodies.columns import column_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tensorlake_server.lake.lake import Readable

__all__ = ["MAX_ROWS", "Stored", "affordable_rows", "iter_spread", "measure_stored"]

MAX_ROWS = 10_000_000  # 80 MB of int64
MAX_COMPUTED_ROWS = 100_000  # what it takes to compute a query's column is not known before
MAX_DECODED_ROWS = 500_000  # text, JSON, items: Python objects, a second of them
MAX_NBYTES = 256 << 20  # of packs
MAX_CHUNKS = 4096  # each is a request, where the store is not a local folder
RUNS = 64


@dataclass(frozen=True, slots=True)
class Stored:
    """How a tensor's samples lie; of a column that a query computed nothing is known."""

    rows: int
    chunks: int
    nbytes: int
    is_encoded: bool
    is_computed: bool
    is_local: bool


def measure_stored(readable: Readable, tensor: str) -> Stored:
    """Ask the chunk index what the rows' samples take; reads no sample."""
    rows = len(readable)
    is_encoded = column_type(readable, tensor).dtype is None
    shown = rowset_of(readable)
    if tensor in shown.computed or rows == 0:
        return Stored(rows, 0, 0, is_encoded, tensor in shown.computed, is_local=True)
    selection, reader = shown.selection, shown.reader()
    first = selection.first_physical
    if first is not None:
        chunks, nbytes = reader.index(tensor).stored(np.array([[first, first + rows]]))
    else:
        asked = np.concatenate([*iter_spread(rows, min(rows, MAX_DECODED_ROWS), at_once=rows)])
        keys = reader.chunks(tensor, selection.physical(asked))
        scale = rows / len(asked)
        chunks, nbytes = int(len(keys) * scale), int(sum(key.nbytes for key in keys) * scale)
    return Stored(
        rows, chunks, nbytes, is_encoded, is_computed=False, is_local=reader.store.is_local
    )


def affordable_rows(stored: Stored, *, reads_samples: bool, most: int = MAX_ROWS) -> int:
    """How many rows may be looked at; `most` bounds them further, for what they hold."""
    limits = [stored.rows, MAX_ROWS, most]
    if stored.is_computed:
        limits.append(MAX_COMPUTED_ROWS)
    if stored.is_encoded and reads_samples:
        limits.append(MAX_DECODED_ROWS)
    if reads_samples and stored.nbytes > MAX_NBYTES:
        limits.append(stored.rows * MAX_NBYTES // stored.nbytes)
    if not stored.is_local and stored.chunks > MAX_CHUNKS:
        limits.append(stored.rows * MAX_CHUNKS // stored.chunks)
    return min(stored.rows, max(1, min(limits)))


def iter_spread(rows: int, counted: int, *, at_once: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield positions of `counted` of `rows` rows, spread evenly, at most `at_once` together."""
    runs = 1 if counted == rows else min(RUNS, counted)
    for run in range(runs):
        start = run * rows // runs
        stop = start + counted * (run + 1) // runs - counted * run // runs
        for at in range(start, stop, at_once):
            yield np.arange(at, min(stop, at + at_once), dtype=np.int64)
