"""Images in tiles: the same pixels as images stored whole, and a region from the tiles over it."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types import EncodedColumn, Image, SampleParts, untiled
from tensorlake.types.tiles import BLOSC_TILES, TileHead, store_tiles
from tests.support.examples import examples
from tests.support.handles import create_on, open_on, wait_for_storage

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("imagecodecs")

PNG = Image("png", tiles=(9, 9)).tile_codec
LOSSLESS = ["png", "webp", "jpeg2000", "tiff"]
MODES = {"L": ("uint8", 1), "RGB": ("uint8", 3), "RGBA": ("uint8", 4), "RGB16": ("uint16", 3)}


def pixels(height: int, width: int, mode: str = "RGB") -> np.ndarray:
    dtype, channels = MODES[mode]
    random = np.random.default_rng(height * width)
    return random.integers(0, np.iinfo(dtype).max, (height, width, channels), dtype)


def encoded(array: np.ndarray, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    PIL.Image.fromarray(array).save(out, form, **options)
    return out.getvalue()


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 50), st.integers(1, 17)),
    st.sampled_from(sorted(MODES)),
    st.data(),
)
@examples(30)
def test_a_region_is_that_of_the_pixels(size, tiles, mode, data):
    array = pixels(*size, mode)
    kind = Image("png", mode, tiles=tiles)
    column = kind.convert([array], tensor="image")
    sides = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in size]
    region = tuple(slice(*one) for one in sides)
    own = column.maps[0]
    wanted = kind.wanted_parts(own, region, tensor="image", row=0)
    parts = {at: memoryview(column.samples[0])[slice(*own.span(at))] for at in wanted.tolist()}

    read = kind.decode_parts(SampleParts(own, parts), region, tensor="image", row=0)

    np.testing.assert_array_equal(read, array[region])
    np.testing.assert_array_equal(kind.decode(column, tensor="image").sample(0), array)
    assert column.shapes.tolist() == [list(array.shape)]


@pytest.mark.parametrize("codec", LOSSLESS)
@pytest.mark.parametrize("form", ["PNG", "TIFF", "BMP"])
def test_files_of_any_codec_become_lossless_tiles(codec: Any, form: str, tmp_path: Path):
    array = pixels(50, 70)
    path = tmp_path / f"image.{form.lower()}"
    path.write_bytes(encoded(array, form))
    kind = Image(codec, tiles=(32, 32))

    if form == "BMP":
        with pytest.raises(InvalidInputError, match=r"image\.bmp' is BMP"):
            kind.convert([path], tensor="image")
        return
    column = kind.convert([path, path.read_bytes(), PIL.Image.open(path)], tensor="image")

    for at in range(3):
        np.testing.assert_array_equal(kind.decode(column, tensor="image").sample(at), array)


def test_a_jpeg_becomes_png_tiles_of_the_pixels_that_it_decodes_to():
    file = encoded(pixels(50, 70), "JPEG")
    tiled, whole = Image("png", tiles=(32, 32)), Image("jpeg")

    found, expected = (
        kind.decode(kind.convert([file], tensor="x"), tensor="x").sample(0)
        for kind in (tiled, whole)
    )

    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("codec", ["jpeg", "avif"])
def test_tiles_with_loss_take_pixels_and_no_file_that_has_lost_some(codec: Any):
    kind = Image(codec, tiles=(64, 64))
    smooth = np.add.outer(np.arange(90), np.arange(100))[..., None].repeat(3, 2).astype(np.uint8)

    column = kind.convert([smooth, encoded(smooth, "PNG")], tensor="x")

    for at in range(2):
        read = kind.decode(column, tensor="x").sample(at)
        assert np.abs(read.astype(int) - smooth).max() < 12
    with pytest.raises(InvalidInputError, match=r"with loss a second time\n.*as an array"):
        kind.convert([encoded(smooth, "JPEG")], tensor="x")
    with pytest.raises(InvalidInputError, match="WebP: its pixels would be compressed with loss"):
        kind.convert([encoded(smooth, "WEBP", quality=80)], tensor="x")
    lossless = kind.convert([encoded(smooth, "WEBP", lossless=True)], tensor="x")
    assert np.abs(kind.decode(lossless, tensor="x").sample(0).astype(int) - smooth).max() < 12


def test_an_upright_image_is_turned_before_it_is_cut():
    array = pixels(50, 70)
    exif = PIL.Image.Exif()
    exif[274] = 6  # turned clockwise
    file = encoded(array, "PNG", exif=exif)

    for is_upright in (False, True):
        tiled = Image("png", upright=is_upright, tiles=(32, 32))
        whole = Image("png", upright=is_upright)
        found, expected = (
            kind.decode(kind.convert([file], tensor="x"), tensor="x").sample(0)
            for kind in (tiled, whole)
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ({}, b"\x89PNG\r\n\x1a\nnothing", "not a whole"),
        ({}, b"plain text", "not a whole"),
        ({}, encoded(pixels(40, 40), "PNG")[:-40], "not a whole"),
        ({"mode": "L"}, encoded(pixels(40, 40), "PNG"), "three channels"),
        ({}, encoded(pixels(40, 40, "RGBA"), "PNG"), "alpha channel"),
        ({}, np.zeros((4, 4), np.uint8), 'use mode="L"'),
        ({}, np.zeros((0, 4, 3), np.uint8), "the sides"),
        ({}, np.full((4, 4, 3), 300), "300"),
    ],
)
def test_what_is_refused_of_whole_images_is_refused_of_tiles(kind, given, message):
    with pytest.raises(InvalidInputError, match=message):
        Image("png", tiles=(16, 16), **kind).convert([given], tensor="x")


def test_a_file_damaged_in_the_middle_is_refused_since_it_is_decoded():
    file = bytearray(encoded(pixels(60, 60), "PNG"))
    file[len(file) // 2] ^= 0xFF

    with pytest.raises(InvalidInputError, match=r"cannot take the sample \([\d,]+ bytes\)"):
        Image("png", tiles=(32, 32)).convert([bytes(file)], tensor="x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codec": "any", "tiles": (16, 16)}, "encoded by one codec"),
        ({"codec": "png", "tiles": 16}, "height and width"),
        ({"codec": "png", "tiles": (16, 16, 3)}, "height and width"),
        ({"codec": "png", "tiles": (16, 0)}, "tiles="),
        ({"codec": "png", "tiles": (1 << 20, 1 << 20)}, "larger than"),
        ({"codec": "webp", "tiles": (16, 16_384)}, "its sides are"),
    ],
)
def test_tiles_of_images_are_two_lengths_of_one_codec(arguments, message):
    with pytest.raises(SchemaError, match=message):
        Image(**arguments)


def test_the_type_survives_json_copies_and_links_refuse_it():
    kind = Image("png", "L16", tiles=[64, 32], nullable=True)

    assert (kind.tiles, kind.describe()) == ((64, 32), "Image(png, L16, tiles=(64, 32))")
    assert tl.types.from_json(kind.to_json()) == kind == pickle.loads(pickle.dumps(kind))
    assert untiled(kind) == Image("png", "L16", nullable=True)
    with pytest.raises(SchemaError, match="Link"):
        tl.Link(kind)


def damaged(kind: Image, change: Any) -> EncodedColumn:
    array = pixels(40, 40)
    one = TileHead.parse(kind.convert([array], tensor="x").maps[0].head)
    sample, own = store_tiles(*change(array, one))
    return EncodedColumn([sample], None, None, [own])


class Liar:
    """Tiles of another size than the head says."""

    name = "png"

    def suited(self, tiles: Any) -> Any:
        return self

    def encode(self, tile: np.ndarray) -> bytes:
        return encoded(np.zeros((400, 400, 3), np.uint8), "PNG")

    def decode(self, data: Any, tile: np.ndarray) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array, _: (array, (16, 16, 3), BLOSC_TILES), "tiles of 'zstd'"),
        (lambda array, _: (array[..., :1], (16, 16, 1), PNG),
         "of the shape"),
        (lambda array, _: (array.astype("uint16"), (16, 16, 3), PNG),
         "tiles of uint16"),
        (lambda array, _: (array, (16, 16, 3), Liar()), r"\(400, 400\), where \(16, 16\)"),
    ],
)  # fmt: skip
def test_tiles_that_are_not_those_of_the_type_are_corrupt(change, message):
    kind = Image("png", tiles=(16, 16))

    with pytest.raises(CorruptSampleError, match=message):
        kind.decode(damaged(kind, change), tensor="x")


@given(st.data())
@examples(25)
def test_a_changed_byte_is_an_error_or_pixels(data):
    kind = Image("png", tiles=(16, 16))
    column = kind.convert([pixels(40, 40)], tensor="x")
    changed = bytearray(column.samples[0])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = kind.decode(EncodedColumn([bytes(changed)]), tensor="x")
    except CorruptSampleError:
        return
    assert read.values.dtype == np.uint8


def test_a_region_of_a_dataset_reads_its_tiles_alone():
    store = CountingStore(MemoryStore())
    array = pixels(1000, 1200)
    ds = create_on(store, {"image": tl.Image("png", tiles=(100, 100), nullable=True)})
    ds.extend({"image": [array, None, array[:5, :7]]})
    ds.commit()
    wait_for_storage()
    ds = open_on(store)
    ds["image"].shapes()
    store.reset()

    region = ds["image"][0, 250:290, 610:650]

    np.testing.assert_array_equal(region, array[250:290, 610:650])
    assert store.bytes_read < array.nbytes / 20
    assert ds["image"].shapes().tolist() == [[1000, 1200, 3], [-1, -1, -1], [5, 7, 3]]
    assert ds["image"][1] is None
    np.testing.assert_array_equal(ds[2]["image"], array[:5, :7])
    assert ds.query("WHERE SHAPE(image)[1] = 7").count() == 1
    assert ds.query("WHERE image[0, 0, 0] >= 0").count() == 2
    assert ds.check(decode=True).ok


def test_a_mask_of_an_image_in_tiles_has_its_tiles():
    schema = {"image": tl.Image("png", tiles=(64, 32)), "mask": tl.SegmentMask(["a"], of="image")}

    assert tl.create("memory://mask-of-tiled-image", schema).schema["mask"].tiles == (64, 32)


@pytest.mark.parametrize("tiles", [(0, 1), (-1, 5), (1.5, 2), (3,)])
def test_tiles_that_are_not_two_lengths_are_refused_with_an_example_that_is_accepted(tiles):
    with pytest.raises(tl.SchemaError, match=r"such as \(512, 512\)"):
        tl.Image("png", tiles=tiles)


@pytest.mark.parametrize(
    ("mode", "stored", "advice"), [("RGBA", "RGBA", "RGBA"), ("I;16", None, "L16")]
)
def test_advice_for_files_of_other_modes_names_tiles(mode, stored, advice):
    file = io.BytesIO()
    PIL.Image.new(mode, (40, 30)).save(file, "PNG")

    with pytest.raises(tl.InvalidInputError) as refused:
        tl.Image("png", tiles=(16, 24)).convert([file.getvalue()], tensor="im")

    assert f'use Image(codec="png", mode="{advice}", tiles=(16, 24))' in str(refused.value)
    assert "any" not in str(refused.value)
    if stored is not None:
        tl.Image("png", mode=stored, tiles=(16, 24)).convert([file.getvalue()], tensor="im")


def test_the_codec_of_tiles_does_not_widen():
    ds = tl.create("memory://image-tiles-widen", {"im": tl.Image("png", tiles=(16, 24))})

    for codec in ("webp", "any"):
        with pytest.raises(tl.SchemaError, match="for another one add a tensor"):
            ds.alter_tensor("im", codec=codec)


@pytest.mark.parametrize(("given", "hint"), [("video", "tl.Video()"), ("imag", "tl.Image()")])
def test_the_name_of_a_kind_leads_to_its_type(given, hint):
    with pytest.raises(tl.SchemaError) as refused:
        tl.Link(given)

    assert f"did you mean {hint}?" in str(refused.value)
