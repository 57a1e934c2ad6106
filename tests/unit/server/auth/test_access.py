"""Who is let in, and how far."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tensorlake_server import Settings
from tensorlake_server.auth.tokens import create_token, revoke_token

NOW = datetime.now(UTC)
ELSEWHERE = "http://lake.example.org"
Connect = Callable[..., httpx.Client]


@dataclass(frozen=True)
class Door:
    """A server on a public address with a token file, and ways to come in."""

    settings: Settings
    auth: Path
    connect: Connect

    def token(self, *scopes: str, expires: datetime | None = None) -> tuple[str, str]:
        secret, stored = create_token(self.auth, name="ci", scopes=scopes, expires=expires, now=NOW)
        return secret, stored.id

    def client(self, token: str | None = None, **changes: object) -> httpx.Client:
        settings = replace(self.settings, **changes)
        return self.connect(settings, base_url=ELSEWHERE, token=token)

    def scoped(self, *scopes: str) -> httpx.Client:
        return self.client(self.token(*scopes)[0])


@pytest.fixture
def door(settings: Settings, tmp_path: Path, connect: Connect) -> Door:
    auth = tmp_path / "tokens.json"
    create_token(auth, name="first", scopes=["read"], expires=None, now=NOW)
    return Door(replace(settings, host="0.0.0.0", auth=auth), auth, connect)


def names(client: httpx.Client) -> list[str]:
    return [one["name"] for one in client.get("/v1/datasets").json()["datasets"]]


def test_nobody_comes_in_without_a_token(door: Door) -> None:
    assert door.client().get("/v1/datasets").status_code == 401


def test_the_link_of_a_loopback_server_opens_nothing_elsewhere(door: Door) -> None:
    token = door.settings.token

    assert door.client(token).get("/v1/datasets").status_code == 401
    assert door.client().post("/v1/session", json={"token": token}).status_code == 401
    assert "token" not in door.settings.link()


def test_a_token_sees_its_datasets_and_no_others(door: Door) -> None:
    client = door.scoped("read:vision/*")

    assert names(client) == ["vision/digits"]
    assert client.get("/v1/datasets/vision~digits/rows").status_code == 200


def test_what_may_not_be_read_is_not_there(door: Door) -> None:
    client = door.scoped("read:vision/*")

    hidden, absent = client.get("/v1/datasets/pets"), client.get("/v1/datasets/none")

    assert hidden.status_code == absent.status_code == 404
    assert hidden.json() == json.loads(absent.text.replace("none", "pets"))


def test_a_view_of_another_dataset_opens_nothing(door: Door) -> None:
    everything = door.scoped("read")
    view = everything.post("/v1/datasets/pets/query", json={"tql": "WHERE true"}).json()["view"]
    client = door.scoped("read:vision/*")

    for dataset in ("pets", "vision~digits"):
        answer = client.get(f"/v1/datasets/{dataset}/rows", params={"view": view})
        assert answer.status_code == 404


def test_an_expired_token_says_so(door: Door) -> None:
    secret, _ = door.token("read", expires=NOW - timedelta(seconds=1))

    answer = door.client(secret).get("/v1/datasets")

    assert answer.status_code == 401
    assert "expired" in answer.json()["detail"]


def test_a_revocation_holds_at_once_for_the_token_and_its_cookie(door: Door) -> None:
    secret, token_id = door.token("read")
    client = door.client(secret)
    browser = door.client()
    assert browser.post("/v1/session", json={"token": secret}).status_code == 204
    assert (names(client), names(browser)) == (["pets", "vision/digits"],) * 2

    revoke_token(door.auth, token_id, now=NOW)

    assert client.get("/v1/datasets").status_code == 401
    assert browser.get("/v1/datasets").status_code == 401


def test_the_cookie_gives_neither_token_nor_digest_away(door: Door) -> None:
    secret, _ = door.token("read")

    cookie = door.client().post("/v1/session", json={"token": secret}).headers["set-cookie"]

    digests = [token["digest"] for token in json.loads(door.auth.read_text())["tokens"]]
    assert not [one for one in [secret, secret.split("_", 2)[2], *digests] if one in cookie]


def test_a_cookie_is_known_to_the_replicas_that_share_the_key(door: Door) -> None:
    secret, _ = door.token("read")
    first, second = door.client(), door.client()
    stranger = door.client(signing_key=b"another key")

    first.post("/v1/session", json={"token": secret})
    for other in (second, stranger):
        other.cookies.update(first.cookies)

    assert second.get("/v1/datasets").status_code == 200
    assert stranger.get("/v1/datasets").status_code == 401


def test_everybody_reads_a_public_server_but_a_wrong_token_is_refused(door: Door) -> None:
    assert door.client(public_read=True).get("/v1/datasets").status_code == 200
    assert door.client("wrong", public_read=True).get("/v1/datasets").status_code == 401


def test_a_token_file_that_broke_lets_nobody_in(door: Door) -> None:
    secret, _ = door.token("read")
    client = door.client(secret)
    door.auth.write_text("{")

    answer = client.get("/v1/datasets")

    assert answer.status_code == 503
    assert answer.json()["code"] == "tokens-unreadable"
    assert str(door.auth) not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:8300"},
    ],
)
def test_a_page_of_another_site_can_do_nothing(
    client: httpx.Client, headers: dict[str, str]
) -> None:
    answer = client.post("/v1/datasets/pets/query", json={"tql": "WHERE true"}, headers=headers)

    assert answer.status_code == 403
    assert answer.json()["code"] == "cross-site"
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://127.0.0.1:8300"}, {"Sec-Fetch-Site": "same-origin"}]
)
def test_the_servers_own_page_may_ask(client: httpx.Client, headers: dict[str, str]) -> None:
    answer = client.post("/v1/datasets/pets/query", json={"tql": "WHERE true"}, headers=headers)

    assert answer.status_code == 200


def test_no_answer_invites_another_site(client: httpx.Client) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}

    for method in ("OPTIONS", "GET"):
        answer = client.request(method, "/v1/datasets", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_the_audit_log_says_who_did_what_and_holds_no_secret(door: Door, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    secret, token_id = door.token("read:pets")
    client = door.client(secret, audit_log=log)

    view = client.post("/v1/datasets/pets/query", json={"tql": "WHERE score > 0.9"}).json()["view"]
    client.get("/v1/datasets/pets/rows", params={"view": view})
    refused = door.client("wrong", audit_log=log).get("/v1/datasets")

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(one["who"], one["method"], one["path"], one["status"]) for one in lines] == [
        (f"token:{token_id}:ci", "POST", "/v1/datasets/pets/query", 200),
        (f"token:{token_id}:ci", "GET", "/v1/datasets/pets/rows", 200),
        ("nobody", "GET", "/v1/datasets", 401),
    ]
    assert lines[-1]["request"] == refused.headers["X-Request-Id"]
    assert not [one for one in (secret, view, "wrong", "score") if one in log.read_text()]


PATHS = st.lists(
    st.sampled_from(
        ["pets", "vision", "digits", "vision~digits", "..", ".", "", "~", "%2e%2e", "%2F",
         "outside", "secret", "way-out", "PETS", "pets ", "\\", "main@1", "pets%00"]
    ),
    min_size=1,
    max_size=5,
).map("~".join)  # fmt: skip


@examples(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(name=PATHS, route=st.sampled_from(["", "/rows", "/versions", "/tags", "/diff?a=main@1"]))
def test_no_name_leads_to_what_the_scope_hides(door: Door, name: str, route: str) -> None:
    client = _kept_client(door)

    answer = client.get(f"/v1/datasets/{name}{route}")

    if answer.status_code == 200 and "datasets" not in answer.json():
        assert httpx.URL(f"{ELSEWHERE}/v1/datasets/{name}").path == "/v1/datasets/vision~digits"


CLIENTS: dict[Path, httpx.Client] = {}


def _kept_client(door: Door) -> httpx.Client:
    """One application for all examples of a test."""
    if door.auth not in CLIENTS:
        CLIENTS[door.auth] = door.scoped("read:vision/digits")
    return CLIENTS[door.auth]


def test_a_token_that_is_no_text_opens_no_session(door: Door) -> None:
    body = '{"token": "\\ud800"}'

    answer = door.client().post(
        "/v1/session", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 422


def test_what_is_not_there_tells_nothing_of_what_lies_beside_it(door: Door) -> None:
    secret, _ = door.token("read:vision/d*")

    answer = door.client(secret).get("/v1/datasets/vision~dogs")
    beside = door.client(secret).get("/v1/datasets/vision~cats")

    assert (answer.status_code, beside.status_code) == (404, 404)
    assert answer.json()["detail"].replace("dogs", "cats") == beside.json()["detail"]
