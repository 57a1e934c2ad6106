"""Serve a folder by HTTP and a subset of S3 with a given latency and error rate, for benchmarks.

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
from dataclasses import asdict, dataclass
from datetime import datetime
from email.utils import format_datetime
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode
from urllib.request import urlopen
from xml.sax.saxutils import escape

from tensorlake.errors import InvalidInputError
from tensorlake.storage import LocalStore, ObjectExistsError, ObjectMeta
from tensorlake.testing.child_server import announce, child_server, exit_with_parent
from tensorlake.testing.http_connection import Connection, Request, Response

METHODS: Final = frozenset({"get", "head", "put", "delete", "list"})  # that are counted


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the server behaves."""

    latency_ms: float = 0.0
    jitter_ms: float = 0.0  # added to the latency, evenly between 0 and this
    error_rate: float = 0.0  # share of requests answered by 503, nothing done
    mb_per_s: float = 0.0  # of one connection; 0: unlimited
    slow_rate: float = 0.0  # share of requests that take
    slow_ms: float = 0.0  # … this instead of the latency


@dataclass(slots=True)
class Counters:
    """Counts since the server was started or reset."""

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
        """Return the options of `open_store` for `s3_url`."""
        return {"key": "test", "secret": "test", "endpoint_url": self.endpoint}

    def s3_url(self, path: str) -> str:
        """Return the s3:// URL of a folder of the served folder."""
        return f"s3://{path}"

    def http_url(self, path: str) -> str:
        """Return the http:// URL of a folder of the served folder."""
        return f"{self.endpoint}/{quote(path)}"

    def counters(self) -> Counters:
        """Return the counts so far."""
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


class _Server:
    # a Service of http_connection.py, which documents its methods

    def __init__(self, folder: Path, conditions: Conditions, seed: int) -> None:
        self.folder = folder
        self.store = LocalStore(folder, durability="none")
        self.conditions = conditions
        self.random = random.Random(seed)  # noqa: S311 - jitter and errors, repeatable
        self.counters = Counters()
        self.in_flight = 0

    @property
    def nbytes_per_s(self) -> float:
        return self.conditions.mb_per_s * 1e6

    def control(self, request: Request) -> Response | None:
        if not request.path.startswith("-/"):
            return None
        match request.path:
            case "-/counters":
                return Response(HTTPStatus.OK, json.dumps(asdict(self.counters)).encode())
            case "-/reset":
                self.counters = Counters()
                return Response(HTTPStatus.OK)
            case "-/conditions":
                values = {name: float(value) for name, value in request.query.items()}
                self.conditions = Conditions(**values)
                return Response(HTTPStatus.OK)
            case _:
                return Response(HTTPStatus.NOT_FOUND)

    def begin(self, request: Request, *, is_first: bool) -> float:
        self.in_flight += 1
        counters, conditions = self.counters, self.conditions
        name = "list" if "list-type" in request.query else request.method.lower()
        if name in METHODS:
            setattr(counters, name, getattr(counters, name) + 1)
        counters.requests += 1
        counters.connections += is_first
        counters.bytes_received += len(request.body)
        counters.max_in_flight = max(counters.max_in_flight, self.in_flight)
        if conditions.slow_rate and self.random.random() < conditions.slow_rate:
            return conditions.slow_ms / 1000
        return (conditions.latency_ms + conditions.jitter_ms * self.random.random()) / 1000

    def end(self, sent_nbytes: int) -> None:
        self.in_flight -= 1
        self.counters.bytes_sent += sent_nbytes

    def answer(self, request: Request) -> Response | None:
        if self.conditions.error_rate and self.random.random() < self.conditions.error_rate:
            self.counters.errors += 1
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown")
        try:
            if request.method in {"GET", "HEAD"} and "list-type" not in request.query:
                return self._read(request)
        except InvalidInputError:  # a path that leads out of the folder
            return _error(HTTPStatus.BAD_REQUEST, "InvalidRequest")
        if request.method in {"GET", "PUT", "DELETE"}:
            return None
        return _error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented")

    async def answer_later(self, request: Request) -> Response:
        try:
            match request.method:
                case "PUT":
                    return await self._write(request)
                case "DELETE":
                    await self.store.delete(request.path)
                    return Response(HTTPStatus.NO_CONTENT)
                case _:
                    return await self._list(request)
        except InvalidInputError:  # a path that leads out of the folder
            return _error(HTTPStatus.BAD_REQUEST, "InvalidRequest")

    def _read(self, request: Request) -> Response:
        meta = self.store.look_up(request.path)
        if meta is None:
            return _error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        headers = [
            ("ETag", _etag(meta)),
            ("Last-Modified", _http_date(meta.modified)),
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
        return Response(status, headers=tuple(headers), file=file, start=start, stop=stop)

    async def _write(self, request: Request) -> Response:
        try:
            if request.headers.get("if-none-match") == "*":
                await self.store.put_if_absent(request.path, request.body)
            else:
                await self.store.put(request.path, request.body)
        except ObjectExistsError:
            return _error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        meta = await self.store.head(request.path)
        return Response(HTTPStatus.OK, headers=(("ETag", _etag(meta) if meta else '""'),))

    async def _list(self, request: Request) -> Response:
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
        return Response(HTTPStatus.OK, body.encode(), headers)


@lru_cache
def _http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


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


def _error(status: HTTPStatus, code: str) -> Response:
    headers = (("Content-Type", "application/xml"),)
    return Response(status, f"<Error><Code>{code}</Code></Error>".encode(), headers)


async def _serve(folder: Path, conditions: Conditions, seed: int) -> None:
    server = _Server(folder, conditions, seed)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(partial(Connection, server), "127.0.0.1", 0, backlog=1024)
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
