"""Bodies that are small and say much: refused before they take memory, off the server's loop (B2).

The server is a process of its own, whose memory is looked at.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pytest
from anyio import CapacityLimiter

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server"))),
}
MIB = 1 << 20
LIMIT = 64 * MIB  # of what one body may bring
GROWTH_MAX = 300 * MIB  # of all bodies below together, each of which says gigabytes
LOGINS = 200
LOGINS_GROWTH_MAX = 100 * MIB  # where each sends nearly a mebibyte
WAIT_S = 150
TRANSACTIONS, QUERY = "/v1/datasets/pets/transactions", "/v1/datasets/pets/query"
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Child:
    client: httpx.Client
    pid: int

    def peak_nbytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmHWM:\s*(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def rows(self) -> int:
        return self.client.get("/v1/datasets/pets").json()["rows"]


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    lake = tmp_path_factory.mktemp("bodies")
    schema = {"x": tl.Scalar("int64", nullable=True), "note": tl.Text(nullable=True)}
    with tl.create(str(lake / "pets"), schema, durability="none") as ds:
        ds.extend({"x": [1, 2], "note": ["a", "b"]})
        ds.commit("two")
    asked = [str(lake), "--write", "--port", "0", f"--max-write-nbytes={LIMIT}"]
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorlake_server", *asked],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None, "the server did not start"
        link = urlsplit(found[0])
        headers = {"Authorization": f"Bearer {link.fragment.removeprefix('token=')}"}
        with httpx.Client(
            base_url=f"http://{link.netloc}", headers=headers, timeout=WAIT_S
        ) as client:
            warm = stream(pa.table({"x": [3], "note": ["c"]}), "zstd")
            assert client.post(TRANSACTIONS, content=warm, headers=ARROW).status_code == 200
            yield Child(client, server.pid)
    finally:
        server.kill()
        server.wait(WAIT_S)
        if server.stdout is not None:
            server.stdout.close()


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def zeros(times: int) -> pa.Table:
    """Columns of the same 32 MiB of zeros."""
    column = pa.array(np.zeros(32 * MIB // 8, np.int64))
    return pa.table({f"x{number}": column for number in range(times)})


def dictionary() -> pa.Table:
    codes = pa.array(np.zeros(MIB, np.int8))
    return pa.table({"note": pa.DictionaryArray.from_arrays(codes, pa.array(["x" * MIB]))})


def views() -> pa.Table:
    """A million texts, each a view of the same mebibyte."""
    view = struct.pack("<i4sii", MIB, b"xxxx", 0, 0)
    buffers = [None, pa.py_buffer(view * MIB), pa.py_buffer(b"x" * MIB)]
    return pa.table({"note": pa.Array.from_buffers(pa.string_view(), MIB, buffers)})


def stated(nbytes: int) -> bytes:
    """A stream whose buffer says that it unpacks to this."""
    whole = stream(pa.table({"x": np.zeros(4096, np.int64)}), "zstd")
    says = struct.pack("<q", 4096 * 8)
    assert whole.count(says) == 1
    return whole.replace(says, struct.pack("<q", nbytes))


def appended(values: bytes) -> bytes:
    return b'{"operations":[{"op":"append","columns":{"x":[' + values + b"]}}]}"


BODIES: dict[str, tuple[str, dict[str, str], Callable[[], bytes]]] = {
    "zstd": (TRANSACTIONS, ARROW, lambda: stream(zeros(4), "zstd")),
    "lz4": (TRANSACTIONS, ARROW, lambda: stream(zeros(3), "lz4")),
    "a length of a tebibyte": (TRANSACTIONS, ARROW, lambda: stated(1 << 40)),
    "a length below none": (TRANSACTIONS, ARROW, lambda: stated(-7)),
    "a dictionary read often": (TRANSACTIONS, ARROW, lambda: stream(dictionary(), "zstd")),
    "views of one text": (TRANSACTIONS, ARROW, lambda: stream(views(), "zstd")),
    "rows of nothing": (TRANSACTIONS, ARROW, lambda: stream(pa.table({"x": pa.nulls(2**31 - 1)}))),
    "lists of nothing": (
        TRANSACTIONS,
        ARROW,
        lambda: stream(pa.table({"x": pa.nulls(1 << 10, pa.list_(pa.null(), 1 << 20))})),
    ),
    "runs": (
        TRANSACTIONS,
        ARROW,
        lambda: stream(
            pa.table({"x": pa.RunEndEncodedArray.from_arrays(pa.array([2**30], pa.int32()), [1])})
        ),
    ),
    "cut off": (TRANSACTIONS, ARROW, lambda: stream(zeros(1), "zstd")[:-100]),
    "no Arrow": (TRANSACTIONS, ARROW, lambda: b"\xff" * 4096),
    "empty arrays": (TRANSACTIONS, JSON, lambda: appended(b"[]," * (10 * MIB) + b"1")),
    "empty objects": (TRANSACTIONS, JSON, lambda: appended(b"{}," * (10 * MIB) + b"1")),
    "all rows wrong": (
        TRANSACTIONS,
        JSON,
        lambda: b'{"operations":[{"op":"delete","rows":[' + b'"",' * 900_000 + b"1]}]}",
    ),
    "deep": (TRANSACTIONS, JSON, lambda: appended(b"[" * 150 + b"]" * 150)),
    "very deep": (TRANSACTIONS, JSON, lambda: appended(b"[" * 300_000 + b"]" * 300_000)),
    "all columns wrong": (
        QUERY,
        JSON,
        lambda: b'{"tql":"","columns":[' + b"1," * 190_000 + b"1]}",
    ),
    "columns beyond number": (
        QUERY,
        JSON,
        lambda: b'{"tql":"","columns":[' + b"1," * 500_000 + b"1]}",
    ),
    "members that there are not": (
        QUERY,
        JSON,
        lambda: b"{" + b",".join(b'"%x":1' % number for number in range(100_000)) + b"}",
    ),
    "a query deep": (QUERY, JSON, lambda: b'{"params":{"x":' + b"[" * 900 + b"]" * 900 + b"}}"),
    **{
        f"packed by {encoding}": (
            TRANSACTIONS,
            {**JSON, "Content-Encoding": encoding},
            lambda: b"\x1f\x8b" + b"\x00" * 1024,
        )
        for encoding in ("gzip", "zstd", "br", "gzip, gzip", "deflate")
    },
}


@pytest.mark.slow
def test_no_body_that_says_gigabytes_takes_them(child: Child) -> None:
    before, rows = child.peak_nbytes(), child.rows()

    for what, (path, headers, make) in BODIES.items():
        answer = child.client.post(path, content=make(), headers=headers)

        assert answer.status_code in (400, 413, 415, 422), f"{what}: {answer.text[:300]}"
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.content) < 4096, what
        assert child.client.get("/healthz").status_code == 200

    assert child.peak_nbytes() - before < GROWTH_MAX
    assert child.rows() == rows


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        (QUERY, JSON, b'{"tql": "WHERE x > 1"}'),
        (TRANSACTIONS, JSON, b'{"operations": [{"op": "delete", "rows": [0]}]}'),
        (TRANSACTIONS, ARROW, None),
        ("/v1/session", JSON, b'{"token": "t"}'),
    ],
)
def test_bodies_wait_for_a_thread_and_others_do_not(
    tmp_path: Path, path: str, headers: dict[str, str], body: bytes | None
) -> None:
    with tl.create(str(tmp_path / "pets"), {"x": "int64"}, durability="none") as ds:
        ds.extend({"x": [1, 2]})
        ds.commit("two")
    app = create_app(Settings(url=str(tmp_path), token="t", write=True))
    threads: CapacityLimiter = app.state.body_threads
    threads.total_tokens = 0
    bearer = {"Authorization": "Bearer t"}

    with (
        listening(app) as address,
        httpx.Client(base_url=address, headers=bearer, timeout=WAIT_S) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        content = body or stream(pa.table({"x": [3]}), "zstd")
        sent = thread.submit(client.post, path, content=content, headers=headers)
        while not sent.done() and threads.statistics().tasks_waiting == 0:
            client.get("/healthz")
        is_waiting = not sent.done()
        health = client.get("/healthz").status_code
        threads.total_tokens = 1
        while not sent.done():
            client.get("/healthz")  # the loop looks at what it was told from here

    assert (is_waiting, health) == (True, 200)
    assert sent.result().status_code in (200, 204)


@pytest.mark.slow
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize(
    "values",
    [
        {"x": pa.array([4, None, 5])},
        {"note": pa.array(["ä", None, "b" * 5000])},
        {"note": pa.array(["a", "b", "a"]).dictionary_encode()},
        {"note": pa.array(["a", "a text longer than twelve", None], pa.string_view())},
        {"x": pa.array([1, 2, 3], pa.int8()), "note": pa.array([None] * 3, pa.null())},
    ],
)
def test_rows_of_every_form_come_through(
    child: Child, values: dict[str, Any], compression: str | None
) -> None:
    before = child.rows()
    table = pa.table({"x": pa.nulls(3, pa.int64()), "note": pa.nulls(3, pa.string()), **values})

    answer = child.client.post(
        TRANSACTIONS, content=stream(table.slice(1), compression), headers=ARROW
    )

    assert answer.status_code == 200, answer.text
    page = child.client.get("/v1/datasets/pets/rows", params={"offset": before}).json()["rows"]
    assert page[0]["x"] == table["x"][1].as_py()
    assert child.rows() == before + 2


@pytest.mark.slow
def test_logins_that_do_not_end_hold_nothing(child: Child) -> None:
    """B3: 500 of them held 620 MiB."""
    before = child.peak_nbytes()
    address = (child.client.base_url.host, child.client.base_url.port or 0)
    head = b"POST /v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack:
        for number in range(LOGINS):
            connection = stack.enter_context(socket.create_connection(address, WAIT_S))
            length = b"Content-Length: 1000000" if number % 2 else b"Transfer-Encoding: chunked"
            with suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(head + length + b"\r\n\r\nF0000\r\n" + b" " * 0xF0000)
        assert child.client.get("/healthz").status_code == 200

        assert child.peak_nbytes() - before < LOGINS_GROWTH_MAX
