"""Panoptic files of COCO, written as its documentation and panopticapi do."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from pycocotools import mask as coco_mask

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.vision.coco_panoptic import segment_masks, segment_runs

CATEGORIES = [
    {"id": 1, "name": "cat", "isthing": 1, "supercategory": "animal", "color": [1, 2, 3]},
    {"id": 90, "name": "sky", "isthing": 0, "supercategory": "air", "color": [4, 5, 6]},
]


def id2rgb(ids: np.ndarray) -> Any:
    """The rule of COCO's documentation: id = R + G * 256 + B * 256^2."""
    return np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=-1).astype(np.uint8)


def segments_of(ids: np.ndarray, classes: Any) -> Any:
    made = []
    for id_ in np.unique(ids[ids > 0]).tolist():
        rows, columns = np.nonzero(ids == id_)
        x, y = int(columns.min()), int(rows.min())
        box = [x, y, int(columns.max()) - x + 1, int(rows.max()) - y + 1]
        made.append(
            {"id": id_, "category_id": classes[id_], "bbox": box, "area": len(rows), "iscrowd": 0}
        )
    return made


@pytest.fixture
def ids() -> Any:
    made = np.zeros((12, 20), np.int64)
    made[:6] = 3226956
    made[7:10, 2:9] = 7
    made[8:11, 12:18] = 70_000
    return made


@pytest.fixture
def folder(tmp_path: Path, ids: np.ndarray) -> Any:
    root = tmp_path / "coco"
    (root / "annotations" / "panoptic_val").mkdir(parents=True)
    (root / "val").mkdir()
    classes = {3226956: 90, 7: 1, 70_000: 1}
    document: dict[str, Any] = {
        "info": {},
        "images": [],
        "annotations": [],
        "categories": CATEGORIES,
    }
    for number, shown in enumerate((ids, np.zeros_like(ids), ids[::-1])):
        PIL.Image.new("RGB", (20, 12), (number, 9, 9)).save(root / "val" / f"{number}.jpg")
        PIL.Image.fromarray(id2rgb(shown)).save(root / f"annotations/panoptic_val/{number}.png")
        document["images"].append(
            {"id": number + 5, "file_name": f"{number}.jpg", "width": 20, "height": 12}
        )
        segments = segments_of(shown, classes)
        document["annotations"].append(
            {"image_id": number + 5, "file_name": f"{number}.png", "segments_info": segments}
        )
    (root / "annotations" / "panoptic_val.json").write_text(json.dumps(document))
    return root


def changed(folder: Path, change: Callable[[Any], Any]) -> Path:
    path = folder / "annotations" / "panoptic_val.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def ingested(folder: Path, url: str, **options: Any) -> Any:
    return tl.ingest.coco_panoptic(folder / "annotations" / "panoptic_val.json", url, **options)


def report_of(ds: tl.Dataset) -> tl.ingest.IngestReport:
    report = ds.ingest_report
    assert report is not None
    return report


def test_each_segment_is_a_mask_with_a_class(folder: Path, ids: np.ndarray, tmp_path: Path) -> None:
    ds = ingested(folder, str(tmp_path / "in.tl"))
    row = ds[0]

    assert row["label"].as_names() == ["cat", "cat", "sky"]
    assert row["segment_id"].tolist() == [7, 70_000, 3226956]
    assert row["isthing"].tolist() == [1, 1, 0]
    for mask, id_, box, area in zip(
        row["mask"], row["segment_id"], row["boxes"], row["area"], strict=True
    ):
        expected = np.asfortranarray(ids == id_, np.uint8)
        assert np.array_equal(mask, expected)
        encoded = coco_mask.encode(expected)
        assert coco_mask.area(encoded) == area
        x, y, width, height = coco_mask.toBbox(encoded).tolist()
        assert box.tolist() == [x, y, x + width, y + height]


def test_an_image_without_segments_is_a_row(folder: Path, tmp_path: Path) -> None:
    ds = ingested(folder, str(tmp_path / "in.tl"))

    assert len(ds) == 3
    assert len(ds[1]["label"]) == len(ds[1]["mask"]) == 0
    assert ds[1]["mask"].shape == (0, *ds[1]["image"].shape[:2])
    assert ds["image_id"][:].tolist() == [5, 6, 7]
    assert ds["file_name"][:] == ["0.jpg", "1.jpg", "2.jpg"]


