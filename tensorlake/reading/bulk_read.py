"""Bulk reads of rows of one shape: threads fill one preallocated array chunk by chunk.

    asked     c0 rows 5 … 63      c1 rows 0 … 63      c2 rows 3, 9, 40
    pieces    rows of a chunk, and where in the array they go
    array     [5 … 63 of c0][c1, read or decompressed in place][3, 9, 40 of c2]

All windows of a chunk that updates cut are one piece, so that it is looked up and decoded once.

Beside the array there is at most one decoded chunk per thread, and none where all rows of a chunk
go to one place: a raw chunk is read from its file into the array, a compressed one is decompressed
into it. A chunk's bytes are verified before its rows become visible. The time goes into reading,
hashing and decompression, which release the interpreter and run in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    ChunkKind,
    TensorSpec,
    check_in_place,
    decode_chunk_into,
    header_rows,
)
from tensorlake.reading.decode import (
    adapted,
    decoded,
    too_short,
    verified,
    verify_pieces,
)
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.reading.index.extent_table import ChunkRun
from tensorlake.storage import Buffer, parallel_map, usable_cores
from tensorlake.types import Column, UniformColumn, slice_rows, take
from tensorlake.versions import PackReader

__all__ = ["FILLED_NBYTES_MIN", "Filling", "Piece", "is_filled", "pieces_of", "pieces_of_runs"]

Int64Array = npt.NDArray[np.int64]
Rows = slice | Int64Array

LONG_RUN = 8
"""Windows of at least this many rows, on average, are copied one by one; of shorter ones each row
by itself, and twice."""

FILLED_NBYTES_MIN = 4 << 20
"""Smaller reads are joined from decoded chunks: starting threads would take longer."""

KEPT_SHARE = 4
"""A read of up to this fraction (1/N) of the cache's capacity caches its decoded chunks. A larger
one would only evict the chunks of other reads."""

SHARE_NBYTES = 4 << 20
"""Bytes of chunks per task: handing out 256 chunks one by one took 30 of 139 ms of processor time
(docs/decisions/0028)."""

SHARES_OF_THREAD = 4
"""Least number of tasks per thread, so that none waits long for the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Several runs of rows, ascending: small beside the rows, which are named on demand."""

    starts: Int64Array
    counts: Int64Array

    def __len__(self) -> int:
        return int(self.counts.sum())

    def indices(self) -> Int64Array:
        """Return each row."""
        before = np.cumsum(self.counts) - self.counts
        return np.repeat(self.starts - before, self.counts) + np.arange(len(self))


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Requested rows of one chunk, and their destination; both are windows, or neither."""

    key: ChunkKey
    rows: Rows | Windows  # counted inside the chunk
    target: Rows | Windows  # rows of the array

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.rows.stop - self.rows.start if isinstance(self.rows, slice) else len(self.rows)


def is_filled(spec: TensorSpec, rows: int) -> bool:
    """Return whether a read of `rows` rows of a tensor uses this module."""
    layout = spec.layout
    if layout.kind is not ChunkKind.UNIFORM or spec.holds_codes:
        return False
    return rows * layout.row_nbytes >= FILLED_NBYTES_MIN


def pieces_of_runs(runs: Sequence[ChunkRun]) -> list[Piece]:
    """Plan the pieces of consecutive rows."""
    by_chunk: dict[ChunkKey, list[int]] = {}
    for at, run in enumerate(runs):
        by_chunk.setdefault(run.chunk, []).append(at)
    starts = np.array([run.start for run in runs])
    counts = np.array([run.stop for run in runs]) - starts
    targets = np.cumsum(counts) - counts
    pieces: list[Piece] = []
    for key, places in by_chunk.items():
        if len(places) > 1 and not key.is_fill:
            own = counts[places]
            rows, target = (Windows(one[places], own) for one in (starts, targets))
            pieces.append(Piece(key, rows, target))
            continue
        for start, at, count in zip(
            *(one[places].tolist() for one in (starts, targets, counts)), strict=True
        ):
            pieces.append(Piece(key, slice(start, start + count), slice(at, at + count)))
    return pieces


