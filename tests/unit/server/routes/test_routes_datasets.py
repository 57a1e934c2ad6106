from __future__ import annotations

import httpx
import pytest


def test_the_lake_lists_its_datasets(client: httpx.Client) -> None:
    names = [one["name"] for one in client.get("/v1/datasets").json()["datasets"]]

    assert names == ["pets", "vision/digits"]


def test_a_dataset_says_what_it_holds(client: httpx.Client) -> None:
    pets = client.get("/v1/datasets/pets").json()

    assert (pets["version"], pets["rows"]) == ("main@3", 11)
    assert pets["nbytes"] > 0
    assert pets["url"].endswith("/pets")
    by_name = {tensor["name"]: tensor for tensor in pets["tensors"]}
    assert by_name["image"]["picture"]
    assert by_name["image"]["media_type"] == "image/jpeg"
    assert by_name["boxes"]["of"] == "image"
    assert by_name["boxes"]["format"] == "xywh"
    assert by_name["labels"]["names"] == ["cat", "dog", "bird"]
    assert by_name["labels"]["per"] == "boxes"
    assert by_name["vector"]["shape"] == [2048]
    assert by_name["caption"]["shape"] is None


@pytest.mark.parametrize(
    ("version", "shown", "rows"),
    [("main@1", "main@1", 12), ("v1", "main@1", 12), ("main", "main@3", 11)],
)
def test_a_version_is_a_commit_a_tag_or_a_branch(
    client: httpx.Client, version: str, shown: str, rows: int
) -> None:
    pets = client.get("/v1/datasets/pets", params={"version": version}).json()

    assert (pets["version"], pets["rows"]) == (shown, rows)


def test_the_tilde_stands_for_the_slash_in_names(client: httpx.Client) -> None:
    digits = client.get("/v1/datasets/vision~digits").json()

    assert digits["name"] == "vision/digits"
    assert digits["tensors"][0]["picture"]


@pytest.mark.parametrize(
    "name",
    ["..", "..~outside~secret", "way-out~secret", "~etc", "pets~", ".~pets", "pets%00", "nothing",
     "..%5Coutside", "%2E%2E~outside~secret", "memory:~~x"],
)  # fmt: skip
def test_no_name_leads_out_of_the_lake(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/v1/datasets/{name}/rows")

    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "did you mean" not in answer.text  # no hint at what lies outside


def test_the_log_goes_back_page_by_page(client: httpx.Client) -> None:
    first = client.get("/v1/datasets/pets/versions", params={"limit": 2}).json()
    rest = client.get("/v1/datasets/pets/versions", params={"version": first["next"]}).json()

    messages = [one["message"] for one in first["versions"] + rest["versions"]]
    assert messages[:3] == ["drop the empty one", "fix scores", "first batch"]
    assert first["versions"][0]["changes"] == ["-1 row"]
    assert rest["next"] is None


def test_branches_and_tags_name_commits(client: httpx.Client) -> None:
    branches = client.get("/v1/datasets/pets/branches").json()["branches"]
    tags = client.get("/v1/datasets/pets/tags").json()["tags"]

    assert {one["name"] for one in branches} == {"main", "fix-labels"}
    assert tags == [{"name": "v1", "version": "main@1"}]


def test_a_diff_counts_rows_by_identity(client: httpx.Client) -> None:
    diff = client.get("/v1/datasets/pets/diff", params={"a": "main@1"}).json()

    assert (diff["a"], diff["b"]) == ("main@1", "main@3")
    assert (diff["added"], diff["removed"], diff["removed_rows"]) == (0, 1, [11])
    (score,) = diff["updated"]
    assert (score["tensor"], score["count"]) == ("score", 2)
    assert len(score["rows"]) == len(score["rows_before"]) == 2


def test_a_diff_says_where_a_row_is_in_both_versions(client: httpx.Client) -> None:
    diff = client.get("/v1/datasets/pets/diff", params={"a": "main@1"}).json()

    (score,) = diff["updated"]
    for before, after in zip(score["rows_before"], score["rows"], strict=True):
        old, new = (
            client.get(
                "/v1/datasets/pets/rows", params={"version": at, "offset": row, "limit": 1}
            ).json()["rows"][0]
            for at, row in (("main@1", before), ("main@3", after))
        )
        assert old["_row_id"] == new["_row_id"]
        assert old["score"] != new["score"]


def test_an_unknown_version_is_not_found(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/pets", params={"version": "main@99"})

    assert answer.status_code == 404
    assert answer.json()["code"] == "version-not-found"


def test_a_server_that_was_not_told_to_write_changes_nothing(client: httpx.Client) -> None:
    made = client.post("/v1/datasets", json={"name": "new", "schema": {"x": "int8"}})
    removed = client.delete("/v1/datasets/pets", params={"confirm": "pets"})

    assert (made.status_code, removed.status_code) == (403, 403)
    assert client.get("/v1/datasets/pets").status_code == 200


def test_the_api_describes_itself(client: httpx.Client) -> None:
    paths = client.get("/v1/openapi.json").json()["paths"]

    assert "/v1/datasets/{name}/rows" in paths
    assert all(path.startswith("/v1/") for path in paths)
    answers = paths["/v1/datasets/{name}/rows"]["get"]["responses"]
    assert "application/problem+json" in answers["4XX"]["content"]
    assert "RowsPage" in str(answers["200"])
