"""Pictures in every codec: what is stored, read, turned and refused, against Pillow."""

import io

import imagecodecs
import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import (
    CorruptSampleError,
    DTypeMismatchError,
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
)
from tensorlake.types import EncodedColumn
from tensorlake.types.vision.codecs import CODECS, turn

RNG = np.random.default_rng(11)
SMOOTH = np.asarray(
    PIL.Image.fromarray(RNG.integers(0, 256, (3, 4, 4), np.uint8), "RGBA").resize((28, 21))
)
COLOUR, GRAY = SMOOTH[:, :, :3].copy(), SMOOTH[:, :, :1].copy()
DEEP = (SMOOTH.astype(np.uint16) << 8) + 7
LOSSLESS = ("png", "webp", "jpeg2000", "tiff")
PILLOW = {
    "jpeg": ("JPEG", {"quality": 95}),
    "png": ("PNG", {}),
    "webp": ("WEBP", {"lossless": True}),
    "avif": ("AVIF", {}),
    "jpeg2000": ("JPEG2000", {}),
    "tiff": ("TIFF", {"compression": "tiff_lzw"}),
}


def saved(picture, codec, **options):
    out = io.BytesIO()
    name, own = PILLOW[codec]
    picture.save(out, name, **own, **options)
    return out.getvalue()


def read(sample_type, sample):
    column = sample_type.convert([sample], tensor="image")
    decoded = sample_type.decode(column, tensor="image")
    assert column.shapes.tolist() == decoded.shapes.tolist()
    return sample_type.present(decoded)[0]


@pytest.mark.parametrize("codec", CODECS)
def test_file_is_stored_as_it_came_and_read_as_pillow_reads_it(codec):
    content = saved(PIL.Image.fromarray(COLOUR), codec)

    column = tl.Image(codec).convert([content], tensor="image")
    pixels = read(tl.Image(codec), content)

    assert column.samples == [content]
    with PIL.Image.open(io.BytesIO(content)) as picture:
        shown = np.asarray(picture.convert("RGB")).astype(int)
    # AVIF's colours come by two implementations of one conversion
    assert np.abs(pixels - shown).max() <= (2 if codec == "avif" else 0)


@pytest.mark.parametrize("codec", LOSSLESS)
@pytest.mark.parametrize("mode", [None, "RGB", "L", "RGBA", "L16", "RGB16", "RGBA16"])
def test_pixels_come_back_as_given_from_lossless_codecs(codec, mode):
    try:
        sample_type = tl.Image(codec, mode)
    except SchemaError:
        pytest.skip(f"{codec} has no {mode}")
    channels = sample_type.shape[2]
    given_pixels = (DEEP if sample_type.dtype == np.uint16 else SMOOTH)[:, :, :channels]

    assert np.array_equal(read(sample_type, given_pixels), given_pixels)


@pytest.mark.parametrize(("codec", "bound"), [("jpeg", 4), ("avif", 12)])
def test_pixels_come_back_nearly_from_lossy_codecs(codec, bound):
    assert np.abs(read(tl.Image(codec), COLOUR).astype(int) - COLOUR).mean() <= bound


@pytest.mark.parametrize("codec", ["png", "jpeg2000", "tiff", "jpeg", "avif"])
def test_gray_file_is_read_in_three_equal_channels(codec):
    content = saved(PIL.Image.fromarray(GRAY[:, :, 0]), codec)

    pixels = read(tl.Image(codec), content)

    assert np.array_equal(pixels[:, :, 0], pixels[:, :, 2])
    assert np.array_equal(pixels[:, :, :1], read(tl.Image(codec, "L"), content))


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA"])
def test_png_of_every_kind_is_read_as_pillow_reads_it(mode):
    picture = PIL.Image.fromarray(COLOUR).convert(mode)

    pixels = read(tl.Image("png", "RGBA"), saved(picture, "png"))

    assert np.array_equal(pixels, np.asarray(picture.convert("RGBA")))


