"""Narrow floats and groups of tensors over HTTP: read by programs that know neither."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake_server.settings.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"


@pytest.fixture
def client(tmp_path: Path, connect: AppClient) -> httpx.Client:
    schema = {
        "pose": tl.Struct({"score": "bfloat16", "part": tl.Struct({"n": "int8"})}, nullable=True),
        "vector": tl.Embedding(3, dtype="float8_e5m2"),
        "walk": tl.Array("float8_e4m3fn", (None,)),
    }
    ds = tl.create(str(tmp_path / "lake/poses"), schema, durability="none")
    ds.extend(
        {
            "pose": [{"score": 0.1, "part": {"n": 1}}, None, {"score": np.inf, "part": {"n": 3}}],
            "vector": np.eye(3),
            "walk": [[1, 2], [], [448]],
        }
    )
    ds.commit()
    settings = Settings(
        url=str(tmp_path / "lake"), token=TOKEN, signing_key=b"k" * 16, static=tmp_path / "none"
    )
    return connect(settings, token=TOKEN)


def test_the_schema_says_the_dtype_that_is_stored(client: httpx.Client) -> None:
    tensors = client.get("/v1/datasets/poses").json()["tensors"]

    assert {one["name"]: one["dtype"] for one in tensors} == {
        "pose/score": "bfloat16",
        "pose/part/n": "int8",
        "vector": "float8_e5m2",
        "walk": "float8_e4m3fn",
    }


def test_rows_have_numbers(client: httpx.Client) -> None:
    rows = client.get("/v1/datasets/poses/rows").json()["rows"]

    assert [row["pose/score"] for row in rows] == [0.10009765625, None, "Infinity"]
    assert [row["pose/part/n"] for row in rows] == [1, None, 3]
    assert [row["vector"] for row in rows] == np.eye(3).tolist()
    assert [row["walk"] for row in rows] == [[1, 2], [], [448]]


def test_programs_get_float32(client: httpx.Client) -> None:
    def read(accept: str) -> bytes:
        answer = client.get("/v1/datasets/poses/rows", headers={"Accept": accept})
        assert answer.status_code == 200, answer.text
        return answer.content

    table = pa.ipc.open_stream(read("application/vnd.apache.arrow.stream")).read_all()
    arrays = np.load(io.BytesIO(read("application/x-npz")), allow_pickle=False)
    sample = client.get("/v1/datasets/poses/tensors/vector/1?raw")
    inner = client.get("/v1/datasets/poses/tensors/pose~score/0?raw")

    assert table["pose/score"].type == pa.float32()
    assert arrays["vector"].dtype == arrays["walk"].dtype == np.float32
    assert np.load(io.BytesIO(sample.content), allow_pickle=False).tolist() == [0, 1, 0]
    assert np.load(io.BytesIO(inner.content), allow_pickle=False) == np.float32(0.10009765625)


def test_a_query_names_a_field_by_a_dot(client: httpx.Client) -> None:
    asked = {"tql": "WHERE pose.score > 0.05"}
    answer = client.post("/v1/datasets/poses/query", json=asked)

    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"] == 2


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_a_moment_leaves_as_npy_with_its_unit(
    tmp_path: Path, connect: AppClient, unit: Literal["s", "us", "ns"]
) -> None:
    url = str(tmp_path / "lake/times")
    ds = tl.create(url, {"when": tl.Timestamp(unit, "UTC")}, durability="none")
    ds.append({"when": "2026-11-22T12:00:00+00:00"})
    ds.commit()
    settings = Settings(
        url=str(tmp_path / "lake"), token=TOKEN, signing_key=b"k" * 16, static=tmp_path / "none"
    )

    answer = connect(settings, token=TOKEN).get("/v1/datasets/times/tensors/when/0")

    assert answer.status_code == 200
    assert np.load(io.BytesIO(answer.content)) == np.datetime64("2026-11-22T12:00:00", unit)
