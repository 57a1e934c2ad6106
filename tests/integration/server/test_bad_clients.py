"""Clients that are slow, go away, or send what is none: the server gives them up and serves others.

Over real sockets. What is waited for is always that the server ends a connection; how soon depends
on the machine and is not asked.
"""

from __future__ import annotations

import json
import logging
import select
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

TOKEN = "some-token"
PATIENCE_S = 0.5
ATTEMPTS = 20  # on a machine so busy that this patience ends before anything is sent
WAIT_S = 60
QUERY = "POST /v1/datasets/pets/query HTTP/1.1"
BODY = b'{"tql": "WHERE x > 3", "limit": 0}'


@dataclass(frozen=True)
class Server:
    address: tuple[str, int]
    sockets: list[socket.socket] = field(default_factory=list)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self.address, WAIT_S)
        self.sockets.append(connection)
        return connection

    def headers(self, line: str, **more: str) -> bytes:
        host, port = self.address
        sent = {"Host": f"{host}:{port}", "Authorization": f"Bearer {TOKEN}"}
        sent |= {"Content_Type": "application/json", "Connection": "close", **more}
        lines = [line, *(f"{name.replace('_', '-')}: {value}" for name, value in sent.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def serves(self) -> bool:
        """Whether somebody else is answered, by a route that reads the lake.

        Asked again when a busy machine was slower than the patience that these tests set.
        """
        host, port = self.address
        request = self.headers(QUERY, Content_Length=str(len(BODY))) + BODY
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            with socket.create_connection((host, port), WAIT_S) as connection:
                connection.sendall(request)
                said = answer_of(connection)
            if said.startswith(b"HTTP/1.1 200 "):
                return b'"rows":4' in said
        return False


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    lake = tmp_path_factory.mktemp("bad-clients")
    with tl.create(
        str(lake / "pets"), {"x": "int64", "big": tl.Array("uint8", (1 << 20,))}, durability="none"
    ) as ds:
        ds.extend({"x": np.arange(8), "big": np.zeros((8, 1 << 20), np.uint8)})
        ds.commit("eight")
    app = create_app(
        Settings(
            url=str(lake),
            token=TOKEN,
            write=True,
            header_patience_s=PATIENCE_S,
            body_patience_s=PATIENCE_S,
            answer_patience_s=PATIENCE_S,
        )
    )
    with listening(app) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


@pytest.fixture
def server(address: tuple[str, int], caplog: pytest.LogCaptureFixture) -> Iterator[Server]:
    """The server; what a client does is no fault of its, to be logged as one."""
    made = Server(address)
    yield made
    for one in made.sockets:
        one.close()
    logged = caplog.get_records("call")
    assert [one.getMessage() for one in logged if one.levelno >= logging.ERROR] == []


def problem_in(said: bytes) -> dict[str, Any]:
    """The problem that an answer is."""
    headers, _, body = said.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in headers
    return json.loads(body)


def answer_of(connection: socket.socket) -> bytes:
    """All that the server sends until it ends the connection."""
    connection.settimeout(WAIT_S)
    pieces: list[bytes] = []
    try:
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    except ConnectionResetError:
        pass  # it was aborted, which ends it too
    return b"".join(pieces)


def drip(connection: socket.socket, piece: bytes) -> bytes:
    """Send a piece again and again, slowly, until the server ends the connection; what it said."""
    connection.settimeout(PATIENCE_S / 10)
    said = b""
    for _ in range(int(WAIT_S / (PATIENCE_S / 10))):
        try:
            connection.sendall(piece)
            more = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return said
        if not more:
            return said
        said += more
    raise AssertionError("the server waits for ever")


def say_no_more(connection: socket.socket) -> None:
    """Let the server read the end of what was sent; nothing where it has given up already."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def said_to(server: Server, begun: bytes, piece: bytes) -> bytes:
    """What the server says to a request that goes on, piece by piece, for ever."""
    for _ in range(ATTEMPTS):
        connection = server.connect()
        connection.sendall(begun)
        if said := drip(connection, piece):
            return said
    return b""


def test_a_connection_that_asks_nothing_is_closed(server: Server) -> None:
    assert answer_of(server.connect()) == b""


@pytest.mark.parametrize("piece", [b"X-More: 1\r\n", b"a"])
def test_headers_that_never_end_are_timed_out(server: Server, piece: bytes) -> None:
    said = said_to(server, b"GET /v1/datasets HTTP/1.1\r\nX-First: ", piece)

    assert said.startswith(b"HTTP/1.1 408 ")
    assert problem_in(said)["code"] == "request-timeout"


def test_empty_lines_are_no_request_either(server: Server) -> None:
    drip(server.connect(), b"\r\n")


def test_headers_without_an_end_are_not_kept(server: Server) -> None:
    said = b""
    for _ in range(ATTEMPTS):
        connection = server.connect()
        connection.sendall(b"GET /v1/datasets HTTP/1.1\r\nX-First: ")
        connection.settimeout(WAIT_S)
        with suppress(ConnectionResetError, BrokenPipeError):  # it takes no more: what is asked
            for _ in range(64):
                connection.sendall(b"a" * (64 << 10))
        said = answer_of(connection)
        if not said.startswith(b"HTTP/1.1 408 "):  # or so slowly that it went by the time instead
            break

    assert said[:12] in (b"", b"HTTP/1.1 431")
    assert server.serves()


def test_the_second_request_of_a_connection_is_timed_out_too(server: Server) -> None:
    whole = server.headers("GET /healthz HTTP/1.1", Connection="keep-alive")

    said = said_to(server, whole + b"GET /healthz HTTP/1.1\r\nX-First: ", b"a")

    assert said.startswith(b"HTTP/1.1 200 ")  # to the first
    assert said.count(b" 200 ") == 1


def test_a_body_that_drips_is_timed_out_with_a_problem(server: Server) -> None:
    begun = server.headers(QUERY, Content_Length="100000") + b'{"tql": "'

    said = said_to(server, begun, b" ")

    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"request-timeout"' in said
    assert b"connection: close" in said


def test_what_follows_a_refusal_is_not_waited_for(server: Server) -> None:
    wrong = {"Authorization": "Bearer wrong", "Connection": "keep-alive"}

    said = said_to(server, server.headers(QUERY, Content_Length="9999", **wrong) + b"{", b" ")

    assert said.startswith(b"HTTP/1.1 401 ")


@pytest.mark.slow
def test_who_reads_nothing_of_an_answer_is_given_up(server: Server) -> None:
    connection = server.connect()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line = "GET /v1/datasets/pets/rows?columns=big HTTP/1.1"
    asked = server.headers(line, Accept="application/x-npz", Connection="keep-alive")
    connection.sendall(asked * 4)  # 32 MB of answers: more than sockets keep

    assert server.serves()
    until = time.monotonic() + WAIT_S
    while is_open(connection) and time.monotonic() < until:
        answer_of(server.connect())  # the server closes it after the same patience

    assert not is_open(connection)


def is_open(connection: socket.socket) -> bool:
    """Whether the other end still holds a connection, without reading what it sent."""
    try:
        connection.sendall(b"\r\n")
    except (ConnectionResetError, BrokenPipeError):
        return False
    return True


def test_many_slow_clients_do_not_keep_others_from_being_served(server: Server) -> None:
    slow = [server.connect() for _ in range(200)]
    for number, connection in enumerate(slow):
        begun = b"GET /v1/datasets HT" if number % 2 else server.headers(QUERY, Content_Length="9")
        connection.sendall(begun)

    assert server.serves()
    with ThreadPoolExecutor(16) as readers:
        answers = list(readers.map(answer_of, slow))

    assert {answer[:12] for answer in answers} <= {b"HTTP/1.1 408", b""}
    assert server.serves()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"NONSENSE / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\n: nameless\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"\x00" * 4096,
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_ended(
    server: Server, sent: bytes
) -> None:
    connection = server.connect()

    connection.sendall(sent)
    said = answer_of(connection)

    assert b" 200 " not in said.partition(b"\r\n")[0]
    assert b" 500 " not in said
    assert server.serves()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/datasets/p\x00 HTTP/1.1\r\n\r\n",
        "GET /v1/datasets/é HTTP/1.1\r\n\r\n".encode(),
        b"GET /?" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["nul", "not ascii", "long", "negative length"],
)
def test_what_is_no_request_is_answered_by_a_problem(server: Server, sent: bytes) -> None:
    connection = server.connect()

    connection.sendall(sent)
    problem = problem_in(answer_of(connection))

    assert problem["status"] in (400, 431)
    assert problem["code"] in ("bad-request", "headers-too-large")


@pytest.mark.parametrize("kept", [0, 1, 20, len(BODY) - 1])
def test_a_body_that_is_cut_off_is_no_request(server: Server, kept: int) -> None:
    connection = server.connect()
    connection.sendall(server.headers(QUERY, Content_Length=str(len(BODY))) + BODY[:kept])
    say_no_more(connection)

    said = answer_of(connection)

    assert b" 200 " not in said
    assert server.serves()


def test_a_transaction_that_is_cut_off_commits_nothing(server: Server) -> None:
    whole = b'{"operations": [{"op": "delete", "rows": [0]}]}'
    line = "POST /v1/datasets/pets/transactions HTTP/1.1"
    for kept in range(0, len(whole), 5):
        connection = server.connect()
        connection.sendall(server.headers(line, Content_Length=str(len(whole))) + whole[:kept])
        say_no_more(connection)
        answer_of(connection)

    assert server.serves()  # all eight rows are there


def test_clients_that_go_at_once_cost_nothing(server: Server) -> None:
    for _ in range(50):
        with closing(server.connect()) as connection:
            connection.sendall(server.headers(QUERY, Content_Length=str(len(BODY))) + BODY)

    assert server.serves()


def test_a_body_longer_than_allowed_is_refused_before_it_is_sent(server: Server) -> None:
    said = said_to(server, server.headers(QUERY, Content_Length=str(1 << 30)), b"")

    assert said.startswith(b"HTTP/1.1 413 ")


@pytest.mark.slow
def test_chunks_longer_than_allowed_are_refused_as_they_come(server: Server) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    said = said_to(server, server.headers(QUERY, Transfer_Encoding="chunked"), chunk)

    assert said[:12] in (b"HTTP/1.1 413", b"")  # nothing where it was cut off while it sent more
    assert server.serves()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """A server with room for few connections, and for few bytes of bodies and answers."""
    lake = tmp_path_factory.mktemp("crowded")
    schema = {"x": "int64", "big": tl.Array("uint8", (1 << 20,))}
    with tl.create(str(lake / "pets"), schema, durability="none") as ds:
        ds.extend({"x": np.arange(8), "big": np.zeros((8, 1 << 20), np.uint8)})
        ds.commit("eight")
    settings = Settings(
        url=str(lake), token=TOKEN, write=True, max_connections=ROOM, max_held_nbytes=HELD_NBYTES
    )
    with listening(create_app(settings)) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


ROOM = 12
HELD_NBYTES = 4 << 20
WRITE = "POST /v1/datasets/pets/transactions HTTP/1.1"


@pytest.fixture
def small(crowded: tuple[str, int]) -> Iterator[Server]:
    made = Server(crowded)
    yield made
    for one in made.sockets:
        one.close()


def test_a_connection_beyond_the_room_takes_that_of_who_asks_nothing_for_longest(
    small: Server,
) -> None:
    idle = [small.connect() for _ in range(4 * ROOM)]

    assert small.serves()
    ended = [one for one in idle if select.select([one], [], [], 0)[0]]

    assert len(ended) > 3 * ROOM
    assert {answer_of(one) for one in ended} == {b""}


def test_where_all_connections_ask_something_one_more_is_refused_in_words(small: Server) -> None:
    asked = small.headers(QUERY, Content_Length=str(len(BODY)), Connection="keep-alive")
    for _ in range(ROOM):
        connection = small.connect()
        connection.sendall(asked)  # and no body

    said = answered_by(small, lambda said: said.startswith(b"HTTP/1.1 503 "))

    assert problem_in(said)["code"] == "too-many-connections"
    for connection in small.sockets:
        connection.close()
    assert small.serves()


def answered_by(server: Server, is_it: Callable[[bytes], bool]) -> bytes:
    """Ask until the answer is one: what others sent before may still be on its way."""
    for _ in range(ATTEMPTS * 50):
        with closing(server.connect()) as connection:
            with suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(server.headers(QUERY, Content_Length=str(len(BODY))) + BODY)
            if is_it(said := answer_of(connection)):
                return said
    raise AssertionError(f"never: {said[:200]!r}")


def test_strangers_who_begin_a_login_do_not_keep_out_those_who_are_known(small: Server) -> None:
    login = small.headers(
        "POST /v1/session HTTP/1.1", Content_Length="100", Connection="keep-alive"
    )
    for _ in range(4 * ROOM):
        connection = small.connect()
        connection.sendall(login + b"{")

    assert small.serves()


def test_bodies_that_are_under_way_are_held_up_to_a_bound(small: Server) -> None:
    part = b" " * (HELD_NBYTES // 2 - 100)
    begun = small.headers(WRITE, Content_Length=str(len(part) + 100), Connection="keep-alive")
    both = [small.connect() for _ in range(2)]
    for connection in both:
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(begun + part)

    refused = select.select(both, [], [], WAIT_S)[0]
    said = first_answer_of(refused[0])

    assert len(refused) == 1  # whose bytes came later
    assert said.startswith(b"HTTP/1.1 503 ")
    assert problem_in(said)["code"] == "too-many-bytes"
    assert b"retry-after: 1" in said
    for connection in both:
        connection.close()
    assert small.serves()


def first_answer_of(connection: socket.socket) -> bytes:
    """A problem that is sent on a connection which is kept."""
    said = b""
    while not said.endswith(b"}"):
        piece = connection.recv(1 << 16)
        assert piece
        said += piece
    return said


def test_an_answer_waits_for_its_reader_only_within_the_bound(small: Server) -> None:
    line = "GET /v1/datasets/pets/rows?columns=big HTTP/1.1"
    asked = small.headers(line, Accept="application/x-npz")
    slow = small.connect()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(asked)
    assert slow.recv(12) == b"HTTP/1.1 200"  # 8 MiB, of which it reads no more

    another = small.connect()
    another.sendall(asked)
    said = answer_of(another)
    slow.close()

    assert said.startswith(b"HTTP/1.1 503 ")
    assert problem_in(said)["code"] == "too-many-bytes"
    for _ in range(ATTEMPTS * 50):
        again = small.connect()
        again.sendall(asked)
        if answer_of(again).startswith(b"HTTP/1.1 200 "):
            return
    raise AssertionError("what nobody reads any more is held for ever")


def test_a_login_is_short_and_nothing_of_a_long_one_is_held(server: Server) -> None:
    line = "POST /v1/session HTTP/1.1"
    stated = server.connect()
    stated.sendall(server.headers(line, Content_Length="1000000") + b"{")
    chunked = server.connect()
    chunked.sendall(
        server.headers(line, Transfer_Encoding="chunked") + b"5000\r\n" + b" " * 0x5000 + b"\r\n"
    )

    for connection in (stated, chunked):
        said = answer_of(connection)
        assert said.startswith(b"HTTP/1.1 413 ")
        assert "16,384" in problem_in(said)["detail"]
