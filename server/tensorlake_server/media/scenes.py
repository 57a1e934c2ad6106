"""Scenes: points and triangles of a sample, few enough for a page, and their image.

A cloud is thinned by its stored levels of detail (1/64, 1/8, all of it, each a random part), so
that only the points that are sent are read. A mesh with too many triangles becomes its vertices.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.types import MeshHandle, PointCloudHandle

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MOST_DRAWN", "MOST_POINTS", "Scene", "color_fields", "draw_scene", "scene_of"]

MOST_POINTS = 2_000_000
MOST_DRAWN = 60_000  # for a thumbnail
MOST_SPREAD = 400_000  # over the triangles of a mesh
AXES = ("x", "y", "z")
CHANNELS = (("red", "green", "blue"), ("r", "g", "b"))
SHARES = (64, 8, 1)  # of all points, those of each level
AZIMUTH, ELEVATION = math.radians(-60), math.radians(30)  # as viewer/src/players/scene/orbit.ts
BACKGROUND, SURFACE = (16, 20, 27), (150, 176, 205)
RAMP = ((40, 60, 140), (30, 130, 150), (70, 185, 110), (230, 215, 80))
BYTE, WORD = 255, 65535
LARGEST_DOT = 6  # pixels


@dataclass(frozen=True, slots=True)
class Scene:
    """Points or triangles to draw.

    Attributes:
        xyz: Points or vertices, float32 (n, 3), from the sample's origin, of a mesh
            from its middle.
        faces: Triangles, uint32 (m, 3); None of points.
        rgb: Colours of points, uint8 (n, 3); None where there are none.
        value: A field's values, float32 (n,); None without.
        total: Number of points of the sample.
        origin: Where `xyz` begins in the sample's space, float64 (3,).
    """

    xyz: np.ndarray
    faces: np.ndarray | None
    rgb: np.ndarray | None
    value: np.ndarray | None
    total: int
    origin: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))

    def arrays(self) -> dict[str, np.ndarray]:
        """Name the arrays that there are."""
        named = {"xyz": self.xyz, "faces": self.faces, "rgb": self.rgb, "value": self.value}
        found = {name: array for name, array in named.items() if array is not None}
        return {**found, "total": np.array([self.total], np.float64), "origin": self.origin}


def color_fields(cloud: PointCloudHandle) -> list[str]:
    """Return the fields of one number a point, except coordinates."""
    return [name for name, dtype in cloud.fields.items() if not dtype.shape and name not in AXES]


def scene_of(
    sample: PointCloudHandle | MeshHandle, *, field: str | None = None, most: int = MOST_POINTS
) -> Scene:
    """Read a sample as a scene of at most `most` points or triangles.

    Raises:
        CorruptSampleError: It cannot be decoded.
        InvalidInputError: A cloud has no such field.
    """
    if isinstance(sample, MeshHandle):
        return _mesh_scene(sample, most)
    return _cloud_scene(sample, field, most)


def _cloud_scene(cloud: PointCloudHandle, field: str | None, most: int) -> Scene:
    total = len(cloud)
    level = next((at for at in (2, 1) if total // SHARES[at] <= most), 0)
    names = color_fields(cloud)
    colors = next((three for three in CHANNELS if set(three) <= set(names)), ())
    wanted = (field,) if field is not None else colors
    read = cloud.level(level, fields=(*AXES, *wanted), stacked=True)
    read = read[:: max(1, math.ceil(len(read) / most))]
    read = read[np.isfinite(read[:, :3]).all(axis=1)]
    xyz, others = np.ascontiguousarray(read[:, :3]), read[:, 3:]
    if field is not None:
        return Scene(xyz, None, None, np.ascontiguousarray(others[:, 0]), total, cloud.origin)
    return Scene(xyz, None, _bytes_of(others) if colors else None, None, total, cloud.origin)


def _mesh_scene(mesh: MeshHandle, most: int) -> Scene:
    solid = mesh.trimesh()
    vertices = np.asarray(solid.vertices, np.float64)
    known = vertices[np.isfinite(vertices).all(axis=1)]
    middle = (known.min(axis=0) + known.max(axis=0)) / 2 if len(known) else np.zeros(3)
    xyz = (vertices - middle).astype(np.float32)  # float32 has no digits for a map projection
    faces = np.asarray(solid.faces, np.uint32)
    rgb = _vertex_colors(solid, len(xyz))
    if len(faces) <= most:
        return Scene(xyz, faces, rgb, None, len(xyz), middle)
    kept = slice(None, None, max(1, math.ceil(len(xyz) / most)))
    return Scene(xyz[kept], None, None if rgb is None else rgb[kept], None, len(xyz), middle)


def _vertex_colors(solid: Any, count: int) -> np.ndarray | None:
    visual = solid.visual
    if visual.kind == "texture":
        visual = visual.to_color()
    if visual.kind is None:
        return None
    colors = np.asarray(visual.vertex_colors)
    return np.ascontiguousarray(colors[:, :3]) if colors.shape[:1] == (count,) else None


def _bytes_of(colors: np.ndarray) -> np.ndarray:
    """Colours as bytes; LAS files have 16 bits a channel, other forms 8, and some floats to 1."""
    most = float(colors.max(initial=0))
    scale = BYTE if 0 < most <= 1 else BYTE / WORD if most > BYTE else 1
    return np.nan_to_num(colors * scale).clip(0, BYTE).astype(np.uint8)


def draw_scene(scene: Scene, size: int) -> np.ndarray:
    """Draw a scene from above one of its sides, without perspective: uint8 (size, size, 3)."""
    image = np.full((size + LARGEST_DOT, size + LARGEST_DOT, 3), BACKGROUND, np.uint8)
    points, colors = (
        _surface(scene, size) if scene.faces is not None else (scene.xyz, _colors(scene))
    )
    if not len(points):
        return image[:size, :size]
    low, high = np.percentile(points, [0.5, 99.5], axis=0)
    radius = float(np.linalg.norm(high - low)) / 2 or 1.0
    moved = (points - (low + high) / 2) / radius
    sin_a, cos_a = math.sin(AZIMUTH), math.cos(AZIMUTH)
    sin_e, cos_e = math.sin(ELEVATION), math.cos(ELEVATION)
    right = moved @ np.array([-sin_a, cos_a, 0])
    up = moved @ np.array([-sin_e * cos_a, -sin_e * sin_a, cos_e])
    depth = moved @ np.array([cos_e * cos_a, cos_e * sin_a, sin_e])
    column = np.floor((right + 1) / 2 * (size - 1)).astype(np.int64)
    row = np.floor((1 - up) / 2 * (size - 1)).astype(np.int64)
    inside = np.flatnonzero((row >= 0) & (row < size) & (column >= 0) & (column < size))
    order = inside[np.argsort(depth[inside], kind="stable")]  # nearer dots last: they cover others
    side = round(size / math.sqrt(len(points)) / 1.5)  # so that a surface of points has few holes
    reach = np.arange(min(LARGEST_DOT, max(1, side)) if scene.faces is None else 3)
    dot = (reach[:, None] * len(image) + reach).reshape(-1)
    pixels = (row[order] * len(image) + column[order])[:, None] + dot
    image.reshape(-1, 3)[pixels.reshape(-1)] = np.repeat(colors[order], len(dot), axis=0)
    return image[:size, :size]


def _colors(scene: Scene) -> np.ndarray:
    if scene.rgb is not None:
        return scene.rgb
    values = scene.xyz[:, 2] if scene.value is None else scene.value
    return _ramp(values)


def _ramp(values: np.ndarray) -> np.ndarray:
    """Colour values from the least to the greatest, without the outer hundredth."""
    if not len(values):
        return np.zeros((0, 3), np.uint8)
    low, high = np.percentile(values, [1, 99])
    share = ((values - low) / ((high - low) or 1)).clip(0, 1)
    stops: Sequence[float] = np.linspace(0, 1, len(RAMP)).tolist()
    channels = [np.interp(share, stops, [color[at] for color in RAMP]) for at in range(3)]
    return np.stack(channels, axis=1).astype(np.uint8)


def _surface(scene: Scene, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Spread points over the triangles by their areas, lit from above."""
    assert scene.faces is not None
    a, b, c = (scene.xyz[scene.faces[:, at]] for at in range(3))
    one, two = b - a, c - a
    x = one[:, 1] * two[:, 2] - one[:, 2] * two[:, 1]
    y = one[:, 2] * two[:, 0] - one[:, 0] * two[:, 2]
    z = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    areas = np.sqrt(x * x + y * y + z * z)
    ends = np.cumsum(areas, dtype=np.float64)
    if not (len(ends) and ends[-1] > 0):
        return scene.xyz, np.full((len(scene.xyz), 3), SURFACE, np.uint8)
    count = min(MOST_SPREAD, max(MOST_DRAWN, size * size))
    draws = np.random.default_rng(0)
    chosen = ends.searchsorted(draws.random(count) * ends[-1], side="right")
    low, high = np.sort(draws.random((2, count, 1), np.float32), axis=0)
    points = a[chosen] * low + b[chosen] * (high - low) + c[chosen] * (1 - high)
    light = np.abs(x[chosen] * 0.35 - y[chosen] * 0.5 + z[chosen] * 0.79) / areas[chosen]
    base = np.array(SURFACE) if scene.rgb is None else scene.rgb[scene.faces[chosen, 0]]
    return points, (base * (0.3 + 0.7 * light[:, None])).clip(0, BYTE).astype(np.uint8)
