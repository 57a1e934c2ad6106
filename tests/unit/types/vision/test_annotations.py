"""Masks, outlines, points, boxes in space: what they take, refuse and give back."""

import io

import numpy as np
import PIL.Image
import pytest

import tensorlake as tl
from tensorlake.errors import (
    CorruptSampleError,
    DTypeMismatchError,
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
    UnknownClassError,
)
from tensorlake.types import (
    EncodedColumn,
    decode_run_lengths,
    encode_run_lengths,
    fill_polygons,
    from_json,
    run_table,
)

RNG = np.random.default_rng(3)
SEEN = RNG.random((5, 7)) > 0.5
CODES = RNG.integers(0, 3, (4, 6)).astype(np.uint8)


def png(array, mode=None):
    picture = PIL.Image.fromarray(array)
    if mode is not None:
        picture = picture.convert(mode)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def stored(sample_type, samples):
    """What a dataset gives back of these samples, read by another handle."""
    name = f"memory://annotations-{RNG.integers(1 << 60)}"
    with tl.create(name, {"x": sample_type}) as ds:
        ds.extend({"x": samples})
        ds.commit()
    ds = tl.open(name)
    assert ds.schema["x"] == sample_type
    return [ds[i]["x"] for i in range(len(ds))]


@pytest.mark.parametrize(
    "sample_type",
    [
        tl.BinaryMask(of="image"),
        tl.InstanceMask(nullable=True),
        tl.SegmentMask(["road", "car"], of="image", ignore=255),
        tl.SegmentMask(dtype="uint16"),
        tl.Polygon(of="image"),
        tl.Keypoints(["nose", "tail"], [(0, 1)], of="image"),
        tl.Keypoints(),
        tl.BBox3D("corners", of="points"),
        tl.Tags(default=["new"]),
        tl.Uuid(default="6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        tl.Timestamp("ms", tz="Europe/Berlin"),
        tl.Sequence(tl.Image("png")),
        tl.Sequence(tl.Sequence("str")),
    ],
)
def test_type_is_the_same_after_json(sample_type):
    assert from_json(sample_type.to_json()) == sample_type


@pytest.mark.parametrize(
    "given",
    [
        SEEN,
        SEEN.astype(np.uint8),
        SEEN.astype(np.uint8) * 255,
        SEEN.tolist(),
        PIL.Image.fromarray(SEEN),
        png(SEEN),
        png(SEEN.astype(np.uint8) * 255),
        encode_run_lengths(SEEN),
    ],
    ids=["bool", "0/1", "0/255", "lists", "PIL", "1-bit PNG", "gray PNG", "run lengths"],
)
def test_binary_mask_takes_every_lossless_form(given):
    [mask] = stored(tl.BinaryMask(), [given])

    assert mask.dtype == np.bool_
    assert np.array_equal(mask, SEEN)


def test_masks_of_one_row_may_be_given_each_in_its_form():
    given = [SEEN, encode_run_lengths(~SEEN), png(SEEN)]

    rows = stored(tl.InstanceMask(), [given, [], np.stack([SEEN, ~SEEN])])

    assert np.array_equal(rows[0], np.stack([SEEN, ~SEEN, SEEN]))
    assert rows[1].shape == (0, 0, 0)
    assert np.array_equal(rows[2], np.stack([SEEN, ~SEEN]))


def test_masks_of_one_row_have_one_size():
    with pytest.raises(ShapeMismatchError, match=r"row 1 .* 2 × 2, 5 × 7"):
        tl.InstanceMask().convert([[SEEN], [SEEN, SEEN[:2, :2]]], tensor="mask")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (np.array([[0, 7]]), DTypeMismatchError),
        (np.array([[0.0, 1.0]]), DTypeMismatchError),
        (np.zeros((2, 2, 3), bool), ShapeMismatchError),
        (png(np.zeros((2, 2, 3), np.uint8)), ShapeMismatchError),
        (b"no picture", InvalidInputError),
        ({"size": [2, 2], "counts": [1]}, InvalidInputError),
        ({"size": [2, 2]}, InvalidInputError),
        ({"size": [1 << 20, 1 << 20], "counts": [1 << 40]}, InvalidInputError),
        ("/no/such/mask.png", InvalidInputError),
    ],
)
def test_what_is_no_mask_is_refused_with_its_row(given, error):
    with pytest.raises(error, match="row 1"):
        tl.BinaryMask().convert([SEEN, given], tensor="mask")


