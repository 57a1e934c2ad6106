"""Read objects over HTTP/1.1, receiving bodies directly into their final memory.

    request    GET /v1/datasets/pets/objects/packs/… HTTP/1.1    one at a time on a connection
    head       into a small buffer of the connection's own
    body       from the socket straight into the memory that is returned

aiohttp receives 256 KiB at a time, copies them in its parser, and joins the parts at the end: on
the one storage loop, which competes with the decoding threads for the interpreter. Here the system
writes a megabyte at a time to its destination, for half of the CPU time (decision 0022).

It understands typical answers of object servers: a status, headers, a body of a stated length. For
any other (chunks, an encoding, an older version, a malformed head) the result is None, the
connection is closed, and the caller uses the client that understands all of HTTP.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from tensorlake.storage.http.types import Answer, AttemptError, check_length, no_answer

__all__ = ["HttpReads"]

HEAD_NBYTES: Final = 16 << 10
UNASKED_NBYTES: Final = 64 << 20
"""Memory reserved for a body without an expected length."""
HAPPY_EYEBALLS_S: Final = 0.25  # RFC 8305: until the next address is tried

_URL: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<netloc>(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?)"
    r"(?P<target>/[!-\"$-~]*)"
)
_STATUS: Final = re.compile(r"HTTP/1\.1 ([2-5][0-9]{2})(?: [\t -~\x80-\xff]*)?")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t -~\x80-\xff]*)")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_VALUE: Final = re.compile(r"[\t -~]*")
_NO_BODY: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class _Origin:
    """A connection's destination."""

    host: str
    port: int
    is_secure: bool


