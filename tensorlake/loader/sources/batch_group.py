"""A group: consecutive batches of one rank, planned and made together.

    Share, Share, …  ─►  places ─► positions ─► physical rows ─► per tensor (chunk, row in chunk)

Rows of large samples make groups of one batch; rows of a kilobyte make groups of several, so that
no Python step runs per row or even per batch. All the mapping is done here, on arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.config.column_plan import MakeBatch
from tensorlake.loader.runtime.handoff import Outcome
from tensorlake.loader.sources.chunk_cache import ChunkCache, GroupRows, TensorChunks, loaded_chunk
from tensorlake.loader.sources.damaged_rows import place_rows
from tensorlake.loader.sources.windows import row_key
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array, Reader, Selection
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.plan.virtual_columns import VirtualColumn, VirtualValues
    from tensorlake.loader.sources.windows import WindowReads
    from tensorlake.types import Column

__all__ = [
    "Group",
    "Keeps",
    "Piece",
    "add_own",
    "pieces_of",
    "plan_groups",
    "shares_by_segment",
]

# Returns which rows the disk tier keeps, of some shares and of the positions of their rows.
Keeps: TypeAlias = "Callable[[Sequence[Share], Int64Array], NDArray[np.bool_]]"
GROUP_NBYTES = 4 << 20  # of batch memory: enough to amortise the cost of a group
SEGMENT_ROWS = 1 << 16
SEGMENT_GROUPS = 16
COUNTED_CHUNKS = 8  # chunks per row up to which counting all is faster than sorting the rows


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some samples of a tensor that arrive together: read by row, or with a chunk."""

    tensor: str
    number: int  # among the rows read by row, from 0 on; or the ordinal of the chunk
    rows: Int64Array  # of the group, in their order in the dataset

    def parts(self, most_rows: int) -> list[Piece]:
        """Divide it evenly into pieces of at most ``most_rows`` rows; an empty one into itself."""
        count = max(1, -(-len(self.rows) // most_rows))
        return [replace(self, rows=rows) for rows in np.array_split(self.rows, count)]


@dataclass(slots=True, eq=False)
class Group:
    """Batches to be made; ``batches`` is set once, to the batches or to an error.

    ``number`` counts the groups of a pass: work for earlier ones is done first.
    ``own`` holds the samples of tensors that are read by row and not by chunk; ``by_row`` names
    those tensors that other groups read by chunk.
    """

    shares: list[Share]
    places: Int64Array
    rows: Int64Array  # row numbers of the version
    physical: Int64Array
    virtual: dict[str, VirtualValues]
    tensors: dict[str, GroupRows]
    number: int = 0
    by_row: tuple[str, ...] = ()
    kept: NDArray[np.bool_] | None = None  # rows that the disk tier keeps; None: all
    last: dict[str, Int64Array] = field(default_factory=dict[str, "Int64Array"])  # uses of blocks
    next_uses: dict[str, Int64Array] = field(default_factory=dict[str, "Int64Array"])
    own: dict[str, TensorChunks] = field(default_factory=dict[str, TensorChunks])
    stored_nbytes: int = 0  # budget while it is fetched
    batch_nbytes: int = 0  # budget while its batches wait to be used
    batches: Outcome[list[MakeBatch]] = field(default_factory=Outcome[list[MakeBatch]])

    @property
    def borders(self) -> list[int]:
        """Where each batch starts in the group's rows, and the end."""
        return list(accumulate(map(len, self.shares), initial=0))

    def by_keeping(self) -> list[Int64Array]:
        """Return the rows that the disk tier keeps, then those that it does not, if any."""
        if self.kept is None or self.kept.all():
            return [np.arange(len(self.places))]
        return [rows for rows in map(np.flatnonzero, (self.kept, ~self.kept)) if len(rows)]

    def unkept_chunks(self, tensor: str) -> frozenset[int]:
        """Return the ordinals of chunks of which the disk tier keeps no row."""
        if self.kept is None or tensor in self.own:
            return frozenset()
        chunk = self.tensors[tensor].chunk
        return frozenset(chunk[~self.kept].tolist()) - frozenset(chunk[self.kept].tolist())

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rows are valid: all but repeated ones."""
        return np.concatenate([np.full(len(share), share.valid > 0) for share in self.shares])


def pieces_of(
    group: Group,
    missing: list[tuple[str, int]],
    expect: Callable[[str], bool],
    *,
    alone: tuple[str, ...],
    piece_rows: int,
    chunk_rows: int,
) -> tuple[list[Piece], dict[tuple[str, int], Piece], list[Piece]]:
    """Divide a group's needs: rows to read, images of awaited chunks, images in memory.

    Args:
        group: The group.
        missing: The chunks to load, by tensor and ordinal.
        expect: Prepares for a tensor that arrives in pieces; returns whether it has images.
        alone: Tensors that are read by row.
        piece_rows: Minimum rows of a piece of these; 0: all rows are one, and arrive together.
        chunk_rows: Rows of a piece in memory; 0: images are decoded when all is in memory.
    """
    least = piece_rows or len(group.rows)
    read = [piece for tensor in alone for piece in expect_own(group, tensor, least)]
    if piece_rows:
        for tensor in alone:
            expect(tensor)
    awaited: dict[tuple[str, int], Piece] = {}
    in_memory: list[Piece] = []
    chunks: dict[str, list[int]] = {}
    for tensor, number in missing:
        chunks.setdefault(tensor, []).append(number)
    for tensor, numbers in chunks.items():
        if chunk_rows and expect(tensor):
            coming, here = pieces_by_chunk(group, tensor, numbers, chunk_rows)
            awaited.update({(tensor, number): piece for number, piece in coming.items()})
            in_memory.extend(here)
    return read, awaited, in_memory


def expect_own(group: Group, tensor: str, piece_rows: int) -> list[Piece]:
    """Make room for the samples of a tensor that arrive in pieces.

    Rows of a piece are close to each other, and if their chunks are known, a piece ends with a
    chunk: each piece reads few chunks. The disk tier keeps all of a piece, or nothing.
    """
    known = group.tensors.get(tensor)
    order, starts = np.empty(0, np.int64), list[int]()
    for rows in group.by_keeping():
        rows = rows[np.argsort(group.physical[rows], kind="stable")]  # noqa: PLW2901 - as they lie
        chunk = None if known is None else known.chunk[rows]
        starts += [len(order) + at for at in _piece_starts(chunk, len(rows), piece_rows)]
        order = np.concatenate([order, rows])
    stops = [*starts[1:], len(order)]
    pieces = [
        Piece(tensor, number, order[start:stop])
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True))
    ]
    chunks = TensorChunks(tensor)
    in_piece = np.empty_like(order)
    piece_of = np.empty_like(order)
    for piece in pieces:
        chunks.ordinal(piece.number)
        in_piece[piece.rows] = np.arange(len(piece.rows))
        piece_of[piece.rows] = piece.number
    group.tensors[tensor] = GroupRows(piece_of, in_piece, np.arange(len(pieces), dtype=np.int64))
    group.own[tensor] = chunks
    return pieces


def _piece_starts(chunk: Int64Array | None, count: int, piece_rows: int) -> list[int]:
    """Return the starts of pieces of some rows; with known chunks, pieces start with a chunk."""
    if chunk is None:
        return list(range(0, count, piece_rows))
    starts = [0]
    for border in (np.flatnonzero(np.diff(chunk)) + 1).tolist():
        if border - starts[-1] >= piece_rows:
            starts.append(border)
    return starts


def add_own(
    group: Group, piece: Piece, column: Column, lost: NDArray[np.bool_] | None = None
) -> None:
    """Add the samples of a piece to a group, and return which of them are lost."""
    group.own[piece.tensor].put(piece.number, replace(loaded_chunk(column, b""), lost=lost))


def pieces_by_chunk(
    group: Group, tensor: str, awaited: list[int], piece_rows: int
) -> tuple[dict[int, Piece], list[Piece]]:
    """Divide a tensor's rows by awaited chunk, and rows of chunks in memory evenly."""
    chunk = group.tensors[tensor].chunk
    order = np.argsort(chunk, kind="stable")
    starts = np.searchsorted(chunk[order], awaited, "left").tolist()
    stops = np.searchsorted(chunk[order], awaited, "right").tolist()
    coming = {
        number: Piece(tensor, number, order[start:stop])
        for number, start, stop in zip(awaited, starts, stops, strict=True)
    }
    in_memory = np.flatnonzero(~np.isin(chunk, awaited))
    parts = [
        in_memory[start : start + piece_rows] for start in range(0, len(in_memory), piece_rows)
    ]
    return coming, [Piece(tensor, number, part) for number, part in enumerate(parts)]


def shares_by_segment(
    shares: Iterable[Share],
    *,
    row_nbytes: int,
    first_batches: int = 1,
    most_rows: Callable[[], float] = lambda: math.inf,
) -> Iterator[list[list[Share]]]:
    """Divide the batches of a pass into groups, and the groups into segments planned at once.

    Segments start with one batch, or as many as given, and double: the first batch waits for its
    own chunks alone. Rows of 0 bytes make one group of a segment. No share is consumed before it
    is in a segment. ``most_rows`` is asked for the rows of a group of several batches.
    """
    segment: list[list[Share]] = []
    group: list[Share] = []
    limit = first_batches
    rows = group_rows = batches = 0
    for share in shares:
        count = len(share)
        whole = group_rows + count
        if group and (whole * row_nbytes > GROUP_NBYTES or whole > most_rows()):
            segment.append(group)
            group, group_rows = [], 0
        group.append(share)
        group_rows += count
        rows += count
        batches += 1
        if batches >= limit or rows >= SEGMENT_ROWS or len(segment) >= SEGMENT_GROUPS:
            yield [*segment, group]
            segment, group = [], []
            limit, rows, group_rows, batches = 2 * limit, 0, 0, 0
    if group:
        yield [*segment, group]


def plan_groups(
    segment: list[list[Share]],
    *,
    plan: Plan,
    selection: Selection,
    reader: Reader,
    cache: ChunkCache,
    tensors: tuple[str, ...],
    virtual: Mapping[str, VirtualColumn],
    skips: bool = False,
    windows: WindowReads | None = None,
    keeps: Keeps | None = None,
    alone: tuple[str, ...] = (),
) -> list[Group]:
    """Locate every row of a segment's groups; those of windows by block, where they are given.

    ``keeps`` returns for shares, and the positions of their rows, which the disk tier keeps. Rows
    of the tensors ``alone`` are their own chunks.
    """
    shares = [share for group in segment for share in group]
    places = np.concatenate([plan.deal(share) for share in shares])
    positions = plan.at(places)
    rows = selection.row_numbers(positions)
    physical = selection.physical(positions)
    located: dict[str, tuple[Int64Array, Int64Array]] = {}
    last: dict[str, Int64Array] = {}
    if windows is not None:
        located, last = windows.locate(places)
    for tensor in tensors:
        if tensor in located:
            continue
        if tensor in alone:
            key_of = partial(row_key, nbytes=reader.row_nbytes((tensor,))[0])
            located[tensor] = cache.rows(tensor, physical, key_of), np.zeros_like(physical)
            continue
        if skips:
            located[tensor] = place_rows(reader, cache, tensor, physical)
            continue
        found = reader.locate(tensor, physical)
        located[tensor] = (
            cache.ordinals(tensor, found.chunk, found.chunks),
            np.asarray(found.row_in_chunk, dtype=np.int64),
        )
    groups: list[Group] = []
    start = 0
    for members in segment:
        stop = start + sum(map(len, members))
        where = {
            tensor: _rows_of(chunk[start:stop], row[start:stop])
            for tensor, (chunk, row) in located.items()
        }
        part = slice(start, stop)
        taken = {name: column.take(positions[part]) for name, column in virtual.items()}
        group = Group(members, places[part], rows[part], physical[part], taken, where)
        group.last = {tensor: uses[part][uses[part] >= 0] for tensor, uses in last.items()}
        group.kept = None if keeps is None else keeps(members, positions[part])
        groups.append(group)
        start = stop
    return groups


def _rows_of(chunk: Int64Array, row_in_chunk: Int64Array) -> GroupRows:
    highest = int(chunk.max(initial=0))
    if highest > COUNTED_CHUNKS * len(chunk):
        return GroupRows(chunk, row_in_chunk, distinct(chunk))
    used = np.flatnonzero(np.bincount(chunk, minlength=1))  # without sorting
    return GroupRows(chunk, row_in_chunk, used)
