"""Named pipes, sockets, devices and links to themselves, where files are expected: refused at once.

Every test here would wait for ever, or raise a bare OSError, if such a file were opened.
"""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl

KINDS = ["a named pipe", "a socket", "a device", "Too many levels"]
READERS = ["images", "yolo", "voc", "csv", "jsonl", "parquet", "webdataset", "numpy"]


def make(kind, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path has at most 108 bytes
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
        finally:
            os.chdir(here)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to(path)
    return path


@pytest.fixture
def dst(tmp_path):
    return f"memory://special-{tmp_path.name}"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_is_no_file_is_refused(kind, reader, dst, tmp_path):
    ending = {"numpy": "npy", "webdataset": "tar"}.get(reader, reader)
    source = make(kind, tmp_path / f"special.{ending}")

    with pytest.raises(tl.InvalidInputError, match="special"):
        getattr(tl.ingest, reader)(source, dst)


@pytest.mark.parametrize("reader", ["csv", "jsonl", "parquet", "webdataset"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_a_folder_of_shards_one_that_is_no_file_is_refused(kind, reader, dst, tmp_path):
    make(kind, tmp_path / f"special.{'tar' if reader == 'webdataset' else reader}")

    with pytest.raises(tl.InvalidInputError, match="special"):
        getattr(tl.ingest, reader)(tmp_path, dst)


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_folder_of_images_one_that_is_no_file_is_refused_or_left_out(kind, dst, tmp_path):
    special = make(kind, tmp_path / "cat" / "a.jpg")
    (tmp_path / "cat" / "b.jpg").write_bytes(simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8)))

    with pytest.raises(tl.InvalidInputError, match=kind):
        tl.ingest.images(tmp_path, dst)

    ds = tl.ingest.images(tmp_path, f"{dst}-skipped", on_error="skip")
    assert len(ds) == 1
    assert [special.name in one.item for one in ds.ingest_report.skipped] == [True]


def test_a_folder_that_links_to_itself_is_passed_over(dst, tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "b.jpg").write_bytes(simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8)))
    (tmp_path / "cat" / "again").symlink_to(tmp_path / "cat" / "again")
    (tmp_path / "loop").symlink_to(tmp_path)

    assert len(tl.ingest.images(tmp_path, dst)) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample_type", [tl.Image("jpeg"), tl.Bytes(), tl.Text()])
def test_a_sample_that_is_no_file_is_refused(kind, sample_type, dst, tmp_path):
    special = make(kind, tmp_path / "special")
    with tl.create(dst, {"x": sample_type}) as ds:
        with pytest.raises(tl.InvalidInputError, match=kind):
            ds.append({"x": tl.File(special)})

        assert len(ds) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_dataset_that_is_no_folder_is_not_found(kind, tmp_path):
    special = make(kind, tmp_path / "special")

    with pytest.raises(tl.TensorlakeError, match="special"):
        tl.open(special)
    with pytest.raises(tl.TensorlakeError, match="special"):
        tl.create(special, {"x": "int64"})


@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "Too many levels"])
def test_an_object_of_a_dataset_that_is_no_file_is_an_error(kind, tmp_path):
    tl.create(tmp_path / "ds", {"x": "int64"}).close()
    (tmp_path / "ds" / "tensorlake.json").unlink()
    make(kind, tmp_path / "ds" / "tensorlake.json")

    with pytest.raises(tl.TensorlakeError):
        tl.open(tmp_path / "ds")


@pytest.mark.parametrize("is_zipped", [False, True])
def test_arrays_of_objects_are_refused_and_not_unpickled(is_zipped, dst, tmp_path):
    objects = np.array([{"a": 1}, None], dtype=object)
    path = tmp_path / ("o.npz" if is_zipped else "o.npy")
    if is_zipped:
        np.savez(path, numbers=np.arange(2), o=objects)
    else:
        np.save(path, objects, allow_pickle=True)

    with pytest.raises(
        tl.InvalidInputError, match=r"holds Python objects.*\ngive arrays of numbers"
    ):
        tl.ingest.numpy(path, dst)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"o": np.array([{"a": 1}, None], dtype=object)}, "'o' is an array of Python objects"),
        ({"o": [[1, 2], [3]]}, "'o' cannot become an array"),
        ({"o": 3}, "'o' is one int64 value"),
        ({3: [1, 2]}, "an array is named by a string, got 3"),
        ({}, "different numbers of rows"),
    ],
)
def test_what_is_no_array_of_rows_is_refused_by_name(arrays, message, dst):
    with pytest.raises(tl.InvalidInputError, match=message):
        tl.ingest.numpy(arrays, dst)
