"""Items that cannot be ingested are left out alone, each with its reason and tensor (A7).

By default the first of them is an error that names it, and nothing of its batch is committed.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tests.unit.ingest.vision.test_annotations import jpeg

GOOD = 3
SIZE = {"width": 10, "height": 12}


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three good images."""
    (tmp_path / "p").mkdir()
    for number in range(GOOD):
        (tmp_path / "p" / f"{number}.jpg").write_bytes(jpeg(number))
    return tmp_path / "p"


def skipped(ds: tl.Dataset) -> dict[str, tuple[str, str | None]]:
    report = ds.ingest_report
    assert report is not None
    return {one.item: (one.reason, one.tensor) for one in report.skipped}


def test_a_cut_image_is_an_error_that_names_it(folder, url):
    (folder / "bad.jpg").write_bytes(jpeg(9)[:-200])

    with pytest.raises(tl.InvalidInputError, match=r"bad\.jpg: .* not a whole JPEG: .* no FF D9"):
        tl.ingest.images(folder, url)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("half.jpg", jpeg(9)[: len(jpeg(9)) // 2], "not a whole JPEG"),
        ("zeros.jpg", jpeg(9)[:-200] + bytes(200), "not a whole JPEG"),
        ("empty.jpg", b"", "not a whole JPEG"),
        ("text.jpg", b"<html>404</html>", "not a whole JPEG"),
        ("other.jpg", b"GIF89a" + bytes(99), "is GIF"),
    ],
)
def test_an_image_that_is_none_is_left_out_and_quarantined(folder, url, name, content, reason):
    (folder / name).write_bytes(content)

    ds = tl.ingest.images(folder, url, on_error="quarantine")

    assert len(ds) == GOOD
    ((item, (told, tensor)),) = skipped(ds).items()
    assert (item, tensor) == (name, "image")
    assert reason in told
    (row,) = tl.open(ds.ingest_report.quarantine)
    assert (row["item"], row["reason"], row["tensor"]) == (name, told, "image")
    assert row["content"] == content


def test_what_has_an_images_name_and_is_no_file_is_left_out(folder, url):
    os.mkfifo(folder / "pipe.jpg")  # which would be waited for
    (folder / "gone.jpg").symlink_to(folder / "nothing")
    (folder / "folder.jpg").mkdir()

    ds = tl.ingest.images(folder, url, on_error="skip")

    assert len(ds) == GOOD
    assert set(skipped(ds)) == {"pipe.jpg", "gone.jpg"}


def test_bad_members_of_a_zip_file_are_left_out(tmp_path, url):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        for number in range(GOOD):
            archive.writestr(f"{number}.jpg", jpeg(number))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("1.jpg", jpeg(7))
    damaged = bytearray((tmp_path / "p.zip").read_bytes())
    damaged[damaged.find(jpeg(2)[-50:])] ^= 0xFF
    (tmp_path / "p.zip").write_bytes(damaged)

    ds = tl.ingest.images(tmp_path / "p.zip", url, on_error="skip")

    assert [ds["image"].bytes(row) for row in range(len(ds))] == [jpeg(0)]
    assert {item: told[0].partition(":")[0] for item, told in skipped(ds).items()} == {
        "1.jpg": f"'{tmp_path / 'p.zip'}' contains two files '1.jpg'".partition(":")[0],
        "2.jpg": f"'2.jpg' of '{tmp_path / 'p.zip'}' cannot be read",
    }


def coco(folder: Path, **changes: Any) -> Path:
    """A file of three images with an object each, and changes of the second image's object."""
    objects: list[dict[str, Any]] = [
        {"id": n + 10, "image_id": n, "category_id": 1, "bbox": [1, 1, 4, 4]} for n in range(GOOD)
    ]
    images: list[dict[str, Any]] = [{"id": n, "file_name": f"{n}.jpg", **SIZE} for n in range(GOOD)]
    images[1] |= changes.pop("image", {})
    if "keypoints" in changes:
        for one in objects:
            one["keypoints"] = [1, 1, 2, 3, 3, 2]
    objects[1] |= changes
    document = {
        "images": images,
        "annotations": objects,
        "categories": [{"id": 1, "name": "cat"}],
    }
    (folder.parent / "a.json").write_text(json.dumps(document))
    return folder.parent / "a.json"


