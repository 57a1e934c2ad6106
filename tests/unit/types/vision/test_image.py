"""Image: stored as it came, checked by its header, decoded strictly."""

from io import BytesIO
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import simplejpeg
import torch

from tensorlake.errors import (
    CorruptSampleError,
    DTypeMismatchError,
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
)
from tensorlake.types import EncodedColumn, File, Image, parse_jpeg_header, parse_png_header

RAMP = np.arange(20 * 30 * 3, dtype=np.uint32).astype(np.uint8).reshape(20, 30, 3)


def jpeg(pixels=RAMP):
    if pixels.shape[2] == 1:
        return simplejpeg.encode_jpeg(pixels, colorspace="GRAY", colorsubsampling="Gray")
    return simplejpeg.encode_jpeg(pixels)


def saved(picture, file_format, **options):
    buffer = BytesIO()
    picture.save(buffer, file_format, **options)
    return buffer.getvalue()


def png(mode="RGB", size=(30, 20)):
    return saved(PIL.Image.new(mode, size), "PNG")


def convert(image, samples):
    return image.convert(samples, tensor="image")


def test_a_file_of_the_codec_is_stored_as_it_came(tmp_path: Path):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())

    with path.open("rb") as file:
        column = convert(Image(), [str(path), path, File(path), jpeg(), memoryview(jpeg()), file])

    assert set(column.samples) == {jpeg()}
    assert column.shapes.tolist() == [[20, 30, 3]] * 6


def test_pixels_are_encoded_nearly_without_loss():
    smooth = np.full((16, 16, 3), 90, dtype=np.uint8)
    samples = [smooth, PIL.Image.fromarray(smooth), torch.from_numpy(smooth), smooth.tolist()]

    pixels = Image().present(Image().decode(convert(Image(), samples), tensor="image"))

    assert len(pixels) == 4
    assert all(np.abs(one.astype(int) - 90).max() <= 2 for one in pixels)


def test_an_array_of_images_is_an_image_a_row():
    column = convert(Image(), np.stack([RAMP, RAMP]))

    assert column.shapes.tolist() == [[20, 30, 3]] * 2


def test_png_keeps_every_pixel():
    image = Image("png")

    decoded = image.decode(convert(image, [RAMP]), tensor="image")

    assert (image.present(decoded)[0] == RAMP).all()


@pytest.mark.parametrize("codec", ["jpeg", "png"])
def test_gray_images_stay_gray_in_mode_l(codec):
    image = Image(codec, mode="L")
    gray = np.full((4, 6), 50, dtype=np.uint8)

    decoded = image.present(image.decode(convert(image, [gray, gray[:, :, None]]), tensor="image"))

    assert decoded.shapes.tolist() == [[4, 6, 1]] * 2
    assert int(decoded[0][0, 0, 0]) == 50


def test_gray_files_expand_to_three_equal_channels():
    files = {"jpeg": jpeg(RAMP[:, :, :1].copy()), "png": png("L")}

    for codec, content in files.items():
        image = Image(codec)
        decoded = image.present(image.decode(convert(image, [content]), tensor="image"))[0]
        assert decoded.shape == (20, 30, 3)
        assert (decoded[:, :, 0] == decoded[:, :, 2]).all()


def test_alpha_needs_mode_rgba():
    image = Image("png", mode="RGBA")

    assert convert(image, [png("RGBA")]).shapes.tolist() == [[20, 30, 4]]
    with pytest.raises(DTypeMismatchError, match="alpha"):
        convert(Image("png"), [png("RGBA")])
    with pytest.raises(DTypeMismatchError, match="alpha"):
        convert(Image("png"), [png("LA")])


def test_a_palette_with_transparency_has_an_alpha_channel():
    content = saved(PIL.Image.new("P", (4, 4)), "PNG", transparency=0)

    assert parse_png_header(content).has_alpha
    assert not parse_png_header(saved(PIL.Image.new("P", (4, 4)), "PNG")).has_alpha


