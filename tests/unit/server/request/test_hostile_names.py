"""Names that nothing can have are the client's mistake: a problem, and no fault of the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tensorlake_server import Settings
from tensorlake_server.http.problems import PROBLEM_TYPE, problem_response

LONG = "a" * 300  # no file system names a file so
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def writer(tmp_path: Path, connect: Callable[..., httpx.Client]) -> httpx.Client:
    return connect(Settings(url=str(tmp_path), token="any-token", write=True), token="any-token")


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/datasets/{LONG}",
        f"/v1/datasets/{LONG}/rows",
        f"/v1/datasets/{'~'.join(['%F0%9F%98%80' * 70] * 2)}",
        f"/v1/datasets/pets/objects/packs/{LONG}",
        f"/v1/datasets/pets/objects/branches/{LONG}/HEAD",
        f"/v1/datasets/pets/objects?prefix={LONG}/",
        f"/v1/datasets/pets/folders?prefix={LONG}/",
    ],
)
def test_a_name_longer_than_a_file_may_have_is_the_clients_mistake(
    client: httpx.Client, path: str
) -> None:
    answer = client.get(path)

    assert (answer.status_code, answer.headers["Content-Type"]) == (400, PROBLEM_TYPE)
    assert "shorter" in answer.json()["detail"]


def test_a_dataset_is_not_made_under_a_name_longer_than_a_file_may_have(
    writer: httpx.Client,
) -> None:
    answer = writer.post("/v1/datasets", json={"name": LONG, "schema": {"x": "int64"}})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-input")
    assert writer.get("/v1/datasets").json() == {"datasets": []}


@pytest.mark.parametrize("given", ["\ud800", "(2,", "é>,mf"])
def test_a_type_that_numpy_cannot_read_is_no_type(writer: httpx.Client, given: str) -> None:
    body = json.dumps({"name": "odd", "schema": {"x": given}})

    answer = writer.post("/v1/datasets", content=body, headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (400, "schema")
    assert repr(given) in answer.json()["detail"]


def test_a_problem_is_told_whatever_characters_it_repeats() -> None:
    answer = problem_response(409, "conflict", "who \ud800?", facts={"author": "\udfff"})

    told = json.loads(bytes(answer.body))
    assert (told["detail"], told["author"]) == ("who ??", "?")
