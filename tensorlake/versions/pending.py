"""Appended samples of one tensor that wait to become chunks.

Rows arrive one at a time or by the million; chunks have a size that reads well (8 MiB of media,
1 MiB of numbers). Samples wait here until a chunk is full, or until someone wants to read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tensorlake.format import Extents, TensorSpec, encode_chunk
from tensorlake.types import (
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    concat,
    slice_rows,
)
from tensorlake.versions.stage import PackStage

__all__ = ["PendingChunks", "sample_nbytes", "store_column"]

PENDING_COLUMNS_MAX = 4096
"""Joining this many one-row columns is cheap; more would only hold Python objects."""


@dataclass(slots=True)
class PendingChunks:
    """Samples waiting, and the extents of the chunks already made of those before them."""

    spec: TensorSpec
    columns: list[Column] = field(default_factory=list[Column])
    nbytes: int = 0
    sealed: list[Extents] = field(default_factory=list[Extents])

    def add(self, column: Column, stage: PackStage) -> None:
        """Take samples; full chunks go to the stage."""
        self.columns.append(column)
        self.nbytes += int(sample_nbytes(column).sum())
        if self.nbytes >= self.spec.chunk_nbytes:
            self._seal(stage, keep_remainder=True)
        elif len(self.columns) >= PENDING_COLUMNS_MAX:
            self.columns = [concat(self.columns)]

    def seal(self, stage: PackStage) -> list[Extents]:
        """Make chunks of all that waits; return the extents of everything since the last time."""
        self._seal(stage, keep_remainder=False)
        sealed, self.sealed = self.sealed, []
        return sealed

    def copy(self) -> PendingChunks:
        """Remember what waits now: chunks made meanwhile are not unmade, only not cited."""
        return PendingChunks(self.spec, [*self.columns], self.nbytes, [*self.sealed])

    def _seal(self, stage: PackStage, *, keep_remainder: bool) -> None:
        if not self.columns:
            return
        waiting = concat(self.columns)
        cuts = chunk_cuts(waiting, self.spec.chunk_nbytes)
        if keep_remainder and len(cuts) > 2:  # noqa: PLR2004 - the last of several is the remainder
            last = cuts[-2]
            self.columns = [slice_rows(waiting, last, len(waiting))]
            self.nbytes = int(sample_nbytes(self.columns[0]).sum())
            waiting, cuts = slice_rows(waiting, 0, last), cuts[:-1]
        else:
            self.columns, self.nbytes = [], 0
        self.sealed += _store_cut(self.spec, waiting, cuts, stage)


def store_column(spec: TensorSpec, column: Column, stage: PackStage) -> list[Extents]:
    """Make chunks of a column, in order; extents of all of them."""
    return _store_cut(spec, column, chunk_cuts(column, spec.chunk_nbytes), stage)


def _store_cut(
    spec: TensorSpec, column: Column, cuts: list[int], stage: PackStage
) -> list[Extents]:
    layout = spec.encodings[-1]
    return [
        stage.add_chunk(
            encode_chunk(slice_rows(column, start, stop), layout),
            tensor_id=spec.id,
            read_as=len(spec.encodings) - 1,
        )
        for start, stop in pairwise(cuts)
    ]


def chunk_cuts(column: Column, chunk_nbytes: int) -> list[int]:
    """Cut a column's rows into chunks of about ``chunk_nbytes``; at least one row each.

    Uniform samples are cut at equal row counts, so that chunks of one tensor hold equally many.
    """
    rows = len(column)
    if isinstance(column, UniformColumn):
        per_row = max(1, column.values[:1].nbytes)
        step = max(1, chunk_nbytes // per_row)
        return [*range(0, rows, step), rows]
    ends = np.cumsum(sample_nbytes(column))
    cuts = [0]
    while cuts[-1] < rows:
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        stop = int(np.searchsorted(ends, before + chunk_nbytes, side="right"))
        cuts.append(min(rows, max(stop, cuts[-1] + 1)))
    return cuts


def sample_nbytes(column: Column) -> np.ndarray:
    """Tell how many bytes each sample takes before compression, int64 (n,)."""
    match column:
        case UniformColumn():
            return np.full(len(column), column.values[:1].nbytes, dtype=np.int64)
        case RaggedColumn():
            return column.lengths * column.values.dtype.itemsize
        case EncodedColumn():
            return np.fromiter(map(len, column.samples), dtype=np.int64, count=len(column))
