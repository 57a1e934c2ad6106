"""Tiled arrays over HTTP: sent as the same arrays stored whole."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
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


def test_thumbnails_of_large_images_and_masks_are_drawn_from_their_overviews(
    tmp_path: Path, connect: AppClient
) -> None:
    pytest.importorskip("imagecodecs")
    url = tmp_path / "lake/big"
    schema = {
        "image": tl.Image("jpeg", tiles=(256, 256)),
        "mask": tl.SegmentMask(["a", "b"], of="image", ignore=255),
        "deep": tl.Array("uint16", (None, None), tiles=(256, 256)),
    }
    ds = tl.create(url, schema, durability="none")
    left = np.tile(np.arange(900) < 450, (1200, 1)).astype(np.uint8)
    pixels = np.repeat(left[..., None] * 255, 3, axis=2).astype(np.uint8)
    ds.append({"image": pixels, "mask": left, "deep": left.astype(np.uint16) * 4000})
    ds.commit()
    (pack,) = (path for path in url.rglob("*.tlp"))
    settings = Settings(
        url=str(tmp_path / "lake"), token=TOKEN, signing_key=b"k" * 16, static=tmp_path / "none"
    )
    client = connect(settings, token=TOKEN)
    spoilt = _with_damaged_tiles(ds, pack)  # a thumbnail that reads any tile is an error

    for name in schema:
        small = client.get(f"/v1/datasets/big/tensors/{name}/0?size=128")
        shown = np.asarray(PIL.Image.open(io.BytesIO(small.content)).convert("RGB"))
        assert small.status_code == 200, (name, small.text)
        assert shown.shape[:2] == (128, 96), name
        assert shown[64, 10, 0] > shown[64, 90, 0], name
        assert client.get(f"/v1/datasets/big/tensors/{name}/0?size=1024").status_code >= 400, spoilt
        asked = {"tensor": name, "rows": [0, 0], "size": 128}
        assert small.content in client.post("/v1/datasets/big/thumbnails", json=asked).content
    refused = client.get("/v1/datasets/big/tensors/image/0?size=128&frame=1")
    assert "needs a Sequence" in refused.text
    assert client.get("/v1/datasets/big/tensors/deep/0?size=128&window=0,4000").status_code == 200


def _with_damaged_tiles(ds: tl.Dataset, pack: Path) -> int:
    """Overwrite the first tiles of each sample where they are stored."""
    content = bytearray(pack.read_bytes())
    for name in ds.schema:
        (sample,) = rowset_of(ds).handles(name, np.array([0]))
        assert sample is not None
        first = content.find(sample.content_between(0, 64))
        assert first > 0, name
        content[first : first + 64] = bytes(64)
    pack.write_bytes(content)
    return len(content)
