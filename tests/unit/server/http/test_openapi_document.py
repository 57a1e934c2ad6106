"""viewer/openapi.json is what the server serves, and what the server answers is as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

DOCUMENT = Path(__file__).parents[4] / "viewer/openapi.json"
JSON_TYPE, PROBLEM_TYPE = "application/json", "application/problem+json"
ANSWERS = [
    ("/v1/datasets", {}),
    ("/v1/datasets/{name}", {}),
    ("/v1/datasets/{name}/versions", {"limit": 2}),
    ("/v1/datasets/{name}/branches", {}),
    ("/v1/datasets/{name}/tags", {}),
    ("/v1/datasets/{name}/diff", {"a": "main@1"}),
    ("/v1/datasets/{name}/rows", {"limit": 11}),
    ("/v1/datasets/{name}/views", {}),
    ("/v1/datasets/{name}/statistics/{tensor}", {}),
    ("/v1/datasets/{name}/statistics/{tensor}/by/{other}", {}),
    ("/v1/datasets/{name}/objects", {}),
    ("/v1/datasets/{name}/folders", {}),
]


@pytest.fixture
def document(client: httpx.Client) -> dict[str, Any]:
    return client.get("/v1/openapi.json").json()


def check(document: dict[str, Any], route: str, method: str, answer: httpx.Response) -> None:
    described = document["paths"][route][method]["responses"]
    status = str(answer.status_code) if answer.is_success else "4XX"
    kind = JSON_TYPE if answer.is_success else PROBLEM_TYPE
    schema = described[status]["content"][kind]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})


def test_the_checked_in_document_is_the_one_that_is_served(document: dict[str, Any]) -> None:
    written = json.loads(DOCUMENT.read_text("utf-8"))

    assert written == document, "the API changed: run `make api`, and look at what it changes"


@pytest.mark.parametrize(("route", "params"), ANSWERS)
def test_an_answer_is_as_the_document_says(
    client: httpx.Client, document: dict[str, Any], route: str, params: dict[str, Any]
) -> None:
    for tensor in ("score", "labels", "image"):
        path = (
            route.replace("{name}", "pets").replace("{tensor}", tensor).replace("{other}", tensor)
        )
        answer = client.get(path, params=params)

        assert answer.status_code == 200
        check(document, route, "get", answer)


@pytest.mark.parametrize(
    "tql", ["WHERE score > 0.5", "SELECT COUNT(*) AS n, MAX(score) AS most", "WHERE nonsense = 1"]
)
def test_a_querys_answer_is_as_the_document_says_with_its_errors(
    client: httpx.Client, document: dict[str, Any], tql: str
) -> None:
    route = "/v1/datasets/{name}/query"

    check(document, route, "post", client.post("/v1/datasets/pets/query", json={"tql": tql}))
