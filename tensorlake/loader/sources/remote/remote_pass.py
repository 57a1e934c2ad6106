"""A pass whose batches servers decode: ``decode_on="server"``.

    client   shares of the epoch ─► request ─► … ◄─ batches, read ahead by one thread ─► consumer
    server   the same loader over the same rows, from the state in the request;
             or in an order that only the client has, the rows that it lists, some batches at a time
    a mix    such requests of each source, in threads of their own (``mixed.py``)

Waiting batches are bounded, and a slow client throttles the server by not reading.

The thread passes outcomes to the consumer through a queue: batches, then the end or an error. Then
it waits for the signal to end, drops batches that were not taken, and leaves a final outcome for a
consumer that still waits. ``abandon`` and ``close`` are as in ``engine/pipeline.py``: ``abandon``
takes no lock and does not wait, and both cancel the thread's wait, be it for a batch, for the start
of a server's answer, or for the consumer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tensorlake.errors import InvalidInputError, StorageTimeoutError
from tensorlake.loader.config.collate import collate_ragged
from tensorlake.loader.config.column_plan import ROW, VALID
from tensorlake.loader.runtime.handoff import Outcome
from tensorlake.loader.runtime.shutdown import closed, ended, started, stopped
from tensorlake.loader.sources.remote.mixed import nbytes_of

if TYPE_CHECKING:
    from tensorlake.loader.config.column_plan import ColumnPlan, MakeBatch
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.sources.remote.streams import BatchServer, SentBatch

__all__ = ["RemotePass", "RemoteSetup", "SentBatches", "checked_server", "collated", "presented"]

MIN_WAITING = 2  # batches that may always be buffered: one is read while one is used
JOIN_TIMEOUT_S = 30.0


# A batch and its bytes in memory, or None: the end.
Arrival: TypeAlias = "tuple[Share, dict[str, Any], int] | None"


class SentBatches(Protocol):
    """Batches as servers send them."""

    @property
    def url(self) -> str:
        """URL of the rows, for messages."""
        ...

    def start(self) -> None:
        """Start what they need."""
        ...

    def read(self) -> Generator[tuple[Share, SentBatch]]:
        """Read the batch of each share."""
        ...

    def abandon(self) -> None:
        """End a waiting read, and all others; without a lock and without waiting."""
        ...

    def join(self, timeout_s: float) -> None:
        """Wait until everything has ended."""
        ...


class Workers(Protocol):
    """Threads and processes that ``RemoteSetup.make`` calls."""

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
    """The batches of a pass, and their bounds."""

    batches: SentBatches
    make: Callable[[Share, SentBatch], dict[str, Any]]  # the batch that a local loader makes
    counters: Counters
    prefetch_nbytes: int
    timeout_s: float
    workers: Workers | None = None  # of a transform


def checked_server(server: BatchServer | None, source: str | None = None) -> BatchServer:
    """Return the server that decodes rows.

    Args:
        server: The server; None if there is none.
        source: The name of the source of a mix; None: the rows are of no mix.

    Raises:
        InvalidInputError: There is no server.
    """
    if server is not None:
        return server
    named = "" if source is None else f", and source {source!r} of the mix is not one of them"
    raise InvalidInputError(
        "decode_on='server' is for rows that a server can find: those of a dataset behind one"
        f" (tl.open('http://…')), of its saved views and of queries over it{named}"
        "\nleave decode_on out, or save the view and open it by its name",
        argument="decode_on",
        actual=source,
    )


class RemotePass:
    """Threads and queue of one pass over an epoch that servers decode."""

    def __init__(self, setup: RemoteSetup) -> None:
        self._setup = setup
        # to the consumer: batches in order, then the end or an error; None: it was closed
        self._arrivals: SimpleQueue[Outcome[Arrival] | None] = SimpleQueue()
        # bytes that the consumer has taken; None: it takes no more. Putting never waits.
        self._taken: SimpleQueue[int | None] = SimpleQueue()
        self._waiting: list[int] = []  # the reader's own
        self._is_closed = False
        self._has_begun = False  # the consumer has a batch
        self._reader = threading.Thread(
            target=self._read_ahead, name="tensorlake-loader-remote", daemon=True
        )

    def start(self) -> None:
        """Start reading."""
        if self._setup.workers is not None:
            self._setup.workers.start()
        self._setup.batches.start()
        self._reader.start()

    def next_group(self) -> tuple[list[Share], list[MakeBatch]] | None:
        """Wait for the next batch; None at the end of the pass.

        Raises:
            StorageTimeoutError: No batch arrived within the loader's timeout.
            InvalidStateError: The pass was closed meanwhile.
        """
        timeout_s = self._setup.timeout_s
        waited = "blocked_s" if self._has_begun else "start_s"
        try:
            with self._setup.counters.timed(waited):
                outcome = self._arrivals.get(timeout=timeout_s)
        except Empty:
            raise StorageTimeoutError(
                f"no batch of {self._setup.batches.url!r} came within {timeout_s:g} s"
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
        self._setup.batches.abandon()
        if self._setup.workers is not None:
            self._setup.workers.stop()
        self._taken.put(None)

    def close(self, timeout_s: float = JOIN_TIMEOUT_S) -> None:
        """End the streams and threads; batches handed out stay valid."""
        self.abandon()
        self.join(timeout_s)

    def join(self, timeout_s: float = JOIN_TIMEOUT_S) -> bool:
        """Wait until a closed or abandoned pass has ended; return whether it has."""
        if self._reader.ident is None or self._reader is threading.current_thread():
            return self._reader.ident is None
        self._reader.join(timeout_s)
        self._setup.batches.join(timeout_s)
        if self._setup.workers is not None:
            self._setup.workers.join(timeout_s)
        return not self._reader.is_alive()

    def _read_ahead(self) -> None:
        started(self)
        try:
            with closing(self._setup.batches.read()) as batches:
                self._pass_on(batches)
        except CancelledError:
            self._arrive_failed(stopped(f"a stream of {self._setup.batches.url!r}"))
        except BaseException as error:  # noqa: BLE001 - raised to the consumer
            self._arrive_failed(error)
        while not self._is_closed:
            self._taken.get()
        self._end()
        ended(self)

    def _pass_on(self, batches: Iterator[tuple[Share, SentBatch]]) -> None:
        for share, sent in batches:
            batch = self._setup.make(share, sent)
            nbytes = sum(map(nbytes_of, batch.values()))
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
        most = self._setup.prefetch_nbytes
        while len(self._waiting) >= MIN_WAITING and sum(self._waiting) + nbytes > most:
            taken = self._taken.get()  # the consumer has no time limit
            if taken is None:
                return False
            self._waiting.pop(0)
        self._waiting.append(nbytes)
        return not self._is_closed


def presented(columns: Sequence[ColumnPlan], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with samples of text, JSON, masks and media as users get them."""
    shown = dict(sent)
    for column in columns:
        if column.kind != "encoded" or column.type is None:
            continue
        if column.opens:
            present = column.presenter()
            shown[column.name] = [
                None if one is None else present(one, row=row)
                for one, row in zip(sent[column.name], sent[ROW].tolist(), strict=True)
            ]
        else:
            of_sample = column.type.present_sample
            shown[column.name] = [
                None if one is None else of_sample(one) for one in sent[column.name]
            ]
    return shown


def collated(columns: Sequence[ColumnPlan], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Collate a batch as a local loader does."""
    batch: dict[str, Any] = {}
    for column in columns:
        entry = shown[column.name]
        if column.collate is None or column.dtype is None:
            batch[column.name] = entry
        else:
            batch |= collate_ragged(column.name, entry, column.shape, column.collate, column.dtype)
    if VALID in shown:
        batch[VALID] = shown[VALID]
    return batch


def _itself(batch: dict[str, Any]) -> dict[str, Any]:
    return batch
