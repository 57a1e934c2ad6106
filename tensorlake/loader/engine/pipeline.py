"""The pipeline of one pass: plan ─► fetch ─► assemble ─► consumer, in order and bounded.

    its own thread    starts the others; plans segments, pins chunks, requests missing ones, queues
                      the group; then waits for the signal to end, and ends everything
    storage loop      the requests
    worker threads    decode chunks, gather, decode images, transform; first what earlier groups
                      need. Images of a remote dataset are decoded as chunks arrive. Large
                      ones of a pass's first group, and sparse tensors, are read row by row
    consumer          takes groups from the queue in plan order and waits for their batches

With all chunks in memory there are no threads: the consumer plans and gathers what it asks for, and
the threads start at the first missing chunk. Where nothing is read or decoded they only alternate
with the consumer: over rows of 1 kB (``benchmarks epoch-tokens``, two cores) the handover costs as
much as planning. Chunks are not pinned then: no other work could drop them.

``prefetch_nbytes`` bounds all data between fetch and user, in two parts
(``engine/memory_budget.py``): data fetched and not yet in a batch, and batches made and not yet
used.

Every group's outcome is settled, by the first of these:

    Assembly               its batches, or a stage's exception        worker
    Countdown of its needs a read's exception                         worker, storage loop
    _produce               an exception of requesting its needs       the pass's own thread
    fail                   an unexpected exception                    any other thread of the pass
    _end                   the pass was closed                        the pass's own thread

and the queue ends with None or an error, so the consumer never waits in vain. ``abandon`` is for an
iterator that is being garbage-collected, in any thread and under any lock: it takes no lock and
does not wait. ``close`` waits until the pass's own thread has ended everything. Both cancel the
reads of all threads of the pass, so a store that never answers does not block them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import StorageTimeoutError
from tensorlake.loader.caches.next_uses import NextUses
from tensorlake.loader.config.column_plan import MakeBatch
from tensorlake.loader.engine.memory_budget import Budget, batch_nbytes_of
from tensorlake.loader.runtime.handoff import Countdown, Outcome
from tensorlake.loader.runtime.shutdown import closed, ended, started, stopped
from tensorlake.loader.runtime.threads import Task, WorkerThreads
from tensorlake.loader.sources.batch_group import (
    Group,
    Piece,
    pieces_of,
    plan_groups,
    shares_by_segment,
)
from tensorlake.loader.sources.damaged_rows import DamageLog
from tensorlake.loader.sources.read_strategy import early_by_row
from tensorlake.loader.stages.fetch import ChunkFetcher
from tensorlake.loader.stages.sparse_reads import PartReads, Read, RowReader
from tensorlake.storage import runtime

if TYPE_CHECKING:
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Reader, Selection
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.plan.virtual_columns import VirtualColumn
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.runtime.worker_processes import WorkerProcesses
    from tensorlake.loader.sources.batch_group import Keeps
    from tensorlake.loader.sources.chunk_cache import ChunkCache
    from tensorlake.loader.sources.windows import WindowReads
    from tensorlake.loader.stages.adaptive_limit import ConcurrencyLimit
    from tensorlake.loader.stages.assemble import Assembler, Assembly

__all__ = ["JOIN_TIMEOUT_S", "Pipeline", "PipelineSetup"]

# For a local dataset, more batches ahead hide no latency and fill the processor's caches.
MAX_LOCAL_GROUPS = 8
MAX_REMOTE_GROUPS = 1024
# A group's own arrays, which wait like its chunks: its row numbers, and their place in each tensor.
PLAN_ROW_NBYTES, LOCATED_ROW_NBYTES = 24, 16
# Minimum for a first group, decoded as soon as they arrive: rows of some two chunks, whose requests
# are planned at once (docs/decisions/0511).
EARLY_PIECE_ROWS = 8
EARLY_PART_ROWS = 3  # decoded by one thread: in the end the others wait for the last part
CHUNK_PIECE_ROWS = 8  # of other groups
# Segments planned before the first group is made, beside its own. With sparse tensors there are
# none: the first batch would wait for 8 to 48 MB of an index (docs/decisions/0039).
EARLY_SEGMENTS = 1
FIRST_BATCHES = 16  # planned before the first by the consumer: planning fewer takes as long
JOIN_TIMEOUT_S = 30.0  # for a running task: a decode step or a user's transform


@dataclass(frozen=True, slots=True)
class PipelineSetup:
    """The reads of a pass, and their bounds."""

    selection: Selection
    reader: Reader
    plan: Plan
    cache: ChunkCache
    counters: Counters
    limit: ConcurrencyLimit  # of requests; measured in one pass, used in the next
    dense: tuple[str, ...]  # tensors read by whole chunks
    sparse: tuple[str, ...]  # tensors read by row
    windows: WindowReads | None  # tensors read by block, which are also among the dense ones
    virtual: Mapping[str, VirtualColumn]
    row_nbytes: int  # the larger of batch and stored size; group sizes follow from it
    most_rows: Callable[[], float]  # of a group of several batches, by the time of functions
    waiting_row_nbytes: int  # of a waiting batch: 0 if the consumer gathers it
    workers: int
    processes: WorkerProcesses | None  # as many, each called by one worker at a time
    prefetch_nbytes: int
    timeout_s: float
    skips: bool = False  # skips damaged rows instead of failing
    keeps: Keeps | None = None  # which rows the disk tier keeps; None: all
    parts: Mapping[str, PartReads] = field(default_factory=dict[str, PartReads])  # also sparse
    followed: tuple[str, ...] = ()  # dense tensors whose chunks are kept by next use
    alone: tuple[str, ...] = ()  # of these, those whose rows are their own chunks

    def plan_groups(self, segment: list[list[Share]]) -> list[Group]:
        """Find where every row of a segment's groups is."""
        with self.counters.timed("plan_s"):
            return plan_groups(
                segment,
                plan=self.plan,
                selection=self.selection,
                reader=self.reader,
                cache=self.cache,
                tensors=self.dense,
                virtual=self.virtual,
                skips=self.skips,
                windows=self.windows,
                keeps=self.keeps,
                alone=self.alone,
            )


