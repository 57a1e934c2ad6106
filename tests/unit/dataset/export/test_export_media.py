"""Exporters and media: each gives the file, the array or the stored form, or refuses by name.

What is written is read by pyarrow, pandas, tarfile, `datasets`, zarr and a reader of MDS's page.
"""

from __future__ import annotations

import io
import itertools
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tests.support.dicoms import series_bytes
from tests.support.meshes import mesh_file
from tests.support.sounds import sound_file
from tests.support.videos import video_file
from tests.unit.dataset.export.test_export_files import read_mds

NUMBERS = itertools.count()
VOXELS = np.random.default_rng(0).integers(-900, 900, (4, 5, 6), np.int16)
POINTS = np.random.default_rng(1).random((40, 3)).astype(np.float32)
PIXELS = np.random.default_rng(2).integers(0, 255, (6, 5, 3), np.uint8)
LABELS = np.random.default_rng(3).integers(0, 3, (4, 9, 9), np.uint8)


def png() -> bytes:
    file = io.BytesIO()
    PIL.Image.fromarray(PIXELS).save(file, "png")
    return file.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "image": png,
    "audio": lambda: sound_file("FLAC", "PCM_16", seconds=0.5),
    "video": lambda: video_file("h264", 6),
    "mesh": lambda: mesh_file("stl"),
}
LINKED = {
    "image": tl.Image("png"),
    "audio": tl.Audio(),
    "video": tl.Video(),
    "mesh": tl.Mesh(),
}
ARRAYS: dict[str, tuple[Any, Callable[[], Any], np.ndarray]] = {
    "nifti": (
        tl.Nifti("int16", nullable=True),
        lambda: {"voxels": VOXELS, "affine": np.eye(4)},
        VOXELS,
    ),
    "dicom": (tl.Dicom(dtype="int16", nullable=True), lambda: series_bytes(VOXELS), VOXELS),
    "points": (tl.PointCloud(nullable=True), lambda: POINTS, POINTS),
    "labels": (tl.SegmentMask(tiles=(2, 4, 4), nullable=True), lambda: LABELS, LABELS),
}


def exported_by_numpy(ds: tl.Dataset, dst: Path) -> list[Any]:
    return [*ds.to_numpy()["x"]]


def exported_by_pandas(ds: tl.Dataset, dst: Path) -> list[Any]:
    return [getattr(one, "content", one) for one in ds.to_pandas()["x"]]


def exported_by_parquet(ds: tl.Dataset, dst: Path) -> list[Any]:
    ds.to_parquet(dst)
    return pq.read_table(dst)["x"].to_pylist()


def exported_by_hf(ds: tl.Dataset, dst: Path) -> list[Any]:
    rows = ds.to_hf().with_format("arrow")[:]["x"].to_pylist()
    return [one["bytes"] if isinstance(one, dict) else one for one in rows]


def exported_by_zarr(ds: tl.Dataset, dst: Path) -> list[Any]:
    group = ds.to_zarr(dst)["x"]
    values, valid = group["values"][:], group["valid"][:].tolist()
    if "shapes" in group:
        ends = np.cumsum(group["shapes"][:].prod(axis=1))
        shapes = group["shapes"][:].tolist()
        pieces = [
            one.reshape(own) for one, own in zip(np.split(values, ends[:-1]), shapes, strict=True)
        ]
    else:
        pieces = [one.tobytes() for one in np.split(values, group["offsets"][1:-1])]
    return [one if own else None for one, own in zip(pieces, valid, strict=True)]


def exported_by_shards(ds: tl.Dataset, dst: Path) -> list[Any]:
    ds.to_webdataset(dst)
    found: list[Any] = []
    with tarfile.open(dst / "shard-000000.tar") as shard:
        for member in shard:
            file = shard.extractfile(member)
            assert file is not None
            content = file.read()
            content = np.load(io.BytesIO(content)) if member.name.endswith(".npy") else content
            found.append(None if member.name.endswith(".null") else content)
    return found


def exported_by_mds(ds: tl.Dataset, dst: Path) -> list[Any]:
    ds.where("x IS NOT NULL").to_mds(dst)
    rows = [row["x"] for row in read_mds(dst)]
    return [rows[0], None, rows[1]]


EXPORTERS = {
    "numpy": exported_by_numpy,
    "pandas": exported_by_pandas,
    "parquet": exported_by_parquet,
    "hf": exported_by_hf,
    "zarr": exported_by_zarr,
    "shards": exported_by_shards,
    "mds": exported_by_mds,
}


def dataset_of(kind: Any, sample: Any) -> tl.Dataset:
    ds = tl.create(f"memory://export-media-{next(NUMBERS)}", {"x": kind})
    ds.extend({"x": [sample, None, sample]})
    ds.commit("three")
    return ds


