"""Meshes are stored as they came, and read as trimesh reads them."""

from __future__ import annotations

import importlib
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trimesh

import tensorlake as tl
from tensorlake.errors import InvalidInputError, SchemaError
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types import EncodedColumn, MemorySample, MeshHandle
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.meshes import FORMS, glb_file, mesh_file, scene, textured_box
from tests.support.sounds import real_file

REAL = (
    *("20mm-xyz-cube.stl", "BoxTextured.ply", "airplane.ply", "ballA.off", "cube.OBJ"),
    *("featuretype.STL", "fixed_top.ply", "fuze.obj", "fuze.ply", "fuze_ascii.ply", "nut.ply"),
)


def handle_of(sample: object) -> MeshHandle:
    kind = tl.Mesh()
    column = kind.convert([sample], tensor="mesh")
    assert isinstance(column, EncodedColumn)
    return MeshHandle(kind, MemorySample.of(kind, column, 0))


def same_as_trimesh(mesh: MeshHandle, content: bytes, form: str) -> None:
    expected = trimesh.load_mesh(
        io.BytesIO(content), file_type=form, process=False, skip_materials=True
    )
    assert mesh.content == content
    assert np.array_equal(mesh.vertices, expected.vertices)
    assert np.array_equal(mesh.faces, expected.faces)
    assert (mesh.num_vertices, mesh.num_faces) == (len(expected.vertices), len(expected.faces))
    assert np.array_equal(mesh.bounds, [mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)])


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_kept_and_read_as_trimesh_reads_it(form: str) -> None:
    content = mesh_file(form)

    mesh = handle_of(content)

    assert mesh.form == form.split(maxsplit=1)[0]
    if form in ("glb", "gltf"):
        expected: Any = trimesh.load_scene(io.BytesIO(content), file_type=form).to_mesh()
        assert np.allclose(np.sort(mesh.vertices, axis=0), np.sort(expected.vertices, axis=0))
        assert mesh.content == content
    else:
        same_as_trimesh(mesh, content, mesh.form)
    assert mesh.shape == np.asarray(mesh).shape == (mesh.num_vertices, 3)


@pytest.mark.parametrize("name", REAL)
def test_real_files_are_kept_and_read_as_trimesh_reads_them(name: str) -> None:
    content = real_file(f"mesh/{name}")

    same_as_trimesh(handle_of(content), content, name.rpartition(".")[2].lower())


def test_a_scene_is_one_mesh_with_its_parts_in_their_places() -> None:
    mesh = handle_of(scene())

    assert mesh.form == "glb"
    assert mesh.num_faces == 12 + 320
    assert mesh.bounds[:, 0].tolist() == [-0.5, 6.0]


def test_a_texture_is_decoded() -> None:
    mesh, plain = handle_of(textured_box()), handle_of(mesh_file("stl"))

    texture = mesh.texture

    assert texture is not None
    assert np.array_equal(texture, np.arange(8 * 6 * 3, dtype=np.uint8).reshape(6, 8, 3))
    assert plain.texture is None
    assert mesh.trimesh().visual.uv.shape == (mesh.num_vertices, 2)


@pytest.mark.parametrize("name", ["BoxTextured.ply", "fuze.obj", "fuze.ply", "nut.ply"])
def test_a_file_without_a_texture_in_it_has_none(name: str) -> None:
    mesh = handle_of(real_file(f"mesh/{name}"))

    assert mesh.texture is None