class Pipeline:
    """Threads and queue of one pass over an epoch."""

    def __init__(
        self, setup: PipelineSetup, shares: Iterable[Share], *, is_in_memory: bool = False
    ) -> None:
        self._setup = setup
        self._shares = iter(shares)
        made_here = shares_by_segment(self._shares, row_nbytes=0, first_batches=FIRST_BATCHES)
        self._segments = made_here if is_in_memory else None  # until a chunk is missing
        self._assembler: Assembler | None = None  # of the consumer
        self._turn = threading.RLock()  # held while the consumer makes batches: join() waits for it
        self._is_local = setup.reader.store.is_local
        waited, skips = setup.counters.waited, setup.skips
        self.workers = WorkerThreads(
            setup.workers, name="tensorlake-loader", waited=waited, processes=setup.processes
        )
        shared = setup.reader, self.workers, setup.counters
        damage = DamageLog()
        self._rows = RowReader(*shared, parts=setup.parts, skips=skips, damage=damage)
        reads = setup.reader, setup.cache, self.workers, setup.counters
        self._fetcher = ChunkFetcher(*reads, limit=setup.limit, skips=skips, damage=damage)
        # to the consumer: groups in plan order, then the end or an error outside any group
        self._arrivals: SimpleQueue[tuple[Group | None, Outcome[list[MakeBatch]]]] = SimpleQueue()
        # to the pass's own thread: a change, mainly of the budget, or the end
        self._words: SimpleQueue[None] = SimpleQueue()
        self._is_closed = self._has_begun = False  # begun: the consumer has a group
        self._is_awaited = False  # the consumer waits for the first, or has it
        self._reads = runtime.Scope()  # of the pass's own thread
        most_groups = MAX_LOCAL_GROUPS if self._is_local else MAX_REMOTE_GROUPS
        self._budget = Budget(setup.prefetch_nbytes, most_groups=most_groups)
        self._thread: threading.Thread | None = None
        self._first: Group | None = None  # its large rows are read individually

    def start(self, assembler: Assembler) -> None:
        """Start planning and fetching, unless the consumer does."""
        if self._segments is not None:
            self._assembler = replace(assembler, release=_keep)  # without a reference to this
            return
        self._thread = threading.Thread(
            target=self._run, args=(assembler,), name="tensorlake-loader-plan", daemon=True
        )
        self._thread.start()

    def next_group(self) -> tuple[list[Share], list[MakeBatch]] | None:
        """Wait for the next group's batches; None at the end of the pass.

        Raises:
            StorageTimeoutError: No batch arrived within the loader's timeout.
            InvalidStateError: The pass was closed meanwhile.
        """
        if self._segments is not None and (group := self._make_here(self._segments)) is not None:
            return group.shares, group.batches.take()
        deadline = time.monotonic() + self._setup.timeout_s
        waited = "blocked_s" if self._has_begun else "start_s"
        self._is_awaited = True
        with self._setup.counters.timed(waited):
            try:
                group, outcome = self._arrivals.get(timeout=self._setup.timeout_s)
            except Empty:
                raise self._late() from None
            if not outcome.wait(max(0.0, deadline - time.monotonic())):
                raise self._late()
        self._has_begun = True
        if self._is_closed:  # by another thread: arrivals since then, mainly errors, are due to it
            raise closed()
        batches = outcome.take()
        if group is None:
            return None
        self._budget.take(group)
        self._words.put(None)
        return group.shares, batches

    def release(self, group: Group, batches: list[dict[str, Any]]) -> None:
        """Release the chunks of a group whose batches are made."""
        if self._is_closed:
            return  # all pins are dropped at once, and those of a later pass must not be
        for tensor in self._setup.dense:
            used = () if tensor in group.by_row else group.tensors[tensor].used
            self._setup.cache.unpin(tensor, np.asarray(used, int), group.last.get(tensor))
        self._budget.cut(group, batch_nbytes_of(batches))
        self._words.put(None)

    def fail(self, error: BaseException) -> None:
        """End the pass with an error outside any group."""
        self._arrive(None).fail(error)  # first: groups not failed below come after it
        for group in self._budget.groups:
            group.batches.fail(error)

    def abandon(self) -> None:
        """Let the pass end, without locks or waits: garbage collection may call it anywhere."""
        self._is_closed = True
        self.workers.stop()
        self._reads.cancel()
        self._words.put(None)

    def close(self, timeout_s: float = JOIN_TIMEOUT_S) -> None:
        """End all threads and requests; batches handed out stay valid."""
        self.abandon()
        self._rows.close()
        self._fetcher.close()
        self.join(timeout_s)

    def join(self, timeout_s: float = JOIN_TIMEOUT_S) -> bool:
        """Wait until a closed or abandoned pass has ended; return whether it has."""
        if not self._turn.acquire(timeout=timeout_s):
            return False
        self._turn.release()
        thread = self._thread
        if thread is None or not thread.is_alive():
            return True
        if thread is threading.current_thread() or self.workers.is_current():
            return False  # it would wait for itself
        thread.join(2 * timeout_s)  # which itself waits timeout_s for the other threads
        return not thread.is_alive()

    def _make_here(self, segments: Iterator[list[list[Share]]]) -> Group | None:
        """Make the next batches in this thread; None at the end, or if a chunk is missing."""
        with self._turn:
            if self._is_closed:
                raise closed()
            try:
                with self._reads.entered():
                    segment = next(segments, [])
                    groups = self._setup.plan_groups(segment) if segment else []
            except CancelledError:
                raise closed() from None
            assert self._assembler is not None, "set by start()"
            for group in groups:  # one: rows of no bytes are not divided
                if self._setup.cache.finds({n: rows.used for n, rows in group.tensors.items()}):
                    self._assembler.begin(group).finish()
                    return group
                self._shares = chain(group.shares, self._shares)
            if not groups:
                self._arrive(None).settle([])
                return None
            self._segments = None
            self.start(replace(self._assembler, release=self.release))
            return None

    def _run(self, assembler: Assembler) -> None:
        started(self)
        try:
            self.workers.start(self.fail)
            with self._reads.entered():
                self._produce(assembler)
            self._arrive(None).settle([])
        except CancelledError:
            self._arrive(None).fail(stopped("the index"))
        except BaseException as error:  # noqa: BLE001 - raised after groups that are still made
            self._arrive(None).fail(error)
        while not self._is_closed:
            self._await_signal()
        self._end()
        ended(self)

    def _end(self) -> None:
        self._rows.close()
        self._fetcher.close()
        self.workers.join(JOIN_TIMEOUT_S)
        try:
            while True:
                self._arrivals.get_nowait()
        except Empty:
            pass  # no consumer takes groups any more, and their outcomes must not keep batches
        for group in self._budget.clear():
            group.batches.discard(closed())
        self._arrive(None).fail(closed())
        self._first = None
        self._setup.cache.end_pass()

    def _produce(self, assembler: Assembler) -> None:
        setup = self._setup
        is_first = not self._is_local
        setup.cache.begin_pass(is_planned=bool(setup.followed))
        for number, group in enumerate(self._groups()):
            group.number = number
            if is_first:
                group.by_row = early_by_row(group, setup.cache, setup.reader, setup.dense)
                self._first = group if group.by_row or setup.sparse else None
            missing = self._pin(group)
            if not self._admit(group):
                return
            self._arrive(group)
            try:
                self._launch(group, missing, assembler, in_pieces=is_first)
            except BaseException as error:
                is_stopped = isinstance(error, CancelledError)
                group.batches.fail(stopped("a batch") if is_stopped else error)
                raise
            if is_first:
                group.batches.then(self._first_made)
            is_first = False

    def _groups(self) -> Iterator[Group]:
        """Plan the groups, of followed tensors as far ahead as the cache needs."""
        setup = self._setup
        if not setup.followed:
            return chain.from_iterable(self._planned())
        ahead = NextUses[Group](setup.cache, setup.followed, may_look=self._is_first_made)
        return ahead.groups(self._planned())

    def _planned(self) -> Iterator[list[Group]]:
        """Plan segments: the first, and others that do not delay the first group."""
        setup = self._setup
        early = 0 if setup.sparse else EARLY_SEGMENTS
        segments = shares_by_segment(
            self._shares, row_nbytes=setup.row_nbytes, most_rows=setup.most_rows
        )
        for planned, segment in enumerate(segments):
            while planned > early and not self._is_first_made():
                if self._is_closed:
                    return
                self._await_signal()
            yield setup.plan_groups(segment)

    def _is_first_made(self) -> bool:
        return self._first is None or self._first.batches.is_settled

    def _arrive(self, group: Group | None) -> Outcome[list[MakeBatch]]:
        outcome = Outcome[list[MakeBatch]]() if group is None else group.batches
        self._arrivals.put((group, outcome))
        return outcome

    def _pin(self, group: Group) -> list[tuple[str, int]]:
        cache = self._setup.cache
        missing = [
            (tensor, number)
            for tensor in self._setup.dense
            if tensor not in group.by_row
            for number in cache.pin(tensor, group.tensors[tensor].used, group.next_uses.get(tensor))
        ]
        # a chunk that an earlier group holds counts there
        stored = sum(
            int(chunks.keys[number].nbytes)
            for chunks, number in ((cache.tensors[tensor], number) for tensor, number in missing)
            if chunks.pins[number] == 1 and not chunks.is_block[number]  # which the cache counts
        )
        alone = (*group.by_row, *self._setup.sparse)
        located = len(self._setup.dense) * LOCATED_ROW_NBYTES
        row_nbytes = PLAN_ROW_NBYTES + located + (self._row_nbytes(alone) if alone else 0)
        group.stored_nbytes = stored + len(group.places) * row_nbytes
        group.batch_nbytes = len(group.places) * self._setup.waiting_row_nbytes
        return missing

    def _row_nbytes(self, tensors: tuple[str, ...]) -> int:
        sizes = zip(tensors, self._setup.reader.row_nbytes(tensors), strict=True)
        parts = self._setup.parts
        return sum(parts[name].nbytes if name in parts else nbytes for name, nbytes in sizes)

    def _admit(self, group: Group) -> bool:
        """Wait until a group may be started; False when the pass has ended."""
        counters = self._setup.counters
        while not self._is_closed:
            if self._budget.admit(group, held_nbytes=self._setup.cache.block_nbytes):
                counters.hold(full=False)
                return True
            counters.hold(full=True)
            self._await_signal()
        counters.hold(full=False)
        return False

    def _await_signal(self) -> None:
        """Wait for the consumer, without a time limit, for a group; resume after the first."""
        self._words.get()
        if self._is_first_made():
            self._fetcher.go_on()

    def _submit(self, group: Group, task: Task) -> None:
        """Let a worker make a part of a group's batches as soon as they may take memory."""
        submit = partial(self.workers.submit, task, order=group.number)
        self._budget.submit(group, submit)

    def _launch(
        self,
        group: Group,
        missing: list[tuple[str, int]],
        assembler: Assembler,
        *,
        in_pieces: bool,
    ) -> None:
        """Assemble a group as soon as everything it needs is in memory."""
        assembly = assembler.begin(group)
        read, awaited, in_memory = pieces_of(
            group,
            missing,
            assembly.expect,
            alone=(*group.by_row, *self._setup.sparse),
            piece_rows=EARLY_PIECE_ROWS if in_pieces else 0,
            chunk_rows=0 if self._is_local else CHUNK_PIECE_ROWS,
        )
        # late gathers need no worker
        submit = partial(self._submit, group, assembly.finish)
        finish = assembly.finish if assembler.is_late else submit
        # one more than its needs: the completion of the requests
        count = len(read) + len(missing) + len(in_memory) + 1
        needed = Countdown(count, finish, group.batches.fail)
        if group.by_row:
            self._fetcher.hold_back()
        reads: list[Read] = []
        for piece in read:
            arrived = partial(self._piece_arrived, assembly, piece, needed, rows=EARLY_PART_ROWS)
            reads.append(Read(group, piece, arrived, needed.failed))
        if in_pieces and reads:
            runtime.run(self._rows.begin(reads))  # else planning the next group delays them
        else:
            self._rows.read(reads)
        for piece in in_memory:
            self._piece_arrived(assembly, piece, needed)
        wanted: list[tuple[str, int, Countdown]] = []
        for tensor, number in missing:
            piece = awaited.get((tensor, number))
            arrived = piece and partial(self._piece_arrived, assembly, piece, needed)
            counted = Countdown(1, arrived, group.batches.fail) if arrived else needed
            wanted.append((tensor, number, counted))
        apart = {tensor: group.unkept_chunks(tensor) for tensor, _ in missing}
        self._fetcher.load(wanted, order=group.number, is_urgent=in_pieces, apart=apart)
        needed.arrived()

    def _first_made(self) -> None:
        """Resume later groups, unless a waiting consumer does when it has taken the first."""
        if not self._is_awaited:
            self._words.put(None)

    def _piece_arrived(
        self,
        assembly: Assembly,
        piece: Piece,
        needed: Countdown,
        *,
        rows: int = CHUNK_PIECE_ROWS,
    ) -> None:
        """Let workers decode a piece, a number of rows per task; then count it as arrived."""
        parts = piece.parts(rows)
        left = Countdown(len(parts), needed.arrived, assembly.group.batches.fail)

        def decode(part: Piece) -> None:
            assembly.guard(partial(assembly.arrive, part))
            left.arrived()

        for part in parts:
            self._submit(assembly.group, partial(decode, part))

    def _late(self) -> StorageTimeoutError:
        return StorageTimeoutError(
            f"no batch of {self._setup.selection.snapshot.url!r} came within"
            f" {self._setup.timeout_s:g} s\nraise timeout=, or see loader.stats() for the"
            " stage that makes no progress",
            timeout_s=self._setup.timeout_s,
        )


def _keep(group: Group, batches: list[dict[str, Any]]) -> None:
    """Release nothing: no chunk was pinned."""
    del group, batches
