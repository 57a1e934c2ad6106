"""The batches of one dataset that a server decodes, as answers to requests.

The order, the sharding and the state are the client's own; the server is requested the next batches
and keeps no state between two streams. So a stream that breaks off, for example because the server
drains before it stops, is requested again from the first missing batch, from any server that
answers, and continues exactly. A server on the same host may send batches as memory
(``runtime/batch_slabs.py``).
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tensorlake.errors import InvalidInputError, SchemaError, StorageError, shown
from tensorlake.loader.decode import parse_steps
from tensorlake.loader.runtime.batch_slabs import SLABS_HEADER, SlabReader
from tensorlake.loader.sources.remote.wire import (
    BatchBytes,
    StreamError,
    read_batches,
    wire_columns,
)
from tensorlake.storage import LostStreamError, error_of_problem, runtime

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.sharding import Sharding, Share
    from tensorlake.loader.plan.state import LoaderState
    from tensorlake.loader.runtime.counters import Counters

__all__ = [
    "LISTED_ROWS",
    "BatchServer",
    "BatchStream",
    "Listing",
    "SentBatch",
    "ServerBatches",
    "StreamSetup",
]

logger = logging.getLogger("tensorlake")

LISTED_ROWS = 1 << 14  # of a request: 300 kB of numbers
FRUITLESS_STREAMS = 8  # in a row that broke off before the first batch

# The places and the positions of the rows of a share, in an order that only the client has.
Listing: TypeAlias = "Callable[[Share], tuple[Int64Array, Int64Array]]"
SentBatch: TypeAlias = dict[str, Any]
# A batch, the state after it, and what it lacks.
Read: TypeAlias = tuple[SentBatch, dict[str, Any], dict[str, Any] | None]


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


@dataclass(frozen=True, slots=True)
class StreamSetup:
    """The requests of a pass over rows of one server."""

    server: BatchServer
    arguments: LoaderArguments
    columns: tuple[ColumnPlan, ...]  # as they are sent
    sharding: Sharding
    state: LoaderState
    turns: int  # number of processes, each making a batch in turn
    keeps_places: bool
    with_valid: bool
    counters: Counters
    listing: Listing | None = None  # of an order whose rows requests list


class ServerBatches:
    """The batches of some shares, in order; read by one thread."""

    def __init__(self, setup: StreamSetup, shares: Iterable[Share]) -> None:
        self._setup = setup
        self._shares = iter(shares)
        self._listed: deque[Share] = deque()  # taken from these by a request that lists them
        self._wire = wire_columns(setup.columns, with_valid=setup.with_valid)
        self._is_closed = False
        self._asking = runtime.Scope()  # for requesting a stream
        self._stream: BatchStream | None = None

    @property
    def url(self) -> str:
        """URL of the dataset, for messages."""
        return self._setup.server.url

    def start(self) -> None:
        """Nothing: the thread that reads is the caller's."""

    def join(self, timeout_s: float) -> None:
        """Nothing: the thread that reads is the caller's."""
        del timeout_s

    def abandon(self) -> None:
        """End a waiting read, without locks or waits."""
        self._is_closed = True
        self._asking.cancel()
        stream = self._stream
        if stream is not None:
            stream.abandon()

    def read(self) -> Generator[tuple[Share, SentBatch]]:
        """Read the batch of each share, requesting again whenever a stream breaks off.

        Raises:
            LostStreamError: Streams bring no batch.
            StorageError: The server sends something else than requested.
            CancelledError: `abandon` was called while a stream was requested.
        """
        share = self._next_share()
        fruitless = 0
        while share is not None and not self._is_closed:
            fruitless += 1
            try:
                with closing(self._stream_from(share)) as stream:
                    for batch, place in stream:
                        if place != share.next_place:
                            raise _astray(self.url, share.next_place, place)
                        yield share, batch
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
                    f"{self.url!r} ended {fruitless} streams without a batch\nsee the server's log",
                    url=self.url,
                )

    def _next_share(self) -> Share | None:
        return self._listed.popleft() if self._listed else next(self._shares, None)

    def _stream_from(self, share: Share) -> Generator[tuple[SentBatch, int]]:
        setup = self._setup
        with self._asking.entered():
            stream = setup.server.open(self._request(share), timeout_s=setup.arguments.timeout)
        if not self._holds(stream):
            return
        slabs = SlabReader.offered(stream.headers.get(SLABS_HEADER))
        try:
            read = read_batches(stream, self._wire, slabs)
            while (found := self._counted(read, stream, slabs)) is not None:
                batch, state, skipped = found
                self._note(skipped)
                yield batch, int(state["position"])
        except StreamError as error:
            raise error_of_problem(error.problem, setup.server.url) from error
        finally:
            stream.close()
            if slabs is not None:
                slabs.close()

    def _note(self, skipped: Mapping[str, Any] | None) -> None:
        """Count and log the rows that the server left out of a batch."""
        if skipped is not None:
            self._setup.counters.add(skipped=int(skipped["rows"]))
            for reason in skipped["reasons"]:
                logger.warning("skipped: %s", reason)

    def _holds(self, stream: BatchStream) -> bool:
        """Register this stream for ``close``; if the pass has ended, close it and return False."""
        self._stream = stream
        if self._is_closed:  # set before `abandon` looks for a stream: one of the two ends it
            stream.close()
        return not self._is_closed

    def _counted(
        self,
        read: Iterator[Read],
        stream: BatchStream,
        slabs: SlabReader | None,
    ) -> Read | None:
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
            places, positions = setup.listing(one)
            listed = {"stop": one.next_place, "places": places.tolist(), "valid": one.valid > 0}
            batches.append({**listed, "positions": positions.tolist()})
        return {
            "seed": setup.state.seed,
            "epoch": setup.state.epoch,
            "keeps_places": setup.with_valid,
            "batches": batches,
        }


