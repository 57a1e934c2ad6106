"""Fetch: chunks into the memory tier, ahead of use, in the order of the plan.

    local     map_chunk, verified once per process; nothing is read before it is used
    remote    waiting ─► in flight (bounded in bytes and number) ─► worker: verify, decode ─► cache
              in plan order      ranges of about 4 MiB: neighbours joined, large chunks split

A chunk requested twice is loaded once. Ranges of that size are past the break-even of every store,
and sixteen of them in flight hide latency and add up the bandwidth of connections. More smaller
ones are in flight: their number is found by measurement (``stages/adaptive_limit.py``). A failed
request is retried by the store, an unusually slow one is repeated (``stages/hedge.py``); its answer
is verified here.

Every requested chunk is reported once to every countdown that requested it: as arrived by
``_publish``, as failed by ``_fail``, for any exception at any place. Only ``close`` ends this
without a report: the pass is over then.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import CorruptionError, InvalidStateError
from tensorlake.format import checksum_of
from tensorlake.loader.caches.disk_cache import unkept
from tensorlake.loader.runtime.shutdown import stopped
from tensorlake.loader.sources.chunk_cache import ChunkCache, LoadedChunk, loaded_chunk, loaded_row
from tensorlake.loader.sources.damaged_rows import DamageLog, read_rows_alone, salvaged_chunk
from tensorlake.loader.sources.mix import MixReader
from tensorlake.loader.sources.windows import BlockKey
from tensorlake.loader.stages.adaptive_limit import ConcurrencyLimit
from tensorlake.reading import nbytes_in_memory
from tensorlake.storage import runtime

if TYPE_CHECKING:
    from tensorlake.loader.plan.selection import Packs, Reader
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.runtime.handoff import Countdown
    from tensorlake.loader.runtime.threads import WorkerThreads
    from tensorlake.types import Buffer, Column

__all__ = ["ChunkFetcher"]

IN_FLIGHT_NBYTES = 64 << 20
RANGE_NBYTES = 4 << 20  # of one request; sixteen are the 64 MiB in flight
GAP_NBYTES = 64 << 10  # unneeded bytes up to this cost less than a second request
URGENT_ROWS = 8  # of the first group, read together; of later ones, those of a range's bytes


@dataclass(slots=True, eq=False)
class Load:
    """One chunk in flight, and the countdowns that wait for it."""

    tensor: str
    number: int
    key: Any  # the reader's own key class
    order: int = 0  # of the first group that requested it
    is_urgent: bool = False  # never deferred
    is_kept: bool = True  # by the disk tier, if there is one
    asked_by: list[Countdown] = field(default_factory=list["Countdown"])


class ChunkFetcher:
    """Loads chunks for one pass over an epoch."""

    def __init__(
        self,
        reader: Reader,
        cache: ChunkCache,
        workers: WorkerThreads,
        counters: Counters,
        *,
        limit: ConcurrencyLimit,
        in_flight_nbytes: int = IN_FLIGHT_NBYTES,
        skips: bool = False,
        damage: DamageLog | None = None,
    ) -> None:
        self._damage = damage or DamageLog()
        self._reader = reader
        self._cache = cache
        self._workers = workers
        self._counters = counters
        self._max_nbytes = in_flight_nbytes
        self._limit = limit
        self._skips = skips  # skips damaged rows instead of failing
        self._lock = threading.Lock()
        self._loads: dict[tuple[str, int], Load] = {}
        self._waiting: deque[Load] = deque()
        self._requests: set[Future[list[Buffer]]] = set()
        self._in_flight = 0
        self._nbytes = 0
        self._is_local = reader.store.is_local
        self._is_held_back = False  # loads that are not urgent
        self._is_closed = False

    def load(
        self,
        chunks: Iterable[tuple[str, int, Countdown]],
        *,
        order: int = 0,
        is_urgent: bool = False,
        apart: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        """Bring chunks that are needed together into the cache.

        Args:
            chunks: Tensors, ordinals of the cache, and the countdown to which each chunk is
                reported once, as arrived or as failed.
            order: Priority of decoding, relative to other work of the threads.
            is_urgent: Request them also while others are deferred.
            apart: By tensor, the chunks that the disk tier does not keep.
        """
        apart = apart or {}
        loads = [
            self._begin(
                tensor,
                number,
                needed,
                order=order,
                is_urgent=is_urgent,
                is_kept=number not in apart.get(tensor, ()),
            )
            for tensor, number, needed in chunks
        ]
        remote = [load for load in loads if load is not None]
        remote.sort(key=_stored_place)
        with self._lock:
            self._waiting.extend(remote)
        self._start_requests()

    def _begin(
        self,
        tensor: str,
        number: int,
        needed: Countdown,
        *,
        order: int,
        is_urgent: bool,
        is_kept: bool,
    ) -> Load | None:
        """Start loading a chunk that is available locally; return others, which need a request."""
        with self._lock:
            load = self._loads.get((tensor, number))
            if load is not None:
                load.asked_by.append(needed)
                return None
            is_loaded = self._cache.is_loaded(tensor, number)  # since the caller checked
            if not is_loaded:
                key = self._cache.tensors[tensor].keys[number]
                load = Load(tensor, number, key, order, is_urgent, is_kept, [needed])
                self._loads[tensor, number] = load
        if load is None:
            needed.arrived()
            return None
        if isinstance(load.key, BlockKey):
            return load
        # of a remote dataset only staged chunks are local, and the check is free
        if self._is_local or load.key.is_fill or self._reader.map_chunk(load.key) is not None:
            work = partial(self._guard, load, partial(self._map_timed, load))
            self._workers.submit(work, order=order)
            return None
        return load

    def hold_back(self) -> None:
        """Request nothing that is not urgent until ``go_on`` is called."""
        with self._lock:
            self._is_held_back = True

    def go_on(self) -> None:
        """Stop deferring requests, if they are deferred."""
        with self._lock:
            if not self._is_held_back:
                return
            self._is_held_back = False
        self._start_requests()

    def close(self) -> None:
        """Cancel requests in flight; nothing more is started or reported."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            self._loads.clear()
            requests = list(self._requests)
        for request in requests:
            request.cancel()

    def _map_timed(self, load: Load) -> None:
        with self._counters.timed("unpack_s"):
            self._map(load)

    def _map(self, load: Load) -> None:
        if load.key.is_fill:
            column = _fill_of(self._reader, load)
            self._publish(load, loaded_chunk(column, b"", is_constant=True))
            return
        blob = self._reader.map_chunk(load.key)
        if blob is None:  # this store cannot map
            with self._lock:
                if load.is_urgent:
                    self._waiting.appendleft(load)  # no deferred load may be before it
                else:
                    self._waiting.append(load)
            self._start_requests()
            return
        self._counters.add(mapped_chunks=1)
        column = self._reader.decode_chunk(load.tensor, load.key, blob)
        self._publish(load, loaded_chunk(column, blob))

    def _start_requests(self) -> None:
        while (begun := self._next_or_short()) is not None:
            run, start, stop = begun
            read = self._read_of(run, start, stop)
            read = read if run[0].is_kept else unkept(read)
            try:
                request: Future[Any] = runtime.submit(read)
            except Exception as error:  # noqa: BLE001 - raised to the consumer of the batch
                read.close()
                self._ended(run, stop - start)
                self._fail(run, error)
                continue
            with self._lock:
                self._requests.add(request)
                is_closed = self._is_closed
            # outside the lock: a completed request calls back at once, in this thread
            request.add_done_callback(partial(self._answered, run, start, stop))
            if is_closed:
                request.cancel()

    def _read_of(self, run: list[Load], start: int, stop: int) -> Coroutine[Any, Any, Any]:
        key = run[0].key
        if isinstance(key, BlockKey):  # not with chunks: it may be in several packs
            physical = np.concatenate([load.key.physical for load in run])
            return self._reader.fetch(run[0].tensor, physical)
        packs = self._reader.snapshot.packs
        return read_parts(packs, key.pack, start, stop)

    def _next_or_short(self) -> tuple[list[Load], int, int] | None:
        """Take the next request's loads; if there are none, record whether more could be read."""
        begun = self._next_request()
        if begun is None:
            with self._lock:
                is_short = not self._waiting and self._in_flight < self._limit.value
                is_short &= self._nbytes + RANGE_NBYTES <= self._max_nbytes
            self._counters.hold(chunks=is_short)
        return begun

    def _next_request(self) -> tuple[list[Load], int, int] | None:
        """Take the loads of the next request from the queue; None if nothing may be read."""
        with self._lock:
            if self._is_closed or not self._waiting:
                return None
            if self._is_held_back and not self._waiting[0].is_urgent:
                return None
            run = next_run(self._waiting)
            start, stop = run_span(run)
            is_full = (
                self._in_flight >= self._limit.value
                or self._nbytes + stop - start > self._max_nbytes
            )
            if is_full and self._in_flight:
                return None
            for _ in run:
                self._waiting.popleft()
            self._in_flight += 1
            self._nbytes += stop - start
            self._counters.fetch_started()
            return run, start, stop

    def _answered(self, run: list[Load], start: int, stop: int, request: Future[Any]) -> None:
        """Pass an answer on. A callback's exception is only logged: waiters are notified here."""
        try:
            with self._lock:
                self._requests.discard(request)
            in_flight = self._ended(run, stop - start)
            error = _cancelled(run) if request.cancelled() else request.exception()
            if error is None:
                self._limit.answered(stop - start, in_flight=in_flight, now=time.monotonic())
            self._start_requests()  # also after an error: earlier chunks are still needed
            if isinstance(error, CorruptionError) and self._skips:
                for load in run:
                    alone = partial(self._read_alone, load)
                    self._workers.submit(partial(self._guard, load, alone), order=load.order)
                return
            if error is not None:
                self._fail(run, error)
                return
            if isinstance(run[0].key, BlockKey):
                receive = partial(self._receive_blocks, run, request.result())
                self._workers.submit(receive, order=run[0].order)
                return
            for load in run:
                receive = partial(self._receive_timed, load, start, request.result())
                self._workers.submit(partial(self._guard, load, receive), order=load.order)
        except BaseException as error:  # noqa: BLE001 - raised to the consumer of the batch
            self._fail(run, error)

    def _ended(self, run: list[Load], nbytes: int) -> int:
        """Count a request as ended; return the number that were in flight with it."""
        with self._lock:
            in_flight = self._in_flight
            self._in_flight -= 1
            self._nbytes -= nbytes
        self._counters.fetch_ended(
            nbytes, requests=max(len(run) * is_row(run[0]), part_count(nbytes))
        )
        return in_flight

    def _receive_timed(self, load: Load, start: int, parts: list[Buffer]) -> None:
        with self._counters.timed("unpack_s"):
            self._receive(load, start, parts)

    def _receive(self, load: Load, start: int, parts: list[Buffer]) -> None:
        blob, *rest = parts
        if not rest:  # else the chunk is alone and complete
            offset = load.key.offset - start
            blob = memoryview(blob)[offset : offset + load.key.nbytes]
        if checksum_of((blob, *rest)) != load.key.checksum:
            error = CorruptionError(
                f"{load.key} of {load.tensor!r} is damaged: its checksum is wrong"
                "\nrestore the object from a copy, or run ds.check() to see what is lost",
                object=load.key.pack.path,
                offset=load.key.offset,
                tensor=load.tensor,
            )
            self._reader.snapshot.packs.distrust(load.key.pack.path)
            if not self._skips:
                raise error
            pieces = (blob, *rest)
            self._publish(load, self._salvaged(load, error, pieces))
            return
        column = self._reader.decode_chunk(load.tensor, load.key, blob, rest)
        self._publish(load, loaded_chunk(column, b""))

    def _receive_blocks(self, run: list[Load], make: Callable[[], Column]) -> None:
        """Add a block, or rows that were read together."""
        try:
            with self._counters.timed("unpack_s"):
                column = make()
                one = len(run) == 1
                chunks = [
                    loaded_chunk(column, b"") if one else loaded_row(column, row)
                    for row in range(len(run))
                ]
        except BaseException as error:  # noqa: BLE001 - raised to the consumer of the batch
            if isinstance(error, CorruptionError):
                self._distrust(error)
                if self._skips:
                    for load in run:
                        self._guard(load, partial(self._read_alone, load))
                    return
            self._fail(run, error)
            return
        stored = sum(load.key.nbytes for load in run)
        self._counters.add(fetched_nbytes=nbytes_in_memory(column) - stored)
        self._counters.add(row_reads=len(run) * is_row(run[0]))
        for load, chunk in zip(run, chunks, strict=True):
            self._guard(load, partial(self._publish, load, chunk))

    def _distrust(self, error: CorruptionError) -> None:
        if isinstance(path := getattr(error, "object", None), str):
            self._reader.snapshot.packs.distrust(path)

    def _read_alone(self, load: Load) -> None:
        """Read a chunk again alone, in a worker, because one of its neighbours is damaged."""
        if isinstance(load.key, BlockKey):
            rows = self._reader, load.tensor, load.key.physical
            column, lost = read_rows_alone(*rows, self._damage)
            self._counters.add(row_reads=is_row(load))
            self._publish(load, replace(loaded_chunk(column, b""), lost=lost))
            return
        start, nbytes = load.key.offset, load.key.nbytes
        blob = runtime.run(self._reader.snapshot.packs.read_range(load.key.pack, start, nbytes))
        self._receive(load, start, [blob])

    def _salvaged(
        self, load: Load, error: CorruptionError, pieces: Sequence[Buffer] = ()
    ) -> LoadedChunk:
        named = self._reader, load.tensor, load.key
        return salvaged_chunk(*named, error, pieces, log=self._damage)

    def _publish(self, load: Load, chunk: LoadedChunk) -> None:
        self._cache.add(load.tensor, load.number, chunk)
        for countdown in self._waiters(load):
            countdown.arrived()

    def _fail(self, run: Iterable[Load], error: BaseException) -> None:
        if self._is_closed:  # then the error is most likely the cancellation by close()
            return
        for load in run:
            for countdown in self._waiters(load):
                countdown.failed(error)

    def _waiters(self, load: Load) -> list[Countdown]:
        """Return the countdowns of a load, and remove them."""
        with self._lock:
            self._loads.pop((load.tensor, load.number), None)
            asked_by, load.asked_by = load.asked_by, []
        return asked_by

    def _guard(self, load: Load, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised to the consumer of the batch
            if isinstance(error, CorruptionError) and self._skips:
                self._publish(load, self._salvaged(load, error))
            else:
                self._fail([load], error)


def _cancelled(run: list[Load]) -> InvalidStateError:
    return stopped(f"{run[0].key} of {run[0].tensor!r}")


def _fill_of(reader: Reader, load: Load) -> Column:
    """Return the stored sample of a fill chunk; in a mix, that of the chunk's source."""
    if isinstance(reader, MixReader):
        return reader.fill_of(load.tensor, load.key)
    return reader.fill_column(load.tensor, 1)


def next_run(waiting: deque[Load]) -> list[Load]:
    """Return the first waiting chunks that are adjacent, so that one request can read them."""
    run = [waiting[0]]
    first = run[0].key
    if isinstance(first, BlockKey):
        return row_run(waiting) if is_row(run[0]) else run
    for load in islice(waiting, 1, None):
        key, (start, stop) = load.key, run_span(run)
        gap = key.offset - stop
        if (
            key.pack != first.pack
            or load.is_kept != waiting[0].is_kept
            or not 0 <= gap <= GAP_NBYTES
            or key.offset + key.nbytes - start > RANGE_NBYTES
        ):
            break
        run.append(load)
    return run


def row_run(waiting: deque[Load]) -> list[Load]:
    """Return the first waiting rows of one tensor and group, up to as many as are read at once."""
    first = waiting[0]
    most = URGENT_ROWS if first.is_urgent else max(1, RANGE_NBYTES // first.key.nbytes)
    alike = (first.tensor, first.order, first.is_kept)
    return [
        *takewhile(
            lambda load: is_row(load) and (load.tensor, load.order, load.is_kept) == alike,
            islice(waiting, most),
        )
    ]


def is_row(load: Load) -> bool:
    """Return whether a load is of a single row."""
    return isinstance(load.key, BlockKey) and len(load.key.physical) == 1


def _stored_place(load: Load) -> tuple[str, str, int]:
    key = load.key
    return str(key.pack), load.tensor if isinstance(key, BlockKey) else "", key.offset


def run_span(run: list[Load]) -> tuple[int, int]:
    """Return the start and end of a run of chunks in its pack; of rows, only as far apart."""
    first, last = run[0].key, run[-1].key
    if isinstance(first, BlockKey):
        return first.offset, first.offset + sum(load.key.nbytes for load in run)
    return first.offset, last.offset + last.nbytes


async def read_parts(packs: Packs, pack: Any, start: int, stop: int) -> list[Buffer]:
    """Read bytes of a pack, concurrently in the number of parts that ``part_count`` gives."""
    count = part_count(stop - start)
    borders = [start + (stop - start) * part // count for part in range(count + 1)]
    reads = [packs.read_range(pack, first, last - first) for first, last in pairwise(borders)]
    return await asyncio.gather(*reads)


def part_count(nbytes: int) -> int:
    """Return the number of requests for reading ``nbytes`` bytes."""
    return max(1, round(nbytes / RANGE_NBYTES))
