"""Any fsspec file system: stores that obstore does not support, and s3fs where it is set up.

    fsspec+s3://bucket/lake       through s3fs
    fsspec+sftp://host/data       through paramiko, and so on: the rest is fsspec's own URL
    hf://datasets/user/repo/lake  through huggingface_hub

Calls use fsspec's blocking interface, in threads of this store: one way for file systems that are
asynchronous inside and those that are not. It costs a thread hop per request; the fast way to S3,
GCS and Azure is `stores/object_store.py`.

Writing needs an exclusive create, which few file systems have (fsspec's own default checks first
and then writes, so two writers both succeed): those are listed in `EXCLUSIVE_CREATE`, all others
are read-only.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from tensorlake.errors import (
    AccessError,
    InvalidInputError,
    MissingExtraError,
    StorageError,
    StorageTimeoutError,
    TensorlakeError,
    UnsupportedStoreError,
    missing_extra,
)
from tensorlake.storage.api.coalesce import read_merged
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
    pieces_of,
    short,
)
from tensorlake.storage.api.urls import public_url
from tensorlake.storage.concurrency.retry import RetryPolicy, retry
from tensorlake.storage.concurrency.tracing import span

T = TypeVar("T")

PREFIX: Final = "fsspec+"
EXCLUSIVE_CREATE: Final = frozenset({"s3", "s3a"})
"""Protocols whose file system creates an object only where there is none, in one request."""

THREADS: Final = 32
"""Most requests in flight."""

_TAKEN: Final = frozenset({"PreconditionFailed", "412"})
_TIME_NAMES: Final = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
_NOT_AGAIN: Final = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)


class FsspecStore(Unmapped):
    """Objects of an fsspec file system below a path.

    Args:
        url: ``fsspec+<protocol>://…``, or ``hf://…``.
        storage_options: Passed to the file system unchanged.
        policy: How reads and repeatable writes are retried.
    """

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        policy: RetryPolicy | None = None,
    ) -> None:
        self._opened_with = (url, dict(storage_options or {}))
        self._url = public_url(url)
        self._policy = policy or RetryPolicy()
        self._protocol, self._files, root = _connect(url, self._url, self._opened_with[1])
        self._root = root.rstrip("/")
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tensorlake-fsspec")

    def __repr__(self) -> str:
        return f"FsspecStore({self.url!r})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """The options with which it was opened; they may hold secrets, and stay in this process."""
        return self._opened_with[1]

    @property
    def is_local(self) -> bool:
        return False

    async def get(self, path: str) -> bytes | None:
        try:
            return await self._repeated(partial(self._files.cat_file, self._key(path)))
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            raise self._translated(error, "read", path) from error

    async def read(self, path: str) -> StoredObject | None:
        data = await self.get(path)
        return None if data is None else StoredObject(data, None)

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        check_range(path, start, stop)
        key = self._key(path)
        if start == stop:
            return b""
        try:
            data = await self._repeated(partial(self._files.cat_file, key, start=start, end=stop))
        except FileNotFoundError:
            raise missing(path, self.url) from None
        except OSError as error:
            if error.errno == errno.EINVAL:  # s3fs' form of 416: the range starts beyond the end
                found = await self.head(path)
                if found is not None and found.nbytes <= start:
                    raise short(path, self.url, start=start, stop=stop, received=0) from None
            raise self._translated(error, "read", path) from error
        if len(data) != stop - start:
            raise short(path, self.url, start=start, stop=stop, received=len(data))
        return data

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await read_merged(partial(self.get_range, path), ranges, limit=THREADS)

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        del durable  # a store's answer means stored
        self._check_writable()
        if after is not None:
            after()
        whole = b"".join(pieces_of(data))
        # Above 100 MB s3fs sends parts, and the condition is judged when they are put together.
        send = partial(self._files.pipe_file, self._key(path), whole, mode="create")
        try:
            await self._in_thread(send)
        except FileExistsError:
            raise exists(path, self.url) from None
        except PermissionError as error:
            raise self._translated(error, "write", path) from error
        except OSError as error:
            if _code(error) in _TAKEN:
                raise exists(path, self.url) from None
            raise UnknownOutcomeError(
                f"object {path!r} of {self.url!r} may or may not have been written"
                f" ({type(error).__name__});\nread it back to find out",
                path=path,
                url=self.url,
            ) from error

    async def sync(self, paths: Sequence[str]) -> None:
        del paths  # a store's answer means stored

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        del durable  # a store's answer means stored
        self._check_writable()
        whole = b"".join(pieces_of(data))
        try:
            await self._repeated(partial(self._files.pipe_file, self._key(path), whole))
        except OSError as error:
            raise self._translated(error, "write", path) from error

    async def now(self) -> datetime:
        return datetime.now(UTC)  # fsspec file systems do not report the time

    async def head(self, path: str) -> ObjectMeta | None:
        try:
            found = await self._repeated(partial(self._files.info, self._key(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._translated(error, "look up", path) from error
        return self._meta(path, found) if found["type"] == "file" else None

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        if self._protocol in EXCLUSIVE_CREATE:  # s3fs
            async for meta in self._list_s3(prefix):
                yield meta
            return
        folder, _, _ = prefix.rpartition("/")
        try:
            found: dict[str, dict[str, Any]] = await self._repeated(
                partial(self._files.find, self._folder(folder), detail=True)
            )
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._translated(error, "list", prefix) from error
        skip = len(self._root) + 1
        for key in sorted(found):
            if (path := key[skip:]).startswith(prefix):
                yield self._meta(path, found[key])

    async def _list_s3(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        # find() lists everything first; the caller may need one page of 10⁵ objects.
        bucket, start, _ = self._files.split_path(self._root)
        skip = len(start) + 1 if start else 0
        asked = {"Bucket": bucket, "Prefix": f"{start}/{prefix}" if start else prefix}
        asked |= self._files.req_kw  # requester pays
        while True:
            call = partial(self._files.call_s3, "list_objects_v2", **asked)
            try:
                page: dict[str, Any] = await self._repeated(call)
            except FileNotFoundError:
                return
            except OSError as error:
                raise self._translated(error, "list", prefix) from error
            for found in page.get("Contents", ()):
                if not found["Key"].endswith("/"):  # not the marker of an empty folder
                    yield self._meta(found["Key"][skip:], {**found, "size": found["Size"]})
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    async def folders(self, prefix: str) -> Sequence[str]:
        try:
            found: list[dict[str, Any]] = await self._repeated(
                partial(self._files.ls, self._folder(prefix.removesuffix("/")), detail=True)
            )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._translated(error, "list", prefix) from error
        names = (one["name"].rstrip("/") for one in found if one["type"] == "directory")
        return sorted(name.rpartition("/")[2] for name in names)

    async def delete(self, path: str) -> None:
        self._check_writable()
        try:
            await self._repeated(partial(self._files.rm_file, self._key(path)))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._translated(error, "delete", path) from error

    def clone(self) -> FsspecStore:
        url, options = self._opened_with
        return FsspecStore(url, options, policy=self._policy)

    def _key(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    def _folder(self, path: str) -> str:
        return self._key(path) if path else self._root

    async def _repeated(self, call: Callable[[], T]) -> T:
        return await retry(
            partial(self._in_thread, call), policy=self._policy, is_transient=_is_transient
        )

    async def _in_thread(self, call: Callable[[], T]) -> T:
        with span("store request", kind="CLIENT") as traced:
            traced.note(store=self.url)
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
            except Exception as error:
                if _is_transport_error(error):  # huggingface_hub passes httpx's on
                    raise ConnectionError(str(error)) from error
                raise

    def _check_writable(self) -> None:
        if self._protocol not in EXCLUSIVE_CREATE:
            raise UnsupportedStoreError(
                f"{self.url!r} is read only: fsspec's file system for {self._protocol!r} has no"
                " exclusive create, which commits rest on;\n"
                "write to a folder, s3://, gs:// or az:// and tl.copy it",
                url=self.url,
            )

    def _meta(self, path: str, found: Mapping[str, Any]) -> ObjectMeta:
        when: Any = next((found[name] for name in _TIME_NAMES if found.get(name) is not None), None)
        when = when or getattr(found.get("last_commit"), "date", None)  # of a hub
        if isinstance(when, str):
            when = datetime.fromisoformat(when)
        elif isinstance(when, int | float):
            when = datetime.fromtimestamp(when, UTC)
        if not isinstance(when, datetime):
            raise UnsupportedStoreError(
                f"fsspec's file system for {self._protocol!r} does not report when {path!r} of"
                f" {self.url!r} was written;\ncopy the dataset to a store that does",
                path=path,
                url=self.url,
            )
        etag = found.get("ETag") or found.get("etag")
        return ObjectMeta(
            path,
            int(found["size"]),
            when if when.tzinfo else when.replace(tzinfo=UTC),
            None if etag is None else str(etag).strip('"'),
        )

    def _translated(self, error: OSError, verb: str, path: str) -> TensorlakeError:
        what = f"object {path!r} of {self.url!r}"
        facts = {"path": path, "url": self.url}
        if isinstance(error, PermissionError):
            return AccessError(
                f"may not {verb} {what};\n"
                "check the credentials in storage_options or the environment, and what they permit",
                **facts,
            )
        if isinstance(error, TimeoutError):
            message = f"could not {verb} {what} in time;\ntry again, or check the connection"
            return StorageTimeoutError(message, **facts)
        reason = _code(error) or (os.strerror(error.errno) if error.errno else type(error).__name__)
        return StorageError(
            f"could not {verb} {what} ({reason});\ncheck storage_options and the store, try again",
            **facts,
        )


def _connect(url: str, shown: str, options: dict[str, Any]) -> tuple[str, Any, str]:
    target = url.removeprefix(PREFIX)
    protocol = target.partition("://")[0]
    try:
        import fsspec
    except ImportError as error:
        extra = "hf" if protocol == "hf" else "s3fs"
        raise missing_extra(f"the store {shown!r}", extra) from error
    try:
        # Listings and instances are not cached: what others write must be seen.
        uncached = {"skip_instance_cache": True, "use_listings_cache": False}
        files, root = fsspec.core.url_to_fs(target, **_spelled(protocol, options), **uncached)
    except ImportError as error:
        if protocol in EXCLUSIVE_CREATE:
            raise missing_extra(f"the store {shown!r}", "s3fs") from error
        if protocol == "hf":
            raise missing_extra(f"the store {shown!r}", "hf") from error
        raise MissingExtraError(
            f"the store {shown!r} needs a package that is not installed: {error}", extra=protocol
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"fsspec cannot open {shown!r} ({type(error).__name__});\n"
            f"check the protocol {protocol!r} and the names of storage_options {sorted(options)}",
            url=shown,
        ) from None  # the cause may quote a secret
    return protocol, files, root


def _spelled(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate ``region``, an argument of s3fs' client; other names are fsspec's already."""
    spelled = dict(options)
    if protocol == "hf":
        spelled.setdefault("expand_info", True)  # else it does not ask when a file was written
    if protocol in EXCLUSIVE_CREATE and "region" in spelled:
        region = spelled.pop("region")
        spelled["client_kwargs"] = {"region_name": region, **spelled.get("client_kwargs", {})}
    return spelled


def _is_transient(error: Exception) -> bool:
    is_refused = isinstance(error, _NOT_AGAIN) or getattr(error, "errno", None) == errno.EINVAL
    return isinstance(error, OSError) and not is_refused


def _is_transport_error(error: Exception) -> bool:
    """Return whether httpx, under either of its names, could not reach a server."""
    kinds = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__)
    return any(
        kind in {("httpx", "TransportError"), ("httpx2", "TransportError")} for kind in kinds
    )


def _code(error: OSError) -> str:
    """Return botocore's error code; "" for other file systems."""
    cause: Any = error.__cause__
    response: Any = getattr(cause, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
