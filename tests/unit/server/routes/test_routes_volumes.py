"""Volumes over HTTP: planes as images, windows, stored bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake_server import Settings
from tests.unit.server.routes.test_routes_samples import frames_of

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.unit.server.conftest import AppClient

SAMPLE = "/v1/datasets/scans/tensors/volume"
VOXELS = np.arange(20 * 30 * 40, dtype=np.int16).reshape(20, 30, 40)
LABELS = (np.arange(9 * 16 * 16).reshape(9, 16, 16) % 3).astype(np.uint8)


@pytest.fixture
def stored(tmp_path: Path) -> tl.Dataset:
    mask = tl.SegmentMask(["a", "b", "c"], of="volume", nullable=True)
    schema = {"volume": tl.Nifti(nullable=True), "line": tl.Nifti(ndim=1), "mask": mask}
    ds = tl.create(str(tmp_path / "lake/scans"), schema, durability="none")
    given = [{"voxels": one, "affine": np.eye(4)} for one in (VOXELS, LABELS)]
    line = {"voxels": np.zeros(9, np.int16), "affine": np.eye(4)}
    ds.extend({"volume": [*given, None], "line": [line] * 3, "mask": [None, LABELS, None]})
    ds.commit()
    return ds


@pytest.fixture
def client(tmp_path: Path, stored: tl.Dataset, connect: AppClient) -> httpx.Client:
    assert len(stored) == 3
    settings = Settings(
        url=str(tmp_path / "lake"), token="t", signing_key=b"k" * 16, static=tmp_path / "none"
    )
    return connect(settings, token="t")


def pixels(body: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(body)).convert("L")).astype(int)


def test_a_sample_is_its_middle_plane_and_a_frame_any(client: httpx.Client) -> None:
    middle = client.get(f"{SAMPLE}/0")
    plane = client.get(f"{SAMPLE}/0", params={"frame": 3, "window": "3600,4799"})

    assert middle.headers["Content-Type"] == "image/png"
    assert pixels(middle.content).shape == (30, 40)
    expected = (VOXELS[3].astype(float) - 3600) / 1199 * 255
    assert np.abs(pixels(plane.content) - expected).max() <= 1
    assert client.get(f"{SAMPLE}/0", params={"frame": 20}).status_code == 404
    assert client.get(f"{SAMPLE}/2").status_code == 404


def test_labels_are_drawn_over_the_whole_range_of_greys(client: httpx.Client) -> None:
    drawn = pixels(client.get(f"{SAMPLE}/1").content)

    assert sorted(set(drawn.reshape(-1).tolist())) == [0, 128, 255]


def test_thumbnails_and_windows_are_of_the_middle_plane(client: httpx.Client) -> None:
    asked = {"tensor": "volume", "rows": [0, 2, 1], "size": 16}
    answer = client.post("/v1/datasets/scans/thumbnails", json=asked)
    window = client.get(f"{SAMPLE}/0/window").json()

    assert [kind > 0 for _, kind, *_ in frames_of(answer.content)] == [True, False, True]
    assert (window["minimum"], window["maximum"]) == (VOXELS[10].min(), VOXELS[10].max())


def test_a_volume_whose_planes_are_lines_has_a_window(
    client: httpx.Client, stored: tl.Dataset
) -> None:
    voxels = VOXELS[:, :16, 20:21]
    volume, line = ({"voxels": one, "affine": np.eye(4)} for one in (voxels, np.zeros(9, np.int16)))
    stored.append({"volume": volume, "line": line, "mask": None})
    stored.commit()

    window = client.get(f"{SAMPLE}/3/window").json()

    assert (window["minimum"], window["maximum"]) == (voxels[10].min(), voxels[10].max())


def test_raw_is_the_stored_sample_in_ranges(client: httpx.Client, stored: tl.Dataset) -> None:
    answer = client.get(f"{SAMPLE}/0", params={"raw": ""}, headers={"Range": "bytes=10-19"})

    assert answer.status_code == 206
    assert answer.content == stored["volume"].bytes(0)[10:20]
    assert answer.headers["Content-Disposition"].startswith("attachment")


def test_tensors_and_rows_describe_volumes(client: httpx.Client) -> None:
    tensors = {one["name"]: one for one in client.get("/v1/datasets/scans").json()["tensors"]}
    rows = client.get("/v1/datasets/scans/rows").json()["rows"]

    assert (tensors["volume"]["kind"], tensors["volume"]["picture"]) == ("volume", True)
    assert rows[0]["volume"]["shape"] == [20, 30, 40]
    assert rows[2]["volume"] is None


def test_a_volume_without_planes_is_refused(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/scans/tensors/line/0")

    assert answer.status_code >= 400
    assert "no plane" in answer.json()["detail"]


def test_masks_of_volumes_are_drawn_asked_for_and_counted(client: httpx.Client) -> None:
    of = "/v1/datasets/scans"
    (tensor,) = (one for one in client.get(of).json()["tensors"] if one["name"] == "mask")
    plane = client.get(f"{of}/tensors/mask/1", params={"frame": 2})
    asked = {"tensor": "mask", "rows": [0, 1], "size": 16}
    drawn = frames_of(client.post(f"{of}/thumbnails", json=asked).content)
    found = client.post(f"{of}/query", json={"tql": "SELECT _row WHERE ANY(mask = 2)"})
    counts = client.get(f"{of}/statistics/mask")

    assert (tensor["kind"], tensor["of"], tensor["names"]) == ("volume", "volume", ["a", "b", "c"])
    assert client.get(f"{of}/rows").json()["rows"][1]["mask"]["shape"] == [9, 16, 16]
    assert np.abs(pixels(plane.content) - LABELS[2] * 127.5).max() <= 1
    assert [kind > 0 for _, kind, *_ in drawn] == [False, True]
    assert [row["_row"] for row in found.json()["page"]["rows"]] == [1]
    entries = counts.json()["classes"]["entries"]
    assert [(one["name"], one["count"]) for one in entries] == [("a", 768), ("b", 768), ("c", 768)]
