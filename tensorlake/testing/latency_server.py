"""A folder behind HTTP and enough of S3, as slow and as unreliable as asked: for benchmarks.

    with latency_server(folder, latency_ms=20) as server:
        store = open_store(server.s3_url("bucket"), storage_options=server.storage_options)
        …
        server.counters().requests

    <folder>/<bucket>/<key>      GET and HEAD with ranges, PUT (If-None-Match: *), DELETE
    /<bucket>?list-type=2        ListObjectsV2
    /-/counters  /-/reset  /-/conditions    for the parent; neither delayed nor counted

Every request first waits its latency, any number of them at the same time; bandwidth is that of one
connection, as S3 limits it.  Signatures are not checked.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from argparse import ArgumentParser
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from email.utils import format_datetime
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from urllib.request import urlopen
from xml.sax.saxutils import escape

from tensorlake.errors import InvalidInputError
from tensorlake.storage import LocalStore, ObjectExistsError, ObjectMeta
from tensorlake.testing.child_server import announce, child_server, exit_with_parent

SLICE_NBYTES: Final = 128 * 1024  # sent between two waits where bandwidth is limited
SENDFILE_NBYTES: Final = 64 * 1024  # below, one write of head and body is cheaper
MAX_HEAD_NBYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the server behaves."""

    latency_ms: float = 0.0
    jitter_ms: float = 0.0  # added to the latency, evenly between 0 and this
    error_rate: float = 0.0  # share of requests answered by 503, nothing done
    mb_per_s: float = 0.0  # of one connection; 0: unlimited


@dataclass(slots=True)
class Counters:
    """What the server has seen since it was started or reset."""

    requests: int = 0
    get: int = 0
    head: int = 0
    put: int = 0
    delete: int = 0
    list: int = 0
    errors: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    max_in_flight: int = 0
    connections: int = 0


@dataclass(frozen=True, slots=True)
class LatencyServer:
    """A running server, and how to reach it."""

    endpoint: str

    @property
    def storage_options(self) -> dict[str, str]:
        """Return what `open_store` needs for `s3_url`."""
        return {"key": "test", "secret": "test", "endpoint_url": self.endpoint}

    def s3_url(self, path: str) -> str:
        """Return the s3:// URL of a folder of the served folder."""
        return f"s3://{path}"

    def http_url(self, path: str) -> str:
        """Return the http:// URL of a folder of the served folder."""
        return f"{self.endpoint}/{quote(path)}"

    def counters(self) -> Counters:
        """Return what was counted so far."""
        return Counters(**json.loads(self._ask("counters")))

    def reset(self) -> None:
        """Set the counters to zero."""
        self._ask("reset")

    def set_conditions(self, conditions: Conditions) -> None:
        """Change how the server behaves from the next request on."""
        self._ask(f"conditions?{urlencode(asdict(conditions))}")

    def _ask(self, what: str) -> bytes:
        with urlopen(f"{self.endpoint}/-/{what}", timeout=60) as answer:  # noqa: S310 - our own endpoint
            return answer.read()


@contextmanager
def latency_server(
    folder: str | os.PathLike[str],
    *,
    latency_ms: float = 0.0,
    jitter_ms: float = 0.0,
    error_rate: float = 0.0,
    mb_per_s: float = 0.0,
    seed: int = 0,
) -> Generator[LatencyServer]:
    """Serve a folder for the duration of the block; its first-level folders are buckets."""
    conditions = Conditions(latency_ms, jitter_ms, error_rate, mb_per_s)
    arguments = [os.fspath(folder), json.dumps(asdict(conditions)), str(seed)]
    with child_server("tensorlake.testing.latency_server", arguments) as endpoint:
        yield LatencyServer(endpoint)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Response:
    status: HTTPStatus
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    file: Path | None = None  # the body is bytes [start, stop) of it
    start: int = 0
    stop: int = 0

    @property
    def nbytes(self) -> int:
        return self.stop - self.start if self.file else len(self.body)


