"""Decoding a stored picture into its place in a batch: right pixels and clear errors."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pytest
import simplejpeg
from PIL import Image as PillowImage

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, DTypeMismatchError
from tensorlake.loader.decode import (
    Cast,
    CenterCrop,
    Flip,
    ImageDecoder,
    Letterbox,
    Normalize,
    RandomResizedCrop,
    Resize,
    Sample,
    ToFloat,
    choose_resampler,
    parse_steps,
    step_from_json,
    step_to_json,
)
from tensorlake.types import Image
from tensorlake.types.vision.resample import (
    _opencv_plain,
    _pillow_antialiased,
    _pillow_plain,
    _torch_antialiased,
    _torch_plain,
)

torch = pytest.importorskip("torch")


def photograph(height=120, width=160, channels=3, seed=0):
    """Smooth structure with some texture, as photographs have."""
    random = np.random.default_rng(seed)
    ys, xs = np.mgrid[0:height, 0:width]
    waves = [
        100 + 60 * np.sin(ys / 23 + channel) + 50 * np.cos(xs / 17 + channel * 2)
        for channel in range(channels)
    ]
    noisy = np.stack(waves, axis=-1) + random.normal(0, 4, (height, width, channels))
    return noisy.clip(0, 255).astype(np.uint8)


def jpeg(pixels):
    gray = pixels.shape[2] == 1
    return simplejpeg.encode_jpeg(
        pixels,
        quality=95,
        colorspace="GRAY" if gray else "RGB",
        colorsubsampling="Gray" if gray else "444",
    )


def decoder(*steps, image=None):
    spec = parse_steps("image", list(steps))
    return ImageDecoder("image", image or Image("jpeg"), spec, choose_resampler(), seed=7)


def sample_of(pixels, place=0, row=3):
    return Sample(jpeg(pixels), pixels.shape, row, place)


def decoded(pixels, *steps, place=0):
    one = decoder(*steps)
    sample = sample_of(pixels, place)
    return one.decode(sample, one.place(sample, 0), epoch=0)


def test_without_steps_the_pixels_are_simplejpegs():
    pixels = photograph()

    assert np.array_equal(decoded(pixels), simplejpeg.decode_jpeg(jpeg(pixels)))


def test_a_whole_image_is_decoded_straight_into_the_batch():
    pixels = photograph()
    batch = np.zeros((4, *pixels.shape), np.uint8)
    one, sample = decoder(), sample_of(pixels)

    result = one.decode(sample, one.place(sample, 0), batch[2], epoch=0)

    assert result.base is not None
    assert np.array_equal(batch[2], simplejpeg.decode_jpeg(jpeg(pixels)))
    assert not batch[[0, 1, 3]].any()


def test_a_resize_is_what_torch_makes_of_the_full_decode():
    pixels = photograph()
    full = torch.from_numpy(simplejpeg.decode_jpeg(jpeg(pixels))).permute(2, 0, 1)[None]
    expected = torch.nn.functional.interpolate(
        full, size=(100, 90), mode="bilinear", antialias=True
    )

    assert np.array_equal(decoded(pixels, Resize(100, 90)), expected[0].permute(1, 2, 0).numpy())


def test_a_center_crop_and_a_mirror_are_slices():
    pixels = photograph()
    full = simplejpeg.decode_jpeg(jpeg(pixels))

    cropped = decoded(pixels, CenterCrop(60, 80), Flip(1.0))

    assert np.array_equal(cropped, full[30:90, 40:120][:, ::-1])


def test_a_letterbox_keeps_the_image_whole_and_fills_the_rest():
    boxed = decoded(photograph(), Letterbox(80, 80, fill=9))

    assert (boxed[:10] == 9).all()
    assert (boxed[70:] == 9).all()
    assert np.array_equal(boxed[10:70], decoded(photograph(), Resize(60, 80)))


def test_a_crop_larger_than_the_image_is_padded_with_zeros():
    padded = decoded(photograph(20, 30), CenterCrop(40, 30))

    assert not padded[:10].any()
    assert not padded[30:].any()
    assert padded[10:30].any()


def test_scaled_decoding_stays_near_the_exact_one():
    pixels = photograph(480, 640)
    exact = decoded(pixels, Resize(60, 80, exact=True)).astype(int)

    scaled = decoded(pixels, Resize(60, 80)).astype(int)

    assert not np.array_equal(exact, scaled)
    assert np.abs(exact - scaled).max() <= 12
    assert np.abs(exact - scaled).mean() <= 1.5


@pytest.mark.parametrize("height", [481, 484, 487])
def test_scaled_decoding_moves_no_pixel_by_more_than_half_of_one(height):
    """The last row of a reduced picture stands for fewer stored ones than the others do."""
    slope = 5  # a stored pixel; the wave turns before it leaves 0 … 255
    wave = 127 + slope * (np.abs(np.arange(height) % 80 - 40) - 20)
    pixels = np.repeat(wave[:, None, None], 480, axis=1).repeat(3, axis=2).astype(np.uint8)
    exact = decoded(pixels, Resize(60, 60, exact=True)).astype(int)

    scaled = decoded(pixels, Resize(60, 60)).astype(int)

    assert np.abs(exact - scaled).max() <= 8 / 2 * slope


def test_random_crops_are_the_same_whatever_was_decoded_before():
    step = RandomResizedCrop(32, 32)
    alone = decoded(photograph(), step, place=9)
    one = decoder(step)
    for place in range(9):
        other = sample_of(photograph(200, 100), place)
        one.decode(other, one.place(other, 0), epoch=0)
    sample = sample_of(photograph(), 9)

    assert np.array_equal(one.decode(sample, one.place(sample, 0), epoch=0), alone)


def test_threads_share_a_decoder_without_disturbing_each_other():
    one = decoder(Resize(64, 64))
    samples = [sample_of(photograph(90 + i, 100, seed=i)) for i in range(24)]
    expected = [one.decode(sample, one.place(sample, 0), epoch=0) for sample in samples]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda s: one.decode(s, one.place(s, 0), epoch=0), samples))

    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_numbers_are_normalized_to_float32():
    steps = [CenterCrop(60, 80), ToFloat(), Normalize((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))]
    plain = decoded(photograph(), CenterCrop(60, 80)).astype(np.float64) / 255

    result = decoded(photograph(), *steps)

    assert result.dtype == np.float32
    assert np.allclose(result, (plain - [0.5, 0.4, 0.3]) / [0.2, 0.25, 0.3], atol=1e-5)


def test_a_cast_to_half_precision_is_the_last_thing_done():
    result = decoded(photograph(), CenterCrop(6, 8), ToFloat(), Cast("float16"))

    assert result.dtype == np.float16
    assert np.array_equal(
        result, decoded(photograph(), CenterCrop(6, 8), ToFloat()).astype(np.float16)
    )


def test_a_cast_of_floats_to_integers_is_refused_before_any_read():
    with pytest.raises(DTypeMismatchError, match="cast it to a float"):
        _ = decoder(ToFloat(), Cast("uint8")).output_dtype


def test_output_shape_is_known_from_the_schema_where_it_can_be():
    assert decoder(Resize(8, 9)).output_shape == (8, 9, 3)
    assert decoder(Resize(8)).output_shape is None
    assert decoder(Resize(8), CenterCrop(8, 8), ToFloat()).output_shape == (8, 8, 3)


def test_gray_images_keep_one_channel():
    pixels = photograph(channels=1)
    one = decoder(Resize(16, 16), image=Image("jpeg", mode="L"))
    sample = sample_of(pixels)

    assert one.decode(sample, one.place(sample, 0), epoch=0).shape == (16, 16, 1)


def test_png_is_decoded_through_its_type():
    pixels = photograph()
    buffer = BytesIO()
    PillowImage.fromarray(pixels).save(buffer, "PNG")
    one = decoder(CenterCrop(60, 80), image=Image("png"))
    sample = Sample(buffer.getvalue(), pixels.shape, 0, 0)

    assert np.array_equal(one.decode(sample, one.place(sample, 0), epoch=0), pixels[30:90, 40:120])


@pytest.mark.parametrize("keep", [30, 1000])
def test_a_truncated_image_names_row_and_tensor(keep):
    pixels = photograph()
    one = decoder(Resize(8, 8))
    sample = Sample(jpeg(pixels)[:keep], pixels.shape, 4133, 0)

    with pytest.raises(CorruptSampleError, match="row 4133 of 'image'") as caught:
        one.decode(sample, one.place(sample, 0), epoch=0)

    assert caught.value.row == 4133


def test_an_image_of_another_size_than_recorded_is_corrupt():
    sample = Sample(jpeg(photograph(60, 80)), (120, 160, 3), 5, 0)
    one = decoder()

    with pytest.raises(CorruptSampleError, match="recorded as 120 x 160"):
        one.decode(sample, one.place(sample, 0), epoch=0)


def test_pillow_and_torch_resize_alike():
    pixels = photograph()

    difference = np.abs(
        _pillow_antialiased(pixels, (70, 50)).astype(int)
        - _torch_antialiased(pixels, (70, 50)).astype(int)
    )

    assert difference.max() <= 1


@pytest.mark.parametrize("resample", [_torch_plain, _pillow_plain])
def test_plain_bilinear_agrees_with_opencvs_definition(resample):
    pixels = photograph(40, 60)
    ys = (np.arange(30) + 0.5) * 40 / 30 - 0.5
    xs = (np.arange(70) + 0.5) * 60 / 70 - 0.5
    top, left = np.floor(ys).astype(int), np.floor(xs).astype(int)
    fy, fx = (ys - top)[:, None, None], (xs - left)[None, :, None]

    def at(rows, columns):
        return pixels[rows.clip(0, 39)][:, columns.clip(0, 59)].astype(float)

    above = at(top, left) * (1 - fx) + at(top, left + 1) * fx
    below = at(top + 1, left) * (1 - fx) + at(top + 1, left + 1) * fx
    expected = above * (1 - fy) + below * fy

    inner = np.abs(resample(pixels, (30, 70)) - expected)[1:-1, 2:-2]
    assert inner.max() <= 1.5


@pytest.mark.parametrize("dtype", ["uint16", "int32", "float32"])
@pytest.mark.parametrize("resample", [_torch_antialiased, _pillow_antialiased])
def test_other_dtypes_are_resampled_and_keep_their_dtype(resample, dtype):
    pixels = (photograph(channels=2).astype(np.float64) * 100).astype(dtype)

    resized = resample(pixels, (30, 40))

    assert resized.dtype == dtype
    assert resized.shape == (30, 40, 2)
    assert abs(float(resized.mean()) - float(pixels.mean())) < 60


def test_opencv_is_used_where_it_is_installed():
    pytest.importorskip("cv2")

    assert _opencv_plain(photograph(), (30, 40)).shape == (30, 40, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tl.decode.RandomResizedCrop(3, 3, scale=3),
        lambda: tl.decode.RandomResizedCrop(3, 3, ratio=(1, float("inf"))),
        lambda: tl.decode.RandomResizedCrop(3, 3, ratio="ab"),
        lambda: tl.decode.Normalize("a", "b"),
        lambda: tl.decode.Normalize((0.5,), (float("nan"),)),
        lambda: tl.decode.Letterbox(8, fill=-1),
        lambda: tl.decode.Letterbox(8, fill=0.5),
        lambda: tl.decode.Flip("0.5"),
        lambda: tl.decode.Flip(axis=[]),
        lambda: tl.decode.Resize(8, antialias="no"),
        lambda: tl.decode.Letterbox(8, exact=None),
        lambda: tl.collate.Pad("a"),
        lambda: tl.collate.Pad(to=2.5),
        lambda: tl.collate.Pad(multiple_of=True),
    ],
)
def test_a_step_of_another_kind_is_refused_when_it_is_made(make):
    with pytest.raises(tl.InvalidInputError):
        make()


@pytest.mark.parametrize(
    "step",
    [
        Normalize(np.array([0.5, 0.25], np.float32), np.array([0.1, 0.2])),
        RandomResizedCrop(8, scale=(np.float32(0.25), np.float64(1))),
        Letterbox(np.int64(8), fill=np.uint8(3), exact=np.False_),
        Flip(np.float32(0.25)),
    ],
)
def test_numbers_of_numpy_are_pythons_in_a_step_which_json_holds(step):
    written = json.dumps(step_to_json(step))

    assert step_from_json(json.loads(written)) == step


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([Normalize((0.5, 0.5), (0.1, 0.1))], r"2 numbers, one per channel, and 'image' has 3"),
        ([Letterbox(8, fill=300)], r"fills with 300, and uint8 holds at most 255"),
    ],
)
def test_numbers_that_images_have_no_place_for_are_refused(given, says):
    spec = parse_steps("image", given)

    with pytest.raises(tl.InvalidInputError, match=says):
        spec.check((None, None, 3), np.dtype(np.uint8))


def test_a_step_that_was_not_made_is_no_step():
    for kind in (Flip, ToFloat):
        with pytest.raises(tl.InvalidInputError, match="is not a decode step"):
            parse_steps("image", kind)


def test_one_number_normalizes_one_channel():
    assert tl.decode.Normalize(0.5, 0.25) == tl.decode.Normalize((0.5,), (0.25,))
