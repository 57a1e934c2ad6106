"""``POST …/search``: ``ds.search`` over HTTP, within what a token may read."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl

URL = "/v1/datasets/pets/search"


def test_rows_and_scores_are_those_of_the_sdk(client: httpx.Client, lake_path: Path) -> None:
    ds = tl.open(lake_path / "pets")
    vector = np.ones(2048)

    answer = client.post(URL, json={"column": "vector", "query": vector.tolist(), "k": 3})

    found = ds.search("vector", vector, 3)
    body = answer.json()
    assert answer.status_code == 200
    assert body["rows"] == found.rows.tolist()
    assert body["scores"] == found["_score"].tolist()
    assert body["queries"] is None
    assert "compared all 11 rows" in body["explanation"]
    shown = [(row["_row"], row["_score"]) for row in body["page"]["rows"]]
    assert shown == list(zip(body["rows"], body["scores"], strict=True))


def test_a_row_is_searched_by_its_own_vector(client: httpx.Client) -> None:
    body = client.post(
        URL, json={"column": "vector", "row": 5, "k": 2, "columns": ["caption"]}
    ).json()

    assert body["rows"][0] == 5
    assert body["page"]["rows"][0]["caption"] == "picture 5"


def test_words_conditions_and_several_queries(client: httpx.Client) -> None:
    asked = {
        "column": "caption",
        "query": ["picture", "7"],
        "where": "score > $least",
        "params": {"least": 0.5},
        "hybrid": {"column": "caption", "query": ["8", "9"]},
        "k": 2,
    }

    body = client.post(URL, json=asked).json()

    assert body["queries"] == [0, 0, 1, 1]
    assert body["rows"][2:] == [7, 9]


@pytest.mark.parametrize(
    ("asked", "status", "named"),
    [
        ({"column": "vector"}, 422, "either query"),
        ({"column": "vector", "query": [1], "row": 1}, 422, "either query"),
        ({"column": "vector", "query": [1.0, 2.0]}, 400, "2048 numbers"),
        ({"column": "vector", "query": {"a": 1}}, 400, "searched by a vector"),
        ({"column": "vector", "row": 99}, 404, "99"),
        ({"column": "nothing", "row": 1}, 404, "nothing"),
        ({"column": "nothing", "query": "a"}, 404, "nothing"),
        ({"column": "score", "query": "a"}, 400, "vectors of floats and of texts"),
        ({"column": "caption", "query": "a", "k": 0}, 422, "k"),
        ({"column": "caption", "query": "a", "k": 5000}, 422, "k"),
        ({"column": "caption", "query": "a", "where": "x >"}, 400, "line 1"),
        ({"column": "caption", "query": "a", "recall": 2}, 422, "recall"),
        ({"column": "caption", "query": "a", "columns": ["no"]}, 404, "no"),
        ({"column": "caption", "query": "a", "version": "main@99"}, 404, "main@99"),
        ({"column": "caption", "query": "a", "what": 1}, 422, "what"),
        (
            {"column": "caption", "query": "a", "where": "EXISTS (SELECT * FROM 'file:///etc')"},
            400,
            "this",
        ),
    ],
)
def test_hostile_requests_are_problems(
    client: httpx.Client, asked: dict[str, Any], status: int, named: str
) -> None:
    answer = client.post(URL, json=asked)

    assert (answer.status_code, named in answer.text) == (status, True), answer.text


def test_a_stranger_may_not_search(stranger: httpx.Client) -> None:
    asked = {"column": "caption", "query": "picture"}

    assert stranger.post(URL, json=asked).status_code == 401
