"""MeshHandle: the value of a row of a `Mesh`, which is decoded when it is asked."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.types.base.parts import SampleHandle
from tensorlake.types.meshes.forms import MEDIA_TYPES, MeshForm
from tensorlake.types.meshes.loading import MeshFacts, texture_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MeshHandle", "MeshHead", "read_head", "write_head"]

_VERSION = 1
_KEPT_HEADS = 256
_NUM_BOUNDS = 6


class MeshHead(msgspec.Struct, array_like=True, frozen=True):
    """The head of the map of a mesh."""

    version: int
    form: MeshForm
    vertices: int
    faces: int
    bounds: tuple[float, ...]
    texture: tuple[int, int] | None


def write_head(form: MeshForm, facts: MeshFacts) -> bytes:
    """Return the head of a mesh."""
    head = MeshHead(_VERSION, form, facts.vertices, facts.faces, facts.bounds, facts.texture)
    return msgspec.msgpack.encode(head)


@lru_cache(_KEPT_HEADS)
def read_head(head: bytes) -> MeshHead:
    """Parse what `write_head` wrote.

    Raises:
        ValueError: It is damaged, or of a newer version.
    """
    try:
        read = msgspec.msgpack.decode(head, type=MeshHead)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its map is damaged: {error}") from error
    if read.version != _VERSION or len(read.bounds) != _NUM_BOUNDS:
        raise ValueError(f"its map is of version {read.version}, not {_VERSION}")
    return read


class MeshHandle(SampleHandle):
    """A mesh of triangles. Counts and bounds are known without reading it.

    ``np.asarray(mesh)`` is its vertices, float64 (vertices, 3), and ``mesh.content`` the file.

    >>> import tensorlake as tl
    >>> ds = tl.create("memory://doc-mesh", {"mesh": tl.Mesh()})
    >>> ds.append({"mesh": {"vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0]], "faces": [[0, 1, 2]]}})
    >>> mesh = ds["mesh"][0]
    >>> mesh.num_vertices, mesh.num_faces, mesh.vertices.shape, mesh.faces.tolist()
    (3, 1, (3, 3), [[0, 1, 2]])
    >>> ds.discard()
    """

    __slots__ = (
        "_read",
    )  # the mesh, once it was read: a text file of a million faces takes seconds

    _read: Any

    @property
    def num_vertices(self) -> int:
        """Number of vertices."""
        return self._mesh.vertices

    @property
    def num_faces(self) -> int:
        """Number of triangles."""
        return self._mesh.faces

    @property
    def bounds(self) -> np.ndarray:
        """Least and greatest x, y and z of the vertices, float64 (2, 3)."""
        return np.array(self._mesh.bounds).reshape(2, 3)

    @property
    def form(self) -> MeshForm:
        """Format of the file: "glb", "gltf", "ply", "stl", "off" or "obj"."""
        return self._mesh.form

    @property
    def media_type(self) -> str:
        """The MIME type of the file, such as "model/gltf-binary"."""
        return MEDIA_TYPES[self._mesh.form]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `vertices`."""
        return (self._mesh.vertices, 3)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of `vertices`."""
        return np.dtype(np.float64)

    @property
    def vertices(self) -> np.ndarray:
        """Coordinates, float64 (vertices, 3); of a scene, at the places of its meshes in it."""
        return np.array(self._parsed().vertices, np.float64)

    @property
    def faces(self) -> np.ndarray:
        """Numbers of the three corners of each triangle, int64 (faces, 3)."""
        return np.array(self._parsed().faces, np.int64)

    @property
    def texture(self) -> np.ndarray | None:
        """The texture in the file, uint8 (height, width, channels); None without one.

        Raises:
            CorruptSampleError: It cannot be decoded.
        """
        if self._mesh.texture is None:
            return None
        try:
            return texture_of(self._parsed())
        except ValueError as error:
            raise CorruptSampleError(
                f"row {self.row} of {self.tensor!r}: {error}", tensor=self.tensor, row=self.row
            ) from error

    def trimesh(self) -> Any:
        """Return the mesh as a new `trimesh.Trimesh`, with its materials; vertices not merged.

        Raises:
            CorruptSampleError: It cannot be decoded.
        """
        return self.read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001 - NumPy's protocol
        if copy is False:
            raise ValueError("a sample is decoded into a new array: copy=False cannot be kept")
        return np.asarray(self.vertices, dtype)

    def __getitem__(self, region: Any) -> Any:
        return self.vertices[region]

    def blocks(self) -> Iterator[Any]:
        """Decode the mesh, which is read whole."""
        yield self.read()

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.vertices)

    def __repr__(self) -> str:
        what = f"row {self.row} of {self.tensor!r}" if self.tensor else "a sample"
        counts = f"{self.num_vertices:,} vertices · {self.num_faces:,} faces · {self.form}"
        return f"Mesh {counts} · {self.nbytes:,} bytes, {what}"

    def _parsed(self) -> Any:
        """Read the mesh once; `trimesh` gives each caller its own, which it may change."""
        if not hasattr(self, "_read"):
            self._read = self.read()
        return self._read

    @property
    def _mesh(self) -> MeshHead:
        return read_head(self.head)
