"""Compaction of a branch: fewer and better chunks, no value, row id or order changed.

A tensor at a time, its index is read once (``maintenance/plan.py`` plans) and stretches of small
chunks, and chunks with dead rows, are moved into new ones (``maintenance/rewrite_chunks.py``).
Memory holds a few chunks at any size; moved chunks are published in rounds of bounded size, each a
commit that changes no value. An interrupted round leaves the version before it.

Other writers are not blocked. A round is published on the newest entry, and *yields*: an edit is
kept only where the head still has the same extents that were read, and still hides the rows that
were dropped. So updates keep their version, appends are untouched, and nothing can conflict.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from tensorlake.format import Entry, Extents, PackId, TensorSpec
from tensorlake.storage import Buffer, runtime
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import State
from tensorlake.versions.maintenance.index_edits import Edit, Round, publish_round
from tensorlake.versions.maintenance.plan import Piece, is_partial, iter_pieces, moves
from tensorlake.versions.maintenance.rewrite_chunks import StretchWriter, decoded
from tensorlake.versions.packs.reader import PackReader

__all__ = ["Optimized", "TensorOptimized", "chunks_in", "optimize_branch"]

BATCH_NBYTES = 16 << 20
"""Chunks read together; the next batch is on its way while one is written."""

BATCH_PIECES = 4096
READS_AT_ONCE = 32

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class TensorOptimized:
    """The result for one tensor's chunks.

    Attributes:
        chunks_before: Chunks that its index referred to, and how many of them were moved …
        chunks_moved: … into …
        chunks_made: … these.
        nbytes_moved: Stored bytes of the chunks moved, each counted once however many parts of it
            the index refers to.
        nbytes_made: Stored bytes of the chunks made.
        dead_rows: Rows dropped from what the version refers to.
    """

    name: str
    chunks_before: int = 0
    chunks_moved: int = 0
    chunks_made: int = 0
    nbytes_moved: int = 0
    nbytes_made: int = 0
    dead_rows: int = 0

    @property
    def chunks_after(self) -> int:
        """Chunks that its index refers to now."""
        return self.chunks_before - self.chunks_moved + self.chunks_made


@dataclass(frozen=True, slots=True)
class Optimized:
    """The result of an optimization: the entries it published, newest last, and each tensor."""

    tensors: tuple[TensorOptimized, ...]
    entries: tuple[Entry, ...] = ()
    yielded: int = 0
    """Edits dropped because others changed the same chunks meanwhile."""


@dataclass(slots=True)
class _Tally:
    """The report of one tensor, growing."""

    spec: TensorSpec
    report: TensorOptimized
    passed: set[int] = field(default_factory=set[int])  # chunks that may have several pieces
    moved: set[int] = field(default_factory=set[int])

    def pass_piece(self, piece: Piece) -> int:
        """Count a piece's chunk, if it is the first piece of it; return the bytes."""
        is_first = _is_first(piece, self.passed)
        self.add(chunks_before=is_first)
        return piece.nbytes if is_first else 0

    def move_piece(self, piece: Piece) -> None:
        """Count a piece's chunk as moved, if it is the first piece of it."""
        if _is_first(piece, self.moved):
            self.add(chunks_moved=1, nbytes_moved=piece.nbytes)

    def add(self, **counts: int) -> None:
        grown = {name: getattr(self.report, name) + count for name, count in counts.items()}
        self.report = replace(self.report, **grown)


def _is_first(piece: Piece, met: set[int]) -> bool:
    if piece.nbytes and piece.pack is not None and not piece.is_whole:
        chunk = hash(_place(piece))
        if chunk in met:
            return False
        met.add(chunk)
    return piece.nbytes > 0


@dataclass(slots=True)
class _Optimization:
    """One run: its round, and the head as far as it is known."""

    log: BranchLog
    packs: PackReader
    head: Entry
    state: State
    author: str | None
    dry_run: bool
    progress: Progress
    round: Round
    leaving: AbstractSet[PackId]
    entries: list[Entry] = field(default_factory=list[Entry])
    yielded: int = 0

    def publish(self, *, is_last: bool) -> None:
        """Publish what was moved so far, if anything was; with the last round also the trees."""
        if self.dry_run:
            self._begin_round()
            return
        outcome = publish_round(
            self.round, self.log, self.head, author=self.author, is_last=is_last
        )
        self.head = outcome.head
        self.yielded += outcome.yielded
        if outcome.published:
            self.entries.append(outcome.head)
        if not is_last:
            self._begin_round()

    def _begin_round(self) -> None:
        """Continue where the previous round ended."""
        read = self.round.read
        self.round = Round.begin(self.packs, self.head, read, dry_run=self.dry_run)


