"""Each real sample of the data packs goes in, and comes out as its own library reads it.

The packs lie beside the repository (``../shared/data``: real pictures, COCO, YOLO, Pascal VOC, IDX,
tables, text); without them these tests are skipped. What is stored encoded comes out bit for bit;
where pixels are encoded anew, the least likeness is stated.
"""

from __future__ import annotations

import gzip
import json
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree as ET

import imagecodecs
import numpy as np
import pandas as pd
import PIL.Image
import pyarrow.parquet as pq
import pytest
import yaml
from pycocotools.coco import COCO
from webdataset import reraise_exception, tariterators

import tensorlake as tl
from tensorlake.errors import InvalidInputError

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
FORMATS = DATA / "formats_datumaro"
# pycocotools' own, of NumPy 2
pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason="the data packs are not beside the repository"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
PICTURES = sorted((DATA / "images_misc").glob("*.*g")) if DATA.is_dir() else []
LOSSLESS = ("png", "tiff", "webp", "jpeg2000")
LEAST_DB = {"jpeg": 38, "avif": 38}
"""Likeness of pixels that are encoded and decoded: peak signal to noise, in decibels."""


@pytest.fixture
def dst(tmp_path):
    return f"memory://real-{tmp_path.name}"


# ---- pictures


def test_folders_of_images_are_read_by_webdataset(dst, tmp_path):
    files = sorted((DATA / "cifar10_jpg").glob("*/*.jpg"))
    ds = tl.ingest.images(DATA / "cifar10_jpg", dst)

    ds.to_webdataset(tmp_path / "shards")

    (shard,) = (tmp_path / "shards").glob("*.tar")
    with shard.open("rb") as stream:
        source = [{"url": str(shard), "stream": stream}]
        read = [
            *tariterators.group_by_keys(
                tariterators.tar_file_expander(source, handler=reraise_exception)
            )
        ]
    assert len(files) == len(read) == 600
    names = ds["label"].names
    assert [one["image.jpg"] for one in read] == [file.read_bytes() for file in files]
    assert [names[int(one["label.cls"])] for one in read] == [file.parent.name for file in files]


@pytest.mark.slow
def test_photographs_are_read_by_pyarrow_with_every_byte(dst, tmp_path):
    files = sorted((DATA / "imagenet300").glob("*.JPEG"))
    ds = tl.ingest.images(DATA / "imagenet300", dst)

    ds.to_parquet(tmp_path / "photographs.parquet")

    stored = pq.read_table(tmp_path / "photographs.parquet")["image"]
    assert len(files) == len(stored) == 300
    assert all(one.as_py() == file.read_bytes() for one, file in zip(stored, files, strict=True))
    for row in range(0, 300, 60):
        with PIL.Image.open(files[row]) as image:
            assert ds["image"].shapes(row)[:2] == image.size[::-1]


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.name)
def test_odd_images_are_stored_as_they_came_and_read_as_pillow_reads_them(file, dst):
    with PIL.Image.open(file) as image:
        codec, mode = image.format.lower(), image.mode
        expected = np.asarray(image)
    if file.name == "chessboard_RGB.png":  # of which Pillow keeps eight of sixteen bits
        mode, expected = "RGB16", imagecodecs.png_decode(file.read_bytes())
    ds = tl.create(dst, {"image": tl.Image(codec, mode=None if mode == "RGB" else mode)})
    ds.append({"image": file})
    ds.commit("a picture")

    pixels = ds[0]["image"]

    assert ds["image"].bytes(0) == file.read_bytes()
    assert ds["image"].shapes(0) == pixels.shape
    assert pixels.dtype == expected.dtype
    unlike = np.abs(pixels.squeeze().astype(int) - expected).max()
    assert unlike <= (1 if codec == "jpeg" else 0)


