"""Sources of which every item is bad, with ``on_error="skip"``, for every importer.

Where types are known without an item (by names, an index, metadata, ``schema=``), the dataset is
empty and its report lists the items. Otherwise there is no dataset, and the error names the item.
"""

from __future__ import annotations

import inspect
import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tensorlake.dataset import masked_crc

BAD = b"neither this nor that\xff\xfe"
NUMBERS = {"schema": {"x": "int64"}}

Case = tuple[tuple[Any, ...], dict[str, Any]]


def files(root: Path, *names: str, content: bytes = BAD) -> Case:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return (root,), {}


def written(root: Path, call: str, damaged: str) -> Case:
    """Files that an export wrote, of which those named by a pattern are damaged."""
    with tl.create("memory://all-bad", {"episode": "int64", "x": "float32"}) as ds:
        ds.extend({"episode": [0, 0, 1], "x": [1, 2, 3]})
        getattr(ds, call)(root / "files", **({"fps": 10} if call == "to_lerobot" else {}))
        ds.discard()
    tl.delete("memory://all-bad", confirm="memory://all-bad")
    for path in (root / "files").rglob(damaged):
        path.write_bytes(BAD)
    return (root / "files",), {}


def damaged_row_group(root: Path) -> Case:
    path = root / "x.parquet"
    pq.write_table(pa.table({"x": np.arange(300)}), path, compression="zstd", use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 40] = b"\xff" * 40
    return files(root, path.name, content=bytes(content))


def damaged_chunks(root: Path) -> Case:
    import zarr

    zarr.create_group(str(root / "x.zarr")).create_array("x", data=np.arange(100), chunks=(10,))
    for path in (root / "x.zarr" / "x" / "c").rglob("*"):
        path.write_bytes(BAD)
    return (root / "x.zarr",), {}


def cut_shard(root: Path) -> Case:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("a.jpg")
        member.size = 4096
        tar.addfile(member, io.BytesIO(bytes(4096)))
    return files(root, "a.tar", content=out.getvalue()[:1024])


def records(root: Path, data: bytes, crc: Callable[[bytes], int]) -> Case:
    head = struct.pack("<Q", len(data))
    parts = head, struct.pack("<I", masked_crc("tests")(head)), data, struct.pack("<I", crc(data))
    return files(root, "x.tfrecord", content=2 * b"".join(parts))


