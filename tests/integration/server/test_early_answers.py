"""Requests that are refused before their bodies have come: one answer, and the connection ends."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

LIMIT = 1 << 20
WAIT_S = 60


def request(address: str, line: str, **headers: str) -> bytes:
    named = {"Host": address, "Content-Type": "application/json", **headers}
    lines = [line, *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@pytest.mark.parametrize(("token", "status"), [("wrong", b"401"), ("right", b"413")])
@pytest.mark.parametrize("filling", [b"x", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_one_answer_is_sent_to_a_request_that_is_refused_early(
    tmp_path: Path, token: str, status: bytes, filling: bytes
) -> None:
    tl.create(str(tmp_path / "pets"), {"x": "int64"}, durability="none").close()
    app = create_app(Settings(url=str(tmp_path), token="right", write=True, max_write_nbytes=LIMIT))
    nbytes = LIMIT + 200_000
    body = (filling * (nbytes // len(filling) + 1))[:nbytes]
    said = b""

    with listening(app) as url:
        address = url.removeprefix("http://")
        host, _, port = address.partition(":")
        authorized = {"Authorization": f"Bearer {token}"}
        line = "POST /v1/datasets/pets/transactions HTTP/1.1"
        begun = request(address, line, Content_Length=str(nbytes), **authorized)
        next_one = request(address, "GET /healthz HTTP/1.1", Connection="close")
        with socket.create_connection((host, int(port)), WAIT_S) as connection:
            connection.sendall(begun)
            with suppress(OSError):  # it may be closed before all is sent
                connection.sendall(body + next_one)
            with suppress(ConnectionResetError):
                while piece := connection.recv(1 << 16):
                    said += piece

    assert said.startswith(b"HTTP/1.1 " + status)
    assert said.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in said
