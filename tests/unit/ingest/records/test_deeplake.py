"""A folder that Deep Lake 3.9.52 wrote: eight rows, a commit, three rows and a changed label."""

import json
import random
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

ARCHIVE = Path(__file__).parents[3] / "support" / "deeplake_3_9.zip"
COLUMNS = [
    "image",
    "raw",
    "packed",
    "label",
    "boxes",
    "text",
    "about",
    "list",
    "vector",
    "group/x",
    "mask",
    "frames",
]
ROWS = 11


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("deeplake") / "set"
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Any:
    return shutil.copytree(written, tmp_path / "set")


def image_of(row: int) -> Any:
    return (np.arange((4 + row) * 5 * 3).reshape(4 + row, 5, 3) + row).astype(np.uint8)


def changed(path: Path, **members: Any) -> Any:
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_every_htype_has_its_type(folder: Path, tmp_path: Path) -> None:
    ds = tl.ingest.deeplake(folder, str(tmp_path / "in.tl"), columns=COLUMNS)

    assert dict(ds.schema) == {
        "image": tl.Image("png"),
        "raw": tl.Image("png"),
        "packed": tl.Array("float32", (None, 2)),
        "label": tl.ClassLabel(["cat", "dog"]),
        "boxes": tl.BBox("xywh"),
        "text": tl.Text(),
        "about": tl.Json(),
        "list": tl.Json(),
        "vector": tl.Embedding(8),
        "group/x": tl.Array("int64", (1,)),
        "mask": tl.Array("bool", (5, 6, None)),
        "frames": tl.Sequence(tl.Image("png")),
    }


def test_every_row_is_read_through_the_commits(folder: Path, tmp_path: Path) -> None:
    ds = tl.ingest.deeplake(folder, str(tmp_path / "in.tl"), columns=COLUMNS)

    assert len(ds) == ROWS
    for at, row in enumerate(ds):
        image = image_of(at)
        assert np.array_equal(row["image"], image)
        assert np.array_equal(row["raw"], image)
        assert np.array_equal(row["packed"], np.full((at % 3 + 1, 2), at))
        assert row["label"] == ("cat" if at == 3 else ["cat", "dog"][at % 2])
        assert np.array_equal(row["boxes"], np.full((at % 4, 4), at))
        assert (row["text"], row["about"], row["list"]) == (f"té{at}", {"a": at}, [at, "x"])
        assert np.array_equal(row["vector"], np.arange(8) + at)
        assert row["group/x"].tolist() == [at]
        assert row["mask"].shape == (5, 6, at % 2 + 1)
        assert row["mask"].all()
        frames = [image[:2], image[:3]][: at % 3]
        assert len(row["frames"]) == len(frames)
        assert all(map(np.array_equal, row["frames"], frames))


def test_images_stay_as_they_are_stored(folder: Path, tmp_path: Path) -> None:
    ds = tl.ingest.deeplake(folder, str(tmp_path / "in.tl"), columns=["image"])
    chunks = b"".join(path.read_bytes() for path in folder.rglob("image/chunks/*"))

    assert all(ds["image"].bytes(row) in chunks for row in range(ROWS))


def test_the_same_call_adds_what_was_appended(folder: Path, tmp_path: Path) -> None:
    url, columns = str(tmp_path / "in.tl"), ["text", "group/x"]
    info = folder / "version_control_info.json"
    newest = info.read_text()
    changed(info, branches={"main": "firstdbf9474d461a19e9333c2fd19b46115348f"})
    assert len(tl.ingest.deeplake(folder, url, columns=columns)) == 8
    info.write_text(newest)
    ds = tl.ingest.deeplake(folder, url, columns=columns)

    assert (report_of(ds).added, report_of(ds).unchanged) == (3, 8)
    assert ds["group/x"][:].ravel().tolist() == [*range(ROWS)]
    assert report_of(tl.ingest.deeplake(folder, url, columns=columns)).added == 0


