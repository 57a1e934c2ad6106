"""A page of rows ends before its samples are too many bytes, and says where the next one begins."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake_server import Settings

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
NPZ = {"Accept": "application/x-npz"}
TOKEN = "test-token"
ROWS = 12
LETTERS = 100_000  # of each text
LARGE = 4  # a row of this dataset is twenty times as long


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large")
    texts = ["a" * (LETTERS * 20 if row == LARGE else LETTERS) for row in range(ROWS)]
    ds = tl.create(str(root / "texts"), {"text": tl.Text(), "x": "int64"}, durability="none")
    ds.extend({"text": texts, "x": range(ROWS)})
    ds.commit("packed to nearly nothing")
    media = tl.create(str(root / "blobs"), {"blob": tl.Bytes()}, durability="none")
    media.extend({"blob": [bytes([row]) * LETTERS for row in range(ROWS)]})
    media.commit("bytes")
    boxes = tl.create(str(root / "boxes"), {"boxes": tl.BBox("xywh")}, durability="none")
    boxes.extend({"boxes": [np.full((row % 3 * 500, 4), row, np.float32) for row in range(ROWS)]})
    boxes.commit("boxes")
    return root


@pytest.fixture
def bounded(
    lake: Path, settings: Settings, connect: Callable[..., httpx.Client]
) -> Callable[[int], httpx.Client]:
    def make(most: int) -> httpx.Client:
        return connect(replace(settings, url=str(lake), max_page_nbytes=most), token=TOKEN)

    return make


def pages(client: httpx.Client, path: str, params: dict[str, str]) -> list[list[int]]:
    """Follow ``next`` to the end: the rows of each page."""
    found: list[list[int]] = []
    offset: int | None = 0
    while offset is not None:
        page = client.get(path, params=params | {"offset": str(offset)}).json()
        found.append([row["_row"] for row in page["rows"]])
        offset = page["next"]
    return found


@pytest.mark.parametrize("name", ["texts", "blobs", "boxes"])
@pytest.mark.parametrize("most", [1, 250_000, 64 << 20])
def test_every_row_is_in_one_page_of_a_bounded_size(
    bounded: Callable[[int], httpx.Client], name: str, most: int
) -> None:
    found = pages(bounded(most), f"/v1/datasets/{name}/rows", {"limit": "10"})

    assert [row for page in found for row in page] == list(range(ROWS))
    assert max(map(len, found)) <= 10


def test_a_page_ends_before_it_is_too_large_and_a_large_row_is_one_by_itself(
    bounded: Callable[[int], httpx.Client],
) -> None:
    found = pages(bounded(3 * LETTERS + 500), "/v1/datasets/texts/rows", {"limit": "10"})

    assert found == [[0, 1, 2], [3], [LARGE], [5, 6, 7], [8, 9, 10], [11]]


def test_what_is_small_is_one_page(bounded: Callable[[int], httpx.Client]) -> None:
    client = bounded(10_000)

    assert len(pages(client, "/v1/datasets/texts/rows", {"columns": "x"})) == 1
    assert pages(client, "/v1/datasets/texts/rows", {"columns": "x", "limit": "0"}) == [[]]


@pytest.mark.parametrize("accept", [ARROW, NPZ])
def test_programs_follow_the_link(
    bounded: Callable[[int], httpx.Client], accept: dict[str, str]
) -> None:
    client = bounded(3 * LETTERS + 500)
    found: list[int] = []
    address: str | None = "/v1/datasets/texts/rows?limit=10&columns=x,text"
    while address is not None:
        answer = client.get(address, headers=accept)
        if accept is ARROW:
            table = pa.ipc.open_stream(answer.content).read_all()
            found += table.column("x").to_pylist()
        else:
            found += np.load(io.BytesIO(answer.content))["x"].tolist()
        following = answer.links.get("next")
        address = None if following is None else str(answer.url.join(following["url"]))

    assert found == list(range(ROWS))


def test_the_first_page_of_a_query_is_bounded_too(bounded: Callable[[int], httpx.Client]) -> None:
    asked = {"tql": "SELECT *, text AS again ORDER BY x DESC", "limit": 10}

    page = bounded(4 * LETTERS + 500).post("/v1/datasets/texts/query", json=asked).json()["page"]

    assert [row["x"] for row in page["rows"]] == [11, 10]
    assert page["next"] == 2


def test_numbers_in_json_count_for_their_digits(bounded: Callable[[int], httpx.Client]) -> None:
    client = bounded(16_000)

    as_json = client.get("/v1/datasets/boxes/rows", params={"limit": 3}).json()
    as_arrow = client.get("/v1/datasets/boxes/rows", params={"limit": 3}, headers=ARROW)

    assert len(as_json["rows"]) == 1
    assert pa.ipc.open_stream(as_arrow.content).read_all().num_rows == 2
