"""Triangles of a file, read by trimesh: all meshes of a scene as one, at their places in it."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Generator

    from tensorlake.types.base.column import Buffer
    from tensorlake.types.meshes.forms import MeshForm

__all__ = ["MeshFacts", "facts_of", "load_trimesh", "texture_of"]

_AXES = 3


@dataclass(frozen=True, slots=True)
class MeshFacts:
    """The facts of a mesh that its map has.

    Attributes:
        vertices: Number of vertices.
        faces: Number of triangles.
        bounds: Least x, y, z and greatest x, y, z.
        texture: Width and height of its texture; None without one.
    """

    vertices: int
    faces: int
    bounds: tuple[float, ...]
    texture: tuple[int, int] | None


def load_trimesh(content: Buffer, form: MeshForm) -> Any:
    """Read a file as a `trimesh.Trimesh`; vertices are as in the file, not merged.

    Raises:
        ValueError: trimesh cannot read it, or it has no triangles.
    """
    try:
        import trimesh
    except ModuleNotFoundError as error:
        raise missing_extra("reading meshes", "points") from error

    options: dict[str, Any] = {"process": False}
    if form in ("ply", "obj"):  # their textures are other files
        options["skip_materials"] = True
    try:
        with _quiet("trimesh"):
            mesh: Any = trimesh.load_mesh(io.BytesIO(content), file_type=form, **options)
            vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    except Exception as error:
        raise ValueError(f"trimesh cannot read it: {error!r}") from error
    if faces.ndim != 2 or faces.shape[1] != _AXES or not len(faces):  # noqa: PLR2004 - (f, 3)
        raise ValueError("it has no triangles\npoints alone are tl.PointCloud")
    if vertices.ndim != 2 or vertices.shape[1] != _AXES:  # noqa: PLR2004 - (v, 3)
        raise ValueError(f"its vertices have the shape {vertices.shape}")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise ValueError(f"a triangle has the corner {faces.max():,} of {len(vertices):,} vertices")
    return mesh


def facts_of(mesh: Any, *, is_textured: bool) -> MeshFacts:
    """Return the facts of a mesh that trimesh read.

    Args:
        mesh: The mesh.
        is_textured: Whether its file has a texture: trimesh gives meshes without one a grey image.
    """
    vertices = np.asarray(mesh.vertices, np.float64)
    image = _image(mesh) if is_textured else None
    texture = None if image is None else (int(image.width), int(image.height))
    bounds = (*vertices.min(axis=0).tolist(), *vertices.max(axis=0).tolist())
    return MeshFacts(len(vertices), len(mesh.faces), bounds, texture)


def texture_of(mesh: Any) -> np.ndarray | None:
    """Decode the texture of a mesh: uint8 (height, width, channels); None without one.

    Raises:
        ValueError: It cannot be decoded.
    """
    image = _image(mesh)
    if image is None:
        return None
    kept = image.mode in ("L", "RGB", "RGBA")
    try:
        pixels = np.asarray(image if kept else image.convert("RGBA"))
    except (OSError, SyntaxError) as error:  # as Pillow raises for damaged files
        raise ValueError(f"its texture cannot be decoded: {error}") from error
    return pixels.reshape(*pixels.shape[:2], -1)


def _image(mesh: Any) -> Any:
    """Return the Pillow image of the texture, not decoded; None without one."""
    material = getattr(mesh.visual, "material", None)
    for name in ("baseColorTexture", "image"):
        image = getattr(material, name, None)
        if image is not None:
            return image
    return None


@contextmanager
def _quiet(name: str) -> Generator[None]:
    """Keep a library from logging errors that are raised, too."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
