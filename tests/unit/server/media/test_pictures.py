from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import simplejpeg
from PIL import Image

import tensorlake as tl
from tensorlake.errors import CorruptSampleError
from tensorlake_server import Settings
from tensorlake_server.bodies.frames import FrameKind
from tensorlake_server.http.problems import ImageTooLargeError
from tensorlake_server.media.images import (
    check_pixels,
    is_drawable,
    render_array,
    render_sample,
    sniff,
)
from tensorlake_server.media.masks import render_mask


def colour(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x % 256, y % 256, (x + y) % 256], axis=-1).astype(np.uint8)


def saved(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_a_thumbnail_fits_and_says_how_large_the_sample_is() -> None:
    picture = render_sample(simplejpeg.encode_jpeg(colour(600, 800)), size=256)

    assert (picture.width, picture.height) == (800, 600)
    assert opened(picture.data).size == (256, 192)
    assert picture.media_type == "image/jpeg"


def test_a_thumbnail_looks_like_its_image() -> None:
    flat = np.full((512, 512, 3), (200, 30, 90), dtype=np.uint8)

    thumbnail = opened(render_sample(simplejpeg.encode_jpeg(flat), size=128).data)

    mean = np.asarray(thumbnail.convert("RGB")).reshape(-1, 3).mean(axis=0)
    assert np.abs(mean - (200, 30, 90)).max() < 6


def test_small_images_are_not_enlarged() -> None:
    picture = render_sample(simplejpeg.encode_jpeg(colour(40, 30)), size=256)

    assert opened(picture.data).size == (30, 40)


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "RGBA", "I;16", "RGB"])
def test_png_of_every_mode_is_drawn(mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((200, 200), 40_000, dtype=np.uint16))
    else:
        image = Image.fromarray(colour(200, 200)).convert(mode)

    picture = render_sample(saved(image, "PNG"), size=128)

    assert opened(picture.data).size == (128, 128)


def test_cmyk_jpeg_is_drawn_by_pillow() -> None:
    data = saved(Image.fromarray(colour(200, 200)).convert("CMYK"), "JPEG")

    assert opened(render_sample(data, size=128).data).size == (128, 128)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xd8\xff", b"not a picture", b"\x89PNG\r\n\x1a\n" + bytes(40), b"<svg/>"],
)
def test_damage_is_an_error_with_its_first_bytes(data: bytes) -> None:
    with pytest.raises(CorruptSampleError, match="bytes beginning with"):
        render_sample(data, size=128)


def test_a_cut_jpeg_is_an_error() -> None:
    data = simplejpeg.encode_jpeg(colour(400, 400))

    with pytest.raises(CorruptSampleError):
        render_sample(data[: len(data) // 3], size=128)


def test_a_jpeg_of_which_half_is_missing_is_an_error_though_it_ends_like_one() -> None:
    whole = simplejpeg.encode_jpeg(colour(64, 64))
    half = whole[: len(whole) * 2 // 3] + whole[-2:]

    with pytest.raises(CorruptSampleError, match="premature end"):
        render_sample(half, size=96)


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    header = bytearray(saved(Image.new("1", (8, 8)), "PNG"))
    header[16:24] = (60_000).to_bytes(4, "big") * 2
    header[29:33] = zlib_crc(bytes(header[12:29]))

    with pytest.raises(ImageTooLargeError, match="exceeds limit"):
        render_sample(bytes(header), size=128)


@pytest.mark.parametrize(("width", "height"), [(50_000, 4_000), (4_000, 50_000)])
def test_an_image_of_too_many_pixels_is_a_422_and_its_stored_bytes_are_served(
    tmp_path: Path, connect: Callable[..., httpx.Client], width: int, height: int
) -> None:
    stored = saved(Image.new("1", (width, height)), "PNG")
    with tl.create(str(tmp_path / "scans"), {"scan": tl.Image("png", mode="L")}) as dataset:
        dataset.append({"scan": stored})
        dataset.commit("one scan")
    settings = Settings(url=str(tmp_path))
    client = connect(settings, token=settings.token)
    sample = "/v1/datasets/scans/tensors/scan/0"

    small, whole = client.get(sample, params={"size": 64}), client.get(sample)
    frames = client.post("/v1/datasets/scans/thumbnails", json={"tensor": "scan", "rows": [0]})

    assert (small.status_code, small.json()["code"]) == (422, "image-too-large")
    assert (whole.status_code, whole.content) == (200, stored)
    assert (frames.status_code, frames.content[4]) == (200, FrameKind.ERROR)


def test_a_mask_of_too_many_pixels_is_refused_before_it_is_decoded() -> None:
    check_pixels(4000, 3000, planes=40)

    with pytest.raises(ImageTooLargeError, match="41,000 planes"):
        check_pixels(4000, 3000, planes=41_000)
    with pytest.raises(ImageTooLargeError):
        render_mask(tl.BinaryMask(), np.broadcast_to(np.False_, (30_000, 30_000)))


def zlib_crc(data: bytes) -> bytes:
    import zlib

    return zlib.crc32(data).to_bytes(4, "big")


def test_a_digit_is_drawn_without_loss() -> None:
    digit = np.arange(784, dtype=np.uint8).reshape(28, 28)

    picture = render_array(digit, size=256)

    assert picture.media_type == "image/png"
    assert np.array_equal(np.asarray(opened(picture.data)), digit)


@pytest.mark.parametrize(
    ("dtype", "shape", "drawn"),
    [
        ("uint8", (28, 28), True),
        ("uint8", (None, None, 3), True),
        ("uint16", (512, 512), True),
        ("bool", (64, 64), True),
        ("uint8", (64, 64, 7), False),
        ("float32", (64, 64), True),
        ("int16", (None, None), True),
        ("float16", (None, None, 1), True),
        ("float32", (None, 768), False),
        ("int32", (64, 64), False),
        ("complex64", (64, 64), False),
        ("uint8", (784,), False),
        ("uint8", (4, 4), False),
        ("uint8", (2, 3, 64, 64), False),
    ],
)
def test_only_arrays_that_are_images_are_drawn(
    *, dtype: str, shape: tuple[int | None, ...], drawn: bool
) -> None:
    assert is_drawable(np.dtype(dtype), shape) is drawn


def test_types_are_told_from_bytes_and_svg_is_none() -> None:
    image = Image.fromarray(colour(16, 16))

    assert sniff(saved(image, "PNG")) == "image/png"
    assert sniff(saved(image, "JPEG")) == "image/jpeg"
    assert sniff(saved(image, "GIF")) == "image/gif"
    assert sniff(saved(image, "WEBP")) == "image/webp"
    assert sniff(b"<svg xmlns='http://www.w3.org/2000/svg'/>") is None
    assert sniff(b"<html>") is None
