"""Albumentations (MIT, 2.0) as a transform: the row's random numbers, and all its annotations."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import UnsupportedFeatureError
from tests.extras.vision.conftest import assert_agree, assert_reproducible

A = pytest.importorskip("albumentations")
pytestmark = pytest.mark.extras
COLUMNS = ["image", "mask", "classes", "boxes", "label", "objects", "points", "name"]


def pipeline(*steps, **params):
    given = {
        "bbox_params": A.BboxParams("pascal_voc", min_area=1),
        "keypoint_params": A.KeypointParams("xy", remove_invisible=False),
        **params,
    }
    return A.Compose(list(steps), **given)


@pytest.mark.parametrize(
    "steps",
    [
        lambda: [A.HorizontalFlip(p=1)],
        lambda: [A.CenterCrop(32, 40, p=1)],
        lambda: [A.RandomCrop(24, 24, p=1), A.VerticalFlip()],
    ],
    ids=["mirror", "crop", "random"],
)
def test_annotations_move_with_their_image_and_labels_go_with_their_boxes(squares, steps):
    (batch,) = squares.loader(
        batch_size=12, columns=COLUMNS, transform=pipeline(*steps()), shuffle=False
    )

    assert_agree(batch)
    assert all(
        len(one) == len(two) for one, two in zip(batch["points"], batch["boxes"], strict=True)
    )


def test_rows_follow_from_their_place(squares):
    transform = A.Compose([A.RandomCrop(24, 24), A.RandomBrightnessContrast(p=1)])

    assert_reproducible(squares, transform, columns=["image", "name"])


def test_a_single_transform_and_a_torch_image_are_taken(squares):
    from albumentations.pytorch import ToTensorV2

    plain, as_tensor = (
        next(iter(squares.loader(batch_size=4, columns=["image"], transform=one, shuffle=False)))
        for one in (A.HorizontalFlip(p=1), A.Compose([A.HorizontalFlip(p=1), ToTensorV2()]))
    )

    assert plain["image"].shape == (4, 40, 56, 3)
    assert (plain["image"] == as_tensor["image"]).all()


def test_label_fields_are_given_and_dropped(squares):
    params = A.BboxParams("pascal_voc", label_fields=["label"], min_area=1)
    transform = A.Compose([A.CenterCrop(20, 20)], bbox_params=params)

    (batch,) = squares.loader(
        batch_size=12, columns=["image", "boxes", "label"], transform=transform
    )

    assert [one.tolist() for one in batch["label"]] == [[1]] * 12


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bbox_params": None}, "moves no bboxes"),
        ({"bbox_params": A.BboxParams("coco")}, r"BboxParams\('pascal_voc'\)"),
        ({"keypoint_params": None}, "moves no keypoints"),
    ],
)
def test_what_a_pipeline_would_leave_behind_is_refused(squares, params, message):
    with pytest.raises(UnsupportedFeatureError, match=message):
        squares.loader(
            batch_size=4, columns=COLUMNS, transform=pipeline(A.HorizontalFlip(), **params)
        )


def test_outlines_are_refused():
    ds = tl.create(
        "memory://outlines", {"image": tl.Image("png"), "outline": tl.Polygon(of="image")}
    )

    with pytest.raises(UnsupportedFeatureError, match="Albumentations moves no Polygon"):
        ds.loader(batch_size=1, transform=A.Compose([A.HorizontalFlip()]))


def test_other_columns_and_rows_without_image_pass_unchanged():
    ds = tl.create("memory://nulls", {"image": tl.Image("png", nullable=True), "n": "int64"})
    ds.extend({"image": [None, np.zeros((9, 9, 3), np.uint8)], "n": [1, 2]})
    ds.commit("rows")

    batches = ds.loader(
        batch_size=2,
        transform=A.Compose([A.CenterCrop(4, 4)]),
        shuffle=False,
        collate={"image": "list"},
    )

    (batch,) = batches
    assert batch["image"][0] is None
    assert batch["image"][1].shape == (4, 4, 3)
    assert batch["n"].tolist() == [1, 2]
