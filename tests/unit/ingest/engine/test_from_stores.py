"""Pictures with and without annotations, ingested from a store by URL as from a folder."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.storage import open_store, runtime
from tests.unit.ingest.vision.test_annotations import (
    VOC,
    coco_file,
    jpeg,
    voc_folder,
    yolo_folder,
)

OBJECT = {
    "id": 1,
    "image_id": 7,
    "category_id": 3,
    "bbox": [1, 1, 4, 4],
    "area": 16,
    "segmentation": [[1, 1, 5, 1, 5, 5, 1, 5]],
}


@pytest.fixture
def dst(tmp_path):
    return f"memory://from-store-{tmp_path.name}"


@pytest.fixture
def upload(tmp_path) -> Callable[[Path], str]:
    """Put all files of a folder into a store in memory; returns its URL."""
    url = f"memory://pictures-{tmp_path.name}/raw"

    def put(folder: Path) -> str:
        store = open_store(url)
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            name = path.relative_to(folder).as_posix()
            runtime.run(store.put_if_absent(name, path.read_bytes()))
        return url

    return put


def assert_same(ingested: tl.Dataset, local: tl.Dataset) -> None:
    assert ingested.schema == local.schema
    assert len(local)
    assert ingested.to_arrow().equals(local.to_arrow())


def in_classes(folder: Path) -> Path:
    for number, name in enumerate(["train/cat/a.jpg", "train/dog/ü b.jpg", "val/cat/c.jpg"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg(number))
    return folder


@pytest.mark.parametrize("end", ["", "/"])
def test_folders_of_images_are_classes_in_a_store_too(end, upload, dst, tmp_path):
    local = in_classes(tmp_path / "local")
    url = upload(local) + end

    ds = tl.ingest.images(url, dst)

    assert_same(ds, tl.ingest.images(local, f"{dst}-local"))
    assert tl.ingest.images(url, dst).ingest_report.already_there == 3


def test_a_zip_file_of_a_store_is_read_where_it_lies(upload, dst, tmp_path):
    (tmp_path / "zips").mkdir()
    with zipfile.ZipFile(tmp_path / "zips" / "p.zip", "w") as archive:
        archive.writestr("cat/a.jpg", jpeg(1))
        archive.writestr("dog/b.jpg", jpeg(2))

    ds = tl.ingest.images(f"{upload(tmp_path / 'zips')}/p.zip", dst)

    assert_same(ds, tl.ingest.images(tmp_path / "zips" / "p.zip", f"{dst}-local"))


def test_coco_is_read_from_a_store(upload, dst, tmp_path):
    (tmp_path / "local").mkdir()
    file, images = coco_file(tmp_path / "local", [OBJECT])
    url = upload(tmp_path / "local")

    ds = tl.ingest.coco(f"{url}/coco.json", url, dst)

    assert_same(ds, tl.ingest.coco(file, images, f"{dst}-local"))
    assert_same(tl.ingest.coco(file, url, f"{dst}-mixed"), ds)


@pytest.mark.parametrize("named", ["", "/data.yaml"])
def test_yolo_is_read_from_a_store(named, upload, dst, tmp_path):
    local = yolo_folder(tmp_path / "local", ["1 0.5 0.5 0.2 0.5", "0 0.1 0.1 0.2 0.2"])

    ds = tl.ingest.yolo(upload(local) + named, dst)

    assert_same(ds, tl.ingest.yolo(local, f"{dst}-local"))
    assert len(ds[0]["boxes"]) == 2


def test_yolo_folders_above_the_file_that_names_them_are_found(upload, dst, tmp_path):
    yolo_folder(tmp_path / "local", ["1 0.5 0.5 0.2 0.5"])
    text = (tmp_path / "local" / "data.yaml").read_text()
    (tmp_path / "local" / "data.yaml").unlink()
    (tmp_path / "local" / "about").mkdir()
    (tmp_path / "local" / "about" / "data.yaml").write_text(f"path: ..\n{text}")

    ds = tl.ingest.yolo(f"{upload(tmp_path / 'local')}/about/data.yaml", dst)

    assert_same(ds, tl.ingest.yolo(tmp_path / "local" / "about", f"{dst}-local"))


def test_voc_is_read_from_a_store(upload, dst, tmp_path):
    local = voc_folder(tmp_path / "local", VOC)

    ds = tl.ingest.voc(upload(local), dst)

    assert_same(ds, tl.ingest.voc(local, f"{dst}-local"))
    assert ds[1]["mask"].tolist() == [[1] * 10] * 12


def write_arrays(folder: Path) -> Path:
    folder.mkdir()
    rows = np.arange(12, dtype=np.int16).reshape(4, 3)
    np.save(folder / "x.npy", rows)
    np.savez(folder / "x.npz", x=rows, name=np.array(["a", "b", "c", "d"]))
    (folder / "x.idx").write_bytes(b"\0\0\x0b\2\0\0\0\4\0\0\0\3" + rows.astype(">i2").tobytes())
    (folder / "y.idx.gz").write_bytes(gzip.compress(b"\0\0\x08\1\0\0\0\4\0\1\0\1"))
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
    return folder


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_numpys_files_are_read_from_a_store(name, upload, dst, tmp_path):
    local = write_arrays(tmp_path / "local")
    url = f"{upload(local)}/{name}"

    ds = tl.ingest.numpy(url, dst)

    assert_same(ds, tl.ingest.numpy(local / name, f"{dst}-local"))
    assert tl.ingest.numpy(url, dst).ingest_report.already_there == 4


def test_idx_is_read_from_a_store(upload, dst, tmp_path):
    local = write_arrays(tmp_path / "local")
    url = upload(local)

    ds = tl.ingest.idx(f"{url}/x.idx", f"{url}/y.idx.gz", dst)

    assert_same(ds, tl.ingest.idx(local / "x.idx", local / "y.idx.gz", f"{dst}-local"))
    assert_same(ds, tl.ingest.idx(local / "x.idx", f"{url}/y.idx.gz", f"{dst}-mixed"))


def test_a_damaged_array_of_a_store_is_told_by_its_url(upload, dst, tmp_path):
    url = upload(write_arrays(tmp_path / "local"))

    with pytest.raises(InvalidInputError, match=r"'memory://.*/raw/cut\.npy' is not NumPy's"):
        tl.ingest.numpy(f"{url}/cut.npy", dst)
    with pytest.raises(InvalidInputError, match=r"'memory://.*/raw/cut\.npy' cannot be ingested"):
        tl.ingest.idx(f"{url}/cut.npy", None, dst)


@pytest.mark.parametrize(
    ("ingest", "told"),
    [
        (tl.ingest.images, "no images in 'memory://"),
        (lambda url, dst: tl.ingest.images(f"{url}/notes.txt", dst), "complete zip or tar file"),
        (lambda url, dst: tl.ingest.coco(f"{url}/x.json", url, dst), "no file 'memory://"),
        (tl.ingest.yolo, "0 YAML files"),
        (tl.ingest.voc, "no images in a folder 'JPEGImages'"),
        (lambda url, dst: tl.ingest.numpy(f"{url}/x.npy", dst), "no file 'memory://"),
        (lambda url, dst: tl.ingest.idx(f"{url}/x", f"{url}/y", dst), "no file 'memory://"),
    ],
)
def test_a_store_without_such_files_is_told(ingest, told, upload, dst, tmp_path):
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "notes.txt").write_text("nothing")

    with pytest.raises(InvalidInputError, match=told):
        ingest(upload(tmp_path / "local"), dst)


def test_an_image_that_the_coco_file_lists_and_the_store_lacks_is_named(upload, dst, tmp_path):
    (tmp_path / "local").mkdir()
    file, images = coco_file(tmp_path / "local", [OBJECT])
    (images / "b.jpg").unlink()

    with pytest.raises(InvalidInputError, match=r"no image 'memory://.*b\.jpg' \(image 8"):
        tl.ingest.coco(file, upload(tmp_path / "local"), dst)
