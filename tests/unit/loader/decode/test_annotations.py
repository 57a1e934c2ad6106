"""Everything declared ``of=`` an image moves with it, by each step; Pillow is the oracle."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PillowImage

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError, UnsupportedFeatureError
from tensorlake.loader.decode import Area, CenterCrop, Letterbox, Placement
from tensorlake.loader.decode.annotations import (
    move_boxes,
    move_keypoints,
    move_masks,
    move_polygons,
    sides_swapped,
)

HEIGHT, WIDTH = 40, 56
NAMES = ["nose", "left_eye", "right_eye"]
STEPS = {
    "crop": [tl.decode.CenterCrop(24, 24)],
    "padding crop": [tl.decode.CenterCrop(48, 64)],
    "mirror": [tl.decode.Flip(1.0)],
    "both mirrors": [tl.decode.Flip(1.0), tl.decode.Flip(1.0, axis="vertical")],
    "resize": [tl.decode.Resize(20, 28)],
    "letterbox": [tl.decode.Letterbox(56, 56)],
    "random": [tl.decode.RandomResizedCrop(24, 24, scale=(0.2, 0.6)), tl.decode.Flip()],
}


def disc(y, x, radius):
    ys, xs = np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
    return (ys - y) ** 2 + (xs - x) ** 2 < radius**2


def png(pixels):
    file = io.BytesIO()
    PillowImage.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def scenes():
    """Three discs a row, in every form of annotation; the image shows the classes as colours."""
    ds = tl.create(
        "memory://annotated-scenes",
        {
            "image": tl.Image("png"),
            "mask": tl.BinaryMask(of="image"),
            "classes": tl.SegmentMask(["none", "disc"], of="image", ignore=255),
            "discs": tl.InstanceMask(of="image", per="boxes"),
            "alone": tl.InstanceMask(of="image"),
            "alone_id": tl.ClassLabel(["a", "b", "c"], per="alone"),
            "outline": tl.Polygon(of="image"),
            "outline_id": tl.ClassLabel(["a", "b", "c"], per="outline"),
            "points": tl.Keypoints(NAMES, of="image", per="boxes"),
            **{
                name: tl.BBox(name.removeprefix("boxes_"), of="image")
                for name in ("boxes_xywh", "boxes_cxcywh")
            },
            "boxes": tl.BBox(of="image"),
            "label": tl.ClassLabel(["a", "b", "c"], per="boxes"),
            "disc_score": tl.Array("float32", (None,), per="discs"),
        },
    )
    for row in range(4):
        centres = [(9, 10 + row), (20, 28), (31, 46 - row)]
        masks = np.array([disc(y, x, 7) for y, x in centres])
        corners = np.array([[x - 7, y - 7, x + 7, y + 7] for y, x in centres], np.float32)
        turns = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        ring = np.stack([np.cos(turns), np.sin(turns)], axis=1) * 7
        sides = corners[:, 2:] - corners[:, :2]
        ds.append(
            {
                "image": png(
                    np.repeat((masks.any(axis=0) * 200).astype(np.uint8)[..., None], 3, 2)
                ),
                "mask": masks.any(axis=0),
                "classes": masks.any(axis=0).astype(np.uint8),
                "discs": masks,
                "alone": masks,
                "alone_id": [0, 1, 2],
                "outline": [ring + np.array([x, y]) for y, x in centres],
                "outline_id": [0, 1, 2],
                "points": [[[x, y, 2], [x - 2, y - 2, 2], [0, 0, 0]] for y, x in centres],
                "boxes": corners,
                "boxes_xywh": np.concatenate([corners[:, :2], sides], axis=1),
                "boxes_cxcywh": np.concatenate([corners[:, :2] + sides / 2, sides], axis=1),
                "label": [0, 1, 2],
                "disc_score": [0.0, 1.0, 2.0],
            }
        )
    ds.commit("discs")
    return ds


@pytest.mark.parametrize("step", STEPS)
def test_every_form_of_annotation_shows_the_same_objects_after_a_step(scenes, step):
    steps = [
        replace(one, antialias=False) if hasattr(one, "antialias") else one for one in STEPS[step]
    ]
    (batch,) = scenes.loader(batch_size=4, shuffle=False, decode={"image": steps}, seed=3)

    masks, classes = batch["mask"], batch["classes"]
    assert masks.shape == classes.shape == batch["image"].shape[:3]
    assert (masks == (classes == 1)).all()
    has_padding = step in ("padding crop", "letterbox")
    assert set(np.unique(classes)) == ({0, 1, 255} if has_padding else {0, 1})
    resizes = any(one.resizes for one in STEPS[step])
    for row in range(4):
        shown = batch["image"][row, :, :, 0] >= (150 if step == "letterbox" else 100)
        assert np.mean(shown != masks[row]) <= (0.04 if resizes else 0)
        assert_alike({name: values[row] for name, values in batch.items()}, scenes, row)


def assert_alike(one, scenes, row):
    """Boxes, polygons, points and masks of a row agree with each other."""
    kept = one["label"]
    assert (one["disc_score"] == kept).all()
    assert [len(one[name]) for name in ("boxes", "discs", "points")] == [len(kept)] * 3
    x1, y1, x2, y2 = one["boxes"].T
    assert np.allclose(one["boxes_xywh"], np.stack([x1, y1, x2 - x1, y2 - y1], 1), atol=1e-4)
    centre = np.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], 1)
    assert np.allclose(one["boxes_cxcywh"], centre, atol=1e-4)
    assert (one["discs"].any(axis=0) | ~one["mask"]).all() or len(kept) < 3
    for box, mask in zip(one["boxes"], one["discs"], strict=True):
        if mask.any():
            ys, xs = np.nonzero(mask)
            assert_within([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], box)
    assert len(one["alone"]) == len(one["alone_id"])
    assert all(mask.any() for mask in one["alone"])
    for number, mask in zip(one["alone_id"], one["alone"], strict=True):
        if number in kept:
            assert (mask == one["discs"][list(kept).index(number)]).all()
    assert len(one["outline"]) == len(one["outline_id"])
    height, width = one["mask"].shape
    for number, outline in zip(one["outline_id"], one["outline"], strict=True):
        assert number in kept
        box = one["boxes"][list(kept).index(number)]
        assert_within([*outline.min(axis=0), *outline.max(axis=0)], box)
        assert (outline >= 0).all()
        assert (outline <= (width, height)).all()
    for points, mask in zip(one["points"], one["discs"], strict=True):
        for x, y, visible in points:
            if visible and 0 < x < width and 0 < y < height:
                assert mask[int(y), int(x)]
            elif not visible:
                assert (x, y) == (0, 0)


def assert_within(found, box):
    """A clipped disc may be smaller than its clipped box."""
    assert (np.array(found[:2]) >= box[:2] - 1).all()
    assert (np.array(found[2:]) <= box[2:] + 1).all()


def test_points_of_the_left_and_the_right_change_places_in_an_image_mirrored_once(scenes):
    def eyes(*steps):
        (batch,) = scenes.loader(batch_size=4, shuffle=False, decode={"image": list(steps)})
        return batch["points"][0][0][:, 2].tolist()

    assert eyes(tl.decode.Resize(HEIGHT, WIDTH)) == [2, 2, 0]
    assert eyes(tl.decode.Flip(1.0)) == [2, 0, 2]
    assert eyes(tl.decode.Flip(1.0), tl.decode.Flip(1.0, axis="vertical")) == [2, 2, 0]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["leftEye", "rightEye", "tail"], [1, 0, 2]),
        (["LEFT-EAR", "RIGHT-EAR"], [1, 0]),
        (["knee_l", "knee_r"], [1, 0]),
        (["Left Hand", "Right Hand"], [1, 0]),
        (["left_eye", "nose"], None),
        ([], None),
        (["cleft", "upright"], None),
    ],
)
def test_the_sides_of_points_are_known_by_their_names(names, order):
    found = sides_swapped(names)

    assert (None if found is None else found.tolist()) == order


@st.composite
def placements(draw):
    height, width = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    area = Area(top, left, draw(st.integers(1, height - top)), draw(st.integers(1, width - left)))
    size = draw(st.integers(1, 15)), draw(st.integers(1, 15))
    placed = Placement.whole(height, width).cropped(area)
    placed = placed.resized(*size, antialias=False, exact=True)
    window = Area(*(draw(st.integers(-5, 9)) for _ in range(2)), *(draw(st.integers(1, 9)),) * 2)
    mirrors = draw(st.booleans()), draw(st.booleans())
    return placed.cropped(window).mirrored(x=mirrors[0], y=mirrors[1]), area, size, window, mirrors


@given(placements(), st.integers(0, 99))
def test_masks_move_as_pillow_s_nearest_pixels_do(made, seed):
    placement, area, size, window, mirrors = made
    mask = np.random.default_rng(seed).integers(1, 200, placement.source).astype(np.uint8)
    image = PillowImage.fromarray(mask)
    image = image.crop((area.left, area.top, area.left + area.width, area.top + area.height))
    image = image.resize(size[::-1], PillowImage.Resampling.NEAREST)
    box = (window.left, window.top, window.left + window.width, window.top + window.height)
    expected = np.asarray(image.crop(box))
    expected = expected[:: -1 if mirrors[1] else 1, :: -1 if mirrors[0] else 1]

    assert (move_masks(mask, placement) == expected).all()
    assert (move_masks(mask[None] > 99, placement)[0] == (expected > 99)).all()


@given(st.lists(st.tuples(st.integers(-9, 40), st.integers(-9, 40)), min_size=3, max_size=9))
def test_the_pieces_of_a_polygon_in_the_tiles_of_an_image_have_its_area(points):
    polygon = np.array(points, np.float32)
    whole = Placement.whole(30, 30)
    signed = []
    for area in (
        *(Area(top, left, 10, 10) for top in range(0, 30, 10) for left in range(0, 30, 10)),
        Area(0, 0, 30, 30),
    ):
        (piece,), _ = move_polygons([polygon], whole.cropped(area))
        x, y = piece.astype(np.float64).T
        signed.append(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)

    assert sum(signed[:-1]) == pytest.approx(signed[-1], abs=0.05)


@given(placements(), st.integers(0, 99))
def test_a_polygon_a_box_and_points_at_the_same_corners_move_alike(made, seed):
    placement = made[0]
    corners = np.sort(np.random.default_rng(seed).random((2, 2)) * 14 - 1, axis=0)
    (x1, y1), (x2, y2) = corners.tolist()
    box = np.array([[x1, y1, x2, y2]], np.float32)
    outline = np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]], np.float32)
    points = np.concatenate([outline, np.full((4, 1), 2, np.float32)], axis=1)[None]

    boxes, kept = move_boxes(box, placement, box_format="xyxy")
    (polygon,), left = move_polygons([outline], placement)
    moved, _ = move_keypoints(points, placement)

    assert kept.tolist() == left.tolist() or abs(np.prod(boxes[0, 2:] - boxes[0, :2]) - 1) < 1e-3
    if kept[0]:
        found = [*polygon.min(axis=0), *polygon.max(axis=0)]
        assert np.allclose(boxes[0], found, atol=1e-3)
        inside = moved[0][moved[0, :, 2] > 0]
        assert (
            (inside[:, :2] >= boxes[0, :2] - 1e-3) & (inside[:, :2] <= boxes[0, 2:] + 1e-3)
        ).all()


def annotated(url, named="image", **types):
    ds = tl.create(url, {named: tl.Image("png", nullable=True), **types})
    return ds, np.zeros((HEIGHT, WIDTH, 3), np.uint8)


def test_a_mask_of_another_size_than_its_image_is_refused_by_row_or_left_out():
    ds, image = annotated("memory://other-size", named="photo", mask=tl.BinaryMask(of="image"))
    small, right = np.ones((5, 5), np.bool_), np.ones((HEIGHT, WIDTH), np.bool_)
    ds.extend([{"photo": image, "mask": one} for one in (right, small, right)])
    ds.rename_tensor("photo", "image")  # of a mask written before, sizes were not compared
    ds.commit("masks")
    decode = {"image": CenterCrop(8)}

    with pytest.raises(CorruptSampleError, match="row 1 of 'mask' is 5 x 5, and the image"):
        list(ds.loader(batch_size=3, decode=decode))
    (batch,) = ds.loader(
        batch_size=3, decode=decode, on_error="skip", columns=["image", "mask", "_row"]
    )
    assert sorted(batch["_row"].tolist()) == [0, 2]
    assert batch["mask"].shape == (2, 8, 8)
    assert batch["mask"].all()


def test_rows_without_image_or_annotations_stay_as_they_are():
    ds, image = annotated(
        "memory://without",
        mask=tl.InstanceMask(of="image", nullable=True),
        outline=tl.Polygon(of="image", nullable=True),
        label=tl.ClassLabel(["a"], per="mask", nullable=True),
    )
    masks, outline = np.ones((1, HEIGHT, WIDTH), np.bool_), [[0, 0, 9, 0, 9, 9]]
    ds.append({"image": None, "mask": masks, "outline": outline, "label": [0]})
    ds.append({"image": image, "mask": None, "outline": None, "label": None})
    ds.append({"image": image, "mask": [], "outline": [], "label": []})
    ds.commit("rows")

    (batch,) = ds.loader(
        batch_size=3, shuffle=False, decode={"image": CenterCrop(8)}, collate={"image": "list"}
    )

    assert [None if one is None else one.shape for one in batch["mask"]] == [
        (1, HEIGHT, WIDTH),
        None,
        (0, 8, 8),
    ]
    assert [None if one is None else len(one) for one in batch["outline"]] == [1, None, 0]
    assert [None if one is None else len(one) for one in batch["label"]] == [1, None, 0]


def test_masks_of_images_of_one_size_are_stacked_and_a_null_has_no_place():
    ds, image = annotated("memory://nullable-mask", mask=tl.BinaryMask(of="image", nullable=True))
    ds.extend([{"image": image, "mask": one} for one in (np.ones((HEIGHT, WIDTH), np.bool_), None)])
    ds.commit("masks")
    decode = {"image": CenterCrop(8)}

    with pytest.raises(InvalidInputError, match="NULL"):
        ds.loader(batch_size=2, columns=["image", "mask"], decode=decode)
    (batch,) = ds.loader(
        batch_size=2,
        columns=["image", "mask"],
        decode=decode,
        shuffle=False,
        collate={"mask": "list", "image": "list"},
    )
    assert batch["mask"][1] is None
    assert batch["mask"][0].shape == (8, 8)


def test_a_transform_is_given_the_moved_annotations(scenes):
    def transform(row):
        assert row["mask"].shape == (24, 24)
        assert len(row["outline"]) == len(row["outline_id"])
        return {"image": row["image"], "mask": row["mask"]}

    (batch,) = scenes.loader(batch_size=4, decode={"image": CenterCrop(24)}, transform=transform)

    assert batch["mask"].shape == (4, 24, 24)


def test_what_cannot_be_moved_is_refused_when_the_loader_is_made():
    ds, _ = annotated("memory://in-space", boxes=tl.BBox3D(of="image"))

    with pytest.raises(UnsupportedFeatureError, match="cannot be moved with it"):
        ds.loader(batch_size=1, decode={"image": CenterCrop(8)})


def test_boxes_of_an_array_are_not_left_behind_by_a_patch():
    types = {"scan": tl.Array("uint8", (None, None), tiles=(8, 8)), "boxes": tl.BBox(of="scan")}
    ds = tl.create("memory://scans", types)

    with pytest.raises(UnsupportedFeatureError, match="cannot be moved with it"):
        ds.loader(batch_size=1, decode={"scan": tl.decode.RandomPatch((8, 8))})


def test_letterboxed_masks_are_filled_where_the_image_is_padded():
    placement = Letterbox(8).place(Placement.whole(4, 8), lambda: None)

    assert move_masks(np.ones((4, 8), np.uint8), placement, fill=7)[[0, 2, 5, 6], 0].tolist() == [
        *(7, 1, 1, 7)
    ]


def test_an_object_without_pixels_stays_while_its_box_does_with_all_its_values():
    ds, image = annotated(
        "memory://chains",
        boxes=tl.BBox(of="image"),
        objects=tl.InstanceMask(of="image", per="boxes"),
        score=tl.Array("float32", (None,), per="objects"),
    )
    boxes = [[0, 0, 5, 5], [20, 20, 40, 36]]
    ds.append(
        {
            "image": image,
            "boxes": boxes,
            "objects": np.zeros((2, HEIGHT, WIDTH), np.bool_),
            "score": [0.0, 1.0],
        }
    )
    ds.commit("a row")

    (batch,) = ds.loader(batch_size=1, decode={"image": CenterCrop(20)})

    assert [len(batch[name][0]) for name in ("boxes", "objects", "score")] == [1, 1, 1]
    assert batch["score"][0].tolist() == [1]


def test_a_lost_row_that_keeps_its_place_has_no_masks():
    ds, image = annotated("memory://lost", named="photo", objects=tl.InstanceMask(of="image"))
    good, bad = np.ones((1, HEIGHT, WIDTH), np.bool_), np.ones((1, 5, 5), np.bool_)
    ds.extend([{"photo": image, "objects": one} for one in (good, bad)])
    ds.rename_tensor("photo", "image")
    ds.commit("rows")

    (batch,) = ds.loader(
        batch_size=2,
        shuffle=False,
        columns=["image", "objects", "_valid"],
        decode={"image": CenterCrop(8)},
        on_error="skip",
    )

    assert batch["_valid"].tolist() == [True, False]
    assert batch["objects"][0].shape == (1, 8, 8)
    assert batch["objects"][1] is None