def coco(root: Path) -> Case:
    files(root, "images/a.jpg")
    images = [{"id": 1, "file_name": "a.jpg", "width": 4, "height": 4}]
    given = {"images": images, "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    (root / "a.json").write_text(json.dumps(given))
    return (root / "a.json", root / "images"), {}


def panoptic(root: Path) -> Case:
    files(root, "val/a.jpg", "panoptic_val/a.png")
    images = [{"id": 1, "file_name": "a.jpg", "width": 4, "height": 4}]
    annotations = [{"image_id": 1, "file_name": "a.png", "segments_info": []}]
    given = {"images": images, "annotations": annotations, "categories": []}
    (root / "panoptic_val.json").write_text(json.dumps(given))
    return (root / "panoptic_val.json",), {}


def yolo(root: Path) -> Case:
    files(root, "images/a.jpg", "labels/a.txt")
    (root / "data.yaml").write_text("path: .\ntrain: images\nnames: [cat]\n")
    return (root / "data.yaml",), {}


class Broken:
    """A dataset of torch, of which no sample can be read."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, row: int) -> Any:
        raise OSError(f"sample {row} is truncated")


def hugging_face(_: Path) -> Case:
    import datasets

    return (datasets.Dataset.from_dict({"x": ["a", "b"]}),), NUMBERS


CASES: dict[str, Callable[[Path], Case]] = {
    "arrow": lambda _: ((pa.table({"x": ["a", "b"]}),), NUMBERS),
    "audio": lambda root: files(root, "dog/a.wav", "dog/b.wav"),
    "coco": coco,
    "coco_panoptic": panoptic,
    "csv": lambda root: (files(root, "x.csv", content=b"x\na\n")[0], NUMBERS),
    "csv, columns": lambda root: files(root, "x.csv", content=b"x,y\n1\n2\n"),
    "csv, encoding": lambda root: files(root, "x.csv", content=b"x\n\xff\n"),
    "deeplake": lambda root: files(root, "dataset_meta.json"),
    "dicom": lambda root: files(root, "a.dcm", "b.dcm"),
    "hdf5": lambda root: files(root, "a.h5", "b.h5"),
    "huggingface": hugging_face,
    "idx": lambda root: (tuple(files(root, "a", "b")[0][0] / name for name in "ab"), {}),
    "images": lambda root: files(root, "cat/a.jpg", "cat/b.jpg"),
    "jsonl": lambda root: files(root, "x.jsonl"),
    "jsonl, types": lambda root: (files(root, "x.jsonl", content=b'{"x": "a"}\n')[0], NUMBERS),
    "kitti": lambda root: files(root, "training/image_2/0.png", "training/label_2/0.txt"),
    "lerobot": lambda root: written(root, "to_lerobot", "file-*.parquet"),
    "litdata": lambda root: written(root, "to_litdata", "*.bin"),
    "mds": lambda root: written(root, "to_mds", "*.mds*"),
    "mesh": lambda root: files(root, "cup/a.glb"),
    "nifti": lambda root: files(root, "a.nii", "b.nii"),
    "numpy": lambda _: (({"x": np.array(["a", "b"])},), NUMBERS),
    "numpy, file": lambda root: ((files(root, "x.npy")[0][0] / "x.npy",), {}),
    "parquet": lambda root: files(root, "a.parquet", "b.parquet"),
    "parquet, rows": damaged_row_group,
    "pointcloud": lambda root: files(root, "a.ply"),
    "texts": lambda root: files(root, "a.txt"),
    "tfrecord": lambda root: files(root, "x.tfrecord"),
    "tfrecord, checksums": lambda root: records(root, b"\xff", lambda _: 0),
    "tfrecord, examples": lambda root: records(root, b"\xff", masked_crc("tests")),
    "tfrecord, schema": lambda root: (records(root, b"\xff", masked_crc("tests"))[0], NUMBERS),
    "torch": lambda _: ((Broken(),), {}),
    "video": lambda root: files(root, "run/a.mp4"),
    "voc": lambda root: files(root, "JPEGImages/a.jpg", "Annotations/a.xml"),
    "webdataset": lambda root: files(root, "a.tar", "b.tar"),
    "webdataset, samples": cut_shard,
    "yolo": yolo,
    "zarr": damaged_chunks,
}

NAMED_OTHERWISE = {"deeplake", "idx", "numpy, file"}
"""Sources of one description or file, which the error names."""

NEEDS_LIBRARY = {"lance"}
"""tests/extras/formats has it."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("on_error", ["skip", "quarantine"])
@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # of libraries, about their files
def test_items_are_listed_or_named_by_an_error(case: str, on_error: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    sources, given = CASES[case](tmp_path / "src")
    url = f"memory://{tmp_path.name}"
    importer = getattr(tl.ingest, case.partition(",")[0])

    refused = ""
    try:
        ds = importer(*sources, url, on_error=on_error, **given)
    except tl.InvalidInputError as error:
        refused = str(error)

    if refused:
        names = [path.name for path in (tmp_path / "src").rglob("*") if path.is_file()]
        is_named = any(name in refused for name in [*names, "Broken[0]"])
        assert is_named or case in NAMED_OTHERWISE, refused
        assert not tl.exists(url)
        return
    report = ds.ingest_report
    assert len(ds) == 0
    assert report.skipped
    assert all(one.item and one.reason for one in report.skipped)
    if on_error == "quarantine":
        rows = tl.open(report.quarantine)
        assert rows["item"][:] == [one.item for one in report.skipped]


def several_files(root: Path, kind: str) -> tuple[Path, str]:
    """Files of a format, the first of them damaged; and its name."""
    with tl.create(f"memory://{root.name}-{kind}", {"x": tl.Array("float32", (99,))}) as ds:
        ds.extend({"x": np.zeros((60, 99))})
        ds.commit("sixty rows")
        if kind == "hdf5":
            for number in range(3):
                ds[20 * number : 20 * number + 20].to_hdf5(root / f"{number}.h5")
        else:
            size = "chunk_size" if kind == "litdata" else "shard_size"
            getattr(ds, f"to_{kind}")(root / "set", **{size: "8KiB"})
    endings = {"hdf5": "*.h5", "mds": "*.mds*", "litdata": "*.bin", "webdataset": "*.tar"}
    src = root if kind == "hdf5" else root / "set"
    paths = sorted(src.glob(endings[kind]))
    assert len(paths) > 1
    paths[0].write_bytes(BAD)
    return src, paths[0].name


def two_tables(root: Path, kind: str) -> list[Path]:
    """Two files of a format, with the ids 0, 1 and 2, 3."""
    paths = [root / f"{number}.{kind}" for number in range(2)]
    with tl.create(f"memory://{root.name}-two-{kind}", {"id": "int64", "x": "float32"}) as ds:
        ds.extend({"id": range(4), "x": np.arange(4) / 2})
        ds.commit()
        for number, path in enumerate(paths):
            getattr(ds[2 * number : 2 * number + 2], f"to_{kind}")(path)
    return paths


@pytest.mark.parametrize("kind", ["csv", "hdf5", "parquet"])
@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01"])
def test_files_without_rows_are_left_out_wherever_they_are(
    kind: str, damaged: int, content: bytes, tmp_path: Path
) -> None:
    paths = two_tables(tmp_path, kind)
    paths[damaged].write_bytes(content)

    with pytest.raises(tl.InvalidInputError, match=paths[damaged].name):
        getattr(tl.ingest, kind)(tmp_path, f"memory://{tmp_path.name}-strict")
    ds = getattr(tl.ingest, kind)(tmp_path, f"memory://{tmp_path.name}", on_error="skip")

    assert ds["id"][:].tolist() == ([2, 3] if damaged == 0 else [0, 1])
    assert [one.item for one in ds.ingest_report.skipped] == [paths[damaged].name]
    assert "2 rows added, 1 item rejected" in str(ds.ingest_report)


@pytest.mark.parametrize("kind", ["csv", "hdf5", "parquet"])
def test_the_first_of_several_damaged_files_is_named(kind: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.{kind}").write_bytes(b"\xff\xfe\x00\x01")

    with pytest.raises(tl.InvalidInputError, match=f"a.{kind}"):
        getattr(tl.ingest, kind)(tmp_path, f"memory://{tmp_path.name}", on_error="skip")


@pytest.mark.parametrize("kind", ["csv", "hdf5", "parquet"])
def test_rows_of_a_file_that_became_damaged_have_not_left_the_source(
    kind: str, tmp_path: Path
) -> None:
    paths, url = two_tables(tmp_path, kind), f"memory://{tmp_path.name}"
    given: dict[str, Any] = {"key": "id", "schema": {"id": "int64", "x": "float32"}}
    getattr(tl.ingest, kind)(tmp_path, url, **given)
    paths[0].write_bytes(b"\xff\xfe\x00\x01")

    with pytest.raises(tl.InvalidInputError, match=paths[0].name):
        getattr(tl.ingest, kind)(tmp_path, url, on_error="skip", delete=True, **given)
    ds = getattr(tl.ingest, kind)(tmp_path, url, on_error="skip", **given)

    assert ds["id"][:].tolist() == [0, 1, 2, 3]
    assert (ds.ingest_report.vanished, ds.ingest_report.rejected) == (0, 1)


@pytest.mark.parametrize("kind", ["hdf5", "litdata", "mds", "webdataset"])
def test_a_damaged_first_file_is_left_out_alone(kind: str, tmp_path: Path) -> None:
    src, first = several_files(tmp_path, kind)

    with pytest.raises(tl.InvalidInputError, match=first):
        getattr(tl.ingest, kind)(src, f"memory://{tmp_path.name}-strict")
    ds = getattr(tl.ingest, kind)(src, f"memory://{tmp_path.name}", on_error="skip")

    assert 0 < len(ds) < 60
    assert {one.item.partition("[")[0] for one in ds.ingest_report.skipped} == {first}


def test_there_is_a_case_of_each_importer() -> None:
    importers = {
        name
        for name in tl.ingest.__all__
        if inspect.isfunction(one := getattr(tl.ingest, name))
        and "dst" in inspect.signature(one).parameters
    }

    assert {case.partition(",")[0] for case in CASES} | NEEDS_LIBRARY == importers
