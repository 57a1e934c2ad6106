from __future__ import annotations

import httpx

STATISTICS = "/v1/datasets/pets/statistics"


def test_classes_are_counted_over_all_their_values(client: httpx.Client) -> None:
    counts = client.get(f"{STATISTICS}/labels").json()

    assert (counts["rows"], counts["counted"], counts["values"]) == (11, 11, 10)
    assert {one["name"]: one["count"] for one in counts["classes"]} == {
        "cat": 3,
        "dog": 4,
        "bird": 3,
    }


def test_a_query_is_counted_by_itself(client: httpx.Client) -> None:
    query = {"tql": "WHERE CONTAINS(labels, 'cat')", "limit": 0}
    view = client.post("/v1/datasets/pets/query", json=query).json()["view"]

    counts = client.get(f"{STATISTICS}/labels", params={"view": view}).json()

    assert counts["rows"] == 3
    assert counts["classes"][0]["count"] == 3


def test_numbers_have_a_histogram_without_their_nans(client: httpx.Client) -> None:
    measured = client.get(f"{STATISTICS}/score").json()

    assert sum(measured["histogram"]["counts"]) == 10
    assert measured["histogram"]["edges"][-1] <= 1


def test_pictures_that_are_all_as_wide_have_no_histogram(client: httpx.Client) -> None:
    assert client.get(f"{STATISTICS}/image").json()["histogram"] is None


def test_nulls_are_counted_apart(client: httpx.Client) -> None:
    measured = client.get(f"{STATISTICS}/image", params={"version": "main@1"}).json()

    assert (measured["values"], measured["nulls"]) == (11, 1)
