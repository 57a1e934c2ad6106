"""Appended samples of one tensor, buffered until they become chunks.

Rows arrive one at a time or by the million; chunks have a size that reads well (8 MiB of media,
1 MiB of numbers). Samples are buffered here until a chunk is full, or until they are read.

The buffer is a value: adding makes a new one, so any failure leaves the old one intact, and keeping
it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from tensorlake.format import PlacedChunk, PlacedChunks, TensorSpec, encode_chunk
from tensorlake.storage import parallel_map
from tensorlake.types import (
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    concat,
    slice_rows,
)
from tensorlake.versions.packs.writer import PackStage

__all__ = ["PendingChunks", "column_nbytes", "place_column"]

T = TypeVar("T")

PENDING_COLUMNS_MAX = 4096
"""Joining this many one-row columns is cheap; more would only keep Python objects."""

SIDE_BY_SIDE_NBYTES = 256 << 10
"""Chunks from this size on are compressed in several threads: that takes a millisecond or more,
waking another thread a tenth. Raw ones are only hashed, by the thread that has just copied them."""


@dataclass(frozen=True, slots=True)
class _Pile(Generic[T]):
    """An append-only list as a value: piles share one list, each owns its first items.

    If two piles share a list, only one may grow: items added to the other are dropped.
    """

    items: list[T]
    count: int = 0

    def with_items(self, added: Sequence[T]) -> _Pile[T]:
        del self.items[self.count :]
        self.items.extend(added)
        return _Pile(self.items, len(self.items))

    def to_list(self) -> list[T]:
        return self.items[: self.count]


@dataclass(frozen=True, slots=True)
class PendingChunks:
    """Buffered samples, and the chunks already made from earlier ones.

    Chunks made by a failed call stay in their packs, unreferenced.
    """

    spec: TensorSpec
    waiting: _Pile[Column] = field(default_factory=lambda: _Pile(list[Column]()))
    nbytes: int = 0
    sealed: _Pile[PlacedChunk] = field(default_factory=lambda: _Pile(list[PlacedChunk]()))

    def with_column(self, column: Column, stage: PackStage) -> PendingChunks:
        """Add samples; full chunks go to the stage."""
        return self.with_buffered(column) or self._with_full_chunks(column, stage)

    def with_buffered(self, column: Column) -> PendingChunks | None:
        """Add samples to the buffer; None where they fill a chunk."""
        nbytes = self.nbytes + column_nbytes(column)
        if nbytes >= self.spec.chunk_nbytes:
            return None
        waiting = self.waiting.with_items([column])
        if waiting.count >= PENDING_COLUMNS_MAX:
            waiting = _Pile(list[Column]()).with_items([concat(waiting.to_list())])
        return PendingChunks(self.spec, waiting, nbytes, self.sealed)

    def seal(self, stage: PackStage) -> PlacedChunks:
        """Make chunks of all buffered samples; return all chunks, from the first sample on."""
        sealed = self.sealed.to_list()
        if self.waiting.count:
            column = concat(self.waiting.to_list())
            cuts = chunk_cuts(column, self.spec.chunk_nbytes)
            sealed += _store_cut(self.spec, column, cuts, stage)
        return PlacedChunks(tuple(sealed))

    def _with_full_chunks(self, column: Column, stage: PackStage) -> PendingChunks:
        """Make full chunks of buffered and new samples; keep the rest buffered."""
        chunk_nbytes = self.spec.chunk_nbytes
        is_kept = stage.keeps(self.spec, column)
        made: list[PlacedChunk] = []
        if self.waiting.count:
            waiting = concat(self.waiting.to_list())
            few = _rows_that_fill(waiting, column, chunk_nbytes)
            first = concat([waiting, slice_rows(column, 0, few)])  # copied alone: it is one chunk
            if few < len(column):
                made = _store_cut(self.spec, first, [0, len(first)], stage)
                column = slice_rows(column, few, len(column))
            else:
                column = first
        full = _rows_in_full_chunks(column, chunk_nbytes)
        cuts = [cut for cut in chunk_cuts(column, chunk_nbytes) if cut < full]
        cuts = [*cuts, full] if full else []
        rest = slice_rows(column, full, len(column))
        if is_kept or not isinstance(column, UniformColumn):
            made += _store_cut(self.spec, column, cuts, stage)
        else:
            made += stage.fill_packs(self.spec, column, cuts)
            rest = UniformColumn(column.values[full:].copy())  # the column may be the caller's
        return PendingChunks(
            self.spec,
            waiting=_Pile(list[Column]()).with_items([rest] if len(rest) else []),
            nbytes=column_nbytes(rest),
            sealed=self.sealed.with_items(made),
        )


def place_column(spec: TensorSpec, column: Column, stage: PackStage) -> PlacedChunks:
    """Make chunks of a column, in order."""
    cuts = chunk_cuts(column, spec.chunk_nbytes)
    return PlacedChunks(tuple(_store_cut(spec, column, cuts, stage)))


def _store_cut(
    spec: TensorSpec, column: Column, cuts: list[int], stage: PackStage
) -> list[PlacedChunk]:
    layout, read_as = spec.layout, spec.read_as
    is_whole = cuts == [0, len(column)]  # as in every small commit
    parts = [
        column if is_whole else slice_rows(column, start, stop) for start, stop in pairwise(cuts)
    ]
    encode = partial(encode_chunk, layout=layout, has_bounds=not spec.type.personal)
    if layout.is_raw or len(parts) == 1 or spec.chunk_nbytes < SIDE_BY_SIDE_NBYTES:
        return [stage.add_chunk(encode(part), tensor_id=spec.id, read_as=read_as) for part in parts]
    with closing(parallel_map(encode, parts)) as blobs:
        return [stage.add_chunk(blob, tensor_id=spec.id, read_as=read_as) for blob in blobs]


def chunk_cuts(column: Column, chunk_nbytes: int) -> list[int]:
    """Cut a column's rows into chunks of about ``chunk_nbytes``; at least one row each.

    Uniform samples are cut at equal row counts, so that chunks of one tensor have equally many
    rows.
    """
    rows = len(column)
    if isinstance(column, UniformColumn):
        return [*range(0, rows, _rows_a_chunk(column, chunk_nbytes)), rows]
    ends = np.cumsum(sample_nbytes(column))
    cuts = [0]
    while cuts[-1] < rows:
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        stop = int(np.searchsorted(ends, before + chunk_nbytes, side="right"))
        cuts.append(min(rows, max(stop, cuts[-1] + 1)))
    return cuts


def _rows_that_fill(waiting: Column, column: Column, chunk_nbytes: int) -> int:
    """Return how many samples fill a chunk together with the buffered ones; all if sizes vary.

    >>> one = UniformColumn(np.zeros((3, 2), np.uint8))
    >>> _rows_that_fill(one, UniformColumn(np.zeros((9, 2), np.uint8)), 10)
    2
    """
    if not isinstance(waiting, UniformColumn) or not isinstance(column, UniformColumn):
        return len(column)
    if waiting.values.shape[1:] != column.values.shape[1:]:
        return len(column)
    return min(max(0, _rows_a_chunk(waiting, chunk_nbytes) - len(waiting)), len(column))


def _rows_in_full_chunks(column: Column, chunk_nbytes: int) -> int:
    """Return the rows before the last chunk, if there are several and it is not full."""
    if isinstance(column, UniformColumn):
        return len(column) - len(column) % _rows_a_chunk(column, chunk_nbytes)
    return chunk_cuts(column, chunk_nbytes)[-2] or len(column)


def _rows_a_chunk(column: UniformColumn, chunk_nbytes: int) -> int:
    return max(1, chunk_nbytes // max(1, column.values[:1].nbytes))


def column_nbytes(column: Column) -> int:
    """Return the bytes of all samples before compression."""
    if isinstance(column, UniformColumn):
        return column.values.nbytes
    return int(sample_nbytes(column).sum())


def sample_nbytes(column: Column) -> np.ndarray:
    """Return the bytes of each sample before compression, int64 (n,)."""
    match column:
        case UniformColumn():
            return np.full(len(column), column.values[:1].nbytes, dtype=np.int64)
        case RaggedColumn():
            return column.lengths * column.values.dtype.itemsize
        case EncodedColumn():
            return np.fromiter(map(len, column.samples), dtype=np.int64, count=len(column))
