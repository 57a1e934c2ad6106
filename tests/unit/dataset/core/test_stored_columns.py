"""Rows extended with a view of another dataset keep their meaning where the types differ."""

from __future__ import annotations

from itertools import count, permutations
from typing import Any

import numpy as np
import pytest

import tensorlake as tl

PIXELS = np.random.default_rng(0).integers(0, 255, (70, 100, 3), np.uint8)
_numbers = count()


def stored(kind: Any, *samples: Any) -> tl.Dataset:
    ds = tl.create(f"memory://stored-columns-{next(_numbers)}", {"x": kind})
    ds.extend({"x": list(samples)})
    ds.commit()
    return ds


def moved(ds: tl.Dataset, kind: Any) -> tl.Dataset:
    made = tl.create(f"memory://stored-columns-{next(_numbers)}", {"x": kind})
    made.extend(ds[:])
    made.commit()
    return made


@pytest.mark.parametrize("source", ["png", "webp", "jpeg2000"])
@pytest.mark.parametrize(
    "wanted",
    [
        tl.Image("png"),
        tl.Image("any"),
        tl.Image("png", tiles=(16, 16)),
        tl.Array("uint8", (None, None, 3)),
        tl.Array("uint8", (None, None, 3), tiles=(16, 16, 3)),
    ],
    ids=str,
)
def test_an_image_in_tiles_is_whole_in_any_other_type(source, wanted):
    ds = stored(tl.Image(source, tiles=(32, 48), nullable=True), PIXELS)
    expected = ds["x"][0]

    made = moved(ds, wanted)

    assert np.array_equal(made["x"][0], expected)
    assert expected.shape == (70, 100, 3)
    assert made.check(decode=True).ok


def test_a_null_in_tiles_stays_null_in_another_type():
    ds = stored(tl.Image("png", tiles=(32, 48), nullable=True), None, PIXELS)

    made = moved(ds, tl.Image("any", nullable=True))

    assert made[0]["x"] is None
    assert np.array_equal(made[1]["x"], PIXELS)


def test_an_image_in_tiles_is_not_stored_by_a_codec_that_loses_pixels():
    ds = stored(tl.Image("png", tiles=(32, 48)), PIXELS)

    with pytest.raises(tl.InvalidInputError, match=r"JPEG"):
        moved(ds, tl.Image("jpeg"))


def test_an_array_in_tiles_takes_other_tiles():
    values = np.arange(7000, dtype=np.uint16).reshape(70, 100)
    ds = stored(tl.Array("uint16", (None, None), tiles=(32, 48)), values)

    made = moved(ds, tl.Array("uint16", (None, None), tiles=(16, 16)))

    assert np.array_equal(made["x"][0], values)


def test_a_volume_of_nifti_becomes_an_array_in_tiles():
    voxels = np.arange(6000, dtype=np.int16).reshape(10, 20, 30)
    ds = stored(tl.Nifti("int16"), {"voxels": voxels, "affine": np.eye(4)})

    made = moved(ds, tl.Array("int16", (None, None, None), tiles=(8, 8, 8)))

    assert np.array_equal(made["x"][0], voxels)
    assert np.array_equal(np.asarray(moved(ds, tl.Nifti("int16", tiles=[4, 4, 4]))["x"][0]), voxels)
    with pytest.raises(tl.InvalidInputError, match="an array needs its affine"):
        moved(made, tl.Nifti("int16"))


@pytest.mark.parametrize("tiles", [None, (2, 2)])
def test_masks_follow_the_names_of_their_classes(tiles):
    mask = np.array([[0, 0, 1], [2, 9, 1]], np.uint8)
    ds = stored(tl.SegmentMask(["bg", "cat", "dog"], ignore=9, tiles=tiles), mask)

    made = moved(ds, tl.SegmentMask(["dog", "cat", "bg"], ignore=7))

    assert made["x"][0].tolist() == [[2, 2, 1], [0, 7, 1]]
    wider = moved(ds, tl.SegmentMask(["bg", "cat", "dog", "cow"], ignore=9))
    assert np.array_equal(wider["x"][0], mask)
    with pytest.raises(tl.InvalidInputError, match="'x' has no class 'cat'"):
        moved(ds, tl.SegmentMask(["bg", "dog"], ignore=9))
    with pytest.raises(tl.InvalidInputError, match="declares no code of no class, got 9"):
        moved(ds, tl.SegmentMask(["bg", "dog", "cat"]))


@pytest.mark.parametrize(("given", "wanted"), [*permutations(["xyxy", "xywh", "cxcywh"], 2)])
def test_boxes_have_the_same_corners_in_another_format(given, wanted):
    boxes = {"xyxy": [10, 20, 15, 26], "xywh": [10, 20, 5, 6], "cxcywh": [12.5, 23, 5, 6]}
    ds = stored(tl.BBox(given, nullable=True), [boxes[given]] * 2, [], None)

    made = moved(ds, tl.BBox(wanted, nullable=True))

    assert made[0]["x"].tolist() == [boxes[wanted]] * 2
    assert made[1]["x"].shape == (0, 4)
    assert made[2]["x"] is None


def test_keypoints_follow_their_names():
    ds = stored(tl.Keypoints(["nose", "tail"]), [[[1, 1, 2], [5, 5, 1]]])

    assert moved(ds, tl.Keypoints(["tail", "nose"]))["x"][0].tolist() == [[[5, 5, 1], [1, 1, 2]]]
    with pytest.raises(tl.InvalidInputError, match="has points named"):
        moved(ds, tl.Keypoints(["left", "right"]))
