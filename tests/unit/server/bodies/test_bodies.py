"""JSON bodies are decoded and validated off the loop, without collections, each name once (B2)."""

from __future__ import annotations

import gc
import json
import threading
from dataclasses import replace
from typing import Annotated, Any

import httpx
import pytest
from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel

from tensorlake_server import Settings
from tensorlake_server.bodies.json import BodyRoute, parsed_json
from tensorlake_server.http.problems import Problem, add_problem_answers
from tensorlake_server.messages.changes import TransactionRequest
from tests.unit.server.conftest import AppClient, InProcess

LISTS = 200_000
QUERY, TRANSACTIONS = "/v1/datasets/pets/query", "/v1/datasets/pets/transactions"
JSON = {"Content-Type": "application/json"}


class Threads(BaseModel):
    """Notes in which thread it is validated."""

    validated_in: Annotated[Any, AfterValidator(lambda _: threading.get_ident())]
    number: int = 0


@pytest.fixture
def echo() -> httpx.Client:
    """An application with one route that has a body."""
    router = APIRouter(route_class=BodyRoute)

    @router.post("/echo")
    async def echo(asked: Threads) -> dict[str, int]:
        return {"validated": asked.validated_in, "answered": threading.get_ident()}

    app = FastAPI()
    app.state.body_threads = CapacityLimiter(1)
    add_problem_answers(app, shown=str)
    app.include_router(router)
    return httpx.Client(transport=InProcess(app), base_url="http://test")


def test_a_body_is_validated_once_and_off_the_loop(echo: httpx.Client) -> None:
    answer = echo.post("/echo", json={"validated_in": None})

    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["validated"] != found["answered"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"validated_in": 1, "number": "x"}', "body.number: Input should be a valid integer"),
        (b"{}", "body.validated_in: Field required"),
        (b"null", "body: Input should be a valid dictionary"),
        (b"[", "the body is not JSON"),
        (b'{"number": 1, "validated_in": 1, "number": 2}', "gives the member 'number' twice"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_of_its_member(
    echo: httpx.Client, body: bytes, detail: str
) -> None:
    answer = echo.post("/echo", content=body, headers=JSON)

    assert answer.status_code == 422
    assert detail in answer.json()["detail"]


def test_the_collector_visits_no_list_while_a_body_is_decoded() -> None:
    body = json.dumps({"operations": [{"op": "append", "columns": {"x": [[1]] * LISTS}}]}).encode()
    visits: list[int] = []

    def visited(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            visits.append(info["generation"])

    gc.callbacks.append(visited)
    try:
        asked = parsed_json(TransactionRequest, body)
    finally:
        gc.callbacks.remove(visited)

    assert len(asked.operations) == 1
    assert len(visits) < 5  # a list in seven hundred starts one
    assert gc.isenabled()


def test_the_collector_goes_on_after_a_body_that_is_refused() -> None:
    for body in (b"[", b'{"operations": []}', b'{"a": 1, "a": 2}'):
        with pytest.raises((RequestValidationError, Problem)):
            parsed_json(TransactionRequest, body)
        assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        parsed_json(TransactionRequest, b'{"operations": [{"op": "delete", "rows": [0]}]}')
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (QUERY, b'{"tql": "WHERE id > 1", "tql": "WHERE id > 2"}'),
        (QUERY, b'{"tql": "WHERE id > $a", "params": {"tql": 1, "a": 1, "a": 2, "tql": 1}}'),
        (TRANSACTIONS, b'{"operations": [{"op": "delete", "rows": [0], "rows": [1]}]}'),
    ],
)
def test_a_member_that_is_given_twice_is_refused(
    settings: Settings, connect: AppClient, path: str, body: bytes
) -> None:
    client = connect(replace(settings, write=True), token=settings.token)

    answer = client.post(path, content=body, headers=JSON)

    assert answer.status_code == 422, answer.text
    assert "twice\nname each member once" in answer.json()["detail"]
