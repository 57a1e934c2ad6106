"""What HTTP itself asks of every route: methods, types of bodies, and what is said of mistakes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tensorlake_server.http.negotiation import choose_type

if TYPE_CHECKING:
    import httpx

    from tensorlake_server import Settings
    from tests.unit.server.conftest import AppClient

PETS = "/v1/datasets/pets"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/datasets",
        PETS,
        f"{PETS}/rows?limit=2",
        f"{PETS}/rows?version=main@1&limit=2",
        f"{PETS}/tensors/image/0",
        f"{PETS}/statistics/score",
        f"{PETS}/branches",
        "/v1/openapi.json",
        "/healthz",
        "/metrics",
    ],
)
def test_head_answers_what_get_does_without_the_body(client: httpx.Client, path: str) -> None:
    got, headed = client.get(path), client.head(path)

    own = {"x-request-id", "content-length"} if path == "/metrics" else {"x-request-id"}
    assert headed.status_code == 200
    assert headed.content == b""
    assert {k: v for k, v in headed.headers.items() if k not in own} == {
        k: v for k, v in got.headers.items() if k not in own
    }


def test_head_of_what_is_not_there_and_of_what_has_no_end_is_refused(client: httpx.Client) -> None:
    assert client.head("/v1/datasets/nothing").status_code == 404
    assert client.head(f"{PETS}/events").status_code == 405


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", PETS, "DELETE, GET, HEAD"),
        ("GET", f"{PETS}/selection", "POST"),
        ("POST", f"{PETS}/objects/tensorlake.json", "GET, HEAD, PUT"),
        ("OPTIONS", f"{PETS}/branches", "GET, HEAD, POST"),
        ("HEAD", f"{PETS}/events", "GET"),
    ],
)
def test_another_method_is_refused_with_those_that_are_answered(
    client: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = client.request(method, path)

    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    if method != "HEAD":
        assert answer.json()["detail"].endswith(f"use one of {allowed}")


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/datasets/vision%2Fdigits"])
def test_a_path_that_is_none_says_where_the_others_are(client: httpx.Client, path: str) -> None:
    answer = client.get(path)

    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert "/v1/openapi.json" in answer.json()["detail"]
    assert "~" in answer.json()["detail"]


@pytest.mark.parametrize("given", ["application/x-www-form-urlencoded", "text/plain", "text/xml"])
def test_a_body_that_is_said_to_be_something_else_is_415(client: httpx.Client, given: str) -> None:
    answer = client.post(
        f"{PETS}/query", content=b'{"tql": "WHERE true"}', headers={"Content-Type": given}
    )

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")
    assert given in answer.json()["detail"]
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize("path", [f"{PETS}/query", f"{PETS}/transactions"])
def test_json_that_breaks_off_says_where(settings: Settings, connect: AppClient, path: str) -> None:
    client = connect(replace(settings, write=True), token=settings.token)
    json = {"Content-Type": "application/json"}

    answer = client.post(path, content=b'{"tql":', headers=json)

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("the body is not JSON: E")
    assert answer.json()["detail"].endswith("7"), "the character, or the column"


JSON, NPZ, ARROW = "application/json", "application/x-npz", "application/vnd.apache.arrow.stream"


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("text/csv", JSON),
        (NPZ, NPZ),
        (f"{NPZ};q=0.1, {JSON}", JSON),
        (f"{JSON};q=0.1, {NPZ};q=0.5, {ARROW};q=0.9", ARROW),
        (f"{ARROW}, {NPZ}, */*;q=0.5", ARROW),
        (f"{NPZ};q=0, */*", JSON),
        (f"{NPZ}; q=0.3, */*", JSON),
        (f"{NPZ.upper()};v=1", NPZ),
        (f"{NPZ};q=much", NPZ),
    ],
)
def test_rows_come_as_what_the_client_likes_best(accept: str, chosen: str) -> None:
    assert choose_type(accept, (JSON, NPZ, ARROW)) == chosen