def test_lossy_file_is_no_mask():
    out = io.BytesIO()
    PIL.Image.fromarray(CODES).save(out, "JPEG")

    with pytest.raises(DTypeMismatchError, match="JPEG changes the numbers"):
        tl.SegmentMask().convert([out.getvalue()], tensor="mask")


def test_segmentation_takes_codes_and_palettes():
    palette = PIL.Image.fromarray(CODES, mode=None).convert("L")
    palette.putpalette([0, 0, 0, 9, 9, 9, 200, 1, 1])
    out = io.BytesIO()
    palette.save(out, "PNG")

    rows = stored(tl.SegmentMask(["a", "b", "c"]), [CODES, out.getvalue()])

    assert rows[0].dtype == np.uint8
    assert np.array_equal(rows[0], CODES)
    assert np.array_equal(rows[1], CODES)


def test_code_without_a_class_is_refused_but_for_the_ignored_one():
    codes = np.array([[0, 255]], np.uint8)

    assert tl.SegmentMask(["a"], ignore=255).convert([codes], tensor="mask").values.tolist() == [
        0,
        255,
    ]
    with pytest.raises(UnknownClassError, match="255"):
        tl.SegmentMask(["a"]).convert([codes], tensor="mask")


@pytest.mark.parametrize(
    "arguments",
    [
        {"names": ["a", "a"]},
        {"names": "ab"},
        {"names": [str(i) for i in range(300)]},
        {"dtype": "float32"},
        {"ignore": 256},
    ],
)
def test_impossible_segmentation_is_refused(arguments):
    with pytest.raises(SchemaError):
        tl.SegmentMask(**arguments)


def test_outlines_keep_their_points():
    triangle = np.array([[0, 0], [4, 0], [4, 3]], np.float32)
    rows = stored(tl.Polygon(), [[triangle, [0, 0, 1, 1]], [], [[[5, 5]]]])

    assert [len(row) for row in rows] == [2, 0, 1]
    assert np.array_equal(rows[0][0], triangle)
    assert rows[0][1].tolist() == [[0, 0], [1, 1]]
    assert rows[2][0].dtype == np.float32


@pytest.mark.parametrize(
    "given", [[[1, 2, 3]], [[[1, 2, 3]]], "ab", 7, [["a", "b"]], [[[1], [2, 3]]]]
)
def test_what_is_no_outline_is_refused(given):
    with pytest.raises(InvalidInputError, match="row 1"):
        tl.Polygon().convert([[], given], tensor="outline")


def test_outline_that_float32_cannot_hold_names_its_row():
    with pytest.raises(DTypeMismatchError, match="row 2"):
        tl.Polygon().convert([[], [[1, 1]], [[1, 1], [1e300, 0]]], tensor="outline")


def test_points_of_objects_are_one_array_a_row():
    people = RNG.random((2, 3, 3)).astype(np.float32)

    rows = stored(tl.Keypoints(["a", "b", "c"]), [people, [], people[:1].tolist()])

    assert np.array_equal(rows[0], people)
    assert rows[1].shape == (0, 3, 3)
    assert np.array_equal(rows[2], people[:1])
    with pytest.raises(ShapeMismatchError):
        tl.Keypoints(["a"]).convert([people], tensor="points")


@pytest.mark.parametrize(
    "arguments", [{"names": "ab"}, {"names": ["a"], "skeleton": [(0, 1)]}, {"skeleton": [(0,)]}]
)
def test_impossible_skeleton_is_refused(arguments):
    with pytest.raises(SchemaError):
        tl.Keypoints(**arguments)


def test_boxes_in_space_have_the_numbers_of_their_format():
    boxes = RNG.random((2, 7)).astype(np.float32)

    assert np.array_equal(stored(tl.BBox3D(), [boxes])[0], boxes)
    with pytest.raises(ShapeMismatchError):
        tl.BBox3D("xyzlwhq").convert([boxes], tensor="boxes")
    with pytest.raises(SchemaError, match="xyzlwhr"):
        tl.BBox3D("xyz")


