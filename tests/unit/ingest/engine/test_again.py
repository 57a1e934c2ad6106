"""Ingestion called again (A4).

The same call adds nothing, and brings the dataset to a source that is not as it was. Another
source, other arguments, and an append of items that are there already are refused by name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

import datasets
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake.storage import open_store, runtime
from tests.support.sources import SOURCES, Kind, make_folder, write
from tests.unit.ingest.vision.test_annotations import jpeg


@pytest.fixture(params=SOURCES)
def kind(request, tmp_path) -> Kind:
    made = SOURCES[request.param]
    made.make(tmp_path)
    return made


@pytest.fixture
def url(tmp_path) -> str:
    """A dataset in memory."""
    return f"memory://{tmp_path.name}"


def contents(url: Any) -> tuple[str, Any]:
    with tl.open(url) as ds:
        return ds.version, ds.to_arrow().to_pylist()


def refused(call: Callable[[], Any], url: str, told: str) -> None:
    before = contents(url)
    with pytest.raises(tl.InvalidInputError, match=told):
        call()
    assert contents(url) == before


@pytest.mark.slow
def test_the_same_call_again_changes_nothing_and_another_is_refused(kind, tmp_path, url):
    ingest = kind.ingest(tmp_path)
    rows = len(ingest(url))
    before = contents(url)

    again = ingest(url, commit_every="1B", workers=1, on_error="skip")

    assert (again.ingest_report.rows, again.ingest_report.already_there) == (0, rows)
    assert contents(url) == before
    for name, value in kind.other.items():
        refused(lambda name=name, value=value: ingest(url, **{name: value}), url, f"{name}=")
    refused(lambda: ingest(url, mode="append"), url, "already")


@pytest.mark.slow
@pytest.mark.parametrize("change", ["grow", "correct"])
def test_a_source_that_is_not_as_it_was_is_what_the_dataset_becomes(kind, change, tmp_path, url):
    ingest = kind.ingest(tmp_path)
    ingest(url)
    getattr(kind, change)(tmp_path)
    expected = kind.grown if change == "grow" else kind.corrected

    if isinstance(expected, str):
        refused(lambda: ingest(url), url, expected)
        return
    report = ingest(url).ingest_report

    assert {name: getattr(report, name) for name in expected} == expected
    anew = ingest(f"{url}-anew")
    assert sorted(map(repr, contents(url)[1])) == sorted(map(repr, anew.to_arrow().to_pylist()))
    assert ingest(url).ingest_report.commits == []


def test_a_correction_of_what_a_killed_run_committed_is_made_with_the_rest(tmp_path, url):
    """A killed run: one of three batches stands, and its source is corrected."""
    make_folder(tmp_path)
    broken = tmp_path / "photos" / "dog" / "7.jpg"
    write(broken, b"\xff\xd8 no picture")
    with pytest.raises(tl.InvalidInputError, match=r"dog/7\.jpg"):
        tl.ingest.images(tmp_path / "photos", url, commit_every="1kB")
    assert 0 < len(tl.open(url)) < 8
    write(broken, jpeg(7))
    write(tmp_path / "photos" / "cat" / "0.jpg", jpeg(70))

    ds = tl.ingest.images(tmp_path / "photos", url, commit_every="1kB")

    assert [ds["image"].bytes(row) for row in range(10)] == [jpeg(n or 70) for n in range(10)]
    assert ds.ingest_report.updated == 1


def test_a_killed_run_goes_on_in_commits_of_another_size(tmp_path, url):
    make_folder(tmp_path)
    broken = tmp_path / "photos" / "dog" / "7.jpg"
    write(broken, b"\xff\xd8 no picture")
    with pytest.raises(tl.InvalidInputError, match=r"dog/7\.jpg"):
        tl.ingest.images(tmp_path / "photos", url, commit_every="1kB")

    ds = tl.ingest.images(tmp_path / "photos", url, on_error="skip")

    assert [ds["image"].bytes(row) for row in range(9)] == [jpeg(n) for n in range(10) if n != 7]
    assert (ds.ingest_report.skipped[0].item, len(ds)) == ("dog/7.jpg", 9)


def test_files_that_were_removed_are_counted_and_deleted_where_asked(tmp_path, url):
    make_folder(tmp_path)
    tl.ingest.images(tmp_path / "photos", url)
    (tmp_path / "photos" / "dog" / "8.jpg").unlink()

    for _ in range(2):
        ds = tl.ingest.images(tmp_path / "photos", url)
        assert (ds.ingest_report.vanished, ds.ingest_report.deleted, len(ds)) == (1, 0, 10)
    ds = tl.ingest.images(tmp_path / "photos", url, delete=True)
    assert (ds.ingest_report.vanished, ds.ingest_report.deleted, len(ds)) == (1, 1, 9)
    assert tl.ingest.images(tmp_path / "photos", url, delete=True).ingest_report.vanished == 0


def test_another_source_is_refused(tmp_path, url):
    make_folder(tmp_path)
    for number in range(3):
        write(tmp_path / "others" / "cat" / f"other{number}.jpg", jpeg(number + 50))
    tl.ingest.images(tmp_path / "photos", url, labels=False)

    refused(
        lambda: tl.ingest.images(tmp_path / "others", url, labels=False),
        url,
        r"'others' is another source than that of .* \('photos'\): 0 of its 3 images are there",
    )


def test_a_source_that_moved_is_the_same(tmp_path, url):
    make_folder(tmp_path)
    tl.ingest.images(tmp_path / "photos", url)
    (tmp_path / "photos").rename(tmp_path / "moved")

    assert tl.ingest.images(tmp_path / "moved", url).ingest_report.rows == 0


def test_what_is_new_is_appended_once_by_itself(tmp_path, url):
    make_folder(tmp_path)
    tl.ingest.images(tmp_path / "photos", url)
    write(tmp_path / "more" / "dog" / "1.jpg", jpeg(20))

    tl.ingest.images(tmp_path / "more", url, mode="append")
    again = tl.ingest.images(tmp_path / "more", url, mode="append")  # as after a kill

    assert (len(again), again.ingest_report.rows, again.ingest_report.already_there) == (11, 0, 1)
    assert tl.ingest.images(tmp_path / "photos", url).ingest_report.rows == 0


def test_items_are_recognised_below_another_folder(tmp_path, url):
    """Nine of ten are new: the one that is there is named, and none is appended."""
    make_folder(tmp_path)
    tl.ingest.images(tmp_path / "photos", url)
    for number in range(9):
        write(tmp_path / "more" / "dog" / f"new{number}.jpg", jpeg(number + 30))
    os.link(tmp_path / "photos" / "dog" / "6.jpg", tmp_path / "more" / "dog" / "6.jpg")

    refused(
        lambda: tl.ingest.images(tmp_path / "more", url, mode="append"),
        url,
        r"1 of 10 images, 'dog/6\.jpg' of 'more' is already in .*\n.*: 'dog/new0\.jpg', 'dog/new1",
    )


def test_an_append_that_was_killed_goes_on(tmp_path, url):
    make_folder(tmp_path)
    tl.create(url, {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])})
    broken = tmp_path / "photos" / "dog" / "7.jpg"
    write(broken, b"\xff\xd8 no picture")
    with pytest.raises(tl.InvalidInputError, match=r"dog/7\.jpg"):
        tl.ingest.images(tmp_path / "photos", url, mode="append", commit_every="1kB")
    write(broken, jpeg(7))

    ds = tl.ingest.images(tmp_path / "photos", url, mode="append", commit_every="1kB")

    assert [ds["image"].bytes(row) for row in range(10)] == [jpeg(n) for n in range(10)]


def test_files_of_the_same_size_and_another_time_are_appended(tmp_path, url):
    """A file that is written anew each day."""
    for day in range(3):
        write(tmp_path / "today.csv", f"x\n{day}\n")
        mode = "append" if day else "create"
        ds = tl.ingest.csv(tmp_path / "today.csv", url, mode=mode)

    assert ds["x"][:].tolist() == [0, 1, 2]


def test_changes_by_hand_are_no_hindrance_when_nothing_is_to_do(tmp_path, url):
    make_folder(tmp_path)
    ds = tl.ingest.images(tmp_path / "photos", url)
    ds["label"][0] = "dog"
    ds.commit("relabel")

    again = tl.ingest.images(tmp_path / "photos", url)

    assert (again.version, again["label"][0], len(again)) == ("main@2", "dog", 10)


def test_a_coco_file_that_is_written_anew_is_the_same_and_a_correction_in_it_comes_in(
    tmp_path, url
):
    for number in range(3):
        write(tmp_path / "p" / f"{number}.jpg", jpeg(number))
    outline = [[1.5, 1.25, 5.0, 1.0, 5.0, 5.0]]
    box = {"category_id": 1, "bbox": [1, 1.5, 4, 4], "area": 16, "segmentation": outline}
    document = {
        "images": [{"id": n, "file_name": f"{n}.jpg", "width": 10, "height": 12} for n in range(3)],
        "annotations": [box | {"id": n, "image_id": n} for n in range(3)],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    tl.ingest.coco(tmp_path / "a.json", tmp_path / "p", url)
    (tmp_path / "a.json").write_text(json.dumps(document, indent=1, sort_keys=True))

    assert tl.ingest.coco(tmp_path / "a.json", tmp_path / "p", url).ingest_report.rows == 0
    document["annotations"][1]["category_id"] = 2
    (tmp_path / "a.json").write_text(json.dumps(document, separators=(",", ":")))
    ds = tl.ingest.coco(tmp_path / "a.json", tmp_path / "p", url)
    assert (ds.ingest_report.updated, ds[1]["label"].as_names()) == (1, ["dog"])


def test_tables_in_memory_are_known_by_their_content(tmp_path, url):
    tl.ingest.arrow(pa.table({"x": [1, 2, 3]}), url)

    assert tl.ingest.arrow(pa.table({"x": [1, 2, 3]}), url).ingest_report.already_there == 3
    refused(lambda: tl.ingest.arrow(pa.table({"x": [1, 2, 4]}), url), url, "known by position")
    refused(lambda: tl.ingest.arrow(pa.table({"x": [1, 2, 3]}), url, mode="append"), url, "already")
    assert len(tl.ingest.arrow(pa.table({"x": [4]}), url, mode="append")) == 4


def test_a_hugging_face_dataset_is_known_by_its_fingerprint(tmp_path, url):
    rows = datasets.Dataset.from_dict({"x": [1, 2, 3]})
    tl.ingest.huggingface(rows, url)

    assert tl.ingest.huggingface(rows, url).ingest_report.already_there == 3
    refused(lambda: tl.ingest.huggingface(rows.select([0, 2]), url), url, "known by position")
    refused(lambda: tl.ingest.huggingface(rows, url, mode="append"), url, "already")


def test_of_a_torch_dataset_length_and_arguments_are_known(tmp_path, url):
    rows = [(1.0, 2), (2.0, 3)]
    tl.ingest.torch(rows, url, names=("x", "y"))

    assert tl.ingest.torch(rows, url, names=("x", "y")).ingest_report.already_there == 2
    refused(lambda: tl.ingest.torch(rows[:1], url, names=("x", "y")), url, "ends earlier")
    refused(lambda: tl.ingest.torch(rows, url, names=("x", "z")), url, "names=")


def test_other_samples_of_a_torch_dataset_of_the_same_length_are_appended(tmp_path, url):
    """Nothing tells them from the first, so nothing may drop them."""
    tl.ingest.torch([1.0, 2.0], url, names=("x",))

    for start in (3.0, 5.0):
        values = [start, start + 1]
        ds = tl.ingest.torch(values, url, names=("x",), mode="append")

    assert ds["x"][:].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_store_tells_changes_by_size_and_time(tmp_path, url):
    src = f"memory://again-{tmp_path.name}/raw"
    store = open_store(src)
    for number in range(3):
        runtime.run(store.put_if_absent(f"{number}.jpg", jpeg(number)))
    tl.ingest.images(src, url)
    assert tl.ingest.images(src, url).ingest_report.already_there == 3
    runtime.run(store.put_if_absent("4.jpg", jpeg(4)))

    assert tl.ingest.images(src, url).ingest_report.added == 1
    for name in ("1.jpg", "4.jpg"):
        runtime.run(store.delete(name))
    runtime.run(store.put_if_absent("1.jpg", jpeg(71)))

    report = tl.ingest.images(src, url).ingest_report

    assert (report.updated, report.vanished, report.unchanged) == (1, 1, 2)
    assert tl.open(url)["image"].bytes(1) == jpeg(71)


def test_a_copy_without_history_is_brought_to_the_source_too(tmp_path, url):
    make_folder(tmp_path)
    tl.ingest.images(tmp_path / "photos", url)
    tl.copy(url, f"{url}-copy", history=False)
    write(tmp_path / "photos" / "cat" / "0.jpg", jpeg(70))

    report = tl.ingest.images(tmp_path / "photos", f"{url}-copy").ingest_report

    assert (report.updated, report.unchanged) == (1, 9)


def test_a_dataset_of_tensorlake_0_1_0_is_known_by_its_keys(tmp_path, url):
    """Its commits have keys of names and sizes, and no notes."""
    make_folder(tmp_path)
    photos = tmp_path / "photos"
    schema = {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])}
    ds = tl.create(url, schema)
    files = sorted(photos.rglob("*.jpg"))
    ds.extend({"image": files, "label": [one.parent.name for one in files]})
    named = "".join(f"{one.parent.name}/{one.name}\0{one.stat().st_size}\0" for one in files)
    digest = hashlib.blake2b(named.encode(), digest_size=16).hexdigest()
    ds.commit("ingest images: 10 rows", key=f"ingest:images:{digest}")

    assert tl.ingest.images(photos, url).ingest_report.already_there == 10
    write(photos / "cat" / "new.jpg", jpeg(99))
    refused(lambda: tl.ingest.images(photos, url), url, r"ingested by tensorlake 0\.1\.0")
