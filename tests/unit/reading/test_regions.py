"""Regions and shapes: what is read and decoded for them, and no more."""

import io

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on

RNG = np.random.default_rng(11)


def picture(codec="PNG", *, height=30, width=40):
    pixels = RNG.integers(0, 255, (height, width, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, codec)
    return stream.getvalue()


def damaged(data):
    """A picture whose header is whole and whose pixels are not there: only decoding notices."""
    return data[: len(data) // 2] + data[-12:]


def opened(schema, rows):
    store = MemoryStore()
    ds = create_on(store, schema)
    ds.extend(rows)
    ds.commit()
    counted = CountingStore(store)
    return open_on(counted), counted


def test_of_a_raw_array_in_a_large_chunk_only_its_row_is_read():
    row_nbytes = 64 * 64 * 4
    values = RNG.normal(size=(60, 64, 64)).astype(np.float32)
    ds, store = opened({"a": tl.Array("float32", (64, 64))}, {"a": values})
    ds["a"].shapes([0])
    before = store.bytes_read

    part = ds["a"][41, 10:20, ::7]

    assert np.array_equal(part, values[41, 10:20, ::7])
    assert row_nbytes <= store.bytes_read - before < 2 * row_nbytes


def test_of_images_in_a_large_chunk_only_one_is_read():
    samples = [picture(height=100, width=100) for _ in range(20)]
    ds, store = opened({"image": tl.Image("png")}, {"image": samples})
    ds["image"].shapes()
    before = store.bytes_read

    part = ds["image"][7, 10:20, 30:33, 0]

    assert np.array_equal(part, np.asarray(Image.open(io.BytesIO(samples[7])))[10:20, 30:33, 0])
    assert part.base is None, "the rest of the pixels is free again"
    assert len(samples[7]) <= store.bytes_read - before < 2 * len(samples[7])


@pytest.mark.parametrize("codec", ["jpeg", "png", "webp", "avif", "jpeg2000", "tiff"])
def test_shapes_of_images_need_no_pixel(codec):
    """A file is stored by its header, and its shape read from the chunk's: nothing is decoded."""
    kind = tl.Image(codec)
    pixels = RNG.integers(0, 255, (50, 70, 3), dtype=np.uint8)
    (whole,) = kind.convert([pixels], tensor="image").samples
    half = bytes(whole)[: len(whole) * 3 // 4] + bytes(whole)[-12 if codec == "png" else -2 :]
    try:
        kind.convert([half], tensor="image")
    except tl.InvalidInputError:
        half = bytes(whole)  # a format whose header says how long the file is
    ds, _ = opened({"image": kind}, {"image": [half]})

    assert ds["image"].shapes(0) == (50, 70, 3)
    if len(half) < len(whole) and codec != "tiff":
        with pytest.raises(tl.CorruptSampleError):
            ds["image"][0]


def test_of_a_sequence_only_the_items_asked_for_are_decoded():
    good = picture()
    clip = [damaged(good), good, damaged(good), good]
    ds, _ = opened({"clip": tl.Sequence(tl.Image("png"))}, {"clip": [clip]})
    pixels = np.asarray(Image.open(io.BytesIO(good)))

    assert np.array_equal(ds["clip"][0, 1], pixels)
    assert np.array_equal(ds["clip"][0, -1, 3:5, 2:4], pixels[3:5, 2:4])
    assert [one.shape for one in ds["clip"][0, 1::2]] == [pixels.shape] * 2
    assert [one.shape for one in ds["clip"][0, 1::2, :5]] == [(5, 40, 3)] * 2
    assert ds["clip"].shapes(0) == (4,)
    for region in (0, slice(None)):
        with pytest.raises(tl.CorruptSampleError, match="row 0 of 'clip'"):
            ds["clip"][0, region]


def test_of_masks_only_the_objects_asked_for_are_filled():
    masks = RNG.random((5, 7, 9)) > 0.5
    masks[3] = False
    kind = tl.InstanceMask(nullable=True)
    ds, _ = opened({"mask": kind}, {"mask": [masks, None, []]})

    for region in ((2,), (-1, 3), (slice(1, 4),), (slice(None), 2, slice(3, 5)), (3,), (...,)):
        assert np.array_equal(ds["mask"][(0, *region)], masks[region])
    assert ds["mask"][(0, slice(4, 1))].shape == (0, 7, 9)
    assert ds["mask"][1, 0] is None
    assert ds["mask"][2, :].shape == (0, 0, 0)
    assert ds["mask"].shapes().tolist() == [[5, 7, 9], [-1, -1, -1], [0, 0, 0]]


ROWS = {
    "array": (tl.Array("int32", (None, 3)), np.arange(12).reshape(4, 3)),
    "float8": (tl.Array("float8_e5m2", (4,)), np.arange(4.0)),
    "labels": (tl.ClassLabel(["cat", "dog"], multi=True), ["dog", "cat", "dog"]),
    "boxes": (tl.BBox(), np.arange(8).reshape(2, 4)),
    "corners": (tl.BBox3D("corners"), np.zeros((2, 8, 3))),
    "mask": (tl.BinaryMask(), RNG.random((5, 6)) > 0.5),
    "classes": (tl.SegmentMask(), RNG.integers(0, 9, (5, 6))),
    "points": (tl.Keypoints(), RNG.random((2, 4, 3)).astype(np.float32)),
    "vector": (tl.Embedding(4), np.arange(4)),
    "outlines": (tl.Polygon(), [[[0, 0], [1, 1], [0, 1]], [[2, 2], [3, 3], [2, 4], [1, 1]]]),
    "words": (tl.Tags(), ["a", "b", "c"]),
    "raw": (tl.Bytes(), b"0123456789"),
    "texts": (tl.Sequence("str"), ["a", "bc"]),
    "numbers": (tl.Sequence(tl.Array("int8", (2,))), [[1, 2], [3, 4], [5, 6]]),
}


@pytest.fixture(scope="module")
def many():
    schema = {name: kind for name, (kind, _) in ROWS.items()}
    ds = tl.create("memory://regions", schema)
    ds.append({name: sample for name, (_, sample) in ROWS.items()})
    ds.commit()
    return ds


@pytest.mark.parametrize("name", ROWS)
def test_a_region_is_that_of_the_whole_sample(many, name):
    whole = many[name][0]

    assert np.array_equal(many[name][0, 1:], whole[1:])
    assert np.array_equal(many[name][0, -1], whole[-1])
    if getattr(whole, "ndim", 1) > 1 or name == "outlines":
        assert np.array_equal(many[name][0, 1, 0], whole[1][0])


@pytest.mark.parametrize("name", [name for name in ROWS if name != "raw"])
def test_shapes_are_those_of_the_samples(many, name):
    whole = many[name][0]

    is_list = many.schema[name].dtype is None
    assert many[name].shapes(0) == ((len(whole),) if is_list else whole.shape)
    assert many[name].shapes().tolist() == [[*many[name].shapes(0)]]


@pytest.mark.parametrize("name", ROWS)
def test_a_region_that_is_not_there_is_refused_with_its_row(many, name):
    for region in ((99,), (0,) * 9):
        with pytest.raises(tl.InvalidInputError, match=f"row 0 of '{name}'.*no such region"):
            many[name][(0, *region)]


def test_values_without_parts_say_so():
    ds, _ = opened({"t": "str", "u": tl.Uuid()}, {"t": ["abc"], "u": [b"0" * 16]})

    for name in ("t", "u"):
        with pytest.raises(tl.InvalidInputError, match="it has no parts"):
            ds[name][0, 1]
        with pytest.raises(tl.InvalidInputError, match="has no shape"):
            ds[name].shapes(0)
