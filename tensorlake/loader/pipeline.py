"""The pipeline of one pass: plan ─► fetch ─► assemble ─► consumer, in order and bounded.

    producer thread   plans segments, pins chunks, asks for those missing, queues the group
    storage loop      the requests
    worker threads    decode chunks, gather, decode pictures, transform
    reader threads    rows read by themselves: sparse tensors of remote datasets, and the large
                      samples of a pass's first group, which need not wait for whole chunks and
                      are decoded piece by piece as they come
    consumer          takes groups from the queue in plan order and waits for their batches

``prefetch_nbytes`` bounds all that waits between fetch and user; two groups are always allowed,
so that one is made while one is used. ``close`` ends every thread, whatever state they are in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import InvalidStateError as FinishedError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from tensorlake.errors import InvalidStateError, StorageTimeoutError
from tensorlake.loader.chunks import column_nbytes
from tensorlake.loader.fetch import ChunkFetcher
from tensorlake.loader.group import (
    Group,
    MakeBatch,
    add_own,
    expect_own,
    plan_groups,
    shares_by_segment,
)
from tensorlake.loader.strategy import early_by_row
from tensorlake.loader.threads import WorkerThreads

if TYPE_CHECKING:
    from tensorlake.loader.assemble import Assembler, Assembly
    from tensorlake.loader.chunks import ChunkCache
    from tensorlake.loader.concurrency import ConcurrencyLimit
    from tensorlake.loader.counters import Counters
    from tensorlake.loader.ordered_rows import Plan
    from tensorlake.loader.sharding import Share
    from tensorlake.loader.source import Reader, Selection
    from tensorlake.loader.virtual import VirtualColumn

__all__ = ["Pipeline", "PipelineSetup"]

MIN_GROUPS = 2
# Of a local dataset more batches ahead hide nothing, and fill the processor's caches.
MAX_LOCAL_GROUPS = 8
MAX_REMOTE_GROUPS = 1024
READ_THREADS = 8
EARLY_PIECE_ROWS = 8  # of a first group at least, decoded as soon as they are there
EARLY_NBYTES = 4 << 20  # in flight for later groups while the first one's rows are read
JOIN_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class PipelineSetup:
    """What a pass reads, and within which bounds."""

    selection: Selection
    reader: Reader
    plan: Plan
    cache: ChunkCache
    counters: Counters
    limit: ConcurrencyLimit  # of requests; what one pass has found serves the next
    dense: tuple[str, ...]  # tensors read by whole chunks
    sparse: tuple[str, ...]  # tensors read by row
    virtual: Mapping[str, VirtualColumn]
    row_nbytes: int  # of batch memory
    workers: int
    prefetch_nbytes: int
    timeout_s: float


class Pipeline:
    """Threads and queue of one pass over an epoch."""

    def __init__(self, setup: PipelineSetup, shares: Iterable[Share]) -> None:
        self._setup = setup
        self._shares = shares
        self.workers = WorkerThreads(setup.workers, name="tensorlake-loader", on_crash=self.fail)
        self._is_local = setup.reader.store.is_local
        self._readers = WorkerThreads(
            0 if self._is_local else READ_THREADS,
            name="tensorlake-loader-read",
            on_crash=self.fail,
        )
        self._fetcher = ChunkFetcher(
            setup.reader, setup.cache, self.workers, setup.counters, limit=setup.limit
        )
        self._queue: SimpleQueue[Group | BaseException | None] = SimpleQueue()
        self._admission = threading.Condition()
        self._waiting_nbytes = 0
        self._waiting_groups: set[Group] = set()
        self._is_closed = False
        self._producer: threading.Thread | None = None

    def start(self, assembler: Assembler) -> None:
        """Start planning and fetching."""
        self._producer = threading.Thread(
            target=self._produce, args=(assembler,), name="tensorlake-loader-plan", daemon=True
        )
        self._producer.start()

    def next_group(self) -> tuple[list[Share], list[MakeBatch]] | None:
        """Wait for the next group's batches; None at the end of the pass.

        Raises:
            StorageTimeoutError: Nothing came within the loader's timeout.
        """
        deadline = time.monotonic() + self._setup.timeout_s
        try:
            group = self._queue.get(timeout=self._setup.timeout_s)
            if group is None:
                return None
            if isinstance(group, BaseException):
                raise group
            batches = group.batches.result(max(0.0, deadline - time.monotonic()))
        except (Empty, TimeoutError) as error:
            if isinstance(error, StorageTimeoutError):
                raise
            raise StorageTimeoutError(
                f"no batch of {self._setup.selection.snapshot.url!r} came within"
                f" {self._setup.timeout_s:g} s\nraise timeout=, or see loader.stats() for the"
                " stage that stands still",
                timeout_s=self._setup.timeout_s,
            ) from error
        except CancelledError as error:
            raise InvalidStateError(
                "the loader was closed while a batch was awaited\nmake a new iterator"
            ) from error
        with self._admission:
            self._waiting_groups.discard(group)
            self._waiting_nbytes -= group.nbytes
            self._admission.notify()
        return group.shares, batches

    def release(self, group: Group) -> None:
        """Give back the chunks of a group that no longer needs them."""
        for tensor in self._setup.dense:
            if tensor not in group.by_row:
                self._setup.cache.unpin(tensor, group.tensors[tensor].used)

    def fail(self, error: BaseException) -> None:
        """End the pass with an error that belongs to no group."""
        self._queue.put(error)
        with self._admission:
            groups = list(self._waiting_groups)
        for group in groups:
            _set_exception(group.batches, error)

    def close(self) -> None:
        """End all threads and requests; batches handed out stay good."""
        with self._admission:
            if self._is_closed:
                return
            self._is_closed = True
            self._admission.notify_all()
        self._fetcher.close()
        self._readers.close(JOIN_TIMEOUT_S)
        self.workers.close(JOIN_TIMEOUT_S)
        if self._producer is not None and self._producer is not threading.current_thread():
            self._producer.join(JOIN_TIMEOUT_S)
        for group in self._waiting_groups:
            group.batches.cancel()
        self._setup.cache.end_pass()

    def _produce(self, assembler: Assembler) -> None:
        setup = self._setup
        is_first = not self._is_local
        try:
            for segment in shares_by_segment(self._shares, row_nbytes=setup.row_nbytes):
                with setup.counters.timed("plan_s"):
                    groups = plan_groups(
                        segment,
                        plan=setup.plan,
                        selection=setup.selection,
                        reader=setup.reader,
                        cache=setup.cache,
                        tensors=setup.dense,
                        virtual=setup.virtual,
                    )
                for group in groups:
                    if is_first:
                        group.by_row = early_by_row(group, setup.cache, setup.reader, setup.dense)
                    missing = self._pin(group)
                    if not self._admit(group):
                        return
                    self._queue.put(group)
                    self._launch(group, missing, assembler, in_pieces=is_first)
                    is_first = False
            self._queue.put(None)
        except BaseException as error:  # noqa: BLE001 - raised to the consumer
            self._queue.put(error)

    def _pin(self, group: Group) -> list[tuple[str, int]]:
        cache = self._setup.cache
        missing = [
            (tensor, number)
            for tensor in self._setup.dense
            if tensor not in group.by_row
            for number in cache.pin(tensor, group.tensors[tensor].used)
        ]
        stored = sum(int(cache.tensors[tensor].keys[number].nbytes) for tensor, number in missing)
        group.nbytes = len(group.places) * self._setup.row_nbytes + stored
        return missing

    def _admit(self, group: Group) -> bool:
        """Wait until a group may be started; False when the pass has ended."""
        most_groups = MAX_LOCAL_GROUPS if self._is_local else MAX_REMOTE_GROUPS

        def may_start() -> bool:
            groups = len(self._waiting_groups)
            fits = self._waiting_nbytes + group.nbytes <= self._setup.prefetch_nbytes
            return self._is_closed or groups < MIN_GROUPS or (fits and groups < most_groups)

        with self._admission:
            # the consumer may take as long as it likes; close() wakes this up
            self._admission.wait_for(may_start)
            if self._is_closed:
                return False
            self._waiting_groups.add(group)
            self._waiting_nbytes += group.nbytes
            return True

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
        alone = (*group.by_row, *self._setup.sparse)
        pieces_each = max(1, READ_THREADS // max(1, len(alone))) if in_pieces else 1
        piece_rows = max(EARLY_PIECE_ROWS, -(-len(group.rows) // pieces_each))
        pieces = [
            (tensor, start, stop)
            for tensor in alone
            for start, stop in expect_own(group, tensor, piece_rows)
        ]
        needs = [Future[None]() for _ in pieces]
        # While rows of the first group are on their way, what comes later gets little of the
        # line, and while the last of them are decoded nothing of the processors.
        early = Countdown(len(pieces), partial(self._rows_arrived, group))
        if group.by_row:
            self._fetcher.hold_back(EARLY_NBYTES)
            group.batches.add_done_callback(lambda _: self._fetcher.go_on())
        if in_pieces:
            for tensor in dict.fromkeys(tensor for tensor, _, _ in pieces):
                assembly.expect(tensor)
        for (tensor, start, stop), need in zip(pieces, needs, strict=True):
            arrived = partial(self._piece_arrived, assembly, early, tensor, start, stop, need)
            read = partial(self._read_rows, group, tensor, start, stop, need, arrived)
            self._readers.submit(read)
        needs += self._fetcher.load(missing)
        finish = partial(self.workers.submit, assembly.finish)
        if not needs:
            finish()
            return
        countdown = Countdown(len(needs), finish)
        for need in needs:
            need.add_done_callback(partial(_needed, group, countdown))

    def _rows_arrived(self, group: Group) -> None:
        if group.by_row and not group.batches.done():  # done: it failed, and the pass is ending
            self._fetcher.hold_back(0)

    def _read_rows(
        self,
        group: Group,
        tensor: str,
        start: int,
        stop: int,
        need: Future[None],
        arrived: Callable[[], None],
    ) -> None:
        counters = self._setup.counters
        nbytes = 0
        counters.fetch_started()
        try:
            column = self._setup.reader.read(tensor, group.physical[start:stop], decode=False)
            add_own(group, tensor, start, column)
            nbytes = column_nbytes(column)
        except Exception as error:  # noqa: BLE001 - raised to the consumer
            need.set_exception(error)
            return
        finally:
            counters.fetch_ended(nbytes, requests=stop - start)
        counters.add(row_reads=stop - start)
        arrived()

    def _piece_arrived(
        self,
        assembly: Assembly,
        early: Countdown,
        tensor: str,
        start: int,
        stop: int,
        need: Future[None],
    ) -> None:
        """Let a worker decode what came; the group goes on when all of it is decoded."""

        def decode() -> None:
            assembly.guard(partial(assembly.arrive, tensor, start, stop))
            need.set_result(None)

        early()
        self.workers.submit(decode)


class Countdown:
    """Calls a function when it was told so many times."""

    def __init__(self, count: int, then: partial[None]) -> None:
        self._count = count
        self._then = then
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self._count -= 1
            is_last = self._count == 0
        if is_last:
            self._then()


def _needed(group: Group, countdown: Countdown, need: Future[None]) -> None:
    error = need.exception()
    if error is not None:
        _set_exception(group.batches, error)
    countdown()


def _set_exception(batches: Future[list[MakeBatch]], error: BaseException) -> None:
    with suppress(FinishedError):  # it has an outcome already, and the first one counts
        batches.set_exception(error)