def report_of(ds: tl.Dataset) -> Any:
    report = ds.ingest_report
    assert report is not None
    return report


def test_a_changed_row_is_an_error(folder: Path, tmp_path: Path) -> None:
    url = str(tmp_path / "in.tl")
    info = folder / "version_control_info.json"
    newest = info.read_text()
    changed(info, branches={"main": "firstdbf9474d461a19e9333c2fd19b46115348f"})
    tl.ingest.deeplake(folder, url, columns=["label"])
    info.write_text(newest)

    with pytest.raises(InvalidInputError, match="changed"):
        tl.ingest.deeplake(folder, url, columns=["label"])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "'tiny' is not read here: its chunks are compressed as png"),
        ({"columns": ["imag"]}, "did you mean 'image'"),
        ({"columns": ["image"], "schema": {"imge": tl.Image("png")}}, "did you mean 'image'"),
        ({"branch": "other"}, "branches: 'main'"),
        ({"columns": []}, "no rows"),
    ],
)
def test_wrong_arguments_are_errors(folder: Path, tmp_path: Path, arguments: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.deeplake(folder, str(tmp_path / "in.tl"), **arguments)
    assert not tl.exists(str(tmp_path / "in.tl"))


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"is_link": True}, "links"),
        ({"htype": "polygon"}, "htype 'polygon'"),
        ({"sample_compression": "dcm"}, "samples are dcm"),
        ({"is_sequence": True, "htype": "bbox"}, "different lengths"),
    ],
)
def test_a_tensor_that_is_not_read_is_refused_by_name(
    folder: Path, tmp_path: Path, members: Any, why: str
) -> None:
    for path in folder.rglob("vector/tensor_meta.json"):
        changed(path, **members)

    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.deeplake(folder, str(tmp_path / "in.tl"), columns=["vector", "text"])


def test_something_else_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"dataset_meta\.json"):
        tl.ingest.deeplake(tmp_path, str(tmp_path / "in.tl"))
    (tmp_path / "version_control_info.json").write_text('{"branches": 3}')
    with pytest.raises(InvalidInputError, match="not of Deep Lake 3"):
        tl.ingest.deeplake(tmp_path, str(tmp_path / "in.tl"))


def test_a_missing_chunk_is_named(folder: Path, tmp_path: Path) -> None:
    for path in folder.rglob("text/chunks/*"):
        path.unlink()

    with pytest.raises(InvalidInputError, match=r"lacks the chunk .* of 'text'"):
        tl.ingest.deeplake(folder, str(tmp_path / "in.tl"), columns=["text"])


