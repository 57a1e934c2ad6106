"""Scenes: which points and triangles a page gets, in which colours, and how they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.types import EncodedColumn, MemorySample, MeshHandle, PointCloudHandle
from tensorlake_server.media.scenes import Scene, color_fields, draw_scene, scene_of

XYZ = np.random.default_rng(4).uniform(-3, 3, (4000, 3))


def cloud_of(points: object) -> PointCloudHandle:
    kind = tl.PointCloud()
    column = kind.convert([points], tensor="points")
    assert isinstance(column, EncodedColumn)
    return PointCloudHandle(kind, MemorySample.of(kind, column, 0))


def mesh_of(mesh: object) -> MeshHandle:
    kind = tl.Mesh()
    column = kind.convert([mesh], tensor="mesh")
    assert isinstance(column, EncodedColumn)
    return MeshHandle(kind, MemorySample.of(kind, column, 0))


def rows_of(points: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in np.asarray(points, np.float32)}


@pytest.mark.parametrize(("most", "count"), [(4000, 4000), (600, 500), (70, 63), (20, 16)])
def test_a_cloud_is_thinned_to_points_of_its_own(most: int, count: int) -> None:
    scene = scene_of(cloud_of(XYZ), most=most)

    assert (len(scene.xyz), scene.total) == (count, 4000)
    assert rows_of(scene.xyz) <= rows_of(XYZ)


def test_colours_are_bytes_whatever_they_are_stored_as() -> None:
    shares = np.linspace(0, 1, 4000)
    for stored in (shares * 255, shares * 65535, shares):
        given = stored.astype("uint8" if stored.max() == 255 else "uint16")
        colors = stored.astype("float32") if stored.max() == 1 else given
        columns = dict(zip("xyz", XYZ.T, strict=True))
        cloud = cloud_of({**columns, "red": colors, "green": colors, "blue": colors})
        scene = scene_of(cloud)
        by_place = {row.tobytes(): color for row, color in zip(scene.xyz, scene.rgb, strict=True)}  # pyright: ignore[reportArgumentType] - has colours

        for at in (0, 1999, 3999):
            found = by_place[XYZ[at].astype(np.float32).tobytes()]
            assert np.abs(found.astype(int) - shares[at] * 255).max() <= 1
        assert color_fields(cloud) == ["red", "green", "blue"]
    assert scene_of(cloud, field="red").value is not None
    with pytest.raises(InvalidInputError, match="no field 'grey'"):
        scene_of(cloud, field="grey")


def test_points_that_are_not_finite_are_left_out() -> None:
    points = np.vstack([XYZ, [np.nan, 0, 0], [0, np.inf, 0]])

    assert len(scene_of(cloud_of(points)).xyz) == 4000


def test_a_mesh_with_too_many_faces_is_its_vertices() -> None:
    mesh = {"vertices": XYZ[:300], "faces": np.arange(300).reshape(-1, 3)}

    whole, few = scene_of(mesh_of(mesh)), scene_of(mesh_of(mesh), most=99)

    assert whole.faces is not None and whole.faces.tolist() == mesh["faces"].tolist()  # noqa: PT018 - one is None, or a list
    assert (few.faces, len(few.xyz), few.total) == (None, 75, 300)


@pytest.mark.parametrize("count", [0, 1, 2, 4000])
def test_pictures_of_any_number_of_points(count: int) -> None:
    for extent in (1, 0):  # of one place
        xyz = (XYZ[:count] * extent).astype(np.float32)
        image = draw_scene(Scene(xyz, None, None, None, count), 64)

        assert (image != image[0, 0]).any() == (count > 0)


def test_a_nearer_point_hides_another() -> None:
    towards = np.array([0.433, -0.75, 0.5], np.float32)  # the camera
    far, near = (200, 0, 0), (0, 0, 200)
    xyz = np.stack([towards, -towards, towards])
    rgb = np.array([near, far, near], np.uint8)
    for order in ([0, 1, 2], [1, 0, 2]):
        image = draw_scene(Scene(xyz[order], None, rgb[order], None, 3), 65)

        assert (image[32, 32] == near).all()


def test_a_mesh_far_from_zero_keeps_its_form() -> None:
    corners = np.array([[0, 0, 0], [0.25, 0, 0], [0, 0.25, 0]])
    near, far_away = [
        scene_of(mesh_of({"vertices": corners + np.array([far, 0, 0]), "faces": [[0, 1, 2]]})).xyz
        for far in (0, 4_500_000)
    ]

    np.testing.assert_array_equal(near, far_away)


@pytest.mark.parametrize("far", [0, 4_500_000])
def test_places_of_a_scene_are_from_its_origin(far: int) -> None:
    """Boxes are in the space of the sample: a page moves them by the origin."""
    places = XYZ[:300] + np.array([far, 0, 0])
    cloud = scene_of(cloud_of(places)).arrays()
    mesh = scene_of(mesh_of({"vertices": places, "faces": [[0, 1, 2]]})).arrays()

    np.testing.assert_allclose(
        np.sort(cloud["xyz"] + cloud["origin"], axis=0), np.sort(places, axis=0), atol=1e-5
    )
    np.testing.assert_allclose(mesh["xyz"] + mesh["origin"], places, atol=1e-5)
