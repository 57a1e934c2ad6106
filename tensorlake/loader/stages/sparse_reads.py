"""Rows read individually: parts of samples, sparse remote tensors, the first group's large samples.

    waiting ─► in flight (a few pieces at once) ─► worker: verify, join ─► the group's own
    in order    on the storage loop, all requests     then countdowns are notified
                of a piece at once

No thread waits here: a piece is a task of the storage loop, and its bytes are processed by the
pass's worker threads. Every requested piece is reported once, as arrived or as failed. Only
``close`` ends this without a report: the pass is over then.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorlake.errors import CorruptionError
from tensorlake.loader.caches.disk_cache import unkept
from tensorlake.loader.decode import PickedParts, known_sample
from tensorlake.loader.runtime.shutdown import stopped
from tensorlake.loader.sources.batch_group import Group, Piece, add_own
from tensorlake.loader.sources.damaged_rows import DamageLog, read_rows_alone
from tensorlake.reading import nbytes_in_memory
from tensorlake.storage import runtime
from tensorlake.types import EncodedColumn

if TYPE_CHECKING:
    from tensorlake.loader.decode import Known
    from tensorlake.loader.plan.selection import Int64Array, Reader
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.runtime.threads import WorkerThreads
    from tensorlake.types import Column, SampleMap, SampleType

__all__ = ["PartReads", "Read", "RowReader"]

PIECES_AT_ONCE = 16  # each of several requests, which the store bounds again
LOOP_TURNS = 8  # of the storage loop, from the call to its last request

Made: TypeAlias = "Callable[[], Column]"


@dataclass(frozen=True, slots=True, eq=False)
class PartReads:
    """How parts of a tensor's samples are read.

    Attributes:
        wanted: Returns the parts to fetch, from a map, a shape, ``row=``, ``place=`` and
            ``others=``.
        nbytes: Estimated bytes of a sample's parts.
        others: Types of the tensors of the same rows whose maps it needs.
    """

    wanted: Callable[..., Int64Array]
    nbytes: int
    others: Mapping[str, SampleType] = field(default_factory=dict[str, "SampleType"])


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A piece in flight, and the functions to call for it."""

    group: Group
    piece: Piece
    here: Callable[[], None]  # it has been added to the group; called by a worker
    failed: Callable[[BaseException], None]


