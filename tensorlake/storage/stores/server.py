"""A dataset behind a tensorlake server, as a store: ``http://host/pets``.

    get, get_range   GET  /v1/datasets/pets/objects/{path}             (Range: bytes=…)
    author           … X-Author of the answers: whose entries the server takes
    put_if_absent    PUT  … If-None-Match: *                           412: it exists
    put              PUT  …                                            a branch's HEAD, a tag
    head             HEAD …
    list, folders    GET  /v1/datasets/pets/objects?prefix=&after=     pages, in order
    ask, stream      POST /v1/datasets/pets/{what}                     queries and other calls

The server decides what a token may read and write; it deletes nothing for its clients. Where it
signs links (307), bytes come from the object store itself, which gets no token. A failed request is
retried where that is safe; ``put_if_absent`` never is: a publisher reads back.

Connections belong to the one loop of a process: a forked child has its own.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from tensorlake.errors import (
    AccessError,
    InvalidInputError,
    StorageError,
    StorageTimeoutError,
    TensorlakeError,
    missing_extra,
)
from tensorlake.storage.api.clock import StoreClock
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
from tensorlake.storage.api.urls import public_url, refuse_query
from tensorlake.storage.concurrency.retry import RetryPolicy, retry
from tensorlake.storage.concurrency.runtime import run
from tensorlake.storage.http.errors import detail_of, error_of, is_problem
from tensorlake.storage.http.names import part_of_name
from tensorlake.storage.http.stream import AnswerStream
from tensorlake.storage.http.types import Answer, AttemptError

if TYPE_CHECKING:
    from tensorlake.storage.http.client import OpenAnswer

__all__ = ["TOKEN_VARIABLE", "LakeStore", "is_lake_url"]

T = TypeVar("T")

TOKEN_VARIABLE: Final = "TENSORLAKE_TOKEN"  # noqa: S105 - the name of a variable
RANGES_AT_ONCE: Final = 64
REDIRECT: Final = 307
KEPT_LINKS: Final = 1000
AUTHOR_HEADER: Final = "x-author"  # percent-encoded: a name may have any characters

_OK: Final = frozenset({200, 201, 204, 206})


def is_lake_url(url: str) -> bool:
    """Return whether a URL names a server, or a dataset behind one."""
    return url.startswith(("http://", "https://"))


def _is_view(fragment: str) -> bool:
    """Whether the fragment of a URL names a view; in links that a server prints it has a token."""
    return fragment != "" and not fragment.startswith("token=")


class LakeStore(Unmapped):
    """Objects of one dataset behind a server.

    Args:
        url: ``http://host/name``; the name may have several parts. ``http://host/name#view`` is
            a saved view, as the server derives a dataset from it.
        token: An access token; TENSORLAKE_TOKEN of the environment when None.
        policy: How reads and repeatable writes are retried.
    """

    def __init__(
        self, url: str, token: str | None = None, *, policy: RetryPolicy | None = None
    ) -> None:
        try:
            from tensorlake.storage.http.client import client_of_loop
        except ImportError as error:
            raise missing_extra("opening datasets behind a server", "http") from error
        refuse_query(url.partition("#")[0], "?")
        parts = urlsplit(url)
        view = f"#{unquote(parts.fragment)}" if _is_view(parts.fragment) else ""
        name = parts.path.strip("/") + view
        if not parts.hostname:
            raise InvalidInputError(
                f"{public_url(url)!r} names no host;\nuse http://<host>/<dataset>", url=url
            )
        self._client = client_of_loop  # not the client: each loop has its own
        self._opened_with = (url, token)
        self._url = f"{public_url(url)}{view}"
        self._token = os.environ.get(TOKEN_VARIABLE) if token is None else token
        if not (self._token or "").isascii() or not (self._token or "").isprintable():
            raise InvalidInputError(
                f"the token for {self._url!r} holds characters that no header can;\n"
                "copy it again, without spaces or line breaks around it",
                url=self._url,
            )
        self._origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._name = name
        encoded = quote(part_of_name(name), safe="~!")
        self._dataset = f"/v1/datasets/{encoded}"
        self._clock = StoreClock(self._url)
        self._policy = policy or RetryPolicy()
        self._signed: dict[str, str] = {}  # addresses that the server redirects to signed links
        self._author: str | None = None

    def __repr__(self) -> str:
        return f"LakeStore({self.url!r})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def is_local(self) -> bool:
        return False

    @property
    def author(self) -> str | None:
        """The author of entries that the server accepts; None before its first answer."""
        return self._author

    async def get(self, path: str) -> bytes | None:
        found = await self.read(path)
        return None if found is None else found.data

    async def read(self, path: str) -> StoredObject | None:
        answer = await self._read("GET", self._object(path))
        self._hear(answer)
        if self._is_absent(answer, "read", path):
            return None
        modified = answer.headers.get("x-modified")  # absent from servers of tensorlake 0.1.0
        when = None if modified is None else datetime.fromisoformat(modified)
        return StoredObject(bytes(answer.content), when)

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        address = self._object(path)
        check_range(path, start, stop)
        if start == stop:
            return b""
        headers = {"Range": f"bytes={start}-{stop - 1}"}
        answer = await self._read("GET", address, headers, nbytes=stop - start)
        if answer.status_code == 416:  # noqa: PLR2004 - HTTP's own: no such range
            raise short(path, self.url, start=start, stop=stop, received=0)
        if self._is_absent(answer, "read", path):
            raise missing(path, self.url)
        data = answer.content
        if answer.status_code != 206 or len(data) != stop - start:  # noqa: PLR2004 - a range
            raise short(path, self.url, start=start, stop=stop, received=len(data))
        return data

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        for start, stop in ranges:
            check_range(path, start, stop)
        return await read_merged(partial(self.get_range, path), ranges, limit=RANGES_AT_ONCE)

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        del durable  # the server's answer means stored
        if after is not None:
            after()
        address, body = self._object(path), b"".join(pieces_of(data))
        headers = {"If-None-Match": "*"}
        try:
            answer = await self._attempt("PUT", address, headers=headers, data=body)
        except AttemptError as error:
            what = f"object {path!r} of {self.url!r}"
            if not error.was_sent:
                raise self._unreachable(error, "write", path) from error
            raise UnknownOutcomeError(
                f"{what} may or may not have been written ({error});\nread it back to find out",
                path=path,
                url=self.url,
                status=error.status,
            ) from error
        self._hear(answer)
        if answer.status_code == 412:  # noqa: PLR2004 - HTTP's own: the condition failed
            raise exists(path, self.url)
        self._check(answer, "write", path)

    async def sync(self, paths: Sequence[str]) -> None:
        del paths  # the server's answer means stored

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        params = {} if durable else {"durable": "false"}
        body = b"".join(pieces_of(data))
        answer = await self._repeated("PUT", self._object(path), data=body, params=params)
        self._check(answer, "write", path)

    async def now(self) -> datetime:
        return self._clock.now()

    async def head(self, path: str) -> ObjectMeta | None:
        answer = await self._read("HEAD", self._object(path))
        if self._is_absent(answer, "look up", path):
            return None
        modified = datetime.fromisoformat(answer.headers["x-modified"])
        return ObjectMeta(path, int(answer.headers["x-length"]), modified)

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        after = ""
        while True:
            params = {"prefix": prefix, "after": after}
            answer = await self._repeated("GET", f"{self._dataset}/objects", params=params)
            if self._is_absent(answer, "list", prefix):
                return
            page = msgspec.json.decode(answer.content)
            for one in page["objects"]:
                modified = datetime.fromisoformat(one["modified"])
                yield ObjectMeta(one["path"], one["nbytes"], modified)
            if page["next"] is None:
                return
            after = page["next"]

    async def folders(self, prefix: str) -> Sequence[str]:
        params = {"prefix": prefix}
        answer = await self._repeated("GET", f"{self._dataset}/folders", params=params)
        return (
            []
            if self._is_absent(answer, "list", prefix)
            else msgspec.json.decode(answer.content)["folders"]
        )

    async def delete(self, path: str) -> None:
        check_path(path)
        raise AccessError(
            f"may not delete object {path!r} of {self.url!r}: a server deletes nothing for its"
            " clients;\ndo this where the lake itself can be reached",
            path=path,
            url=self.url,
        )

    def clone(self) -> LakeStore:
        url, token = self._opened_with
        return LakeStore(url, token, policy=self._policy)

    # The server's own calls, beyond objects

    async def ask(self, what: str, body: dict[str, Any], *, accept: str) -> bytes:
        """Send a read-only query about the dataset to the server.

        Raises:
            TensorlakeError: The server's error, as the SDK would raise it.
        """
        address, headers = f"{self._dataset}/{what}", {"Accept": accept}
        answer = await self._repeated("POST", address, json=body, headers=headers)
        if answer.status_code not in _OK:
            raise error_of(answer, self.url)
        return bytes(answer.content)

    def stream(
        self,
        what: str,
        body: dict[str, Any],
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> AnswerStream:
        """Send a query with a streamed answer, on its own connection.

        Raises:
            TensorlakeError: The server's error, as the SDK would raise it.
        """
        return run(self._stream(f"{self._dataset}/{what}", body, timeout_s, headers or {}))

    async def dataset_names(self) -> list[str]:
        """List the datasets that the server shows under this URL's path; "." for itself."""
        names = await self._all_names()
        if not self._name:
            return names
        inside = f"{self._name}/"
        return ["."] * (self._name in names) + [
            name.removeprefix(inside) for name in names if name.startswith(inside)
        ]

    async def neighbours(self) -> list[str]:
        """List the datasets beside this URL's."""
        folder = self._name.rpartition("/")[0]
        inside = f"{folder}/" if folder else ""
        names = await self._all_names()
        return [name.removeprefix(inside) for name in names if name.startswith(inside)]

    async def make_dataset(self, schema: dict[str, Any], *, grace: str, exist_ok: bool) -> None:
        """Create this URL's dataset; types by tensor, as JSON."""
        body = {"name": self._name, "schema": schema, "grace": grace, "exist_ok": exist_ok}
        answer = await self._once("POST", "/v1/datasets", json=body)
        self._check(answer, "create", "")

    async def remove_dataset(self) -> list[str]:
        """Remove the dataset permanently; return the paths that were left at its place."""
        answer = await self._once("DELETE", self._dataset, params={"confirm": self._name})
        self._check(answer, "delete", "")
        # Older servers answer without a body.
        return msgspec.json.decode(answer.content)["left"] if answer.content else []

    async def _all_names(self) -> list[str]:
        answer = await self._repeated("GET", "/v1/datasets")
        self._check(answer, "list", "")
        return [one["name"] for one in msgspec.json.decode(answer.content)["datasets"]]

    def _object(self, path: str) -> str:
        return f"{self._dataset}/objects/{quote(check_path(path))}"

    async def _once(self, method: str, address: str, **request: Any) -> Answer:
        try:
            return await self._attempt(method, address, **request)
        except AttemptError as error:
            raise self._unreachable(error, "reach", "") from error

    async def _repeated(self, method: str, address: str, **request: Any) -> Answer:
        return await self._until_answered(
            address, partial(self._attempt, method, address, **request)
        )

    async def _read(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str] | None = None,
        nbytes: int | None = None,
    ) -> Answer:
        """Read an object, or only its metadata."""
        attempt = partial(self._attempt_read, method, address, headers or {}, nbytes)
        return await self._until_answered(address, attempt)

    async def _until_answered(
        self,
        address: str,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_s: float = math.inf,
    ) -> T:
        policy = replace(self._policy, deadline_s=min(self._policy.deadline_s, timeout_s))
        try:
            return await retry(attempt, policy=policy, is_transient=_is_transient)
        except AttemptError as error:
            raise self._unreachable(error, "read", address) from error

    async def _stream(
        self, address: str, body: dict[str, Any], timeout_s: float, headers: Mapping[str, str]
    ) -> AnswerStream:
        async def attempt() -> OpenAnswer:
            return await self._client().open(
                "POST",
                f"{self._origin}{address}",
                headers={**self._headers(), **headers},
                timeout_s=timeout_s,
                json=body,
            )

        # Before the waiting reader stops: it gets the reason of the refusal.
        answer = await self._until_answered(address, attempt, timeout_s=timeout_s)
        if answer.status_code not in _OK:
            raise error_of(await answer.whole(), self.url)
        return AnswerStream(self.url, aiter(answer), answer.end, answer.headers)

    async def _attempt(
        self, method: str, address: str, headers: Mapping[str, str] | None = None, **request: Any
    ) -> Answer:
        headers = {**self._headers(), **(headers or {})}
        url = f"{self._origin}{address}"
        return await self._client().ask(method, url, headers=headers, **request)

    async def _attempt_read(
        self, method: str, address: str, headers: Mapping[str, str], nbytes: int | None
    ) -> Answer:
        link = self._signed.get(address) if method == "GET" else None
        if link is None:
            answer = await self._attempt(method, address, headers, most_nbytes=nbytes)
            if (author := answer.headers.get(AUTHOR_HEADER)) is not None:
                self._author = unquote(author)
            if answer.status_code != REDIRECT or method != "GET":
                return answer
            link = answer.headers["location"]
            while len(self._signed) >= KEPT_LINKS:
                self._signed.pop(next(iter(self._signed)), None)
            self._signed[address] = link
        answer = await self._client().ask("GET", link, headers=headers, most_nbytes=nbytes)
        if answer.status_code in (400, 401, 403):
            self._signed.pop(address, None)
            raise AttemptError("a signed link has expired", status=answer.status_code)
        return answer

    def _hear(self, answer: Answer) -> None:
        """Record the server's time, which every uncached answer carries."""
        date = answer.headers.get("date")
        if date is not None and "age" not in answer.headers:
            with suppress(ValueError):  # a proxy's own spelling
                self._clock.hear(parsedate_to_datetime(date))

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _is_absent(self, answer: Answer, verb: str, path: str) -> bool:
        if answer.status_code == 404:  # noqa: PLR2004 - HTTP's own: not found
            return True
        self._check(answer, verb, path)
        return False

    def _check(self, answer: Answer, verb: str, path: str) -> None:
        if answer.status_code in _OK:
            return
        detail = detail_of(answer)
        what = f"object {path!r} of {self.url!r}" if path else repr(self.url)
        facts = {"path": path, "url": self.url, "status": answer.status_code}
        if answer.status_code in (401, 403):
            reason, _, remedy = detail.partition("\n")
            if answer.status_code == 401 or not remedy:  # noqa: PLR2004 - HTTP's own: no token
                remedy = f"give another token: token=…, or {TOKEN_VARIABLE} in the environment"
            raise AccessError(f"may not {verb} {what}: {reason}\n{remedy}", **facts)
        if answer.status_code in (400, 413, 422):
            raise InvalidInputError(f"cannot {verb} {what}: {detail}", **facts)
        raise StorageError(
            f"could not {verb} {what}: {detail} (status {answer.status_code})\n"
            "check that a tensorlake server answers there",
            **facts,
        )

    def _unreachable(self, error: AttemptError, verb: str, path: str) -> TensorlakeError:
        if error.answer is not None and is_problem(error.answer):
            return error_of(error.answer, self.url)
        kind = StorageTimeoutError if error.status == 408 else StorageError  # noqa: PLR2004 - ours
        return kind(
            f"could not {verb} {path!r} of {self.url!r} ({error});\n"
            "check that the server runs and can be reached, then try again",
            path=path,
            url=self.url,
            status=error.status,
        )


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, AttemptError)
