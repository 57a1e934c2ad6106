"""Folders of point clouds and tables beside them, and files exported again."""

import io
import tarfile

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.clouds import as_set, las_file, pcd_file, ply_file, scan
from tests.unit.ingest.media.test_audio_folders import FILES as SOUNDS

FILES = {
    "a.las": las_file(300),
    "b.laz": las_file(300, compressed=True),
    "c.pcd": pcd_file(scan(300)),
    "d.ply": ply_file(scan(300)),
}


@pytest.fixture
def folder(tmp_path):
    """A folder of scans with a table beside."""
    (tmp_path / "scans").mkdir()
    for name, content in FILES.items():
        (tmp_path / "scans" / name).write_bytes(content)
    lines = [f"{name},place {name[0]}" for name in reversed(FILES)]
    (tmp_path / "places.csv").write_text("\n".join(["file,place", *lines]))
    return tmp_path / "scans"


@pytest.fixture
def dataset(folder, request):
    table = folder.parent / "places.csv"
    return tl.ingest.pointcloud(folder, f"memory://{request.node.name}", table=table)


def test_a_folder_with_a_table_is_ingested(dataset):
    assert dataset["place"].to_list() == [f"place {name[0]}" for name in FILES]
    assert [len(row["points"]) for row in dataset] == [300] * 4
    assert as_set(np.asarray(dataset["points"][2])) == as_set(scan(300))


def test_the_same_call_again_adds_what_is_new(folder):
    first = tl.ingest.pointcloud(folder, "memory://points-again")
    (folder / "e.pcd").write_bytes(FILES["c.pcd"])

    again = tl.ingest.pointcloud(folder, "memory://points-again")

    assert (len(first), len(again), again.ingest_report.added) == (4, 5, 1)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("000.bin", ("x", "y", "z", "intensity")),
        ("LIDAR_TOP__1.pcd.bin", ("x", "y", "z", "intensity", "ring")),
    ],
)
def test_files_without_a_header_have_the_layout_of_their_names(tmp_path, name, fields):
    table = np.random.default_rng(0).normal(size=(50, len(fields))).astype("<f4")
    (tmp_path / name).write_bytes(table.tobytes())

    ds = tl.ingest.pointcloud(tmp_path, f"memory://points-{name}")

    assert ds["points"][0].dtype.names == fields
    assert as_set(np.asarray(ds["points"][0])) == as_set(table)


def test_files_without_a_header_may_have_another_type(tmp_path):
    table = np.random.default_rng(0).normal(size=(50, 3))
    (tmp_path / "000.bin").write_bytes(table.tobytes())
    declared = tl.PointCloud(("x", "y", "z"), raw="float64")

    ds = tl.ingest.pointcloud(tmp_path, "memory://points-raw", schema={"points": declared})

    assert as_set(np.asarray(ds["points"][0])) == as_set(table)


def test_a_file_that_is_not_whole_records_is_named(tmp_path):
    (tmp_path / "000.bin").write_bytes(bytes(1_204))

    with pytest.raises(InvalidInputError, match=r"000\.bin.*1,204 bytes are not records of 16"):
        tl.ingest.pointcloud(tmp_path, "memory://points-cut-record")


def test_a_file_without_a_header_beside_others_is_named(folder):
    (folder / "e.bin").write_bytes(bytes(160))

    with pytest.raises(InvalidInputError, match=r"e\.bin.*\n.*raw="):
        tl.ingest.pointcloud(folder, "memory://points-beside")
    assert len(tl.ingest.pointcloud(folder, "memory://points-skip", on_error="skip")) == 4


def test_a_cut_file_is_named_and_may_be_left_out(folder):
    (folder / "b.laz").write_bytes(FILES["b.laz"][:-2_000])

    with pytest.raises(InvalidInputError, match=r"b\.laz.*table of chunks"):
        tl.ingest.pointcloud(folder, "memory://points-cut")
    kept = tl.ingest.pointcloud(folder, "memory://points-cut-skip", on_error="skip")
    assert len(kept) == 3


def test_a_webdataset_has_npz_files_and_comes_back(dataset, tmp_path):
    dataset.to_webdataset(str(tmp_path / "shards"))
    (shard,) = (tmp_path / "shards").glob("*.tar")

    with tarfile.open(shard) as opened:
        (first, *_) = [name for name in opened.getnames() if name.endswith(".npz")]
        member = opened.extractfile(first)
        assert member is not None
        arrays = np.load(io.BytesIO(member.read()))
    back = tl.ingest.webdataset(str(shard), "memory://points-back")

    assert np.array_equal(arrays["x"], dataset["points"][0]["x"])
    for row in range(4):
        own, other = (np.asarray(ds["points"][row]) for ds in (dataset, back))
        assert as_set(own) == as_set(other)


def test_parquet_and_arrow_come_back_with_every_byte(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "points.parquet")
    dataset.to_mds(tmp_path / "mds")

    for back in (
        tl.ingest.parquet(tmp_path / "points.parquet", "memory://points-parquet"),
        tl.ingest.arrow(dataset.to_arrow(), "memory://points-arrow"),
    ):
        assert isinstance(back["points"].type, tl.PointCloud)
        own, other = ([ds["points"].bytes(row) for row in range(4)] for ds in (dataset, back))
        assert own == other


def test_a_file_of_another_kind_is_refused_by_its_name(folder):
    (folder / "e.ply").write_bytes(SOUNDS["a.wav"])

    with pytest.raises(InvalidInputError, match=r"e\.ply.*it is not LAS"):
        tl.ingest.pointcloud(folder, "memory://points-other")
