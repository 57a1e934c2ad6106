"""What a COCO file gets wrong is refused or left out by name, never guessed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

OBJECT = {"id": 9, "image_id": 1, "category_id": 3, "bbox": [1, 2, 4, 3], "area": 12, "iscrowd": 0}
IMAGE = {"id": 1, "file_name": "a.png", "width": 8, "height": 6}


@pytest.fixture
def dst(tmp_path):
    return f"memory://coco-numbers-{tmp_path.name}"


def coco_file(folder: Path, image: dict[str, Any], *lacking: str, **members: Any) -> Path:
    """A file of two images, the first with an object that has these members."""
    for name in ("a.png", "b.png"):
        PIL.Image.new("RGB", (8, 6)).save(folder / name)
    one = {name: value for name, value in (OBJECT | members).items() if name not in lacking}
    other = {**IMAGE, "id": 2, "file_name": "b.png"}
    content = {
        "images": [IMAGE | image, other],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [one],
    }
    (folder / "coco.json").write_text(json.dumps(content))
    return folder / "coco.json"


WRONG = [
    ({}, ["bbox"], {}, "annotation 9 of 'a.png' has no 'bbox'"),
    ({}, [], {"bbox": [1, 2, 1e40, 3]}, "has the bbox [1.0, 2.0, 1e+40, 3.0], which float32"),
    ({}, [], {"bbox": [3e38, 2, 3e38, 3]}, "which float32 cannot hold"),
    ({}, [], {"area": 1e40}, "has the area 1e+40, which float32 cannot hold"),
    ({}, [], {"keypoints": [1, 1e40, 2]}, "has keypoints that float32 cannot hold"),
    ({"width": 80, "height": 60}, [], {}, "'a.png' is 8 × 6, but image 1 of the COCO file is 80"),
    ({"width": 6, "height": 8}, [], {}, "'a.png' is 8 × 6, but image 1 of the COCO file is 6 × 8"),
    ({"file_name": "../a.png"}, [], {}, "is named '../a.png', which is outside of the folder"),
    ({"file_name": "x/../../a.png"}, [], {}, "outside of the folder"),
    ({"file_name": "/etc/a.png"}, [], {}, "is named '/etc/a.png', which is outside"),
    ({"file_name": r"..\a.png"}, [], {}, "outside of the folder"),
    ({"file_name": r"C:\a.png"}, [], {}, "outside of the folder"),
]


@pytest.mark.parametrize(("image", "lacking", "members", "told"), WRONG)
def test_what_the_file_gets_wrong_is_refused_by_name(tmp_path, dst, image, lacking, members, told):
    file = coco_file(tmp_path, image, *lacking, **members)

    with pytest.raises(InvalidInputError) as refused:
        tl.ingest.coco(file, tmp_path, dst)

    assert told in str(refused.value)


@pytest.mark.parametrize(("image", "lacking", "members", "told"), WRONG)
def test_what_the_file_gets_wrong_is_left_out_by_name(tmp_path, dst, image, lacking, members, told):
    file = coco_file(tmp_path, image, *lacking, **members)

    ds = tl.ingest.coco(file, tmp_path, dst, on_error="skip")

    assert ds["image_id"][:].tolist() == [2]
    [skipped] = ds.ingest_report.skipped
    assert skipped.item == image.get("file_name", "a.png")
    assert told.removeprefix("annotation 9 of 'a.png' has ") in skipped.reason


def test_area_that_is_not_a_number_goes_out_as_no_area(tmp_path, dst):
    ds = tl.ingest.coco(coco_file(tmp_path, {}, area=float("nan")), tmp_path, dst)

    assert np.isnan(ds[0]["area"]).all()
    ds.to_coco(tmp_path / "out")
    [written] = json.loads((tmp_path / "out" / "annotations.json").read_text())["annotations"]
    assert "area" not in written


def test_images_without_a_size_in_the_file_are_ingested(tmp_path, dst):
    ds = tl.ingest.coco(coco_file(tmp_path, {"width": 0, "height": 0}), tmp_path, dst)

    assert ds[0]["image"].shape == (6, 8, 3)


@pytest.mark.parametrize("members", [{"iscrowd": None}, {"bbox": None}, {"area": "large"}])
def test_an_annotation_that_is_wrong_is_named_and_can_be_left_out(tmp_path, dst, members):
    file = coco_file(tmp_path, {}, **members)

    with pytest.raises(
        InvalidInputError, match=r"annotation 9 of image 1 is wrong: .*\n"
    ) as refused:
        tl.ingest.coco(file, tmp_path, dst)

    assert "is not a COCO file" not in refused.value.message
    assert refused.value.message.endswith("leave its image out: on_error='skip'")
    ds = tl.ingest.coco(file, tmp_path, dst, on_error="skip")
    (skipped,) = ds.ingest_report.skipped
    assert "annotation 9 of image 1 is wrong" in skipped.reason
    assert len(ds) == 1


def test_an_area_of_null_is_unknown_and_stays_null(tmp_path, dst):
    ds = tl.ingest.coco(coco_file(tmp_path, {}, area=None), tmp_path, dst)

    assert np.isnan(ds[0]["area"]).all()
    ds.to_coco(tmp_path / "out")
    written = json.loads((tmp_path / "out" / "annotations.json").read_text())
    assert written["annotations"][0]["area"] is None


def test_a_mask_of_another_size_is_named_by_its_annotation(tmp_path, dst):
    file = coco_file(tmp_path, {}, segmentation={"size": [2, 2], "counts": [1, 2, 1]})

    with pytest.raises(InvalidInputError, match=r"annotation 9 of 'a.png' has a mask of 2 × 2, in"):
        tl.ingest.coco(file, tmp_path, dst)
    assert len(tl.ingest.coco(file, tmp_path, dst, on_error="skip")) == 1
