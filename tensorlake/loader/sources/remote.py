"""A pass whose batches a server decodes: ``decode_on="server"``.

    client   shares of the epoch ─► request ─► … ◄─ batches, read ahead by one thread ─► consumer
    server   the same loader over the same rows, from the state in the request;
             or in an order that only the client has, the rows that it lists, some batches at a time

The order, the sharding and the state are the client's own; the server is requested the next batches
and keeps no state between two streams. So a stream that breaks off, for example because the server
drains before it stops, is requested again from the first missing batch, from any server that
answers, and continues exactly. Waiting batches are bounded, and a slow client throttles the server
by not reading. A server on the same host may send batches as memory (``runtime/batch_slabs.py``).

The thread passes outcomes to the consumer through a queue: batches, then the end or an error. Then
it waits for the signal to end, drops batches that were not taken, and leaves a final outcome for a
consumer that still waits. ``abandon`` and ``close`` are as in ``engine/pipeline.py``: ``abandon``
takes no lock and does not wait, and both cancel the thread's wait, be it for a batch, for the start
of a server's answer, or for the consumer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tensorlake.errors import InvalidInputError, StorageError, StorageTimeoutError
from tensorlake.loader.config.collate import collate_ragged
from tensorlake.loader.config.column_plan import VALID
from tensorlake.loader.decode import parse_steps
from tensorlake.loader.runtime.batch_slabs import SLABS_HEADER, SlabReader
from tensorlake.loader.runtime.handoff import Outcome
from tensorlake.loader.runtime.shutdown import closed, ended, started, stopped
from tensorlake.loader.sources.wire import BatchBytes, StreamError, read_batches, wire_columns
from tensorlake.storage import LostStreamError, error_of_problem, runtime

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.column_plan import ColumnPlan, MakeBatch
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.sharding import Sharding, Share
    from tensorlake.loader.plan.state import LoaderState
    from tensorlake.loader.runtime.counters import Counters

__all__ = ["BatchServer", "RemotePass", "RemoteSetup", "check_remote"]

MIN_WAITING = 2  # batches that may always be buffered: one is read while one is used
LISTED_ROWS = 1 << 14  # of a request: 300 kB of numbers
FRUITLESS_STREAMS = 8  # in a row that broke off before the first batch
JOIN_TIMEOUT_S = 30.0


# A batch and its bytes in memory, or None: the end.
Arrival: TypeAlias = "tuple[Share, dict[str, Any], int] | None"


class BatchStream(BatchBytes, Protocol):
    """A stream of batches that can be closed.

    Attributes:
        nbytes: Number of bytes received.
        headers: Those of the answer.
    """

    nbytes: int
    headers: Mapping[str, str]

    def abandon(self) -> None:
        """Make a waiting read raise, without waiting."""
        ...

    def close(self) -> None:
        """Close the stream."""
        ...


class BatchServer(Protocol):
    """A server that decodes batches of some rows."""

    @property
    def url(self) -> str:
        """URL of the dataset, for messages."""
        ...

    def open(self, request: Mapping[str, Any], *, timeout_s: float) -> BatchStream:
        """Request batches."""
        ...


class Workers(Protocol):
    """Threads and processes that ``RemoteSetup.combine`` calls."""

    def start(self) -> None:
        """Start them."""
        ...

    def stop(self) -> None:
        """End them, and a call that waits for them; without a lock and without waiting."""
        ...

    def join(self, timeout_s: float) -> None:
        """Wait until they have ended."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteSetup:
    """The requests of a pass, and their bounds."""

    server: BatchServer
    arguments: LoaderArguments
    columns: tuple[ColumnPlan, ...]
    sharding: Sharding
    state: LoaderState
    turns: int  # number of processes, each making a batch in turn
    keeps_places: bool
    with_valid: bool
    counters: Counters
    listing: Plan | None = None  # of an order whose rows requests list
    # Makes units of rows, or transforms rows.
    combine: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = None
    workers: Workers | None = None  # of a transform


