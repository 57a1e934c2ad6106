"""Files of points are read as laspy, trimesh and NumPy read them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import laspy
import numpy as np
import pytest
import trimesh

import tensorlake as tl
from tests.support.clouds import as_set, las_file, pcd_file, ply_file, scan
from tests.support.sounds import real_file
from tests.unit.types.points.test_points import handle_of

if TYPE_CHECKING:
    from pathlib import Path

LAS_VERSIONS = [("1.2", 0), ("1.2", 3), ("1.3", 4), ("1.4", 6), ("1.4", 7), ("1.4", 10)]
REAL = ("autzen_trim.laz", "simple.las", "simple.laz", "simple1_3.las")


def same_as_laspy(content: bytes, cloud: tl.types.PointCloudHandle) -> None:
    """Check every dimension, point by point: of each point the index in the file is known."""
    las = laspy.read(io.BytesIO(content), laz_backend=laspy.LazBackend.Lazrs)
    records = np.asarray(cloud)
    order = records["index"]
    assert sorted(order.tolist()) == list(range(len(las.points)))
    for name in las.point_format.dimension_names:
        own = name.lower() if name in "XYZ" else name
        expected = np.asarray(las[own])[order]
        assert np.array_equal(records[own], expected), name
        assert records[own].dtype == expected.dtype or records[own].dtype.kind == "f"


@pytest.mark.parametrize(("version", "point_format"), LAS_VERSIONS)
@pytest.mark.parametrize("compressed", [False, True])
def test_las_is_read_as_laspy_reads_it(
    version: str, point_format: int, *, compressed: bool
) -> None:
    has_waves = point_format in (4, 10)
    if has_waves and compressed:
        pytest.skip("lazrs does not write wave packets")
    content = las_file(compressed=compressed, version=version, point_format=point_format)

    cloud = handle_of(content, tl.PointCloud(index=True))

    same_as_laspy(content, cloud)
    assert cloud.fields["normal"].shape == (3,)
    assert cloud.origin[0] > 600_000
    assert cloud.nbytes < len(las_file(version=version, point_format=point_format))


@pytest.mark.parametrize("points", [0, 1, 2, 50_001])
def test_laz_of_any_number_of_points_is_read(points: int) -> None:
    content = las_file(points, compressed=True, version="1.4", point_format=7)

    same_as_laspy(content, handle_of(content, tl.PointCloud(index=True)))


@pytest.mark.parametrize("name", REAL)
def test_real_files_of_las_are_read_as_laspy_reads_them(name: str) -> None:
    content = real_file(f"pointcloud/{name}")

    same_as_laspy(content, handle_of(content, tl.PointCloud(index=True)))


@pytest.mark.parametrize("form", ["binary_little_endian", "binary_big_endian", "ascii"])
def test_ply_has_the_vertices_as_written(form: str) -> None:
    points = scan(700)

    assert as_set(np.asarray(handle_of(ply_file(points, form)))) == as_set(points)


@pytest.mark.parametrize("form", ["binary", "ascii"])
def test_ply_of_trimesh_is_read(form: str) -> None:
    points = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    colors = np.random.default_rng(1).integers(0, 255, (300, 4), np.uint8)
    written = trimesh.PointCloud(points, colors).export(file_type="ply")
    mesh = trimesh.Trimesh(points, [[0, 1, 2], [3, 4, 5]], process=False)
    if form == "ascii":
        written = mesh.export(file_type="ply", encoding="ascii")

    cloud = handle_of(written)

    tolerance = 1e-6 if form == "ascii" else 0
    order = np.lexsort(points.T)
    found = cloud.xyz[np.lexsort(cloud.xyz.T)]
    assert np.abs(found - points[order]).max() <= tolerance


@pytest.mark.parametrize("data", ["ascii", "binary", "binary_compressed"])
def test_pcd_has_the_points_as_written(data: str) -> None:
    points = scan(900)
    wide = np.empty(900, [*points.dtype.descr, ("_", "<f4"), ("normal", "<f4", (3,))])
    for name in points.dtype.names or ():
        wide[name] = points[name]
    wide["_"], wide["normal"] = 0, np.random.default_rng(0).normal(size=(900, 3))

    cloud = handle_of(pcd_file(wide, data), tl.PointCloud(index=True))

    records = np.asarray(cloud)
    assert "_" not in cloud.fields
    for name in (*(points.dtype.names or ()), "normal"):
        assert np.array_equal(records[name], wide[name][records["index"]]), name


def test_a_real_pcd_has_the_points_of_its_lines() -> None:
    content = real_file("pointcloud/datumaro_kitti_0000000000.pcd")
    head, _, body = content.partition(b"DATA ")
    form, _, body = body.partition(b"\n")
    assert form.strip() in (b"ascii", b"binary")

    cloud = handle_of(content)

    assert len(cloud) == int(head.split(b"POINTS ")[1].split()[0])
    if form.strip() == b"binary":
        width = len(body) // len(cloud)
        packed = np.asarray(cloud.read())
        assert packed.itemsize <= width


@pytest.mark.parametrize(("name", "columns"), [("kitti_000008.bin", 4), ("sunrgbd_000017.bin", 6)])
def test_real_files_without_a_header_keep_every_bit(name: str, columns: int) -> None:
    content = real_file(f"pointcloud/{name}")
    names = ("x", "y", "z", "a", "b", "c")[:columns]

    cloud = handle_of(content, tl.PointCloud(names, raw="float32"))

    table = np.frombuffer(content, "<f4").reshape(-1, columns)
    assert as_set(np.asarray(cloud)) == as_set(table)


def test_npz_and_npy_are_read(tmp_path: Path) -> None:
    points = scan(400)
    xyz = np.stack([points[axis] for axis in "xyz"], axis=1)
    np.savez(tmp_path / "a.npz", xyz=xyz, label=points["c"], normal=xyz * 2)
    np.savez_compressed(tmp_path / "b.npz", points=np.asfortranarray(xyz))
    np.save(tmp_path / "c.npy", points)

    first, second, third = (handle_of(str(tmp_path / name)) for name in ("a.npz", "b.npz", "c.npy"))

    assert list(first.fields) == ["x", "y", "z", "label", "normal"]
    assert np.array_equal(first["normal"][:, 1], first["y"] * 2)
    assert as_set(np.asarray(second)) == as_set(xyz)
    assert as_set(np.asarray(third)) == as_set(points)


def test_npz_out_is_read_by_numpy_and_by_us() -> None:
    cloud = handle_of(las_file())

    archive = np.load(io.BytesIO(cloud.npz()))
    again = handle_of(cloud.npz())

    assert list(archive.files) == list(cloud.fields)
    assert all(np.array_equal(archive[name], cloud[name]) for name in archive.files)
    assert as_set(np.asarray(again)) == as_set(np.asarray(cloud))
