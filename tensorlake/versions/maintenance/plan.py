"""Which chunks of a tensor are worth writing again: the plan of ``optimize``.

An index is a row of *pieces*: the rest of a chunk, a fill, dead rows. A piece that reads well
is a wall, which is never touched. Between walls, a *stretch* moves into new chunks if that helps:

    ▓▓▓▓▓▓▓▓ ▒ ▒ ▒▒ ▓▓▓▓▓▓▓▓ ▒ ▓▓▓▓▓▓▓▓ ▓▓░░▓▓▓▓      ▓ full   ▒ small   ░ dead rows in a chunk
             └─┬──┘          │          └──┬───┘
          one stretch   alone: stays    moved, to drop what is dead

A piece must move when it holds values that no row shows: dead rows, or rows of its chunk that were
given new values since. So after ``delete`` and ``optimize`` nothing of a deleted row is left in
what the newest version refers to. Small pieces move where at least two meet.

Facts that the index lacks (the rows of a chunk, its decoded size, whether its dead rows were
emptied before) are in the chunk's header, which is read if they matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    NO_PACK,
    ChunkHeader,
    ChunkKind,
    Extents,
    PackId,
    Root,
    RowSegments,
    TensorSpec,
    header_rows,
    read_header,
    tree,
)
from tensorlake.storage import runtime
from tensorlake.versions.log.state import ExtentRoot
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.rows.live_rows import BoolArray, visible_rows

__all__ = [
    "NEVER_MOVED",
    "ChunkWindows",
    "Piece",
    "chunk_pieces",
    "is_partial",
    "iter_pieces",
    "moves",
    "small_chunks",
    "stored_chunks",
]

Int64Array = npt.NDArray[np.int64]

WINDOW_ROWS = 1 << 23
"""Rows planned together: 8 MiB of which rows are shown."""

HEADERS_AT_ONCE = 32

SURELY_SMALL = 64
"""No codec makes samples this many times smaller; headers of chunks that would be small
even so are not read."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive physical rows that are stored in one chunk, have a fill, or are dead.

    Attributes:
        what: "wall" (stays as it is), "chunk", "fill", "dead" (to become a hole) or "hole".
        start: Its first physical row.
        stop: The row after its last.
        windows: For a chunk, the physical ranges of its rows; holes are between them.
        skip: For a chunk, the chunk's row of the first of them; the others follow it.
        is_whole: Whether a chunk has no other rows; None when only its header knows.
        must_move: Whether it holds what no row shows.
        is_shown: For each row from ``start`` on, whether a version shows it; None: all are.
    """

    what: Literal["wall", "chunk", "fill", "dead", "hole"]
    start: int
    stop: int
    windows: tuple[tuple[int, int], ...] = ()
    pack: PackId | None = None
    offset: int = 0
    nbytes: int = 0
    header_nbytes: int = 0
    checksum: int = 0
    read_as: int = 0
    skip: int = 0
    is_whole: bool | None = None
    must_move: bool = False
    is_shown: BoolArray | None = None

    @property
    def dead_rows(self) -> int:
        """Rows to be dropped: those of holes, and those emptied before, are already."""
        if not self.must_move or self.is_shown is None:
            return 0
        held = sum(stop - start for start, stop in self.windows)
        return held - int(np.count_nonzero(self.is_shown))

    @property
    def where(self) -> str:
        """Its chunk, as errors name it."""
        assert self.pack is not None
        return f"chunk {self.pack.path}[{self.offset}:{self.offset + self.nbytes}]"


def moves(pieces: Iterable[Piece], is_partial: Callable[[Piece], bool]) -> Iterator[Piece | None]:
    """List the pieces that move, each stretch followed by None.

    Args:
        pieces: All pieces of a tensor, in order.
        is_partial: Called for a small piece that is alone and may be part of its chunk.
    """
    held: list[Piece] = []
    is_open = False
    for piece in chain(pieces, [Piece("wall", 0, 0)]):
        if piece.what == "wall":
            alone = [one for one in held if one.what == "chunk" and one.is_whole is None]
            if alone and is_partial(alone[0]):  # two would have been worth moving
                yield from held
                is_open = True
            if is_open:
                yield None
            held, is_open = [], False
        elif is_open:
            yield piece
        elif held or piece.what != "hole":
            held.append(piece)
            if _is_worth_moving(held):
                yield from held
                held, is_open = [], True


def _is_worth_moving(held: list[Piece]) -> bool:
    chunks = sum(piece.what == "chunk" for piece in held)
    fills = sum(piece.what == "fill" for piece in held)
    return any(piece.must_move for piece in held) or (chunks >= 1 and chunks + fills > 1)


async def is_partial(piece: Piece, packs: PackReader) -> bool:
    """Read from a chunk's header whether the chunk has rows outside of the piece."""
    header = await _header(piece, packs)
    return header.rows != sum(stop - start for start, stop in piece.windows)


