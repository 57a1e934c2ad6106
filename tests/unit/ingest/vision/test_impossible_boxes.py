"""Boxes that cannot be boxes of their image: one rule for COCO, VOC and YOLO."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.vision.boxes import are_boxes, box_problem
from tests.unit.ingest.vision.test_annotations import jpeg, voc_folder, yolo_folder

HEIGHT, WIDTH = 12, 10

Corners = tuple[float, float, float, float]
Ingest = Callable[..., tl.Dataset]


def coco(folder: Path, box: Corners) -> Ingest:
    (folder / "p").mkdir(parents=True)
    for name in ("a.jpg", "b.jpg"):
        (folder / "p" / name).write_bytes(jpeg(1))
    left, top, right, bottom = box
    document = {
        "images": [
            {"id": at, "file_name": name, "width": WIDTH, "height": HEIGHT}
            for at, name in enumerate(["a.jpg", "b.jpg"])
        ],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            {
                "id": 9,
                "image_id": 0,
                "category_id": 1,
                "bbox": [left, top, right - left, bottom - top],
            }
        ],
    }
    (folder / "coco.json").write_text(json.dumps(document))
    return lambda dst, **options: tl.ingest.coco(folder / "coco.json", folder / "p", dst, **options)


def voc(folder: Path, box: Corners) -> Ingest:
    left, top, right, bottom = box
    corners = {"xmin": left + 1, "ymin": top + 1, "xmax": right, "ymax": bottom}
    text = "".join(f"<{name}>{value!r}</{name}>" for name, value in corners.items())
    size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height></size>"
    voc_folder(
        folder,
        f"<annotation>{size}<object><name>dog</name><bndbox>{text}</bndbox></object></annotation>",
    )
    return lambda dst, **options: tl.ingest.voc(folder, dst, **options)


def yolo(folder: Path, box: Corners) -> Ingest:
    left, top, right, bottom = box
    shares = [
        (left + right) / 2 / WIDTH,
        (top + bottom) / 2 / HEIGHT,
        (right - left) / WIDTH,
        (bottom - top) / HEIGHT,
    ]
    yolo_folder(folder, ["0 " + " ".join(map(repr, shares))])
    return lambda dst, **options: tl.ingest.yolo(folder, dst, task="detect", **options)


FORMATS = [coco, voc, yolo]


@pytest.fixture
def dst(tmp_path):
    return f"memory://boxes-{tmp_path.name}"


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize(
    ("box", "words"),
    [
        ((3, 3, 2, 9), "of negative width or height"),
        ((3, 9, 4, 3), "of negative width or height"),
        ((11, 3, 13, 4), r"outside of its image of 10 × 12 \(width × height\)"),
        ((3, -4, 4, -2), "outside of its image"),
    ],
)
def test_such_a_box_is_refused_and_its_image_left_out(made, box, words, tmp_path, dst):
    ingest = made(tmp_path / "source", box)

    with pytest.raises(InvalidInputError, match=words):
        ingest(dst)

    ds = ingest(dst, on_error="skip")
    (skipped,) = ds.ingest_report.skipped
    assert words.split(r" \(")[0] in skipped.reason
    assert len(ds) == 1


@pytest.mark.parametrize("made", FORMATS)
def test_a_box_may_cross_the_edge_and_have_no_width(made, tmp_path, dst):
    for at, box in enumerate([(-2, -1, 12, 13), (3, 3, 3, 5)]):
        ds = made(tmp_path / str(at), box)(f"{dst}-{at}")
        assert ds["boxes"][0].tolist() == [pytest.approx(box)]


@pytest.mark.parametrize("made", FORMATS)
def test_a_number_that_float32_cannot_hold_is_refused(made, tmp_path, dst):
    with pytest.raises(InvalidInputError, match=r"float32 cannot hold|relative to the image"):
        made(tmp_path / "source", (0, 0, 1e50, 5))(dst)


edges = st.one_of(st.integers(-9, 30), st.sampled_from([1e39, -1e39, float("inf")]))


@settings(max_examples=100, suppress_health_check=[HealthCheck.differing_executors])
@given(st.lists(st.tuples(edges, edges, edges, edges), max_size=4), st.sampled_from([0, 20]))
def test_many_boxes_are_judged_as_each_of_them(boxes: list[Any], side: int):
    corners = np.array(boxes, np.float64).reshape(-1, 4)
    sizes = np.full((len(boxes), 2), side)

    expected = all(box_problem(box, (side, side)) is None for box in boxes)
    assert are_boxes(corners, sizes) == expected
