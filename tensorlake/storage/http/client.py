"""The HTTP client of `LakeStore`: one attempt per call, whole or streamed answers.

    HttpClient ┬─ http/reads.py     GET and HEAD: bodies from the socket to their destination
               └─ aiohttp session   all else: writes, queries, streams, unusual answers
                                    REQUESTS of both in flight to one server

Once a server answers a read in a way that only aiohttp understands, all its reads use aiohttp. Some
of aiohttp's own behaviour is disabled here: it repeats a PUT whose connection ended, though it may
have succeeded; it follows redirects, with the token; it reads proxies from the environment.

A client belongs to the loop that created it. A forked child leaves the inherited one alone: closing
it would remove connections from the epoll set that both processes share.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from tensorlake.storage.concurrency import runtime
from tensorlake.storage.concurrency.tracing import span, trace_headers
from tensorlake.storage.http.reads import HttpReads
from tensorlake.storage.http.types import Answer, AttemptError, check_length, no_answer

if TYPE_CHECKING:
    import ssl

__all__ = ["REQUESTS", "TIMEOUT_S", "HttpClient", "OpenAnswer", "client_of_loop"]

REQUESTS: Final = 16
"""Most requests in flight to one server, and most connections kept open."""

TIMEOUT_S: Final = 60.0
CONNECT_TIMEOUT_S: Final = 10.0

KEPT_S: Final = 15.0
"""Lifetime of an idle connection; proxies in between drop idle ones silently."""

READS: Final = frozenset({"GET", "HEAD"})
"""Requests without a body."""

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})


class OpenAnswer:
    """An answer whose body is streamed: ``async for piece in answer``.

    Raises:
        AttemptError: The connection broke while reading.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status_code = answer.status
        self.headers = answer.headers
        self._answer = answer
        self._pieces = aiter(answer.content.iter_any())

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self  # not a generator: one left unfinished fails when the interpreter ends

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._pieces)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _attempt_error(error) from error

    async def whole(self) -> Answer:
        """Read the whole body and close the answer."""
        try:
            return await _whole(self._answer)
        finally:
            self._answer.release()

    async def end(self) -> None:
        """Stop reading and close the connection, which informs the server."""
        self._answer.close()


class HttpClient:
    """Requests to any origin over persistent connections. Created and used on one event loop.

    Args:
        timeout_s: Without a byte of an answer.
        connect_timeout_s: Until there is a connection.
        limit: Most requests in flight, and so connections, per server; streams not included.
        context: Whom to trust; what the system trusts, when it is None.
        kept_s: That an unused connection is kept.
    """

    def __init__(
        self,
        *,
        timeout_s: float = TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        limit: int = REQUESTS,
        context: ssl.SSLContext | None = None,
        kept_s: float = KEPT_S,
    ) -> None:
        self._places = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(limit))
        self._unusual = set[str]()  # servers whose answers only aiohttp understands
        self._reads = HttpReads(
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            context=context,
            kept_s=kept_s,
        )
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=0, keepalive_timeout=kept_s, ssl=True if context is None else context
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            middlewares=(_only_once,),
        )
        _open[self] = asyncio.get_running_loop()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        most_nbytes: int | None = None,
        **request: Any,
    ) -> Answer:
        """Send a request once and wait for its whole answer.

        Args:
            method: GET, PUT, …
            url: Whole, and quoted.
            headers: Besides those of every request.
            most_nbytes: That were asked for; a longer body is refused.
            **request: ``params``, ``json``, or ``data`` (bytes), as aiohttp takes them.

        Raises:
            AttemptError: No answer came, or not all of one, or one that asks to try again.
        """
        netloc = urlsplit(url).netloc
        is_read = method in READS and not request
        with span(f"HTTP {method}", kind="CLIENT", attributes={"server.address": netloc}) as traced:
            headers = {**(headers or {}), **trace_headers()}
            async with self._places[netloc]:
                whole = None
                if is_read and netloc not in self._unusual:
                    whole = await self._reads.read(method, url, headers, most_nbytes=most_nbytes)
                if whole is None:
                    sent = self._sent(method, url, self._timeout_s, headers=headers, **request)
                    async with await sent as answer:
                        length = 0 if method == "HEAD" else answer.content_length or 0
                        check_length(length, most_nbytes)
                        whole = await _whole(answer)
                    if is_read:
                        self._unusual.add(netloc)
            if whole.status_code in _TRANSIENT:
                traced.fail(str(whole.status_code))
        if whole.status_code in _TRANSIENT:
            raise _refused(whole)
        return whole

    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str], timeout_s: float, **request: Any
    ) -> OpenAnswer:
        """Send a request once and wait for the head of its answer, on its own connection.

        Raises:
            AttemptError: No answer came, or one that asks to try again.
        """
        answer = await self._sent(method, url, timeout_s, headers=headers, **request)
        if answer.status in _TRANSIENT:
            raise _refused(await OpenAnswer(answer).whole())
        return OpenAnswer(answer)

    async def close(self) -> None:
        """Close its connections."""
        _open.pop(self, None)
        self._reads.close()
        await self._session.close()

    def detach(self) -> None:
        """Drop its connections without closing them: another process owns them."""
        self._session.detach()

    async def _sent(
        self, method: str, url: str, timeout_s: float, **request: Any
    ) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout_s, sock_read=timeout_s
        )
        where = URL(url, encoded=True)  # links are signed as they are written
        if "data" in request:
            request["data"] = io.BytesIO(request["data"])  # sent in parts, not as one
        try:
            return await self._session.request(
                method, where, allow_redirects=False, timeout=timeout, **request
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _attempt_error(error) from error


def client_of_loop() -> HttpClient:
    """Return this loop's client, whose connections outlive dataset handles."""
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        client = _clients[loop] = HttpClient()
    return client


class _Connector(aiohttp.TCPConnector):
    """Connections that only their creator closes (see the module docstring on forks)."""

    def __del__(self, _warnings: object = None) -> None:
        pass


_clients: dict[asyncio.AbstractEventLoop, HttpClient] = {}
_open: dict[HttpClient, asyncio.AbstractEventLoop] = {}
"""This process' open clients by loop."""


async def _only_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Hide connection errors from aiohttp, which would send the request again."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _attempt_error(error) from error


async def _whole(answer: aiohttp.ClientResponse) -> Answer:
    try:
        return Answer(answer.status, answer.headers, await answer.read())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _attempt_error(error) from error


def _refused(answer: Answer) -> AttemptError:
    return AttemptError(f"status {answer.status_code}", status=answer.status_code, answer=answer)


def _attempt_error(error: Exception) -> AttemptError:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return AttemptError(_words(error), was_sent=False)
    if isinstance(error, TimeoutError):
        return no_answer()
    return AttemptError(_words(error))


def _words(error: Exception) -> str:
    cause = error.__cause__
    return type(error).__name__ if cause is None else type(cause).__name__


def _close_all() -> None:
    """Close all clients when the process ends, so that servers know and nothing warns."""
    if _open:
        runtime.run(_close_each(), timeout_s=CONNECT_TIMEOUT_S)


async def _close_each() -> None:
    while _open:
        client, loop = _open.popitem()
        if loop is asyncio.get_running_loop():
            await client.close()
        else:
            client.detach()


def _forget_parent() -> None:
    while _open:
        _open.popitem()[0].detach()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