class _Server:
    def __init__(self, folder: Path, conditions: Conditions, seed: int) -> None:
        self.folder = folder
        self.store = LocalStore(folder, durability="none")
        self.conditions = conditions
        self.random = random.Random(seed)  # noqa: S311 - jitter and errors, repeatable
        self.counters = Counters()
        self.in_flight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after another."""
        is_counted = False
        try:
            while True:
                request = await _read_request(reader)
                if request.path.startswith("-/"):
                    await self._send(writer, request, self._control(request))
                    continue
                self.counters.connections += not is_counted
                is_counted = True
                self.in_flight += 1
                try:
                    self._count(request)
                    await self._send(writer, request, await self._answer(request))
                finally:
                    self.in_flight -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed its connection
        finally:
            writer.close()

    def _control(self, request: _Request) -> _Response:
        match request.path:
            case "-/counters":
                return _Response(HTTPStatus.OK, json.dumps(asdict(self.counters)).encode())
            case "-/reset":
                self.counters = Counters()
                return _Response(HTTPStatus.OK)
            case "-/conditions":
                values = {name: float(value) for name, value in request.query.items()}
                self.conditions = Conditions(**values)
                return _Response(HTTPStatus.OK)
            case _:
                return _Response(HTTPStatus.NOT_FOUND)

    def _count(self, request: _Request) -> None:
        counters = self.counters
        name = "list" if "list-type" in request.query else request.method.lower()
        if name in {counter.name for counter in fields(counters)}:
            setattr(counters, name, getattr(counters, name) + 1)
        counters.requests += 1
        counters.bytes_received += len(request.body)
        counters.max_in_flight = max(counters.max_in_flight, self.in_flight)

    async def _answer(self, request: _Request) -> _Response:
        conditions = self.conditions
        delay_ms = conditions.latency_ms + conditions.jitter_ms * self.random.random()
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        if conditions.error_rate and self.random.random() < conditions.error_rate:
            self.counters.errors += 1
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown")
        try:
            if "list-type" in request.query:
                return await self._list(request)
            match request.method:
                case "GET" | "HEAD":
                    return await self._read(request)
                case "PUT":
                    return await self._write(request)
                case "DELETE":
                    await self.store.delete(request.path)
                    return _Response(HTTPStatus.NO_CONTENT)
                case _:
                    return _error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented")
        except InvalidInputError:  # a path that leads out of the folder
            return _error(HTTPStatus.BAD_REQUEST, "InvalidRequest")

    async def _read(self, request: _Request) -> _Response:
        meta = await self.store.head(request.path)
        if meta is None:
            return _error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        headers = [
            ("ETag", _etag(meta)),
            ("Last-Modified", format_datetime(meta.modified, usegmt=True)),
            ("Accept-Ranges", "bytes"),
        ]
        status, start, stop = HTTPStatus.OK, 0, meta.nbytes
        if "range" in request.headers:
            start, stop = _range(request.headers["range"], meta.nbytes)
            if start >= stop:
                return _error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
            status = HTTPStatus.PARTIAL_CONTENT
            headers.append(("Content-Range", f"bytes {start}-{stop - 1}/{meta.nbytes}"))
        file = self.folder / request.path
        return _Response(status, headers=tuple(headers), file=file, start=start, stop=stop)

    async def _write(self, request: _Request) -> _Response:
        try:
            if request.headers.get("if-none-match") == "*":
                await self.store.put_if_absent(request.path, request.body)
            else:
                await self.store.put(request.path, request.body)
        except ObjectExistsError:
            return _error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        meta = await self.store.head(request.path)
        return _Response(HTTPStatus.OK, headers=(("ETag", _etag(meta) if meta else '""'),))

    async def _list(self, request: _Request) -> _Response:
        query, bucket = request.query, f"{request.path.strip('/')}/"
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token", query.get("start-after", ""))
        limit = int(query.get("max-keys", "1000"))
        found: dict[str, str] = {}  # name or common prefix → its element, in order
        async for meta in self.store.list(bucket + prefix):
            name = meta.path.removeprefix(bucket)
            folder, slash, _ = name[len(prefix) :].partition(delimiter or "\0")
            if slash:
                name = prefix + folder + slash
                element = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            else:
                element = _contents(name, meta)
            if name > after:
                found[name] = element
        page = [*islice(found, limit)]
        token = ""
        if is_truncated := len(found) > limit:
            token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        body = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<Name>{escape(bucket[:-1])}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{limit}</MaxKeys>"
            f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated>{token}"
            f"{''.join(found[name] for name in page)}</ListBucketResult>"
        )
        headers = (("Content-Type", "application/xml"),)
        return _Response(HTTPStatus.OK, body.encode(), headers)

    async def _send(
        self, writer: asyncio.StreamWriter, request: _Request, response: _Response
    ) -> None:
        lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in response.headers]
        lines += [f"Content-Length: {response.nbytes}", "", ""]
        head = "\r\n".join(lines).encode()
        if request.method == "HEAD" or response.nbytes == 0:
            writer.write(head)
        elif response.file is None:
            writer.write(head + response.body)
        else:
            await self._send_file(writer, head, response, response.file)
        await writer.drain()
        if request.method != "HEAD":
            self.counters.bytes_sent += response.nbytes

    async def _send_file(
        self, writer: asyncio.StreamWriter, head: bytes, response: _Response, file: Path
    ) -> None:
        loop, bandwidth = asyncio.get_running_loop(), self.conditions.mb_per_s * 1e6
        with file.open("rb") as source:
            if bandwidth:
                writer.write(head)
                begin = loop.time()
                for start in range(response.start, response.stop, SLICE_NBYTES):
                    stop = min(start + SLICE_NBYTES, response.stop)
                    writer.write(os.pread(source.fileno(), stop - start, start))
                    await writer.drain()
                    due = begin + (stop - response.start) / bandwidth
                    await asyncio.sleep(max(0.0, due - loop.time()))
            elif response.nbytes < SENDFILE_NBYTES:
                writer.write(head + os.pread(source.fileno(), response.nbytes, response.start))
            else:
                writer.write(head)
                await loop.sendfile(writer.transport, source, response.start, response.nbytes)


async def _read_request(reader: asyncio.StreamReader) -> _Request:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, colon, value in (line.partition(":") for line in lines)
        if colon
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return _Request(method, unquote(parts.path).lstrip("/"), query, headers, body)


def _range(header: str, nbytes: int) -> tuple[int, int]:
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, nbytes - int(last)), nbytes
    return int(first), min(nbytes, int(last) + 1) if last else nbytes


def _contents(name: str, meta: ObjectMeta) -> str:
    return (
        f"<Contents><Key>{escape(name)}</Key><Size>{meta.nbytes}</Size>"
        f"<LastModified>{meta.modified:%Y-%m-%dT%H:%M:%SZ}</LastModified>"  # whole, as in headers
        f"<ETag>{escape(_etag(meta))}</ETag></Contents>"
    )


def _etag(meta: ObjectMeta) -> str:
    return f'"{int(meta.modified.timestamp() * 1e6):x}-{meta.nbytes:x}"'


def _error(status: HTTPStatus, code: str) -> _Response:
    headers = (("Content-Type", "application/xml"),)
    return _Response(status, f"<Error><Code>{code}</Code></Error>".encode(), headers)


async def _serve(folder: Path, conditions: Conditions, seed: int) -> None:
    server = _Server(folder, conditions, seed)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=MAX_HEAD_NBYTES)
    announce(listener.sockets[0].getsockname()[1])
    async with listener:
        await listener.serve_forever()


def main() -> None:
    """Serve until the parent is gone."""
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("conditions", type=json.loads)
    parser.add_argument("seed", type=int)
    arguments = parser.parse_args()
    exit_with_parent()
    asyncio.run(_serve(arguments.folder, Conditions(**arguments.conditions), arguments.seed))