def stored_chunks(extents: Extents) -> Extents:
    """Keep one extent of each chunk, regardless of the windows that updates cut it into."""
    placed = np.flatnonzero(extents.pack != NO_PACK)
    place = np.stack((extents.pack[placed].astype(np.uint64), extents.offset[placed]), axis=1)
    _, first = np.unique(place, axis=0, return_index=True)
    return extents.take(placed[np.sort(first)])


def small_chunks(spec: TensorSpec, extents: Extents) -> int:
    """Count the chunks that are surely small, by the index alone: what merging is for."""
    chunks = stored_chunks(extents)
    layout = spec.layout
    decoded = (chunks.nbytes - chunks.header_nbytes).astype(np.int64)
    if layout.kind is ChunkKind.UNIFORM:
        decoded = chunks.rows.astype(np.int64) * layout.row_nbytes
    elif not layout.is_raw:
        decoded = decoded * SURELY_SMALL
    return int(np.count_nonzero(2 * decoded < spec.chunk_nbytes))


async def iter_pieces(
    spec: TensorSpec,
    root: ExtentRoot,
    rows: Root[RowSegments],
    packs: PackReader,
    leaving: AbstractSet[PackId] = frozenset(),
) -> AsyncIterator[list[Piece]]:
    """Cut a tensor's index into pieces, some at a time; chunks of packs ``leaving`` must move."""
    held, start = Extents.empty(), 0
    async for base, table in tree.scan(root, packs.pages):
        for at, part in _windows(table):
            joined = Extents.concat([held, part])
            start = base + at - held.num_rows
            cut = _last_group(joined)
            ready, held = joined.take(np.arange(cut)), joined.take(np.arange(cut, len(joined)))
            yield await _classified(spec, ready, start, rows, packs, leaving)
    if len(held):
        yield await _classified(spec, held, root.rows - held.num_rows, rows, packs, leaving)


def _windows(table: Extents) -> Iterator[tuple[int, Extents]]:
    """Cut a leaf between extents where it covers too many rows."""
    stops = table.stops
    cuts = [0]
    while cuts[-1] < len(table):
        before = int(stops[cuts[-1] - 1]) if cuts[-1] else 0
        fits = int(np.searchsorted(stops, before + WINDOW_ROWS, side="right"))
        cuts.append(max(fits, cuts[-1] + 1))
    for first, last in pairwise(cuts):
        yield (int(stops[first - 1]) if first else 0), table.take(np.arange(first, last))


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWindows:
    """Runs of extents that are adjoining windows of one chunk, holes between them included.

    Attributes:
        stored: The extents that are stored in packs.
        group: Which group each of them belongs to.
        first: The first extent of each group.
    """

    stored: Int64Array
    group: Int64Array
    first: Int64Array

    @classmethod
    def of(cls, table: Extents) -> ChunkWindows:
        """Find the runs of a table."""
        stored = np.flatnonzero(table.pack != NO_PACK)
        fills = np.cumsum((table.pack == NO_PACK) & (table.kind != ChunkKind.HOLE))
        rows, skip = table.rows.astype(np.int64), table.skip.astype(np.int64)
        before, after = stored[:-1], stored[1:]
        goes_on = (
            (table.pack[before] == table.pack[after])
            & (table.offset[before] == table.offset[after])
            & (skip[after] == skip[before] + rows[before])
            & (fills[before] == fills[after])
        )
        is_first = np.concatenate([[True], ~goes_on])[: len(stored)]
        return cls(stored, np.cumsum(is_first) - 1, stored[is_first])

    def spans(self, is_wanted: BoolArray) -> list[tuple[int, int]]:
        """Where the extents of some groups are among the stored ones."""
        begins = np.searchsorted(self.group, np.flatnonzero(is_wanted))
        ends = np.searchsorted(self.group, np.flatnonzero(is_wanted), side="right")
        return list(zip(begins.tolist(), ends.tolist(), strict=True))

    def is_inside(self, entries: int) -> BoolArray:
        """Which extents lie between the first and the last of one group."""
        change = np.zeros(entries + 1, np.int64)
        last = [self.stored[end - 1] for _, end in self.spans(np.ones(len(self.first), np.bool_))]
        np.add.at(change, self.first, 1)
        np.add.at(change, np.array(last, np.int64) + 1, -1)
        return np.cumsum(change)[:-1] > 0


