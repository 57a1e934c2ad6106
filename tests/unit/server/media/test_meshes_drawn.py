"""Meshes drawn as images: what is in front covers all that is behind it."""

import numpy as np

from tensorlake_server.media.scenes import Scene, draw_scene


def box(side: float, color: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * side
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [[(a, b, c), (a, c, d)] for a, b, c, d in quads]
    return corners.astype(np.float32), np.reshape(faces, (-1, 3)), np.full((8, 3), color, np.uint8)


def test_a_box_inside_a_box_is_not_seen():
    outer, inner = box(1.0, (200, 200, 200)), box(0.8, (255, 0, 0))
    xyz, rgb = (
        np.concatenate([one[at], two[at]]) for at in (0, 2) for one, two in [(outer, inner)]
    )
    faces = np.concatenate([outer[1], inner[1] + 8]).astype(np.uint32)

    image = draw_scene(Scene(xyz, faces, rgb, None, 16), 256).astype(int)

    seen = (image.sum(axis=2) > 200).sum()
    assert seen > 256 * 256 / 8
    assert ((image[..., 0] - image[..., 1]) > 20).sum() < 0.03 * seen  # holes between dots


def test_no_area_and_no_vertex_are_an_image():
    point = Scene(np.zeros((3, 3), np.float32), np.zeros((1, 3), np.uint32), None, None, 3)
    nothing = Scene(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint32), None, None, 0)

    for scene in (point, nothing):
        assert draw_scene(scene, 64).shape == (64, 64, 3)
