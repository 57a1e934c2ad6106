"""Each advice that an ingestion prints works when it is followed (A4)."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnknownClassError
from tests.support.sources import make_folder, write
from tests.unit.ingest.vision.test_annotations import jpeg


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


def code_between(message: str, start: str, stop: str) -> str:
    assert start in message
    return message.rpartition(start)[2].partition(stop)[0]


def made(folder: Path, url: str) -> Path:
    """Images of cat and dog that are ingested, and one of a fox that is not."""
    make_folder(folder)
    tl.ingest.images(folder / "photos", url)
    write(folder / "photos" / "fox" / "1.jpg", jpeg(30))
    return folder / "photos"


def test_a_new_class_of_the_source_is_added_and_reported(tmp_path, url):
    photos = made(tmp_path, url)

    ds = tl.ingest.images(photos, url)

    assert (len(ds), ds[10]["label"], ds["label"].names) == (11, 2, ("cat", "dog", "fox"))
    assert "'label' has new classes: 'fox'" in str(ds.ingest_report)
    assert tl.ingest.images(photos, url).ingest_report.commits == []


def test_an_append_of_an_unknown_class_says_how_it_is_added(tmp_path, url):
    photos = made(tmp_path, url)
    (tmp_path / "more").mkdir()
    (photos / "fox").rename(tmp_path / "more" / "fox")
    with pytest.raises(
        tl.UnknownClassError, match="add the new classes, and repeat the call: ds"
    ) as caught:
        tl.ingest.images(tmp_path / "more", url, mode="append")

    exec(str(caught.value).rpartition("repeat the call: ")[2], {"tl": tl})

    assert len(tl.ingest.images(tmp_path / "more", url, mode="append")) == 11


def test_an_append_of_a_class_folder_alone_says_which_folder_to_give(tmp_path, url):
    photos = made(tmp_path, url)

    with pytest.raises(
        tl.MissingTensorError, match=r"'label' is the name of a folder that images lie in, and none"
    ):
        tl.ingest.images(photos / "fox", url, mode="append")

    assert len(tl.open(url)) == 10


def test_an_append_of_what_is_there_says_how_the_rest_is_given(tmp_path, url):
    make_folder(tmp_path)
    tl.ingest.images(tmp_path / "photos", url)
    write(tmp_path / "photos" / "dog" / "new.jpg", jpeg(30))
    with pytest.raises(
        tl.InvalidInputError,
        match=r"pass only new items, in a folder that holds class folders: 'dog/new\.jpg'",
    ):
        tl.ingest.images(tmp_path / "photos", url, mode="append")
    (tmp_path / "more" / "dog").mkdir(parents=True)
    (tmp_path / "photos" / "dog" / "new.jpg").rename(tmp_path / "more" / "dog" / "new.jpg")

    assert len(tl.ingest.images(tmp_path / "more", url, mode="append")) == 11


def test_to_begin_anew_is_done_by_the_code_of_the_message(tmp_path, url):
    make_folder(tmp_path)
    tl.ingest.images(tmp_path / "photos", url)
    with pytest.raises(tl.InvalidInputError) as caught:
        tl.ingest.images(tmp_path / "photos", url, labels=False)

    exec(code_between(str(caught.value), "to ingest anew: ", ", or another URL"), {"tl": tl})

    assert "label" not in tl.ingest.images(tmp_path / "photos", url, labels=False).schema


def test_a_dataset_made_by_hand_is_filled_only_while_it_is_empty(tmp_path, url):
    make_folder(tmp_path)
    schema = {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])}
    tl.create(f"{url}-empty", schema)
    ds = tl.create(url, schema)
    ds.append({"image": jpeg(1), "label": "cat"})
    ds.commit("by hand")

    assert len(tl.ingest.images(tmp_path / "photos", f"{url}-empty")) == 10
    with pytest.raises(tl.InvalidInputError, match=r"with other commits \(main@1: 'by hand'\)"):
        tl.ingest.images(tmp_path / "photos", url)
    assert len(tl.open(url)) == 1
    assert len(tl.ingest.images(tmp_path / "photos", url, mode="append")) == 11


def test_a_class_that_the_schema_lacks_is_added_to_the_schema(tmp_path):
    for number, name in enumerate(["cat", "dog"]):
        write(tmp_path / "a" / name / "0.jpg", jpeg(number))
    url = str(tmp_path / "a.tl")

    with pytest.raises(UnknownClassError) as refused:
        tl.ingest.images(tmp_path / "a", url, schema={"label": tl.ClassLabel(["cat"])})

    advice = "to take it: schema={'label': tl.ClassLabel(['cat', 'dog'])}; to leave"
    assert advice in refused.value.message
    schema = {"label": tl.ClassLabel(["cat", "dog"])}
    assert len(tl.ingest.images(tmp_path / "a", url, schema=schema)) == 2


def test_another_source_of_the_same_name_is_named_by_its_whole_path(tmp_path):
    for number, place in enumerate(["a", "b/a"]):
        write(tmp_path / place / "cat" / "0.jpg", jpeg(number))
    url = str(tmp_path / "a.tl")
    tl.ingest.images(tmp_path / "a", url)

    with pytest.raises(InvalidInputError, match=r"b/a' is another source .* \(another 'a'\): 0 of"):
        tl.ingest.images(tmp_path / "b" / "a", url)


def test_images_outside_the_folders_are_counted(tmp_path):
    for number, place in enumerate(["cat/0.jpg", "dog/1.jpg", "loose.jpg"]):
        write(tmp_path / "a" / place, jpeg(number))

    with pytest.raises(InvalidInputError, match=r"\(such as 'cat', 'dog'\): 1 of 3 images\n"):
        tl.ingest.images(tmp_path / "a", str(tmp_path / "a.tl"))


def test_splits_that_a_folder_gets_later_are_followed_as_advised(tmp_path, url):
    for number, name in enumerate(["cat", "dog"]):
        write(tmp_path / "a" / name / f"{number}.jpg", jpeg(number))
    tl.ingest.images(tmp_path / "a", url)
    (tmp_path / "a" / "train").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "a" / name).rename(tmp_path / "a" / "train" / name)
    write(tmp_path / "a" / "val" / "cat" / "9.jpg", jpeg(9))

    with pytest.raises(tl.TensorNotFoundError) as refused:
        tl.ingest.images(tmp_path / "a", url)
    exec(code_between(refused.value.message, "to add it: ", "; then repeat"), {"tl": tl})
    ds = tl.ingest.images(tmp_path / "a", url)

    assert (ds.ingest_report.renamed, ds.ingest_report.added) == (2, 1)
    assert ds["split"][:].as_names() == ["train", "train", "val"]
    assert ds["label"][:].as_names() == ["cat", "dog", "cat"]
