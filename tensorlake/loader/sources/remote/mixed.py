"""The batches of a mix whose sources servers decode: requested source by source, joined here.

    shares ─► windows of them ─► the rows of each source ─► requests, a few at once
                                                              │ batches of a source
    shares ◄─ rows at their places ◄──────────────────────────┘

A window is read to its end without waiting for the consumer, so that no stream keeps a server's
place while another is awaited. Two windows are under way: the one that is handed out, and the next.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tensorlake.errors import StorageError
from tensorlake.loader.plan.sharding import Share
from tensorlake.loader.runtime.shutdown import closed
from tensorlake.loader.runtime.threads import WorkerThreads
from tensorlake.loader.sources.remote.streams import (
    LISTED_ROWS,
    SentBatch,
    ServerBatches,
    StreamSetup,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.plan.selection import Int64Array

__all__ = ["MixedBatches", "SourceRows", "SourceShare", "listed_rows"]

STREAMS_AT_ONCE: Final = 4  # a server has sixteen places for a token, of several ranks
WINDOWS: Final = 2
FIRST_BATCHES: Final = 1  # of a window; the next ones have twice as many each


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceShare(Share):
    """The rows of one source in a share; ``dealt`` are their places.

    Attributes:
        positions: Their positions among the rows that the server knows.
    """

    positions: Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """The part of a share that one source has.

    Attributes:
        source: The number of the source.
        at: Which rows of the share they are.
        share: Their places and positions.
    """

    source: int
    at: NDArray[np.intp]
    share: SourceShare


def listed_rows(share: Share) -> tuple[Int64Array, Int64Array]:
    """Return the places and positions of a part, which a request lists."""
    assert isinstance(share, SourceShare), "made by the mix"
    return share.places, share.positions


Window: TypeAlias = list[tuple[Share, list[SourceRows]]]
# The number of a share and of a source, and its rows; or what ended the pass.
Arrived: TypeAlias = "tuple[int, int, SentBatch] | BaseException | None"


class MixedBatches:
    """The batches of some shares of a mix, in order; read by one thread."""

    def __init__(
        self,
        sources: Sequence[StreamSetup],
        shares: Iterable[Share],
        parts: Callable[[Share], list[SourceRows]],
        *,
        url: str,
        most_nbytes: int,
    ) -> None:
        """Prepare the requests.

        Args:
            sources: How the rows of each source are requested.
            shares: The shares.
            parts: Divides the rows of a share by source.
            url: Those of the sources, for messages.
            most_nbytes: Limit of the rows that are requested and not handed out.
        """
        self.url = url
        self._sources = sources
        self._shares = iter(shares)
        self._parts = parts
        self._most_nbytes = most_nbytes
        self._row_nbytes = sum(column.sample_nbytes for column in sources[0].columns)
        self._received = [0, 0]  # bytes, rows
        self._window = 0
        self._workers = WorkerThreads(
            min(STREAMS_AT_ONCE, len(sources)), name="tensorlake-loader-source"
        )
        self._under_way: set[ServerBatches] = set()
        self._is_closed = False
        self._arrived: SimpleQueue[Arrived] = SimpleQueue()  # None: it was abandoned
        self._early: defaultdict[int, dict[int, SentBatch]] = defaultdict(dict)  # by share

    def start(self) -> None:
        """Start the threads."""
        self._workers.start(self._arrived.put)

    def abandon(self) -> None:
        """End all reads, without locks or waits."""
        self._is_closed = True
        self._workers.stop()
        for batches in tuple(self._under_way):
            batches.abandon()
        self._arrived.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait until the threads have ended."""
        self._workers.join(timeout_s)

    def read(self) -> Generator[tuple[Share, SentBatch]]:
        """Read the batch of each share.

        Raises:
            InvalidStateError: `abandon` was called meanwhile.
            StorageError: A server sends something else than requested.
        """
        ahead: deque[Window] = deque()
        count = FIRST_BATCHES
        while True:
            while len(ahead) < WINDOWS and (window := self._next_window(count)):
                self._request(window)
                ahead.append(window)
                count *= 2
            if not ahead:
                return
            for share, parts in ahead.popleft():
                yield share, self._joined(share, parts)

    def _next_window(self, most: int) -> Window:
        nbytes, rows = self._received
        row_nbytes = max(self._row_nbytes, nbytes // max(rows, 1), 1)
        left = max(1, min(LISTED_ROWS, self._most_nbytes // WINDOWS // row_nbytes))
        window: Window = []
        while left > 0 and len(window) < most:
            share = next(self._shares, None)
            if share is None:
                break
            left -= len(share)
            window.append((share, self._parts(share)))
        return window

    def _request(self, window: Window) -> None:
        by_source: defaultdict[int, list[SourceShare]] = defaultdict(list)
        for _, parts in window:
            for part in parts:
                by_source[part.source].append(part.share)
        self._window += 1
        for number, shares in by_source.items():
            self._workers.submit(partial(self._read, number, shares), order=self._window)

    def _read(self, number: int, shares: list[SourceShare]) -> None:
        batches = ServerBatches(self._sources[number], shares)
        self._under_way.add(batches)
        try:
            if self._is_closed:  # set before `abandon` looks: one of the two ends it
                return
            for share, batch in batches.read():
                self._arrived.put((share.number, number, batch))
        except BaseException as error:  # noqa: BLE001 - raised to the consumer
            self._arrived.put(error)
        finally:
            self._under_way.discard(batches)

    def _joined(self, share: Share, parts: list[SourceRows]) -> SentBatch:
        """Wait for the rows of all sources, and put them at their places."""
        while len(self._early[share.number]) < len(parts):
            arrived = self._arrived.get()
            if arrived is None:
                raise closed()
            if isinstance(arrived, BaseException):
                raise arrived
            number, source, batch = arrived
            self._early[number][source] = batch
        found = self._early.pop(share.number)
        self._received[0] += sum(nbytes_of(one) for rows in found.values() for one in rows.values())
        self._received[1] += len(share)
        whole: SentBatch = {}
        with self._sources[0].counters.timed("gather_s"):
            for name in next(iter(found.values())):
                whole[name] = self._placed(name, len(share), parts, found)
        return whole

    def _placed(
        self, name: str, count: int, parts: list[SourceRows], found: dict[int, SentBatch]
    ) -> Any:
        entries = [found[part.source][name] for part in parts]
        for part, entry in zip(parts, entries, strict=True):
            if len(entry) != len(part.at):
                url = self._sources[part.source].server.url
                raise StorageError(
                    f"{url!r} streamed {len(entry)} rows of {name!r}, not the {len(part.at)} that"
                    " were listed\nuse the same version of tensorlake on both sides",
                    url=url,
                    expected=len(part.at),
                    actual=len(entry),
                )
        if len(parts) == 1:  # whose rows are in order
            return entries[0]
        if isinstance(entries[0], np.ndarray):
            array = np.empty((count, *entries[0].shape[1:]), entries[0].dtype)
            for part, entry in zip(parts, entries, strict=True):
                array[part.at] = entry
            return array
        samples: list[Any] = [None] * count
        for part, entry in zip(parts, entries, strict=True):
            for at, one in zip(part.at.tolist(), entry, strict=True):
                samples[at] = one
        return samples


def nbytes_of(entry: Any) -> int:
    """Return the bytes of an entry of a batch, without those of objects."""
    if isinstance(entry, np.ndarray):
        return entry.nbytes
    if isinstance(entry, list):
        return sum(map(nbytes_of, entry))
    return len(entry) if isinstance(entry, str | bytes) else 0
