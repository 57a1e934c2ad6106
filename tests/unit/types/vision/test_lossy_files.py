"""Files that were compressed with loss: tiles do not lose a second time."""

import io
from typing import Any

import numpy as np
import PIL.Image
import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.types import Image

imagecodecs: Any = pytest.importorskip("imagecodecs")

SMOOTH = np.add.outer(np.arange(90), np.arange(100))[..., None].repeat(3, 2).astype(np.uint8)
JPEG_TILES = Image("jpeg", tiles=(64, 64))


def webp(**options: Any) -> bytes:
    file = io.BytesIO()
    PIL.Image.fromarray(SMOOTH).save(file, "WEBP", **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("named", "file"),
    [
        ("WebP", webp(quality=80)),
        ("JPEG 2000", imagecodecs.jpeg2k_encode(SMOOTH, 40, reversible=False, codecformat="jp2")),
        ("JPEG 2000", imagecodecs.jpeg2k_encode(SMOOTH, 40, reversible=False, codecformat="j2k")),
        ("TIFF", imagecodecs.tiff_encode(SMOOTH, compression="jpeg")),
    ],
)
def test_tiles_with_loss_take_no_file_that_has_lost(named: str, file: bytes):
    with pytest.raises(InvalidInputError, match=f"is {named}: its pixels would be compressed"):
        JPEG_TILES.convert([file], tensor="x")

    png = Image("png", tiles=(64, 64))
    column: Any = png.decode(png.convert([file], tensor="x"), tensor="x")
    assert column.sample(0).shape == (90, 100, 3)


@pytest.mark.parametrize(
    "file",
    [
        webp(lossless=True),
        imagecodecs.jpeg2k_encode(SMOOTH, 0, codecformat="jp2"),
        imagecodecs.jpeg2k_encode(SMOOTH, 0, codecformat="j2k"),
        imagecodecs.tiff_encode(SMOOTH, compression="deflate"),
        imagecodecs.tiff_encode(SMOOTH, byteorder=">"),
    ],
)
def test_tiles_with_loss_take_files_without(file: bytes):
    column: Any = JPEG_TILES.decode(JPEG_TILES.convert([file], tensor="x"), tensor="x")

    assert np.abs(column.sample(0).astype(int) - SMOOTH).max() < 12


@pytest.mark.parametrize("codec", ["jpeg2000", "tiff"])
def test_files_cut_anywhere_are_refused_in_words(codec: Any):
    column: Any = Image(codec).convert([SMOOTH], tensor="x")
    whole = bytes(column.samples[0])

    for stop in range(12, len(whole) - 1, 37):
        with pytest.raises(InvalidInputError):
            JPEG_TILES.convert([whole[:stop]], tensor="x")
