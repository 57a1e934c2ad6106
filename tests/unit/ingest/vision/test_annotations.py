"""Ingestion of annotated pictures and shards: what their files say is in the dataset."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import simplejpeg
import yaml

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.types import decode_run_lengths, encode_run_lengths


def jpeg(seed: int, height: int = 12, width: int = 10) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels)


def png(pixels) -> bytes:
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def dst(request):
    return f"memory://annotated-{request.node.name}".replace("[", "-").replace("]", "")


# ---- pictures with annotations


def test_zip_of_images_is_a_folder_of_them(dst, tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train/dog/b.jpg", jpeg(2))
        archive.writestr("train/cat/a.jpg", jpeg(1))
        archive.writestr("__MACOSX/train/cat/a.jpg", b"x")
        archive.writestr("notes.txt", "x")

    ds = tl.ingest.images(tmp_path / "p.zip", dst)

    assert (ds["label"][:] == ["cat", "dog"]).all()
    assert [ds["image"].bytes(i) for i in range(2)] == [jpeg(1), jpeg(2)]


def test_zip_that_lies_about_its_sizes_is_refused(dst, tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", jpeg(1) + bytes(1 << 20))
    content = (tmp_path / "p.zip").read_bytes()
    size = (len(jpeg(1)) + (1 << 20)).to_bytes(4, "little")
    (tmp_path / "p.zip").write_bytes(content.replace(size, (100).to_bytes(4, "little")))

    with pytest.raises(InvalidInputError, match=r"a\.jpg"):
        tl.ingest.images(tmp_path / "p.zip", dst)


def yolo_folder(root: Path, lines: list[str], **more) -> Path:
    for split in ("train", "val"):
        (root / "images" / split).mkdir(parents=True)
        (root / "labels" / split).mkdir(parents=True)
        (root / "images" / split / "a.jpg").write_bytes(jpeg(1))
    (root / "labels" / "train" / "a.txt").write_text("\n".join(lines))
    content = {"names": {0: "cat", 1: "dog"}, "train": "images/train", "val": "images/val", **more}
    (root / "data.yaml").write_text(yaml.safe_dump(content))
    return root


def test_yolo_boxes_are_in_pixels(dst, tmp_path):
    root = yolo_folder(tmp_path, ["1 0.5 0.5 0.2 0.5", "0 0.1 0.25 0.2 0.5"])

    ds = tl.ingest.yolo(root, dst)

    assert ds["boxes"][0].tolist() == [[4, 3, 6, 9], [0, 0, 2, 6]]
    assert ds[0]["label"].as_names() == ["dog", "cat"]
    assert ds["boxes"][1].shape == (0, 4)
    assert (ds["split"][:] == ["train", "val"]).all()


def test_yolo_outlines_and_points(dst, tmp_path):
    root = yolo_folder(tmp_path / "s", ["1 0 0 0.5 0 0.5 0.5"])
    posed = yolo_folder(tmp_path / "p", ["0 0.5 0.5 1 1 0.1 0.5 2 0 0 0"], kpt_shape=[2, 3])

    outlines = tl.ingest.yolo(root, f"{dst}-s")
    points = tl.ingest.yolo(posed / "data.yaml", f"{dst}-p")

    assert outlines[0]["outlines"][0].tolist() == [[0, 0], [5, 0], [5, 6]]
    assert outlines["boxes"][0].tolist() == [[0, 0, 5, 6]]
    assert points[0]["keypoints"].tolist() == [[[1, 6, 2], [0, 0, 0]]]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["0 0.5 0.5 0.2"], "line 1 of .*a.txt' is not of task 'detect'"),
        (["0 0.5 0.5 0.2 x"], "line 1 of .* is not of numbers"),
        (["0 0.5 0.5 0.2 0.2", "7 0.5 0.5 0.2 0.2"], "line 2 of .* is not of a class 0 … 1 that"),
    ],
)
def test_bad_yolo_line_is_named(dst, tmp_path, lines, words):
    with pytest.raises(InvalidInputError, match=words):
        tl.ingest.yolo(yolo_folder(tmp_path, lines), dst, task="detect")


def test_yolo_turned_boxes_are_outlines_of_four_corners(dst, tmp_path):
    root = yolo_folder(tmp_path / "o", ["1 0.5 0 1 0.5 0.5 1 0 0.5"])
    bad = yolo_folder(tmp_path / "b", ["1 0.5 0 1 0.5 0.5 1"])

    ds = tl.ingest.yolo(root, f"{dst}-o", task="obb")
    guessed = tl.ingest.yolo(root, f"{dst}-g")

    height, width = ds["image"].shapes()[0][:2].tolist()
    corners = [[width / 2, 0], [width, height / 2], [width / 2, height], [0, height / 2]]
    assert ds["outlines"][0][0].tolist() == corners
    assert ds["boxes"][0].tolist() == [[0, 0, width, height]]
    assert guessed["outlines"][0][0].tolist() == corners
    with pytest.raises(InvalidInputError, match="the corners of a box"):
        tl.ingest.yolo(bad, f"{dst}-b", task="obb")


def test_yolo_classes_keep_their_numbers_apart_where_some_have_no_name(dst, tmp_path):
    lines = ["1 0.5 0.5 0.2 0.5", "90 0.1 0.25 0.2 0.5"]
    root = yolo_folder(tmp_path, lines, names={90: "toothbrush", 1: "person"})

    ds = tl.ingest.yolo(root, dst)

    assert list(ds["label"].names) == ["person", "toothbrush"]
    assert ds[0]["label"].as_names() == ["person", "toothbrush"]


def test_yolo_folders_of_roboflow_lie_beside_the_file_that_says_above(dst, tmp_path):
    root = yolo_folder(tmp_path / "d", ["1 0.5 0.5 0.2 0.5"], train="../images/train", val=None)

    ds = tl.ingest.yolo(root, dst)

    assert ds["boxes"][0].shape == (1, 4)


@pytest.mark.parametrize("content", ["names: []", "train: images", "- a", "names: {x: a}", "{"])
def test_bad_yolo_layout_is_refused(dst, tmp_path, content):
    (tmp_path / "data.yaml").write_text(content)

    with pytest.raises(InvalidInputError, match=r"data\.yaml"):
        tl.ingest.yolo(tmp_path, dst)


VOC = """<annotation><object><name>dog</name><difficult>1</difficult>
<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5</xmax><ymax>6</ymax></bndbox></object></annotation>"""


def voc_folder(root: Path, annotation: str = VOC) -> Path:
    for name in ("JPEGImages", "Annotations", "SegmentationClass", "ImageSets/Main"):
        (root / name).mkdir(parents=True)
    for number in range(2):
        (root / "JPEGImages" / f"{number}.jpg").write_bytes(jpeg(number))
        (root / "SegmentationClass" / f"{number}.png").write_bytes(
            png(np.full((12, 10), number, np.uint8))
        )
    (root / "Annotations" / "0.xml").write_text(annotation)
    (root / "ImageSets" / "Main" / "train.txt").write_text("0\n")
    (root / "ImageSets" / "Main" / "dog_train.txt").write_text("0 1\n1 -1\n")
    return root


def test_voc_boxes_sets_and_masks(dst, tmp_path):
    ds = tl.ingest.voc(voc_folder(tmp_path), dst)

    assert ds["boxes"][0].tolist() == [[0, 1, 5, 6]]
    assert ds[0]["label"].as_names() == ["dog"]
    assert ds[0]["difficult"].tolist() == [1]
    assert ds[0]["sets"].as_names() == ["train"]
    assert ds[1]["sets"].tolist() == []
    assert ds[1]["mask"].tolist() == [[1] * 10] * 12


@pytest.mark.parametrize(
    "annotation",
    [
        "<annotation>",
        "<annotation><object><name>a</name></object></annotation>",
        '<!DOCTYPE x [<!ENTITY a "b">]><annotation/>',
        VOC.replace("<xmax>5</xmax>", ""),
    ],
)
def test_bad_voc_annotation_is_named(dst, tmp_path, annotation):
    with pytest.raises(InvalidInputError, match=r"0\.xml"):
        tl.ingest.voc(voc_folder(tmp_path, annotation), dst)


def test_voc_images_may_lie_beside_their_annotations(dst, tmp_path):
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>4</ymax></bndbox>"
    for at, name in enumerate(("train/a", "valid/a", "train/b")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.jpg").write_bytes(jpeg(at))
        objects = f"<object><name>cat</name>{box}</object>" * at
        (tmp_path / f"{name}.xml").write_text(f"<annotation>{objects}</annotation>")

    ds = tl.ingest.voc(tmp_path, dst)

    rows = {(row["sets"].as_names()[0], len(row["boxes"])): row for row in ds}
    assert sorted(rows) == [("train", 0), ("train", 2), ("valid", 1)]
    assert rows["valid", 1]["boxes"].tolist() == [[0, 0, 5, 4]]
    assert ds["image"].bytes(0) == jpeg(0)


def test_image_of_a_bad_voc_annotation_can_be_left_out(dst, tmp_path):
    ds = tl.ingest.voc(voc_folder(tmp_path, "<annotation>"), dst, on_error="skip")

    assert [one.item for one in ds.ingest_report.skipped] == ["0.jpg"]
    assert [ds["image"].bytes(row) for row in range(len(ds))] == [jpeg(1)]


def coco_file(tmp_path: Path, annotations: list[dict], **category) -> tuple[Path, Path]:
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    (tmp_path / "b.jpg").write_bytes(jpeg(2))
    content = {
        "images": [
            {"id": 7, "file_name": "a.jpg", "height": 12, "width": 10},
            {"id": 8, "file_name": "b.jpg", "height": 12, "width": 10},
        ],
        "annotations": annotations,
        "categories": [{"id": 3, "name": "person", **category}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(content))
    return tmp_path / "coco.json", tmp_path


OBJECT_7 = {"image_id": 7, "id": 1, "bbox": [1, 1, 4, 4], "area": 16}
RUNS = encode_run_lengths(np.arange(120).reshape(12, 10) % 7 == 0)


def test_coco_masks_are_those_of_polygons_and_runs(dst, tmp_path):
    one = {"image_id": 7, "category_id": 3, "bbox": [1, 1, 4, 4], "id": 1}
    annotations = [
        {**one, "segmentation": [[1, 1, 5, 1, 5, 5, 1, 5]]},
        {**one, "segmentation": RUNS, "iscrowd": 1},
    ]

    ds = tl.ingest.coco(*coco_file(tmp_path, annotations), dst)

    square = np.zeros((12, 10), bool)
    square[1:5, 1:5] = True
    assert np.array_equal(ds[0]["mask"], [square, decode_run_lengths(RUNS)])
    assert ds[1]["mask"].shape[0] == 0
    assert (
        "mask"
        not in tl.ingest.coco(tmp_path / "coco.json", tmp_path, f"{dst}-2", masks=False).schema
    )


def test_coco_keypoints_keep_names_and_skeleton(dst, tmp_path):
    one = {"image_id": 7, "category_id": 3, "bbox": [1, 1, 4, 4], "id": 1}
    annotations = [{**one, "keypoints": [1, 2, 2, 0, 0, 0], "num_keypoints": 1}]
    category = {"keypoints": ["nose", "tail"], "skeleton": [[1, 2]]}

    ds = tl.ingest.coco(*coco_file(tmp_path, annotations, **category), dst)

    assert ds[0]["keypoints"].tolist() == [[[1, 2, 2], [0, 0, 0]]]
    assert ds.schema["keypoints"] == tl.Keypoints(
        ["nose", "tail"], [(0, 1)], of="image", per="boxes"
    )


def test_coco_captions_are_sequences_of_text(dst, tmp_path):
    annotations = [
        {"image_id": 7, "id": 1, "caption": "one"},
        {"image_id": 7, "id": 2, "caption": "two"},
    ]

    ds = tl.ingest.coco(*coco_file(tmp_path, annotations), dst)

    assert ds["captions"][:] == [["one", "two"], []]


@pytest.mark.parametrize("segmentation", [[[1, 2]], [["a"] * 6], {"size": [1, 1], "counts": [5]}])
def test_bad_coco_segmentation_names_its_image(dst, tmp_path, segmentation):
    one = {"image_id": 7, "category_id": 3, "id": 1, "segmentation": segmentation}

    with pytest.raises(InvalidInputError, match=r"a\.jpg"):
        tl.ingest.coco(*coco_file(tmp_path, [one]), dst)


def test_coco_points_of_several_classes_have_no_names(dst, tmp_path):
    one = {"image_id": 7, "category_id": 3, "bbox": [1, 1, 4, 4]}
    annotations = [{**one, "id": 1, "keypoints": [1, 2, 2, 3, 4, 2]}, {**one, "id": 2}]

    ds = tl.ingest.coco(*coco_file(tmp_path, annotations, keypoints=[], skeleton=[[0, 1]]), dst)

    assert ds[0]["keypoints"].tolist() == [[[1, 2, 2], [3, 4, 2]], [[0, 0, 0], [0, 0, 0]]]
    assert ds.schema["keypoints"] == tl.Keypoints(of="image", per="boxes")


def test_coco_annotations_go_to_their_images_whatever_their_order(dst, tmp_path):
    one = {"category_id": 3, "segmentation": [[1, 1, 5, 1, 5, 5, 1, 5]]}
    annotations = [
        {**one, "image_id": 8, "id": 1, "bbox": [1, 1, 4, 4], "area": 16},
        {**one, "image_id": 7, "id": "2", "bbox": [0, 0, 2, 2], "segmentation": RUNS},
        {**one, "image_id": 8, "id": 3, "bbox": [2, 2, 3.5, 3], "iscrowd": True},
    ]

    ds = tl.ingest.coco(*coco_file(tmp_path, annotations), dst)

    assert [one.tolist() for one in ds["annotation_id"][:]] == [[2], [1, 3]]
    assert [one.tolist() for one in ds["boxes"][:]] == [
        [[0, 0, 2, 2]],
        [[1, 1, 5, 5], [2, 2, 5.5, 5]],
    ]
    assert [one.tolist() for one in ds["iscrowd"][:]] == [[0], [0, 1]]
    assert [one.shape for one in ds["mask"][:]] == [(1, 12, 10), (2, 12, 10)]
    assert np.array_equal(ds[0]["mask"][0], decode_run_lengths(RUNS))


def test_coco_file_with_pythons_nan_is_read(dst, tmp_path):
    one = {**OBJECT_7, "category_id": 3, "area": float("nan")}

    ds = tl.ingest.coco(*coco_file(tmp_path, [{**one, "segmentation": RUNS}]), dst)

    assert np.isnan(ds[0]["area"]).all()
    assert np.array_equal(ds[0]["mask"], [decode_run_lengths(RUNS)])


def test_coco_annotations_of_no_image_are_reported(dst, tmp_path):
    one = {"category_id": 3, "bbox": [1, 1, 4, 4]}
    annotations = [{**one, "image_id": 99, "id": 5}, {**one, "image_id": 7, "id": 6}]

    ds = tl.ingest.coco(*coco_file(tmp_path, annotations), dst)

    assert ds[0]["annotation_id"].tolist() == [6]
    [left_out] = ds.ingest_report.skipped
    assert "1 annotation" in left_out.reason
    assert "annotation 5 of image 99" in left_out.reason


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        ({"category_id": 4}, "annotation 1 of 'a.jpg' has category 4, which it does not list"),
        ({}, "annotation 1 of 'a.jpg' has category None"),
        (
            {"category_id": 3, "bbox": [1, 2, 3]},
            r"annotation 1 of image 7 is wrong: .*length 4 - at `\$.bbox`",
        ),
        ({"category_id": "cat"}, r"annotation 1 of image 7 is wrong: .*`\$.category_id`"),
        ({"category_id": 3, "keypoints": [1, 2]}, "has 2 numbers as keypoints"),
        ({"category_id": 3, "iscrowd": -1}, "iscrowd"),
        ({"segments_info": []}, "panoptic"),
    ],
)
def test_bad_coco_annotation_is_told_by_its_place(dst, tmp_path, annotation, told):
    with pytest.raises(InvalidInputError, match=told):
        tl.ingest.coco(*coco_file(tmp_path, [OBJECT_7 | annotation]), dst)


def test_coco_file_with_two_images_of_one_number_is_refused(dst, tmp_path):
    file, images = coco_file(tmp_path, [])
    file.write_text(file.read_text().replace('"id": 8', '"id": 7'))

    with pytest.raises(InvalidInputError, match=r"two images 7: 'a\.jpg', 'b\.jpg'"):
        tl.ingest.coco(file, images, dst)


def test_coco_outlines_need_the_size_of_their_image(dst, tmp_path):
    one = {**OBJECT_7, "category_id": 3, "segmentation": [[1, 1, 5, 1, 5, 5, 1, 5]]}
    file, images = coco_file(tmp_path, [one])
    file.write_text(file.read_text().replace('"height": 12, ', ""))

    with pytest.raises(InvalidInputError, match="image 7 has no height and width"):
        tl.ingest.coco(file, images, dst)


def test_image_with_a_bad_segmentation_can_be_left_out(dst, tmp_path):
    one = {**OBJECT_7, "category_id": 3, "segmentation": [[1, 2]]}

    ds = tl.ingest.coco(*coco_file(tmp_path, [one]), dst, on_error="skip")

    assert [ds["image"].bytes(row) for row in range(len(ds))] == [jpeg(2)]
    [skipped] = ds.ingest_report.skipped
    assert skipped.item == "a.jpg"
    assert "a polygon of 1 points" in skipped.reason


# ---- WebDataset


def shard(path: Path, samples: dict[str, dict[str, bytes]]) -> None:
    with tarfile.open(path, "w") as tar:
        for key, fields in samples.items():
            for field, content in fields.items():
                member = tarfile.TarInfo(f"{key}.{field}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def npy(array) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_shards_become_rows_of_their_fields(dst, tmp_path):
    for number in range(2):
        shard(
            tmp_path / f"{number}.tar",
            {
                f"s{number}{i}": {
                    "jpg": jpeg(number * 10 + i),
                    "cls": str(i).encode(),
                    "txt": b"caption",
                    "json": b'{"a": 1}',
                    "npy": npy(np.arange(i)),
                    "seg.png": png(np.zeros((2, 2, 3), np.uint8)),
                }
                for i in range(3)
            },
        )

    ds = tl.ingest.webdataset(tmp_path, dst, schema={"cls": tl.ClassLabel(["a", "b", "c"])})

    assert ds["key"][:] == ["s00", "s01", "s02", "s10", "s11", "s12"]
    assert (ds["cls"][:] == ["a", "b", "c"] * 2).all()
    assert [len(row) for row in ds["npy"][:]] == [0, 1, 2] * 2
    assert ds["json"][0] == {"a": 1}
    assert ds["jpg"].bytes(4) == jpeg(11)
    assert ds["seg.png"][0].shape == (2, 2, 3)


def test_shards_of_unequal_samples_are_refused(dst, tmp_path):
    shard(tmp_path / "x.tar", {"a": {"txt": b"1"}, "b": {"cls": b"1"}})

    with pytest.raises(InvalidInputError, match=r"sample 'b' of .* has cls;\s+the first has txt"):
        tl.ingest.webdataset(tmp_path / "x.tar", dst)


@pytest.mark.parametrize(
    ("name", "words"), [("x.tar", "not a tar file"), ("x.tar.gz", "compressed")]
)
def test_what_is_no_shard_is_refused(dst, tmp_path, name, words):
    (tmp_path / name).write_bytes(b"x" * 2000)

    with pytest.raises(InvalidInputError, match=words):
        tl.ingest.webdataset(tmp_path / name, dst)


def test_pickled_arrays_in_shards_are_refused(dst, tmp_path):
    out = io.BytesIO()
    np.save(out, np.array([{}], dtype=object), allow_pickle=True)
    shard(tmp_path / "x.tar", {"a": {"npy": out.getvalue()}})

    with pytest.raises(InvalidInputError, match=r"not a \.npy file"):
        tl.ingest.webdataset(tmp_path / "x.tar", dst)