@pytest.mark.parametrize("count", [1, 2])
def test_binary_gltf_with_coordinates_of_a_texture_and_no_image_has_none(count: int) -> None:
    made, visual = trimesh.Scene(), importlib.import_module("trimesh.visual")
    for at in range(count):
        box = trimesh.creation.box()
        uv = np.linspace(0, 1, 2 * len(box.vertices)).reshape(-1, 2)
        colour = [255 * at, 0, 0, 255]
        material = visual.material.PBRMaterial(baseColorFactor=colour)
        box.visual = visual.TextureVisuals(uv=uv, material=material)
        made.add_geometry(box)

    assert handle_of(glb_file(made)).texture is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_vertices_and_faces_are_kept_exactly(dtype: str) -> None:
    vertices = (np.random.default_rng(0).normal(size=(9, 3)) * 100).astype(dtype)
    faces = np.array([[0, 1, 2], [8, 7, 3]], np.uint16)

    mesh = handle_of({"vertices": vertices, "faces": faces})

    assert np.array_equal(mesh.vertices, vertices)
    assert np.array_equal(mesh.faces, faces)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"vertices": np.zeros((3, 3))}, "keys 'vertices'"),
        ({"vertices": np.zeros((3, 2)), "faces": [[0, 1, 2]]}, r"vertices are numbers \(v, 3\)"),
        ({"vertices": np.zeros((3, 3)), "faces": [[0, 1, 3]]}, "faces name vertices 0 to 2, got 3"),
        ({"vertices": np.zeros((3, 3)), "faces": [[0.0, 1, 2]]}, "faces are integers"),
        ({"vertices": np.zeros((3, 3)), "faces": np.zeros((0, 3), int)}, "no triangles"),
        (np.zeros((3, 3)), r"expects a file of glTF.*got float64 \(3, 3\)"),
        (b"%PDF-1.7", "it is not glTF, PLY, STL, OFF or OBJ"),
        (b"OFF\n1 0 0\n0 0 0\n", "no triangles"),
        ("missing.glb", "No such file"),
        (3, "expects a file of glTF"),
    ],
)
def test_other_samples_are_refused(sample: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        tl.Mesh().convert([sample], tensor="mesh")


@pytest.mark.parametrize(
    "make",
    [
        lambda: tl.Mesh(max_nbytes=0),
        lambda: tl.Mesh(max_nbytes="1 GB"),
        lambda: tl.Mesh(default=b""),
    ],
)
def test_other_parameters_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(SchemaError):
        make()


def test_a_dataset_keeps_meshes_and_counts_without_reading_them() -> None:
    store = MemoryStore()
    made = create_on(store, {"mesh": tl.Mesh(nullable=True)})
    made.extend({"mesh": [mesh_file("glb"), None, mesh_file("obj"), glb_file(textured_box())]})
    made.append({"mesh": made["mesh"][2]})
    made.commit()
    wait_for_storage()

    ds = open_on(store)

    assert ds["mesh"][1] is None
    assert ds["mesh"].bytes(4) == mesh_file("obj")
    counts = ds.query("SELECT SHAPE(mesh)[0] AS n WHERE mesh IS NOT NULL")["n"][:]
    assert counts.tolist() == [162, 162, 8, 162]
    assert ds["mesh"][0, 5:7].shape == (2, 3)
    again = pickle.loads(pickle.dumps(ds["mesh"][3]))
    assert again.texture.shape == (6, 8, 3)
    (batch,) = ds.query("WHERE mesh IS NOT NULL").loader(batch_size=4, columns=["mesh"])
    assert [one.num_faces for one in batch["mesh"]] == [320, 320, 12, 320]


def test_a_handle_reads_its_file_once_and_its_arrays_are_the_callers() -> None:
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"mesh": tl.Mesh()})
    ds.append({"mesh": mesh_file("obj")})
    ds.commit()
    wait_for_storage()
    mesh = open_on(store)[0]["mesh"]
    vertices = mesh.vertices
    store.reset()

    vertices[:] = 7
    mesh.trimesh().vertices[:] = 8

    assert mesh.vertices.max() < 7
    asked = len(store.requests)
    assert len(mesh.faces) == mesh.num_faces
    assert len(store.requests) == asked
    assert pickle.loads(pickle.dumps(mesh)).vertices.tolist() == mesh.vertices.tolist()
