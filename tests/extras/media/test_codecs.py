"""The newest Pillow and imagecodecs: what they write is kept, and read as Pillow reads it."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tensorlake as tl

pillow = pytest.importorskip("PIL.Image")
imagecodecs = pytest.importorskip("imagecodecs")
pytestmark = pytest.mark.extras

HEIGHT, WIDTH = 48, 64
PILLOW = {
    "jpeg": ("JPEG", {"quality": 90}),
    "png": ("PNG", {}),
    "webp": ("WEBP", {"lossless": True}),
    "tiff": ("TIFF", {"compression": "tiff_adobe_deflate"}),
    "avif": ("AVIF", {"quality": 90}),
    "jpeg2000": ("JPEG2000", {}),
}
IMAGECODECS = {
    "jpeg": imagecodecs.jpeg8_encode,
    "png": imagecodecs.png_encode,
    "webp": lambda image: imagecodecs.webp_encode(image, lossless=True),
    "avif": imagecodecs.avif_encode,
    "jpeg2000": imagecodecs.jpeg2k_encode,
    "tiff": imagecodecs.tiff_encode,
}
READ_ALIKE = {"jpeg": 3, "avif": 4}
"""Largest difference of a value between decoders, where the format leaves them a choice."""


def photograph():
    """A smooth image with some noise, as cameras make them."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    smooth = np.stack([x * 3, y * 4, x + y], axis=2)
    noise = np.random.default_rng(8).integers(0, 8, smooth.shape)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def written_by_pillow(codec):
    name, options = PILLOW[codec]
    with io.BytesIO() as file:
        pillow.fromarray(photograph()).save(file, name, **options)
        return file.getvalue()


def read_by_pillow(encoded):
    with pillow.open(io.BytesIO(encoded)) as image:
        return np.asarray(image.convert("RGB"))


def stored(folder, codec, sample):
    with tl.create(str(folder / "images.tl"), {"image": tl.Image(codec)}) as dataset:
        dataset.append({"image": sample})
        dataset.commit("an image")
        return dataset["image"][0], bytes(dataset["image"].bytes(0))


def largest_difference(one, other):
    return int(np.abs(one.astype(np.int16) - other.astype(np.int16)).max())


@pytest.mark.parametrize("codec", PILLOW)
@pytest.mark.parametrize("writer", ["pillow", "imagecodecs"])
def test_a_file_is_kept_as_it_is_and_read_as_pillow_reads_it(tmp_path, codec, writer):
    file = (
        written_by_pillow(codec) if writer == "pillow" else bytes(IMAGECODECS[codec](photograph()))
    )

    pixels, kept = stored(tmp_path, codec, file)

    assert kept == file
    assert largest_difference(pixels, read_by_pillow(file)) <= READ_ALIKE.get(codec, 0)


@pytest.mark.parametrize("codec", PILLOW)
def test_pillow_reads_what_is_encoded_here(tmp_path, codec):
    pixels, file = stored(tmp_path, codec, photograph())

    assert largest_difference(read_by_pillow(file), pixels) <= READ_ALIKE.get(codec, 0)


@pytest.mark.parametrize("codec", ["png", "webp", "tiff", "jpeg2000"])
def test_lossless_codecs_change_no_pixel(tmp_path, codec):
    pixels, _ = stored(tmp_path, codec, photograph())

    assert np.array_equal(pixels, photograph())
