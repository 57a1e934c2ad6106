"""``Prefer: respond-async``: a query that is answered later, under ``/v1/jobs``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import listening
from tests.unit.server.conftest import AppClient

ASYNC = {"Prefer": "respond-async"}
ROWS = 200_000
ENDLESS = "SELECT COUNT(*) FROM this AS a JOIN this AS b ON a.x < b.x"
WAIT_S = 60


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of two tokens for one dataset."""
    root = tmp_path_factory.mktemp("jobs")
    with tl.create(str(root / "lake/pets"), {"x": "int64"}, durability="none") as ds:
        ds.extend({"x": list(range(ROWS))})
        ds.commit("rows")
    auth, now = root / "tokens.json", datetime.now(UTC)
    ana, ben = (
        create_token(auth, name=name, scopes=["read"], expires=None, now=now)[0]
        for name in ("ana", "ben")
    )
    app = create_app(Settings(url=str(root / "lake"), auth=auth, max_queries_each=2))
    with listening(app) as address:
        clients = [
            httpx.Client(base_url=address, timeout=60, headers={"Authorization": f"Bearer {one}"})
            for one in (ana, ben)
        ]
        yield clients[0], clients[1]
        for client in clients:
            client.close()


def ask(client: httpx.Client, text: str, **headers: str) -> httpx.Response:
    body = {"tql": text, "limit": 2}
    return client.post("/v1/datasets/pets/query", json=body, headers=headers)


def answer_of(client: httpx.Client, job: httpx.Response) -> httpx.Response:
    """Ask for a job until it is answered."""
    ends = time.monotonic() + WAIT_S
    while (found := client.get(job.headers["Location"])).status_code == 202:
        assert time.monotonic() < ends, "the job does not end"
        assert found.json()["status"] == "running"
    return found


def test_a_job_has_the_answer_that_the_request_would_have_had(
    served: tuple[httpx.Client, httpx.Client],
) -> None:
    client, _ = served

    job = ask(client, "WHERE x > 10", **ASYNC)
    found = answer_of(client, job)

    now = ask(client, "WHERE x > 10").json()
    assert (job.status_code, job.headers["Preference-Applied"]) == (202, "respond-async")
    assert {**found.json(), "cost": None} == {**now, "cost": None}
    assert client.get(job.headers["Location"]).json() == found.json()


def test_the_rows_of_a_selection_come_later_too(
    served: tuple[httpx.Client, httpx.Client],
) -> None:
    client, _ = served
    body = {"steps": [{"tql": "WHERE x < 3"}]}

    job = client.post("/v1/datasets/pets/selection", json=body, headers=ASYNC)

    assert answer_of(client, job).content[:2] == b"PK"  # .npz


def test_the_error_of_a_job_is_its_answer(served: tuple[httpx.Client, httpx.Client]) -> None:
    client, _ = served

    found = answer_of(client, ask(client, "SELECT nothing", **ASYNC))

    assert (found.status_code, found.json()["code"]) == (
        400,
        ask(client, "SELECT nothing").json()["code"],
    )


def test_a_cancelled_job_ends_and_leaves_its_place(
    served: tuple[httpx.Client, httpx.Client],
) -> None:
    client, _ = served
    jobs = [ask(client, ENDLESS, **ASYNC) for _ in range(2)]
    full = ask(client, ENDLESS, **ASYNC)

    gone = [client.delete(job.headers["Location"]).status_code for job in jobs]

    assert ([job.status_code for job in jobs], full.status_code, gone) == (
        [202] * 2,
        429,
        [204] * 2,
    )
    assert client.get(jobs[0].headers["Location"]).status_code == 404
    ends = time.monotonic() + WAIT_S
    while ask(client, "WHERE x = 1").status_code == 429:
        assert time.monotonic() < ends, "a cancelled job keeps its place"


def test_a_job_is_found_by_its_owner_only(served: tuple[httpx.Client, httpx.Client]) -> None:
    client, other = served
    job = ask(client, "WHERE x > 10", **ASYNC)

    found = [call(job.headers["Location"]).status_code for call in (other.get, other.delete)]

    assert found == [404, 404]
    assert answer_of(client, job).status_code == 200


def test_a_server_with_workers_has_no_jobs(lake_path: Path, connect: AppClient) -> None:
    client = connect(Settings(url=str(lake_path), token="t", workers=2), token="t")

    refused = ask(client, "WHERE true", **ASYNC)

    assert (refused.status_code, refused.json()["code"]) == (501, "no-jobs")
    assert client.get("/v1/jobs/nothing").status_code == 404


@pytest.mark.parametrize("prefer", ["wait=10", "return=minimal", "respond-asynchronously"])
def test_other_preferences_are_answered_at_once(
    served: tuple[httpx.Client, httpx.Client], prefer: str
) -> None:
    assert ask(served[0], "WHERE x = 1", Prefer=prefer).status_code == 200


def test_the_document_names_operations_after_their_functions_and_asks_for_a_token(
    served: tuple[httpx.Client, httpx.Client],
) -> None:
    document = served[0].get("/v1/openapi.json").json()

    named = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(set(named)) == len(named)
    assert {"run_query", "read_job", "read_page"} <= set(named)
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["security"] == [{"token": []}]
