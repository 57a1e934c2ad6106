"""Heads of requests over real sockets: whom they name, and how long they are."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

TOKEN = "some-token"
WAIT_S = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    lake = tmp_path_factory.mktemp("heads")
    tl.create(str(lake / "pets"), {"x": "int64"}, durability="none").close()
    with listening(create_app(Settings(url=str(lake), token=TOKEN))) as found:
        host, _, port = found.removeprefix("http://").partition(":")
        yield host, int(port)


def status_of(
    address: tuple[str, int], *lines: str, target: str = "/v1/datasets", http: str = "1.1"
) -> int:
    own = f"Authorization: Bearer {TOKEN}", "Connection: close"
    head = "\r\n".join([f"GET {target} HTTP/{http}", *own, *lines])
    with socket.create_connection(address, WAIT_S) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n")
        with connection.makefile("rb") as answer:
            return int(answer.readline().split()[1])


HOST, EVIL = "Host: 127.0.0.1", "Host: evil.example"


def test_a_request_has_one_host(address: tuple[str, int]) -> None:
    assert status_of(address, HOST) == 200
    for lines in ([], [HOST, EVIL], [EVIL, HOST], [HOST, HOST]):
        assert status_of(address, *lines) == 400, lines


def test_a_request_has_one_authorization(address: tuple[str, int]) -> None:
    assert status_of(address, HOST, "Authorization: Bearer other") == 400
    assert status_of(address, HOST, f"Authorization: Bearer {TOKEN}") == 400


def test_the_host_of_an_address_replaces_the_header(address: tuple[str, int]) -> None:
    for target in ("http://evil.example/v1/datasets", "http://me@evil.example:80/v1/datasets?"):
        assert status_of(address, HOST, target=target) == 421
    assert status_of(address, EVIL, target="http://127.0.0.1/v1/datasets") == 200


def test_a_client_of_http_1_0_is_answered(address: tuple[str, int]) -> None:
    assert status_of(address, HOST, http="1.0") == 200


@pytest.mark.parametrize("nbytes", [70_000, 100_000, 200_000])
def test_headers_are_bounded_however_they_arrive(address: tuple[str, int], nbytes: int) -> None:
    assert status_of(address, HOST, f"X: {'a' * nbytes}") == 431
    assert status_of(address, HOST, *[f"X: {'a' * 1000}"] * (nbytes // 1000)) == 431


def test_headers_within_the_bound_are_taken(address: tuple[str, int]) -> None:
    assert status_of(address, HOST, f"X: {'a' * 60_000}") == 200
