"""Point clouds and meshes over HTTP: described in rows, downloaded, never run by browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tensorlake as tl
from tensorlake_server.settings.settings import Settings
from tests.support.clouds import scan
from tests.support.meshes import mesh_file

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"


@pytest.fixture
def client(tmp_path: Path, connect: AppClient) -> httpx.Client:
    ds = tl.create(
        str(tmp_path / "lake/scans"),
        {"points": tl.PointCloud(), "mesh": tl.Mesh()},
        durability="none",
    )
    ds.extend({"points": [scan(500)], "mesh": [mesh_file("glb")]})
    ds.commit()
    settings = Settings(
        url=str(tmp_path / "lake"), token=TOKEN, signing_key=b"k" * 16, static=tmp_path / "none"
    )
    return connect(settings, token=TOKEN)


def test_a_sample_is_a_download_of_what_is_stored(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/scans/tensors/points/0")

    assert answer.headers["content-type"] == "application/octet-stream"
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    stored = tl.PointCloud().convert([answer.content], tensor="points")
    assert len(stored) == 1


def test_rows_describe_samples(client: httpx.Client) -> None:
    (row,) = client.get("/v1/datasets/scans/rows").json()["rows"]

    assert row["points"]["media_type"] == "application/vnd.tensorlake.points"
    assert row["points"]["shape"] == [500]


def test_a_mesh_is_its_file(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/scans/tensors/mesh/0", headers={"Range": "bytes=0-3"})
    (row,) = client.get("/v1/datasets/scans/rows").json()["rows"]

    assert (answer.status_code, answer.content) == (206, b"glTF")
    assert answer.headers["content-type"] == "model/gltf-binary"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert row["mesh"]["shape"] == [162, 3]


@pytest.mark.parametrize("tensor", ["points", "mesh"])
@pytest.mark.parametrize("path", ["0?window=0,50", "0/window"])
def test_a_window_is_of_images(client: httpx.Client, tensor: str, path: str) -> None:
    answer = client.get(f"/v1/datasets/scans/tensors/{tensor}/{path}")

    assert answer.status_code == 400
    assert "window" in answer.json()["detail"]
