"""Whole images turned by quarters, with everything that is declared ``of=`` them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.loader.decode.annotations import (
    move_boxes,
    move_keypoints,
    move_masks,
    move_polygons,
)
from tensorlake.loader.decode.geometry import Placement
from tensorlake.loader.decode.geometry.placement import Area
from tensorlake.loader.decode.image import ImageDecoder
from tensorlake.loader.decode.spec import DecodeSpec

D = tl.decode
SPEC = DecodeSpec("image", (D.Flip(),), ())
DECODER = ImageDecoder("image", tl.Image("png"), SPEC, None, 0)


@st.composite
def chains(draw):
    """An image, a placement by some steps, and the image after the same steps, one by one."""
    height, width = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    image = np.arange(1, height * width + 1, dtype=np.uint8).reshape(height, width)
    placement, expected = Placement.whole(height, width), image
    steps = draw(st.lists(st.sampled_from(["turn", "x", "y", "crop"]), max_size=5))
    for step in [*steps, draw(st.sampled_from(["turn", "pad"])), "turn"]:
        match step:
            case "turn":
                quarters = draw(st.integers(-3, 5))
                placement, expected = placement.turned(quarters), np.rot90(expected, quarters)
            case "x":
                placement, expected = placement.mirrored(x=True), expected[:, ::-1]
            case "y":
                placement, expected = placement.mirrored(y=True), expected[::-1]
            case "crop":
                top, left = (draw(st.integers(0, side - 1)) for side in expected.shape)
                expected = expected[top:, left:]
                placement = placement.cropped(Area(top, left, *expected.shape))
            case _:
                placement = placement.cropped(Area(-1, -2, 7, 9))
                expected = np.pad(expected, ((1, 9), (2, 9)))[:7, :9]
    return image, placement, expected


@given(chains())
def test_a_placement_is_its_steps_one_by_one(chain):
    image, placement, expected = chain

    pixels = DECODER.transform(image[None, ..., None], place=0, epoch=0, placed=placement)

    assert placement.output == expected.shape
    np.testing.assert_array_equal(pixels[0, ..., 0], expected)
    np.testing.assert_array_equal(move_masks(image, placement), expected)


@given(chains(), st.data())
def test_a_point_goes_where_its_pixel_goes(chain, data):
    image, placement, expected = chain
    row = data.draw(st.integers(0, image.shape[0] - 1))
    column = data.draw(st.integers(0, image.shape[1] - 1))
    corner = np.array([column, row], np.float32)
    box = np.concatenate([corner, corner + 1])[None]
    outline = [corner + np.array([[0, 0], [1, 0], [1, 1], [0, 1]])]
    point = np.array([[[*(corner + 0.5), 2]]])

    boxes, kept = move_boxes(box, placement, box_format="xyxy")
    polygons, also = move_polygons(outline, placement)
    points, _ = move_keypoints(point, placement)

    found = np.argwhere(expected == image[row, column])
    assert bool(kept[0]) == bool(also[0]) == (len(found) == 1)
    if len(found):
        y, x = found[0].tolist()
        np.testing.assert_allclose(boxes[0], [x, y, x + 1, y + 1])
        np.testing.assert_allclose(np.min(polygons[0], axis=0), [x, y])
        np.testing.assert_allclose(np.max(polygons[0], axis=0), [x + 1, y + 1])
        np.testing.assert_allclose(points[0, 0], [x + 0.5, y + 0.5, 2])


def test_left_and_right_change_places_by_a_mirror_and_not_by_a_turn():
    points, order = np.array([[[1, 1, 2], [3, 1, 2]]], np.float32), np.array([1, 0])
    whole = Placement.whole(4, 8)

    for placement, first in [
        (whole.turned(1), (1, 7)),
        (whole.mirrored(x=True), (5, 1)),
        (whole.turned(3).mirrored(y=True), (3, 5)),
    ]:
        moved, _ = move_keypoints(points, placement, order=order)
        assert tuple(moved[0, 0, :2].tolist()) == first


@pytest.mark.parametrize("codec", ["jpeg", "png"])
@pytest.mark.parametrize("tiles", [None, (16, 16)])
def test_a_loader_turns_images_with_their_annotations(codec, tiles):
    if tiles:
        pytest.importorskip("imagecodecs")
    schema = {
        "image": tl.Image(codec, tiles=tiles) if tiles else tl.Image(codec),
        "mask": tl.SegmentMask(["a", "b"], of="image"),
        "boxes": tl.BBox(of="image"),
    }
    ds = tl.create(f"memory://turned-annotations-{codec}-{tiles is None}", schema)
    for row in range(24):
        mask = np.zeros((24, 40), np.uint8)
        mask[8:16, 4 + row % 8 : 20] = 1
        box = [4 + row % 8, 8, 20, 16]
        ds.append(
            {"image": np.repeat(mask[..., None] * 255, 3, axis=2), "mask": mask, "boxes": [box]}
        )
    ds.commit()

    sizes = set()
    for batch in ds.loader(
        batch_size=1, decode={"image": D.Rotate90()}, collate={"image": "list", "mask": "list"}
    ):
        image, mask, (x1, y1, x2, y2) = batch["image"][0], batch["mask"][0], batch["boxes"][0][0]
        sizes.add(mask.shape)
        assert image.shape[:2] == mask.shape
        assert abs(int((image[..., 0] > 127).sum()) - int(mask.sum())) <= 8
        inside = mask[int(y1) : int(y2), int(x1) : int(x2)]
        assert inside.all()
        assert inside.sum() == mask.sum()
    assert sizes == {(24, 40), (40, 24)}


def test_images_of_one_size_stay_so_only_if_they_are_square():
    ds = tl.create("memory://turned-sizes", {"image": tl.Image("png")})
    ds.extend({"image": [np.zeros((4, 6, 3), np.uint8)] * 3})
    ds.commit()

    with pytest.raises(tl.RaggedBatchError):
        ds.loader(batch_size=3, decode={"image": D.Rotate90()})
    steps = [D.Rotate90(), D.Resize(5, 5)]
    assert next(iter(ds.loader(batch_size=3, decode={"image": steps})))["image"].shape == (
        3,
        5,
        5,
        3,
    )