@pytest.mark.parametrize("codec", ["png", "webp", "avif", "jpeg2000", "tiff"])
def test_alpha_is_refused_unless_the_mode_has_it(codec):
    content = saved(PIL.Image.fromarray(SMOOTH, "RGBA"), codec)

    with pytest.raises(DTypeMismatchError, match="RGBA"):
        tl.Image(codec).convert([content], tensor="image")
    assert read(tl.Image(codec, "RGBA"), content).shape == (21, 28, 4)


@pytest.mark.parametrize("codec", ["png", "jpeg2000", "tiff"])
def test_depth_is_never_changed(codec):
    deep = tl.Image(codec, "RGB16").convert([DEEP[:, :, :3]], tensor="image").samples[0]
    flat = tl.Image(codec).convert([COLOUR], tensor="image").samples[0]

    with pytest.raises(DTypeMismatchError, match=r"16 bits .*\n.*RGB16"):
        tl.Image(codec).convert([deep], tensor="image")
    with pytest.raises(DTypeMismatchError, match="8 bits"):
        tl.Image(codec, "RGB16").convert([flat], tensor="image")
    for mode in ("L16", "RGB16", "RGBA16"):
        channels = tl.Image(codec, mode).shape[2]
        content = tl.Image(codec, mode).convert([DEEP[:, :, :channels]], tensor="image").samples[0]
        with pytest.raises(DTypeMismatchError, match=f'mode="{mode}"'):  # which it has itself
            tl.Image(codec).convert([content], tensor="image")


def test_deep_gray_file_of_another_program_is_read():
    deep = DEEP[:, :, 0]
    content = saved(PIL.Image.fromarray(deep), "png")

    assert np.array_equal(read(tl.Image("png", "L16"), content)[:, :, 0], deep)


@pytest.mark.parametrize("codec", ["jpeg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_images_are_turned_as_pillow_turns_them(codec, orientation):
    picture = PIL.Image.fromarray(COLOUR)
    exif = picture.getexif()
    exif[274] = orientation
    content = saved(picture, codec, exif=exif)
    with PIL.Image.open(io.BytesIO(content)) as stored:
        upright = np.asarray(PIL.ImageOps.exif_transpose(stored))
        # Pillow turns TIFF by itself; these three codecs are lossless here
        as_stored = np.asarray(stored) if codec == "jpeg" else COLOUR

    assert np.array_equal(read(tl.Image(codec, upright=True), content), upright)
    assert np.array_equal(read(tl.Image(codec), content), as_stored)
    assert tl.Image(codec, upright=True).convert([content], tensor="image").samples == [content]


def test_turning_is_undone_by_the_opposite_turn():
    opposite = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}

    for orientation, back in opposite.items():
        assert np.array_equal(turn(turn(COLOUR, orientation), back), COLOUR)


@pytest.mark.parametrize(
    ("codec", "content", "words"),
    [
        (
            "webp",
            saved(
                PIL.Image.fromarray(COLOUR),
                "webp",
                save_all=True,
                append_images=[PIL.Image.fromarray(255 - COLOUR)],
            ),
            "animation",
        ),
        (
            "tiff",
            saved(
                PIL.Image.fromarray(COLOUR),
                "tiff",
                save_all=True,
                append_images=[PIL.Image.fromarray(COLOUR)],
            ),
            "several pages",
        ),
        ("tiff", saved(PIL.Image.fromarray(COLOUR).convert("P"), "tiff"), "palette"),
        ("tiff", saved(PIL.Image.fromarray(COLOUR).convert("1"), "tiff"), "1 bits"),
        ("tiff", imagecodecs.tiff_encode(COLOUR[:, :, 0].astype(np.float32)), "floats"),
        ("jpeg", saved(PIL.Image.fromarray(COLOUR).convert("CMYK"), "jpeg"), "CMYK"),
        ("tiff", saved(PIL.Image.fromarray(COLOUR).convert("CMYK"), "tiff"), "CMYK"),
    ],
    ids=[
        "webp-moving",
        "tiff-pages",
        "tiff-palette",
        "tiff-bits",
        "tiff-float",
        "jpeg-cmyk",
        "tiff-cmyk",
    ],
)
def test_what_is_no_one_image_is_refused_with_the_reason(codec, content, words):
    with pytest.raises(InvalidInputError, match=words):
        tl.Image(codec).convert([content], tensor="image")


@pytest.mark.parametrize("codec", CODECS)
def test_file_of_another_codec_is_refused_naming_it(codec):
    other = "png" if codec != "png" else "tiff"

    with pytest.raises(InvalidInputError, match=f'Image\\(codec="{other}"\\)'):
        tl.Image(codec).convert([saved(PIL.Image.fromarray(COLOUR), other)], tensor="image")


@pytest.mark.parametrize(
    ("codec", "mode"),
    [
        ("jpeg", "RGBA"),
        ("jpeg", "L16"),
        ("webp", "L"),
        ("avif", "RGB16"),
        ("png", "CMYK"),
        ("gif", None),
    ],
)
def test_impossible_image_is_refused(codec, mode):
    with pytest.raises(SchemaError, match="use one of"):
        tl.Image(codec, mode)


def test_side_beyond_the_codec_is_refused():
    with pytest.raises(ShapeMismatchError, match="16,383"):
        tl.Image("webp").convert([np.zeros((16_384, 1, 3), np.uint8)], tensor="image")


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damage_is_an_error_and_never_an_image_of_another_size(codec, data):
    content = bytearray(saved(PIL.Image.fromarray(COLOUR), codec))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])

    for mode in (None, "L16" if 16 in CODECS[codec].depths else None):
        sample_type = tl.Image(codec, mode)
        try:
            column = sample_type.convert([damaged], tensor="image")
        except InvalidInputError:
            continue
        if column.shapes.prod() > 1 << 24:
            continue  # a header may promise much: the promise is the shape, no memory is taken
        try:
            decoded = sample_type.decode(column, tensor="image")
        except CorruptSampleError:
            continue
        assert decoded.shapes.tolist() == column.shapes.tolist()


