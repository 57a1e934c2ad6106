"""A misspelt parameter is never answered as if it were not there."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

UNPROCESSABLE = 422


@pytest.fixture
def operations(client: httpx.Client) -> list[tuple[str, str]]:
    """Every operation of the document, and it: its method, and a path that reaches it."""
    paths: dict[str, Any] = client.get("/v1/openapi.json").json()["paths"]
    named = {"name": "pets", "tensor": "score", "row": "0", "path": "head", "view": "v"}
    named |= {"branch": "b", "tag": "t", "other": "label"}
    named |= {"run": "r", "metric": "loss", "step": "0", "job": "j", "flow": "f", "export": "e"}
    described = [(method, path.format(**named)) for path, ways in paths.items() for method in ways]
    return [*described, ("get", "/v1/openapi.json")]


def test_every_operation_refuses_a_parameter_that_it_does_not_take(
    client: httpx.Client, operations: list[tuple[str, str]]
) -> None:
    assert len(operations) > 25
    for method, path in operations:
        answer = client.request(method, path, params={"utter-nonsense": "1"})

        assert answer.status_code == UNPROCESSABLE, (method, path)
        if method != "head":
            problem = answer.json()
            assert problem["code"] == "invalid-input"
            assert "has no parameter 'utter-nonsense'" in problem["detail"]


def test_the_refusal_names_what_there_is_and_what_was_meant(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/pets/rows", params={"limti": 5})

    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == (
        "GET /v1/datasets/{name}/rows has no parameter 'limti'; did you mean 'limit'?"
        "\nits parameters are columns, digest, limit, offset, version, view"
    )


def test_a_parameter_of_the_body_is_told_to_be_one(client: httpx.Client) -> None:
    answer = client.post("/v1/datasets/pets/query", params={"tql": "WHERE true"}, json={"tql": ""})

    assert answer.json()["detail"].endswith("what it takes is JSON in its body")


def test_a_parameter_is_given_once(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/pets/rows?limit=5&limit=6")

    assert answer.status_code == UNPROCESSABLE
    assert "'limit' is given 2 times" in answer.json()["detail"]


def test_head_is_told_like_get(client: httpx.Client) -> None:
    assert client.head("/v1/datasets/pets/rows?limti=5").status_code == UNPROCESSABLE


def test_one_that_is_known_goes_on_with_or_without_a_value(client: httpx.Client) -> None:
    assert client.get("/v1/datasets/pets/tensors/score/0?raw").is_success
    assert client.get("/v1/datasets/pets/rows?&limit=1").is_success


def test_what_a_probe_adds_takes_no_server_out_of_service(client: httpx.Client) -> None:
    assert all(client.get(f"/{path}?t=17").is_success for path in ("healthz", "readyz", "metrics"))
