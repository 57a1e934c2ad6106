"""What an editor asks while somebody writes a query: what could come next, and what is wrong."""

from __future__ import annotations

from typing import Any

import httpx


def offers(client: httpx.Client, tql: str) -> list[dict[str, Any]]:
    asked = {"tql": tql, "cursor": len(tql)}
    return client.post("/v1/datasets/pets/query/complete", json=asked).json()["offers"]


def test_tensors_are_offered_with_their_types(client: httpx.Client) -> None:
    found = offers(client, "WHERE sco")

    assert [(one["text"], one["kind"]) for one in found] == [("score", "tensor")]
    assert found[0]["detail"] == "a number"


def test_after_a_label_its_classes_are_offered(client: httpx.Client) -> None:
    classes = [one["text"] for one in offers(client, "WHERE labels = ") if one["kind"] == "class"]

    assert classes == ["'cat'", "'dog'", "'bird'"]


def test_a_query_is_explained_without_running(client: httpx.Client) -> None:
    asked = {"tql": "WHERE score > 0.5 LIMIT 3"}
    answer = client.post("/v1/datasets/pets/query/explain", json=asked)

    assert "score" in answer.json()["plan"]


def test_what_is_wrong_is_said_with_its_place(client: httpx.Client) -> None:
    answer = client.post("/v1/datasets/pets/query/explain", json={"tql": "WHERE scoer > 0.5"})

    problem = answer.json()
    assert answer.status_code == 400
    assert (problem["start"], problem["stop"]) == (6, 11)
    assert "did you mean 'score'" in problem["detail"]


def test_a_query_that_reaches_out_is_refused_before_it_runs(client: httpx.Client) -> None:
    asked = {"tql": 'SELECT * FROM "s3://elsewhere/pets"'}
    answer = client.post("/v1/datasets/pets/query/explain", json=asked)

    assert answer.status_code == 400
