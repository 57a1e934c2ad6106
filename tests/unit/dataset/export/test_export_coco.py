"""Out as COCO: what its own tools read, and what comes back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO

import tensorlake as tl
from tensorlake.errors import InvalidInputError

DATA = Path(__file__).resolve().parents[4] / "examples" / "data" / "coco"


@pytest.fixture
def ds(request):
    url = f"memory://coco-out-{abs(hash(request.node.name))}"
    return tl.ingest.coco(DATA / "instances.json", DATA / "images", url)


def test_coco_that_was_ingested_is_the_same_when_ingested_again(ds, tmp_path):
    ds.to_coco(tmp_path / "out")

    out = tmp_path / "out"
    again = tl.ingest.coco(out / "annotations.json", out / "images", f"{ds.url}-again")

    assert [*again.schema] == [*ds.schema]
    assert again["image"].bytes(3) == ds["image"].bytes(3)
    for row in range(len(ds)):
        for name in ("iscrowd", "area", "annotation_id", "mask", "label"):
            one, other = np.asarray(ds[row][name]), np.asarray(again[row][name])
            assert one.shape == other.shape, (row, name)
            assert (one == other).all(), (row, name)
        assert np.allclose(ds[row]["boxes"], again[row]["boxes"], atol=1e-3)
        assert ds[row]["image_id"] == again[row]["image_id"]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_the_tools_of_coco_read_what_was_written(ds, tmp_path):
    ds.to_coco(tmp_path / "out")

    tools = COCO(tmp_path / "out" / "annotations.json")
    row = next(at for at in range(len(ds)) if len(ds[at]["boxes"]))
    found = tools.loadAnns(tools.getAnnIds(imgIds=[int(ds[row]["image_id"])]))
    assert len(found) == len(ds[row]["boxes"])
    names = {one["id"]: one["name"] for one in tools.loadCats(tools.getCatIds())}
    assert [names[one["category_id"]] for one in found] == [
        ds["label"].names[code] for code in np.asarray(ds[row]["label"]).tolist()
    ]
    masks = np.stack([tools.annToMask(one) for one in found]).astype(bool)
    assert (masks == np.asarray(ds[row]["mask"])).all()


def test_boxes_of_every_format_are_corner_and_size(tmp_path):
    for form, box in [
        ("xyxy", [1, 2, 4, 6]),
        ("xywh", [1, 2, 3, 4]),
        ("cxcywh", [2.5, 4, 3, 4]),
    ]:
        ds = tl.create(f"memory://coco-{form}", {"p": tl.Image("png"), "b": tl.BBox(form)})
        ds.extend({"p": [np.zeros((8, 9, 3), np.uint8)], "b": [[box]]})
        ds.to_coco(tmp_path / form)

        written = json.loads((tmp_path / form / "annotations.json").read_text())

        assert written["annotations"][0]["bbox"] == [1, 2, 3, 4]
        assert written["images"][0]["width"] == 9
        ds.discard()


def test_what_has_no_place_in_coco_is_refused_by_name(tmp_path):
    ds = tl.create(
        "memory://coco-refused",
        {"a": tl.Image("png"), "b": tl.Image("png"), "box": tl.BBox(), "area": "float32"},
    )

    with pytest.raises(InvalidInputError, match=r"2 tensors of images \['a', 'b'\]"):
        ds.to_coco(tmp_path / "out")
    pixels = np.zeros((2, 2, 3), np.uint8)
    counts = tl.create(
        "memory://coco-counts",
        {"a": tl.Image("png"), "box": tl.BBox(), "y": tl.ClassLabel(["c"], per="box")},
    )
    counts.extend({"a": [pixels], "box": [[[0, 0, 1, 1]]], "y": [[0]]})
    counts["box"][0] = [[0, 0, 1, 1]] * 2  # staged: a commit would refuse it
    with pytest.raises(InvalidInputError, match="row 0 has 2 boxes and 1 of 'y'"):
        counts.to_coco(tmp_path / "out")
    counts.discard()


def test_captions_go_out_as_the_tools_of_coco_read_them_and_come_back(ds, tmp_path):
    schema = {"image": tl.Image(), "captions": tl.Sequence("str"), "image_id": "int64"}
    captions = [["one", "zwei"], [], ["three"]]
    pictures = [ds["image"].bytes(row) for row in range(3)]
    with tl.create(f"{ds.url}-captions", schema) as told:
        told.extend({"image": pictures, "captions": captions, "image_id": [5, 6, 7]})
        told.commit()
        told.to_coco(tmp_path / "out")

    tools = COCO(tmp_path / "out" / "annotations.json")
    read = [
        [one["caption"] for one in tools.loadAnns(tools.getAnnIds(imgIds=[number]))]
        for number in (5, 6, 7)
    ]
    again = tl.ingest.coco(
        tmp_path / "out" / "annotations.json", tmp_path / "out" / "images", f"{ds.url}-again"
    )

    assert read == captions
    assert again["captions"][:] == captions
    assert again["image_id"][:].tolist() == [5, 6, 7]
    assert [again["image"].bytes(row) for row in range(3)] == pictures


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_the_tools_of_coco_read_and_score_points_that_went_out(tmp_path):
    """`COCOeval` gives the points, as detections, full marks against themselves."""
    from pycocotools.cocoeval import COCOeval

    schema = {
        "image": tl.Image("png"),
        "boxes": tl.BBox(format="xyxy", of="image"),
        "label": tl.ClassLabel(["person"], per="boxes"),
        "keypoints": tl.Keypoints(
            ["nose", "neck", "tail"], [(0, 1), (1, 2)], of="image", per="boxes"
        ),
        "area": tl.Array("float32", (None,), per="boxes"),
    }
    points = np.array([[[10, 8, 2], [20, 30, 1], [0, 0, 0]], [[50, 40, 2]] * 3], np.float32)
    with tl.create(f"memory://coco-points-{tmp_path.name}", schema) as ds:
        ds.append(
            {
                "image": np.zeros((60, 80, 3), np.uint8),
                "boxes": [[5, 5, 40, 45], [45, 35, 60, 50]],
                "label": ["person", "person"],
                "keypoints": points,
                "area": [1400.0, 225.0],
            }
        )
        ds.commit("posed")
        ds.to_coco(tmp_path / "out")

    tools = COCO(tmp_path / "out" / "annotations.json")
    found = tools.loadAnns(tools.getAnnIds())
    assert [one["keypoints"] for one in found] == points.reshape(2, -1).tolist()
    assert [one["num_keypoints"] for one in found] == [2, 3]
    (category,) = tools.loadCats(tools.getCatIds())
    assert category["keypoints"] == ["nose", "neck", "tail"]
    assert category["skeleton"] == [[1, 2], [2, 3]]

    scored = COCOeval(tools, tools.loadRes([{**one, "score": 1.0} for one in found]), "keypoints")
    scored.params.kpt_oks_sigmas = np.full(3, 0.05)
    scored.evaluate()
    scored.accumulate()
    scored.summarize()
    assert scored.stats[0] == pytest.approx(1.0)

    again = tl.ingest.coco(
        tmp_path / "out" / "annotations.json",
        tmp_path / "out" / "images",
        f"memory://coco-points-again-{tmp_path.name}",
    )
    assert np.array_equal(again[0]["keypoints"], points)
    assert again.schema["keypoints"] == schema["keypoints"]
