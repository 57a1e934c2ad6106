"""Masks of images have their height and width, however they are written."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import ShapeMismatchError

MASKS = {
    "binary": tl.BinaryMask(of="image"),
    "classes": tl.SegmentMask(["a", "b"], of="image"),
    "objects": tl.InstanceMask(of="image"),
}


def mask(name, height, width, count=2):
    shape = (count, height, width) if name == "objects" else (height, width)
    return np.zeros(shape, np.uint8 if name == "classes" else np.bool_)


def dataset(url, **images):
    nullable = {name: type(one)(of="image", nullable=True) for name, one in MASKS.items()}
    return tl.create(url, {"image": tl.Image("png", **images), **nullable})


def row(height, width, **others):
    made = {name: mask(name, height, width) for name in MASKS}
    return {"image": np.zeros((height, width, 3), np.uint8), **made, **others}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("size", [(7, 5), (4, 5), (10, 14), (1, 1)])
def test_a_mask_of_another_size_is_refused_with_both_shapes_and_the_row(name, size):
    ds = dataset(f"memory://mask-sizes-{name}-{size}")
    ds.append(row(5, 7))
    batch = {key: [value, value] for key, value in row(5, 7).items()}
    batch[name] = [mask(name, 5, 7), mask(name, *size)]

    with pytest.raises(
        ShapeMismatchError, match=rf"row 1 of extend.*\({size[0]}, {size[1]}\).*image.*\(5, 7, 3\)"
    ):
        ds.extend(batch)

    ds.commit()
    assert len(ds) == 1


@pytest.mark.parametrize("name", MASKS)
def test_an_assigned_mask_or_image_of_another_size_is_refused_before_the_commit(name):
    ds = dataset(f"memory://mask-assigned-{name}")
    ds.append(row(5, 7))
    ds.commit()

    with pytest.raises(ShapeMismatchError, match="declared of="):
        ds[name][0] = mask(name, 7, 5)
    ds.discard()
    ds["image"][0] = np.zeros((7, 5, 3), np.uint8)
    with pytest.raises(ShapeMismatchError, match="declared of="):
        ds.commit()
    for key in MASKS:
        ds[key][0] = mask(key, 7, 5)
    ds.commit()
    assert ds[0]["image"].shape == (7, 5, 3)


def test_nothing_and_no_objects_have_no_size():
    ds = dataset("memory://masks-of-nothing")
    ds.append(row(5, 7, objects=np.zeros((0, 0, 0), np.bool_)))
    ds.append(row(5, 7, objects=None, binary=None, classes=None))
    ds.commit()

    assert ds.check().ok


def test_a_turned_photo_has_masks_of_the_size_in_which_it_is_read(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    photo = pillow.new("RGB", (8, 4))
    exif = photo.getexif()
    exif[0x0112] = 6  # shown as 8 rows of 4
    photo.save(tmp_path / "photo.png", exif=exif)

    for upright, size in ((True, (8, 4)), (False, (4, 8))):
        ds = dataset(f"memory://masks-of-turned-{upright}", upright=upright)
        photo_row = row(*size, image=tmp_path / "photo.png")
        ds.append(photo_row)
        with pytest.raises(ShapeMismatchError):
            ds.append(row(*size[::-1], image=tmp_path / "photo.png"))
