"""Boxes of volumes and tiles, mirrored and turned with what is declared of= them, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode import step_from_json, step_to_json

D = tl.decode
ROWS = 12
BOX = D.RandomPatch((6, 8, 8), center_on="mask")


@pytest.fixture(scope="module")
def ds() -> Any:
    made = tl.create(
        "memory://turned-parts",
        {
            "ct": tl.Array("int32", (None, None, None), tiles=(8, 8, 8)),
            "mask": tl.SegmentMask(["none", "some"], of="ct"),
            "pair": tl.Array("int32", (None, None, None, 2), tiles=(8, 8, 8, 2), of="ct"),
        },
    )
    for number in range(ROWS):
        values = np.arange(20 * 22 * (24 + number), dtype=np.int32).reshape(20, 22, -1)
        mask = (values % 7 == 0).astype(np.uint8)
        made.append({"ct": values, "mask": mask, "pair": np.stack([values, -values], axis=-1)})
    made.commit()
    return made


def batch_of(ds: Any, *steps: Any, **arguments: Any) -> Any:
    given = {"batch_size": ROWS, "shuffle": True, "seed": 3, **arguments}
    return next(iter(ds.loader(decode={"ct": [*steps]}, **given)))


def variants(step: Any, box: np.ndarray) -> list[np.ndarray]:
    if isinstance(step, D.Flip):
        return [box, np.flip(box, step.axis)]
    return [np.rot90(box, quarters, step.axes) for quarters in range(4)]


@pytest.mark.parametrize(
    "step", [D.Flip(axis=0), D.Flip(axis=2), D.Rotate90((1, 2)), D.Rotate90((2, 1))]
)
@pytest.mark.parametrize("n", [1, 3])
def test_boxes_are_numpys_and_stay_with_their_masks(ds, step, n):
    patch = D.RandomPatch((6, 8, 8), n=n, center_on="mask")

    plain, turned, again = batch_of(ds, patch), batch_of(ds, patch, step), batch_of(ds, patch, step)

    seen = set()
    boxes = (ROWS * n, 6, 8, 8)
    for before, after in zip(plain["ct"].reshape(boxes), turned["ct"].reshape(boxes), strict=True):
        (which,) = [
            number
            for number, one in enumerate(variants(step, before))
            if np.array_equal(one, after)
        ]
        seen.add(which)
    assert seen == set(range(len(variants(step, plain["ct"][0]))))
    for name in ("ct", "mask", "pair"):
        np.testing.assert_array_equal(turned[name], again[name])
    np.testing.assert_array_equal(turned["mask"] == 1, turned["ct"] % 7 == 0)
    np.testing.assert_array_equal(turned["pair"][..., 0], turned["ct"])
    np.testing.assert_array_equal(turned["pair"][..., 1], -turned["ct"])


def test_steps_follow_each_other_and_numbers_come_last(ds):
    steps = [D.Flip(axis=0, probability=1), D.Flip(axis=1, probability=1)]

    plain, turned = batch_of(ds, BOX), batch_of(ds, BOX, *steps, D.Cast("float32"))

    np.testing.assert_array_equal(turned["ct"], plain["ct"][:, ::-1, ::-1].astype(np.float32))
    np.testing.assert_array_equal(turned["mask"], plain["mask"][:, ::-1, ::-1])


def test_an_epoch_resumes_with_the_same_turns(ds):
    arguments = {
        "batch_size": 4,
        "shuffle": True,
        "seed": 1,
        "decode": {"ct": [BOX, D.Flip(axis=1)]},
    }
    whole = [*ds.loader(**arguments)]
    loader = ds.loader(**arguments)
    next(iter(loader))
    state = loader.state_dict()

    resumed = ds.loader(**arguments)
    resumed.load_state_dict(state)

    for one, other in zip(resumed, whole[1:], strict=True):
        np.testing.assert_array_equal(one["ct"], other["ct"])
        np.testing.assert_array_equal(one["mask"], other["mask"])


def test_planes_are_mirrored_along_their_own_axes(ds):
    plain = batch_of(ds, D.Slice(2), columns=["ct", "mask"], collate={"ct": "list", "mask": "list"})
    turned = batch_of(
        ds,
        *(D.Slice(2), D.Flip(axis=1, probability=1)),
        columns=["ct", "mask"],
        collate={"ct": "list", "mask": "list"},
    )

    for name in ("ct", "mask"):
        for before, after in zip(plain[name], turned[name], strict=True):
            np.testing.assert_array_equal(after, before[:, ::-1])


def test_patches_of_images_are_mirrored_by_name_with_their_masks():
    pytest.importorskip("imagecodecs")
    schema = {
        "image": tl.Image("png", tiles=(16, 16)),
        "mask": tl.SegmentMask(["a", "b"], of="image"),
    }
    ds = tl.create("memory://turned-images", schema)
    random = np.random.default_rng(0)
    for _ in range(8):
        pixels = random.integers(0, 255, (40, 50, 3), dtype=np.uint8)
        ds.append({"image": pixels, "mask": (pixels[..., 0] > 99).astype(np.uint8)})
    ds.commit()
    patch, steps = D.RandomPatch((20, 20)), [D.Flip(probability=1), D.Rotate90()]

    plain, mirrored, turned = (
        next(iter(ds.loader(batch_size=8, decode={"image": [patch, *some]})))
        for some in ([], steps[:1], steps)
    )

    np.testing.assert_array_equal(mirrored["image"], plain["image"][:, :, ::-1])
    np.testing.assert_array_equal(turned["image"][..., 0] > 99, turned["mask"] == 1)
    assert not np.array_equal(turned["image"], mirrored["image"])


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([BOX, D.Flip()], "names an axis of images\ngive the number"),
        ([BOX, D.Flip(axis=3)], "has an axis that parts of shape"),
        ([BOX, D.Rotate90((0, 1))], "whose sides differ"),
        ([BOX, D.Resize(4, 4)], "only mirrored and turned"),
        ([BOX, D.ColorJitter(0.1)], "is for images and videos"),
    ],
)
def test_steps_that_do_not_fit_boxes_are_refused(ds, steps, message):
    with pytest.raises(InvalidInputError, match=message):
        ds.loader(batch_size=2, decode={"ct": steps})


def test_a_mask_has_no_turns_of_its_own(ds):
    with pytest.raises(InvalidInputError, match="are not the steps of 'ct'"):
        ds.loader(batch_size=2, decode={"ct": [BOX, D.Flip(axis=1)], "mask": [BOX, D.Flip(axis=0)]})


@pytest.mark.parametrize("step", [D.Rotate90((1, 2)), D.Flip(axis=2)])
def test_images_have_two_axes(step):
    ds = tl.create(f"memory://turned-whole-{type(step).__name__}", {"image": tl.Image("png")})
    with pytest.raises(InvalidInputError, match="axis that images do not have"):
        ds.loader(batch_size=2, decode={"image": step})


@pytest.mark.parametrize("axes", [(0,), (1, 1), (0, -1), "xy", 3, (0, 1.5)])
def test_planes_have_two_axes(axes):
    with pytest.raises(InvalidInputError, match="two different ones"):
        D.Rotate90(axes)


@pytest.mark.parametrize("axis", [-1, "depth", 1.0, None])
def test_a_mirror_has_one_axis(axis):
    with pytest.raises(InvalidInputError, match="number of an axis"):
        D.Flip(axis=axis)


@pytest.mark.parametrize("step", [D.Rotate90((1, 2), 0.25), D.Flip(axis=2), D.Flip()])
def test_steps_survive_json(step):
    assert step_from_json(step_to_json(step)) == step