def optimize_branch(
    log: BranchLog,
    packs: PackReader,
    head: Entry,
    state: State,
    *,
    author: str | None = None,
    dry_run: bool = False,
    progress: Progress = lambda _: None,
    leaving: AbstractSet[PackId] = frozenset(),
) -> Optimized:
    """Compact what a branch's newest version refers to; never call it on the storage loop.

    Args:
        log: The branch's log.
        packs: Where chunks and pages are read.
        head: The newest entry, loaded.
        state: Content of that entry.
        author: Author of the commits; None: the default.
        dry_run: Do all but storing and publishing: chunks to move are read and encoded, so the
            report is exact.
        progress: Called with bytes as they are passed, moved or not.
        leaving: Packs of which no chunk may remain in use, except tiled and external ones.

    Raises:
        CorruptionError: A chunk to be moved is damaged; nothing of its round is published.
    """
    begun = Round.begin(packs, head, state, dry_run=dry_run)
    run = _Optimization(log, packs, head, state, author, dry_run, progress, begun, leaving)
    tensors = [_optimize_tensor(run, spec) for spec in state.schema.tensors]
    run.publish(is_last=True)
    return Optimized(tuple(tensors), tuple(run.entries), run.yielded)


def _optimize_tensor(run: _Optimization, spec: TensorSpec) -> TensorOptimized:
    tally = _Tally(spec, TensorOptimized(spec.name))
    found = iter_pieces(spec, run.state.roots[spec.id], run.state.rows, run.packs, run.leaving)
    steps = moves(_counted(run, _in_turn(found), tally), lambda one: _is_partial(run, one))
    writer: StretchWriter | None = None
    for moved in decoded(spec, _with_blobs(run.packs, steps)):
        piece = moved.joined
        is_full = run.round.is_full
        if writer is not None and (piece is None or is_full):
            _close(run, writer, tally)
            writer = None
            if is_full:
                run.publish(is_last=False)
        if piece is None:
            continue
        if writer is None:
            writer = StretchWriter(spec, piece.start, run.round.stage)
        writer.add(piece, moved.column)
        for one in moved.pieces:
            tally.move_piece(one)
    return tally.report


def _is_partial(run: _Optimization, piece: Piece) -> bool:
    return runtime.run(is_partial(piece, run.packs))


def _close(run: _Optimization, writer: StretchWriter, tally: _Tally) -> None:
    extents = writer.finish()
    run.round.add(tally.spec, Edit(writer.start, writer.stop, extents))
    made = chunks_in(extents)
    tally.add(chunks_made=len(made), nbytes_made=sum(made.values()), dead_rows=writer.dead_rows)


def chunks_in(extents: Extents) -> dict[tuple[PackId, int], int]:
    """Bytes of each chunk that some extents are windows of, by its place."""
    columns = (extents.pack.tolist(), extents.offset.tolist(), extents.nbytes.tolist())
    return {
        (extents.packs[pack], offset): nbytes
        for pack, offset, nbytes in zip(*columns, strict=True)
        if nbytes
    }


def _in_turn(found: AsyncIterator[list[Piece]]) -> Iterator[Piece]:
    """Walk an asynchronous iterator's lists from the caller's thread."""

    async def following() -> list[Piece] | None:
        return await anext(found, None)

    while (pieces := runtime.run(following())) is not None:
        yield from pieces


def _counted(run: _Optimization, pieces: Iterator[Piece], tally: _Tally) -> Iterator[Piece]:
    for piece in pieces:
        run.progress(tally.pass_piece(piece))
        yield piece


def _with_blobs(
    packs: PackReader, steps: Iterator[Piece | None]
) -> Iterator[tuple[Piece | None, Buffer | None]]:
    """Read the chunks of pieces, a batch ahead."""
    ahead: tuple[list[Piece | None], Future[list[Buffer | None]]] | None = None
    for batch in _batches(steps):
        reading = runtime.submit(_blobs(packs, batch))
        if ahead is not None:
            yield from zip(ahead[0], ahead[1].result(), strict=True)
        ahead = batch, reading
    if ahead is not None:
        yield from zip(ahead[0], ahead[1].result(), strict=True)


def _batches(steps: Iterator[Piece | None]) -> Iterator[list[Piece | None]]:
    batch: list[Piece | None] = []
    nbytes = 0
    last: Piece | None = None  # of a chunk that is read: parts of one often follow one another
    for piece in steps:
        batch.append(piece)
        if piece is not None and piece.what == "chunk":
            is_same = last is not None and _place(last) == _place(piece)
            nbytes += 0 if is_same else piece.nbytes
            last = piece
        if nbytes >= BATCH_NBYTES or len(batch) >= BATCH_PIECES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


async def _blobs(packs: PackReader, batch: Sequence[Piece | None]) -> list[Buffer | None]:
    stored = [one if one is not None and one.what == "chunk" else None for one in batch]
    chunks = {_place(one): one for one in stored if one is not None}  # each is read once
    reads = [partial(_blob, packs, one) for one in chunks.values()]
    blobs = await runtime.gather_bounded(reads, limit=READS_AT_ONCE)
    found = dict(zip(chunks, blobs, strict=True))
    return [None if one is None else found[_place(one)] for one in stored]


def _place(piece: Piece) -> tuple[PackId | None, int]:
    return piece.pack, piece.offset


async def _blob(packs: PackReader, piece: Piece) -> Buffer:
    assert piece.pack is not None
    return await packs.read_range(piece.pack, piece.offset, piece.nbytes)
