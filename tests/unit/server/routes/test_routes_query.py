from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.unit.server.conftest import HOST, InProcess

QUERY = "/v1/datasets/pets/query"
ROWS = "/v1/datasets/pets/rows"


def run(client: httpx.Client, tql: str, **more: Any) -> Any:
    return client.post(QUERY, json={"tql": tql, **more}).json()


def test_a_query_gives_its_count_and_first_page(client: httpx.Client) -> None:
    result = run(client, "WHERE CONTAINS(labels, 'cat') ORDER BY score DESC", limit=2)

    assert result["rows"] == 3
    assert len(result["page"]["rows"]) == 2
    assert result["version"] == "main@3"
    assert not result["is_computed"]
    assert result["cost"]["seconds"] > 0


def test_the_view_id_pages_through_the_result(client: httpx.Client) -> None:
    result = run(client, "WHERE score > 0.3 ORDER BY score DESC", limit=0)

    page = client.get(ROWS, params={"view": result["view"], "columns": "score", "offset": 1}).json()

    assert page["total"] == result["rows"]
    scores = [row["score"] for row in page["rows"]]
    assert scores == sorted(scores, reverse=True)


def test_any_replica_evaluates_a_view_again(
    client: httpx.Client, settings: Settings, connect: Callable[..., httpx.Client]
) -> None:
    result = run(client, "WHERE score > 0.3")
    params = {"view": result["view"], "columns": "caption"}

    replica = connect(settings, token=settings.token)

    assert replica.get(ROWS, params=params).json() == client.get(ROWS, params=params).json()


def test_a_view_of_one_dataset_is_none_of_another(client: httpx.Client) -> None:
    view = run(client, "WHERE score > 0.3")["view"]

    answer = client.get("/v1/datasets/vision~digits/rows", params={"view": view})

    assert answer.status_code == 404


def test_the_source_of_rows_is_a_column_of_a_query(client: httpx.Client) -> None:
    result = run(client, "SELECT score, _source WHERE _source IS NULL", limit=2)

    rows = result["page"]["rows"]
    assert [row["_source"] for row in rows] == [None, None]
    params = {"view": result["view"], "columns": "_source,score", "limit": 2}
    assert client.get(ROWS, params=params).json()["rows"] == rows


def test_computed_columns_are_columns(client: httpx.Client) -> None:
    result = run(client, "SELECT caption, score * 2 AS twice ORDER BY score LIMIT 1")

    assert [tensor["name"] for tensor in result["tensors"]] == ["caption", "twice"]
    assert result["page"]["rows"][0]["twice"] == pytest.approx(2 * 0.18181819, rel=1e-5)


def test_aggregates_have_no_rows_of_the_dataset(client: httpx.Client) -> None:
    result = run(client, "SELECT COUNT(*) AS n")

    assert result["is_computed"]
    assert result["page"]["rows"] == [{"_row": None, "_row_id": None, "n": 11}]


def test_parameters_are_values_and_never_text(client: httpx.Client) -> None:
    injected = run(client, "WHERE caption = $c", params={"c": "x' OR 'a' = 'a"})
    found = run(client, "WHERE caption = $c", params={"c": "picture 3"})

    assert injected["rows"] == 0
    assert found["rows"] == 1


def test_an_error_names_its_place_in_the_text(client: httpx.Client) -> None:
    answer = client.post(QUERY, json={"tql": "WHERE lable = 'cat'"})

    problem = answer.json()
    assert answer.status_code == 400
    assert problem["code"] == "query-name"
    assert (problem["start"], problem["stop"]) == (6, 11)
    assert (problem["line"], problem["column"]) == (1, 7)
    assert "^^^^^" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"tql": "WHERE ((("}, 400),
        ({"tql": "WHERE caption"}, 400),
        ({"tql": "WHERE score > $missing"}, 400),
        ({"tql": "WHERE score > 0", "params": {"tql": 1}}, 400),
        ({"tql": "WHERE score > 0", "params": {"a b": 1}}, 400),
        ({"tql": "x" * 20_000}, 422),
        ({"text": "WHERE score > 0"}, 422),
        ({}, 422),
        ([], 422),
    ],
)
def test_no_body_is_answered_with_a_traceback(client: httpx.Client, body: Any, status: int) -> None:
    answer = client.post(QUERY, json=body)

    assert answer.status_code == status
    assert answer.json()["status"] == status


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"tql": "WHERE score > 0", "columns": ["score"]}, "either tql"),
        ({}, "either tql"),
        ({"columns": ["score"], "params": {"low": 1}}, "params belong to tql"),
    ],
)
def test_a_step_is_one_thing(client: httpx.Client, step: Any, says: str) -> None:
    route = QUERY.removesuffix("query") + "selection"
    whole = {"tql": "SELECT score WHERE score > $low", "params": {"low": 0}}

    answer = client.post(route, json={"steps": [whole, step]})

    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert client.post(route, json={"steps": [whole]}).status_code == 200


