"""What detection datasets have beside boxes and classes: names, elements, headers."""

from __future__ import annotations

import json

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.unit.ingest.vision.test_annotations import (
    OBJECT_7,
    VOC,
    coco_file,
    jpeg,
    voc_folder,
    yolo_folder,
)


@pytest.fixture
def dst(tmp_path):
    return f"memory://records-{tmp_path.name}"


def test_voc_has_all_elements_of_its_files(dst, tmp_path):
    text = VOC.replace("</object>", "<pose>Left</pose><part><name>head</name></part></object>", 1)
    folder = voc_folder(tmp_path)
    for path in (folder / "Annotations").glob("*.xml"):
        path.write_text(text)

    ds = tl.ingest.voc(folder, dst)

    first = ds[0]["voc"]["object"][0]
    assert (first["pose"], first["part"]) == ("Left", [{"name": "head"}])
    assert ds[0]["file_name"].startswith("JPEGImages/")


def test_voc_image_of_another_size_than_its_annotation_is_refused(dst, tmp_path):
    folder = voc_folder(tmp_path)
    path = min((folder / "Annotations").glob("*.xml"))
    size = "<size><width>99</width><height>12</height></size></annotation>"
    path.write_text(path.read_text().replace("</annotation>", size))

    with pytest.raises(InvalidInputError, match=r"is 10 × 12, but its annotation gives 99 × 12"):
        tl.ingest.voc(folder, dst)


def test_yolo_rows_have_the_names_of_their_files(dst, tmp_path):
    ds = tl.ingest.yolo(yolo_folder(tmp_path, ["0 .5 .5 .5 .5"]), dst)

    assert ds["file_name"][:] == ["train/a.jpg", "val/a.jpg"]
    ds.to_coco(tmp_path / "out")
    assert (tmp_path / "out" / "images" / "val" / "a.jpg").read_bytes() == jpeg(1)


def test_a_class_of_yolo_with_another_name_renames_its_boxes(dst, tmp_path):
    root = yolo_folder(tmp_path, ["1 .5 .5 .5 .5"])
    tl.ingest.yolo(root, dst)
    text = (root / "data.yaml").read_text()
    (root / "data.yaml").write_text(text.replace("dog", "wolf"))

    ds = tl.ingest.yolo(root, dst)

    assert ds[0]["label"].as_names() == ["wolf"]
    assert ds.ingest_report.updated == 1


def test_a_header_of_coco_that_changed_alone_is_committed(dst, tmp_path):
    one = {**OBJECT_7, "category_id": 3}
    file, images = coco_file(tmp_path, [one])
    tl.ingest.coco(file, images, dst)
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "info": {"version": "2"}}))

    ds = tl.ingest.coco(file, images, dst)

    assert (ds.version, ds.ingest_report.updated) == ("main@2", 0)
    ds.to_coco(tmp_path / "out")
    written = json.loads((tmp_path / "out" / "annotations.json").read_text())
    assert written["info"] == {"version": "2"}
    assert tl.ingest.coco(file, images, dst).version == "main@2"


def test_segmentations_and_points_that_leave_the_file_leave_the_dataset(dst, tmp_path):
    shaped = {"segmentation": [[1, 1, 5, 1, 5, 5]], "keypoints": [1, 2, 2]}
    category = {"keypoints": ["nose"], "skeleton": []}
    one = {**OBJECT_7, "category_id": 3}
    tl.ingest.coco(*coco_file(tmp_path, [one | shaped], **category), dst)

    ds = tl.ingest.coco(*coco_file(tmp_path, [one], **category), dst)

    assert (ds.ingest_report.updated, ds.ingest_report.conflicts) == (1, [])
    assert not ds[0]["mask"].any()
    assert not ds[0]["keypoints"].any()
    assert "segmentation" not in ds[0]["coco"]["annotations"][0]


def test_a_new_file_without_segmentations_and_points_has_no_tensors_of_them(dst, tmp_path):
    one = {**OBJECT_7, "category_id": 3}
    category = {"keypoints": ["nose"], "skeleton": []}

    for options in ({}, {"dry_run": True}):
        ds = tl.ingest.coco(*coco_file(tmp_path, [one], **category), f"{dst}{options}", **options)
        assert not {"mask", "keypoints"} & set(ds.schema)


def test_a_voc_image_without_a_segmentation_is_named_where_others_have_one(dst, tmp_path):
    folder = voc_folder(tmp_path)
    tl.ingest.voc(folder, dst)
    (folder / "JPEGImages" / "2.jpg").write_bytes(jpeg(2))

    with pytest.raises(InvalidInputError, match=r"2\.jpg"):
        tl.ingest.voc(folder, dst)
    ds = tl.ingest.voc(folder, dst, on_error="skip")

    assert (len(ds), ds.ingest_report.rejected) == (2, 1)


@pytest.mark.parametrize(
    ("member", "tensor"),
    [({"segmentation": [[1, 1, 5, 1, 5, 5]]}, "mask"), ({"keypoints": [1, 2, 2]}, "keypoints")],
)
def test_segmentations_and_points_that_come_later_are_refused_in_words(
    dst, tmp_path, member, tensor
):
    one = {**OBJECT_7, "category_id": 3}
    tl.ingest.coco(*coco_file(tmp_path, [one]), dst)

    with pytest.raises(InvalidInputError, match=f"has values of '{tensor}', and .* no such tensor"):
        tl.ingest.coco(*coco_file(tmp_path, [one | member]), dst)

    assert tl.open(dst).version == "main@1"