@pytest.mark.parametrize(
    ("codec", "content", "words"),
    [
        ("jpeg", png(), r'is PNG\nuse Image\(codec="png"\)'),
        ("png", jpeg(), r'is JPEG\nuse Image\(codec="jpeg"\)'),
        ("jpeg", saved(PIL.Image.new("RGB", (4, 4)), "GIF"), "is GIF\ngive its pixels"),
        ("jpeg", saved(PIL.Image.new("RGB", (4, 4)), "WEBP"), "is WebP"),
        ("jpeg", b"", "not a whole JPEG: it is empty"),
        ("jpeg", b"hello", "does not begin with a JPEG"),
        ("jpeg", jpeg()[:50], "data end"),
        ("png", png()[:20], "data end"),
        ("png", png()[:40], "data end"),
        ("png", png()[:20] + b"\x01" + png()[21:], "checksum of IHDR"),
    ],
)
def test_what_is_not_a_whole_file_of_the_codec_is_refused(codec, content, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        convert(Image(codec), [png() if codec == "png" else jpeg(), content])

    assert caught.value.row == 1


def test_a_wrong_file_is_named(tmp_path: Path):
    path = tmp_path / "a.png"
    path.write_bytes(png())

    with pytest.raises(InvalidInputError, match=r"a\.png' is PNG"):
        convert(Image(), [path])


@pytest.mark.parametrize("path", ["missing.jpg", "a\0b.jpg", "s3://bucket/a.jpg"])
def test_a_path_that_cannot_be_read_is_refused(path):
    with pytest.raises(InvalidInputError, match="cannot read"):
        convert(Image(), [path])


def test_a_text_file_object_is_refused(tmp_path: Path):
    (tmp_path / "a.txt").write_text("hello")

    with (tmp_path / "a.txt").open() as file, pytest.raises(DTypeMismatchError, match='"rb"'):
        convert(Image(), [file])


@pytest.mark.parametrize(
    ("sample", "error"),
    [
        (np.zeros((4, 4), np.uint8), ShapeMismatchError),
        (np.zeros((3, 4, 4), np.uint8), ShapeMismatchError),
        (np.zeros((0, 4, 3), np.uint8), ShapeMismatchError),
        (np.zeros((1, 70_000, 3), np.uint8), ShapeMismatchError),
        (np.zeros((4, 4, 3), np.float32), DTypeMismatchError),
        (np.full((4, 4, 3), 256), DTypeMismatchError),
        (PIL.Image.new("L", (4, 4)), ShapeMismatchError),
        ([[1, 2], [3]], ShapeMismatchError),
    ],
)
def test_pixels_of_another_shape_or_kind_are_refused(sample, error):
    with pytest.raises(error) as caught:
        convert(Image(), [RAMP, sample])

    assert caught.value.row == 1


def test_colour_is_refused_in_mode_l():
    with pytest.raises(DTypeMismatchError, match="three channels"):
        convert(Image(mode="L"), [jpeg()])


def test_cmyk_and_sixteen_bits_are_refused():
    with pytest.raises(DTypeMismatchError, match="CMYK"):
        convert(Image(), [saved(PIL.Image.new("CMYK", (4, 4)), "JPEG")])
    with pytest.raises(DTypeMismatchError, match="16 bits"):
        convert(Image("png"), [saved(PIL.Image.new("I;16", (4, 4)), "PNG")])


def test_progressive_jpeg_and_fill_bytes_are_understood():
    progressive = saved(PIL.Image.fromarray(RAMP), "JPEG", progressive=True)
    padded = jpeg()[:2] + b"\xff\xff" + jpeg()[2:]

    assert parse_jpeg_header(progressive).height == 20
    assert parse_jpeg_header(padded).width == 30


@pytest.mark.parametrize("content", [jpeg(), png()], ids=["jpeg", "png"])
def test_no_beginning_of_a_file_makes_the_header_parser_fail_otherwise(content):
    parse = parse_jpeg_header if content[0] == 0xFF else parse_png_header

    for stop in range(len(content)):
        try:
            assert parse(content[:stop]).height == 20
        except ValueError:
            continue


def test_a_damaged_jpeg_is_an_error_that_names_its_row():
    content = jpeg(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    column = EncodedColumn([jpeg(), content[: len(content) // 2]])

    with pytest.raises(CorruptSampleError, match=r"row 4133 of 'photo'") as caught:
        Image().decode(column, tensor="photo", rows=[7, 4133])

    assert caught.value.row == 4133
    assert "on_error='skip'" in str(caught.value)


def test_a_damaged_png_is_an_error():
    content = png()

    with pytest.raises(CorruptSampleError):
        Image("png").decode(EncodedColumn([content[:-30]]), tensor="image")


def test_a_recorded_shape_that_is_not_the_images_is_an_error():
    column = EncodedColumn([jpeg()], np.array([[20, 31, 3]]))

    with pytest.raises(CorruptSampleError):
        Image().decode(column, tensor="image")


def test_null_has_no_pixels():
    image = Image(nullable=True)
    column = convert(image, [None, RAMP])

    decoded = image.decode(column, tensor="image")

    assert decoded.shapes.tolist() == [[0, 0, 3], [20, 30, 3]]
    assert image.present_one(decoded, 0) is None


@pytest.mark.parametrize(
    "parameters",
    [{"codec": "gif"}, {"mode": "CMYK"}, {"mode": "RGBA"}, {"default": RAMP}],
    ids=repr,
)
def test_parameters_that_cannot_be_are_refused(parameters):
    with pytest.raises(SchemaError):
        Image(**parameters)


# Arrays as other libraries make them


def advised(error: InvalidInputError) -> str:
    """The expression that an error ends with."""
    return str(error).rpartition(": ")[2].removesuffix("  (nothing was staged)")


@pytest.mark.parametrize(("mode", "highest"), [(None, 255), ("RGB16", 65_535)])
def test_the_advice_for_intensities_from_0_to_1_keeps_the_image(mode, highest):
    image = Image(codec="png", mode=mode)
    values = np.linspace(0, 1, 6 * 5 * 3).reshape(6, 5, 3)

    with pytest.raises(DTypeMismatchError, match="scale intensities") as caught:
        convert(image, [values])
    pixels = eval(advised(caught.value), {"values": values})
    stored = image.decode(convert(image, [pixels]), tensor="image").values

    assert stored.max() == highest
    assert np.abs(stored.reshape(values.shape) / highest - values).max() <= 0.5 / highest


def test_the_advice_for_intensities_from_minus_1_to_1_keeps_the_image():
    values = np.linspace(-1, 1, 6 * 5 * 3).reshape(6, 5, 3)

    with pytest.raises(DTypeMismatchError, match="from -1 to 1") as caught:
        convert(Image(codec="png"), [values])
    pixels = eval(advised(caught.value), {"values": values})

    assert (pixels.min(), pixels.max()) == (0, 255)
    assert np.abs(pixels / 127.5 - 1 - values).max() <= 0.5 / 127.5


@pytest.mark.parametrize(("highest", "said"), [(70_000, "do not fit 0 … 255"), (np.nan, "NaN")])
def test_floats_that_would_wrap_around_are_not_told_to_be_rounded_alone(highest, said):
    values = np.full((6, 5, 3), 9.5)
    values[0, 0, 0] = highest

    with pytest.raises(DTypeMismatchError, match=said):
        convert(Image(codec="png"), [values])


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (4, "RGBA")])
def test_channels_that_come_first_and_are_others_name_the_mode(channels, mode):
    with pytest.raises(ShapeMismatchError, match=f"channels come last.*mode='{mode}'"):
        convert(Image(codec="png"), [np.zeros((channels, 40, 50), np.uint8)])


def test_the_advice_for_floats_that_are_not_intensities_rounds_them():
    values = np.full((6, 5, 3), 99.7)

    with pytest.raises(DTypeMismatchError) as caught:
        convert(Image(codec="png"), [values])

    pixels = eval(advised(caught.value), {"values": values})
    assert (pixels == 100).all()
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize("make", [np.zeros, torch.zeros], ids=["NumPy", "torch"])
def test_the_advice_for_channels_that_come_first_moves_them(make):
    pixels = make((3, 20, 30), dtype=(torch if make is torch.zeros else np).uint8)

    with pytest.raises(ShapeMismatchError, match="channels come last") as caught:
        convert(Image(codec="png"), [pixels])

    moved = eval(advised(caught.value), {"pixels": pixels})
    assert convert(Image(codec="png"), [moved]).shapes.tolist() == [[20, 30, 3]]
