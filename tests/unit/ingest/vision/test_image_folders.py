"""Folders and archives of pictures as they lie on people's disks."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile

import numpy as np
import PIL.Image
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.errors import InvalidInputError

JPEG = simplejpeg.encode_jpeg(np.full((8, 10, 3), 90, np.uint8))


@pytest.fixture
def ingest(tmp_path):
    urls = []

    def run(src, **options):
        urls.append(f"memory://folders-{tmp_path.name}-{len(urls)}")
        return tl.ingest.images(src, urls[-1], **options)

    yield run
    for url in urls:
        if tl.exists(url):
            tl.delete(url, confirm=url)


def folder(root, *names, content=JPEG):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, JPEG)
    return path


def told(ds):
    names = [name for name in ("split", "label") if name in ds.schema]
    return list(zip(*(ds[name][:].as_names() for name in names), strict=True))


def test_files_that_systems_leave_are_no_images(ingest, tmp_path):
    folder(tmp_path / "a", "cat/1.jpg", "dog/2.JPEG", ".git/3.jpg")
    for junk in ("cat/.DS_Store", "cat/Thumbs.db", "cat/._1.jpg", "desktop.ini"):
        folder(tmp_path / "a", junk, content=b"junk")

    assert told(ingest(tmp_path / "a")) == [("cat",), ("dog",)]


def test_images_of_kinds_that_are_not_stored_are_told_and_never_passed_over(ingest, tmp_path):
    folder(tmp_path / "a", "cat/1.jpg", "cat/2.GIF", "cat/3.bmp")

    with pytest.raises(InvalidInputError, match=r"'cat/2.GIF' .* \(2 files: .bmp, .gif\)"):
        ingest(tmp_path / "a")
    ds = ingest(tmp_path / "a", on_error="skip")

    assert len(ds) == 1
    assert [one.item for one in ds.ingest_report.skipped] == ["cat/2.GIF", "cat/3.bmp"]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_folder_of_such_images_alone_says_so(ingest, tmp_path, on_error):
    with pytest.raises(InvalidInputError, match=r"\.heic"):
        ingest(folder(tmp_path / "a", "1.heic"), on_error=on_error)


@pytest.mark.parametrize("names", [("Train", "Test"), ("training", "testing"), ("train", "dev")])
def test_splits_are_known_by_their_usual_names(ingest, tmp_path, names):
    first, second = names
    ds = ingest(folder(tmp_path / "a", f"{first}/cat/1.jpg", f"{second}/dog/1.jpg"))

    assert sorted(told(ds)) == sorted([(first, "cat"), (second, "dog")])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("photos/cat/1.jpg", "photos/dog/2.jpg"), [("cat",), ("dog",)]),
        (("a/b/cat/1.jpg", "a/b/dog/2.jpg"), [("cat",), ("dog",)]),
        (("p/train/cat/1.jpg", "p/val/dog/2.jpg"), [("train", "cat"), ("val", "dog")]),
        (("p/train/cat/1.jpg", "__MACOSX/p/train/cat/._1.jpg"), [("train", "cat")]),
        (("cat/1.jpg", "dog/2.jpg", ".cache/x.jpg"), [("cat",), ("dog",)]),
        (("cat/1.jpg", "cat/2.jpg"), [("cat",), ("cat",)]),
        (("cat/old/1.jpg", "cat/2.jpg"), [("cat",), ("cat",)]),
        (("cat\\1.jpg", "dog\\2.jpg"), [("cat",), ("dog",)]),
        (("./cat/1.jpg", "/dog/2.jpg"), [("cat",), ("dog",)]),
    ],
)
def test_classes_of_an_archive_are_below_the_folder_that_holds_all(
    ingest, tmp_path, names, expected
):
    assert sorted(told(ingest(zipped(tmp_path / "a.zip", *names)))) == expected


def test_a_tar_file_is_a_folder_and_a_truncated_one_is_refused(ingest, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(folder(tmp_path / "x", "cat/1.jpg", "dog/2.jpg"), "x")

    ds = ingest(tmp_path / "a.tar")

    assert (len(ds), ds["label"].names) == (2, ("cat", "dog"))
    whole = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "b.tar").write_bytes(whole[: whole.index(b"dog/2.jpg") + 600])
    with pytest.raises(
        InvalidInputError, match=r"'.*b\.tar' is damaged: it ends in 'x/dog/2\.jpg'"
    ):
        ingest(tmp_path / "b.tar")


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz"])
def test_a_compressed_tar_file_says_what_to_do(ingest, tmp_path, name):
    with tarfile.open(tmp_path / name, "w:gz") as archive:
        archive.add(folder(tmp_path / "x", "1.jpg"), "x")

    with pytest.raises(InvalidInputError, match="unpack it"):
        ingest(tmp_path / name)


def test_two_folders_that_read_alike_are_refused(ingest, tmp_path):
    folder(tmp_path / "a", "\u00e9/1.jpg", "e\u0301/2.jpg")
    if len([*(tmp_path / "a").iterdir()]) == 1:
        pytest.skip("this file system knows them as one")

    with pytest.raises(InvalidInputError, match="only in how accents are written"):
        ingest(tmp_path / "a")


def test_a_folder_whose_name_is_no_text_is_named(ingest, tmp_path):
    odd = tmp_path / "a" / os.fsdecode(b"\xff")
    try:
        odd.mkdir(parents=True)
    except OSError:
        pytest.skip("this file system takes text alone")
    folder(odd, "1.jpg")

    with pytest.raises(InvalidInputError, match=r"b'\\xff' .* not UTF-8"):
        ingest(tmp_path / "a")


def test_links_in_a_circle_end_and_a_broken_one_is_named(ingest, tmp_path):
    root = folder(tmp_path / "a", "cat/1.jpg")
    (root / "cat" / "again").symlink_to(root)
    (root / "cat" / "2.jpg").symlink_to(root / "cat" / "1.jpg")

    assert len(ingest(root)) == 2
    (root / "cat" / "3.jpg").symlink_to(root / "gone.jpg")
    with pytest.raises(InvalidInputError, match=r"cat/3\.jpg"):
        ingest(root)


def test_an_empty_file_is_named(ingest, tmp_path):
    folder(tmp_path / "a", "cat/1.jpg")
    folder(tmp_path / "a", "cat/2.jpg", content=b"")

    with pytest.raises(InvalidInputError, match=r"cat/2\.jpg: .*\(0 bytes\)"):
        ingest(tmp_path / "a")


def test_imagenets_odd_files_come_in_whole_as_images_of_any_codec(ingest, tmp_path):
    inks, misnamed = io.BytesIO(), io.BytesIO()
    PIL.Image.new("CMYK", (9, 7), (10, 200, 30, 40)).save(inks, "JPEG")
    PIL.Image.new("RGB", (9, 7)).save(misnamed, "PNG")
    root = folder(tmp_path / "a", "n01/1.JPEG")
    folder(root, "n02/2.JPEG", content=inks.getvalue())
    folder(root, "n02/3.JPEG", content=misnamed.getvalue())

    ds = ingest(root, schema={"image": tl.Image("any")})

    assert [ds["image"].bytes(at) for at in range(3)] == [
        JPEG,
        inks.getvalue(),
        misnamed.getvalue(),
    ]
    assert [ds["image"][at].shape[2] for at in range(3)] == [3, 3, 3]


def test_names_of_a_flat_folder_have_the_classes(ingest, tmp_path):
    names = ("cat_1.jpg", "golden_dog_07.jpg", "cat_22.jpg")
    ds = ingest(folder(tmp_path / "a", *names), pattern="{label}_{id}.jpg", schema={"id": "int64"})

    assert ds["label"].names == ("cat", "golden_dog")
    rows = [(row["label"], int(row["id"])) for row in ds]
    assert rows == [("cat", 1), ("cat", 22), ("golden_dog", 7)]


def test_a_pattern_with_folders_is_one_of_paths(ingest, tmp_path):
    root = folder(tmp_path / "a", "train/s1/cat.7.jpg", "val/s2/dog.8.jpg")

    ds = ingest(root, pattern="{split}/{session}/{label}.*.jpg")

    rows = [(row["split"], row["session"], row["label"]) for row in ds]
    assert rows == [("train", "s1", "cat"), ("val", "s2", "dog")]
    assert ds.schema["session"] == tl.Text()


def test_a_name_that_does_not_match_is_told_or_left_out(ingest, tmp_path):
    root = folder(tmp_path / "a", "cat_1.jpg", "readme.jpg")

    with pytest.raises(InvalidInputError, match=r"'readme\.jpg' .* does not match the pattern"):
        ingest(root, pattern="{label}_{id}.jpg")
    ds = ingest(root, pattern="{label}_{id}.jpg", on_error="skip")
    assert len(ds) == 1
    assert [one.item for one in ds.ingest_report.skipped] == ["readme.jpg"]
    with pytest.raises(InvalidInputError, match=r"'cat_x\.jpg': 'x' is not a number"):
        ingest(folder(tmp_path / "b", "cat_x.jpg"), pattern="{label}_{n}.jpg", schema={"n": "int8"})


@pytest.mark.parametrize("pattern", ["", "*.jpg", "{label}_{label}.jpg", "{1x}.jpg", 3])
def test_a_pattern_without_fields_is_refused(ingest, tmp_path, pattern):
    with pytest.raises(InvalidInputError, match="has no fields"):
        ingest(folder(tmp_path / "a", "1.jpg"), pattern=pattern)


@pytest.mark.parametrize("pattern", ["{label:03d}_{id}.jpg", "{}_{id}.jpg", "{label", "{a b}.jpg"])
def test_braces_that_are_not_around_a_name_are_refused(ingest, tmp_path, pattern):
    with pytest.raises(InvalidInputError, match="braces that are not around a name"):
        ingest(folder(tmp_path / "a", "cat_1.jpg"), pattern=pattern)


def test_a_pattern_of_no_file_does_not_advise_to_leave_all_out(ingest, tmp_path):
    with pytest.raises(InvalidInputError, match="2 files of 2") as caught:
        ingest(folder(tmp_path / "a", "cat_1.jpg", "dog_2.jpg"), pattern="{label}-{id}.jpg")

    assert "on_error" not in str(caught.value)


def test_a_renamed_file_of_a_pattern_gets_its_new_class(tmp_path):
    root = folder(tmp_path / "a", "cat_1.jpg", "dog_2.jpg")
    dst = tmp_path / "d.tl"
    tl.ingest.images(root, dst, pattern="{label}_{id}.jpg")

    (root / "cat_1.jpg").rename(root / "dog_1.jpg")
    ds = tl.ingest.images(root, dst, pattern="{label}_{id}.jpg")

    assert ds.ingest_report.renamed == 1
    assert [row["label"] for row in ds] == ["dog", "dog"]


def test_a_table_of_labels_gives_the_tensors_and_its_change_is_followed(ingest, tmp_path):
    src = folder(tmp_path / "photos", "a.jpg", "b.jpg", "far/c.jpg")
    table = tmp_path / "labels.csv"
    table.write_text("file,label,weight\nb.jpg,dog,2\na.jpg,cat,1\nfar/c.jpg,cat,3\n")

    ds = ingest(src, labels=table)
    table.write_text("file,label,weight\nb.jpg,dog,2\na.jpg,dog,1\nfar/c.jpg,cat,3\n")
    again = tl.ingest.images(src, ds.url, labels=table)

    assert (ds["label"].to_list(), ds["weight"].to_list()) == (["cat", "dog", "cat"], [1, 2, 3])
    assert again.ingest_report.updated == 1
    assert again["label"].to_list() == ["dog", "dog", "cat"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": None}, "labels=False"),
        (
            {"labels": [{"file": "a.jpg", "x": 1}], "pattern": "{x}.jpg"},
            "pattern= and labels= both",
        ),
        ({"labels": [{"file": "b.jpg", "x": 1}]}, "a.jpg"),
        ({"labels": 3}, "table"),
    ],
)
def test_labels_that_are_no_table_are_refused(ingest, tmp_path, options, words):
    src = folder(tmp_path / "photos", "a.jpg")

    with pytest.raises(tl.TensorlakeError, match=words):
        ingest(src, **options)
