"""Fetch: chunks into the memory tier, ahead of use, in the order of the plan.

    local     map_chunk, verified once a process; nothing is read before it is used
    remote    waiting ─► in flight (bounded in bytes and number) ─► worker: verify, decode ─► cache
              in plan order      ranges of about 4 MiB: neighbours joined, large chunks parted

A chunk asked for twice is loaded once. Ranges of that size are past the break-even of every
store, and sixteen of them in flight hide latency and add up the bandwidth of connections. Of
smaller ones more are in flight: how many is found by measuring (``stages/adaptive_limit.py``). A
request that fails is retried by the store, one that takes unusually long is made again
(``stages/hedge.py``); what it answers is verified here.

Every chunk asked for is told of to every countdown that asked, once: as arrived by ``_publish``, as
failed by ``_fail``, whatever raised and wherever. Only ``close`` ends this: the pass is over then.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from tensorlake.errors import CorruptionError, InvalidStateError
from tensorlake.format import checksum_of
from tensorlake.loader.runtime.shutdown import stopped
from tensorlake.loader.sources.chunk_cache import ChunkCache, LoadedChunk, loaded_chunk
from tensorlake.loader.sources.damaged_rows import salvaged_chunk
from tensorlake.loader.sources.mix import MixReader
from tensorlake.loader.stages.adaptive_limit import ConcurrencyLimit
from tensorlake.loader.stages.hedge import Hedge
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
GAP_NBYTES = 64 << 10  # bytes read in vain cost less than a second request


@dataclass(slots=True, eq=False)
class Load:
    """One chunk on its way, and who waits for it."""

    tensor: str
    number: int
    key: Any  # the reader's own key class
    order: int = 0  # of the first group that asked for it
    is_urgent: bool = False  # never held back
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
    ) -> None:
        self._reader = reader
        self._cache = cache
        self._workers = workers
        self._counters = counters
        self._max_nbytes = in_flight_nbytes
        self._limit = limit
        self._skips = skips  # rows that are damaged, rather than to fail
        self._hedge = Hedge(counters)
        self._lock = threading.Lock()
        self._loads: dict[tuple[str, int], Load] = {}
        self._waiting: deque[Load] = deque()
        self._requests: set[Future[list[Buffer]]] = set()
        self._in_flight = 0
        self._nbytes = 0
        self._is_local = reader.store.is_local
        self._held_to = sys.maxsize  # requests in flight with one that is not urgent
        self._is_closed = False

    def load(
        self,
        chunks: Iterable[tuple[str, int, Countdown]],
        *,
        order: int = 0,
        is_urgent: bool = False,
    ) -> None:
        """Bring chunks that are needed together into the cache.

        Args:
            chunks: Tensors, ordinals of the cache, and who is told of each of them once, as
                arrived or as failed.
            order: When what came is decoded, beside other work of the threads.
            is_urgent: Ask for them also while others are held back.
        """
        loads = [
            self._begin(tensor, number, needed, order=order, is_urgent=is_urgent)
            for tensor, number, needed in chunks
        ]
        remote = [load for load in loads if load is not None]
        remote.sort(key=lambda load: (str(load.key.pack), load.key.offset))
        with self._lock:
            self._waiting.extend(remote)
        self._start_requests()

    def _begin(
        self, tensor: str, number: int, needed: Countdown, *, order: int, is_urgent: bool
    ) -> Load | None:
        """Start loading a chunk that is at hand; return others, which need a request."""
        with self._lock:
            load = self._loads.get((tensor, number))
            if load is not None:
                load.asked_by.append(needed)
                return None
            is_loaded = self._cache.is_loaded(tensor, number)  # since the caller looked
            if not is_loaded:
                key = self._cache.tensors[tensor].keys[number]
                load = Load(tensor, number, key, order, is_urgent, [needed])
                self._loads[tensor, number] = load
        if load is None:
            needed.arrived()
            return None
        # of a remote dataset only what is staged is at hand, and asking costs nothing
        if self._is_local or load.key.is_fill or self._reader.map_chunk(load.key) is not None:
            work = partial(self._guard, load, partial(self._map_timed, load))
            self._workers.submit(work, order=order)
            return None
        return load

    def hold_back(self, *, to: int) -> None:
        """Start what is not urgent only as one of so many requests, until told otherwise."""
        with self._lock:
            self._held_to = to
        self._start_requests()

    def go_on(self) -> None:
        """Hold nothing back from now on."""
        self.hold_back(to=sys.maxsize)

    def close(self) -> None:
        """Cancel what is in flight; nothing is started any more, and nobody told."""
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
        if blob is None:  # this store cannot map after all
            with self._lock:
                if load.is_urgent:
                    self._waiting.appendleft(load)  # nothing held back may stand before it
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
            packs, pack = self._reader.snapshot.packs, run[0].key.pack
            read = read_parts(packs, pack, start, stop, hedge=self._hedge)
            try:
                request = runtime.submit(read)
            except Exception as error:  # noqa: BLE001 - raised to whoever asked for the batch
                read.close()
                self._ended(stop - start)
                self._fail(run, error)
                continue
            with self._lock:
                self._requests.add(request)
                is_closed = self._is_closed
            # outside the lock: a request that is done already calls back at once, in this thread
            request.add_done_callback(partial(self._answered, run, start, stop))
            if is_closed:
                request.cancel()

    def _next_or_short(self) -> tuple[list[Load], int, int] | None:
        """Take what the next request reads; where there is none, say whether more could be read."""
        begun = self._next_request()
        if begun is None:
            with self._lock:
                is_short = not self._waiting and self._in_flight < self._limit.value
                is_short &= self._nbytes + RANGE_NBYTES <= self._max_nbytes
            self._counters.hold(chunks=is_short)
        return begun

    def _next_request(self) -> tuple[list[Load], int, int] | None:
        """Take from what waits what the next request reads; None where nothing may be read."""
        with self._lock:
            if self._is_closed or not self._waiting:
                return None
            if not self._waiting[0].is_urgent and self._in_flight >= self._held_to:
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

    def _answered(
        self, run: list[Load], start: int, stop: int, request: Future[list[Buffer]]
    ) -> None:
        """Pass an answer on. What a callback raises is only logged: whoever waits is told here."""
        try:
            with self._lock:
                self._requests.discard(request)
            in_flight = self._ended(stop - start)
            error = _cancelled(run) if request.cancelled() else request.exception()
            if error is None:
                self._limit.answered(stop - start, in_flight=in_flight, now=time.monotonic())
            self._start_requests()  # also after an error: what comes before it is still wanted
            if isinstance(error, CorruptionError) and self._skips:
                for load in run:
                    alone = partial(self._read_alone, load)
                    self._workers.submit(partial(self._guard, load, alone), order=load.order)
                return
            if error is not None:
                self._fail(run, error)
                return
            for load in run:
                receive = partial(self._receive_timed, load, start, request.result())
                self._workers.submit(partial(self._guard, load, receive), order=load.order)
        except BaseException as error:  # noqa: BLE001 - raised to whoever asked for the batch
            self._fail(run, error)

    def _ended(self, nbytes: int) -> int:
        """Count a request as ended; return how many were in flight with it."""
        with self._lock:
            in_flight = self._in_flight
            self._in_flight -= 1
            self._nbytes -= nbytes
        self._counters.fetch_ended(nbytes, requests=part_count(nbytes))
        return in_flight

    def _receive_timed(self, load: Load, start: int, parts: list[Buffer]) -> None:
        with self._counters.timed("unpack_s"):
            self._receive(load, start, parts)

    def _receive(self, load: Load, start: int, parts: list[Buffer]) -> None:
        blob, *rest = parts
        if not rest:  # else the chunk is alone, and all of it
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
            if not self._skips:
                raise error
            pieces = (blob, *rest)
            self._publish(load, salvaged_chunk(self._reader, load.tensor, load.key, error, pieces))
            return
        column = self._reader.decode_chunk(load.tensor, load.key, blob, rest)
        self._publish(load, loaded_chunk(column, b""))

    def _read_alone(self, load: Load) -> None:
        """Read a chunk again without its neighbours, in a worker: one of them is damaged."""
        start, nbytes = load.key.offset, load.key.nbytes
        blob = runtime.run(self._reader.snapshot.packs.read_range(load.key.pack, start, nbytes))
        self._receive(load, start, [blob])

    def _publish(self, load: Load, chunk: LoadedChunk) -> None:
        self._cache.add(load.tensor, load.number, chunk)
        for countdown in self._told(load):
            countdown.arrived()

    def _fail(self, run: Iterable[Load], error: BaseException) -> None:
        if self._is_closed:  # the error is then most likely of being cancelled by close()
            return
        for load in run:
            for countdown in self._told(load):
                countdown.failed(error)

    def _told(self, load: Load) -> list[Countdown]:
        """Return who is to be told of a load, which nobody else will be."""
        with self._lock:
            self._loads.pop((load.tensor, load.number), None)
            asked_by, load.asked_by = load.asked_by, []
        return asked_by

    def _guard(self, load: Load, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised to whoever asked for the batch
            if isinstance(error, CorruptionError) and self._skips:
                self._publish(load, salvaged_chunk(self._reader, load.tensor, load.key, error))
            else:
                self._fail([load], error)


def _cancelled(run: list[Load]) -> InvalidStateError:
    return stopped(f"{run[0].key} of {run[0].tensor!r}")


def _fill_of(reader: Reader, load: Load) -> Column:
    """Return one stored sample of a chunk that is a fill; of a mix, that of the chunk's source."""
    if isinstance(reader, MixReader):
        return reader.fill_of(load.tensor, load.key)
    return reader.fill_column(load.tensor, 1)


