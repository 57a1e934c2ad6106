"""Ingestion: files become committed rows, once, and bad ones are named."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.ingest.engine.source_files import FileReader

DATA = Path(__file__).parents[4] / "examples" / "data"


def _jpeg(seed: int, height: int = 12, width: int = 9) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels)


@pytest.fixture
def folder(tmp_path):
    """Four pictures of two classes."""
    for number, name in enumerate(("cat/a.jpg", "cat/b.JPG", "dog/c.jpeg", "dog/d.jpg")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_jpeg(number))
    (tmp_path / "photos" / "cat" / "notes.txt").write_text("not a picture")
    return tmp_path / "photos"


def test_a_folder_of_images_becomes_rows_in_the_order_of_their_paths(folder):
    ds = tl.ingest.images(folder, "memory://ingest-order")

    assert (ds["label"][:] == ["cat", "cat", "dog", "dog"]).all()
    assert [ds["image"].bytes(row) for row in range(4)] == [_jpeg(number) for number in range(4)]
    assert ds.version == "main@1"
    assert ds.ingest_report.rows == 4
    assert ds.ingest_report.commits == ["main@1"]
    assert "→ memory://ingest-order main@1 (committed in 1 commit)" in str(ds.ingest_report)
    assert ds.ingest_report.nbytes == sum(len(_jpeg(number)) for number in range(4))


def test_splits_above_the_classes_become_a_tensor(folder, tmp_path):
    (tmp_path / "set").mkdir()
    folder.rename(tmp_path / "set" / "train")
    (tmp_path / "set" / "val" / "dog").mkdir(parents=True)
    (tmp_path / "set" / "val" / "dog" / "e.jpg").write_bytes(_jpeg(9))

    ds = tl.ingest.images(tmp_path / "set", "memory://ingest-split")

    assert len(ds.query("WHERE split = 'train'")) == 4
    assert (ds.query("WHERE split = 'val'")["label"][:] == ["dog"]).all()


def test_a_flat_folder_has_no_labels(folder):
    ds = tl.ingest.images(folder / "cat", "memory://ingest-flat")

    assert list(ds.schema) == ["image"]
    assert len(ds) == 2


def test_the_same_call_again_adds_nothing(folder, tmp_path):
    url = str(tmp_path / "lake")
    tl.ingest.images(folder, url)

    again = tl.ingest.images(folder, url)

    assert len(again) == 4
    assert again.version == "main@1"
    assert again.ingest_report.rows == 0
    assert again.ingest_report.already_there == 4


def test_what_a_killed_run_committed_is_not_read_again(folder, tmp_path):
    url = str(tmp_path / "lake")
    size = f"{len(_jpeg(0)) * 2}B"
    broken = folder / "dog" / "c.jpeg"
    whole = broken.read_bytes()
    broken.write_bytes(b"\0" * len(whole))
    with pytest.raises(tl.InvalidInputError, match=r"dog/c\.jpeg"):
        tl.ingest.images(folder, url, commit_every=size)
    committed = len(tl.open(url))
    assert 0 < committed < 4
    broken.write_bytes(whole)

    ds = tl.ingest.images(folder, url, commit_every=size)

    assert [ds["image"].bytes(row) for row in range(4)] == [_jpeg(number) for number in range(4)]
    assert ds.ingest_report.already_there == committed
    assert ds.ingest_report.commits == ["main@2", "main@3"]
    again = tl.ingest.images(folder, url, commit_every=size)
    assert again.ingest_report.commits == []
    assert f"{url} main@3 (nothing to commit)" in str(again.ingest_report)


def test_another_dataset_in_the_place_is_not_touched(folder, tmp_path):
    url = str(tmp_path / "lake")
    other = tl.create(url, {"x": "int64"})
    other.append({"x": 1})
    other.commit("mine")

    with pytest.raises(tl.InvalidInputError, match=r"mode='append'"):
        tl.ingest.images(folder, url)

    assert tl.open(url)["x"][:].tolist() == [1]


def test_append_adds_to_a_dataset(folder, tmp_path):
    url = str(tmp_path / "lake")
    tl.ingest.images(folder, url)
    (tmp_path / "more" / "dog").mkdir(parents=True)
    (tmp_path / "more" / "dog" / "z.jpg").write_bytes(_jpeg(7))

    ds = tl.ingest.images(tmp_path / "more", url, mode="append")

    assert len(ds) == 5
    assert ds["label"][4] == "dog"


def test_a_damaged_image_is_named_and_can_be_skipped(folder, tmp_path):
    (folder / "cat" / "b.JPG").write_bytes(_jpeg(1)[:30])

    with pytest.raises(tl.InvalidInputError, match=r"cat/b\.JPG"):
        tl.ingest.images(folder, str(tmp_path / "strict"))
    ds = tl.ingest.images(folder, str(tmp_path / "lenient"), on_error="skip")

    assert len(ds) == 3
    assert (ds["label"][:] == ["cat", "dog", "dog"]).all()
    assert [skipped.item for skipped in ds.ingest_report.skipped] == ["cat/b.JPG"]
    assert "1 rejected" in str(ds.ingest_report)


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_no_images_are_an_error(tmp_path, what):
    if what == "empty":
        (tmp_path / "empty").mkdir()

    with pytest.raises(tl.InvalidInputError, match=what):
        tl.ingest.images(tmp_path / what, "memory://ingest-none")

    assert not tl.exists("memory://ingest-none")


@pytest.mark.parametrize("size", ["", "8 apples", "-1MB", "0"])
def test_a_size_that_is_none_is_refused(folder, size):
    with pytest.raises(tl.InvalidInputError, match="size"):
        tl.ingest.images(folder, "memory://ingest-size", commit_every=size)


def test_coco_boxes_become_corners_with_a_class_each():
    folder = DATA / "coco"
    content = json.loads((folder / "instances.json").read_text())

    ds = tl.ingest.coco(folder / "instances.json", folder / "images", "memory://ingest-coco")

    names = {category["id"]: category["name"] for category in content["categories"]}
    for row, image in zip(ds, content["images"], strict=True):
        own = [one for one in content["annotations"] if one["image_id"] == image["id"]]
        assert row["image_id"] == image["id"]
        assert row["annotation_id"].tolist() == [one["id"] for one in own]
        assert [ds["label"].names[code] for code in row["label"]] == [
            names[one["category_id"]] for one in own
        ]
        for box, one in zip(row["boxes"], own, strict=True):
            x, y, width, height = one["bbox"]
            assert np.allclose(box, [x, y, x + width, y + height], atol=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "lacks 'images'"),
        ('{"images": []}', "lacks 'annotations'"),
        (
            '{"images": [{"file_name": "x.jpg", "id": 1}], "annotations": [], "categories": []}',
            r"x\.jpg",
        ),
    ],
)
def test_a_file_that_is_not_coco_is_refused(tmp_path, text, message):
    (tmp_path / "instances.json").write_text(text)

    with pytest.raises(tl.InvalidInputError, match=message):
        tl.ingest.coco(tmp_path / "instances.json", tmp_path, "memory://ingest-not-coco")


def test_idx_digits_read_as_numpy_does():
    folder = DATA / "mnist"
    images, labels = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"

    ds = tl.ingest.idx(folder / images, folder / labels, "memory://ingest-idx")

    pixels = np.frombuffer(gzip.decompress((folder / images).read_bytes()), np.uint8, offset=16)
    assert np.array_equal(ds["image"][:], pixels.reshape(-1, 28, 28))
    codes = np.frombuffer(gzip.decompress((folder / labels).read_bytes()), np.uint8, offset=8)
    assert np.array_equal(np.asarray(ds["label"][:]), codes)
    assert ds["label"].names == tuple("0123456789")


@pytest.mark.parametrize("dtype", [">u1", ">i1", ">i2", ">i4", ">f4", ">f8"])
def test_every_dtype_of_idx_is_read(tmp_path, dtype):
    values = np.arange(12, dtype=dtype).reshape(3, 4)
    codes = {">u1": 8, ">i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}
    header = struct.pack(">BBBBII", 0, 0, codes[dtype], 2, 3, 4)
    (tmp_path / "values.idx").write_bytes(header + values.tobytes())

    ds = tl.ingest.idx(tmp_path / "values.idx", None, f"memory://ingest-idx{dtype[1:]}")

    assert np.array_equal(ds["image"][:], values)
    assert ds["image"].dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize("cut", [0, 3, 7, 15, 20])
def test_idx_that_is_cut_short_is_refused(tmp_path, cut):
    header = struct.pack(">BBBBII", 0, 0, 8, 2, 3, 4)
    (tmp_path / "values.idx").write_bytes((header + bytes(12))[:cut])

    with pytest.raises(tl.InvalidInputError, match=r"values\.idx"):
        tl.ingest.idx(tmp_path / "values.idx", None, "memory://ingest-idx-cut")


def test_labels_of_another_length_are_refused(tmp_path):
    (tmp_path / "images").write_bytes(struct.pack(">BBBBII", 0, 0, 8, 2, 3, 4) + bytes(12))
    (tmp_path / "labels").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, 2) + bytes(2))

    with pytest.raises(tl.InvalidInputError, match="3 samples"):
        tl.ingest.idx(tmp_path / "images", tmp_path / "labels", "memory://ingest-idx-uneven")


def test_files_that_changed_since_they_were_listed_are_read_as_they_are(tmp_path):
    contents = [b"same", b"longer than it was", b"short", b""]
    sizes = [4, 3, 50, 0]
    paths = []
    for number, content in enumerate(contents):
        paths.append(str(tmp_path / str(number)))
        Path(paths[-1]).write_bytes(content)

    read = FileReader().read(paths, sizes)

    assert [bytes(one) for one in read] == contents


def test_memory_is_read_into_again_only_when_nobody_looks_at_it(tmp_path):
    """One block after another is given back and taken; what is still looked at stays as it is."""
    random = np.random.default_rng(0)
    contents = [random.bytes(3 << 20) for _ in range(4)]
    paths = [str(tmp_path / str(number)) for number in range(4)]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    reader = FileReader()

    (first,) = reader.read(paths[:1], [3 << 20])
    kept = first[1 << 20 :]
    place = np.frombuffer(first, np.uint8).ctypes.data
    del first
    (second,) = reader.read(paths[1:2], [3 << 20])
    del kept
    (third,) = reader.read(paths[2:3], [3 << 20])

    assert np.frombuffer(second, np.uint8).ctypes.data != place
    assert np.frombuffer(third, np.uint8).ctypes.data == place
    assert (bytes(second), bytes(third)) == (contents[1], contents[2])


def test_what_was_read_outlives_its_reader(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(256)))

    (read,) = FileReader().read([str(tmp_path / "a")], [256])

    assert bytes(read) == bytes(range(256))
    with pytest.raises(TypeError):
        read[0] = 1


def test_source_that_cannot_be_read_leaves_a_dataset_that_the_next_call_fills(tmp_path):
    """Reading begins before the dataset is there; its errors are told after."""
    for number in range(2):
        (tmp_path / f"{number}.jpg").write_bytes(b"no picture")

    with pytest.raises(tl.InvalidInputError, match=r"0\.jpg"):
        tl.ingest.images(tmp_path, tmp_path / "t.tl")
    for number in range(2):
        (tmp_path / f"{number}.jpg").write_bytes(_jpeg(number))

    assert len(tl.ingest.images(tmp_path, tmp_path / "t.tl")) == 2


def test_ingestion_that_was_killed_while_it_made_the_dataset_is_completed(folder, tmp_path):
    tl.create(
        tmp_path / "t.tl", {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])}
    )
    shutil.rmtree(tmp_path / "t.tl" / "branches")

    ds = tl.ingest.images(folder, tmp_path / "t.tl")

    assert (len(ds), ds.version) == (4, "main@1")


def test_pieces_of_a_source_fill_chunks_together():
    rows = 3_000  # 24 MB: three pieces
    arrays = {"x": np.zeros((rows, 8_192), np.uint8), "label": np.arange(rows)}

    ds = tl.ingest.numpy(arrays, "memory://pieces-fill-chunks")

    snapshot = session_of(ds).committed
    assert len(snapshot.extents(snapshot.spec("label").id)) == 1
