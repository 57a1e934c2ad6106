"""Images with max_side and quality: what is kept, what is scaled down, what is refused."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError, SchemaError
from tensorlake.types import Image
from tensorlake.types.vision.image_scale import scaled, scaled_size
from tests.support.examples import examples

pytest.importorskip("imagecodecs")

ORIENTATION = 274  # EXIF 2.32


def pixels(height: int, width: int, channels: int = 3, dtype: str = "uint8") -> np.ndarray:
    ramp = np.linspace(0, np.iinfo(dtype).max, height * width * channels)
    return ramp.reshape(height, width, channels).astype(dtype)


def encoded(array: np.ndarray, form: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    PIL.Image.fromarray(array).save(out, form, **options)
    return out.getvalue()


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**4))
@examples(60)
def test_sides_keep_their_ratio_and_never_grow(height, width, most):
    scaled_height, scaled_width = scaled_size(height, width, most)

    assert max(scaled_height, scaled_width) == min(most, max(height, width))
    for side, before in ((scaled_height, height), (scaled_width, width)):
        share = min(1, most / max(height, width))
        assert side >= 1
        assert abs(side - max(1, before * share)) <= 0.5


def test_a_file_that_fits_is_kept_byte_for_byte():
    small, exact = encoded(pixels(8, 16)), encoded(pixels(32, 20))
    column = Image("jpeg", max_side=32, quality=10).convert([small, exact], tensor="image")

    assert [bytes(one) for one in column.samples] == [small, exact]


@pytest.mark.parametrize("codec", ["jpeg", "png", "webp", "avif", "jpeg2000", "tiff"])
def test_a_larger_file_is_scaled_and_encoded_by_its_codec(codec):
    whole = Image(codec).convert([pixels(40, 80)], tensor="image")
    for kind in (Image(codec, max_side=20), Image("any", max_side=20)):
        column = kind.convert([bytes(whole.samples[0])], tensor="image")

        assert kind.codec_of(column.samples[0]) == codec
        assert column.shapes.tolist() == [[10, 20, 3]]
        read = kind.decode(column, tensor="image").sample(0)
        wanted = scaled(Image(codec).decode(whole, tensor="image").sample(0), 20)
        assert np.abs(read.astype(int) - wanted).max() <= 12


@pytest.mark.parametrize("mode", ["L", "RGBA", "RGB16", "L16", "RGBA16"])
def test_arrays_of_every_mode_are_scaled(mode):
    kind = Image("png", mode, max_side=5)
    column = kind.convert([pixels(10, 4, kind.shape[2], kind.dtype.name)], tensor="image")

    read = kind.decode(column, tensor="image").sample(0)
    assert (read.shape, read.dtype) == ((5, 2, kind.shape[2]), kind.dtype)


def test_an_opaque_file_among_images_with_alpha_keeps_its_pixels():
    kind = Image("any", "RGBA", max_side=8)
    column = kind.convert([encoded(np.full((16, 16, 3), 77, np.uint8))], tensor="image")

    assert kind.decode(column, tensor="image").sample(0)[0, 0].tolist() == [77, 77, 77, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("upright", [False, True])
def test_a_scaled_file_is_read_as_the_larger_one(orientation, upright):
    exif = PIL.Image.Exif()
    exif[ORIENTATION] = orientation
    file = encoded(pixels(24, 48), exif=exif)
    whole, small = Image("jpeg", upright=upright), Image("jpeg", upright=upright, max_side=12)
    read = [
        kind.decode(kind.convert([file], tensor="image"), tensor="image") for kind in (whole, small)
    ]

    wanted = scaled(read[0].sample(0), 12)
    assert wanted.shape == read[1].sample(0).shape
    assert np.abs(read[1].sample(0).astype(int) - wanted).max() <= 12


@pytest.mark.parametrize("codec", ["jpeg", "webp", "avif"])
def test_a_lower_quality_takes_fewer_bytes(codec):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    low, high, default = (
        len(Image(codec, quality=quality).convert([noise], tensor="image").samples[0])
        for quality in (20, 90, None)
    )

    assert low < high <= default  # 90 is the default of AVIF


def test_frames_are_not_taken_where_they_would_lose_pixels():
    frames = io.BytesIO()
    first, second = (PIL.Image.fromarray(pixels(8, 8)) for _ in range(2))
    first.save(frames, "GIF", save_all=True, append_images=[second])

    with pytest.raises(InvalidInputError, match="frames"):
        tl.Sequence(Image("webp", quality=50)).convert([frames.getvalue()], tensor="image")


def test_a_damaged_larger_file_is_refused_with_its_row():
    file = bytearray(encoded(pixels(64, 64), "PNG"))
    file[60:120] = bytes(60)

    samples = [encoded(pixels(4, 4), "PNG"), bytes(file)]
    with pytest.raises(InvalidInputError, match="to be scaled to max_side=8") as error:
        Image("png", max_side=8).convert(samples, tensor="image")
    assert error.value.row == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_side": 0}, "most pixels that a side may"),
        ({"max_side": 2.5}, "most pixels that a side may"),
        ({"max_side": True}, "most pixels that a side may"),
        ({"max_side": "512"}, "most pixels that a side may"),
        ({"quality": 0}, "from 1 to 100"),
        ({"quality": 101}, "from 1 to 100"),
        ({"codec": "png", "quality": 90}, "compresses without loss"),
        ({"codec": "any", "quality": 90}, "encodes pixels as PNG"),
        ({"max_side": 64, "tiles": (8, 8)}, "leave max_side= or tiles= out"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(SchemaError, match=message):
        Image(**arguments)


def test_the_type_is_recorded_with_the_arguments_that_were_given():
    kind = Image("jpeg", max_side=512, quality=90)

    assert Image("jpeg").to_json() == {"kind": "image"}
    assert Image.from_json(kind.to_json()) == kind
    assert Image.from_json({**kind.to_json(), "later": 1}) == kind


@pytest.mark.parametrize(
    "annotation",
    [
        tl.BBox(of="image"),
        tl.Polygon(of="image"),
        tl.SegmentMask(of="image"),
        tl.Keypoints(["a"], of="image"),
    ],
)
def test_pixels_of_images_that_are_scaled_are_refused(annotation):
    scaled_image = tl.Image("jpeg", max_side=8)

    with pytest.raises(SchemaError, match="make a copy in which both are scaled"):
        tl.create("memory://scaled-with-boxes", {"image": scaled_image, "of_it": annotation})
    ds = tl.create("memory://scaled-alone", {"image": scaled_image}, exist_ok=True)
    with pytest.raises(SchemaError, match="make a copy in which both are scaled"):
        ds.add_tensor("of_it", annotation, fill=None)
    assert list(ds.schema) == ["image"]


def test_every_write_scales():
    ds = tl.create("memory://scaled-writes", {"image": tl.Image("jpeg", max_side=8, quality=80)})
    ds.append({"image": pixels(16, 32)})
    ds.extend({"image": [encoded(pixels(64, 16)), encoded(pixels(3, 4))]})
    ds["image"][2] = pixels(9, 9)
    ds.commit("three")

    assert ds["image"].shapes().tolist() == [[4, 8, 3], [8, 2, 3], [8, 8, 3]]
    again = tl.open("memory://scaled-writes")
    assert again.schema["image"] == tl.Image("jpeg", max_side=8, quality=80)