@pytest.mark.parametrize("value", ["NaN", "1e999", "[1, -Infinity]", '"\\ud800"'])
def test_a_parameter_that_no_id_could_hold_is_refused(client: httpx.Client, value: str) -> None:
    body = f'{{"tql": "WHERE score > $x", "params": {{"x": {value}}}}}'
    headers = {"Content-Type": "application/json"}

    answer = client.post("/v1/datasets/pets/query", content=body, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-input")
    assert "'x'" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body", [b'{"tql": "\xff"}', b"[" * 100_000, b'{"limit": ' + b"9" * 5000 + b"}"]
)
def test_a_body_that_cannot_be_read_is_said_to_be_none(client: httpx.Client, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}

    answer = client.post("/v1/datasets/pets/query", content=body, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-input")


def test_a_query_that_would_hold_too_much_is_refused_by_name(
    settings: Settings, connect: Callable[..., httpx.Client]
) -> None:
    client = connect(replace(settings, max_query_memory_nbytes=1 << 20), token=settings.token)

    answer = client.post(QUERY, json={"tql": "SAMPLE BY 1 LIMIT 100000000"})
    window = "SELECT HISTOGRAM(score, 100000) OVER () AS h"
    read = client.post(QUERY, json={"tql": window})

    for one, named in ((answer, "SAMPLE BY would hold"), (read, "OVER (…) would hold")):
        assert (one.status_code, one.json()["code"]) == (413, "query-limit")
        assert named in one.json()["detail"]
        assert "max_query_memory_nbytes" in one.json()["detail"]


def test_a_saved_view_is_computed_within_the_same_memory(
    lake_path: Path, connect: Callable[..., httpx.Client], tmp_path: Path
) -> None:
    ds = tl.create(str(tmp_path / "pets"), {"x": "int64"})
    ds.extend({"x": range(5)})
    ds.commit("five")
    longest = "SELECT x, " + "REPLACE(" * 7 + "'a'" + ", 'a', 'aaaaaaaaaa')" * 7 + " AS z"
    ds.query(longest).save("long")
    settings = Settings(url=str(tmp_path), token="t", max_query_memory_nbytes=1 << 20)
    client = connect(settings, token="t")

    answer = client.get("/v1/datasets/pets/views/long")

    assert (answer.status_code, answer.json()["code"]) == (413, "query-limit")


def test_results_are_kept_by_the_memory_they_hold(tmp_path: Path) -> None:
    ds = tl.create(str(tmp_path / "pets"), {"x": "int64"})
    ds.extend({"x": range(100_000)})
    ds.commit("many")
    settings = Settings(url=str(tmp_path), token="t", views_nbytes=2 << 20)
    app = create_app(settings)
    client = httpx.Client(
        transport=InProcess(app), base_url=HOST, headers={"Authorization": "Bearer t"}
    )

    results = [run(client, f"WHERE x >= {least}", limit=0) for least in range(24)]

    lake = app.state.lake
    assert 800_000 < lake.views_nbytes <= 2 << 20
    for result in results[::8]:  # also one that was forgotten
        rows = client.get(ROWS, params={"view": result["view"], "limit": 1}).json()
        assert rows["total"] == result["rows"]
    run(client, "SELECT HISTOGRAM(x, 100) OVER () AS h", limit=0)  # 80 MB: not kept
    assert lake.views_nbytes <= 2 << 20


def test_a_result_goes_with_the_handle_of_its_version(tmp_path: Path) -> None:
    ds = tl.create(str(tmp_path / "pets"), {"x": "int64"})
    for number in range(10):
        ds.extend({"x": [number]})
        ds.commit(f"row {number}")
    app = create_app(Settings(url=str(tmp_path), token="t"))
    client = httpx.Client(
        transport=InProcess(app), base_url=HOST, headers={"Authorization": "Bearer t"}
    )

    one = run(client, "WHERE x >= 0", version="main@1", limit=0)
    alone = app.state.lake.views_nbytes
    for version in range(2, 11):  # as many handles as are kept, and one
        run(client, "WHERE x >= 0", version=f"main@{version}", limit=0)

    assert app.state.lake.views_nbytes == 8 * alone
    again = client.get(ROWS, params={"view": one["view"], "limit": 1}).json()
    assert again["total"] == one["rows"] == 1


@pytest.mark.parametrize("tql", ["SELECT ARRAY_MAX(scan) AS z", "WHERE ANY(scan = 3)"])
def test_values_of_media_read_as_handles_are_refused(
    tmp_path: Path, settings: Settings, connect: Callable[..., httpx.Client], tql: str
) -> None:
    scans = tl.create(str(tmp_path / "scans"), {"scan": tl.Nifti("int16")})
    scans.append({"scan": {"voxels": np.ones((4, 5, 6), np.int16), "affine": np.eye(4)}})
    scans.commit("one")
    client = connect(replace(settings, url=str(tmp_path)), token=settings.token)

    answer = client.post("/v1/datasets/scans/query", json={"tql": tql})

    assert answer.status_code == 400
    assert "'scan' is Nifti(int16)" in answer.text
    shapes = client.post("/v1/datasets/scans/query", json={"tql": "SELECT SHAPE(scan) AS z"})
    assert shapes.json()["page"]["rows"][0]["z"] == [4, 5, 6]


def test_a_parameter_that_is_too_large_for_the_id_is_refused_by_its_size(
    client: httpx.Client,
) -> None:
    answer = client.post(QUERY, json={"tql": "WHERE caption = $y", "params": {"y": "z" * 300_000}})

    assert answer.status_code == 413
    assert "the query and its parameters have 300," in answer.json()["detail"]