def pieces_of(
    keys: Sequence[ChunkKey], wanted: Sequence[Int64Array], order: Int64Array | None
) -> list[Piece]:
    """Plan the pieces of the requested rows of each chunk.

    Args:
        keys: The chunks.
        wanted: The requested rows of each.
        order: The destinations of all their rows; None for consecutive ones.
    """
    borders = np.cumsum([0, *map(len, wanted)]).tolist()
    places = [slice(start, stop) for start, stop in pairwise(borders)]
    return [
        Piece(key, _narrow(rows), place if order is None else order[place])
        for key, rows, place in zip(keys, wanted, places, strict=True)
    ]


class Filling:
    """An array that is being filled; pieces may be placed by several threads at once."""

    def __init__(self, spec: TensorSpec, rows: int, packs: PackReader, cache: ChunkCache) -> None:
        self.spec = spec
        self._packs = packs
        self._cache = cache
        self._layout = spec.layout
        shape = tuple(length or 0 for length in self._layout.shape)
        dtype = self._layout.element_dtype.newbyteorder("<")
        self._values = np.empty((rows, *shape), dtype)
        self._valid: list[tuple[Rows, npt.NDArray[np.bool_]]] = []
        self._is_kept = self._values.nbytes * KEPT_SHARE <= cache.nbytes_max

    def place_cached(self, pieces: Sequence[Piece]) -> list[int]:
        """Place the pieces that need no request, in threads; return the indices of the others.

        Raises:
            CorruptionError: A chunk is damaged.
        """
        shares = _shares(pieces, usable_cores() * SHARES_OF_THREAD)
        placed = chain.from_iterable(parallel_map(self._place_share, shares))
        return [at for at, is_placed in enumerate(placed) if not is_placed]

    def place(self, piece: Piece, blob: Buffer) -> None:
        """Verify a chunk's bytes, and copy its rows to their destination.

        Raises:
            CorruptionError: The chunk is damaged.
        """
        self._put_decoded(piece, verified(piece.key, blob))

    def put(self, piece: Piece, column: Column) -> None:
        """Copy rows that were read in another way to their destination."""
        assert isinstance(column, UniformColumn), "samples of one shape have such columns"
        assert not isinstance(piece.target, Windows), "they go by _put_windows"
        self._values[piece.target] = column.values
        self._note_valid(piece, column.valid)

    def column(self) -> UniformColumn:
        """All rows, once every piece was placed."""
        if not self._valid:
            return UniformColumn(self._values)
        valid = np.ones(len(self._values), np.bool_)
        for target, of_piece in self._valid:
            valid[target] = of_piece
        return UniformColumn(self._values, valid)

    def _place_share(self, pieces: Sequence[Piece]) -> list[bool]:
        return [self._place_here(piece) for piece in pieces]

    def _place_here(self, piece: Piece) -> bool:
        """Place a piece if it needs no request; return whether it did."""
        key = piece.key
        if key.is_fill:
            self.put(piece, self.spec.type.fill_column(self.spec.fill, piece.count))
            return True
        kept = self._cache.column(key)
        if kept is not None:
            self._put_rows(piece, kept)
            return True
        if self._is_read_in_place(piece):
            return True
        blob = self._packs.map_range(key.pack, key.offset, key.nbytes)
        if blob is None:
            return False
        is_raw = self.spec.encoding(key.read_as).is_raw
        if not (is_raw and self._cache.is_verified(key)):  # decompressors accept damaged input
            verified(key, blob)
            self._cache.set_verified(key)
        self._put_decoded(piece, blob)
        return True

    def _is_read_in_place(self, piece: Piece) -> bool:
        """Read all rows of a raw chunk from a local file into the array, if possible."""
        key = piece.key
        payload_nbytes = key.nbytes - key.header_nbytes
        target = self._place_in_place(piece)
        if (
            target is None
            or not self._layout.is_raw
            or payload_nbytes != piece.count * self._layout.row_nbytes
        ):
            return False
        values = self._values[target]
        head = memoryview(bytearray(key.header_nbytes))
        pieces = [head, values.reshape(-1).view(np.uint8).data]
        if not self._packs.read_into(key.pack, key.offset, pieces):
            return False
        if not self._cache.is_verified(key):
            verify_pieces(key, pieces)
            self._cache.set_verified(key)
        valid = check_in_place(values, head, header_nbytes=key.header_nbytes, where=str(key))
        self._note_valid(piece, valid)
        return True

    def _put_decoded(self, piece: Piece, blob: Buffer) -> None:
        key = piece.key
        target = self._place_in_place(piece)
        if target is not None and not self._is_kept and header_rows(blob) == piece.count:
            valid = decode_chunk_into(
                self._values[target],
                blob,
                header_nbytes=key.header_nbytes,
                layout=self._layout,
                where=str(key),
            )
            self._note_valid(piece, valid)
            return
        column = decoded(self.spec, key, blob)
        if self._is_kept:
            self._cache.keep(key, column)
        self._put_rows(piece, column)

    def _place_in_place(self, piece: Piece) -> slice | None:
        """Return where rows from a chunk's first on go, as they are in the chunk; else None."""
        rows, target = piece.rows, piece.target
        if not isinstance(rows, slice) or not isinstance(target, slice) or rows.start:
            return None
        return target if piece.key.read_as == self.spec.read_as else None

    def _put_windows(self, piece: Piece, whole: Column) -> None:
        rows, target = piece.rows, piece.target
        assert isinstance(rows, Windows)
        assert isinstance(target, Windows)
        if (
            len(rows) < LONG_RUN * len(rows.counts)
            or not isinstance(whole, UniformColumn)
            or whole.valid is not None
            or piece.key.read_as != self.spec.read_as
        ):
            self._put_rows(Piece(piece.key, rows.indices(), target.indices()), whole)
            return
        if rows.starts[-1] + rows.counts[-1] > len(whole):
            raise too_short(piece.key)
        runs = (one.tolist() for one in (rows.starts, target.starts, rows.counts))
        for start, at, count in zip(*runs, strict=True):
            self._values[at : at + count] = whole.values[start : start + count]

    def _put_rows(self, piece: Piece, whole: Column) -> None:
        rows = piece.rows
        if isinstance(rows, Windows):
            self._put_windows(piece, whole)
            return
        last = rows.stop - 1 if isinstance(rows, slice) else int(rows.max())
        if last >= len(whole):
            raise too_short(piece.key)
        target = piece.target
        if (
            isinstance(rows, np.ndarray)
            and isinstance(target, slice)
            and isinstance(whole, UniformColumn)
            and piece.key.read_as == self.spec.read_as
        ):
            # no copy between; "raise" would make one, and the rows were checked
            np.take(whole.values, rows, axis=0, out=self._values[target], mode="clip")
            self._note_valid(piece, None if whole.valid is None else whole.valid[rows])
            return
        part = (
            slice_rows(whole, rows.start, rows.stop)
            if isinstance(rows, slice)
            else take(whole, rows)
        )
        self.put(piece, adapted(self.spec, piece.key, part))

    def _note_valid(self, piece: Piece, valid: npt.NDArray[np.bool_] | None) -> None:
        assert not isinstance(piece.target, Windows), "they go by _put_windows"
        if valid is not None and not valid.all():
            self._valid.append((piece.target, valid))


def _shares(pieces: Sequence[Piece], least: int) -> list[Sequence[Piece]]:
    """Divide pieces into at least `least` shares if possible, keeping neighbours together."""
    nbytes = np.cumsum([piece.key.nbytes for piece in pieces])
    share = max(1, min(SHARE_NBYTES, int(nbytes[-1]) // least))
    starts = [0, *(np.flatnonzero(np.diff((nbytes - 1) // share)) + 1).tolist(), len(pieces)]
    return [pieces[start:stop] for start, stop in pairwise(starts)]


def _narrow(rows: Int64Array) -> Rows:
    """Return consecutive rows as a slice."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1 and bool((rows[1:] - rows[:-1] == 1).all()):
        return slice(first, last + 1)
    return rows
