"""Moving a stretch of pieces into new chunks: nothing is re-encoded, dead rows come out empty.

    pieces   ▓▓░▓  ▒▒  ░░░░░░░░  ▒▒▒         ░ dead
    chunks   ▓▓·▓▒▒ ▒▒▒                      · NULL, where the row was: costs next to nothing
    extents  ───┬── ── hole ── ─┬─           a long run of dead rows becomes a hole between windows
                └─ one chunk ───┘

An emptied row is NULL in its chunk whatever the tensor's type; no version shows it. Chunks of raw
rows get holes only: a NULL in them would cost the parts that are readable alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    ChunkKind,
    Extents,
    Summaries,
    TensorSpec,
    decode_alike,
    decode_chunk,
    header_rows,
    likeness,
)
from tensorlake.types import (
    Buffer,
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    slice_rows,
    take,
)
from tensorlake.versions.maintenance.plan import Piece
from tensorlake.versions.packs.chunk_builder import PendingChunks
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.rows.live_rows import BoolArray

__all__ = ["Decoded", "StretchWriter", "decoded"]

Int64Array = npt.NDArray[np.int64]

DECODED_TOGETHER = 4096
"""Chunks, of at most 4 KiB each."""

HOLE_NBYTES = 256
"""Dead rows that would take this much become a hole: it costs two more extents, of 14–27 B each,
and a look-up that is a little deeper."""

EMPTIED_NBYTES = 8
"""Bytes of an emptied row of varying length: its place in the header's columns."""

COMPRESSION = 16
"""How much smaller a codec makes emptied rows of a fixed size, at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Pieces that were decoded together, with their rows: mostly one, or many tiny chunks.

    Attributes:
        pieces: Those that were given; none where a stretch ends.
        joined: One piece that covers all.
        column: Their rows; None where they have none.
    """

    pieces: Sequence[Piece] = ()
    joined: Piece | None = None
    column: Column | None = None


def decoded(
    spec: TensorSpec, steps: Iterable[tuple[Piece | None, Buffer | None]]
) -> Iterator[Decoded]:
    """Decode the rows of pieces, as new chunks of the tensor store them.

    Args:
        spec: The tensor.
        steps: The pieces of a stretch in order, with their chunks' bytes; None where it ends.

    Raises:
        CorruptionError: A blob is not what was stored.
    """
    for alike, run in groupby(steps, partial(_likeness, spec)):
        if alike is None:
            yield from (_alone(spec, piece, blob) for piece, blob in run)
            continue
        while some := list(islice(run, DECODED_TOGETHER)):
            yield from _together(spec, some)


def _likeness(spec: TensorSpec, step: tuple[Piece | None, Buffer | None]) -> bytes | None:
    """Return what a chunk shares with those that it may be decoded with; None: it is alone."""
    piece, blob = step
    if piece is None or blob is None or piece.is_shown is not None or len(piece.windows) > 1:
        return None
    is_plain = not piece.skip and piece.read_as == spec.read_as
    return likeness(blob) if is_plain and header_rows(blob) == piece.stop - piece.start else None


def _together(
    spec: TensorSpec, steps: Sequence[tuple[Piece | None, Buffer | None]]
) -> Iterator[Decoded]:
    pieces = [piece for piece, _ in steps if piece is not None]
    blobs = [blob for _, blob in steps if blob is not None]
    first, last = pieces[0], pieces[-1]
    column = None
    if len(pieces) > 1 and last.stop - first.start == len(pieces) * (first.stop - first.start):
        column = decode_alike(
            blobs,
            header_nbytes=first.header_nbytes,
            rows=first.stop - first.start,
            layout=spec.layout,
            verify=[piece.checksum for piece in pieces],
            where=first.where,
        )
    if column is None:
        yield from (_alone(spec, piece, blob) for piece, blob in steps)
        return
    windows = ((first.start, last.stop),)
    yield Decoded(pieces, Piece("chunk", first.start, last.stop, windows), column)


def _alone(spec: TensorSpec, piece: Piece | None, blob: Buffer | None) -> Decoded:
    if piece is None:
        return Decoded()
    has_rows = piece.what in {"chunk", "fill"}
    return Decoded((piece,), piece, _column_of(spec, piece, blob) if has_rows else None)


def _column_of(spec: TensorSpec, piece: Piece, blob: Buffer | None) -> Column:
    if blob is None:
        return spec.type.fill_column(spec.fill, piece.stop - piece.start)
    where = piece.where
    column = decode_chunk(
        blob,
        header_nbytes=piece.header_nbytes,
        rows=header_rows(blob),
        layout=spec.encoding(piece.read_as),
        verify=piece.checksum,
        where=where,
    )
    column = spec.adapt(column, piece.read_as, where=where)
    held = sum(stop - start for start, stop in piece.windows)
    return slice_rows(column, piece.skip, piece.skip + held)