@pytest.mark.parametrize("codec", [*LOSSLESS, *LEAST_DB])
def test_pixels_encoded_anew_are_as_like_as_stated(codec, dst):
    with PIL.Image.open(DATA / "images_misc" / "chelsea.png") as image:
        pixels = np.asarray(image)
    ds = tl.create(dst, {"image": tl.Image(codec)})
    ds.append({"image": pixels})
    ds.commit("a cat")

    with PIL.Image.open(BytesIO(ds["image"].bytes(0))) as image:
        read = np.asarray(image.convert("RGB"))

    error = np.square(read.astype(float) - pixels).mean()
    if codec in LOSSLESS:
        assert error == 0
    else:
        assert 10 * np.log10(255**2 / error) >= LEAST_DB[codec]
    assert np.abs(ds[0]["image"].astype(int) - read).max() <= 1


def test_animation_is_told_to_be_no_codec(dst):
    ds = tl.create(dst, {"image": tl.Image("png")})

    with pytest.raises(InvalidInputError, match=r"'image' stores PNG, but .* is GIF\ngive its"):
        ds.append({"image": DATA / "images_misc" / "no_time_for_that_tiny.gif"})


def test_class_masks_are_read_as_pillow_reads_them(dst):
    files = sorted((DATA / "coco128" / "semantic_segmentation" / "masks").rglob("*.png"))[:12]
    ds = tl.create(dst, {"mask": tl.SegmentMask()})
    ds.extend({"mask": files})
    ds.commit("masks")

    for row, file in enumerate(files):
        with PIL.Image.open(file) as image:
            assert (ds["mask"][row] == np.asarray(image)).all(), file.name


# ---- annotations


def same_annotations(original, ours):
    """All annotations of a COCO file, as pycocotools reads them there and in what we wrote."""
    one, other = COCO(original), COCO(ours)
    assert sorted(other.imgs) == sorted(one.imgs)
    assert sorted(other.anns) == sorted(one.anns)
    names = {number: category["name"] for number, category in one.cats.items()}
    for number, expected in one.anns.items():
        found = other.anns[number]
        assert found["image_id"] == expected["image_id"]
        assert other.cats[found["category_id"]]["name"] == names[expected["category_id"]]
        assert np.allclose(found["bbox"], expected["bbox"], atol=1e-3)
        assert found["iscrowd"] == expected["iscrowd"]
        assert found["area"] == pytest.approx(expected["area"], rel=1e-6)
        if "keypoints" in expected and any(expected["keypoints"]):
            assert np.allclose(found["keypoints"], expected["keypoints"])
        if expected.get("segmentation") and "segmentation" in found:
            assert (other.annToMask(found) == one.annToMask(expected)).all()
    return len(one.anns)


@pytest.mark.slow
def test_coco_is_read_by_its_own_tools_with_every_mask(dst, tmp_path, capsys):
    original = DATA / "coco_tiny" / "annotations" / "instances_train2017.json"
    ds = tl.ingest.coco(original, DATA / "coco_tiny" / "train2017", dst)

    ds.to_coco(tmp_path / "out")

    assert same_annotations(original, tmp_path / "out" / "annotations.json") == 705
    for picture in json.loads((tmp_path / "out" / "annotations.json").read_text())["images"]:
        stored = (tmp_path / "out" / "images" / picture["file_name"]).read_bytes()
        name = f"{picture['id']:012}.jpg"
        assert stored == (DATA / "coco_tiny" / "train2017" / name).read_bytes()
    capsys.readouterr()


COCO_SAMPLES = [
    (f"coco_dataset/{kind}/annotations/{file}_{split}.json", f"coco_dataset/{kind}/images/{split}")
    for kind, file in [
        ("coco_instances", "instances"),
        ("coco_person_keypoints", "person_keypoints"),
    ]
    for split in ("train", "val")
] + [
    (f"roboflow_dataset/coco/{split}/_annotations.coco.json", f"roboflow_dataset/coco/{split}")
    for split in ("train", "val")
]


@pytest.mark.parametrize(("file", "images"), COCO_SAMPLES, ids=lambda text: text.split("/")[-1])
def test_coco_of_other_programs_is_read_by_its_own_tools(file, images, dst, tmp_path, capsys):
    ds = tl.ingest.coco(FORMATS / file, FORMATS / images, dst)

    ds.to_coco(tmp_path / "out")

    assert same_annotations(FORMATS / file, tmp_path / "out" / "annotations.json")
    capsys.readouterr()


