"""Mesh: triangles, as files that are stored unchanged.

    {"mesh": "chairs/0001.glb"}                          glTF (.glb, .gltf), PLY, STL, OFF, OBJ
    {"mesh": {"vertices": array, "faces": array}}        stored as binary PLY
    {"mesh": trimesh_or_scene}                           stored as binary glTF, float32

Ingestion reads a file once by trimesh, and keeps its counts, bounds and the size of its texture in
the sample's map. Textures and materials have to be in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError
from tensorlake.quantities import checked_integer
from tensorlake.types.base.base import SampleType, check_default
from tensorlake.types.base.casting import to_array
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, SampleMap
from tensorlake.types.base.errors import (
    Place,
    damaged_before,
    describe_value,
    dtype_mismatch,
    unreadable,
)
from tensorlake.types.base.file import File, given_bytes
from tensorlake.types.base.mixins import Media
from tensorlake.types.base.region import part_of
from tensorlake.types.meshes.forms import MEDIA_TYPES, check_file, has_texture, mesh_form
from tensorlake.types.meshes.handle import MeshHandle, read_head, write_head
from tensorlake.types.meshes.loading import facts_of, load_trimesh
from tensorlake.types.vision.rle import MAX_PIXELS

if TYPE_CHECKING:
    from tensorlake.types.base.parts import SampleParts

__all__ = ["Mesh"]

_AXES = 3


@dataclass(frozen=True, slots=True)
class Mesh(Media, SampleType):
    """Triangles with their materials, stored as ingested.

    >>> Mesh().describe(), Mesh().shape
    ('Mesh', (None, 3))

    Attributes:
        max_nbytes: Bytes of vertices and faces that a file may decode to.
    """

    kind: ClassVar[str] = "mesh"
    is_lazy: ClassVar[bool] = True

    max_nbytes: int = 1 << 30

    def __post_init__(self) -> None:
        try:
            most = checked_integer(self.max_nbytes, name="Mesh: max_nbytes", least=1, most=1 << 62)
        except InvalidInputError as error:
            raise SchemaError(str(error), actual=self.max_nbytes) from error
        object.__setattr__(self, "max_nbytes", most)
        check_default(self)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of vertices."""
        return np.dtype("float64")

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Vertices, axes."""
        return (None, _AXES)

    @property
    def handle_class(self) -> type[MeshHandle]:
        """The class of handles."""
        return MeshHandle

    @property
    def keeps_files(self) -> bool:
        """Files are stored as they are."""
        return True

    @property
    def media_type(self) -> str:
        """Any mesh; see `media_type_of`."""
        return "model/*"

    def media_type_of(self, sample: Buffer) -> str:
        """Return the MIME type of one stored sample."""
        form = mesh_form(sample)
        return "application/octet-stream" if form is None else MEDIA_TYPES[form]

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return "a file of glTF, PLY, STL, OFF or OBJ, or vertices and faces (Mesh)"

    # ---- writing

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept paths, bytes, files, handles, trimesh's meshes, and vertices with faces."""
        encoded: list[Buffer] = []
        counts: list[int] = []
        maps: list[SampleMap] = []
        for position, sample in enumerate(samples):
            is_handle = isinstance(sample, MeshHandle)
            content = sample.content if is_handle else given_bytes(sample, place, position)
            if content is None:
                content = _encoded(sample, place, position)
            try:
                own = self._map_of(content)
            except ValueError as error:
                reason, _, hint = str(error).partition("\n")
                reason = f"cannot take {_named(sample)}: {reason}"
                raise unreadable(place, position, reason, hint=hint) from error
            encoded.append(content)
            counts.append(read_head(own.head).vertices)
            maps.append(own)
        shapes = np.array([(count, _AXES) for count in counts], np.int64).reshape(-1, 2)
        return EncodedColumn(encoded, shapes, None, maps)

    def _map_of(self, content: Buffer) -> SampleMap:
        form = mesh_form(content)
        if form is None:
            raise ValueError("it is not glTF, PLY, STL, OFF or OBJ")
        promised = check_file(content, form, limit=self.max_nbytes)
        facts = facts_of(load_trimesh(content, form), is_textured=has_texture(content, form))
        vertices, faces = promised or (0, 0)
        if facts.vertices < vertices or facts.faces < faces:
            found = f"{facts.vertices:,} vertices and {facts.faces:,} triangles"
            raise ValueError(f"it promises {vertices:,} vertices and {faces:,} faces, has {found}")
        if facts.texture is not None and facts.texture[0] * facts.texture[1] > MAX_PIXELS:
            raise ValueError(
                f"its texture promises {facts.texture[0]:,} × {facts.texture[1]:,} pixels"
            )
        return SampleMap(write_head(form, facts), np.array([len(content)]))

    # ---- reading

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a stored sample from its bytes."""
        try:
            return self._map_of(sample)
        except ValueError as error:
            raise self._corrupt(str(error), tensor, row) from error

    def decode_parts(self, sample: SampleParts, request: Any, *, tensor: str, row: int) -> Any:
        """Decode a mesh with trimesh; of a region, its vertices.

        Raises:
            CorruptSampleError: It cannot be decoded.
        """
        try:
            form = read_head(sample.map.head).form
            mesh = load_trimesh(bytes(sample.read(0, sample.map.nbytes)), form)
        except ValueError as error:
            raise self._corrupt(str(error), tensor, row) from error
        if not request:
            return mesh
        return part_of(np.array(mesh.vertices, np.float64), request, self.refusal(tensor, row))

    def _corrupt(self, reason: str, tensor: str, row: int) -> CorruptSampleError:
        return damaged_before("is not a whole mesh", reason, tensor, row, expected=self.describe())


def _encoded(sample: Any, place: Place, position: int) -> bytes:
    """Return a file of vertices and faces, or of a mesh of trimesh."""
    if isinstance(sample, Mapping):
        parts = cast("Mapping[str, Any]", sample)
        if set(parts) != {"vertices", "faces"}:
            described = f"a mapping with the keys {', '.join(map(repr, parts))}"
            hint = 'give {"vertices": array, "faces": array}'
            raise dtype_mismatch(place, position, described, hint=hint)
        try:
            return _ply_file(to_array(parts["vertices"]), to_array(parts["faces"]))
        except ValueError as error:
            raise unreadable(place, position, f"cannot take a mesh: {error}") from error
    export = getattr(sample, "export", None)
    if not (type(sample).__module__.startswith("trimesh.") and callable(export)):
        raise dtype_mismatch(place, position, describe_value(sample))
    try:
        made: Any = export(file_type="glb")
    except Exception as error:
        reason = f"cannot take {describe_value(sample)}: trimesh does not export it: {error!r}"
        raise unreadable(place, position, reason) from error
    return bytes(made)


def _ply_file(vertices: np.ndarray, faces: np.ndarray) -> bytes:
    """Write vertices and faces as binary PLY, without loss."""
    if vertices.ndim != 2 or vertices.shape[1] != _AXES or vertices.dtype.kind not in "iuf":  # noqa: PLR2004 - (v, 3)
        raise ValueError(f"vertices are numbers (v, 3), got {vertices.dtype} {vertices.shape}")
    if faces.ndim != 2 or faces.shape[1] != _AXES or faces.dtype.kind not in "iu":  # noqa: PLR2004 - (f, 3)
        raise ValueError(f"faces are integers (f, 3), got {faces.dtype} {faces.shape}")
    if faces.size and not 0 <= faces.min() <= faces.max() < len(vertices):
        wrong = faces.min() if faces.min() < 0 else faces.max()
        raise ValueError(f"faces name vertices 0 to {len(vertices) - 1}, got {wrong}")
    is_single = np.can_cast(vertices.dtype, np.float32)
    kind, dtype = ("float", "<f4") if is_single else ("double", "<f8")
    stored = np.ascontiguousarray(vertices, dtype)
    if not is_single and vertices.dtype.kind in "iu" and not np.array_equal(stored, vertices):
        raise ValueError("vertices are integers that float64 does not hold")
    table = np.empty(len(faces), [("n", "u1"), ("corners", "<i4", (_AXES,))])
    table["n"], table["corners"] = _AXES, faces
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    lines += [f"property {kind} {axis}" for axis in "xyz"]
    lines += [f"element face {len(faces)}", "property list uchar int vertex_indices"]
    return "\n".join([*lines, "end_header", ""]).encode() + stored.tobytes() + table.tobytes()


def _named(sample: Any) -> str:
    if isinstance(sample, (str, File)) or hasattr(sample, "__fspath__"):
        return repr(str(sample.path if isinstance(sample, File) else sample))
    if isinstance(sample, bytes | memoryview):
        return f"a sample ({len(sample):,} bytes)"
    return describe_value(sample)