class RowReader:
    """Reads rows for one pass over an epoch."""

    def __init__(
        self,
        reader: Reader,
        workers: WorkerThreads,
        counters: Counters,
        *,
        parts: Mapping[str, PartReads] | None = None,
        skips: bool = False,
        damage: DamageLog | None = None,
    ) -> None:
        self._damage = damage or DamageLog()
        self._reader = reader
        self._parts = parts or {}
        self._skips = skips  # skips damaged rows instead of failing
        self._workers = workers
        self._counters = counters
        self._lock = threading.Lock()
        self._waiting: deque[Read] = deque()
        self._requests: set[Future[Made]] = set()
        self._under_way = 0
        self._is_closed = False

    def read(self, reads: Iterable[Read]) -> None:
        """Start reading the rows of some pieces, without waiting."""
        with self._lock:
            self._waiting.extend(reads)
        self._start_reads()

    async def begin(self, reads: Iterable[Read]) -> None:
        """Do the same on the storage loop; return when the requests are in flight.

        A caller that waits for this does not compete with the loop for the interpreter.
        """
        self.read(reads)
        for _ in range(LOOP_TURNS):
            await asyncio.sleep(0)

    def close(self) -> None:
        """Cancel reads in flight; nothing more is started or reported."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            requests = list(self._requests)
        for request in requests:
            request.cancel()

    def _start_reads(self) -> None:
        while (read := self._next_or_short()) is not None:
            try:
                asked = self._read_of(read)
                kept = read.group.kept
                is_kept = kept is None or bool(kept[read.piece.rows].all())
                request = runtime.submit(asked if is_kept else unkept(asked))
            except BaseException as error:  # noqa: BLE001 - raised to the consumer of the batch
                self._ended(read)
                read.failed(error)
                continue
            with self._lock:
                self._requests.add(request)
                is_closed = self._is_closed
            # outside the lock: a completed request calls back at once, in this thread
            request.add_done_callback(partial(self._answered, read))
            if is_closed:
                request.cancel()

    def _read_of(self, read: Read) -> Coroutine[Any, Any, Made]:
        tensor, which, group = read.piece.tensor, read.piece.rows, read.group
        physical, parts = group.physical[which], self._parts.get(tensor)
        if parts is None:
            return self._reader.fetch(tensor, physical)
        numbers = zip(group.rows[which].tolist(), group.places[which].tolist(), strict=True)
        each = [partial(parts.wanted, row=row, place=place) for row, place in numbers]
        if parts.others:
            return self._read_beside(tensor, physical, each, parts.others)
        return self._reader.fetch_parts(tensor, physical, each)

    async def _read_beside(
        self,
        tensor: str,
        physical: Int64Array,
        wanted: list[Callable[..., Int64Array]],
        others: Mapping[str, SampleType],
    ) -> Made:
        """Read parts that follow from the maps of other tensors, whose headers are read first."""
        nothing = [_no_parts] * len(physical)
        reads = [partial(self._reader.fetch_parts, name, physical, nothing) for name in others]
        made = await runtime.gather_bounded(reads, limit=len(reads))
        known = [
            _known_rows(make(), sample_type, name)
            for make, (name, sample_type) in zip(made, others.items(), strict=True)
        ]
        each = [
            partial(choose, others=dict(zip(others, row, strict=True)))
            for choose, row in zip(wanted, zip(*known, strict=True), strict=True)
        ]
        return await self._reader.fetch_parts(tensor, physical, each)

    def _next_or_short(self) -> Read | None:
        """Take the next read; if there is none, record whether more could be in flight."""
        read = self._next_read()
        if read is None:
            with self._lock:
                is_short = not self._waiting and self._under_way < PIECES_AT_ONCE
            self._counters.hold(rows=is_short)
        return read

    def _next_read(self) -> Read | None:
        with self._lock:
            if self._is_closed or not self._waiting or self._under_way >= PIECES_AT_ONCE:
                return None
            self._under_way += 1
            self._counters.fetch_started()
            return self._waiting.popleft()

    def _ended(self, read: Read) -> None:
        with self._lock:
            self._under_way -= 1
        self._counters.fetch_ended(0, requests=len(read.piece.rows))

    def _answered(self, read: Read, request: Future[Made]) -> None:
        """Pass an answer on. A callback's exception is only logged: waiters are notified here."""
        try:
            with self._lock:
                self._requests.discard(request)
            self._ended(read)
            self._start_reads()
            if self._is_closed:  # then the failure is most likely the cancellation
                return
            if request.cancelled():
                read.failed(stopped(f"rows of {read.piece.tensor!r}"))
                return
            error = request.exception()
            if isinstance(error, CorruptionError) and self._skips:
                make = partial(_failed, error)
            else:
                make = request.result()
            self._workers.submit(partial(self._receive, read, make), order=read.group.number)
        except BaseException as error:  # noqa: BLE001 - raised to the consumer of the batch
            read.failed(error)

    def _receive(self, read: Read, make: Made) -> None:
        try:
            lost = None
            with self._counters.timed("unpack_s"):
                try:
                    column = make()
                except CorruptionError as error:
                    if isinstance(path := getattr(error, "object", None), str):
                        self._reader.snapshot.packs.distrust(path)
                    if not self._skips:
                        raise
                    physical = read.group.physical[read.piece.rows]
                    rows = self._reader, read.piece.tensor, physical
                    column, lost = read_rows_alone(*rows, self._damage)
                add_own(read.group, read.piece, column, lost)
            count = len(read.piece.rows)
            self._counters.add(fetched_nbytes=nbytes_in_memory(column), row_reads=count)
            read.here()
        except BaseException as error:  # noqa: BLE001 - raised to the consumer of the batch
            read.failed(error)


def _no_parts(sample_map: SampleMap, shape: tuple[int, ...] | None) -> Int64Array:
    """Want no part of a sample: its header alone is read."""
    del sample_map, shape
    return np.zeros(0, np.int64)


def _known_rows(column: Column, sample_type: SampleType, tensor: str) -> list[Known | None]:
    """Describe samples by their maps; None for NULL."""
    assert isinstance(column, EncodedColumn)
    found: list[Known | None] = []
    for at, data in enumerate(column.samples):
        if column.valid is not None and not column.valid[at]:
            found.append(None)
            continue
        own = None if column.maps is None else column.maps[at]
        shape = None if column.shapes is None else tuple(column.shapes[at].tolist())
        found.append(known_sample(PickedParts(data, own, shape), sample_type, tensor, at))
    return found


def _failed(error: CorruptionError) -> Column:
    raise error