def test_captions_are_read_by_cocos_own_tools(dst, tmp_path, capsys):
    pack = DATA / "coco_captions"
    tl.ingest.coco(pack / "captions.json", pack / "images", dst).to_coco(tmp_path / "out")

    one, other = COCO(pack / "captions.json"), COCO(tmp_path / "out" / "annotations.json")

    assert len(one.imgs) == 30
    for number in one.imgs:
        told = [
            [annotation["caption"] for annotation in tools.imgToAnns[number]]
            for tools in (one, other)
        ]
        assert told[0] == told[1]
    capsys.readouterr()


def yolo_pack(folder, task):
    """The pack keeps labels of several tasks apart from its pictures; YOLO has them beside."""
    folder.mkdir()
    (folder / "images").symlink_to(DATA / "coco128" / "images")
    (folder / "labels").symlink_to(DATA / "coco128" / task / "labels")
    layout = yaml.safe_load((DATA / "coco128" / task / "config.yaml").read_text())
    del layout["val"]  # it is named, and not there
    (folder / "data.yaml").write_text(yaml.safe_dump(layout))
    return layout["names"]


@pytest.mark.parametrize("task", ["object_detection", "instance_segmentation"])
def test_yolo_labels_are_read_as_boxes_by_cocos_tools(task, dst, tmp_path, capsys):
    numbered = yolo_pack(tmp_path / "yolo", task)
    ds = tl.ingest.yolo(tmp_path / "yolo", dst)
    ds.to_coco(tmp_path / "out")

    tools = COCO(tmp_path / "out" / "annotations.json")

    files = sorted((DATA / "coco128" / "images" / "train2017").glob("*.jpg"))
    assert len(ds) == len(files) == len(tools.imgs)
    for row, file in enumerate(files):
        labels = (tmp_path / "yolo" / "labels" / "train2017" / file.name).with_suffix(".txt")
        lines = labels.read_text().splitlines() if labels.exists() else []
        found = [tools.imgToAnns[number] for number in sorted(tools.imgs)][row]
        height, width = ds["image"].shapes(row)[:2]
        assert len(found) == len(lines)
        for line, one in zip(lines, found, strict=True):
            number, *shares = line.split()
            values = np.array(shares, np.float64)
            if task == "object_detection":
                (x, y), size = values[:2] - values[2:] / 2, values[2:]
            else:
                outline = values.reshape(-1, 2)
                (x, y), size = outline.min(axis=0), np.ptp(outline, axis=0)
            box = np.array([x, y, *size]) * [width, height, width, height]
            assert np.allclose(one["bbox"], box, atol=1e-3 * max(width, height))
            assert tools.cats[one["category_id"]]["name"] == numbered[int(number)]
    capsys.readouterr()


def test_yolo_folders_that_roboflow_wrote_are_read(dst):
    layout = yaml.safe_load((FORMATS / "roboflow_dataset" / "yolo" / "data.yaml").read_text())
    assert layout["train"] == "../train/images"
    with pytest.raises(
        InvalidInputError, match="valid/images', which the YAML file names as 'val'"
    ):
        tl.ingest.yolo(FORMATS / "roboflow_dataset" / "yolo", dst)  # the sample calls it val


@pytest.mark.parametrize("name", ["voc_dataset1", "voc_dataset3"])
def test_pascal_voc_is_what_its_xml_says(name, dst):
    folder = FORMATS / "voc_dataset" / name
    ds = tl.ingest.voc(folder, dst)

    for row, picture in enumerate(sorted((folder / "JPEGImages").iterdir())):
        file = folder / "Annotations" / f"{picture.stem}.xml"
        objects = ET.parse(file).findall("object") if file.exists() else []
        told = [
            [float(one.find("bndbox").findtext(side)) for side in ("xmin", "ymin", "xmax", "ymax")]
            for one in objects
        ]
        assert ds["image"].bytes(row) == picture.read_bytes()
        # pixels are counted from 1 there: the first corner is one less
        expected = np.array(told, np.float32).reshape(-1, 4)
        assert np.abs(ds["boxes"][row] - expected).max(initial=0) <= 1
        assert ds[row]["label"].as_names() == [one.findtext("name") for one in objects]


