"""Clouds and meshes that other libraries wrote are read as they read them themselves.

pypcd4 writes and reads PCD, laspy LAS and LAZ, trimesh PLY, NumPy the records of KITTI, as its
development kit describes them; the buffers of a GLB are laid out by hand and described by
pygltflib.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl

pypcd4 = pytest.importorskip("pypcd4")
laspy = pytest.importorskip("laspy")
trimesh = pytest.importorskip("trimesh")
gltf = pytest.importorskip("pygltflib")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

POINTS = 500
FIELDS = ("x", "y", "z", "intensity")
ENCODINGS = ("ASCII", "BINARY", "BINARY_COMPRESSED")


def cloud(seed: int) -> np.ndarray:
    """Return float32 (POINTS, 4), of few digits, which ASCII keeps."""
    rng = np.random.default_rng(seed)
    return rng.integers(-4_000, 4_000, (POINTS, 4)).astype(np.float32) / 64


def same_points(own: Any, theirs: np.ndarray) -> None:
    """Compare points in any order."""
    table = np.stack([np.asarray(own[name], np.float64) for name in FIELDS], axis=1)
    expected = theirs.astype(np.float64)
    assert np.array_equal(table[np.lexsort(table.T)], expected[np.lexsort(expected.T)])


def write_pcd(folder: Path) -> None:
    for number, encoding in enumerate(ENCODINGS):
        made = pypcd4.PointCloud.from_xyzi_points(cloud(number))
        made.save(folder / f"{number}.pcd", encoding=pypcd4.Encoding[encoding])


def read_pcd(path: Path) -> np.ndarray:
    return pypcd4.PointCloud.from_path(path).numpy(FIELDS)


def write_las(folder: Path) -> None:
    for number, name in enumerate(("0.las", "1.laz")):
        made = laspy.create(point_format=3, file_version="1.2")
        made.header.scales = np.array([1 / 64] * 3)
        made.x, made.y, made.z, _ = cloud(number).T
        made.intensity = np.arange(POINTS)
        made.write(folder / name)


def read_las(path: Path) -> np.ndarray:
    read = laspy.read(path)
    return np.stack([read.x, read.y, read.z, read.intensity], axis=1)


def write_kitti(folder: Path) -> None:
    for number in range(2):
        cloud(number).tofile(folder / f"{number:06d}.bin")


def read_kitti(path: Path) -> np.ndarray:
    return np.fromfile(path, np.float32).reshape(-1, 4)


@pytest.mark.parametrize(
    ("write", "read"),
    [(write_pcd, read_pcd), (write_las, read_las), (write_kitti, read_kitti)],
    ids=["pcd", "las", "kitti"],
)
def test_clouds_have_the_points_that_the_library_reads(
    tmp_path: Path, write: Callable[[Path], None], read: Callable[[Path], np.ndarray]
) -> None:
    (tmp_path / "clouds").mkdir()
    write(tmp_path / "clouds")

    with tl.ingest.pointcloud(tmp_path / "clouds", str(tmp_path / "clouds.tl")) as ds:
        files = sorted((tmp_path / "clouds").iterdir())
        assert len(ds) == len(files) > 1
        for row, path in enumerate(files):
            same_points(ds[row]["points"], read(path))


@pytest.mark.parametrize("encoding", ["binary", "ascii"])
def test_ply_has_the_vertices_that_trimesh_reads(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "plys").mkdir()
    path = tmp_path / "plys" / "0.ply"
    made = trimesh.PointCloud(cloud(0)[:, :3])
    path.write_bytes(made.export(file_type="ply", encoding=encoding))

    with tl.ingest.pointcloud(tmp_path / "plys", str(tmp_path / "x.tl")) as ds:
        own = np.sort(np.asarray(ds[0]["points"].xyz), axis=0)
        theirs = np.sort(np.asarray(trimesh.load(path).vertices, np.float32), axis=0)
        assert np.array_equal(own, theirs)


def test_glb_has_the_vertices_and_faces_of_its_buffers(tmp_path: Path) -> None:
    vertices = cloud(0)[:60, :3]
    faces = np.arange(60, dtype=np.uint32).reshape(-1, 3)
    (tmp_path / "glbs").mkdir()
    path = tmp_path / "glbs" / "0.glb"
    glb(vertices, faces).save_binary(str(path))
    theirs = gltf.GLTF2().load_binary(str(path))
    content = theirs.binary_blob()
    found = [
        np.frombuffer(content, dtype, 3 * count, theirs.bufferViews[at].byteOffset).reshape(-1, 3)
        for at, (dtype, count) in enumerate(((np.float32, 60), (np.uint32, 20)))
    ]

    with tl.ingest.mesh(tmp_path / "glbs", str(tmp_path / "x.tl")) as ds:
        mesh = ds[0]["mesh"]
        assert np.array_equal(np.asarray(mesh.vertices)[mesh.faces], found[0][found[1]])


def glb(vertices: np.ndarray, faces: np.ndarray) -> Any:
    """Return a scene of one triangle mesh: float32 (n, 3) vertices, uint32 (m, 3) faces."""
    parts = (vertices.tobytes(), faces.tobytes())
    starts = (0, len(parts[0]))
    made = gltf.GLTF2(
        scene=0,
        scenes=[gltf.Scene(nodes=[0])],
        nodes=[gltf.Node(mesh=0)],
        meshes=[
            gltf.Mesh(
                primitives=[gltf.Primitive(attributes=gltf.Attributes(POSITION=0), indices=1)]
            )
        ],
        buffers=[gltf.Buffer(byteLength=sum(map(len, parts)))],
        bufferViews=[
            gltf.BufferView(buffer=0, byteOffset=start, byteLength=len(part))
            for start, part in zip(starts, parts, strict=True)
        ],
        accessors=[
            gltf.Accessor(
                bufferView=0,
                componentType=gltf.FLOAT,
                count=len(vertices),
                type=gltf.VEC3,
                min=vertices.min(0).tolist(),
                max=vertices.max(0).tolist(),
            ),
            gltf.Accessor(
                bufferView=1,
                componentType=gltf.UNSIGNED_INT,
                count=faces.size,
                type=gltf.SCALAR,
            ),
        ],
    )
    made.set_binary_blob(b"".join(parts))
    return made