def check_remote(server: BatchServer | None) -> None:
    """Refuse rows that no server decodes.

    Raises:
        InvalidInputError: There is no server.
    """
    if server is None:
        raise InvalidInputError(
            "decode_on='server' is for rows that a server can find: those of a dataset behind one"
            " (tl.open('http://…')), of its saved views and of queries over it\n"
            "leave decode_on out, or save the view and open it by its name",
            argument="decode_on",
        )


class RemotePass:
    """Threads and queue of one pass over an epoch that a server decodes."""

    def __init__(self, setup: RemoteSetup, shares: Iterable[Share]) -> None:
        self._setup = setup
        self._shares = iter(shares)
        self._listed: deque[Share] = deque()  # taken from these by a request that lists them
        self._wire = wire_columns(setup.columns, with_valid=setup.with_valid)
        # to the consumer: batches in order, then the end or an error; None: it was closed
        self._arrivals: SimpleQueue[Outcome[Arrival] | None] = SimpleQueue()
        # bytes that the consumer has taken; None: it takes no more. Putting never waits.
        self._taken: SimpleQueue[int | None] = SimpleQueue()
        self._waiting: list[int] = []  # the reader's own
        self._is_closed = False
        self._has_begun = False  # the consumer has a batch
        self._asking = runtime.Scope()  # for requesting a stream
        self._stream: BatchStream | None = None
        self._reader = threading.Thread(
            target=self._read_ahead, name="tensorlake-loader-remote", daemon=True
        )

    def start(self) -> None:
        """Start reading."""
        if self._setup.workers is not None:
            self._setup.workers.start()
        self._reader.start()

    def next_group(self) -> tuple[list[Share], list[MakeBatch]] | None:
        """Wait for the next batch; None at the end of the pass.

        Raises:
            StorageTimeoutError: No batch arrived within the loader's timeout.
            InvalidStateError: The pass was closed meanwhile.
        """
        timeout_s = self._setup.arguments.timeout
        waited = "blocked_s" if self._has_begun else "start_s"
        try:
            with self._setup.counters.timed(waited):
                outcome = self._arrivals.get(timeout=timeout_s)
        except Empty:
            raise StorageTimeoutError(
                f"no batch of {self._setup.server.url!r} came within {timeout_s:g} s"
                "\nraise timeout=, or check whether the server is overloaded",
                timeout_s=timeout_s,
            ) from None
        if outcome is None or self._is_closed:
            raise closed()
        found = outcome.take()
        if found is None:
            return None
        share, batch, nbytes = found
        self._has_begun = True
        self._taken.put(nbytes)
        return [share], [partial(_itself, batch)]

    def abandon(self) -> None:
        """Let the pass end, without locks or waits: garbage collection may call it anywhere."""
        self._is_closed = True
        self._asking.cancel()
        stream = self._stream
        if stream is not None:
            stream.abandon()
        if self._setup.workers is not None:
            self._setup.workers.stop()
        self._taken.put(None)

    def close(self, timeout_s: float = JOIN_TIMEOUT_S) -> None:
        """End the stream and its thread; batches handed out stay valid."""
        self.abandon()
        self.join(timeout_s)

    def join(self, timeout_s: float = JOIN_TIMEOUT_S) -> bool:
        """Wait until a closed or abandoned pass has ended; return whether it has."""
        if self._reader.ident is None or self._reader is threading.current_thread():
            return self._reader.ident is None
        self._reader.join(timeout_s)
        if self._setup.workers is not None:
            self._setup.workers.join(timeout_s)
        return not self._reader.is_alive()

    def _read_ahead(self) -> None:
        started(self)
        try:
            with closing(self._batches()) as batches:
                self._pass_on(batches)
        except CancelledError:
            self._arrive_failed(stopped(f"a stream of {self._setup.server.url!r}"))
        except BaseException as error:  # noqa: BLE001 - raised to the consumer
            self._arrive_failed(error)
        while not self._is_closed:
            self._taken.get()
        self._end()
        ended(self)

    def _pass_on(self, batches: Iterator[tuple[Share, dict[str, Any]]]) -> None:
        for share, batch in batches:
            nbytes = sum(map(_nbytes, batch.values()))
            if not self._admit(nbytes):
                return
            self._arrive((share, batch, nbytes))
        self._arrive(None)

    def _arrive(self, found: Arrival) -> None:
        outcome = Outcome[Arrival]()
        outcome.settle(found)
        self._arrivals.put(outcome)

    def _arrive_failed(self, error: BaseException) -> None:
        outcome = Outcome[Arrival]()
        outcome.fail(error)
        self._arrivals.put(outcome)

    def _end(self) -> None:
        try:
            while True:
                self._arrivals.get_nowait()
        except Empty:
            pass  # the consumer takes no more, and they must not keep their batches
        self._arrivals.put(None)

    def _admit(self, nbytes: int) -> bool:
        """Wait until a batch may be buffered; False when the pass has ended."""
        most = self._setup.arguments.prefetch_nbytes
        while len(self._waiting) >= MIN_WAITING and sum(self._waiting) + nbytes > most:
            taken = self._taken.get()  # the consumer has no time limit
            if taken is None:
                return False
            self._waiting.pop(0)
        self._waiting.append(nbytes)
        return not self._is_closed

    def _batches(self) -> Generator[tuple[Share, dict[str, Any]]]:
        """Read the batch of each share, requesting again whenever a stream breaks off."""
        share = self._next_share()
        fruitless = 0
        while share is not None and not self._is_closed:
            fruitless += 1
            try:
                with closing(self._stream_from(share)) as stream:
                    for batch, place in stream:
                        if place != share.next_place:
                            raise _astray(self._setup.server.url, share.next_place, place)
                        yield share, self._combined(share, batch)
                        fruitless = 0
                        share = self._next_share()
                        if share is None:
                            return
            except LostStreamError:
                if self._is_closed:
                    return
                if fruitless >= FRUITLESS_STREAMS:
                    raise
            if fruitless >= FRUITLESS_STREAMS:
                raise LostStreamError(
                    f"{self._setup.server.url!r} ended {fruitless} streams without a batch"
                    "\nsee the server's log",
                    url=self._setup.server.url,
                )

    def _next_share(self) -> Share | None:
        return self._listed.popleft() if self._listed else next(self._shares, None)

    def _combined(self, share: Share, batch: dict[str, Any]) -> dict[str, Any]:
        combine = self._setup.combine
        return batch if combine is None else combine(share, batch)

    def _stream_from(self, share: Share) -> Generator[tuple[dict[str, Any], int]]:
        setup = self._setup
        with self._asking.entered():
            stream = setup.server.open(self._request(share), timeout_s=setup.arguments.timeout)
        if not self._holds(stream):
            return
        slabs = SlabReader.offered(stream.headers.get(SLABS_HEADER))
        try:
            read = read_batches(stream, self._wire, slabs)
            while (found := self._counted(read, stream, slabs)) is not None:
                batch, state = found
                yield self._collated(batch), int(state["position"])
        except StreamError as error:
            raise error_of_problem(error.problem, setup.server.url) from error
        finally:
            stream.close()
            if slabs is not None:
                slabs.close()

    def _holds(self, stream: BatchStream) -> bool:
        """Register this stream for ``close``; if the pass has ended, close it and return False."""
        self._stream = stream
        if self._is_closed:  # set before `abandon` looks for a stream: one of the two ends it
            stream.close()
        return not self._is_closed

    def _counted(
        self,
        read: Iterator[tuple[dict[str, Any], dict[str, Any]]],
        stream: BatchStream,
        slabs: SlabReader | None,
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        counters, before = self._setup.counters, _received(stream, slabs)
        counters.fetch_started()
        try:
            return next(read, None)
        except OSError as error:  # raised by Arrow for missing bytes
            if isinstance(error, LostStreamError):
                raise
            raise LostStreamError(
                f"the batches of {self._setup.server.url!r} broke off: {error}"
            ) from error
        finally:
            now = _received(stream, slabs)
            counters.fetch_ended(now - before, requests=0 if before else 1)

    def _request(self, share: Share) -> dict[str, Any]:
        """Return all inputs of the batches from this one on, besides the rows."""
        setup = self._setup
        arguments = setup.arguments
        decode = {
            name: parse_steps(name, given).to_json()
            for name, given in (arguments.decode or {}).items()
        }
        return {
            "version": setup.state.version,
            "columns": [column.name for column in setup.columns],
            "decode": decode,
            "lists": [one.name for one in setup.columns if _is_listed(one)],
            "null": {one.name: _sent_null(one, arguments) for one in _nulls(setup.columns)},
            "on_error": arguments.on_error,
            **(self._in_order(share) if setup.listing is None else self._as_listed(share)),
        }

    def _in_order(self, share: Share) -> dict[str, Any]:
        """Return from which batch on, of an order that the server can make."""
        setup, sharding = self._setup, self._setup.sharding
        begins = setup.state.position + share.number * sharding.global_batch_size
        return {
            "rank": sharding.rank,
            "world_size": sharding.world_size,
            "global_batch_size": sharding.global_batch_size,
            "drop_last": sharding.drop_last,
            "every": setup.turns,
            "keeps_places": setup.keeps_places,
            "state": replace(setup.state, position=begins, source=None).to_json(),
        }

    def _as_listed(self, share: Share) -> dict[str, Any]:
        """Return the rows of this batch and of some that follow."""
        setup = self._setup
        assert setup.listing is not None, "only then"
        shares, rows = [share], len(share)
        at = 0
        while rows < LISTED_ROWS:
            if at == len(self._listed):
                if (following := next(self._shares, None)) is None:
                    break
                self._listed.append(following)
            shares.append(self._listed[at])
            rows, at = rows + len(self._listed[at]), at + 1
        batches: list[dict[str, Any]] = []
        for one in shares:
            places = setup.listing.deal(one)
            positions = setup.listing.at(places).tolist()
            listed = {"stop": one.next_place, "places": places.tolist(), "valid": one.valid > 0}
            batches.append({**listed, "positions": positions})
        return {
            "seed": setup.state.seed,
            "epoch": setup.state.epoch,
            "keeps_places": setup.with_valid,
            "batches": batches,
        }

    def _collated(self, read: Mapping[str, Any]) -> dict[str, Any]:
        """Make the batch that a local loader would have made."""
        batch: dict[str, Any] = {}
        for column in self._setup.columns:
            entry = read[column.name]
            if column.kind == "encoded" and column.type is not None:
                present = column.type.present_sample
                entry = [None if one is None else present(one) for one in entry]
            if column.collate is None or column.dtype is None:
                batch[column.name] = entry
            else:
                batch |= collate_ragged(
                    column.name, entry, column.shape, column.collate, column.dtype
                )
        if VALID in read:
            batch[VALID] = read[VALID]
        return batch


def _received(stream: BatchStream, slabs: SlabReader | None) -> int:
    return stream.nbytes + (0 if slabs is None else slabs.nbytes)


def _itself(batch: dict[str, Any]) -> dict[str, Any]:
    return batch


def _nulls(columns: Iterable[ColumnPlan]) -> list[ColumnPlan]:
    return [column for column in columns if column.null is not None]


def _sent_null(column: ColumnPlan, arguments: LoaderArguments) -> Any:
    """Return the replacement for NULL as JSON."""
    value = (arguments.null or {})[column.name]
    if isinstance(value, np.generic):
        value = value.item()
    if column.type is None or isinstance(value, int | float):
        return value
    if column.type.is_media:
        raise InvalidInputError(
            f"null={{{column.name!r}: …}}: an image cannot be sent to a server"
            f"\ngive a number for its pixels, null={{{column.name!r}: 0}}, or leave"
            " decode_on='server' out",
            tensor=column.name,
        )
    return column.type.json_value(value)


def _is_listed(column: ColumnPlan) -> bool:
    """Return whether the request must ask the server to leave samples unstacked."""
    return column.collate is not None and column.kind != "encoded"


def _nbytes(entry: Any) -> int:
    if isinstance(entry, np.ndarray):
        return entry.nbytes
    if isinstance(entry, list):
        return sum(map(_nbytes, entry))
    return len(entry) if isinstance(entry, str | bytes) else 0


def _astray(url: str, expected: int, actual: int) -> StorageError:
    return StorageError(
        f"{url!r} streamed the batch that ends at place {actual}, not the one at {expected}"
        "\nuse the same version of tensorlake on both sides",
        url=url,
        expected=expected,
        actual=actual,
    )
