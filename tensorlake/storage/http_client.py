"""HTTP as a `LakeStore` needs it: one attempt a call, whole answers, and answers that go on.

    HttpClient ── aiohttp session ── connections kept, REQUESTS of them at most

aiohttp parses in C: a small request takes 0.2 ms of the one storage loop's processor, a megabyte
1 ms. What it does by itself is left out where it would be wrong here: it repeats a PUT whose
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
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from tensorlake.storage import runtime
from tensorlake.storage.answers import Answer, AttemptError

if TYPE_CHECKING:
    import ssl

__all__ = ["REQUESTS", "TIMEOUT_S", "HttpClient", "OpenAnswer", "client_of_loop"]

REQUESTS: Final = 16
"""In flight to one server at most, and connections kept."""

TIMEOUT_S: Final = 60.0
CONNECT_TIMEOUT_S: Final = 10.0

SMALL_NBYTES: Final = 1 << 20
"""What an answer to a read may always hold: an entry, or what a server says went wrong."""

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})


class OpenAnswer:
    """An answer whose body is read while it comes: ``async for piece in answer``.

    Raises:
        AttemptError: While reading: it broke off.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status_code = answer.status
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.content.iter_any():
                yield piece
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
    """

    def __init__(
        self,
        *,
        timeout_s: float = TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        limit: int = REQUESTS,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._places = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(limit))
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._session = aiohttp.ClientSession(
            connector=_Connector(limit=0, ssl=True if context is None else context),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            middlewares=(_only_once,),
        )
        _sessions[self._session] = asyncio.get_running_loop()

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
        async with self._places[urlsplit(url).netloc]:
            answer = await self._sent(method, url, self._timeout_s, headers=headers, **request)
            async with answer:
                nbytes = 0 if method == "HEAD" else answer.content_length or 0
                if most_nbytes is not None and nbytes > max(most_nbytes, SMALL_NBYTES):
                    raise AttemptError(f"{nbytes} bytes came where {most_nbytes} were asked for")
                whole = await _whole(answer)
        if whole.status_code in _TRANSIENT:
            raise AttemptError(f"status {whole.status_code}", status=whole.status_code)
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
            answer.close()
            raise AttemptError(f"status {answer.status}", status=answer.status)
        return OpenAnswer(answer)

    async def close(self) -> None:
        """Close its connections."""
        _sessions.pop(self._session, None)
        await self._session.close()

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
_sessions: dict[aiohttp.ClientSession, asyncio.AbstractEventLoop] = {}
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


def _attempt_error(error: Exception) -> AttemptError:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return AttemptError(_words(error), was_sent=False)
    if isinstance(error, TimeoutError):
        return AttemptError("no answer in time", status=HTTPStatus.REQUEST_TIMEOUT)
    return AttemptError(_words(error))


def _words(error: Exception) -> str:
    cause = error.__cause__
    return type(error).__name__ if cause is None else type(cause).__name__


def _close_all() -> None:
    """At the end of the process: servers are told, and nothing complains of what is left."""
    if _sessions:
        runtime.run(_close_each(), timeout_s=CONNECT_TIMEOUT_S)


async def _close_each() -> None:
    while _sessions:
        session, loop = _sessions.popitem()
        if loop is asyncio.get_running_loop():
            await session.close()
        else:
            session.detach()


def _forget_parent() -> None:
    while _sessions:
        _sessions.popitem()[0].detach()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