def test_the_same_call_follows_the_file(folder: Path, ids: np.ndarray, tmp_path: Path) -> None:
    url = str(tmp_path / "in.tl")
    ingested(folder, url)
    assert report_of(ingested(folder, url)).unchanged == 3

    changed(
        folder,
        lambda document: document["annotations"][0]["segments_info"][0].update(category_id=90),
    )
    PIL.Image.fromarray(id2rgb(np.roll(ids[::-1], 1, 1))).save(
        folder / "annotations/panoptic_val/2.png"
    )
    changed(folder, lambda document: document["images"].pop(1))
    changed(folder, lambda document: document["annotations"].pop(1))
    ds = ingested(folder, url)

    report = report_of(ds)
    assert (report.added, report.updated, report.unchanged, report.vanished) == (0, 2, 0, 1)
    assert ds[0]["label"].as_names() == ["sky", "cat", "sky"]


def test_folders_can_be_named(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "val", tmp_path / "pictures")
    shutil.move(folder / "annotations" / "panoptic_val", tmp_path / "segments")
    with pytest.raises(InvalidInputError, match="name it: images="):
        ingested(folder, str(tmp_path / "in.tl"))
    ds = ingested(
        folder,
        str(tmp_path / "in.tl"),
        images=tmp_path / "pictures",
        segments=tmp_path / "segments",
    )

    assert len(ds) == 3


def no_annotation(document: Any) -> Any:
    del document["annotations"][0]


CHANGES: list[tuple[Callable[[Any], Any], str]] = [
    (no_annotation, "has no annotation"),
    (lambda document: document["images"].pop(0), "not listed, such as 5"),
    (lambda document: document["images"][0].update(file_name="../0.jpg"), "outside"),
    (lambda document: document["images"][0].update(file_name="9.jpg"), r"no file '9\.jpg'"),
    (lambda document: document["annotations"][0].update(file_name="9.png"), "is missing"),
    (lambda document: document["annotations"][0].update(file_name="/etc/x"), "outside"),
    (lambda document: document["images"][0].update(width=21), "20 × 12, and it is 21 × 12"),
    (lambda document: document["annotations"][0]["segments_info"].pop(), "in the segments"),
    (
        lambda document: document["annotations"][0]["segments_info"][0].update(category_id=2),
        "category 2, which is not listed",
    ),
    (
        lambda document: document["annotations"][0]["segments_info"][0].update(bbox=[1, 1, -2, 3]),
        "negative width",
    ),
]


@pytest.mark.parametrize(("change", "why"), CHANGES)
def test_what_contradicts_itself_is_an_error_or_left_out(
    folder: Path, tmp_path: Path, change: Any, why: str
) -> None:
    changed(folder, change)
    with pytest.raises(InvalidInputError, match=why):
        ingested(folder, str(tmp_path / "in.tl"))
    ds = ingested(folder, str(tmp_path / "skipped.tl"), on_error="skip")

    assert len(ds) == 2
    assert len(report_of(ds).skipped) == 1


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"annotations": None}, "not a panoptic file"),
        ({"categories": [*CATEGORIES, CATEGORIES[0]]}, "two categories"),
        ({"categories": [{"id": 1, "name": ""}]}, "without a name"),
        ({"images": [], "annotations": []}, "annotates no image"),
    ],
)
def test_a_file_of_something_else_is_an_error(
    folder: Path, tmp_path: Path, members: Any, why: str
) -> None:
    changed(folder, lambda document: document.update(members))

    with pytest.raises(InvalidInputError, match=why):
        ingested(folder, str(tmp_path / "in.tl"))


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n", b"no image"])
def test_a_damaged_png_file_is_named(folder: Path, tmp_path: Path, content: bytes) -> None:
    (folder / "annotations/panoptic_val/0.png").write_bytes(content)

    with pytest.raises(InvalidInputError, match=r"'0\.jpg'.*PNG file cannot be read"):
        ingested(folder, str(tmp_path / "in.tl"))


def test_a_png_file_of_one_channel_is_refused(folder: Path, tmp_path: Path) -> None:
    out = io.BytesIO()
    PIL.Image.new("L", (20, 12)).save(out, "PNG")
    (folder / "annotations/panoptic_val/0.png").write_bytes(out.getvalue())

    with pytest.raises(InvalidInputError, match="in the segments"):
        ingested(folder, str(tmp_path / "in.tl"))


@pytest.mark.parametrize("sides", [(1, 1), (5, 4), (33, 17)])
def test_masks_of_one_pass_are_those_of_each_segment(sides: tuple[int, int]) -> None:
    pixels = np.random.default_rng(sides[0]).integers(0, 4, sides)
    ids = sorted({*pixels.reshape(-1).tolist()} - {0}, reverse=True)

    stored = tl.InstanceMask().convert(
        [segment_masks(sides, *segment_runs(pixels), ids)], tensor="mask"
    )

    each = tl.InstanceMask().convert([pixels == np.array(ids)[:, None, None]], tensor="mask")
    assert stored.samples == each.samples