def _last_group(table: Extents) -> int:
    """The first extent of the last group, which may continue in the next leaf."""
    groups = ChunkWindows.of(table)
    if not len(groups.first):
        return len(table)
    last = int(groups.stored[-1])
    if bool((table.kind[last + 1 :] == ChunkKind.FILL).any()):
        return len(table)  # a fill ends it
    return int(groups.first[-1])


async def _classified(
    spec: TensorSpec,
    table: Extents,
    start: int,
    rows: Root[RowSegments],
    packs: PackReader,
    leaving: AbstractSet[PackId],
) -> list[Piece]:
    groups = ChunkWindows.of(table)
    stops = start + table.stops
    starts = stops - table.rows.astype(np.int64)
    found: list[tuple[int, Piece]] = [
        (at, _without_bytes(spec, int(table.kind[at]), int(starts[at]), int(stops[at])))
        for at in np.flatnonzero((table.pack == NO_PACK) & ~groups.is_inside(len(table))).tolist()
    ]
    if len(groups.stored):
        low, high = int(starts[groups.stored[0]]), int(stops[groups.stored[-1]])
        shown = await visible_rows(rows, low, high, packs.pages)
        counted = np.concatenate([[0], np.cumsum(shown)])
        ends, begins = stops[groups.stored] - low, starts[groups.stored] - low
        live = np.bincount(groups.group, counted[ends] - counted[begins])
        held = np.bincount(groups.group, table.rows[groups.stored]).astype(np.int64)
        is_wall = _surely_full(spec, table, groups, held) & (live == held)
        numbers = [number for number, pack in enumerate(table.packs) if pack in leaving]
        is_wall &= ~np.isin(table.pack[groups.first], numbers)
        is_wall |= np.isin(table.kind[groups.first], NEVER_MOVED)
        found += [
            (at, Piece("wall", int(starts[at]), int(stops[at]), nbytes=int(table.nbytes[at])))
            for at in groups.first[is_wall].tolist()
        ]
        pieces = chunk_pieces(table, groups, ~is_wall, start)
        pieces = [_with_shown(piece, shown, low) for piece in pieces]
        judged = await runtime.gather_bounded(
            [partial(_judged, spec, piece, packs) for piece in pieces], limit=HEADERS_AT_ONCE
        )
        judged = [_leaving(piece) if piece.pack in leaving else piece for piece in judged]
        found += zip(groups.first[~is_wall].tolist(), judged, strict=True)
    return [piece for _, piece in sorted(found, key=lambda item: item[0])]


NEVER_MOVED = (ChunkKind.TILED, ChunkKind.EXTERNAL)


def _surely_full(
    spec: TensorSpec, table: Extents, groups: ChunkWindows, held_rows: Int64Array
) -> BoolArray:
    """Return which groups are whole chunks of a good size, judging by the index."""
    layouts = spec.encodings
    first = groups.first
    read_as = table.read_as[first]
    is_uniform_raw = np.array([one.kind is ChunkKind.UNIFORM and one.is_raw for one in layouts])
    is_raw = np.array([one.is_raw for one in layouts])
    row_nbytes = np.array(
        [one.row_nbytes if one.kind is ChunkKind.UNIFORM else 0 for one in layouts]
    )
    payload = (table.nbytes[first] - table.header_nbytes[first]).astype(np.int64)
    has_all_rows = is_uniform_raw[read_as] & (payload == held_rows * row_nbytes[read_as])
    is_single = np.bincount(groups.group, minlength=len(first)) == 1
    has_units = (table.units.counts[first] == held_rows) & ~is_uniform_raw[read_as]
    is_whole = (table.skip[first] == 0) & (has_all_rows | (has_units & is_single))
    return is_whole & is_raw[read_as] & (2 * payload >= spec.chunk_nbytes)


def _without_bytes(spec: TensorSpec, kind: int, start: int, stop: int) -> Piece:
    if kind == ChunkKind.HOLE:
        return Piece("hole", start, stop)
    row_nbytes = spec.layout.row_nbytes if spec.layout.kind is ChunkKind.UNIFORM else 1
    is_small = 2 * (stop - start) * max(1, row_nbytes) < spec.chunk_nbytes
    is_small &= stop - start < WINDOW_ROWS
    return Piece("fill" if is_small else "wall", start, stop)


