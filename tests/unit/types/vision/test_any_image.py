"""Image("any"): each picture says by its first bytes which codec reads it."""

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, DTypeMismatchError, InvalidInputError, SchemaError
from tensorlake.types import EncodedColumn

# A photograph, not noise: codecs that lose something lose little of it.
PHOTO = Path(__file__).parents[4] / "examples" / "data" / "coco" / "images" / "000000024577.jpg"
PICTURE = PIL.Image.open(PHOTO).resize((36, 24))
LOSSLESS = {"PNG": {}, "WEBP": {"lossless": True}, "TIFF": {}}
LOSSY = {"JPEG": {"quality": 95}, "AVIF": {"quality": 95}}


def saved(name, picture=PICTURE, **options):
    out = io.BytesIO()
    picture.save(out, name, **options)
    return out.getvalue()


def read(sample_type, samples):
    column = sample_type.convert(samples, tensor="image")
    return sample_type.present(sample_type.decode(column, tensor="image"))


def test_files_of_every_codec_are_stored_as_they_came_and_read_as_pillow_reads_them():
    files = [saved(name, **more) for name, more in (LOSSLESS | LOSSY).items()]

    column = tl.Image("any").convert(files, tensor="image")
    pixels = read(tl.Image("any"), files)

    assert column.samples == files
    assert column.shapes.tolist() == [[24, 36, 3]] * len(files)
    for file, one in zip(files, pixels, strict=True):
        expected = np.asarray(PIL.Image.open(io.BytesIO(file)).convert("RGB"), np.int16)
        assert np.abs(one.astype(np.int16) - expected).max() <= 3  # decoders round apart


def test_pixels_are_encoded_without_loss():
    pixels = np.asarray(PICTURE)

    column = tl.Image("any").convert([pixels, PICTURE], tensor="image")

    assert all(one.startswith(b"\x89PNG") for one in column.samples)
    assert (read(tl.Image("any"), [pixels])[0] == pixels).all()


def test_what_has_no_alpha_is_opaque_beside_what_has():
    half = PICTURE.convert("RGBA")
    half.putalpha(128)

    rgba = read(tl.Image("any", "RGBA"), [saved("JPEG"), saved("WEBP"), saved("PNG", half)])

    assert [int(one[..., 3].min()) for one in rgba] == [255, 255, 128]
    assert [int(one[..., 3].max()) for one in rgba] == [255, 255, 128]