@pytest.mark.parametrize("codec", CODECS)
def test_stored_sample_that_is_cut_names_its_row(codec):
    content = saved(PIL.Image.fromarray(COLOUR), codec)
    column = EncodedColumn([content, content[: len(content) // 2]], np.array([[21, 28, 3]] * 2))

    with pytest.raises(CorruptSampleError, match=r"row 7 of 'image'"):
        tl.Image(codec).decode(column, tensor="image", rows=[3, 7])


@pytest.mark.parametrize("codec", CODECS)
def test_dataset_streams_and_reads_every_codec(codec):
    ds = tl.create(f"memory://codec-{codec}", {"image": tl.Image(codec), "n": "int64"})
    ds.extend({"image": [COLOUR] * 6, "n": range(6)})
    ds.commit()
    first = ds[0]["image"]

    [batch] = ds.loader(batch_size=6, decode={"image": tl.decode.Resize(28, 21)})

    assert first.shape == COLOUR.shape
    assert batch["image"].shape[0] == 6
    assert ds["image"].shapes().tolist() == [[21, 28, 3]] * 6


@pytest.mark.parametrize("orientation", [3, 6])
def test_upright_images_stream_turned(orientation):
    picture = PIL.Image.fromarray(COLOUR)
    exif = picture.getexif()
    exif[274] = orientation
    content = saved(picture, "jpeg", exif=exif)
    ds = tl.create(f"memory://upright-{orientation}", {"image": tl.Image("jpeg", upright=True)})
    ds.extend({"image": [content] * 3})
    ds.commit()
    expected = ds[0]["image"]

    [batch] = ds.loader(batch_size=3, decode={"image": tl.decode.Resize(*expected.shape[:2])})

    assert np.array_equal(batch["image"], np.stack([expected] * 3))


@pytest.mark.parametrize("codec", LOSSLESS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (4, 1), (1, 5), (4, 5)])
def test_slices_with_an_axis_of_one_pixel_are_encoded(codec, channels, shape):
    if codec == "webp":
        channels = 3  # it has no gray
    whole = RNG.integers(0, 256, (*shape, channels), np.uint8)
    kind = tl.Image(codec, mode="L" if channels == 1 else None)

    for part in (whole[::2, ::2], whole[:, ::2], whole[::-1, ::-1], whole[::-1, :1]):
        column = kind.convert([part], tensor="im")
        assert np.array_equal(kind.present_one(kind.decode(column, tensor="im"), 0), part)
