"""Rows that a client selects one by one: a result with an id, for a week, across restarts."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError, QueryLimitError, ViewNotFoundError
from tensorlake_server import Settings
from tensorlake_server.lake.staged_rows import KEPT_S, StagedRows, read_runs

ROWS = 100_000
NUMBERS = "/v1/datasets/numbers"


def varint(number: int) -> bytes:
    head = bytearray()
    while number > 0x7F:
        head.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(head) + bytes([number])


def runs_of(rows: Iterable[int]) -> bytes:
    """Write sorted rows as runs, the plain way."""
    out, stop, pending = b"", 0, sorted(rows)
    while pending:
        length = 1
        while length < len(pending) and pending[length] == pending[0] + length:
            length += 1
        out += varint(pending[0] - stop) + varint(length)
        stop, pending = pending[0] + length, pending[length:]
    return out


@pytest.fixture
def served(tmp_path: Path, settings: Settings) -> Settings:
    """A server that keeps selections in a folder, of a hundred thousand numbers."""
    numbers = tl.create(str(tmp_path / "lake/numbers"), {"x": "int64"}, durability="none")
    numbers.extend({"x": np.arange(ROWS)})
    numbers.commit("numbers")
    return replace(
        settings, url=str(tmp_path / "lake"), write=True, selections=tmp_path / "selections"
    )


@pytest.fixture
def client(served: Settings, connect: Callable[..., httpx.Client]) -> httpx.Client:
    return connect(served, token=served.token)


def select(client: httpx.Client, runs: bytes, **more: Any) -> httpx.Response:
    body = {"rows": base64.b64encode(runs).decode(), **more}
    return client.post(f"{NUMBERS}/query", json=body)


def last_value(client: httpx.Client, view: str, total: int) -> int:
    answer = client.get(f"{NUMBERS}/rows", params={"view": view, "offset": total - 1}).json()
    return answer["rows"][0]["x"]


def test_fifty_thousand_separate_rows_are_a_result_with_a_short_id(client: httpx.Client) -> None:
    result = select(client, bytes([0, 1, *[1, 1] * (ROWS // 2 - 1)]), limit=2).json()

    assert (result["rows"], result["is_computed"], result["tql"]) == (ROWS // 2, False, "")
    assert [row["x"] for row in result["page"]["rows"]] == [0, 2]
    assert last_value(client, result["view"], ROWS // 2) == ROWS - 2
    assert len(result["view"]) < 400  # it goes into addresses


def test_an_id_outlives_the_server_and_its_rows_become_a_view(
    client: httpx.Client, served: Settings, connect: Callable[..., httpx.Client]
) -> None:
    view = select(client, runs_of([3, 4, 99_999])).json()["view"]
    other = connect(served, token=served.token)

    assert other.get(f"{NUMBERS}/query", params={"view": view}).json()["rows"] == 3
    saved = other.post(f"{NUMBERS}/views", json={"name": "three", "view": view, "message": ""})

    assert saved.status_code == 201
    opened = tl.open(f"{served.url}/numbers").views["three"]
    assert opened["x"][:].tolist() == [3, 4, 99_999]


def test_rows_that_are_gone_are_sent_again_under_the_same_id(
    client: httpx.Client, served: Settings, connect: Callable[..., httpx.Client]
) -> None:
    runs = runs_of([1, 7])
    view = select(client, runs).json()["view"]
    other = connect(replace(served, selections=None), token=served.token)

    gone = other.get(f"{NUMBERS}/query", params={"view": view})

    assert (gone.status_code, gone.json()["code"]) == (404, "view-not-found")
    assert "select them again" in gone.json()["detail"]
    assert select(other, runs).json()["view"] == view
    assert last_value(other, view, 2) == 7


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        (b"", "pairs of varints"),
        (bytes([0, 0]), "pairs of varints"),
        (bytes([0, 1, 0, 1]), "pairs of varints"),
        (bytes([0]), "pairs of varints"),
        (bytes([0, 0x81]), "pairs of varints"),
        (bytes([0, *[0xFF] * 9, 1]), "pairs of varints"),
        (varint(ROWS - 1) + varint(2), "the last selected row is 100,000"),
        (varint(2**62) + varint(2**62) + varint(2**62) + varint(2**62), "there are 100,000 rows"),
    ],
)
def test_bad_runs_are_refused(client: httpx.Client, runs: bytes, told: str) -> None:
    answer = select(client, runs)

    assert answer.status_code == 400
    assert told in answer.json()["detail"]


@pytest.mark.parametrize(
    "body", [{}, {"rows": "AAE=", "tql": "WHERE true"}, {"rows": "AAE=", "params": {"x": 1}}]
)
def test_rows_are_named_in_one_way(client: httpx.Client, body: dict[str, Any]) -> None:
    assert client.post(f"{NUMBERS}/query", json=body).status_code == 422
    assert client.post(f"{NUMBERS}/query", json={"rows": "*"}).status_code == 400


def test_a_selection_holds_no_more_memory_than_a_query(
    served: Settings, connect: Callable[..., httpx.Client]
) -> None:
    small = connect(replace(served, max_query_memory_nbytes=80_000), token=served.token)

    answer = select(small, varint(0) + varint(10_001))

    assert (answer.status_code, answer.json()["code"]) == (413, "query-limit")
    assert select(small, varint(0) + varint(10_000)).status_code == 200


@given(st.sets(st.integers(0, 3000), min_size=1))
def test_runs_are_read_as_they_are_written(rows: set[int]) -> None:
    assert read_runs(runs_of(rows), 3001, most_nbytes=1 << 20).tolist() == sorted(rows)


@given(st.binary(max_size=40))
def test_any_bytes_are_rows_in_bounds_or_refused(data: bytes) -> None:
    try:
        rows = read_runs(data, 500, most_nbytes=4000)
    except (InvalidInputError, QueryLimitError):
        return
    assert len(rows) > 0
    assert (np.diff(rows) > 0).all()
    assert (rows[0] >= 0) & (rows[-1] < 500)


def test_selections_are_bounded_in_bytes_and_in_time(tmp_path: Path) -> None:
    staged = StagedRows(8, tmp_path)
    (tmp_path / "README").write_text("not a selection")
    names = [staged.put(bytes([i, 1, 9, 1])) for i in range(2)]
    os.utime(tmp_path / f"{names[0]}.rows", (0, time.time() - 60))

    assert staged.get(names[0]) == bytes([0, 1, 9, 1])  # used again: the other one is older now
    os.utime(tmp_path / f"{names[1]}.rows", (0, time.time() - 30))
    third = staged.put(bytes([2, 1, 9, 1]))
    with pytest.raises(ViewNotFoundError):
        staged.get(names[1])
    assert staged.get(names[0])
    os.utime(tmp_path / f"{third}.rows", (0, time.time() - KEPT_S - 1))
    with pytest.raises(ViewNotFoundError, match="more than a week ago"):
        staged.get(third)
    with pytest.raises(QueryLimitError, match="selections_nbytes"):
        staged.put(bytes(9))
    assert (tmp_path / "README").exists()


def test_a_damaged_selection_is_not_other_rows(tmp_path: Path) -> None:
    staged = StagedRows(100, tmp_path)
    name = staged.put(bytes([0, 1]))
    (tmp_path / f"{name}.rows").write_bytes(bytes([5, 1]))

    with pytest.raises(ViewNotFoundError):
        staged.get(name)
