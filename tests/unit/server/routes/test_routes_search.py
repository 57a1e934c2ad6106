"""``POST …/search``: ``ds.search`` over HTTP, within what a token may read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server import Settings

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


def test_label_issues_and_duplicates_are_those_of_the_sdk(
    connect: Callable[..., httpx.Client], tmp_path: Path
) -> None:
    types = {
        "label": tl.ClassLabel(["a", "b"]),
        "p": tl.Array("float32", (2,)),
        "vec": tl.Embedding(2),
    }
    ds = tl.create(str(tmp_path / "suspect"), types)
    p = np.array([0.9, 0.8, 0.1, 0.2, 0.05, np.nan], dtype=np.float32)
    vectors = [[1, 0], [0, 1], [2, 0], [1, 1], [-1, 0], [0, -1]]
    ds.extend({"label": [0, 0, 1, 1, 0, 0], "p": np.stack([p, 1 - p], axis=1), "vec": vectors})
    ds.commit("six")
    settings = Settings(url=str(tmp_path), token="t" * 32, signing_key=b"k" * 16)
    client = connect(settings, token="t" * 32)
    base = "/v1/datasets/suspect"

    issues = client.get(f"{base}/label-issues/label", params={"pred_probs": "p"}).json()
    twins = client.get(f"{base}/duplicates/vec").json()
    copies = client.get(f"{base}/duplicates/label").json()
    refused = client.get(f"{base}/duplicates/label", params={"threshold": 0.5})

    assert (issues["rows"], issues["given"], issues["suggested"]) == ([4], [0], [1])
    assert (issues["version"], issues["total"], twins["total"]) == ("main@1", 1, 2)
    assert issues["left_out"] == 1
    assert (twins["rows"], twins["clusters"]) == ([0, 2], [0, 0])
    assert copies["rows"] == tl.find_duplicates(ds, "label").rows.tolist() == [0, 1, 4, 5, 2, 3]
    assert refused.status_code == 400