def test_damaged_files_are_errors_in_bounded_time(written: Path, tmp_path: Path) -> None:
    paths = sorted(path.relative_to(written) for path in written.rglob("*") if path.is_file())
    draw = random.Random(1)
    for number in range(24):
        folder = shutil.copytree(written, tmp_path / str(number))
        path = folder / draw.choice(paths)
        content = bytearray(path.read_bytes())
        for _ in range(draw.randrange(1, 4)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(
            content[: draw.randrange(len(content) + 1)] if number % 3 == 0 else content
        )
        with suppress(InvalidInputError):
            tl.ingest.deeplake(folder, f"memory://damaged-deeplake-{number}", columns=COLUMNS)


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two folders of Deep Lake 3.9: with renamed tensors and groups, with None and uint32 masks."""
    folder = tmp_path_factory.mktemp("deeplake-renamed")
    with zipfile.ZipFile(ARCHIVE.with_name("deeplake_3_9_renamed.zip")) as archive:
        archive.extractall(folder)
    return folder


def test_tensors_have_the_names_that_they_were_given_last(renamed: Path) -> None:
    """The name of a renamed tensor is that of another one since."""
    ds = tl.ingest.deeplake(renamed / "ren", "memory://deeplake-renamed")

    assert {name: [*ds[name][:]] for name in ds.tensors} == {
        "a": ["x", "y", "z"],
        "bb": [1, 2, 3],
        "h/x": [4, 5, 6],
    }


def test_a_sample_that_is_none_is_null_and_masks_may_be_of_uint32(renamed: Path) -> None:
    ds = tl.ingest.deeplake(renamed / "none", "memory://deeplake-none")

    assert dict(ds.schema) == {
        "im": tl.Image("png", nullable=True),
        "raw": tl.Image("png", nullable=True),
        "sg": tl.Array("uint32", (3, 4)),
        "sn": tl.SegmentMask(["a", "b"]),
    }
    assert [row["im"] is None for row in ds] == [False, False, True, False]
    assert [row["raw"] is None for row in ds] == [False, True, False, False]
    assert [row["sg"].max() for row in ds] == [0, 70_000, 140_000, 210_000]


def test_polygons_and_volumes_are_read(renamed: Path) -> None:
    ds = tl.ingest.deeplake(renamed / "poly", "memory://deeplake-polygons")
    packed = tl.ingest.deeplake(renamed / "polylz", "memory://deeplake-polygons-lz4")
    volumes = tl.ingest.deeplake(renamed / "nii", "memory://deeplake-nifti")

    triangle, square = [[0, 0], [1, 0], [1, 1]], [[2, 2], [3, 2], [3, 3], [2, 3]]
    for rows in (ds, packed):
        assert [np.asarray(one).tolist() for one in rows[0]["p"]] == [triangle, square]
        assert [np.asarray(one).tolist() for one in rows[1]["p"]] == [[[5, 5], [6, 5], [6, 6]]]
    assert len(ds[2]["p"]) == 0
    voxels = np.asarray(volumes[0]["n"])
    assert sorted(voxels.reshape(-1).tolist()) == [*range(4 * 5 * 6)]


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of samples that are larger than a chunk of 2,500 bytes, and of meshes."""
    folder = tmp_path_factory.mktemp("deeplake-tiles") / "set"
    with zipfile.ZipFile(ARCHIVE.with_name("deeplake_3_9_tiles.zip")) as archive:
        archive.extractall(folder)
    return folder


SHAPES = ((40, 60, 3), (5, 4, 3), (71, 30, 3), (6, 7, 3))


@pytest.mark.parametrize("name", ["raw", "packed", "chunked", "image"])
def test_samples_in_tiles_are_joined(tiled: Path, tmp_path: Path, name: str) -> None:
    ds = tl.ingest.deeplake(tiled, str(tmp_path / "in.tl"), columns=[name])

    for row, shape in enumerate(SHAPES):
        expected = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(np.uint8)
        assert np.array_equal(ds[name][row], expected)


def test_tiles_that_would_lose_pixels_are_refused(tiled: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'photo' is not read here: .* tiles .* jpeg"):
        tl.ingest.deeplake(tiled, str(tmp_path / "in.tl"), columns=["photo"])


def test_a_tile_that_is_missing_is_damage(tiled: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiled, tmp_path / "set")
    index = folder / "raw" / "chunks_index" / "unsharded"
    content = index.read_bytes()
    begin = 2 + content[0]
    index.write_bytes(content[:begin] + content[begin + 16 :])

    with pytest.raises(
        InvalidInputError, match=r"row 0 of 'raw' is damaged: it has 3 tiles, not 4"
    ):
        tl.ingest.deeplake(folder, str(tmp_path / "in.tl"), columns=["raw"])


def test_meshes_are_their_files(tiled: Path, tmp_path: Path) -> None:
    ds = tl.ingest.deeplake(tiled, str(tmp_path / "in.tl"), columns=["mesh"])

    assert ds["mesh"].type == tl.Mesh()
    assert [mesh.faces.shape for mesh in ds["mesh"][:]] == [(12, 3)] * 4
    assert ds["mesh"].bytes(1).startswith(b"ply\nformat ascii")
