"""Tiled arrays over HTTP: sent as the same arrays stored whole."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import tensorlake as tl
from tensorlake_server.settings.settings import Settings
from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"


def test_a_tiled_array_is_sent_as_one_stored_whole(tmp_path: Path, connect: AppClient) -> None:
    shape = (None, None)
    schema = {
        "tiled": tl.Array("uint8", shape, tiles=(64, 64)),
        "whole": tl.Array("uint8", shape),
        "waves": tl.Array("float64", (None,), tiles=(100,)),
    }
    pixels = np.random.default_rng(0).integers(0, 255, (150, 130)).astype(np.uint8)
    ds = tl.create(tmp_path / "lake/big", schema, durability="none")
    ds.append({"tiled": pixels, "whole": pixels, "waves": np.arange(250.0)})
    ds.commit()
    settings = Settings(
        url=str(tmp_path / "lake"), token=TOKEN, signing_key=b"k" * 16, static=tmp_path / "none"
    )
    client = connect(settings, token=TOKEN)
    base = "/v1/datasets/big/tensors"

    for query in ("", "?size=64"):
        tiled, whole = (client.get(f"{base}/{name}/0{query}") for name in ("tiled", "whole"))
        assert tiled.headers["content-type"] == whole.headers["content-type"] == "image/png"
        assert tiled.content == whole.content
    waves = client.get(f"{base}/waves/0")
    assert np.array_equal(np.load(io.BytesIO(waves.content)), np.arange(250.0))


def test_an_image_in_tiles_is_sent_as_an_image(tmp_path: Path, connect: AppClient) -> None:
    pytest.importorskip("imagecodecs")
    pixels = np.random.default_rng(0).integers(0, 255, (150, 130, 3)).astype(np.uint8)
    ds = tl.create(
        tmp_path / "lake/big",
        {codec: tl.Image(codec, tiles=(64, 64)) for codec in ("png", "webp")},
        durability="none",
    )
    ds.append({"png": pixels, "webp": pixels})
    ds.commit()
    settings = Settings(
        url=str(tmp_path / "lake"), token=TOKEN, signing_key=b"k" * 16, static=tmp_path / "none"
    )
    client = connect(settings, token=TOKEN)

    for name in ("png", "webp"):
        whole = client.get(f"/v1/datasets/big/tensors/{name}/0")
        small = client.get(f"/v1/datasets/big/tensors/{name}/0?size=64")
        frames = client.post(
            "/v1/datasets/big/thumbnails", json={"tensor": name, "rows": [0], "size": 64}
        )

        assert whole.headers["content-type"] == "image/png"
        assert np.array_equal(np.asarray(PIL.Image.open(io.BytesIO(whole.content))), pixels)
        assert PIL.Image.open(io.BytesIO(small.content)).size == (55, 64)
        assert small.content in frames.content