def chunk_pieces(
    table: Extents, groups: ChunkWindows, is_wanted: BoolArray, start: int
) -> list[Piece]:
    """Make the pieces of some chunks.

    Args:
        table: The extents.
        groups: Their groups.
        is_wanted: For each group, whether to make its piece.
        start: The physical row where the table begins.
    """
    if not is_wanted.any():
        return []
    packs = [*table.packs]
    stops = (start + table.stops[groups.stored]).tolist()
    starts = (start + table.stops - table.rows.astype(np.int64))[groups.stored].tolist()
    first = groups.first[is_wanted]
    facts = zip(
        groups.spans(is_wanted),
        table.pack[first].tolist(),
        table.offset[first].tolist(),
        table.nbytes[first].tolist(),
        table.header_nbytes[first].tolist(),
        table.checksum[first].tolist(),
        table.read_as[first].tolist(),
        table.skip[first].tolist(),
        strict=True,
    )
    return [
        Piece(
            "chunk",
            starts[begin],
            stops[end - 1],
            windows=tuple(zip(starts[begin:end], stops[begin:end], strict=True)),
            pack=packs[pack],
            offset=offset,
            nbytes=nbytes,
            header_nbytes=header_nbytes,
            checksum=checksum,
            read_as=read_as,
            skip=skip,
        )
        for (begin, end), pack, offset, nbytes, header_nbytes, checksum, read_as, skip in facts
    ]


def _with_shown(piece: Piece, shown: BoolArray, low: int) -> Piece:
    """Note which rows of a piece a version shows, given those from ``low`` on; None: all."""
    is_shown = shown[piece.start - low : piece.stop - low]
    return piece if bool(is_shown.all()) else replace(piece, is_shown=is_shown.copy())


async def _judged(spec: TensorSpec, piece: Piece, packs: PackReader) -> Piece:
    """Return whether a chunk is a wall, is small, or must move."""
    if piece.is_shown is not None and not piece.is_shown.any():
        return replace(piece, what="dead", must_move=True)
    layout = spec.encoding(piece.read_as)
    held = sum(stop - start for start, stop in piece.windows)
    payload = piece.nbytes - piece.header_nbytes
    decoded = held * layout.row_nbytes if layout.kind is ChunkKind.UNIFORM else payload
    is_small = 2 * decoded < spec.chunk_nbytes
    is_whole = False if piece.skip else None
    if layout.kind is ChunkKind.UNIFORM and layout.is_raw and layout.row_nbytes:
        is_whole = piece.skip == 0 and payload == held * layout.row_nbytes
    must_move = is_whole is False
    has_dead = any(
        piece.is_shown is not None and not piece.is_shown[a - piece.start : b - piece.start].all()
        for a, b in piece.windows
    )
    is_packed = not layout.is_raw and layout.kind is not ChunkKind.UNIFORM
    maybe_full = is_small and is_packed and 2 * payload * SURELY_SMALL >= spec.chunk_nbytes
    if not must_move and (has_dead or maybe_full or (not is_small and is_whole is None)):
        header = await _header(piece, packs)
        is_whole = piece.skip == 0 and header.rows == held
        is_small = 2 * header.decoded_nbytes < spec.chunk_nbytes if is_packed else is_small
        must_move = not is_whole or (has_dead and not _is_emptied(piece, header))
    what = "chunk" if is_small or must_move else "wall"
    return replace(piece, what=what, is_whole=is_whole, must_move=must_move)


def _leaving(piece: Piece) -> Piece:
    """Return a chunk that must move, whatever its size."""
    return replace(piece, what="chunk" if piece.what == "wall" else piece.what, must_move=True)


def _is_emptied(piece: Piece, header: ChunkHeader) -> bool:
    """Whether the dead rows of a chunk are NULL in it: ``optimize`` left nothing of them."""
    if header.valid is None or piece.is_shown is None:
        return False
    at = piece.skip
    for start, stop in piece.windows:
        is_shown = piece.is_shown[start - piece.start : stop - piece.start]
        if bool((header.valid[at : at + stop - start] & ~is_shown).any()):
            return False
        at += stop - start
    return True


async def _header(piece: Piece, packs: PackReader) -> ChunkHeader:
    assert piece.pack is not None
    data = await packs.read_range(piece.pack, piece.offset, piece.header_nbytes)
    return read_header(
        data, header_nbytes=piece.header_nbytes, rows=header_rows(data), where=piece.where
    )