@pytest.fixture
def link_of(tmp_path: Path) -> Callable[[str], tl.Dataset]:
    """Return a function that makes a dataset of links to two files of one kind."""

    def made(name: str) -> tl.Dataset:
        (tmp_path / name).write_bytes(FILES[name]())
        return dataset_of(tl.Link(LINKED[name], nullable=True), tmp_path / name)

    return made


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_links_leave_as_the_files_that_stored_samples_are(
    link_of: Callable[[str], tl.Dataset], tmp_path: Path, exporter: str, name: str
) -> None:
    stored = dataset_of(replace(LINKED[name], nullable=True), FILES[name]())

    expected = EXPORTERS[exporter](stored, tmp_path / "stored")
    found = EXPORTERS[exporter](link_of(name), tmp_path / "linked")

    assert expected == found == [FILES[name](), None, FILES[name]()]


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("exporter", ["numpy", "mds", "shards", "hf", "zarr", "parquet"])
def test_volumes_and_points_leave_as_arrays_or_files(
    tmp_path: Path, exporter: str, name: str
) -> None:
    kind, sample, expected = ARRAYS[name]
    ds = dataset_of(kind, sample())

    first, null, last = EXPORTERS[exporter](ds, tmp_path / "out")

    assert null is None
    assert type(first) is type(last)
    match exporter, name:
        case ("numpy", "points") | ("mds" | "shards", "points"):
            if isinstance(first, bytes):
                first = np.load(io.BytesIO(first))
            stacked = np.stack([first[axis] for axis in "xyz"], axis=1)
            assert sorted(stacked.tolist()) == sorted(expected.tolist())
        case "mds" | "shards", "nifti":
            image = nibabel.Nifti1Image.from_bytes(first)
            np.testing.assert_array_equal(np.asarray(image.dataobj).T, expected)  # x first
        case "mds", "dicom" | "labels":
            shape = tuple(first[1:4])  # lengths of one byte each
            values = np.frombuffer(first[4:], expected.dtype).reshape(shape)
            np.testing.assert_array_equal(values, expected)
        case "numpy", _:
            np.testing.assert_array_equal(first, expected)
        case _, "labels":
            np.testing.assert_array_equal(np.array(first), expected)
        case _:  # the stored form, with its type beside it: see below
            assert first == ds["x"].bytes(0)


@pytest.mark.parametrize("exporter", ["parquet", "webdataset", "arrow", "hf"])
@pytest.mark.parametrize("name", [*ARRAYS, *FILES, *(f"link to {name}" for name in FILES)])
def test_what_left_comes_back_as_the_same_samples(
    link_of: Callable[[str], tl.Dataset], tmp_path: Path, exporter: str, name: str
) -> None:
    if name in ARRAYS:
        ds = dataset_of(ARRAYS[name][0], ARRAYS[name][1]())
    elif name in FILES:
        ds = dataset_of(replace(LINKED[name], nullable=True), FILES[name]())
    else:
        ds = link_of(name.removeprefix("link to "))
    again = f"memory://export-media-{next(NUMBERS)}"

    match exporter:
        case "parquet":
            ds.to_parquet(tmp_path / "x.parquet")
            back = tl.ingest.parquet(tmp_path / "x.parquet", again)
        case "webdataset":
            ds.to_webdataset(tmp_path / "shards")
            back = tl.ingest.webdataset(tmp_path / "shards", again)
        case "arrow":
            back = tl.ingest.arrow(ds.to_arrow(), again)
        case _:
            back = tl.ingest.huggingface(ds.to_hf(), again)

    kind = ds["x"].type
    assert back["x"].type == (kind.file_type if isinstance(kind, tl.Link) else kind)
    assert back[1]["x"] is None
    for row in (0, 2):
        found, expected = (np.asarray(one["x"][row]) for one in (back, ds))
        assert found.dtype == expected.dtype
        if name == "points":  # in an order of its own, drawn when it is ingested
            found, expected = np.sort(found), np.sort(expected)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [*ARRAYS, *FILES])
@pytest.mark.parametrize("exporter", ["npz", "csv", "jsonl", "coco", "croissant"])
def test_what_a_format_lacks_is_refused_by_the_name_of_the_tensor(
    tmp_path: Path, exporter: str, name: str
) -> None:
    if name in ARRAYS:
        ds = dataset_of(ARRAYS[name][0], ARRAYS[name][1]())
    else:
        ds = dataset_of(replace(LINKED[name], nullable=True), FILES[name]())
    call = ds.to_numpy if exporter == "npz" else getattr(ds, f"to_{exporter}")
    is_taken = (exporter, name) in {
        *(("jsonl", "labels"), ("croissant", "labels")),
        *(("croissant", one) for one in ("image", "audio", "video")),
    }

    if is_taken:
        call(tmp_path / "out")
        return
    with pytest.raises((tl.UnsupportedFeatureError, tl.InvalidInputError)) as raised:
        call(tmp_path / "out")

    lines = str(raised.value).splitlines()
    assert len(lines) > 1, "what to do"
    assert "'x'" in str(raised.value) or exporter == "coco"
    assert [*tmp_path.iterdir()] == []


def test_a_linked_file_that_is_gone_stops_an_export_and_leaves_nothing(
    link_of: Callable[[str], tl.Dataset], tmp_path: Path
) -> None:
    ds = link_of("audio")
    (tmp_path / "audio").unlink()

    for call in (ds.to_parquet, ds.to_webdataset, ds.to_mds, ds.to_zarr):
        with pytest.raises(tl.CorruptSampleError, match=r"row 0 of 'x'.*is gone"):
            call(tmp_path / "out")
    assert [*tmp_path.iterdir()] == []


def test_linked_files_are_read_in_pieces_and_handles_not_at_all(
    link_of: Callable[[str], tl.Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = link_of("video")
    monkeypatch.setattr("tensorlake.dataset.export.arrow.stream.BATCH_NBYTES", 1)

    ds.to_parquet(tmp_path / "x.parquet")

    assert pq.ParquetFile(tmp_path / "x.parquet").metadata.num_row_groups == 3
    monkeypatch.setattr("tensorlake.dataset.export.arrow.stream.IN_MEMORY_NBYTES_MAX", 1)
    with pytest.raises(tl.InvalidInputError, match="would read"):
        ds.to_numpy()
    shutil.move(tmp_path / "video", tmp_path / "moved")
    frame = ds.to_pandas()
    shutil.move(tmp_path / "moved", tmp_path / "video")
    assert frame["x"][0][2:4].shape == (2, 48, 64, 3)
