"""Columns that geometric steps would leave as they are, though boxes go or move: refused."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import UnsupportedFeatureError

CROP = [tl.decode.CenterCrop(16, 16)]
RANDOM = [tl.decode.RandomResizedCrop(16, 16, scale=(0.05, 0.1))]
RESIZE = [tl.decode.Resize(16, 16), tl.decode.Flip()]


@pytest.fixture(scope="module")
def scenes() -> tl.Dataset:
    ds = tl.create(
        "memory://left-behind",
        {
            "image": tl.Image("png"),
            "boxes": tl.BBox(of="image"),
            "label": tl.ClassLabel(["a", "b"], per="boxes"),
            "score": "float32",
            "vector": tl.Embedding(4),
        },
    )
    boxes = [[0, 0, 4, 4], [20, 20, 30, 30]]
    row = {"image": np.zeros((40, 40, 3), np.uint8), "boxes": boxes, "label": ["a", "b"]}
    ds.extend([{**row, "score": 0.5, "vector": np.ones(4)}] * 3)
    ds.commit("scenes")
    return ds


@pytest.mark.parametrize(
    "select",
    ["boxes AS q", "label AS l", "boxes * 2 AS q", "boxes, label, label AS other"],
)
@pytest.mark.parametrize("steps", [CROP, RANDOM, RESIZE], ids=["crop", "random crop", "resize"])
def test_computed_boxes_and_labels_are_not_left_where_they_were(scenes, select, steps):
    view = scenes.query(f"SELECT image, {select}")

    with pytest.raises(UnsupportedFeatureError, match="computed by the query"):
        view.loader(batch_size=3, decode={"image": steps})

    assert len(list(view.loader(batch_size=3, collate={"image": "list"}))) == 1


def test_numbers_and_vectors_that_a_query_computes_go_with_any_step(scenes):
    view = scenes.query("SELECT image, boxes, label, score * 2 AS s, vector * 2 AS v")

    (batch,) = view.loader(batch_size=3, decode={"image": CROP})

    assert [len(one) for one in batch["boxes"]] == [len(one) for one in batch["label"]] == [1] * 3
    assert batch["s"].tolist() == [1.0] * 3


@pytest.mark.parametrize("steps", [CROP, RANDOM], ids=["crop", "random crop"])
def test_labels_whose_boxes_a_crop_may_drop_need_the_boxes(scenes, steps):
    with pytest.raises(UnsupportedFeatureError, match="add 'boxes' to columns="):
        scenes.loader(batch_size=3, columns=["image", "label"], decode={"image": steps})

    columns = ["image", "label", "boxes"]  # as advised
    (batch,) = scenes.loader(batch_size=3, columns=columns, decode={"image": steps})
    assert [len(one) for one in batch["boxes"]] == [len(one) for one in batch["label"]]


def test_labels_without_boxes_go_with_steps_that_drop_none(scenes):
    (batch,) = scenes.loader(batch_size=3, columns=["image", "label"], decode={"image": RESIZE})

    assert [one.tolist() for one in batch["label"]] == [[0, 1]] * 3
