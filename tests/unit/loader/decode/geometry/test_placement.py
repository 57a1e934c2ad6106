"""Placements and the steps that make them: where pixels and boxes go, before any is decoded."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode import (
    Cast,
    CenterCrop,
    Flip,
    Letterbox,
    LinearMap,
    Normalize,
    Placement,
    RandomResizedCrop,
    Resize,
    ToFloat,
    imagenet,
    parse_steps,
    step_from_json,
    step_to_json,
)
from tensorlake.loader.decode.annotations import move_boxes
from tensorlake.loader.decode.geometry import Area

MIRROR = Flip(1.0)


def test_sizes_may_be_numpy_s_and_are_plain_numbers_then():
    """A step is sent to a server as JSON."""
    step = Letterbox(np.int64(8), np.int32(6))

    assert step_from_json(json.loads(json.dumps(step_to_json(step)))) == Letterbox(8, 6)
    assert Resize(np.int64(8)).width is None
    assert CenterCrop(np.int64(8)) == CenterCrop(8, 8)
    with pytest.raises(InvalidInputError, match="width must be an integer from 1 to 65536, got T"):
        RandomResizedCrop(8, width=True)


def placed(*steps, height=40, width=60, place=0, seed=1):
    return parse_steps("image", list(steps)).place(height, width, seed=seed, epoch=0, place=place)


@pytest.mark.parametrize(
    ("steps", "output"),
    [
        ([], (40, 60)),
        ([Resize(20, 30)], (20, 30)),
        ([Resize(20)], (20, 30)),
        ([CenterCrop(10, 12)], (10, 12)),
        ([CenterCrop(50, 12)], (50, 12)),
        ([Letterbox(32, 32)], (32, 32)),
        ([RandomResizedCrop(8, 9)], (8, 9)),
        ([MIRROR, Resize(20), CenterCrop(16, 16)], (16, 16)),
    ],
)
def test_steps_make_images_of_the_size_they_say(steps, output):
    spec = parse_steps("image", steps)

    assert placed(*steps).output == output
    assert spec.output_size((40, 60)) in {output, None}


def test_the_short_side_of_an_upright_image_is_its_width():
    assert placed(Resize(20), height=60, width=40).output == (30, 20)


def test_a_crop_after_a_mirror_is_taken_from_the_mirrored_image():
    area = Area(0, 0, 40, 10)

    mirrored_first = Placement.whole(40, 60).mirrored(x=True).cropped(area)

    assert mirrored_first.crop == Area(0, 50, 40, 10)
    assert mirrored_first.mirror_x


def test_a_random_crop_depends_on_seed_and_place_alone():
    step = RandomResizedCrop(8, 8)

    assert placed(step, place=3) == placed(step, place=3)
    assert len({placed(step, place=place).crop for place in range(50)}) > 40
    assert placed(step, place=3) != placed(step, place=3, seed=2)


def test_random_crops_keep_to_their_bounds_of_area_and_ratio():
    step = RandomResizedCrop(8, 8, scale=(0.2, 0.5), ratio=(0.5, 2.0))

    for place in range(300):
        crop = placed(step, place=place, height=400, width=600).crop
        assert 0.19 < crop.height * crop.width / 240_000 < 0.51
        assert 0.49 < crop.width / crop.height < 2.02
        assert crop.top + crop.height <= 400
        assert crop.left + crop.width <= 600


def test_an_image_too_narrow_for_any_ratio_is_cropped_centrally():
    crop = placed(RandomResizedCrop(8, 8), height=1000, width=2).crop

    assert crop.width == 2
    assert crop.height == 3
    assert crop.top == 498


def test_half_of_all_images_are_mirrored():
    mirrored = sum(placed(Flip(), place=place).mirror_x for place in range(1000))

    assert 440 < mirrored < 560


@pytest.mark.parametrize(
    "steps",
    [
        [Resize(8), RandomResizedCrop(8, 8)],
        [CenterCrop(8, 8), Resize(4)],
        [ToFloat(), Resize(8)],
        ["Resize"],
    ],
)
def test_chains_that_cannot_be_one_resample_are_refused_when_made(steps):
    with pytest.raises(InvalidInputError, match="image"):
        parse_steps("image", steps)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Resize(0),
        lambda: Resize(224, -1),
        lambda: RandomResizedCrop(8, 8, scale=(0.5, 2.0)),
        lambda: RandomResizedCrop(8, 8, ratio=(2.0, 1.0)),
        lambda: Flip(1.5),
        lambda: Flip(0.5, "diagonal"),
        lambda: Normalize((0.5,), (0.5, 0.5)),
        lambda: Normalize((0.5,), (0.0,)),
    ],
)
def test_impossible_arguments_of_a_step_are_refused(make):
    with pytest.raises(InvalidInputError):
        make()


@pytest.mark.parametrize("step", [CenterCrop, Letterbox, RandomResizedCrop])
def test_a_step_that_is_given_one_side_makes_squares(step):
    assert step(48) == step(48, 48)
    assert step_from_json(step_to_json(step(48))) == step(48, 48)


@pytest.mark.parametrize("train", [True, False])
def test_every_step_of_a_recipe_survives_json(train):
    steps = [*imagenet(train=train), Letterbox(8, 8), Cast("float16")]

    assert [step_from_json(step_to_json(step)) for step in steps] == steps


BOXES = np.array([[10, 5, 30, 25], [50, 30, 58, 38]], dtype=np.float32)


def test_boxes_follow_a_resize():
    moved, kept = move_boxes(BOXES, placed(Resize(20, 30)), box_format="xyxy")

    assert moved.tolist() == [[5, 2.5, 15, 12.5], [25, 15, 29, 19]]
    assert moved.dtype == np.float32
    assert kept.all()


def test_boxes_follow_a_mirror():
    moved, _ = move_boxes(BOXES, placed(MIRROR, Flip(1.0, "vertical")), box_format="xyxy")

    assert moved[0].tolist() == [30, 15, 50, 35]


def test_boxes_are_clipped_and_those_outside_dropped():
    moved, kept = move_boxes(BOXES, placed(CenterCrop(20, 20)), box_format="xyxy")

    assert moved[kept].tolist() == [[0, 0, 10, 15]]
    assert kept.tolist() == [True, False]


def test_boxes_follow_a_letterbox():
    moved, _ = move_boxes(BOXES, placed(Letterbox(60, 60)), box_format="xyxy")

    assert moved[0].tolist() == [10, 15, 30, 35]


@pytest.mark.parametrize(
    ("box_format", "box"),
    [("xywh", [10, 5, 20, 20]), ("cxcywh", [20, 15, 20, 20])],
)
def test_boxes_come_back_in_the_format_they_came_in(box_format, box):
    boxes = np.array([box], dtype=np.float32)

    moved, _ = move_boxes(boxes, placed(), box_format=box_format)

    assert moved.tolist() == [box]


def test_no_boxes_move_to_no_boxes():
    moved, kept = move_boxes(np.zeros((0, 4), np.float32), placed(MIRROR), box_format="xyxy")

    assert moved.shape == (0, 4)
    assert len(kept) == 0


@pytest.mark.parametrize("place", range(20))
def test_a_box_of_marked_pixels_still_covers_them_after_cropping_and_mirroring(place):
    spec = parse_steps("image", [RandomResizedCrop(40, 40, scale=(0.3, 1.0)), Flip()])
    placement = spec.place(40, 60, seed=5, epoch=0, place=place)
    box = np.array([[20, 10, 40, 30]], dtype=np.float32)
    ys, xs = np.mgrid[0:40, 0:40] + 0.5
    if placement.mirror_x:
        xs = 40 - xs
    source_x = xs / 40 * placement.crop.width + placement.crop.left
    source_y = ys / 40 * placement.crop.height + placement.crop.top
    marked = (source_x > 20) & (source_x < 40) & (source_y > 10) & (source_y < 30)

    moved, kept = move_boxes(box, placement, box_format="xyxy")

    assert kept[0] == marked.any()
    if kept[0]:
        rows, columns = np.nonzero(marked)
        found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert np.abs(moved[0] - found).max() <= 1


def test_a_cast_refuses_integers_that_would_wrap_around():
    narrow = Cast("int8").then(LinearMap(np.ones(1, "f4"), np.zeros(1, "f4"), np.dtype("uint8")))

    assert narrow.apply(np.array([0, 127], np.uint8)).tolist() == [0, 127]
    with pytest.raises(InvalidInputError, match=r"Cast\('int8'\): the batch has 208, and int8"):
        narrow.apply(np.array([1, 208], np.uint8))
