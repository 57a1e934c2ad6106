"""Fetch: chunks into the memory tier, ahead of use, in the order of the plan.

    local     map_chunk, verified once a process; nothing is read before it is used
    remote    waiting ─► in flight (bounded in bytes and number) ─► worker: decode ─► cache
              in plan order      one ranged request each, on the storage loop

A chunk asked for twice is loaded once. Requests are single ranges of whole chunks, a few
megabytes each, which is past the break-even of every store; sixteen and more in flight hide
latency behind throughput.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tensorlake.loader.chunks import ChunkCache, LoadedChunk, loaded_chunk
from tensorlake.storage import runtime

if TYPE_CHECKING:
    from tensorlake.loader.source import Reader
    from tensorlake.loader.stats import Counters
    from tensorlake.loader.threads import WorkerThreads
    from tensorlake.types import Buffer

__all__ = ["ChunkFetcher"]

IN_FLIGHT_NBYTES = 64 << 20
IN_FLIGHT_REQUESTS = 64


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
        in_flight_nbytes: int = IN_FLIGHT_NBYTES,
        in_flight_requests: int = IN_FLIGHT_REQUESTS,
    ) -> None:
        self._reader = reader
        self._cache = cache
        self._workers = workers
        self._counters = counters
        self._max_nbytes = in_flight_nbytes
        self._max_requests = in_flight_requests
        self._lock = threading.Lock()
        self._loads: dict[tuple[str, int], Load] = {}
        self._waiting: deque[Load] = deque()
        self._requests: set[Future[Buffer]] = set()
        self._nbytes = 0
        self._is_remote = False
        self._is_closed = False

    def load(self, tensor: str, number: int) -> Future[None]:
        """Bring a chunk into the cache; the future tells when it is there."""
        with self._lock:
            under_way = self._loads.get((tensor, number))
            if under_way is not None:
                return under_way.done
            load = Load(tensor, number, self._cache.tensors[tensor].keys[number], Future())
            if self._cache.is_loaded(tensor, number):  # it arrived since the caller looked
                load.done.set_result(None)
                return load.done
            self._loads[tensor, number] = load
            is_remote = self._is_remote and not load.key.is_fill
            if is_remote:
                self._waiting.append(load)
        if is_remote:
            self._start_requests()
        else:
            self._workers.submit(partial(self._guard, load, partial(self._map, load)))
        return load.done

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
            column = self._reader.fill_column(load.tensor, 1)
            self._publish(load, loaded_chunk(column, b"", is_constant=True))
            return
        blob = self._reader.map_chunk(load.key)
        if blob is not None:
            self._counters.add(mapped_chunks=1)
            column = self._reader.decode_chunk(load.tensor, load.key, blob)
            self._publish(load, loaded_chunk(column, blob))
            return
        with self._lock:
            self._is_remote = True
            self._waiting.append(load)
        self._start_requests()

    def _start_requests(self) -> None:
        while True:
            with self._lock:
                if self._is_closed or not self._waiting:
                    return
                nbytes = int(self._waiting[0].key.nbytes)
                is_full = (
                    len(self._requests) >= self._max_requests
                    or self._nbytes + nbytes > self._max_nbytes
                )
                if is_full and self._requests:
                    return
                load = self._waiting.popleft()
                self._nbytes += nbytes
                self._counters.fetch_started()
                request = runtime.submit(self._reader.fetch_chunk(load.key))
                self._requests.add(request)
            # outside the lock: a request that is done already calls back at once, in this thread
            request.add_done_callback(self._answered(load, nbytes))

    def _answered(self, load: Load, nbytes: int) -> Callable[[Future[Buffer]], None]:
        def answered(request: Future[Buffer]) -> None:
            with self._lock:
                self._requests.discard(request)
                self._nbytes -= nbytes
            self._counters.fetch_ended(nbytes)
            self._start_requests()
            if not request.cancelled():
                self._workers.submit(
                    lambda: self._guard(load, lambda: self._receive(load, request))
                )

        return answered

    def _receive(self, load: Load, request: Future[Buffer]) -> None:
        column = self._reader.decode_chunk(load.tensor, load.key, request.result())
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
