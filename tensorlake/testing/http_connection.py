"""One connection of an HTTP/1.1 server whose requests cost it little: for the latency server.

    data_received ─► a whole request ─► begin ─► its latency, a timer ─► answer ─► one write
                                                                └─ what has to wait again, and
                                                                   large bodies: a task

The server shares its machine with what is measured, so no task is made for most requests. Requests
of a connection are answered one after another.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from tensorlake.types import BINARY, pread

SLICE_NBYTES: Final = 128 * 1024  # sent between two waits where bandwidth is limited
SENDFILE_NBYTES: Final = 64 * 1024  # below, one write of head and body is cheaper
MAX_HEAD_NBYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """A response."""

    status: HTTPStatus
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    file: Path | None = None  # the body is bytes [start, stop) of it
    start: int = 0
    stop: int = 0

    @property
    def nbytes(self) -> int:
        """Length of the body."""
        return self.stop - self.start if self.file else len(self.body)


class Service(Protocol):
    """The handler of the requests of all connections."""

    @property
    def nbytes_per_s(self) -> float:
        """Bandwidth of one connection; 0: unlimited."""
        ...

    def control(self, request: Request) -> Response | None:
        """Answer the parent at once; None for all other requests."""
        ...

    def begin(self, request: Request, *, is_first: bool) -> float:
        """Count a request, which is in flight from now on; return how many seconds it waits."""
        ...

    def answer(self, request: Request) -> Response | None:
        """Answer a request that needs no waiting; None for others."""
        ...

    async def answer_later(self, request: Request) -> Response:
        """Answer the others."""
        ...

    def end(self, sent_nbytes: int) -> None:
        """Count the bytes sent of a body, and end its request."""
        ...


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._is_answering = False
        self._is_first = True
        self._has_said_continue = False
        self._task: asyncio.Task[None] | None = None  # held, or it may be collected
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Receive bytes; answer complete requests."""
        self._received += data
        self._go_on()

    def _go_on(self) -> None:
        while not self._is_answering and not self._transport.is_closing():
            request = _take_request(self._received)
            if request is None:
                self._let_continue()
                if len(self._received) > MAX_HEAD_NBYTES and b"\r\n\r\n" not in self._received:
                    self._transport.close()
                return
            self._has_said_continue = False
            response = self._service.control(request)
            if response is None:
                self._begin(request)
            else:
                self._transport.write(_head(response) + response.body)

    def _let_continue(self) -> None:
        """Send "100 Continue" once, where the client waits for it (RFC 9110, 10.1.1).

        Clients made with Amazon's C++ library send none for a second otherwise.
        """
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if end and not self._has_said_continue and b"expect: 100-continue" in head.lower():
            self._has_said_continue = True
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _begin(self, request: Request) -> None:
        delay_s = self._service.begin(request, is_first=self._is_first)
        self._is_first, self._is_answering = False, True
        if delay_s:
            self._loop.call_later(delay_s, self._answer, request)
        else:
            self._answer(request)

    def _answer(self, request: Request) -> None:
        response: Response | None = None
        sent_nbytes: int | None = None
        has_failed = True
        try:
            response = self._service.answer(request)
            if response is not None and not self._is_sent_slowly(request, response):
                sent_nbytes = self._send(request, response)
            has_failed = False
        finally:
            if has_failed:
                self._end(None)
        if sent_nbytes is None:
            self._task = self._loop.create_task(self._answer_later(request, response))
        else:
            self._end(sent_nbytes)

    async def _answer_later(self, request: Request, response: Response | None) -> None:
        sent_nbytes = None
        try:
            found = response or await self._service.answer_later(request)
            if found.file is not None and self._is_sent_slowly(request, found):
                sent_nbytes = await self._send_file(found, found.file)
            else:
                sent_nbytes = self._send(request, found)
        except ConnectionError:
            pass  # the client closed its connection
        finally:
            self._end(sent_nbytes)
        self._go_on()

    def _end(self, sent_nbytes: int | None) -> None:
        """Answer the next request; close the connection if this one was not answered."""
        self._service.end(sent_nbytes or 0)
        self._is_answering = False
        if sent_nbytes is None:
            self._transport.close()
        elif self._received:  # it came early
            self._loop.call_soon(self._go_on)

    def _is_sent_slowly(self, request: Request, response: Response) -> bool:
        """Whether a body is too large for one write, or must not come faster than some rate."""
        is_small = response.nbytes < SENDFILE_NBYTES and not self._service.nbytes_per_s
        return response.file is not None and request.method != "HEAD" and not is_small

    def _send(self, request: Request, response: Response) -> int:
        data = _head(response)
        sent_nbytes = 0 if request.method == "HEAD" else response.nbytes
        if sent_nbytes:
            data += response.body if response.file is None else _read_file(response, response.file)
        self._transport.write(data)
        return sent_nbytes

    async def _send_file(self, response: Response, file: Path) -> int:
        loop, transport, nbytes_per_s = self._loop, self._transport, self._service.nbytes_per_s
        with file.open("rb") as source:
            if transport.is_closing():
                raise ConnectionResetError
            transport.write(_head(response))
            if not nbytes_per_s:
                await loop.sendfile(transport, source, response.start, response.nbytes)
                return response.nbytes
            begin = loop.time()
            for start in range(response.start, response.stop, SLICE_NBYTES):
                stop = min(start + SLICE_NBYTES, response.stop)
                transport.write(pread(source.fileno(), stop - start, start))
                due = begin + (stop - response.start) / nbytes_per_s
                await asyncio.sleep(max(0.0, due - loop.time()))
        return response.nbytes


def _take_request(received: bytearray) -> Request | None:
    """Take the first request from what was received; None where it is not whole."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = received[:end].decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, colon, value in (line.partition(":") for line in lines)
        if colon
    }
    stop = end + 4 + int(headers.get("content-length", "0"))
    if len(received) < stop:
        return None
    body = bytes(received[end + 4 : stop])
    del received[:stop]
    path, query = _parsed(target)
    return Request(method, path, query, headers, body)


@lru_cache
def _parsed(target: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(target)
    return unquote(parts.path).lstrip("/"), dict(parse_qsl(parts.query, keep_blank_values=True))


def _head(response: Response) -> bytes:
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    lines += [f"Content-Length: {response.nbytes}", "", ""]
    return "\r\n".join(lines).encode()


def _read_file(response: Response, file: Path) -> bytes:
    source = os.open(file, os.O_RDONLY | BINARY)
    try:
        return pread(source, response.nbytes, response.start)
    finally:
        os.close(source)
