from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake_server import Settings
from tensorlake_server.media.windows import Window, parse_window, range_of, to_greys, window_of

RAMP = np.tile(np.arange(64, dtype=np.uint16) * 16, (48, 1))  # 0 … 1,008 of 65,535


def greys(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("L")).astype(int)


@pytest.fixture
def client(tmp_path: Path, connect: Callable[..., httpx.Client]) -> httpx.Client:
    """Serve one scan of 12 bits in each form that a deep image has, and a plain image."""
    types = {
        "array": tl.Array("uint16", (None, None)),
        "png": tl.Image("png", mode="L16"),
        "depth": tl.Array("float32", (48, 64)),
        "hounsfield": tl.Array("int16", (None, None)),
        "plain": tl.Image("png"),
        "holes": tl.Array("float32", (None, None), nullable=True),
    }
    depth = RAMP.astype(np.float32) / 1008
    with tl.create(str(tmp_path / "scans"), types) as scans:
        row = {
            "array": RAMP,
            "png": RAMP[:, :, None],
            "depth": depth,
            "hounsfield": RAMP.astype(np.int16) - 504,
            "plain": np.full((48, 64, 3), 90, dtype=np.uint8),
            "holes": np.where(depth < 0.5, np.nan, depth),
        }
        scans.append(row)
        scans.append({**row, "holes": None})
        scans.commit("one scan")
    settings = Settings(url=str(tmp_path))
    return connect(settings, token=settings.token)


@pytest.mark.parametrize("tensor", ["array", "png", "depth", "hounsfield"])
def test_a_deep_image_uses_all_greys_whatever_its_values(client: httpx.Client, tensor: str) -> None:
    whole = client.get(f"/v1/datasets/scans/tensors/{tensor}/0", params={"window": "auto"})
    small = client.get(f"/v1/datasets/scans/tensors/{tensor}/0", params={"size": 64})

    for answer in (whole, small):
        drawn = greys(answer.content)
        assert drawn.shape == (48, 64)
        assert (drawn[:, 0].max(), drawn[:, -1].min()) == (0, 255)
        assert (np.diff(drawn[24]) >= 0).all()


@pytest.mark.parametrize(
    ("tensor", "low", "high"),
    [("array", 320, 336), ("png", 320, 336), ("depth", 0.32, 0.33), ("hounsfield", -190, -180)],
)
def test_a_window_is_black_below_and_white_above(
    client: httpx.Client, tensor: str, low: float, high: float
) -> None:
    window = {"window": f"{low},{high}"}

    answer = client.get(f"/v1/datasets/scans/tensors/{tensor}/0", params=window)
    frames = client.post(
        "/v1/datasets/scans/thumbnails", json={"tensor": tensor, "rows": [0], "size": 64, **window}
    )

    for data in (answer.content, frames.content[20:]):
        drawn = greys(data)
        assert (drawn[:, :20].max(), drawn[:, 22:].min()) == (0, 255)


def test_windows_do_not_share_a_kept_thumbnail(client: httpx.Client) -> None:
    def mean(window: str) -> float:
        asked = {"size": 32, "window": window, "version": "main@1"}
        return greys(client.get("/v1/datasets/scans/tensors/array/0", params=asked).content).mean()

    first = [mean("0,1008"), mean("0,100"), mean("900,1008")]

    assert [mean("0,1008"), mean("0,100"), mean("900,1008")] == first
    assert first[2] < first[0] < first[1]


def test_the_window_of_a_sample_is_told_with_its_range(client: httpx.Client) -> None:
    told = client.get("/v1/datasets/scans/tensors/hounsfield/0/window").json()

    assert (told["minimum"], told["maximum"]) == (-504, 504)
    assert -504 <= told["low"] < -480
    assert 480 < told["high"] <= 504


def test_nan_is_black_and_no_part_of_the_range(client: httpx.Client) -> None:
    told = client.get("/v1/datasets/scans/tensors/holes/0/window").json()
    drawn = client.get("/v1/datasets/scans/tensors/holes/0", params={"window": "auto"})

    assert 0.5 <= told["minimum"] < told["maximum"] == 1
    assert greys(drawn.content)[:, :31].max() == 0


@pytest.mark.parametrize("window", ["", "1", "1,1", "2,1", "a,b", "nan,1", "0,inf", "1,2,3"])
def test_what_is_no_window_is_refused(client: httpx.Client, window: str) -> None:
    with pytest.raises(InvalidInputError, match="window=low,high"):
        parse_window(window)

    answer = client.get("/v1/datasets/scans/tensors/array/0", params={"window": window})
    posted = client.post(
        "/v1/datasets/scans/thumbnails", json={"tensor": "array", "rows": [0], "window": window}
    )

    assert (answer.status_code, posted.status_code) == (400, 400)


def test_other_samples_have_no_window_and_are_sent_as_they_are(client: httpx.Client) -> None:
    plain = "/v1/datasets/scans/tensors/plain/0"

    refused = client.get(f"{plain}/window")

    assert (
        refused.status_code,
        client.get("/v1/datasets/scans/tensors/holes/1/window").status_code,
    ) == (400, 404)
    assert client.get(plain, params={"window": "auto"}).content == client.get(plain).content


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((16, 16), dtype=np.uint16),
        np.full((16, 16), np.nan, dtype=np.float32),
        np.full((16, 16), np.inf, dtype=np.float64),
        np.array([[1e300, -1e300]]),
        np.array([[1e30, -1e30]], dtype=np.float32),
        np.array([[65504, -65504]], dtype=np.float16),
        np.zeros((0, 4), dtype=np.int16),
    ],
)
def test_odd_values_have_a_window_and_are_drawn(array: np.ndarray) -> None:
    window = window_of(array)
    low, high = range_of(array)

    assert window.low < window.high
    assert low <= high
    assert to_greys(array, None).shape == array.shape
    assert to_greys(array, Window(0, 1)).dtype == np.uint8
