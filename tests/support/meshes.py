"""Meshes for tests, in files that trimesh wrote."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
import trimesh
from PIL import Image

__all__ = ["FORMS", "glb_file", "mesh_file", "scene", "textured_box"]

FORMS = ("glb", "gltf", "ply", "ply ascii", "stl", "stl ascii", "off", "obj")


def textured_box() -> Any:
    """Return a box with a texture of 8 × 6 pixels."""
    box = trimesh.creation.box()
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(6, 8, 3)
    uv = np.linspace(0, 1, 2 * len(box.vertices)).reshape(-1, 2)
    box.visual = trimesh.visual.TextureVisuals(uv=uv, image=Image.fromarray(pixels))
    return box


def scene() -> Any:
    """Return two meshes of which one is moved."""
    ball = trimesh.creation.icosphere(subdivisions=2)
    made = trimesh.Scene([trimesh.creation.box()])
    made.add_geometry(ball, transform=trimesh.transformations.translation_matrix((5, 0, 0)))
    return made


@lru_cache
def mesh_file(form: str) -> bytes:
    """Return a ball of 320 faces in one of `FORMS`."""
    ball = trimesh.creation.icosphere(subdivisions=2)
    match form:
        case "gltf":
            return json.dumps(_embedded(glb_file(scene()))).encode()
        case "ply ascii":
            made = ball.export(file_type="ply", encoding="ascii")
        case "stl ascii":
            made = ball.export(file_type="stl_ascii")
        case _:
            made = ball.export(file_type=form)
    return made.encode() if isinstance(made, str) else bytes(made)


def glb_file(mesh: Any) -> bytes:
    """Return a mesh or scene as binary glTF."""
    return bytes(mesh.export(file_type="glb"))


def _embedded(glb: bytes) -> dict[str, Any]:
    """Return a binary glTF as JSON with its buffer embedded."""
    import base64

    length = int.from_bytes(glb[12:16], "little")
    tree: dict[str, Any] = json.loads(glb[20 : 20 + length])
    binary = glb[20 + length + 8 :]
    data = base64.b64encode(binary).decode()
    tree["buffers"][0]["uri"] = f"data:application/octet-stream;base64,{data}"
    return tree
