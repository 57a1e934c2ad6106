from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tensorlake_server import Settings


@pytest.fixture
def public(lake_path: Path, connect: Callable[..., httpx.Client]) -> httpx.Client:
    settings = Settings(url=str(lake_path), host="0.0.0.0", public_read=True)
    return connect(settings, base_url="http://lake.example.org")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8300", "127.0.0.1.evil.example", ""]
)
def test_a_rebound_name_is_misdirected(client: httpx.Client, host: str) -> None:
    answer = client.get("/v1/datasets", headers={"Host": host})

    assert answer.status_code == 421
    assert answer.json()["code"] == "misdirected-request"


@pytest.mark.parametrize("host", ["localhost:8300", "127.0.0.1", "[::1]:9000", "LOCALHOST"])
def test_loopback_names_are_served_on_any_port_of_a_tunnel(client: httpx.Client, host: str) -> None:
    assert client.get("/v1/datasets", headers={"Host": host}).status_code == 200


def test_data_needs_the_token(stranger: httpx.Client) -> None:
    answer = stranger.get("/v1/datasets")

    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthorized"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer", "Basic test-token", "test-token"])
def test_a_wrong_token_opens_nothing(stranger: httpx.Client, header: str) -> None:
    answer = stranger.get("/v1/datasets", headers={"Authorization": header})

    assert answer.status_code == 401


def test_the_token_is_exchanged_for_a_cookie_that_no_script_reads(stranger: httpx.Client) -> None:
    answer = stranger.post("/v1/session", json={"token": "test-token"})

    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "test-token" not in cookie
    assert stranger.get("/v1/datasets").status_code == 200


def test_a_wrong_token_gets_no_cookie(stranger: httpx.Client) -> None:
    answer = stranger.post("/v1/session", json={"token": "guess"})

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_cookie_of_another_port_opens_nothing(stranger: httpx.Client) -> None:
    stranger.post("/v1/session", json={"token": "test-token"})
    value = stranger.cookies["tensorlake-8300"]
    stranger.cookies.clear()
    stranger.cookies["tensorlake-8301"] = value

    assert stranger.get("/v1/datasets").status_code == 401


def test_a_public_server_asks_for_nothing(public: httpx.Client) -> None:
    assert public.get("/v1/datasets").status_code == 200
    assert public.get("/v1/datasets/pets").json()["url"] is None


def test_a_public_servers_errors_do_not_say_where_the_lake_is(
    public: httpx.Client, lake_path: Path
) -> None:
    answer = public.get("/v1/datasets/nothing")

    assert answer.status_code == 404
    assert str(lake_path) not in answer.text


def test_a_long_body_is_refused_however_it_is_sent(client: httpx.Client) -> None:
    body = b'{"tql": "' + b"x" * (1 << 20) + b'"}'

    def in_pieces() -> Iterator[bytes]:
        yield from (body[start : start + 65536] for start in range(0, len(body), 65536))

    whole = client.post("/v1/datasets/pets/query", content=body)
    pieces = client.post("/v1/datasets/pets/query", content=in_pieces())

    assert whole.status_code == pieces.status_code == 413
    assert whole.json()["code"] == "content-too-large"


def test_every_answer_forbids_guessing_types(stranger: httpx.Client) -> None:
    for path in ("/", "/healthz", "/v1/datasets", "/v1/nothing"):
        assert stranger.get(path).headers["X-Content-Type-Options"] == "nosniff"


def test_health_needs_no_token(stranger: httpx.Client) -> None:
    assert stranger.get("/healthz").text == "ok\n"
    assert stranger.get("/readyz").text == "ok\n"


def test_the_page_loads_and_runs_nothing_but_its_own_files(
    settings: Settings, tmp_path: Path, connect: Callable[..., httpx.Client]
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets/index-abc.js").write_text("1")
    client = connect(replace(settings, static=tmp_path))

    page = client.get("/vision~pets")
    script = client.get("/assets/index-abc.js")

    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert page.headers["Cache-Control"] == "no-cache"
    assert "immutable" in script.headers["Cache-Control"]
    assert client.get("/assets/..%2f..%2fetc%2fpasswd").status_code == 404


def test_a_server_without_its_viewer_says_how_to_build_it(stranger: httpx.Client) -> None:
    answer = stranger.get("/pets")

    assert answer.status_code == 503
    assert "make viewer" in answer.json()["detail"]
