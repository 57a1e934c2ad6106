from __future__ import annotations

import io

import httpx
import numpy as np
import pyarrow as pa
import pytest

ROWS = "/v1/datasets/pets/rows"
ARROW, NPZ = "application/vnd.apache.arrow.stream", "application/x-npz"


def test_rows_come_with_their_number_and_identity(client: httpx.Client) -> None:
    page = client.get(ROWS, params={"offset": 2, "limit": 2, "columns": "caption,labels"}).json()

    assert (page["offset"], page["total"]) == (2, 11)
    assert [row["_row"] for row in page["rows"]] == [2, 3]
    assert page["rows"][0]["caption"] == "picture 2"
    assert page["rows"][0]["labels"] == [2, 0]
    assert page["rows"][0]["_row_id"].endswith(":2")
    assert set(page["rows"][0]) == {"_row", "_row_id", "caption", "labels"}


def test_who_the_rows_are_can_be_named_among_the_columns(client: httpx.Client) -> None:
    params = {"offset": 2, "limit": 2, "columns": "score,_row_id,_row"}

    rows = client.get(ROWS, params=params).json()["rows"]
    arrow = client.get(ROWS, params=params, headers={"Accept": ARROW})
    table = pa.ipc.open_stream(arrow.content).read_all()
    npz = np.load(io.BytesIO(client.get(ROWS, params=params, headers={"Accept": NPZ}).content))

    assert set(rows[0]) == {"_row", "_row_id", "score"}
    assert table.column_names == ["score", "_row_id", "_row"]
    assert table["_row"].to_pylist() == npz["_row"].tolist() == [2, 3]
    assert table["_row_id"].to_pylist() == npz["_row_id"].tolist()
    assert table["_row_id"].to_pylist() == [row["_row_id"] for row in rows]


def test_where_rows_came_from_can_be_named_among_the_columns(client: httpx.Client) -> None:
    params = {"offset": 2, "limit": 2, "columns": "_source,score"}

    rows = client.get(ROWS, params=params).json()["rows"]
    arrow = client.get(ROWS, params=params, headers={"Accept": ARROW})

    assert [row["_source"] for row in rows] == [None, None]  # nobody ingested them
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.column_names == ["_source", "score"]
    assert table["_source"].to_pylist() == [None, None]


def test_rows_that_a_query_computed_are_nobody(client: httpx.Client) -> None:
    tql = {"tql": "SELECT COUNT(*) AS n GROUP BY caption"}
    view = client.post("/v1/datasets/pets/query", json=tql).json()["view"]
    params = {"view": view, "columns": "_row,_row_id", "limit": 2}

    answer = client.get(ROWS, params=params, headers={"Accept": ARROW})

    assert (
        pa.ipc.open_stream(answer.content).read_all().to_pylist()
        == [{"_row": None, "_row_id": None}] * 2
    )


def test_a_page_beyond_the_end_is_empty(client: httpx.Client) -> None:
    page = client.get(ROWS, params={"offset": 2**62}).json()

    assert page["rows"] == []
    assert page["total"] == 11


def test_null_nan_and_media_are_told_apart(client: httpx.Client) -> None:
    page = client.get(ROWS, params={"version": "main@2", "limit": 12}).json()

    assert page["rows"][4]["caption"] is None
    assert page["rows"][1]["score"] == "NaN"
    assert page["rows"][11]["image"] is None
    assert page["rows"][0]["image"]["shape"] == [120, 160, 3]


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({"limit": 1001}, 400, "invalid-input"),
        ({"limit": -1}, 422, "invalid-input"),
        ({"offset": "x"}, 422, "invalid-input"),
        ({"columns": "nope"}, 404, "tensor-not-found"),
        ({"version": "nope"}, 404, "version-not-found"),
        ({"view": "nope"}, 404, "view-not-found"),
        ({"version": "main@3", "digest": "0" * 16}, 404, "version-not-found"),
    ],
)
def test_what_cannot_be_read_is_a_problem_with_a_code(
    client: httpx.Client, params: dict[str, str], status: int, code: str
) -> None:
    answer = client.get(ROWS, params=params)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_fixed_version_keeps_and_is_not_sent_twice(client: httpx.Client) -> None:
    first = client.get(ROWS, params={"version": "main@3"})
    again = client.get(
        ROWS, params={"version": "main@3"}, headers={"If-None-Match": first.headers["ETag"]}
    )

    assert "immutable" in first.headers["Cache-Control"]
    assert again.status_code == 304
    assert again.content == b""


def test_a_branch_is_asked_each_time(client: httpx.Client) -> None:
    answer = client.get(ROWS, params={"limit": 1})

    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert "ETag" in answer.headers


def test_arrow_gives_what_the_dataset_holds(client: httpx.Client) -> None:
    answer = client.get(
        ROWS,
        params={"version": "main@1", "limit": 12},
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )

    table = pa.ipc.open_stream(answer.content).read_all()
    assert answer.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    assert table.num_rows == 12
    assert table["caption"].to_pylist()[3:6] == ["picture 3", None, "picture 5"]
    assert table["labels"].to_pylist()[2] == ["bird", "cat"]
    assert table["image"][0].as_py()[:3] == b"\xff\xd8\xff"
    assert table["image"][11].as_py() is None
    assert table["boxes"][2].as_py()["shape"] == [2, 4]
    assert table["vector"].combine_chunks().to_numpy_ndarray().shape == (12, 2048)


def test_npz_needs_no_pickle(client: httpx.Client) -> None:
    answer = client.get(
        ROWS,
        params={"version": "main@1", "limit": 12, "columns": "score,boxes,caption,image"},
        headers={"Accept": "application/x-npz"},
    )

    with np.load(io.BytesIO(answer.content), allow_pickle=False) as arrays:
        assert arrays["score"].shape == (12,)
        assert arrays["boxes.shapes"].tolist()[2] == [2, 4]
        assert arrays["caption"][3] == "picture 3"
        assert not arrays["image.valid"][11]
        assert arrays["image.lengths"].sum() == len(arrays["image"])