def next_run(waiting: deque[Load]) -> list[Load]:
    """Return the first chunks that wait and lie side by side, so one request can read them."""
    run = [waiting[0]]
    first = run[0].key
    for load in islice(waiting, 1, None):
        key, (start, stop) = load.key, run_span(run)
        gap = key.offset - stop
        if (
            key.pack != first.pack
            or not 0 <= gap <= GAP_NBYTES
            or key.offset + key.nbytes - start > RANGE_NBYTES
        ):
            break
        run.append(load)
    return run


def run_span(run: list[Load]) -> tuple[int, int]:
    """Return where in its pack a run of chunks starts and ends."""
    last = run[-1].key
    return run[0].key.offset, last.offset + last.nbytes


async def read_parts(
    packs: Packs, pack: Any, start: int, stop: int, *, hedge: Hedge
) -> list[Buffer]:
    """Read bytes of a pack, at once in as many parts as they are worth."""
    count = part_count(stop - start)
    borders = [start + (stop - start) * part // count for part in range(count + 1)]
    reads = [
        hedge.read(partial(packs.read_range, pack, first, last - first))
        for first, last in pairwise(borders)
    ]
    return await asyncio.gather(*reads)


def part_count(nbytes: int) -> int:
    """Return how many requests so many bytes are read by."""
    return max(1, round(nbytes / RANGE_NBYTES))
