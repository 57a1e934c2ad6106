"""HTTP as a `LakeStore` needs it: one attempt a call, whole answers, and answers that go on.

    HttpClient ┬─ http/reads.py     GET and HEAD: bodies from the socket to where they stay
               └─ aiohttp session   all else: writes, questions, streams, unusual answers
                                    REQUESTS of both in flight to one server

Of a server that answers a read in a way that only aiohttp understands, all is read by that.
What aiohttp does by itself is left out where it would be wrong here: it repeats a PUT whose
connection ended, which may have been done; it follows redirects, with the token; it asks the
environment for proxies.

A client belongs to the loop that it was made on. One that a forked child inherits is left alone:
ending it would take connections from the set of sockets that both processes wait for.
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
from tensorlake.storage.http.reads import HttpReads
from tensorlake.storage.http.types import Answer, AttemptError, check_length, no_answer

if TYPE_CHECKING:
    import ssl

__all__ = ["REQUESTS", "TIMEOUT_S", "HttpClient", "OpenAnswer", "client_of_loop"]

REQUESTS: Final = 16
"""In flight to one server at most, and connections kept."""

TIMEOUT_S: Final = 60.0
CONNECT_TIMEOUT_S: Final = 10.0

KEPT_S: Final = 15.0
"""An unused connection; what lies between forgets it some time, without a word."""

READS: Final = frozenset({"GET", "HEAD"})
"""Requests without a body."""

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})


class OpenAnswer:
    """An answer whose body is read while it comes: ``async for piece in answer``.

    Raises:
        AttemptError: While reading: it broke off.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status_code = answer.status
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
        """Read all of it, and end it."""
        try:
            return await _whole(self._answer)
        finally:
            self._answer.release()

    async def end(self) -> None:
        """Read no more of it; its connection is closed, by which the server learns of it."""
        self._answer.close()


class HttpClient:
    """Requests to any origin, over connections that are kept. Made and used on one event loop.

    Args:
        timeout_s: Without a byte of an answer.
        connect_timeout_s: Until there is a connection.
        limit: Requests in flight to a server at most, and so connections; streams beside them.
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
        """Send a request, once, and wait for all of its answer.

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
        async with self._places[netloc]:
            whole = None
            if is_read and netloc not in self._unusual:
                whole = await self._reads.read(method, url, headers or {}, most_nbytes=most_nbytes)
            if whole is None:
                sent = self._sent(method, url, self._timeout_s, headers=headers, **request)
                async with await sent as answer:
                    length = 0 if method == "HEAD" else answer.content_length or 0
                    check_length(length, most_nbytes)
                    whole = await _whole(answer)
                if is_read:
                    self._unusual.add(netloc)
        if whole.status_code in _TRANSIENT:
            raise _refused(whole)
        return whole

    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str], timeout_s: float, **request: Any
    ) -> OpenAnswer:
        """Send a request, once, and wait for the head of its answer; on a connection of its own.

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
        """Leave its connections alone: they are another's to end."""
        self._session.detach()

    async def _sent(
        self, method: str, url: str, timeout_s: float, **request: Any
    ) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout_s, sock_read=timeout_s
        )
        where = URL(url, encoded=True)  # links are signed as they are written
        if "data" in request:
            request["data"] = io.BytesIO(request["data"])  # sent in parts; bytes go out as one
        try:
            return await self._session.request(
                method, where, allow_redirects=False, timeout=timeout, **request
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _attempt_error(error) from error


def client_of_loop() -> HttpClient:
    """Return this loop's client; handles come and go, connections stay."""
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        client = _clients[loop] = HttpClient()
    return client


class _Connector(aiohttp.TCPConnector):
    """Connections that nobody ends but who made them, see the module's words on forks."""

    def __del__(self, _warnings: object = None) -> None:
        pass


_clients: dict[asyncio.AbstractEventLoop, HttpClient] = {}
_open: dict[HttpClient, asyncio.AbstractEventLoop] = {}
"""Those of this process that are not closed, and their loops."""


async def _only_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Take connection errors out of aiohttp's hands, which would send the request again."""
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
    """At the end of the process: servers are told, and nothing complains of what is left."""
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