def _received(stream: BatchStream, slabs: SlabReader | None) -> int:
    return stream.nbytes + (0 if slabs is None else slabs.nbytes)


def _nulls(columns: Iterable[ColumnPlan]) -> list[ColumnPlan]:
    return [column for column in columns if column.null is not None]


def _sent_null(column: ColumnPlan, arguments: LoaderArguments) -> Any:
    """Return the replacement for NULL as JSON, in the form of values that are written by REST.

    Raises:
        InvalidInputError: It has no such form.
    """
    value, kind = (arguments.null or {})[column.name], column.type
    if (
        isinstance(value, np.generic | np.ndarray)
        and not value.ndim
        and value.dtype.kind in "biufc"
    ):
        value = value.item()
    if isinstance(value, int | float) or (kind is None and isinstance(value, str)):
        return value
    if isinstance(value, complex):
        return str(value)
    if kind is not None and (kind.is_media or kind.query_kind == "bytes"):
        if isinstance(value, bytes | bytearray | memoryview):
            return {"$base64": b64encode(value).decode()}
    elif kind is not None and kind.dtype is not None and kind.dtype.kind == "c":
        return np.vectorize(str, otypes=[object])(np.asarray(value, kind.dtype)).tolist()
    elif kind is not None:
        try:
            return kind.json_value(value)
        except SchemaError:
            pass  # a list of bytes
    plain = "a number for its pixels" if column.decoder is not None else "a number"
    raise InvalidInputError(
        f"null={{{column.name!r}: {shown(value)}}} cannot be sent to a server, which"
        f" decode_on='server' needs\ngive {plain}, null={{{column.name!r}: 0}}, or leave"
        " decode_on='server' out",
        tensor=column.name,
        actual=value,
    )


def _is_listed(column: ColumnPlan) -> bool:
    """Return whether the request must ask the server to leave samples unstacked."""
    return column.collate is not None and column.kind != "encoded"


def _astray(url: str, expected: int, actual: int) -> StorageError:
    return StorageError(
        f"{url!r} streamed the batch that ends at place {actual}, not the one at {expected}"
        "\nuse the same version of tensorlake on both sides",
        url=url,
        expected=expected,
        actual=actual,
    )