def test_alpha_needs_the_mode_that_the_error_names():
    with pytest.raises(DTypeMismatchError, match=r'use Image\(codec="any", mode="RGBA"\)'):
        tl.Image("any").convert([saved("PNG", PICTURE.convert("RGBA"))], tensor="image")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (saved("GIF"), "stores jpeg, png, webp, avif, jpeg2000 and tiff, but the sample is GIF"),
        (saved("BMP"), "is BMP"),
        (b"", r"\(0 bytes\), not a whole image"),
        (b"hello", "not an image's"),
        (saved("PNG")[:20], "data end"),
        (saved("JPEG")[:40], "data end"),
        (saved("TIFF", PICTURE.convert("CMYK")), "CMYK"),
    ],
)
def test_what_is_no_image_of_these_is_refused(content, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        tl.Image("any").convert([saved("PNG"), content], tensor="image")

    assert caught.value.row == 1


def test_a_tensor_of_one_codec_says_which_type_takes_both():
    with pytest.raises(InvalidInputError, match=r'Image\(codec="any"\) where images differ'):
        tl.Image("jpeg").convert([saved("PNG")], tensor="image")


def test_damage_is_told_with_the_format_of_the_sample():
    whole = saved("PNG")
    column = EncodedColumn([saved("JPEG"), whole[: len(whole) // 2]], np.array([[24, 36, 3]] * 2))

    with pytest.raises(CorruptSampleError, match=r"row 1 of 'image' .* not a whole PNG"):
        tl.Image("any").decode(column, tensor="image")


def test_a_shape_that_a_sample_cannot_have_is_refused_before_it_is_allocated():
    column = EncodedColumn([saved("JPEG")], np.array([[4_000, 4_000, 3]]))

    with pytest.raises(CorruptSampleError, match="are possible"):
        tl.Image("any").decode(column, tensor="image")


def test_null_has_no_pixel_and_no_codec():
    ds = tl.create("memory://any-null", {"image": tl.Image("any", nullable=True)})
    ds.extend({"image": [saved("JPEG"), None, saved("PNG")]})

    assert [row["image"] is None for row in ds] == [False, True, False]
    ds.discard()


@pytest.mark.parametrize("name", ["JPEG", "PNG", "TIFF"])
def test_upright_turns_images_of_each_codec(name):
    exif = PIL.Image.Exif()
    exif[274] = 6  # shown turned by a quarter

    turned = read(tl.Image("any", upright=True), [saved(name, exif=exif)])

    assert turned[0].shape == (36, 24, 3)


def test_each_sample_has_its_own_media_type():
    image = tl.Image("any")

    assert image.media_type == "image/*"
    assert image.media_type_of(saved("WEBP")) == "image/webp"
    assert image.media_type_of(b"hello") == "image/*"
    assert tl.Image("png").media_type_of(saved("PNG")) == "image/png"


def test_a_column_becomes_one_of_any_codec_and_nothing_narrower():
    jpeg, png = saved("JPEG"), saved("PNG")
    ds = tl.create("memory://any-alter", {"image": tl.Image("jpeg"), "x": "int64"})
    ds.append({"image": jpeg, "x": 1})
    ds.commit("one codec")

    ds.alter_tensor("image", codec="any")
    ds.append({"image": png, "x": 2})
    ds.commit("any")

    assert [ds["image"].bytes(row) for row in range(2)] == [jpeg, png]
    assert ds.schema["image"] == tl.Image("any")
    assert ds.at("main@1").schema["image"] == tl.Image("jpeg")
    for tensor, codec, words in (
        ("image", "jpeg", "only widens: to 'any'"),
        ("image", "png", "only widens"),
        ("x", "any", "only images"),
    ):
        with pytest.raises(SchemaError, match=words):
            ds.alter_tensor(tensor, codec=codec)


def test_a_restored_codec_refuses_what_was_appended_meanwhile():
    url = "memory://any-restore"
    ds = tl.create(url, {"image": tl.Image("jpeg")})
    ds.append({"image": saved("JPEG")})
    ds.commit("one codec")
    ds.alter_tensor("image", codec="any")
    ds.commit("any")
    other = tl.open(url)
    other.append({"image": saved("PNG")})

    ds.restore("main@1")

    with pytest.raises(tl.ConflictError):
        other.commit("a PNG")
    other.discard()
    assert tl.open(url).check(decode=True).ok


def test_a_mix_of_one_codec_and_of_any_gives_one_batch():
    sources = {}
    for name, sample_type in (("png", tl.Image("png", "RGBA")), ("any", tl.Image("any", "RGBA"))):
        ds = tl.create(f"memory://any-mix-{name}", {"image": sample_type})
        files = [saved("PNG"), saved("PNG")] if name == "png" else [saved("JPEG"), saved("PNG")]
        ds.extend({"image": files})
        ds.commit("pictures")
        sources[name] = (ds, 1)

    loader = tl.mix(sources, stop="all").loader(
        batch_size=2, decode={"image": tl.decode.Resize(12, 18)}
    )

    assert all(batch["image"].shape[1:] == (12, 18, 4) for batch in loader)


@pytest.mark.parametrize("mode", [None, "RGBA"])
def test_a_jpeg_of_four_inks_is_kept_and_read_as_pillow_reads_it(mode):
    inks = np.random.default_rng(3).integers(0, 256, (40, 56, 4), np.uint8)
    content = saved("JPEG", PIL.Image.fromarray(inks, "CMYK"))
    with PIL.Image.open(io.BytesIO(content)) as opened:
        expected = np.asarray(opened.convert("RGB"))

    with tl.create(f"memory://any-inks-{mode}", {"image": tl.Image("any", mode=mode)}) as ds:
        ds.extend({"image": [content, saved("PNG")]})
        ds.commit()

        streamed = next(iter(ds[:1].loader(batch_size=1)))["image"]
        small = next(iter(ds[:1].loader(batch_size=1, decode={"image": tl.decode.Resize(5, 7)})))
        assert ds["image"].bytes(0) == content
        assert (ds["image"][0][:, :, :3] == expected).all()
        assert (ds["image"][0][:, :, 3:] == 255).all()
        assert (np.asarray(streamed[0])[:, :, :3] == expected).all()
        assert small["image"].shape[1:3] == (5, 7)
        assert "image/jpeg" in ds[:1]._repr_html_()


def test_a_jpeg_of_four_inks_names_the_type_that_reads_it():
    content = saved("JPEG", PICTURE.convert("CMYK"))

    with pytest.raises(DTypeMismatchError, match=r'Image\(codec="any"\), which reads it as RGB'):
        tl.Image("jpeg").convert([content], tensor="image")
    with pytest.raises(DTypeMismatchError, match="CMYK"):
        tl.Image("any", mode="L").convert([content], tensor="image")
