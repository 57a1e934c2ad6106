"""Classes that a hand renamed stay those of their folder, category or list, whatever changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tensorlake as tl
from tests.support.sources import write
from tests.unit.ingest.vision.test_annotations import jpeg


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://renamed-{tmp_path.name}"


def names_of(ds: tl.Dataset) -> list[str]:
    return [str(one) for one in ds["label"][:].as_names()]


def rename(url: str, old: str, new: str) -> None:
    with tl.open(url) as ds:
        ds["label"].rename(old, new)
        ds.commit("rename")


@pytest.fixture
def photos(tmp_path) -> Path:
    for number, folder in enumerate(["cat", "dog", "dog"]):
        write(tmp_path / "photos" / folder / f"{number}.jpg", jpeg(number))
    return tmp_path / "photos"


def test_a_folder_keeps_its_class_under_the_name_that_a_hand_gave_it(photos, url):
    tl.ingest.images(photos, url)
    rename(url, "dog", "hound")
    again = tl.ingest.images(photos, url)
    assert again.ingest_report.commits == again.ingest_report.classes == []
    assert "new classes" not in str(again.ingest_report)

    write(photos / "dog" / "1.jpg", jpeg(71))
    write(photos / "dog" / "3.jpg", jpeg(3))
    ds = tl.ingest.images(photos, url)

    report = ds.ingest_report
    assert (report.added, report.updated, report.conflicts) == (1, 1, [])
    assert ds["label"].names == ("cat", "hound")
    assert names_of(ds) == ["cat", "hound", "hound", "hound"]


def test_names_that_a_hand_exchanged_stay_exchanged(photos, url):
    tl.ingest.images(photos, url)
    for old, new in (("cat", "x"), ("dog", "cat"), ("x", "dog")):
        rename(url, old, new)
    write(photos / "cat" / "0.jpg", jpeg(70))
    write(photos / "dog" / "1.jpg", jpeg(71))

    assert names_of(tl.ingest.images(photos, url)) == ["dog", "cat", "cat"]


def test_a_class_that_an_ingestion_added_is_known_when_it_is_renamed_too(photos, url):
    tl.ingest.images(photos, url)
    write(photos / "fox" / "3.jpg", jpeg(3))
    added = tl.ingest.images(photos, url)
    assert added.ingest_report.classes == ["'label' has new classes: 'fox'"]
    rename(url, "fox", "vixen")

    write(photos / "fox" / "3.jpg", jpeg(73))
    ds = tl.ingest.images(photos, url)

    assert ds["label"].names == ("cat", "dog", "vixen")
    assert names_of(ds)[3] == "vixen"


def test_a_dropped_class_is_added_again_when_the_source_has_it(photos, url):
    tl.ingest.images(photos, url)
    with tl.open(url) as ds:
        ds.delete([0])
        ds["label"].drop_names(["cat"])
        ds.commit("no cats")
    write(photos / "cat" / "4.jpg", jpeg(4))

    ds = tl.ingest.images(photos, url)

    assert ds["label"].names == ("", "dog", "cat")
    assert sorted(names_of(ds)) == ["cat", "dog", "dog"]


def test_classes_of_items_that_were_left_out_are_not_reported(photos, url):
    tl.ingest.images(photos, url)
    write(photos / "fox" / "4.jpg", b"not an image")

    ds = tl.ingest.images(photos, url, on_error="skip")

    assert ds.ingest_report.classes == []
    assert ds["label"].names == ("cat", "dog")


def coco(folder: Path, categories: dict[int, str], boxes: list[tuple[int, float]]) -> Path:
    write(folder / "p" / "a.jpg", jpeg(1)) if not (folder / "p").exists() else None
    document = {
        "images": [{"id": 1, "file_name": "a.jpg"}],
        "categories": [{"id": number, "name": name} for number, name in categories.items()],
        "annotations": [
            {"id": at, "image_id": 1, "category_id": number, "bbox": [1, 1, side, 2]}
            for at, (number, side) in enumerate(boxes)
        ],
    }
    write(folder / "coco.json", json.dumps(document))
    return folder / "coco.json"


def test_a_category_keeps_its_class_under_the_name_that_a_hand_gave_it(tmp_path, url):
    images = tmp_path / "p"
    tl.ingest.coco(coco(tmp_path, {1: "cat", 3: "dog"}, [(1, 2), (3, 2)]), images, url)
    rename(url, "dog", "hound")
    again = tl.ingest.coco(tmp_path / "coco.json", images, url)
    assert again.ingest_report.commits == again.ingest_report.classes == []

    file = coco(tmp_path, {1: "cat", 2: "cow", 3: "dog"}, [(1, 2), (3, 4), (2, 2)])
    ds = tl.ingest.coco(file, images, url)

    assert ds.ingest_report.conflicts == []
    assert ds["label"].names == ("cat", "hound", "cow")
    assert ds[0]["label"].as_names() == ["cat", "hound", "cow"]
    ds.to_coco(tmp_path / "out")
    written = json.loads((tmp_path / "out" / "annotations.json").read_text())
    assert [(one["id"], one["name"]) for one in written["categories"]] == [
        (1, "cat"),
        (2, "cow"),
        (3, "hound"),
    ]
    assert [one["category_id"] for one in written["annotations"]] == [1, 3, 2]


def test_codes_of_a_list_of_classes_in_another_order_mean_their_names(url):
    datasets = pytest.importorskip("datasets")

    def made(names: list[str], codes: list[int]):
        features = datasets.Features(
            {"id": datasets.Value("int64"), "label": datasets.ClassLabel(names=names)}
        )
        columns = {"id": [*range(len(codes))], "label": codes}
        return datasets.Dataset.from_dict(columns, features=features)

    tl.ingest.huggingface(made(["cat", "dog"], [0, 1]), url, key="id")
    rename(url, "dog", "hound")
    ds = tl.ingest.huggingface(made(["bird", "cat", "dog"], [1, 2, 0]), url, key="id")

    assert ds["label"].names == ("cat", "hound", "bird")
    assert names_of(ds) == ["cat", "hound", "bird"]
    assert (ds.ingest_report.updated, ds.ingest_report.unchanged) == (0, 2)


def test_a_tensor_that_a_hand_renamed_keeps_its_classes(photos, url):
    tl.ingest.images(photos, url)
    rename(url, "dog", "hound")
    with tl.open(url) as ds:
        ds.rename_tensor("label", "kind")
        ds.commit("kind")
    write(photos / "dog" / "3.jpg", jpeg(3))

    ds = tl.ingest.images(photos, url)

    assert ds["kind"].names == ("cat", "hound")
    assert ds[3]["kind"] == "hound"
