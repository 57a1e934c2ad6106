"""torchvision's transforms v2: as a transform, and as the oracle of the steps of `tl.decode`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.loader.decode import Flip, RandomResizedCrop, colour, parse_steps
from tensorlake.loader.decode.annotations import move_boxes, move_masks
from tests.extras.vision.conftest import assert_agree, assert_reproducible

v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
functional = v2.functional
pytestmark = pytest.mark.extras
RAW = ["image", "mask", "classes", "boxes", "label", "objects", "name"]


def per_boxes(row):
    return row["label"], row["objects"]


def sanitized(*steps):
    return v2.Compose([*steps, v2.SanitizeBoundingBoxes(labels_getter=per_boxes)])


@pytest.mark.parametrize(
    "steps",
    [
        lambda: [v2.RandomHorizontalFlip(p=1)],
        lambda: [v2.CenterCrop((32, 40))],
        lambda: [v2.RandomCrop((24, 24)), v2.RandomVerticalFlip()],
    ],
    ids=["mirror", "crop", "random"],
)
def test_annotations_move_with_their_image_and_labels_go_with_their_boxes(squares, steps):
    (batch,) = squares.loader(
        batch_size=12, columns=RAW, transform=sanitized(*steps()), shuffle=False
    )

    assert_agree(batch)
    assert batch["image"].dtype == np.uint8


def test_points_keep_their_visibility_and_are_zeros_outside(squares):
    columns = ["image", "points"]
    plain, mirrored, cropped = (
        next(iter(squares.loader(batch_size=12, columns=columns, transform=one, shuffle=False)))
        for one in (dict, v2.RandomHorizontalFlip(p=1), v2.CenterCrop((20, 20)))
    )

    for before, after, inside in zip(
        plain["points"], mirrored["points"], cropped["points"], strict=True
    ):
        assert (after[:, 0, 0] == 55 - before[:, 0, 0]).all()
        assert (after[:, 1] == 0).all()
        assert inside[:, 0, 2].tolist() == [0, 2, 0]


def test_labels_that_would_not_fit_their_boxes_are_refused(squares):
    sanitize = v2.SanitizeBoundingBoxes(labels_getter=None)
    loader = squares.loader(
        batch_size=4,
        columns=["image", "boxes", "label"],
        transform=v2.Compose([v2.CenterCrop((20, 20)), sanitize]),
    )

    with pytest.raises(InvalidInputError, match="drop them together"):
        list(loader)


def test_rows_follow_from_their_place(squares):
    transform = v2.Compose(
        [
            v2.RandomResizedCrop((24, 24), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.25] * 3),
        ]
    )

    assert_reproducible(squares, transform, columns=["image", "name"])


def test_layout_and_framework_are_those_of_the_loader(squares):
    arguments = {"batch_size": 4, "columns": ["image"], "transform": v2.RandomCrop(16), "seed": 1}
    plain = next(iter(squares.loader(**arguments)))["image"]
    tensors = next(iter(squares.torch(**arguments, layout="NCHW")))["image"]
    pure = v2.Compose([v2.RandomCrop(16), v2.ToPureTensor()])
    again = next(iter(squares.loader(**{**arguments, "transform": pure})))["image"]

    assert plain.shape == (4, 16, 16, 3)
    assert tuple(tensors.shape) == (4, 3, 16, 16) or tuple(tensors.shape) == (4, 16, 16, 3)
    assert (plain == again).all()


def test_outlines_are_refused():
    ds = tl.create(
        "memory://outlines-of-torchvision",
        {"image": tl.Image("png"), "outline": tl.Polygon(of="image")},
    )

    with pytest.raises(UnsupportedFeatureError, match="torchvision moves no Polygon"):
        ds.loader(batch_size=1, transform=v2.RandomCrop(4))


def test_masks_and_boxes_move_as_torchvision_s_with_the_same_crop():
    rng = np.random.default_rng(0)
    spec = parse_steps("image", [RandomResizedCrop(24, 32, scale=(0.2, 1)), Flip()])
    for place in range(100):
        height, width = rng.integers(20, 90, 2).tolist()
        placed = spec.place(height, width, seed=1, epoch=0, place=place)
        crop = (placed.crop.top, placed.crop.left, placed.crop.height, placed.crop.width)
        mask = rng.integers(0, 9, (height, width)).astype(np.uint8)
        nearest = v2.InterpolationMode.NEAREST_EXACT
        expected = functional.resized_crop(
            torch.from_numpy(mask)[None], *crop, [24, 32], interpolation=nearest
        )
        corner = rng.random((5, 2)) * [width, height] * 0.6
        sides = rng.random((5, 2)) * [width, height] * 0.4
        corners = torch.from_numpy(np.concatenate([corner, corner + sides], 1).astype(np.float32))
        for box_format in ("XYXY", "XYWH", "CXCYWH"):
            given = functional.convert_bounding_box_format(
                corners,
                old_format=tv_tensors.BoundingBoxFormat.XYXY,
                new_format=tv_tensors.BoundingBoxFormat[box_format],
            )
            boxes = tv_tensors.BoundingBoxes(given, format=box_format, canvas_size=(height, width))
            boxes = functional.resized_crop(boxes, *crop, [24, 32])
            boxes = functional.horizontal_flip(boxes) if placed.mirror_x else boxes
            boxes = functional.clamp_bounding_boxes(boxes).numpy()
            found, kept = move_boxes(given.numpy(), placed, box_format=box_format.lower())
            assert np.allclose(found[kept], boxes[kept], atol=2e-3)
        expected = functional.horizontal_flip(expected) if placed.mirror_x else expected
        assert (move_masks(mask, placed) == expected[0].numpy()).all()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("ours", "theirs", "low", "high"),
    [
        (colour._brightened, "adjust_brightness", 0, 2),
        (colour._contrasted, "adjust_contrast", 0, 2),
        (colour._saturated, "adjust_saturation", 0, 2),
        (colour._hue_shifted, "adjust_hue", -0.5, 0.5),
    ],
    ids=["brightness", "contrast", "saturation", "hue"],
)
def test_colours_change_as_torchvision_s_by_the_same_factor(ours, theirs, low, high, channels):
    rng = np.random.default_rng(0)
    for _ in range(50):
        pixels = rng.integers(0, 256, (33, 21, channels)).astype(np.uint8)
        factor = low + rng.random() * (high - low)
        expected = getattr(functional, theirs)(torch.from_numpy(pixels).permute(2, 0, 1), factor)
        difference = np.abs(ours(pixels, factor).astype(int) - expected.permute(1, 2, 0).numpy())

        assert difference.max() <= 1
        assert (difference > 0).mean() < 0.01
