"""COCO in and out: the JSON is compared member by member, and read by pycocotools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.types import encode_run_lengths

DATA = Path(__file__).resolve().parents[4] / "examples" / "data" / "coco"
RUNS = encode_run_lengths(np.arange(48).reshape(6, 8) % 5 == 0)
SQUARE = [[1.25, 1.5, 5.123456789, 1.5, 5.0, 5, 1, 5]]
DOCUMENT: dict[str, Any] = {
    "info": {"description": "two images", "year": 2017},
    "licenses": [{"id": 5, "name": "CC BY-SA 2.0", "url": "https://example.org"}],
    "type": "instances",
    "images": [
        {
            "id": 70,
            "file_name": "train/a b.png",
            "width": 8,
            "height": 6,
            "license": 5,
            "coco_url": "http://example.org/a",
            "date_captured": "2013-11-20 14:13:23",
        },
        {"id": 2, "file_name": "b.png", "width": 8, "height": 6, "flickr_url": "é\u2028"},
    ],
    "categories": [
        {"id": 90, "name": "toothbrush", "supercategory": "indoor"},
        {"id": 3, "name": "cat", "supercategory": "animal", "extra": [1, {"a": None}]},
        {"id": 18, "name": "dog", "supercategory": "animal"},
    ],
    "annotations": [
        {
            "id": 9,
            "image_id": 2,
            "category_id": 90,
            "bbox": [0.1, 0.2, 3.3333333333, 4.4],
            "area": 12.3456789,
            "iscrowd": 0,
            "segmentation": SQUARE,
        },
        {
            "id": 4,
            "image_id": 70,
            "category_id": 3,
            "bbox": [1, 2, 4, 3],
            "area": 12,
            "iscrowd": 1,
            "segmentation": {"size": [6, 8], "counts": RUNS["counts"]},
            "attributes": {"occluded": True, "track": "t1"},
        },
        {"id": 7, "image_id": 70, "category_id": 3, "bbox": [1, 2, 4, 3], "score": 0.5},
    ],
}


def write(folder: Path, document: dict[str, Any]) -> Path:
    for image in document["images"]:
        path = folder / "images" / image["file_name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("RGB", (8, 6), (image["id"] % 256, 0, 0)).save(path)
    (folder / "coco.json").write_text(json.dumps(document), encoding="utf-8")
    return folder / "coco.json"


def sorted_by_id(document: dict[str, Any]) -> dict[str, Any]:
    return {
        **document,
        "annotations": sorted(document["annotations"], key=lambda one: one["id"]),
    }


def out(view: Any, folder: Path, **options: Any) -> dict[str, Any]:
    view.to_coco(folder, **options)
    return json.loads((folder / "annotations.json").read_text(encoding="utf-8"))


@pytest.fixture
def ds(tmp_path):
    url = f"memory://coco-round-{tmp_path.name}"
    return tl.ingest.coco(write(tmp_path, DOCUMENT), tmp_path / "images", url)


def test_the_file_comes_out_as_it_came_in(ds, tmp_path):
    written = out(ds, tmp_path / "out")

    assert sorted_by_id(written) == sorted_by_id(DOCUMENT)
    for image in DOCUMENT["images"]:
        source = (tmp_path / "images" / image["file_name"]).read_bytes()
        assert (tmp_path / "out" / "images" / image["file_name"]).read_bytes() == source


def test_the_examples_of_coco_come_out_as_they_came_in(tmp_path):
    url = f"memory://coco-examples-{tmp_path.name}"
    ds = tl.ingest.coco(DATA / "instances.json", DATA / "images", url)

    written = out(ds, tmp_path / "out")

    source = json.loads((DATA / "instances.json").read_text(encoding="utf-8"))
    assert sorted_by_id(written) == sorted_by_id(source)


def test_an_export_ingested_again_is_exported_the_same(ds, tmp_path):
    first = out(ds, tmp_path / "out")
    again = tl.ingest.coco(
        tmp_path / "out" / "annotations.json", tmp_path / "out" / "images", f"{ds.url}-again"
    )

    assert out(again, tmp_path / "again") == first


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_pycocotools_finds_the_same_before_and_after(ds, tmp_path):
    out(ds, tmp_path / "out")
    before, after = COCO(tmp_path / "coco.json"), COCO(tmp_path / "out" / "annotations.json")

    assert after.anns == before.anns
    assert after.imgs == before.imgs
    assert after.cats == before.cats
    assert after.getCatIds(supNms=["animal"]) == [3, 18]
    for number in (4, 9):
        mask, other = after.annToMask(after.anns[number]), before.annToMask(before.anns[number])
        assert (mask == other).all()


def test_records_are_queried_as_json(ds):
    found = ds.query("SELECT * WHERE coco['image']['license'] = 5")

    assert found["file_name"][:] == ["train/a b.png"]
    assert ds[0]["coco"]["annotations"][0]["attributes"] == {"occluded": True, "track": "t1"}


def test_a_missing_area_is_nan_and_stays_missing(ds, tmp_path):
    assert np.isnan(ds[0]["area"][1])
    annotations = out(ds, tmp_path / "out")["annotations"]
    assert "area" not in next(one for one in annotations if one["id"] == 7)


def test_what_was_corrected_by_hand_takes_the_place_of_the_file(ds, tmp_path):
    ds["label"][1] = ["cat"]
    ds["boxes"][0] = [[1, 2, 5, 5], [2, 2, 4, 4]]
    ds["mask"][1] = np.ones((1, 6, 8), np.bool_)
    ds["area"][0] = [12, 4]
    ds.commit("corrected")

    written = out(ds, tmp_path / "out")

    by_id = {one["id"]: one for one in written["annotations"]}
    source = {one["id"]: one for one in DOCUMENT["annotations"]}
    assert by_id[4] == source[4]
    assert by_id[7] == {**source[7], "bbox": [2, 2, 2, 2], "area": 4}
    assert by_id[9] == {
        **source[9],
        "category_id": 3,
        "segmentation": {"size": [6, 8], "counts": [0, 48]},
    }


def test_a_box_that_was_drawn_or_removed_is_in_the_file_or_not(ds, tmp_path):
    empty = np.zeros((1, 6, 8), np.bool_)
    values = {
        **{name: [ds[0][name][1:]] for name in ("boxes", "label", "iscrowd", "area")},
        "annotation_id": [[7]],
        "mask": [empty],
    }
    drawn = {
        "boxes": [*ds[1]["boxes"], [0.5, 0, 2.5, 2]],
        "label": ["toothbrush", "dog"],
        "iscrowd": [0, 0],
        "area": [12.3456789, 4],
        "annotation_id": [9, 100],
        "mask": np.concatenate((ds[1]["mask"], empty)),
    }
    for name, value in values.items():
        ds[name][:] = [*value, drawn[name]]
    ds.commit("drawn")

    written = out(ds, tmp_path / "out")

    by_id = {one["id"]: one for one in written["annotations"]}
    assert set(by_id) == {7, 9, 100}
    assert by_id[9] == DOCUMENT["annotations"][0]
    assert by_id[100]["category_id"] == 18
    assert by_id[100]["bbox"] == [0.5, 0, 2, 2]


def test_classes_renamed_added_and_dropped_keep_the_numbers_of_categories(ds, tmp_path):
    ds["label"].rename("cat", "kitten")
    ds["label"].add_names(["fox"])
    ds["label"][1] = ["fox"]
    ds.commit("classes")

    written = out(ds, tmp_path / "out")

    assert written["categories"] == [
        DOCUMENT["categories"][0],
        {**DOCUMENT["categories"][1], "name": "kitten"},
        DOCUMENT["categories"][2],
        {"id": 91, "name": "fox"},
    ]
    assert [one["category_id"] for one in written["annotations"]] == [3, 3, 91]


def test_without_the_records_categories_count_from_one(ds, tmp_path):
    written = out(ds, tmp_path / "out", columns=["image", "boxes", "label"])

    assert [one["id"] for one in written["categories"]] == [1, 2, 3]
    assert "info" not in written
    assert [one["file_name"] for one in written["images"]] == [f"{n:012d}.png" for n in (0, 1)]


def test_a_view_goes_out_with_the_categories_of_its_dataset(ds, tmp_path):
    written = out(ds.query("SELECT * WHERE image_id = 2"), tmp_path / "out")

    assert written["categories"] == DOCUMENT["categories"]
    assert written["annotations"] == DOCUMENT["annotations"][:1]


def test_names_that_lead_outside_or_are_of_two_rows_are_refused(ds, tmp_path):
    for name in ("../a.png", "/a.png", "train/a b.png"):
        ds["file_name"][1] = name
        with pytest.raises(InvalidInputError, match=r"row 1 has the file_name"):
            ds.to_coco(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    ds.discard()


def test_rows_appended_from_another_file_keep_its_header(ds, tmp_path):
    image = {"id": 11, "file_name": "c.png", "width": 8, "height": 6}
    annotation = {"id": 50, "image_id": 11, "category_id": 3, "bbox": [0, 0, 1, 1]}
    annotation["segmentation"] = SQUARE
    licences = [{"id": 6, "name": "own"}]
    document = {**DOCUMENT, "images": [image], "annotations": [annotation], "licenses": licences}
    (tmp_path / "more").mkdir()
    more = tl.ingest.coco(
        write(tmp_path / "more", document), tmp_path / "more" / "images", ds.url, mode="append"
    )

    written = out(more, tmp_path / "out")

    assert [one["id"] for one in written["licenses"]] == [5, 6]
    assert written["annotations"][-1] == annotation
    assert written["categories"] == DOCUMENT["categories"]


def test_captions_come_out_as_they_came_in(tmp_path):
    annotations = [
        {"id": 31, "image_id": 2, "caption": "a cat"},
        {"id": 12, "image_id": 2, "caption": "a cat", "worker": 7},
        {"id": 5, "image_id": 70, "caption": "nothing"},
    ]
    document = {name: DOCUMENT[name] for name in ("info", "licenses", "images")}
    document["annotations"] = annotations
    url = f"memory://coco-captions-{tmp_path.name}"
    ds = tl.ingest.coco(write(tmp_path, document), tmp_path / "images", url)

    assert sorted_by_id(out(ds, tmp_path / "out")) == sorted_by_id(document)


def test_a_dataset_without_records_is_appended_to_without_them(ds, tmp_path):
    url = f"{ds.url}-old"
    schema = {name: one for name, one in ds.schema.items() if name not in ("coco", "file_name")}
    tl.create(url, schema).close()

    filled = tl.ingest.coco(tmp_path / "coco.json", tmp_path / "images", url)

    assert len(filled) == 2
    assert set(filled.schema) == set(schema)


NUMBERS = st.floats(0, 1000, allow_nan=False) | st.integers(0, 1000)
POLYGON = st.lists(NUMBERS, min_size=3, max_size=6).map(lambda half: half * 2)
WORDS = st.dictionaries(
    st.sampled_from(["note", "track", "ünïcode", "nested"]),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=4), st.lists),
    max_size=2,
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    numbers = draw(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=3, unique=True))
    classes = draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=3, unique=True))
    categories = [{"id": one, "name": f"c{one}", **draw(WORDS)} for one in classes]
    images = [
        {"id": one, "file_name": f"{one}.png", "width": 8, "height": 6, **draw(WORDS)}
        for one in numbers
    ]
    annotations = [
        {
            "id": number,
            "image_id": draw(st.sampled_from(numbers)),
            "category_id": draw(st.sampled_from(classes)),
            "bbox": [*draw(st.tuples(st.floats(0, 8), st.floats(0, 6), NUMBERS, NUMBERS))],
            **draw(st.fixed_dictionaries({}, optional={"area": NUMBERS, "iscrowd": st.just(0)})),
            **draw(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "segmentation": st.lists(POLYGON, max_size=2) | st.just(dict(RUNS)),
                    },
                )
            ),
            **draw(WORDS),
        }
        for number in range(1, draw(st.integers(1, 5)))
    ]
    return {"images": images, "categories": categories, "annotations": annotations}


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(document=documents(), indent=st.sampled_from([None, 1]))
def test_any_file_comes_out_as_it_came_in(tmp_path, document, indent):
    folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    file = write(folder, document)
    file.write_text(json.dumps(document, indent=indent), encoding="utf-8")

    with tl.ingest.coco(file, folder / "images", f"memory://coco-any-{folder}") as ds:
        written = out(ds, folder / "out")

    assert sorted_by_id(written) == sorted_by_id(document)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_outlines_of_boxes_are_polygons_of_coco(tmp_path):
    schema = {
        "image": tl.Image("png"),
        "boxes": tl.BBox(format="xyxy", of="image"),
        "outlines": tl.Polygon(of="image"),
    }
    with tl.create(f"memory://coco-outlines-{tmp_path.name}", schema) as ds:
        ds.append(
            {
                "image": np.zeros((6, 8, 3), np.uint8),
                "boxes": [[0, 0, 4, 3], [1.1, 1, 2, 2]],
                "outlines": [[0, 0, 4, 0, 4, 3], [1.1, 1, 2, 1, 2, 2]],
            }
        )
        ds.commit("outlined")
        out(ds, tmp_path / "out")

    tools = COCO(tmp_path / "out" / "annotations.json")
    first, second = tools.loadAnns(tools.getAnnIds())
    assert first["segmentation"] == [[0, 0, 4, 0, 4, 3]]
    assert second["segmentation"] == [[1.1, 1, 2, 1, 2, 2]]
    assert tools.annToMask(first).sum() > 0


def test_a_category_that_the_file_renamed_is_exported_once(ds, tmp_path):
    document = json.loads(json.dumps(DOCUMENT))
    document["categories"][2] = {"id": 18, "name": "DOG", "supercategory": "animal"}
    document["categories"][0]["id"] = 91
    document["annotations"][0]["category_id"] = 91

    again = tl.ingest.coco(write(tmp_path, document), tmp_path / "images", ds.url)

    assert sorted_by_id(out(again, tmp_path / "out")) == sorted_by_id(document)


def test_a_class_that_a_hand_added_is_exported_before_a_row_has_it(ds, tmp_path):
    ds["label"].add_names(["fox"])
    ds.commit("fox")

    listed = out(ds, tmp_path / "out")["categories"]

    assert listed == [*DOCUMENT["categories"], {"id": 91, "name": "fox"}]
