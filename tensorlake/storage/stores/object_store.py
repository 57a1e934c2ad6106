"""S3, GCS, Azure and plain HTTP (read only) through obstore.

This module covers behaviour of obstore that commits cannot rely on:
- it retries conditional PUTs and then reports our own success as another's: its clients never
  retry here; `concurrency/retry.py` repeats what may be repeated, and a publisher reads back;
- a range past the end is short data without an error: every length is checked;
- above 5 MiB a PUT becomes a multipart upload, three round trips and no condition: one PUT here;
- its `get_ranges` keeps about ten requests in flight: ranges are coalesced here, and sent by as
  many calls as it takes to have all in flight, bounded in number and bytes;
- its runtime does not survive a fork: a child of a process that used it gets an error
  instead of hanging.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import obstore

from tensorlake.errors import (
    InvalidInputError,
    InvalidStateError,
    TensorlakeError,
    UnsupportedStoreError,
)
from tensorlake.storage.api.clock import StoreClock
from tensorlake.storage.api.coalesce import CALL_REQUESTS, calls_of, merge_ranges, scatter
from tensorlake.storage.api.failures import (
    REPORTED,
    TRANSIENT,
    Failure,
    FailureKind,
    RequestFailedError,
    translate,
    understand,
)
from tensorlake.storage.api.options import connect
from tensorlake.storage.api.store import (
    Buffer,
    Data,
    ObjectMeta,
    StoredObject,
    UnknownOutcomeError,
    Unmapped,
    check_path,
    check_range,
    exists,
    missing,
    nbytes_of,
    pieces_of,
    short,
)
from tensorlake.storage.concurrency.obstore_exit import watched
from tensorlake.storage.concurrency.request_limit import Flight
from tensorlake.storage.concurrency.retry import RetryPolicy, retry
from tensorlake.storage.concurrency.runtime import gather_bounded
from tensorlake.storage.concurrency.tracing import span

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 30.0
LIST_PAGE: Final = 1000  # S3's own
SLOWEST_NBYTES_PER_S: Final = 1024 * 1024  # adds to a request's time limit
MAX_PUT_NBYTES: Final = 5 * 1024**3  # of one PUT: S3's limit, the lowest

_process_of_runtime: int | None = None  # where obstore's threads live


class ObjectStore(Unmapped):
    """Objects of a bucket under a prefix, or files below an http(s) URL.

    Args:
        url: s3://bucket/prefix, gs://…, az://container/prefix, http(s)://host/path.
        storage_options: See `api/options.py`.
        policy: How reads and repeatable writes are retried.
        flight: Limit of the requests in flight.
    """

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        policy: RetryPolicy | None = None,
        flight: Flight | None = None,
    ) -> None:
        self._opened_with = (url, dict(storage_options or {}))
        self._connection = connect(url, storage_options)
        self._client = self._connection.client
        self._clock = StoreClock(self._connection.url)
        self._last_put: tuple[str, int] | None = None  # the object, and when it was written
        self._policy = policy or RetryPolicy()
        self._flight = flight or Flight()

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r})"

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options with which it was opened; they may hold secrets, and stay in this process."""
        return self._opened_with[1]

    @property
    def is_local(self) -> bool:
        return False

    async def presigned(self, path: str, *, expires_s: float) -> str:
        """Return a URL that reads one object without credentials for `expires_s` seconds."""
        expires = timedelta(seconds=expires_s)
        client: Any = self._client  # connect() makes others than those that sign, too
        return await obstore.sign_async(client, "GET", check_path(path), expires)

    async def get(self, path: str) -> bytes | None:
        found = await self.read(path)
        return None if found is None else found.data

    async def read(self, path: str) -> StoredObject | None:
        check_path(path)

        async def fetch() -> StoredObject:
            result = await watched(obstore.get_async(self._client, path))
            data = (await watched(result.bytes_async())).to_bytes()
            modified = result.meta["last_modified"]
            self._clock.hear_at_least(modified)
            return StoredObject(data, modified)

        try:
            return await self._repeated("get", path, fetch)
        except RequestFailedError as error:
            if error.failure.kind is FailureKind.MISSING:
                return None
            raise self._translated(error, "read", path) from None

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        check_path(path)
        check_range(path, start, stop)
        if start == stop:
            return b""
        fetch = partial(obstore.get_range_async, self._client, path, start=start, end=stop)
        try:
            data = memoryview(await self._repeated("get", path, fetch, nbytes=stop - start))
        except RequestFailedError as error:
            if error.failure.kind is FailureKind.MISSING:
                raise missing(path, self.url) from None
            if error.failure.kind is FailureKind.OUT_OF_RANGE:
                raise short(path, self.url, start=start, stop=stop, received=0) from None
            raise self._translated(error, "read", path) from None
        if data.nbytes != stop - start:
            raise short(path, self.url, start=start, stop=stop, received=data.nbytes)
        return data

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        check_path(path)
        for start, stop in ranges:
            check_range(path, start, stop)
        merged = merge_ranges(ranges)
        calls = calls_of(merged, max_requests=min(CALL_REQUESTS, self._flight.max_requests))
        reads = [partial(self._read_at_once, path, call) for call in calls]
        found = await gather_bounded(reads, limit=self._flight.max_requests)
        return scatter(merged, [*chain.from_iterable(found)], ranges)

    async def _read_at_once(self, path: str, call: list[tuple[int, int]]) -> list[Buffer]:
        """Read ranges by one call; where that fails, one by one, to find the failing range."""
        if len(call) > 1 and all(start < stop for start, stop in call):
            found = await self._try_at_once(path, call)
            if found is not None:
                return found
        reads = [partial(self.get_range, path, start, stop) for start, stop in call]
        return await gather_bounded(reads, limit=len(reads))

    async def _try_at_once(self, path: str, call: list[tuple[int, int]]) -> list[Buffer] | None:
        lengths = [stop - start for start, stop in call]
        starts, nbytes = [start for start, _ in call], sum(lengths)
        fetch = partial(
            obstore.get_ranges_async,
            self._client,
            path,
            starts=starts,
            lengths=lengths,
            coalesce=0,  # near ranges are merged already
        )
        try:
            found = await self._attempt(
                "get", path, fetch, nbytes=nbytes, requests=len(call), timeout_s=_timeout_s(nbytes)
            )
        except RequestFailedError as error:
            if error.failure.kind in TRANSIENT:  # the store may be asked again, but not at once
                await asyncio.sleep(self._policy.delay_s(1, random.random()))  # noqa: S311 - jitter
            return None
        blocks = [memoryview(one) for one in found]
        return [*blocks] if [block.nbytes for block in blocks] == lengths else None

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        del durable  # a store's answer means stored
        pieces = self._checked_for_write(path, data)
        if after is not None:
            after()
        nbytes = nbytes_of(pieces)
        send = partial(
            obstore.put_async, self._client, path, pieces, mode="create", use_multipart=False
        )
        try:
            await self._attempt("put", path, send, timeout_s=_timeout_s(nbytes))
            self._last_put = path, time.time_ns()
        except RequestFailedError as error:
            if error.failure.kind is FailureKind.EXISTS:
                raise exists(path, self.url) from None
            if error.failure.kind in (FailureKind.TRANSIENT, FailureKind.TIMEOUT):
                raise UnknownOutcomeError(
                    f"object {path!r} of {self.url!r} may or may not have been written"
                    f" ({error.failure.detail});\nread it back to find out",
                    path=path,
                    url=self.url,
                    status=error.failure.status,
                ) from None
            raise self._translated(error, "write", path) from None

    async def sync(self, paths: Sequence[str]) -> None:
        del paths  # a store's answer means stored

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        del durable  # a store's answer means stored
        pieces = self._checked_for_write(path, data)
        send = partial(obstore.put_async, self._client, path, pieces, use_multipart=False)
        try:
            await self._repeated("put", path, send, timeout_s=_timeout_s(nbytes_of(pieces)))
        except RequestFailedError as error:
            raise self._translated(error, "write", path) from None

    async def now(self) -> datetime:
        # An answer to a PUT has no time, so it is requested only where the local clock is wrong.
        if self._last_put is not None and (self._clock.is_behind or self._clock.is_far):
            path, here_ns = self._last_put
            meta = await self.head(path)
            if meta is not None:
                self._clock.hear(meta.modified, here_ns=here_ns)
        return self._clock.now()

    async def head(self, path: str) -> ObjectMeta | None:
        check_path(path)
        try:
            found = await self._repeated(
                "head", path, partial(obstore.head_async, self._client, path)
            )
        except RequestFailedError as error:
            if error.failure.kind is FailureKind.MISSING:
                return None
            raise self._translated(error, "look up", path) from None
        return _meta(path, found)

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        if self._connection.is_read_only:
            raise self._cannot_list()
        folder, _, _ = prefix.rpartition("/")
        after = prefix[:-1]  # the list starts behind this, so that `prefix` itself is in it
        pages: obstore.ListStream[Sequence[obstore.ObjectMeta]] | None = None

        async def next_page() -> Sequence[obstore.ObjectMeta]:
            nonlocal pages
            stream = pages or obstore.list(
                self._client, folder or None, offset=after or None, chunk_size=LIST_PAGE
            )
            pages = None  # a failed stream is not reused: the next attempt continues it
            try:
                # Not anext(stream, ()): it trips over a foreign awaitable.
                page = await watched(stream.__anext__())
            except StopAsyncIteration:
                page = ()
            pages = stream
            return page

        while True:
            try:
                page = await self._repeated("list", prefix, next_page)
            except RequestFailedError as error:
                raise self._translated(error, "list", prefix) from None
            for found in page:
                if found["path"].startswith(prefix):
                    yield _meta(found["path"], found)
                elif found["path"] > prefix:
                    return
            if not page:
                return
            after = page[-1]["path"]

    async def folders(self, prefix: str) -> Sequence[str]:
        if self._connection.is_read_only:
            raise self._cannot_list()
        folder = prefix.removesuffix("/")
        try:
            found = await self._repeated(
                "list",
                prefix,
                lambda: obstore.list_with_delimiter_async(self._client, folder or None),
            )
        except RequestFailedError as error:
            raise self._translated(error, "list", prefix) from None
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    async def delete(self, path: str) -> None:
        self._checked_for_write(path, b"")
        try:
            await self._repeated("delete", path, partial(obstore.delete_async, self._client, path))
        except RequestFailedError as error:
            if error.failure.kind is not FailureKind.MISSING:
                raise self._translated(error, "delete", path) from None

    def clone(self) -> ObjectStore:
        url, options = self._opened_with
        flight = Flight(self._flight.max_requests, self._flight.max_nbytes)
        return ObjectStore(url, options, policy=self._policy, flight=flight)

    def _checked_for_write(self, path: str, data: Data) -> list[Buffer]:
        check_path(path)
        if self._connection.is_read_only:
            raise UnsupportedStoreError(
                f"{self.url!r} is read only: HTTP has no put-if-absent;\n"
                "write to the bucket or folder behind it",
                url=self.url,
            )
        nbytes = nbytes_of(data)
        if nbytes > MAX_PUT_NBYTES:
            raise InvalidInputError(
                f"object {path!r} of {self.url!r} would have {nbytes} bytes,"
                f" above {MAX_PUT_NBYTES} of one PUT;\nstore the sample in smaller tiles",
                path=path,
                nbytes=nbytes,
            )
        return [memoryview(piece).cast("B") for piece in pieces_of(data)] or [b""]

    async def _repeated(
        self,
        verb: str,
        path: str,
        call: Callable[[], Awaitable[T]],
        *,
        nbytes: int = 0,
        timeout_s: float | None = None,
    ) -> T:
        """Send a repeatable request; RequestFailedError when no attempt succeeds."""
        limit_s = timeout_s or _timeout_s(nbytes)
        attempt = partial(self._attempt, verb, path, call, nbytes=nbytes, timeout_s=limit_s)
        return await retry(attempt, policy=self._policy, is_transient=_is_transient)

    async def _attempt(
        self,
        verb: str,
        path: str,
        call: Callable[[], Awaitable[T]],
        *,
        timeout_s: float,
        nbytes: int = 0,
        requests: int = 1,
    ) -> T:
        _check_process(self.url)
        with span(f"store {verb}", kind="CLIENT") as traced:
            traced.note(store=self.url, path=path, nbytes=nbytes, requests=requests)
            async with self._flight.admit(nbytes, requests=requests):
                try:
                    async with asyncio.timeout(timeout_s):
                        return await watched(call())
                except TimeoutError:
                    failure = Failure(FailureKind.TIMEOUT, f"no answer within {timeout_s:.0f} s")
                except REPORTED as error:
                    failure = understand(error, secrets=self._connection.secrets)
            if failure.kind not in (FailureKind.MISSING, FailureKind.EXISTS):  # answers, too
                traced.fail(failure.kind.name)
        # Raised outside of the handler: the cause may hold secrets, so it is not even the context.
        raise RequestFailedError(failure)

    def _cannot_list(self) -> UnsupportedStoreError:
        return UnsupportedStoreError(
            f"objects under {self.url!r} cannot be listed: HTTP has no list;\n"
            "open the bucket or folder behind it",
            url=self.url,
        )

    def _translated(self, error: RequestFailedError, verb: str, path: str) -> TensorlakeError:
        return translate(error.failure, verb=verb, path=path, url=self.url)


def _meta(path: str, found: obstore.ObjectMeta) -> ObjectMeta:
    etag = found.get("e_tag")
    return ObjectMeta(path, found["size"], found["last_modified"], etag and etag.strip('"'))


def _is_transient(error: Exception) -> bool:
    return isinstance(error, RequestFailedError) and error.failure.kind in TRANSIENT


def _timeout_s(nbytes: int) -> float:
    return REQUEST_TIMEOUT_S + nbytes / SLOWEST_NBYTES_PER_S


def _check_process(url: str) -> None:
    """Raise an error instead of waiting for threads that only the parent process has."""
    global _process_of_runtime  # noqa: PLW0603 - obstore has one runtime a process
    process = os.getpid()
    if _process_of_runtime is None:
        _process_of_runtime = process
    elif _process_of_runtime != process:
        raise InvalidStateError(
            f"{url!r} cannot be read in this forked process: its parent used an object store before"
            " the fork, and the threads behind that do not exist here;\n"
            "start processes by 'spawn' or 'forkserver'"
            " (DataLoader(multiprocessing_context='forkserver'))",
            url=url,
        )
