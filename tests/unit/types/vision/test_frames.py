"""Frames of GIF, WebP, PNG and TIFF files as sequences of images; Pillow is the judge."""

from __future__ import annotations

import io
import re

import imagecodecs
import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.sources import write

PNG = tl.Sequence(tl.Image("png"))


def pictures(count: int = 4, *, alpha: bool = False) -> list[PIL.Image.Image]:
    rng = np.random.default_rng(0)
    noise = PIL.Image.fromarray(rng.integers(0, 255, (30, 40, 3), np.uint8))
    base = noise.quantize(64).convert("RGB")
    if alpha:
        base = PIL.Image.new("RGBA", (40, 30), (0, 0, 0, 0))
    made: list[PIL.Image.Image] = []
    for number in range(count):
        one = base.copy()
        box = (5 * number, 4, 5 * number + 8, 15)
        PIL.ImageDraw.Draw(one).rectangle(box, fill=(255, 0, 20 * number))
        made.append(one)
    return made


def saved(images: list[PIL.Image.Image], kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    images[0].save(out, kind, save_all=True, append_images=images[1:], **options)
    return out.getvalue()


def frames(content: bytes, mode: str = "RGB") -> list[np.ndarray]:
    with PIL.Image.open(io.BytesIO(content)) as image:
        made = []
        for number in range(image.n_frames):
            image.seek(number)
            made.append(np.asarray(image.convert(mode)))
        return made


def read(content: object, kind: tl.Sequence = PNG) -> list[np.ndarray]:
    column = kind.convert([content], tensor="f")
    return [np.asarray(one) for one in kind.present(kind.decode(column, tensor="f"))[0]]


ANIMATIONS = {
    **{f"gif {way}": saved(pictures(), "GIF", disposal=way) for way in range(4)},
    "gif, one": saved(pictures(1), "GIF"),
    "gif, own palettes": saved([one.quantize(32) for one in pictures()], "GIF"),
    "webp": saved(pictures(), "WEBP", lossless=True, minimize_size=True),
    "png": saved(pictures(), "PNG"),
    "tiff": saved(pictures(), "TIFF"),
}


@pytest.mark.parametrize("name", ANIMATIONS)
def test_frames_are_those_that_pillow_shows(name):
    content = ANIMATIONS[name]

    found, expected = read(content), frames(content)

    assert len(found) == len(expected)
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_transparent_frames_need_a_mode_with_an_alpha_channel():
    content = saved(pictures(alpha=True), "GIF")

    found = read(content, tl.Sequence(tl.Image("png", mode="RGBA")))

    pairs = zip(found, frames(content, "RGBA"), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)
    with pytest.raises(InvalidInputError, match="RGBA"):
        read(content)


def test_gray_frames_and_pages_of_16_bits_keep_their_numbers():
    gray = saved([one.convert("L") for one in pictures()], "GIF")
    pages = np.random.default_rng(1).integers(0, 65_535, (3, 20, 30), np.uint16)
    out = io.BytesIO()
    stack = [PIL.Image.fromarray(page) for page in pages]
    stack[0].save(out, "TIFF", save_all=True, append_images=stack[1:])

    assert np.array_equal(
        np.stack(read(gray, tl.Sequence(tl.Image("png", mode="L"))))[..., 0],
        np.stack(frames(gray, "L")),
    )
    found = read(out.getvalue(), tl.Sequence(tl.Image("tiff", mode="L16")))
    assert np.array_equal(np.stack(found)[..., 0], pages)


def test_a_file_of_one_image_is_stored_as_it_is(tmp_path):
    content = imagecodecs.png_encode(np.zeros((4, 5, 3), np.uint8))
    write(tmp_path / "one.png", content)

    for given in (content, tmp_path / "one.png", tl.File(tmp_path / "one.png")):
        column = PNG.convert([given, [content, content]], tensor="f")
        assert [bytes(one) for one in PNG.items_of(column.samples[0]).samples] == [content]
        assert len(PNG.items_of(column.samples[1])) == 2


def test_files_that_end_early_or_would_lose_pixels_are_refused():
    content = ANIMATIONS["gif 0"]

    for size in (20, 100, len(content) // 2, len(content) - 1):
        with pytest.raises(InvalidInputError, match=r"'f' cannot take a sample .*frames cannot be"):
            read(content[:size])
    for kind in ("TIFF", "WEBP"):
        whole = saved(pictures(), kind)
        with pytest.raises(InvalidInputError):
            read(whole[: len(whole) // 2])
    with pytest.raises(InvalidInputError, match=r"jpeg, and .* has frames(.|\n)*Image\(\"png\"\)"):
        read(content, tl.Sequence(tl.Image("jpeg")))


def test_an_animation_is_no_image_and_of_one_frame_it_is():
    content = saved(pictures(), "PNG")
    for codec in ("png", "any"):
        with pytest.raises(InvalidInputError, match="it is an animation, use"):
            tl.Image(codec).convert([content], tensor="f")
    control = content.index(b"acTL") + 4
    one = content[:control] + bytes([0, 0, 0, 1]) + content[control + 4 :]
    assert len(tl.Image("png").convert([one], tensor="f")) == 1


@pytest.mark.parametrize("kind", [PNG, tl.Image("png"), tl.Image("any")])
def test_an_empty_file_is_called_empty(kind, tmp_path):
    write(tmp_path / "1.gif", b"")
    with pytest.raises(InvalidInputError, match=r"not a whole (PNG|image): it is empty"):
        kind.convert([tl.File(tmp_path / "1.gif")], tensor="f")


def test_a_small_file_of_large_frames_is_refused_before_it_is_decoded():
    screen = bytearray(ANIMATIONS["gif 0"])
    screen[6:10] = b"\xff\xff\xff\xff"

    with pytest.raises(
        InvalidInputError, match=r"frames of [\d,]+ pixels, more than|exceeds limit"
    ):
        read(bytes(screen))


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_a_folder_is_ingested_as_its_error_tells(kind, tmp_path):
    content = saved(pictures(), kind, **({"lossless": True} if kind == "WEBP" else {}))
    still = saved(pictures(1), kind, **({"lossless": True} if kind == "WEBP" else {}))
    suffix = {"TIFF": "tif"}.get(kind, kind.lower())
    write(tmp_path / "clips" / "cat" / f"1.{suffix}", content)
    write(tmp_path / "clips" / "dog" / f"2.{suffix}", still)
    url = f"memory://{tmp_path.name}"

    with pytest.raises(InvalidInputError) as caught:
        tl.ingest.images(tmp_path / "clips", url)
    advice = re.search(r"schema=({.*?\)\)})", str(caught.value))
    assert advice is not None, str(caught.value)
    schema = eval(advice.group(1), {"tl": tl})
    if kind == "WEBP":  # one image of WebP stays WebP, which only a tensor of any codec has, too
        schema = {"image": tl.Sequence(tl.Image("any"))}
    ds = tl.ingest.images(tmp_path / "clips", url, schema=schema)

    assert [len(row["image"]) for row in ds] == [4, 1]
    pairs = zip(ds[0]["image"], frames(content), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)
    assert ds["label"][:].as_names() == ["cat", "dog"]
    again = tl.ingest.images(tmp_path / "clips", url, schema=schema)
    assert again.ingest_report.unchanged == 2
    write(tmp_path / "clips" / "dog" / f"2.{suffix}", content)
    updated = tl.ingest.images(tmp_path / "clips", url, schema=schema)
    assert updated.ingest_report.updated == 1
    assert len(updated[1]["image"]) == 4


def test_files_of_more_frames_than_a_sequence_takes_are_refused():
    head = b"GIF89a" + bytes([1, 0, 1, 0, 0x80, 0, 0]) + bytes(6)
    frame = b"\x2c" + bytes([0, 0, 0, 0, 1, 0, 1, 0, 0]) + bytes([2, 2, 0x44, 1, 0])
    assert len(read(head + frame * 3 + b";")) == 3

    with pytest.raises(InvalidInputError, match="10,001 frames"):
        read(head + frame * 10_001 + b";")
