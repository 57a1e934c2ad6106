"""The OpenAPI document as generators of clients and readers of its page take it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from tensorlake_server import Settings
from tensorlake_server.http.examples import BODIES

OPERATIONS = Path(__file__).with_name("operations.txt")
JSON = "application/json"
Connect = Callable[..., httpx.Client]


@pytest.fixture
def document(client: httpx.Client) -> dict[str, Any]:
    return client.get("/v1/openapi.json").json()


@pytest.fixture
def page(client: httpx.Client) -> httpx.Response:
    return client.get("/v1/docs")


def operations(document: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    return {
        one["operationId"]: (method, path, one)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }


def test_an_operation_keeps_its_id(document: dict[str, Any]) -> None:
    """Generated clients have functions of these names; one that is new is added to the file."""
    assert sorted(operations(document)) == OPERATIONS.read_text().split()


def test_every_body_of_json_has_an_example_of_its_schema(document: dict[str, Any]) -> None:
    bodies = {
        name: one["requestBody"]["content"][JSON]
        for name, (_, _, one) in operations(document).items()
        if JSON in one.get("requestBody", {}).get("content", {})
    }

    assert set(bodies) == set(BODIES)
    for body in bodies.values():
        schema = {**body["schema"], "components": document["components"]}
        jsonschema.validate(body["example"], schema)


def test_the_examples_in_order_are_requests_that_succeed(
    connect: Connect, tmp_path: Path, document: dict[str, Any]
) -> None:
    exports = tmp_path / "exports"
    settings = Settings(url=str(tmp_path / "lake"), write=True, token="link", exports=exports)
    known = operations(document)
    seen: dict[str, Any] = {}
    with connect(settings, token="link") as client:
        for name, body in BODIES.items():
            method, path, _ = known[name]
            sent = {
                **body,
                **({"token": "link"} if name == "open_session" else {}),
                **({"view": seen["run_query"]["view"]} if name == "save_view" else {}),
            }
            if name == "approve_flow":
                continue  # of a database of flows: tests/extras/flows
            answer = client.request(method, path.replace("{name}", "pets"), json=sent)
            assert answer.is_success, (name, answer.text)
            if answer.headers.get("Content-Type") == JSON:
                seen[name] = answer.json()

    assert seen["run_query"]["rows"] == 1
    assert seen["search_rows"]["rows"] == [0]


def test_the_document_says_how_a_client_logs_in(connect: Connect, tmp_path: Path) -> None:
    issuer = {"oidc": "https://id.example.org/", "oidc_audience": "lake"}
    settings = Settings(url=str(tmp_path), token="link", port=8311)

    plain, provider, public = (
        connect(replace(settings, **changes), token="link").get("/v1/openapi.json").json()
        for changes in ({}, issuer, {"public_read": True})
    )

    assert plain["security"] == [{"token": []}, {"session": []}]
    assert plain["components"]["securitySchemes"]["session"]["name"] == "tensorlake-8311"
    assert plain["paths"]["/v1/session"]["post"]["security"] == []
    assert public["security"][-1] == {}
    assert provider["components"]["securitySchemes"]["openid"] == {
        "type": "openIdConnect",
        "openIdConnectUrl": "https://id.example.org/.well-known/openid-configuration",
    }


def test_the_page_shows_every_operation(page: httpx.Response, document: dict[str, Any]) -> None:
    shown = set(re.findall(r'<details id="(\w+)">', page.text))

    assert page.status_code == 200
    assert shown == set(operations(document))
    assert "-d &#x27;{&quot;tql&quot;: &quot;WHERE label = $label&quot;" in page.text


def test_the_page_loads_nothing_and_its_policy_allows_only_its_style(page: httpx.Response) -> None:
    policy = page.headers["Content-Security-Policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert "default-src 'none'" in policy
    assert f"style-src 'sha256-{digest}'" in policy
    assert re.findall(r"<(?:script|img|link|iframe|object)|\bsrc=|\bstyle=|url\(", page.text) == []
    assert set(re.findall(r'href="([^"#]+)"', page.text)) == {"/v1/openapi.json"}


def test_the_page_needs_what_the_document_needs(connect: Connect, settings: Settings) -> None:
    with connect(settings, token=None) as client:
        assert client.get("/v1/docs").status_code == 401
        assert client.get("/v1/openapi.json").status_code == 401
