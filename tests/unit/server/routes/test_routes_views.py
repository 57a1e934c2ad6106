"""Saved views over HTTP: listed, opened as results, saved by those who may write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import tensorlake as tl
from tensorlake_server import Settings

VIEWS = "/v1/datasets/notes/views"
ROWS = "/v1/datasets/notes/rows"


@pytest.fixture
def writable(tmp_path: Path, settings: Settings) -> Settings:
    """A server that writes a lake of its own: six numbers, two views of them."""
    notes = tl.create(str(tmp_path / "notes"), {"x": "int64"}, durability="none")
    notes.extend({"x": range(6)})
    notes.commit("six")
    notes.query("WHERE x > 3 ORDER BY x DESC").save("large", "the best")
    notes[[5, 0]].save("picked")
    notes.extend({"x": [9]})
    notes.commit("seven")
    return replace(settings, url=str(tmp_path), write=True)


@pytest.fixture
def client(writable: Settings, connect: Callable[..., httpx.Client]) -> httpx.Client:
    return connect(writable, token=writable.token)


def values(client: httpx.Client, view: str) -> list[int]:
    return [row["x"] for row in client.get(ROWS, params={"view": view}).json()["rows"]]


def run(client: httpx.Client, tql: str) -> Any:
    return client.post("/v1/datasets/notes/query", json={"tql": tql}).json()


def test_views_are_listed_with_what_led_to_them(client: httpx.Client) -> None:
    answer = client.get(VIEWS).json()

    assert answer["may_save"]
    large, picked = answer["views"]
    assert (large["name"], large["version"], large["rows"]) == ("large", "main@1", 2)
    assert (large["tql"], large["message"]) == ("WHERE x > 3 ORDER BY x DESC", "the best")
    assert (picked["name"], picked["rows"], picked["tql"]) == ("picked", 2, None)


@pytest.mark.parametrize(("name", "expected"), [("large", [5, 4]), ("picked", [5, 0])])
def test_an_opened_view_is_a_result_of_its_own_version(
    client: httpx.Client, name: str, expected: list[int]
) -> None:
    result = client.get(f"{VIEWS}/{name}").json()

    assert (result["version"], result["rows"]) == ("main@1", 2)
    assert [row["x"] for row in result["page"]["rows"]] == expected
    assert values(client, result["view"]) == expected


def test_any_replica_opens_the_id_of_a_saved_view(
    client: httpx.Client, writable: Settings, connect: Callable[..., httpx.Client]
) -> None:
    view = client.get(f"{VIEWS}/picked").json()["view"]

    replica = connect(writable, token=writable.token)

    assert values(replica, view) == [5, 0]


def test_a_result_is_saved_and_the_sdk_opens_it(client: httpx.Client, writable: Settings) -> None:
    result = run(client, "WHERE x > 4")

    asked = {"name": "best", "view": result["view"], "message": "to look at"}
    answer = client.post(VIEWS, json=asked)

    assert answer.status_code == 201
    assert (answer.json()["rows"], answer.json()["version"]) == (2, "main@2")
    view = tl.open(f"{writable.url}/notes").views["best"]
    assert view["x"][:].tolist() == [5, 9]
    assert view.tql == "WHERE x > 4"


def test_a_name_is_used_once(client: httpx.Client) -> None:
    result = run(client, "WHERE x > 4")

    answer = client.post(VIEWS, json={"name": "large", "view": result["view"]})

    assert answer.status_code == 400
    assert "'large'" in answer.json()["detail"]


def test_a_read_only_server_lists_views_and_saves_none(
    writable: Settings, connect: Callable[..., httpx.Client]
) -> None:
    reader = connect(replace(writable, write=False), token=writable.token)
    result = run(reader, "WHERE x > 4")

    answer = reader.post(VIEWS, json={"name": "best", "view": result["view"]})

    assert answer.status_code == 403
    assert not reader.get(VIEWS).json()["may_save"]


def test_a_view_that_is_not_there_is_not_found(client: httpx.Client) -> None:
    answer = client.get(f"{VIEWS}/smal")

    assert answer.status_code == 404
    assert answer.json()["code"] == "view-not-found"


def test_the_cost_of_a_query_is_what_it_read(client: httpx.Client) -> None:
    cost = run(client, "WHERE x % 2 = 1")["cost"]

    assert cost["seconds"] > 0
    assert cost["nbytes"] >= 7 * 8  # all numbers, and what describes them
    assert cost["requests"] == 0  # a local folder is mapped


@pytest.mark.parametrize(
    "query",
    [
        (
            "SELECT this.x, s.word AS word FROM this"
            " JOIN \"{secret}\" VERSION 'main@1' AS s ON s.x = this.x"
        ),
        "SELECT x, peek(x) AS word",
    ],
    ids=["another dataset", "a function of the process"],
)
def test_a_saved_view_makes_a_server_read_nothing_but_its_dataset(
    writable: Settings, client: httpx.Client, tmp_path: Path, query: str
) -> None:
    secret = str(tmp_path.parent / f"{tmp_path.name}-secret")
    with tl.create(secret, {"x": "int64", "word": "str"}, durability="none") as outside:
        outside.extend({"x": range(6), "word": ["hidden"] * 6})
        outside.commit("words")

    tl.udf("peek", lambda _x: "hidden", dtype="text")
    with tl.open(f"{writable.url}/notes") as notes:
        notes.query(query.format(secret=secret)).save("reaching")
        assert notes.views["reaching"]["word"][:][0] == "hidden"

    answers = [
        client.get(f"{VIEWS}/reaching"),
        client.post("/v1/datasets/notes/stream", json={"saved": "reaching"}),
        client.post("/v1/datasets/notes/query", json={"saved": "reaching", "tql": "WHERE true"}),
        client.get(VIEWS),
    ]

    assert [one.status_code for one in answers][:1] == [400]
    assert all(one.status_code < 500 for one in answers)
    assert not [one for one in answers if "hidden" in one.text]