@pytest.mark.parametrize(
    ("changes", "item", "reason", "tensor"),
    [
        ({"image": {"file_name": "no.jpg"}}, "no.jpg", "no image", "image"),
        ({"image": {"file_name": "a/0.jpg/1.jpg"}}, "a/0.jpg/1.jpg", "no image", "image"),
        ({"image": {"file_name": "0.jpg/1.jpg"}}, "0.jpg/1.jpg", "cannot be read", "image"),
        ({"image": {"file_name": "\0"}}, "\0", "a name that no file has", "image"),
        ({"category_id": 99}, "1.jpg", "annotation 11 has category 99, which", "label"),
        ({"category_id": None}, "1.jpg", "annotation 11 has category None, which", "label"),
        ({"keypoints": [1, 1, 2]}, "1.jpg", "annotation 11 has 3 numbers as keypoi", "keypoints"),
        (
            {"image": {"width": 0}, "segmentation": [[1, 1, 4, 1, 4, 4]]},
            "1.jpg",
            "annotation 11 has outlines, but the image has no height and width",
            "mask",
        ),
        ({"segmentation": {"size": [12, 10], "counts": [1, 2]}}, "1.jpg", "annotation 11", "mask"),
        (
            {"bbox": [1, 2, 3]},
            "1.jpg",
            "annotation 11 of image 1 is wrong: Expected `array` of len",
            None,
        ),
        ({"area": "x"}, "1.jpg", "annotation 11 of image 1 is wrong: Expected `float", None),
        ({"image": {"file_name": None}}, "images[1]", "not an image of COCO: Expected `str`", None),
    ],
)
def test_an_image_that_coco_says_wrongly_is_left_out(folder, url, changes, item, reason, tensor):
    file = coco(folder, **changes)
    with pytest.raises(tl.InvalidInputError):
        tl.ingest.coco(file, folder, f"{url}-strict")

    ds = tl.ingest.coco(file, folder, url, on_error="quarantine")

    assert ds["image_id"][:].tolist() == [0, 2]
    assert ds["annotation_id"][:].lengths.tolist() == [1, 1]
    told = skipped(ds)
    strays = told.pop("a.json", ("", None))[0]  # of an image that cannot be listed
    assert strays.startswith("1 annotation of") == (item == "images[1]")
    assert list(told) == [item]
    assert reason in told[item][0]
    assert told[item][1] in {tensor, None}
    rows = tl.open(ds.ingest_report.quarantine)
    assert (item, told[item][0]) in [(row["item"], row["reason"]) for row in rows]


def test_coco_of_which_nothing_can_be_ingested_is_an_error(folder, url):
    file = coco(folder)
    for path in folder.iterdir():
        path.unlink()

    with pytest.raises(tl.InvalidInputError, match=r"no image of .* can be ingested: no image"):
        tl.ingest.coco(file, folder, url, on_error="skip")


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_damaged_row_group_is_left_out(tmp_path, url, damaged):
    pq.write_table(
        pa.table({"x": np.arange(300)}), tmp_path / "x.parquet", row_group_size=100,
        compression="zstd", use_dictionary=False,
    )  # fmt: skip
    groups = pq.ParquetFile(tmp_path / "x.parquet").metadata
    start = groups.row_group(damaged).column(0).data_page_offset
    content = bytearray((tmp_path / "x.parquet").read_bytes())
    content[start : start + 40] = b"\xff" * 40
    (tmp_path / "x.parquet").write_bytes(content)

    with pytest.raises(tl.InvalidInputError, match=f"row group {damaged} of .* cannot be read"):
        tl.ingest.parquet(tmp_path / "x.parquet", f"{url}-strict")
    ds = tl.ingest.parquet(tmp_path / "x.parquet", url, on_error="skip")

    kept = [x for x in range(300) if x // 100 != damaged]
    assert ds["x"][:].tolist() == kept
    assert list(skipped(ds)) == [f"x.parquet[{damaged}:{damaged + 1}]"]


def test_a_file_that_is_not_parquet_is_left_out(tmp_path, url):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])

    ds = tl.ingest.parquet(tmp_path, url, on_error="skip")

    assert (ds["x"][:].tolist(), list(skipped(ds))) == ([1, 2], ["b.parquet"])


