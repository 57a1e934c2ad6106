"""The formats of meshes: which one a file is, and whether it has what its header promises.

form    first bytes                              checked before trimesh reads it
glb     "glTF"                                   chunks, then as gltf
gltf    JSON with an "asset"                     `gltf`
ply     "ply"                                    elements and properties
stl     84 + 50 × count bytes, or "solid"        the count
off     "OFF", "COFF", "NOFF"                    the counts
obj     text with a line "v …"                   nothing is promised
"""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING, Any, Literal

from tensorlake.quantities import human_nbytes
from tensorlake.types.meshes.gltf import check_gltf, names_texture
from tensorlake.types.points.files.ply import check_ply

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["MEDIA_TYPES", "MeshForm", "check_file", "has_texture", "mesh_form"]

MeshForm = Literal["glb", "gltf", "ply", "stl", "off", "obj"]
MEDIA_TYPES: dict[MeshForm, str] = {
    "glb": "model/gltf-binary",
    "gltf": "model/gltf+json",
    "ply": "model/ply",  # not registered, as that of OFF
    "stl": "model/stl",
    "off": "model/off",
    "obj": "model/obj",
}
_STL_HEADER, _STL_FACET = 84, 50
_SNIFFED = 1 << 16
_OFF = re.compile(rb"\A(?:ST)?C?N?4?OFF\b")
_VERTEX = re.compile(rb"^v[ \t]+[-+.\d]", re.MULTILINE)
_ASSET = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{.*"asset"', re.DOTALL)
_GLB = struct.Struct("<4sIII4s")
_CHUNK = struct.Struct("<I4s")
_EXPANSION = 4  # float64 and int64 from text: "f 1 2 3" is 24 bytes of 8


def mesh_form(content: Buffer) -> MeshForm | None:
    """Return the format of a file by its bytes; None for others."""
    view = memoryview(content)
    first = bytes(view[:_SNIFFED])
    if first[:4] == b"glTF":
        return "glb"
    if first[:4] in (b"ply\n", b"ply\r"):
        return "ply"
    if len(view) >= _STL_HEADER and len(view) == _stl_nbytes(view):
        return "stl"
    if first[:5].lower() == b"solid":
        return "stl"
    if _OFF.match(first):
        return "off"
    if _ASSET.match(first) or _ASSET.match(bytes(view) if first[:1] == b"{" else b""):
        return "gltf"
    is_text = b"\0" not in first
    return "obj" if is_text and _VERTEX.search(bytes(view)) else None


def check_file(content: Buffer, form: MeshForm, *, limit: int) -> tuple[int, int] | None:
    """Check that a file has what it promises, before anything is allocated for it.

    Lines of text may still be missing, so that the counts are compared when they are read.

    Args:
        content: The file.
        form: Its format.
        limit: Bytes of vertices and faces that it may decode to.

    Returns:
        The promised numbers of vertices and of faces, which have a triangle or more; None if the
        format does not promise any.

    Raises:
        ValueError: It is cut, refers to other files, or promises more.
    """
    view = memoryview(content)
    if form in ("stl", "off", "obj") and _EXPANSION * len(view) > limit:
        raise ValueError(
            f"{len(view):,} bytes may be {human_nbytes(_EXPANSION * len(view))} of mesh"
        )
    match form:
        case "glb":
            tree, binary = _glb_chunks(view)
            check_gltf(_tree(tree), binary, limit=limit)
            return None
        case "gltf":
            check_gltf(_tree(view), None, limit=limit)
            return None
        case "ply":
            counts = check_ply(content, limit=limit)
            return counts.get("vertex", 0), counts.get("face", 0)
        case "off":
            return _check_off(view)
        case _:
            return None


def has_texture(content: Buffer, form: MeshForm) -> bool:
    """Whether a checked file has a texture of colours in it; those beside a file are not read.

    Raises:
        ValueError: Its materials are damaged.
    """
    view = memoryview(content)
    if form == "glb":
        return names_texture(_tree(_glb_chunks(view)[0]))
    return form == "gltf" and names_texture(_tree(view))


def _stl_nbytes(view: memoryview) -> int:
    return _STL_HEADER + _STL_FACET * struct.unpack_from("<I", view, _STL_HEADER - 4)[0]


def _glb_chunks(view: memoryview) -> tuple[memoryview, int]:
    """Return the JSON of a binary glTF, and the bytes of its buffer."""
    if len(view) < _GLB.size:
        raise ValueError(f"it has {len(view)} bytes, less than a header")
    _, version, total, nbytes, kind = _GLB.unpack_from(view)
    if version != 2 or kind != b"JSON":  # noqa: PLR2004 - glTF 2.0
        raise ValueError(f"it is of version {version}: glTF 2.0 is read")
    if total != len(view):
        raise ValueError(f"its header promises {total:,} bytes, and it has {len(view):,}")
    stop = _GLB.size + nbytes
    if stop > len(view):
        raise ValueError("its JSON is longer than the file")
    binary, at = 0, stop
    while at < len(view):
        if at + _CHUNK.size > len(view):
            raise ValueError("its last chunk is cut")
        nbytes, kind = _CHUNK.unpack_from(view, at)
        at += _CHUNK.size + nbytes
        if at > len(view):
            raise ValueError("its last chunk is cut")
        if kind == b"BIN\0" and not binary:
            binary = nbytes
    return view[_GLB.size : stop], binary


def _tree(text: memoryview) -> dict[str, Any]:
    try:
        read = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its JSON cannot be parsed: {error}") from error
    if not isinstance(read, dict):
        raise ValueError("its JSON is not an object")  # noqa: TRY004 - of the file's content
    return read


def _check_off(view: memoryview) -> tuple[int, int]:
    words = re.sub(rb"#[^\n]*", b"", bytes(view[:_SNIFFED])).split(maxsplit=4)
    counts = words[1:3]
    if len(counts) < 2 or not all(one.isdigit() and len(one) < 16 for one in counts):  # noqa: PLR2004 - vertices and faces
        raise ValueError("its first line does not have the numbers of vertices and faces")
    vertices, faces = map(int, counts)
    if 6 * vertices + 2 * faces > len(view):  # three numbers of a digit, or a count, and spaces
        raise ValueError(f"it promises {vertices:,} vertices and {faces:,} faces")
    return vertices, faces