def test_run_lengths_are_those_of_the_coco_api():
    # Made by mask.encode of pycocotools 2.0.11.
    square = np.zeros((4, 5), np.bool_)
    square[1:3, 1:4] = True
    noise = np.random.default_rng(0).random((40, 30)) > 0.9
    packed = (
        "317030M050H080:0O1]OO6050<0ZO0o00oN0103020d00^O0J030K090H10OO0i00[O000L10O9060H0>0]O07040E"
        "00080O0h01ZOOF02071FOb0010M0I0704061F0KOL0N030H000c0030G0N0O0F020N0;000R12cNNc00S10bN041HO"
        ">0E0N0L000>000A01010N0302080H080L0G0<0K0<0^O"
    )

    assert encode_run_lengths(square) == {"size": [4, 5], "counts": "5220003"}
    assert encode_run_lengths(noise) == {"size": [40, 30], "counts": packed}
    assert np.array_equal(decode_run_lengths({"size": [40, 30], "counts": packed}), noise)


@pytest.mark.parametrize("seed", range(20))
def test_run_lengths_are_undone(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((int(rng.integers(0, 40)), int(rng.integers(0, 90)))) > rng.random()

    assert np.array_equal(decode_run_lengths(encode_run_lengths(mask)), mask)


@pytest.mark.parametrize("seed", range(3))
def test_runs_of_many_texts_are_those_of_each(seed):
    rng = np.random.default_rng(seed)
    shapes = rng.integers(0, 40, (30, 2)).tolist()
    texts = [encode_run_lengths(rng.random(shape) > rng.random()) for shape in shapes]

    table = run_table(texts)

    for text, size, runs in zip(texts, table.sizes.tolist(), table, strict=True):
        assert size == text["size"]
        shown = decode_run_lengths({"size": size, "counts": runs})
        assert np.array_equal(shown, decode_run_lengths(text))


@pytest.mark.parametrize("counts", ["!", "P", "5220005", [1], [[20]]])
def test_one_damaged_text_among_many_is_refused(counts):
    whole = {"size": [4, 5], "counts": "5220003"}

    with pytest.raises(ValueError, match=r"RLE|run|string|text"):
        run_table([whole, {"size": [4, 5], "counts": counts}, whole])


@pytest.mark.parametrize("counts", ["!", "P", "z" * 100, [3, -1, 2], [[4]], "5220004", "5220005"])
def test_damaged_run_lengths_are_refused(counts):
    with pytest.raises((ValueError, TypeError)):
        decode_run_lengths({"size": [4, 5], "counts": counts})


def test_masks_of_objects_stream_as_lists_and_are_asked_for_their_shape():
    ds = tl.create("memory://instances", {"mask": tl.InstanceMask(), "n": "int64"})
    ds.extend({"mask": [[SEEN, ~SEEN], []], "n": [0, 1]})
    ds.commit()

    [batch] = ds.loader(batch_size=2)

    assert np.array_equal(batch["mask"][0], [SEEN, ~SEEN])
    assert batch["mask"][1].shape == (0, 0, 0)
    assert ds["mask"].shapes().tolist() == [[2, 5, 7], [0, 0, 0]]
    assert ds.query("WHERE SHAPE(mask)[0] = 2")["n"][:].tolist() == [0]


@pytest.mark.parametrize("seed", range(3))
def test_damaged_masks_are_an_error(seed):
    sample_type = tl.InstanceMask()
    column = sample_type.convert([[SEEN, ~SEEN]], tensor="mask")
    rng = np.random.default_rng(seed)
    whole = bytes(column.samples[0])
    for cut in rng.integers(0, len(whole), 20).tolist():
        with pytest.raises(CorruptSampleError, match="row 4 of 'mask'"):
            sample_type.decode(EncodedColumn([whole[:cut]]), tensor="mask", rows=[4])


@pytest.mark.parametrize(
    ("polygons", "filled"),
    [
        ([[0.5, 0.5, 3.5, 0.5, 3.5, 2.5]], ["....", "..##", "...."]),
        ([[-2, -2, 9, -2, 9, 9, -2, 9]], ["####"] * 3),
        ([[0, 0, 1, 0, 1, 3, 0, 3], [3, 0, 4, 0, 4, 3, 3, 3]], ["#..#"] * 3),
        ([], ["...."] * 3),
    ],
)
def test_outlines_are_filled_as_the_coco_api_fills_them(polygons, filled):
    # Made by mask.merge(mask.frPyObjects(…)) of pycocotools 2.0.11, on a picture of 3 × 4.
    shown = ["".join(".#"[one] for one in row) for row in fill_polygons(polygons, 3, 4).astype(int)]

    assert shown == filled
