"""Compaction of a branch's tail: merge the small chunks of the newest commits.

A commit of one row makes a chunk of one row for each tensor. So every 64th commit is followed by
an entry that changes nothing, in which the last small chunks of each tensor are one:

    chunks at main@64     ▓▓▓ ▪ ▪ ▪ ▪ ▪ … ▪             ▓ large: stays   ▪ small   ▫ merged
              main@65     ▓▓▓ ▫▫▫▫▫▫▫▫▫▫▫▫▫
              main@128    ▓▓▓ ▫▫▫▫▫▫▫▫▫▫▫▫▫ ▪ ▪ ▪ … ▪
              main@129    ▓▓▓ ▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫▫   until it is large

It differs from ``optimize`` (``maintenance/optimize.py``), whose parts it uses, in its limits: only
the last extents of each index are looked at, only small chunks of small samples are moved, and at
most 1 MiB at once. Rows that no version shows keep their values, so it depends only on the
extents that it replaces. Every other entry takes precedence: after a lost race it is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np

from tensorlake.format import (
    NO_PACK,
    Changes,
    ChunkKind,
    Entry,
    Extents,
    PackId,
    PageSink,
    Parts,
    TensorSpec,
    tree,
)
from tensorlake.storage import Buffer, LocalStore, runtime
from tensorlake.versions.log.entries import fence_of
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import ExtentRoot, Published, State
from tensorlake.versions.maintenance.background import Background
from tensorlake.versions.maintenance.index_edits import Edit, Round, with_edits
from tensorlake.versions.maintenance.plan import NEVER_MOVED, ChunkWindows, Piece, chunk_pieces
from tensorlake.versions.maintenance.rewrite_chunks import StretchWriter, decoded
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.rows.live_rows import BoolArray
from tensorlake.versions.transaction.publish import Draft, Publication, publish

__all__ = ["COMPACTED_EVERY", "MESSAGE", "compact_in_background", "compact_tail"]

COMPACTED_EVERY = 64
"""Commits between two compactions: as many as the inline tail of an index has entries."""

CHUNK_NBYTES = 64 << 10
"""Chunks with more bytes of samples stay: reading one takes longer than asking for it."""

SAMPLE_NBYTES = 4 << 10
"""Chunks of samples of this mean size stay: such samples are read one by one (units)."""

TOTAL_NBYTES = 1 << 20
"""Bytes moved at once, of all tensors."""

EXTENTS = 256
"""Last extents of a tensor looked at: those of 64 commits, also after three lost races."""

READS_AT_ONCE = 32

MESSAGE = "optimize: merge small chunks"

WALL = Piece("wall", 0, 0)

T = TypeVar("T")

Stretch = tuple[TensorSpec, list[Piece]]
Blobs = Mapping[tuple[PackId | None, int], Buffer]


def compact_in_background(
    log: BranchLog, packs: PackReader, published: Published
) -> Background | None:
    """Begin to compact the tail of a branch after a commit.

    Args:
        log: The branch's log.
        packs: Where chunks and pages are read.
        published: The commit, acknowledged, and its content.
    """
    entry = published.entry
    # Begun in the caller's thread: one thread at a time attaches stages to a reader.
    moved = Round.begin(packs, entry, published.state)
    work = partial(compact_tail, moved, log, author=entry.author)
    what = f"merging the small chunks of {log.branch}@{entry.seq} of {log.store.url!r}"
    return Background.begin(work, url=log.store.url, what=what)


def compact_tail(moved: Round, log: BranchLog, *, author: str) -> Published | None:
    """Merge the last small chunks of a version, and publish that as the entry after it.

    Never call it on the storage loop.

    Args:
        moved: A round that begins on the version, with nothing moved yet.
        log: The branch's log.
        author: The author of the entry.

    Returns:
        The entry; None where there was nothing to merge, or another entry came first.

    Raises:
        CorruptionError: A chunk to be merged is damaged.
        StorageError: The store failed.
    """
    # A folder answers at once: there nothing is handed to the storage loop.
    run = runtime.run_here if isinstance(log.store, LocalStore) else runtime.run
    stretches, blobs = run(_read(moved.read, moved.packs))
    if not stretches:
        return None
    for spec, pieces in stretches:
        writer = StretchWriter(spec, pieces[0].start, moved.stage)
        steps = ((piece, blobs.get((piece.pack, piece.offset))) for piece in pieces)
        for part in decoded(spec, steps):
            assert part.joined is not None
            writer.add(part.joined, part.column)
        moved.add(spec, Edit(writer.start, writer.stop, writer.finish()))
    return _published(moved, log, author=author)


def _published(moved: Round, log: BranchLog, *, author: str) -> Published | None:
    async def build(sink: PageSink) -> State:
        del sink  # the round's stage
        state, _ = await with_edits(moved, moved.read)
        return state

    def prepare(head: Entry, since: Sequence[Entry]) -> Draft | None:
        del head
        if since:
            return None  # a later commit begins again, with what came in between
        members = {"message": MESSAGE, "author": author, "changes": Changes()}
        return Draft(build, members, keeps_schema=True)

    began_at_fence = fence_of(moved.base).t
    work = Publication(log, moved.packs, moved.stage, began_at_fence=began_at_fence)
    outcome = publish(work, moved.base, prepare)
    return outcome.published if outcome.is_published else None


@dataclass(frozen=True, slots=True)
class Tail:
    """The last pieces of a tensor's index, in order: small chunks and fills, holes, and walls.

    Pieces that were small but are not worth moving are among them.
    """

    spec: TensorSpec
    pieces: Sequence[Piece]

    @property
    def nbytes(self) -> int:
        """The bytes of all stretches."""
        return sum(piece.nbytes for pieces in self.stretches(TOTAL_NBYTES) for piece in pieces)

    def stretches(self, nbytes: int) -> list[list[Piece]]:
        """List the stretches that are worth moving: the last ones, of at most ``nbytes`` bytes."""
        found: list[list[Piece]] = []
        for is_wall, run in groupby(reversed(self.pieces), key=lambda one: one.what == "wall"):
            if is_wall:
                continue
            stretch = _trimmed(_last(run, nbytes))
            if sum(piece.what == "chunk" for piece in stretch) > 1:
                found.append(stretch)
                nbytes -= sum(piece.nbytes for piece in stretch)
        return found[::-1]


def planned(tails: Iterable[Tail]) -> list[Stretch]:
    """Choose what to move: all tensors get the same share of the bytes, or less if they need less.

    Returns:
        Stretches of at least two chunks; those of one tensor in order.
    """
    needs = [(tail.nbytes, tail) for tail in tails]
    wanted = sorted((need for need in needs if need[0]), key=itemgetter(0))
    left = TOTAL_NBYTES
    found: list[Stretch] = []
    for at, (_, tail) in enumerate(wanted):
        for stretch in tail.stretches(left // (len(wanted) - at)):
            found.append((tail.spec, stretch))
            left -= sum(piece.nbytes for piece in stretch)
    return found


def _last(reversed_pieces: Iterable[Piece], nbytes: int) -> list[Piece]:
    """Take pieces from the end, as long as they fit; return them in order."""
    taken: list[Piece] = []
    for piece in reversed_pieces:
        nbytes -= piece.nbytes
        if nbytes < 0:
            break
        taken.append(piece)
    return taken[::-1]


def _trimmed(pieces: list[Piece]) -> list[Piece]:
    """Leave out what is not between two chunks."""
    chunks = [at for at, piece in enumerate(pieces) if piece.what == "chunk"]
    return pieces[chunks[0] : chunks[-1] + 1] if chunks else []


async def _read(state: State, packs: PackReader) -> tuple[list[Stretch], Blobs]:
    """Choose the stretches to move, and read their chunks."""
    tails = [partial(_tail, spec, state.roots[spec.id], packs) for spec in state.schema.tensors]
    stretches = planned(await _each(tails, packs))
    return stretches, await _blobs(packs, [one for _, pieces in stretches for one in pieces])


async def _tail(spec: TensorSpec, root: ExtentRoot, packs: PackReader) -> Tail:
    """Read the last extents of an index: its inline tail, and the leaves right before it."""
    start, entries = root.body_rows, len(root.newest)
    for child in reversed(root.children):
        if entries >= EXTENTS or child.height:
            break
        start, entries = start - child.rows, entries + child.entries
    found = tree.scan(root, packs.pages, start, parts=Parts.LOCATIONS)
    table = Extents.concat([one async for _, one in found])
    last = table.take(np.arange(max(0, len(table) - EXTENTS), len(table)))
    return Tail(spec, pieces_of(spec, last, root.rows - last.num_rows))


def pieces_of(spec: TensorSpec, table: Extents, start: int) -> list[Piece]:
    """Cut extents that begin at a physical row into pieces; all but small ones are walls."""
    groups = ChunkWindows.of(table)
    stops = start + table.stops
    starts = stops - table.rows.astype(np.int64)
    is_alone = (table.pack == NO_PACK) & ~groups.is_inside(len(table))
    found = {
        at: _without_bytes(spec, int(table.kind[at]), int(starts[at]), int(stops[at]))
        for at in np.flatnonzero(is_alone).tolist()
    }
    if len(groups.first):
        is_small = _are_small(spec, table, groups)
        pieces = chunk_pieces(table, groups, is_small, start)
        found.update(zip(groups.first[is_small].tolist(), pieces, strict=True))
        found.update(dict.fromkeys(groups.first[~is_small].tolist(), WALL))
    return [found[at] for at in sorted(found)]


def _are_small(spec: TensorSpec, table: Extents, groups: ChunkWindows) -> BoolArray:
    """Find which chunks are small, and have small samples, before they are compressed."""
    row_nbytes = np.array(
        [one.row_nbytes if one.kind is ChunkKind.UNIFORM else 0 for one in spec.encodings]
    )
    first = groups.first
    rows = np.bincount(groups.group, table.rows[groups.stored]).astype(np.int64)
    samples = (table.nbytes[first] - table.header_nbytes[first]).astype(np.int64)
    samples = np.maximum(samples, rows * row_nbytes[table.read_as[first]])
    is_small = (samples <= CHUNK_NBYTES) & (samples < SAMPLE_NBYTES * rows)
    return is_small & ~np.isin(table.kind[first], NEVER_MOVED)


def _without_bytes(spec: TensorSpec, kind: int, start: int, stop: int) -> Piece:
    if kind == ChunkKind.HOLE:
        return Piece("hole", start, stop)
    row_nbytes = spec.layout.row_nbytes if spec.layout.kind is ChunkKind.UNIFORM else 1
    nbytes = (stop - start) * max(1, row_nbytes)
    if nbytes > CHUNK_NBYTES or row_nbytes >= SAMPLE_NBYTES:
        return WALL
    return Piece("fill", start, stop, nbytes=nbytes)


async def _blobs(packs: PackReader, pieces: Sequence[Piece]) -> Blobs:
    """Read the chunks of pieces: those of a pack, which are of several tensors, together."""
    ranges: dict[PackId, dict[int, int]] = {}
    for piece in pieces:
        if piece.pack is not None:
            ranges.setdefault(piece.pack, {})[piece.offset] = piece.offset + piece.nbytes
    reads = [partial(packs.read_ranges, pack, [*of.items()]) for pack, of in ranges.items()]
    found = await _each(reads, packs)
    return {
        (pack, offset): blob
        for (pack, of), blobs in zip(ranges.items(), found, strict=True)
        for offset, blob in zip(of, blobs, strict=True)
    }


async def _each(reads: Sequence[Callable[[], Awaitable[T]]], packs: PackReader) -> list[T]:
    """Await reads at the same time, or one after another where the store answers at once."""
    if packs.store.is_local:
        return [await read() for read in reads]
    return await runtime.gather_bounded(reads, limit=READS_AT_ONCE)
