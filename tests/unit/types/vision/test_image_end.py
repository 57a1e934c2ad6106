"""Images that were cut are refused by their last bytes, and odd but whole ones are taken (A7)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import tensorlake as tl

PIXELS = np.random.default_rng(0).integers(0, 255, (40, 56, 3), np.uint8)
IMAGE = PIL.Image.fromarray(PIXELS)
DATA = Path(__file__).resolve().parents[4] / "examples" / "data"


def saved(image_format: str, image: PIL.Image.Image = IMAGE, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, image_format, **options)
    return out.getvalue()


def with_thumbnail() -> bytes:
    """A JPEG with a JPEG of its own in its EXIF block."""
    exif = b"Exif\x00\x00" + saved("JPEG", IMAGE.resize((8, 8)))
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    whole = saved("JPEG")
    return whole[:2] + segment + whole[2:]


FILES = {
    "baseline": saved("JPEG"),
    "progressive": saved("JPEG", progressive=True),
    "restarts": saved("JPEG", restart_marker_blocks=1),
    "gray": saved("JPEG", IMAGE.convert("L")),
    "thumbnail": with_thumbnail(),
    "png": saved("PNG"),
    "palette": saved("PNG", IMAGE.convert("P")),
    "webp": saved("WEBP"),
    "webp-lossless": saved("WEBP", lossless=True),
    "tiff": saved("TIFF"),
    "tiff-deflate": saved("TIFF", compression="tiff_adobe_deflate"),
    "jpeg2000": saved("JPEG2000"),
    "avif": saved("AVIF"),
}
TRAILERS = {
    "nothing": b"",
    "zeros": b"\0" * 9,
    "line break": b"\r\n",
    "another image": saved("JPEG", IMAGE.rotate(90)),
    "text": b"what a camera adds, such as a film, may be long" * 4,
}
ANY = tl.Image("any")


def take(content: bytes) -> None:
    ANY.convert([content], tensor="image")


@pytest.mark.parametrize("name", FILES)
def test_an_image_that_was_cut_anywhere_is_refused(name):
    whole = FILES[name]
    take(whole)
    # Behind the pixels Pillow writes 600 bytes of a TIFF's tags that no pixel needs.
    stop = len(whole) - (600 if name == "tiff-deflate" else 0)

    for cut in [*range(1, stop, max(1, stop // 60)), stop - 2, stop - 1]:
        with pytest.raises(tl.InvalidInputError):
            take(whole[:cut])


@pytest.mark.parametrize("name", ["baseline", "progressive", "thumbnail", "png", "palette"])
def test_an_image_whose_second_half_became_zeros_is_refused(name):
    """As programs leave it that fetch a file in parts."""
    whole = FILES[name]

    with pytest.raises(tl.InvalidInputError, match="data end before the image does"):
        take(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))


@pytest.mark.parametrize("trailer", TRAILERS)
@pytest.mark.parametrize("name", [one for one in FILES if one != "avif"])
def test_what_stands_behind_an_image_is_no_damage(name, trailer):
    take(FILES[name] + TRAILERS[trailer])


def test_several_images_in_one_file_are_whole_when_the_first_is():
    album = saved("MPO", save_all=True, append_images=[IMAGE.rotate(90)])
    first = len(saved("JPEG"))

    take(album)
    take(album[: len(album) - 100])  # the second is cut, which nobody reads
    with pytest.raises(tl.InvalidInputError, match="no FF D9"):
        take(album[: first // 2])


def test_a_cut_image_is_named_with_its_row_and_nothing_is_staged(tmp_path):
    (tmp_path / "cut.jpg").write_bytes(FILES["baseline"][:-700])
    ds = tl.create("memory://cut-images", {"image": tl.Image("jpeg")})

    with pytest.raises(tl.InvalidInputError, match=r"cut\.jpg' .* not a whole JPEG") as error:
        ds.extend({"image": [FILES["gray"], tmp_path / "cut.jpg"]})

    assert error.value.facts["row"] == 1
    assert not ds.has_changes


def test_a_dataset_that_has_a_cut_image_is_copied_as_it_is():
    """What is stored already was not looked at when it came in."""
    ds = tl.create("memory://cut-stored", {"image": tl.Image("jpeg")})
    damaged = FILES["baseline"][:-700] + b"\xff\xd9"  # found by decoding only
    ds.extend({"image": [damaged]})
    ds.commit("one")

    copied = ds[:].materialize("memory://cut-copied")

    assert copied["image"].bytes(0) == damaged
    with pytest.raises(tl.CorruptSampleError):
        copied["image"][0]


def test_every_real_image_of_the_repository_is_whole():
    for path in sorted((DATA / "coco" / "images").glob("*.jpg")):
        take(path.read_bytes())
