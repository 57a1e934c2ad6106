"""Promises of a glTF file: accessors, buffers and nodes, checked before trimesh reads them.

Everything has to be in the file: buffers and images at other addresses are refused, as are
accessors beyond their buffer, nodes with two parents, which could repeat a mesh without end, and
compression that trimesh does not decode.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, cast

from tensorlake.quantities import human_nbytes, is_whole_number

__all__ = ["check_gltf", "names_texture"]

_COMPONENT_NBYTES = {5120: 1, 5121: 1, 5122: 2, 5123: 2, 5125: 4, 5126: 4}
_COMPONENTS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_UNREAD = frozenset(("KHR_draco_mesh_compression", "EXT_meshopt_compression"))
_DATA = "data:"
_MAX_NODES = 1 << 16  # trimesh takes 25 µs for each


def check_gltf(tree: dict[str, Any], binary: int | None, *, limit: int) -> None:
    """Check the JSON of a glTF file.

    Args:
        tree: The JSON.
        binary: Bytes of the buffer of a binary file; None if it is not one.
        limit: Bytes of all accessors, with those of nodes that repeat a mesh.

    Raises:
        ValueError: It is damaged, refers to other files, or promises more.
    """
    try:
        _check(tree, binary, limit)
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"its JSON is not glTF: {error!r}") from error


def names_texture(tree: dict[str, Any]) -> bool:
    """Whether a checked glTF file has a texture of colours in one of its materials."""
    colours = {"baseColorTexture", "diffuseTexture"}  # the second: specular and glossiness
    try:
        return any(
            colours.intersection(one)
            for material in tree.get("materials", ())
            for one in (
                material.get("pbrMetallicRoughness", {}),
                *material.get("extensions", {}).values(),
            )
        )
    except (TypeError, AttributeError) as error:
        raise ValueError(f"its JSON is not glTF: {error!r}") from error


def _check(tree: dict[str, Any], binary: int | None, limit: int) -> None:
    unread = sorted(_UNREAD.intersection(tree.get("extensionsRequired", ())))
    if unread:
        raise ValueError(f"it is compressed by {unread[0]}\nexport it without compression")
    buffers = [_buffer_nbytes(one, binary) for one in tree.get("buffers", ())]
    for image in tree.get("images", ()):
        uri = image.get("uri", _DATA)
        if not uri.startswith(_DATA):
            raise ValueError(f"its image {uri[:80]!r} is another file\nembed it: export as .glb")
    views: list[int] = []
    for one in tree.get("bufferViews", ()):
        start, nbytes = _number(one.get("byteOffset", 0)), _number(one["byteLength"])
        if start + nbytes > buffers[_number(one["buffer"])]:
            raise ValueError(f"bytes {start:,} to {start + nbytes:,} are beyond its buffer")
        views.append(nbytes)
    sizes = [_accessor_nbytes(one, views) for one in tree.get("accessors", ())]
    _check_total(sum(sizes), limit)
    _check_nodes(tree, sizes, limit)


def _number(value: object) -> int:
    if not is_whole_number(value) or value < 0:
        raise TypeError(f"{value!r} is not a number from 0 on")
    return int(value)


def _check_total(nbytes: int, limit: int) -> None:
    if nbytes > limit:
        raise ValueError(f"it promises {human_nbytes(nbytes)} of mesh")


def _buffer_nbytes(buffer: dict[str, Any], binary: int | None) -> int:
    promised, uri = _number(buffer["byteLength"]), buffer.get("uri")
    if uri is None:
        has = binary or 0
    elif uri.startswith(_DATA):
        has = 3 * (len(uri) - uri.find(",")) // 4  # base64
    else:
        raise ValueError(f"its buffer {uri[:80]!r} is another file\nembed it: export as .glb")
    if promised > has:
        raise ValueError(f"a buffer promises {promised:,} bytes, and has {has:,}")
    return promised


def _accessor_nbytes(accessor: dict[str, Any], views: list[int]) -> int:
    if "sparse" in accessor:
        raise ValueError("it has sparse accessors\nexport it without them")
    item = _COMPONENT_NBYTES[accessor["componentType"]] * _COMPONENTS[accessor["type"]]
    count, start = _number(accessor["count"]), _number(accessor.get("byteOffset", 0))
    nbytes = count * item
    if "bufferView" in accessor and start + nbytes > views[_number(accessor["bufferView"])]:
        raise ValueError(f"an accessor promises {count:,} elements, beyond its buffer")
    return nbytes


def _check_nodes(tree: dict[str, Any], sizes: list[int], limit: int) -> None:
    nodes: list[dict[str, Any]] = list(tree.get("nodes", ()))
    if len(nodes) > _MAX_NODES:
        raise ValueError(f"it has {len(nodes):,} nodes; at most {_MAX_NODES:,} are read")
    meshes = [
        sum(sizes[_number(one)] for one in _accessors_of(mesh)) for mesh in tree.get("meshes", ())
    ]
    _check_total(sum(meshes[_number(one["mesh"])] for one in nodes if "mesh" in one), limit)
    children = [_number(one) for node in nodes for one in node.get("children", ())]
    roots = [{_number(one) for one in scene.get("nodes", ())} for scene in tree.get("scenes", ())]
    if any(one >= len(nodes) for one in chain(children, *roots)):
        raise ValueError("a node is not there")
    if len(set(children)) < len(children) or any(one.intersection(children) for one in roots):
        raise ValueError("a node has two parents")


def _accessors_of(mesh: dict[str, Any]) -> Iterable[int]:
    for primitive in mesh["primitives"]:
        yield from cast("dict[str, int]", primitive["attributes"]).values()
        if "indices" in primitive:
            yield primitive["indices"]