class HttpReads:
    """Reads from any origin over persistent connections. Created and used on one event loop.

    Args:
        timeout_s: Without a byte of an answer.
        connect_timeout_s: Until there is a connection.
        context: Whom to trust; what the system trusts, when it is None.
        kept_s: That an unused connection is kept.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        connect_timeout_s: float,
        context: ssl.SSLContext | None,
        kept_s: float,
    ) -> None:
        self._kept_s = kept_s
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._context = context
        self._kept = defaultdict[_Origin, list[_Connection]](list)

    async def read(
        self, method: str, url: str, headers: Mapping[str, str], *, most_nbytes: int | None
    ) -> Answer | None:
        """Send a GET or HEAD once; None where the answer needs the full HTTP client.

        Args:
            method: GET or HEAD.
            url: Whole, and quoted.
            headers: Besides those of every request.
            most_nbytes: That were asked for; a longer body is refused.

        Raises:
            AttemptError: The answer is missing, incomplete or too long.
        """
        asked = _URL.fullmatch(url)
        if asked is None or not all(map(_VALUE.fullmatch, headers.values())):
            return None
        lines = [f"{name}: {value}" for name, value in headers.items()]
        request = (
            f"{method} {asked['target']} HTTP/1.1",
            f"Host: {asked['netloc']}",
            "Accept: */*",
            "Accept-Encoding: identity",
            "User-Agent: tensorlake",
            *lines,
        )
        is_secure = asked["scheme"] == "https"
        port = int(asked["port"] or (443 if is_secure else 80))
        origin = _Origin(asked["host"].strip("[]"), port, is_secure)
        kept = self._kept[origin]
        connection = _free_one_of(kept) or await self._connect(origin)
        answer = await connection.ask(
            "\r\n".join([*request, "", ""]).encode(),
            _Asked(
                has_body=method != "HEAD",
                most_nbytes=most_nbytes,
                answered=asyncio.get_running_loop().create_future(),
            ),
            timeout_s=self._timeout_s,
        )
        if connection.is_free:
            kept.append(connection)
            connection.end_after(self._kept_s)
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        for kept in self._kept.values():
            while kept:
                kept.pop().end()

    async def _connect(self, origin: _Origin) -> _Connection:
        if origin.is_secure and self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection,
                    origin.host,
                    origin.port,
                    ssl=self._context if origin.is_secure else None,
                    happy_eyeballs_delay=HAPPY_EYEBALLS_S,
                )
        except OSError as error:  # a TimeoutError is one
            raise AttemptError(type(error).__name__, was_sent=False) from error
        return connection


@dataclass(slots=True)
class _Asked:
    """A request in flight, and the part of its answer received so far."""

    has_body: bool
    most_nbytes: int | None
    answered: asyncio.Future[Answer | None]
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: memoryview | None = None  # None: the head is not whole yet
    filled: int = 0


class _Connection(asyncio.BufferedProtocol):
    """One connection, and its current request."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._head = bytearray(HEAD_NBYTES)
        self._head_nbytes = 0
        self._asked: _Asked | None = None
        self._is_kept = True
        self._num_reads = 0
        self._ending: asyncio.TimerHandle | None = None

    @property
    def is_free(self) -> bool:
        """Whether it is idle and can send a request."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and self._is_kept and self._asked is None

    async def ask(self, request: bytes, asked: _Asked, *, timeout_s: float) -> Answer | None:
        """Send a request and wait for its answer; see `HttpReads.read`."""
        assert self._transport is not None
        if self._ending is not None:
            self._ending.cancel()
        self._asked = asked
        self._transport.write(request)
        try:
            await self._comes(asked.answered, timeout_s)
        except BaseException:  # a cancelled request's answer would be taken for the next one's
            self.end()
            raise
        if not asked.answered.done():
            self.end()
            raise no_answer()
        return asked.answered.result()

    async def _comes(self, answered: asyncio.Future[Any], timeout_s: float) -> None:
        """Wait for an answer as long as bytes keep arriving."""
        seen = -1
        while not answered.done() and self._num_reads != seen:
            seen = self._num_reads
            await asyncio.wait((answered,), timeout=timeout_s)

    def end(self) -> None:
        """Close it at once in any state."""
        self._asked = None
        if self._transport is not None:
            self._transport.abort()

    def end_after(self, seconds: float) -> None:
        """Close it after this long without a request."""
        self._ending = asyncio.get_running_loop().call_later(seconds, self.end)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._fail(AttemptError("ServerDisconnected" if exc is None else type(exc).__name__))

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        asked = self._asked
        if asked is None or asked.body is None:
            return memoryview(self._head)[self._head_nbytes :]
        return asked.body[asked.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._num_reads += 1
        asked = self._asked
        if asked is None:  # unsolicited: a server reports that its wait timed out
            self.end()
            return
        if asked.body is not None:
            asked.filled += nbytes
        else:
            self._head_nbytes += nbytes
            self._begin(asked)
        if asked.body is not None and asked.filled == asked.body.nbytes:
            self._settle(asked, Answer(asked.status, asked.headers, asked.body.toreadonly()))

    def _begin(self, asked: _Asked) -> None:
        """Read the head once it is complete, and allocate memory for the body."""
        end = self._head.find(b"\r\n\r\n", 0, self._head_nbytes)
        if end < 0 and self._head_nbytes < HEAD_NBYTES:
            return
        head = bytes(self._head[: max(end, 0)]).decode("latin-1")
        nbytes = self._body_nbytes(asked, head)
        begun = self._head_nbytes - end - 4
        if nbytes is None or begun > nbytes:
            self._is_kept = False
            self._settle(asked, None)
            return
        try:
            check_length(nbytes, asked.most_nbytes)
        except AttemptError as error:
            self._fail(error)
            self.end()
            return
        # Not bytearray: it would be filled with zeros first.
        asked.body = np.empty(nbytes, np.uint8).data
        asked.body[:begun] = self._head[end + 4 : self._head_nbytes]
        asked.filled = begun

    def _body_nbytes(self, asked: _Asked, head: str) -> int | None:
        """Parse a head; return its body's length, None where this client cannot read it."""
        line, *lines = head.split("\r\n")
        status, fields = _STATUS.fullmatch(line), [_HEADER.fullmatch(one) for one in lines]
        headers = {one[1].lower(): one[2].strip() for one in fields if one is not None}
        is_plain = len(headers) == len(lines)  # each line is one, and none repeats
        if status is None or not is_plain or "transfer-encoding" in headers:
            return None
        if headers.get("content-encoding", "identity") != "identity":
            return None
        asked.status, asked.headers = int(status[1]), headers
        self._is_kept = headers.get("connection", "keep-alive").lower() == "keep-alive"
        if not asked.has_body or asked.status in _NO_BODY:
            return 0
        length = headers.get("content-length", "")
        nbytes = int(length) if _LENGTH.fullmatch(length) else None
        is_bounded = nbytes is None or asked.most_nbytes is not None or nbytes <= UNASKED_NBYTES
        return nbytes if is_bounded else None

    def _settle(self, asked: _Asked, answer: Answer | None) -> None:
        self._asked = None
        self._head_nbytes = 0
        if not asked.answered.done():
            asked.answered.set_result(answer)
        if not self._is_kept and self._transport is not None:
            self._transport.abort()

    def _fail(self, error: AttemptError) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and not asked.answered.done():
            asked.answered.set_exception(error)


def _free_one_of(kept: list[_Connection]) -> _Connection | None:
    while kept:
        connection = kept.pop()  # the last used: the server may have closed older ones
        if connection.is_free:
            return connection
    return None
