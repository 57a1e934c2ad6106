"""Fetch: chunks into the memory tier, ahead of use, in the order of the plan.

    local     map_chunk, verified once a process; nothing is read before it is used
    remote    waiting ─► in flight (bounded in bytes and number) ─► worker: verify, decode ─► cache
              in plan order      ranges of about 4 MiB: neighbours joined, large chunks parted

A chunk asked for twice is loaded once. Ranges of that size are past the break-even of every
store, and sixteen of them in flight hide latency and add up the bandwidth of connections. Of
smaller ones more are in flight: how many is found by measuring (``concurrency.py``). A request that
fails is retried by the store; what it answers is verified here.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError
from tensorlake.loader.chunks import ChunkCache, LoadedChunk, loaded_chunk
from tensorlake.loader.concurrency import ConcurrencyLimit
from tensorlake.loader.mix import MixReader
from tensorlake.storage import runtime

if TYPE_CHECKING:
    from tensorlake.loader.counters import Counters
    from tensorlake.loader.source import Packs, Reader
    from tensorlake.loader.threads import WorkerThreads
    from tensorlake.types import Buffer, Column

__all__ = ["ChunkFetcher"]

IN_FLIGHT_NBYTES = 64 << 20
RANGE_NBYTES = 4 << 20  # of one request; sixteen are the 64 MiB in flight
GAP_NBYTES = 64 << 10  # bytes read in vain cost less than a second request


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """One chunk on its way."""

    tensor: str
    number: int
    key: Any  # the reader's own key class
    done: Future[None]


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
    ) -> None:
        self._reader = reader
        self._cache = cache
        self._workers = workers
        self._counters = counters
        self._max_nbytes = in_flight_nbytes
        self._limit = limit
        self._lock = threading.RLock()  # a collected iterator may close in any thread
        self._loads: dict[tuple[str, int], Load] = {}
        self._waiting: deque[Load] = deque()
        self._requests: set[Future[list[Buffer]]] = set()
        self._nbytes = 0
        self._is_local = reader.store.is_local
        self._most_nbytes = in_flight_nbytes
        self._is_closed = False

    def load(self, chunks: Iterable[tuple[str, int]]) -> list[Future[None]]:
        """Bring chunks that are needed together into the cache; a future each tells when."""
        loads = [self._begin(tensor, number) for tensor, number in chunks]
        remote = [load for load, is_remote in loads if is_remote]
        remote.sort(key=lambda load: (str(load.key.pack), load.key.offset))
        with self._lock:
            self._waiting.extend(remote)
        self._start_requests()
        return [load.done for load, _ in loads]

    def _begin(self, tensor: str, number: int) -> tuple[Load, bool]:
        """Start loading a chunk that is at hand; tell of others that a request is needed."""
        with self._lock:
            under_way = self._loads.get((tensor, number))
            if under_way is not None:
                return under_way, False
            load = Load(tensor, number, self._cache.tensors[tensor].keys[number], Future())
            if self._cache.is_loaded(tensor, number):  # it arrived since the caller looked
                load.done.set_result(None)
                return load, False
            self._loads[tensor, number] = load
        # of a remote dataset only what is staged is at hand, and asking costs nothing
        if self._is_local or load.key.is_fill or self._reader.map_chunk(load.key) is not None:
            self._workers.submit(partial(self._guard, load, partial(self._map, load)))
            return load, False
        return load, True

    def hold_back(self, nbytes: int) -> None:
        """Start no more than so many bytes for now: something else is awaited."""
        with self._lock:
            self._most_nbytes = nbytes

    def go_on(self) -> None:
        """End ``hold_back``."""
        with self._lock:
            self._most_nbytes = self._max_nbytes
        self._start_requests()

    def close(self) -> None:
        """Cancel what is in flight; nothing is started any more."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            requests = list(self._requests)
        for request in requests:
            request.cancel()

    def _map(self, load: Load) -> None:
        if load.key.is_fill:
            column = _fill_of(self._reader, load)
            self._publish(load, loaded_chunk(column, b"", is_constant=True))
            return
        blob = self._reader.map_chunk(load.key)
        if blob is None:  # this store cannot map after all
            with self._lock:
                self._waiting.append(load)
            self._start_requests()
            return
        self._counters.add(mapped_chunks=1)
        column = self._reader.decode_chunk(load.tensor, load.key, blob)
        self._publish(load, loaded_chunk(column, blob))

    def _start_requests(self) -> None:
        while True:
            with self._lock:
                if self._is_closed or not self._waiting or not self._most_nbytes:
                    return
                run = next_run(self._waiting)
                start, stop = run_span(run)
                is_full = (
                    len(self._requests) >= self._limit.value
                    or self._nbytes + stop - start > self._most_nbytes
                )
                if is_full and self._requests:
                    return
                for _ in run:
                    self._waiting.popleft()
                self._nbytes += stop - start
                self._counters.fetch_started()
                packs = self._reader.snapshot.packs
                request = runtime.submit(read_parts(packs, run[0].key.pack, start, stop))
                self._requests.add(request)
            # outside the lock: a request that is done already calls back at once, in this thread
            request.add_done_callback(partial(self._answered, run, stop - start))

    def _answered(self, run: list[Load], nbytes: int, request: Future[list[Buffer]]) -> None:
        with self._lock:
            in_flight = len(self._requests)
            self._requests.discard(request)
            self._nbytes -= nbytes
        if not request.cancelled() and request.exception() is None:
            self._limit.answered(nbytes, in_flight=in_flight, now=time.monotonic())
        self._counters.fetch_ended(nbytes, requests=part_count(nbytes))
        self._start_requests()
        if not request.cancelled():
            for load in run:
                receive = partial(self._receive_timed, load, run[0].key.offset, request)
                self._workers.submit(partial(self._guard, load, receive))

    def _receive_timed(self, load: Load, start: int, request: Future[list[Buffer]]) -> None:
        with self._counters.timed("unpack_s"):
            self._receive(load, start, request)

    def _receive(self, load: Load, start: int, request: Future[list[Buffer]]) -> None:
        parts = request.result()
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        offset = load.key.offset - start
        blob = memoryview(whole)[offset : offset + load.key.nbytes]
        if xxh3_64_intdigest(blob) != load.key.checksum:
            raise CorruptionError(
                f"{load.key} of {load.tensor!r} is damaged: its checksum is wrong"
                "\nrestore the object from a copy, or run ds.check() to see what is lost",
                object=load.key.pack.path,
                offset=load.key.offset,
                tensor=load.tensor,
            )
        column = self._reader.decode_chunk(load.tensor, load.key, blob)
        self._publish(load, loaded_chunk(column, b""))

    def _publish(self, load: Load, chunk: LoadedChunk) -> None:
        self._cache.add(load.tensor, load.number, chunk)
        with self._lock:
            self._loads.pop((load.tensor, load.number), None)
        load.done.set_result(None)

    def _guard(self, load: Load, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - raised to whoever asked for the batch
            with self._lock:
                self._loads.pop((load.tensor, load.number), None)
            load.done.set_exception(error)


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


async def read_parts(packs: Packs, pack: Any, start: int, stop: int) -> list[Buffer]:
    """Read bytes of a pack, at once in as many parts as they are worth."""
    count = part_count(stop - start)
    borders = [start + (stop - start) * part // count for part in range(count + 1)]
    reads = [packs.read_range(pack, first, last - first) for first, last in pairwise(borders)]
    return await asyncio.gather(*reads)


def part_count(nbytes: int) -> int:
    """Return how many requests so many bytes are read by."""
    return max(1, round(nbytes / RANGE_NBYTES))
