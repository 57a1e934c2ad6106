"""Images in tiles in a loader: batches as of images stored whole, from the tiles over crops."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, RaggedBatchError
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage

pytest.importorskip("imagecodecs")
D = tl.decode
ROWS = 6


def dataset(*, tiled: bool, is_even: bool = False) -> Any:
    image = tl.Image("png", tiles=(32, 48) if tiled else None, nullable=True)
    name = f"memory://{uuid.uuid4()}"
    schema = {
        "image": image,
        "mask": tl.SegmentMask(["a", "b"], of="image"),
        "boxes": tl.BBox(of="image"),
        "label": tl.ClassLabel(["x", "y"], per="boxes"),
    }
    ds = tl.create(name, schema)
    random = np.random.default_rng(0)
    for number in range(ROWS):
        height, width = (100, 140) if is_even else (100 + 9 * number, 140 - 7 * number)
        pixels = random.integers(0, 255, (height, width, 3), dtype=np.uint8)
        boxes = random.uniform(0, 60, (3, 2))
        ds.append(
            {
                "image": pixels,
                "mask": (pixels[..., 0] > 100).astype(np.uint8),
                "boxes": np.hstack([boxes, boxes + random.uniform(5, 50, (3, 2))]),
                "label": [0, 1, 0],
            }
        )
    ds.commit()
    return ds


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    return dataset(tiled=True), dataset(tiled=False)


def assert_equal_batches(tiled: Any, whole: Any, **arguments: Any) -> None:
    pairs = zip(tiled.loader(**arguments), whole.loader(**arguments), strict=True)
    for one, other in pairs:
        assert one.keys() == other.keys()
        for name, values in other.items():
            assert type(one[name]) is type(values)
            assert len(one[name]) == len(values)
            for found, expected in zip(one[name], values, strict=True):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "steps",
    [
        [D.Resize(48, 40)],
        [D.RandomResizedCrop(40), D.Flip()],
        [D.CenterCrop(64, 150)],
        [D.Letterbox(60, 60), D.ColorJitter(brightness=0.3), D.ToFloat()],
        [D.Resize(48, 40), D.Mosaic()],
    ],
)
def test_batches_equal_those_of_whole_images_with_their_annotations(pair, steps):
    assert_equal_batches(*pair, batch_size=4, shuffle=True, seed=5, decode={"image": steps})


@pytest.mark.parametrize("collate", [None, {"image": "list"}, {"image": "pad"}])
def test_images_of_one_size_and_of_several_are_collated_alike(pair, collate):
    even = dataset(tiled=True, is_even=True), dataset(tiled=False, is_even=True)
    for views in (even, pair):
        if collate is None and views is pair:
            for view in views:
                with pytest.raises(RaggedBatchError, match="of different shapes"):
                    view.loader(batch_size=4)
            continue
        assert_equal_batches(*views, batch_size=4, collate=collate)


def test_a_null_image_is_replaced_as_one_stored_whole(pair):
    views = [ds.branch("null") for ds in pair]
    for view in views:
        view["image"][2] = None
        view.commit()
    decode = {"image": D.Resize(20, 20)}

    found = [[*view.loader(batch_size=6, columns=["image"], decode=decode, null={"image": 7})]
             for view in views]  # fmt: skip

    np.testing.assert_array_equal(*(batches[0]["image"] for batches in found))
    assert (found[0][0]["image"][2] == 7).all()


def test_a_patch_is_cut_of_an_image_and_its_mask(pair):
    tiled, whole = pair
    decode = {"image": [D.RandomPatch((30, 20), n=2, center_on="mask"), D.ToFloat()]}

    (batch,) = tiled.loader(batch_size=ROWS, columns=["image", "mask", "_row"], decode=decode)

    assert batch["image"].shape == (ROWS, 2, 30, 20, 3)
    again = (batch["image"][..., 0] * 255).round() > 100
    np.testing.assert_array_equal(again, batch["mask"] == 1)
    with pytest.raises(InvalidInputError, match=r"tl\.Image\('png', tiles=\(512, 512\)\)"):
        whole.loader(batch_size=2, columns=["image"], decode={"image": D.RandomPatch((30, 20))})


def test_windows_cover_images_and_masks(pair):
    tiled, _ = pair
    for batch in tiled.windows(["image", "mask"], size=(50, 50)).loader(batch_size=8):
        np.testing.assert_array_equal(batch["image"][..., 0] > 100, batch["mask"] == 1)


@pytest.mark.parametrize("step", [D.CenterCrop(60, 60), D.RandomPatch((60, 60))])
def test_a_crop_reads_the_tiles_under_it(step):
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"image": tl.Image("png", tiles=(50, 50))})
    random = np.random.default_rng(0)
    for _ in range(4):
        ds.append({"image": random.integers(0, 255, (600, 700, 3), dtype=np.uint8)})
    ds.commit()
    wait_for_storage()
    ds = open_on(store)
    ds["image"].shapes()
    store.reset()

    batches = [*ds.loader(batch_size=2, decode={"image": step})]

    assert [one["image"].shape for one in batches] == [(2, 60, 60, 3)] * 2
    assert store.bytes_read < 4 * 600 * 700 * 3 / 8