class StretchWriter:
    """Writes one stretch; every row is given once, in order."""

    def __init__(self, spec: TensorSpec, start: int, stage: PackStage) -> None:
        self.start = self.stop = start
        self.dead_rows = 0
        self._spec = spec
        self._stage = stage
        self._pending = PendingChunks(spec)
        self._stored_rows = 0
        self._holes: list[tuple[int, int]] = []  # after how many stored rows, how many rows
        self._emptied: list[Int64Array] = []

    def add(self, piece: Piece, column: Column | None) -> None:
        """Take a piece, with its rows where it has any."""
        if column is None:
            self._add_hole(piece.stop - piece.start)
            self.dead_rows += piece.dead_rows
            return
        self.dead_rows += piece.dead_rows
        done = 0
        for start, stop in piece.windows or ((piece.start, piece.stop),):
            self._add_hole(start - self.stop)
            part = slice_rows(column, done, done + stop - start)
            is_shown = piece.is_shown
            if is_shown is not None:
                is_shown = is_shown[start - piece.start : stop - piece.start]
            if is_shown is None or bool(is_shown.all()):
                self._store(part, None)
            else:
                self._add_live(part, is_shown)
            done += stop - start

    def finish(self) -> Extents:
        """Make chunks of what is left; the extents of all rows from ``start`` to ``stop``."""
        stored = self._pending.seal(self._stage).to_table()
        if self._emptied:
            stored = _without_emptied(stored, np.concatenate(self._emptied))
        parts: list[Extents] = []
        done = 0
        for at, rows in self._holes:
            parts += [stored.slice_rows(done, at), Extents.without_bytes(ChunkKind.HOLE, rows)]
            done = at
        parts.append(stored.slice_rows(done, stored.num_rows))
        return Extents.concat(parts).united()

    def _add_live(self, column: Column, is_shown: BoolArray) -> None:
        """Cut a column at its long runs of dead rows, and empty the others."""
        edges = np.flatnonzero(np.diff(is_shown)) + 1
        begins = np.concatenate([[0], edges])
        ends = np.concatenate([edges, [len(is_shown)]])
        is_hole = ~is_shown[begins] & ((ends - begins) * self._emptied_nbytes() >= HOLE_NBYTES)
        done = 0
        for begin, end in zip(begins[is_hole].tolist(), ends[is_hole].tolist(), strict=True):
            self._store(slice_rows(column, done, begin), is_shown[done:begin])
            self._add_hole(end - begin)
            done = end
        self._store(slice_rows(column, done, len(column)), is_shown[done:])

    def _emptied_nbytes(self) -> int:
        layout = self._spec.layout
        if layout.kind is not ChunkKind.UNIFORM:
            return EMPTIED_NBYTES
        return HOLE_NBYTES if layout.is_raw else max(1, layout.row_nbytes // COMPRESSION)

    def _store(self, column: Column, is_shown: BoolArray | None) -> None:
        if not len(column):
            return
        if is_shown is not None and not bool(is_shown.all()):
            self._emptied.append(self._stored_rows + np.flatnonzero(~is_shown))
            column = emptied(column, is_shown, self._spec.type.shape)
        self._pending = self._pending.with_column(column, self._stage)
        self._stored_rows += len(column)
        self.stop += len(column)

    def _add_hole(self, rows: int) -> None:
        if rows:
            self._holes.append((self._stored_rows, rows))
            self.stop += rows


def emptied(column: Column, is_shown: BoolArray, shape: tuple[int | None, ...]) -> Column:
    """Make NULL what no version shows; nothing of it stays."""
    valid = is_shown if column.valid is None else column.valid & is_shown
    if isinstance(column, UniformColumn):
        values = column.values.copy()
        values[~is_shown] = np.zeros((), values.dtype)
        return UniformColumn(values, valid)
    shapes = None
    if column.shapes is not None:
        shapes = column.shapes.copy()
        shapes[~is_shown] = tuple(length or 0 for length in shape)  # as NULLs have
    if isinstance(column, EncodedColumn):
        pairs = zip(column.samples, is_shown.tolist(), strict=True)
        samples = [one if live else b"" for one, live in pairs]
        maps = column.maps
        if maps is not None:
            maps = [one if live else None for one, live in zip(maps, is_shown, strict=True)]
        return EncodedColumn(samples, shapes, valid, maps)
    kept = take(column, np.flatnonzero(is_shown))
    assert isinstance(kept, RaggedColumn)
    assert shapes is not None
    return RaggedColumn(kept.values, shapes, valid)


def _without_emptied(extents: Extents, rows: Int64Array) -> Extents:
    """Take emptied rows out of the counts of NULLs: these count what versions show."""
    table = extents.statistics.table
    if table is None:
        return extents
    counts = np.bincount(np.searchsorted(extents.stops, rows, side="right"), minlength=len(extents))
    nulls = table.null_count - counts[extents.statistics.known]
    known = replace(table, null_count=nulls.astype(table.null_count.dtype))
    return replace(extents, statistics=Summaries(extents.statistics.known, known))
