"""A number is taken as one: nothing else is cast to it, in bodies, queries and paths."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import tensorlake as tl
from tensorlake_server import Settings
from tests.unit.server.conftest import TOKEN, AppClient

UNPROCESSABLE = 422
PETS = "/v1/datasets/pets"
NO_INTEGERS = (True, False, "1", " 1 ", "1_0", 1.0, "0x1")
NO_BOOLEANS = (1, 0, "true", "no")
NO_DIGITS = ("1_0", "1.0", "+1", " 1", "1 ", "true", "٢", "0x1", "")

BODIES = [
    ("query", {"tql": "SELECT score", "limit": "?"}),
    ("query/complete", {"tql": "SELECT score", "cursor": "?"}),
    ("search", {"column": "vector", "row": "?"}),
    ("search", {"column": "vector", "row": 1, "k": "?"}),
    ("search", {"column": "vector", "row": 1, "limit": "?"}),
    ("thumbnails", {"tensor": "image", "rows": ["?"]}),
    ("thumbnails", {"tensor": "image", "rows": [1], "size": "?"}),
    *(
        ("stream", {"columns": ["score"], "batch_size": 2, one: "?"})
        for one in ("batch_size", "rank", "world_size", "every", "seed", "epoch")
    ),
    ("stream", {"columns": ["score"], "global_batch_size": "?"}),
    *(
        ("stream", {"batches": [{"stop": 1, "places": [0], "positions": [0], one: given}]})
        for one, given in (("stop", "?"), ("places", ["?"]), ("positions", ["?"]))
    ),
]


def filled(body: Any, given: Any) -> Any:
    return json.loads(json.dumps(body).replace('"?"', json.dumps(given)))


@pytest.mark.parametrize(("route", "body"), BODIES)
def test_no_other_value_is_taken_for_an_integer_of_a_body(
    client: httpx.Client, route: str, body: dict[str, Any]
) -> None:
    assert client.post(f"{PETS}/{route}", json=filled(body, 16)).status_code != UNPROCESSABLE
    for given in NO_INTEGERS:
        answer = client.post(f"{PETS}/{route}", json=filled(body, given))

        assert answer.status_code == UNPROCESSABLE, given
        assert "valid integer" in answer.json()["detail"]


def test_no_other_value_is_taken_for_a_boolean_of_a_body(client: httpx.Client) -> None:
    for given in NO_BOOLEANS:
        for route, body in (
            ("search", {"column": "vector", "row": 1, "exact": given}),
            ("merge", {"source": "fix-labels", "dry_run": given}),
            ("stream", {"batch_size": 2, "drop_last": given}),
        ):
            answer = client.post(f"{PETS}/{route}", json=body)

            assert answer.status_code == UNPROCESSABLE, (route, given)


def test_rows_that_are_no_numbers_delete_nothing(
    tmp_path: Path, settings: Settings, connect: AppClient
) -> None:
    tl.create(str(tmp_path / "cast"), {"id": "int64"}).close()
    written = dataclasses.replace(settings, url=str(tmp_path), write=True)
    path = "/v1/datasets/cast"
    with connect(written, token=TOKEN) as client:

        def send(operation: dict[str, Any]) -> int:
            body = {"operations": [operation]}
            return client.post(f"{path}/transactions", json=body).status_code

        assert send({"op": "append", "columns": {"id": [0, 1, 2, 3]}}) == 200
        for rows in ([False, True], ["2"], [1.0], [" 1 "], [True, True]):
            assert send({"op": "delete", "rows": rows}) == UNPROCESSABLE
            update = {"op": "update", "tensor": "id", "rows": rows, "value": 9}
            assert send(update) == UNPROCESSABLE
        page = client.get(f"{path}/rows").json()
        assert [row["id"] for row in page["rows"]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "path",
    [
        "rows?limit=?",
        "rows?offset=?",
        "versions?limit=?",
        "diff?a=main@1&b=main@2&limit=?",
        "tensors/image/0?size=?",
        "tensors/image/0?frame=?",
        "tensors/image/?",
        "tensors/image/?/info",
        "tensors/image/?/peaks",
        "runs/r/steps/?",
        "runs?limit=?",
        "duplicates/vector?threshold=?",
    ],
)
def test_numbers_of_addresses_are_digits(client: httpx.Client, path: str) -> None:
    before, _, after = path.rpartition("?")
    assert client.get(f"{PETS}/{before}16{after}").status_code != UNPROCESSABLE
    for given in NO_DIGITS:
        if (given == "1.0" and "threshold" in path) or (given == "" and before.endswith("/")):
            continue
        quoted = str(httpx.QueryParams({"": given}))[1:].replace("+", "%20")
        answer = client.get(f"{PETS}/{before}{quoted}{after}")

        assert answer.status_code == UNPROCESSABLE, given
        assert "in digits" in answer.json()["detail"]