class Failing:
    """A torch dataset whose third sample cannot be read."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, row: int) -> dict[str, int]:
        if row == 2:
            raise OSError("image file is truncated")
        return {"x": row}


def test_a_sample_that_a_torch_dataset_cannot_give_is_left_out(url):
    with pytest.raises(OSError, match="truncated"):
        tl.ingest.torch(Failing(), f"{url}-strict")
    ds = tl.ingest.torch(Failing(), url, on_error="skip")

    assert ds["x"][:].tolist() == [0, 1, 3, 4]
    assert "image file is truncated" in next(iter(skipped(ds).values()))[0]


def test_the_same_call_quarantines_nothing_twice(folder, url):
    (folder / "half.jpg").write_bytes(jpeg(9)[:-200])
    file = coco(folder, category_id=99)
    for _ in range(2):
        ds = tl.ingest.coco(file, folder, url, on_error="quarantine")
        tl.ingest.images(folder, f"{url}-images", on_error="quarantine")

    assert len(ds) == GOOD - 1
    assert len(tl.open(f"{url}-quarantine")) == 1
    assert len(tl.open(f"{url}-images-quarantine")) == 1


def test_a_quarantine_that_0_1_0_made_is_continued(folder, url):
    (folder / "half.jpg").write_bytes(jpeg(9)[:-200])
    schema = {"item": tl.Text(), "reason": tl.Text(), "values": tl.Json()}
    old = tl.create(f"{url}-quarantine", schema | {"content": tl.Bytes(nullable=True)})
    old.extend({"item": ["a"], "reason": ["b"], "values": [{}], "content": [None]})
    old.commit("quarantine: 1 item")

    tl.ingest.images(folder, url, on_error="quarantine")

    rows = tl.open(f"{url}-quarantine")
    assert [(row["item"], row["tensor"]) for row in rows] == [("a", None), ("half.jpg", "image")]


def test_images_outside_the_classes_are_quarantined_too(folder, url):
    (folder / "cat").mkdir()
    (folder / "0.jpg").rename(folder / "cat" / "0.jpg")

    ds = tl.ingest.images(folder, url, on_error="quarantine")

    assert len(ds) == 1
    assert sorted(tl.open(f"{url}-quarantine")["item"][:]) == ["1.jpg", "2.jpg"]


def test_a_folder_that_cannot_be_read_is_never_passed_over(folder, url):
    """Its path is longer than a path may be, which no right overcomes, root's neither."""
    (folder / "x.csv").write_text("x\n1\n")
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=deep)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    calls = {
        "images": lambda: tl.ingest.images(folder, f"{url}-images"),
        "csv": lambda: tl.ingest.csv(folder, f"{url}-csv"),
        "voc": lambda: tl.ingest.voc(folder, f"{url}-voc"),
    }

    for call in calls.values():
        with pytest.raises(tl.InvalidInputError, match="cannot be read: File name too long"):
            call()
    ds = tl.ingest.images(folder, url, labels=False, on_error="skip")
    shutil.rmtree(folder)

    assert len(ds) == GOOD
    ((item, (reason, _)),) = skipped(ds).items()
    assert item.endswith("d" * 200)
    assert reason == "the folder cannot be read: File name too long"
