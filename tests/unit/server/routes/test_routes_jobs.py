"""``Prefer: respond-async`` and ``/v1/flows`` of a server without a database of flows.

With one: tests/extras/flows/test_served_jobs.py.
"""

from __future__ import annotations

from importlib.util import find_spec

import httpx
import pytest

from tensorlake.errors import MissingExtraError
from tensorlake_server import Settings
from tensorlake_server.request.jobs import JOB

ASYNC = {"Prefer": "respond-async"}


def ask(client: httpx.Client, **headers: str) -> httpx.Response:
    body = {"tql": "WHERE true", "limit": 2}
    return client.post("/v1/datasets/pets/query", json=body, headers=headers)


def test_a_server_without_flows_has_no_jobs(client: httpx.Client) -> None:
    refused = ask(client, **ASYNC)

    assert (refused.status_code, refused.json()["code"]) == (501, "no-jobs")
    assert "--flows" in refused.json()["detail"]
    assert client.get("/v1/jobs/nothing").status_code == 501


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/x"),
        ("POST", "/x/retry"),
        ("POST", "/x/cancel"),
        ("POST", "/x/approve"),
    ],
)
def test_a_server_without_flows_has_none(client: httpx.Client, method: str, path: str) -> None:
    body = {"decision": True} if "approve" in path else None
    answer = client.request(method, f"/v1/flows{path}", json=body)

    assert (answer.status_code, answer.json()["code"]) == (501, "no-flows")


@pytest.mark.parametrize(
    "body", [{}, {"decision": None}, {"decision": "no"}, {"decision": "false"}, {"decision": 1}]
)
def test_an_approval_is_true_or_false_and_nothing_else(client: httpx.Client, body: object) -> None:
    answer = client.post("/v1/flows/x/approve", json=body)

    assert answer.status_code == 422
    assert "decision" in answer.json()["detail"]


@pytest.mark.skipif(find_spec("dbos") is not None, reason="the extra is installed")
def test_the_database_needs_the_extra() -> None:
    with pytest.raises(MissingExtraError, match="flows"):
        Settings(url="lake", flows="jobs.sqlite")


@pytest.mark.parametrize("prefer", ["wait=10", "return=minimal", "respond-asynchronously"])
def test_other_preferences_are_answered_at_once(client: httpx.Client, prefer: str) -> None:
    assert ask(client, Prefer=prefer).status_code == 200


def test_no_header_makes_a_request_a_job(stranger: httpx.Client) -> None:
    for name in (JOB, "X-Tensorlake-Job", "tensorlake_job"):
        assert ask(stranger, **{name: "admin"}).status_code == 401


def test_the_document_names_operations_after_their_functions_and_asks_for_a_token(
    client: httpx.Client,
) -> None:
    document = client.get("/v1/openapi.json").json()

    named = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(set(named)) == len(named)
    assert {"run_query", "read_job", "read_page"} <= set(named)
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert {"token": []} in document["security"]