# ---- arrays, tables, text


def test_digits_of_idx_are_read_by_numpy(dst, tmp_path):
    images, labels = (
        DATA / "mnist" / f"t10k-{one}-ubyte.gz" for one in ("images-idx3", "labels-idx1")
    )
    tl.ingest.idx(images, labels, dst).to_numpy(tmp_path / "digits.npz")

    read = np.load(tmp_path / "digits.npz")

    whole = np.frombuffer(gzip.decompress(images.read_bytes()), np.uint8, offset=16)
    assert (read["image"] == whole.reshape(-1, 28, 28)).all()
    codes = np.frombuffer(gzip.decompress(labels.read_bytes()), np.uint8, offset=8)
    assert (read["label"] == codes).all()


TABLES = {
    "criteo_sample.txt": {},
    "movielens_sample.txt": {},
    "goodbooks_books_sample.csv": {},
    "goodbooks_ratings_sample.csv": {},
    "goodbooks_tags_sample.csv": {},
    "iris.csv": {},
    "digits.csv.gz": {"names": [f"p{at}" for at in range(64)] + ["digit"]},
    "diabetes_data_raw.csv.gz": {"names": [f"f{at}" for at in range(10)], "delimiter": " "},
    "diabetes_target.csv.gz": {"names": ["target"]},
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_come_out_as_pandas_reads_the_original(name, dst, tmp_path):
    options = TABLES[name]
    ds = tl.ingest.csv(DATA / "tabular" / name, dst, **options)
    ds.to_csv(tmp_path / "out.csv")
    ds.to_parquet(tmp_path / "out.parquet")

    expected = pd.read_csv(
        DATA / "tabular" / name, names=options.get("names"), sep=options.get("delimiter", ",")
    )

    # 33.0 is written as 33: where a column has no other numbers, pandas reads integers
    again = pd.read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(again, expected, check_exact=True, check_dtype=False)
    columnar = pd.read_parquet(tmp_path / "out.parquet")
    assert list(columnar.columns) == list(expected.columns)
    for column in expected.select_dtypes("number"):
        assert np.array_equal(columnar[column], expected[column], equal_nan=True), column


def test_citations_come_out_as_numpy_reads_them(dst):
    file = DATA / "graph_cora" / "cora.cites"

    ds = tl.ingest.csv(file, dst, delimiter="\t", names=["cited", "citing"])

    read = np.loadtxt(file, np.int64)
    assert (np.stack([ds["cited"][:], ds["citing"][:]], axis=1) == read).all()


def test_text_of_every_language_comes_out_as_it_is(dst, tmp_path):
    files = sorted(file for file in (DATA / "text").rglob("*.txt"))
    kept = [file.read_bytes().decode(errors="replace") for file in files]
    lines = tmp_path / "in.jsonl"
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in kept))
    ds = tl.ingest.jsonl(lines, dst)
    ds.to_jsonl(tmp_path / "out.jsonl")
    ds.to_parquet(tmp_path / "out.parquet")

    with (tmp_path / "out.jsonl").open(encoding="utf-8") as written:
        again = [json.loads(line)["text"] for line in written]

    assert len(kept) > 200
    assert ds["text"][:] == kept
    assert again == kept
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == kept


def test_files_of_any_other_kind_come_out_with_every_byte(dst, tmp_path):
    packs = [DATA / name for name in ("audio", "medical", "mesh", "pdf", "video")]
    files = sorted(file for pack in packs for file in pack.rglob("*.*") if file.is_file())
    ds = tl.create(dst, {"file": tl.Bytes()})
    ds.extend({"file": files})
    ds.commit("files")
    ds.to_parquet(tmp_path / "files.parquet")

    stored = pq.read_table(tmp_path / "files.parquet")["file"].to_pylist()

    assert stored == [file.read_bytes() for file in files]
