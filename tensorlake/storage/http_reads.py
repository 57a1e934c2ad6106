"""Reads over HTTP/1.1 whose bodies land where they stay: how a `LakeStore` gets objects.

    request    GET /v1/datasets/pets/objects/packs/… HTTP/1.1    one at a time on a connection
    head       into a small buffer of the connection's own
    body       from the socket straight into the memory that is handed on

A client for all of HTTP takes 3 ms of a processor for a small request and 4 ms for a megabyte, all
of it on the one storage loop; this takes 0.2 ms and 0.6 ms (benchmarks/server.py,
``server-loader``). It understands what servers of objects answer: a status, headers, a body of a
stated length. Of anything else (chunks, an encoding, a body longer than was asked for) the answer
is None, the connection is closed, and whoever asked takes the other client.

Connections are kept, ``limit`` of them at most; who finds none free waits. All on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import urlsplit

import numpy as np

if TYPE_CHECKING:
    import ssl

__all__ = ["Answer", "AttemptError", "HttpReads", "PlainAnswer"]

HEAD_NBYTES: Final = 16 << 10
SMALL_NBYTES: Final = 1 << 20
"""What an answer may always hold: an entry, or what a server says went wrong."""

_NO_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class AttemptError(Exception):
    """An attempt failed, and another could succeed.

    Attributes:
        status: What the server answered, or what it amounts to.
        was_sent: Whether the server may have seen the request.
    """

    def __init__(self, why: str, *, status: int | None = None, was_sent: bool = True) -> None:
        super().__init__(why)
        self.status = status
        self.was_sent = was_sent


class Answer(Protocol):
    """What every client's answers have; names of headers are found in any case, or lower case."""

    @property
    def status_code(self) -> int:
        """Its status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, by name."""
        ...

    @property
    def content(self) -> bytes | memoryview:
        """Its body, whole."""
        ...

    @property
    def reason_phrase(self) -> str:
        """Its status in words."""
        ...


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """An `Answer` that came whole; names of headers are in lower case."""

    status_code: int
    headers: Mapping[str, str]
    content: memoryview

    @property
    def reason_phrase(self) -> str:
        """Its status in words."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""


class HttpReads:
    """Reads from one origin, over connections that are kept.

    Args:
        origin: ``http://host:port`` or ``https://host``.
        headers: What every request says.
        limit: Connections, and requests in flight, at most.
        timeout_s: Without a byte of an answer.
        connect_timeout_s: Until there is a connection.
        context: Whom to trust, where the origin is https.
    """

    def __init__(
        self,
        origin: str,
        *,
        headers: Mapping[str, str],
        limit: int,
        timeout_s: float,
        connect_timeout_s: float,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(origin)
        assert parts.hostname is not None, "whoever names an origin names a host"
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._context = context if parts.scheme == "https" else None
        self._headers = {"host": parts.netloc, **headers}
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._places = asyncio.Semaphore(limit)
        self._kept: list[_Connection] = []

    async def read(
        self, method: str, target: str, headers: Mapping[str, str], *, nbytes: int = 0
    ) -> PlainAnswer | None:
        """Send a GET or HEAD; None where the answer is for a client that understands more.

        Args:
            method: GET or HEAD.
            target: The path with its query, quoted.
            headers: Besides those of every request.
            nbytes: That were asked for; a body is not much longer.

        Raises:
            AttemptError: No answer came, or not all of one.
        """
        lines = [f"{name}: {value}" for name, value in {**self._headers, **headers}.items()]
        request = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode("latin-1")
        async with self._places:
            connection = self._free() or await self._connect()
            has_body = method != "HEAD"
            most_nbytes = max(nbytes, SMALL_NBYTES)
            answer = await connection.ask(
                request, has_body=has_body, most_nbytes=most_nbytes, timeout_s=self._timeout_s
            )
            if connection.is_free:
                self._kept.append(connection)
            return answer

    def close(self) -> None:
        """Close the connections that wait for nothing."""
        while self._kept:
            self._kept.pop().give_up()

    def _free(self) -> _Connection | None:
        while self._kept:
            connection = self._kept.pop()  # the last used: the server may have closed older ones
            if connection.is_free:
                return connection
        return None

    async def _connect(self) -> _Connection:
        connect = asyncio.get_running_loop().create_connection(
            _Connection, self._host, self._port, ssl=self._context
        )
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                return (await connect)[1]
        except OSError as error:  # a TimeoutError is one
            raise AttemptError(type(error).__name__, was_sent=False) from error


@dataclass(slots=True)
class _Asked:
    """A request under way, and as much of its answer as there is."""

    has_body: bool
    most_nbytes: int
    answered: asyncio.Future[PlainAnswer | None]
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: memoryview | None = None  # None: the head is not whole yet
    filled: int = 0


class _Connection(asyncio.BufferedProtocol):
    """One connection, and what was asked on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._head = bytearray(HEAD_NBYTES)
        self._head_nbytes = 0
        self._asked: _Asked | None = None
        self._is_kept = True
        self._num_reads = 0

    @property
    def is_free(self) -> bool:
        """Whether it can be asked something."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and self._is_kept and self._asked is None

    async def ask(
        self, request: bytes, *, has_body: bool, most_nbytes: int, timeout_s: float
    ) -> PlainAnswer | None:
        """Send a request and wait for its answer; see `HttpReads.read`."""
        assert self._transport is not None
        answered = asyncio.get_running_loop().create_future()
        self._asked = _Asked(has_body, most_nbytes, answered)
        self._transport.write(request)
        try:
            is_answered = await self._comes(answered, timeout_s)
        except BaseException:  # a cancelled request's answer would be taken for the next one's
            self.give_up()
            raise
        if not is_answered:
            self.give_up()
            raise AttemptError("no answer in time", status=HTTPStatus.REQUEST_TIMEOUT)
        return answered.result()

    async def _comes(self, answered: asyncio.Future[Any], timeout_s: float) -> bool:
        """Wait for an answer as long as some of it comes; tell whether all of it did."""
        seen = -1
        while not answered.done() and self._num_reads != seen:
            seen = self._num_reads
            await asyncio.wait((answered,), timeout=timeout_s)
        return answered.done()

    def give_up(self) -> None:
        """Close the connection at once, whatever it waits for."""
        self._asked = None
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and not asked.answered.done():
            why = "the connection ended" if exc is None else type(exc).__name__
            asked.answered.set_exception(AttemptError(why))

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        asked = self._asked
        if asked is None or asked.body is None:
            return memoryview(self._head)[self._head_nbytes :]
        return asked.body[asked.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._num_reads += 1
        asked = self._asked
        if asked is None:  # nobody asked: a server that gives up waiting says so
            self.give_up()
            return
        if asked.body is None:
            self._head_nbytes += nbytes
            if not self._has_begun(asked):
                return
        else:
            asked.filled += nbytes
        body = asked.body
        if body is not None and asked.filled == body.nbytes:
            self._settle(asked, PlainAnswer(asked.status, asked.headers, body))

    def _has_begun(self, asked: _Asked) -> bool:
        """Read the head, once it is whole; tell whether the body's memory is there."""
        end = self._head.find(b"\r\n\r\n", 0, self._head_nbytes)
        if end < 0 and self._head_nbytes < HEAD_NBYTES:
            return False
        lines = bytes(self._head[: max(end, 0)]).decode("latin-1").split("\r\n")
        begun = self._head_nbytes - end - 4
        nbytes = self._body_nbytes(asked, lines) if end >= 0 else None
        if nbytes is None or begun > nbytes:
            self._is_kept = False
            self._settle(asked, None)
            return False
        # Not bytearray: it would be filled with zeros first.
        asked.body = np.empty(nbytes, np.uint8).data
        asked.body[:begun] = self._head[end + 4 : self._head_nbytes]
        asked.filled = begun
        return True

    def _body_nbytes(self, asked: _Asked, lines: Sequence[str]) -> int | None:
        """Take in a head; how long its body is, None where that is not for us to read."""
        version, _, rest = lines[0].partition(" ")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        status, length = rest[:3], headers.get("content-length", "")
        is_ours = version == "HTTP/1.1" and status.isdecimal() and int(status) >= HTTPStatus.OK
        if not is_ours or "transfer-encoding" in headers or "content-encoding" in headers:
            return None
        asked.status, asked.headers = int(status), headers
        self._is_kept = headers.get("connection", "").lower() != "close"
        if not asked.has_body or asked.status in _NO_BODY:
            return 0
        if not length.isdecimal() or int(length) > asked.most_nbytes:
            return None
        return int(length)

    def _settle(self, asked: _Asked, answer: PlainAnswer | None) -> None:
        self._asked = None
        self._head_nbytes = 0
        if not asked.answered.done():
            asked.answered.set_result(answer)
        if not self._is_kept and self._transport is not None:
            self._transport.close()
