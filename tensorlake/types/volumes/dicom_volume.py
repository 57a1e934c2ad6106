"""DicomVolume: a lazy handle of one volume of a DICOM series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorlake.types.base.parts import SampleHandle
from tensorlake.types.tiles import TileHead
from tensorlake.types.volumes.dicom_head import DicomHead

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DicomVolume"]


class DicomVolume(SampleHandle):
    """A volume that is decoded when it is asked: an array [z, y, x].

    ``np.asarray(volume)`` decodes all of it, ``volume[10, 100:200]`` the tiles over this region.
    """

    __slots__ = ()

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Lengths of a voxel along z, y and x, in millimetres; NaN where no attribute tells."""
        return self._own.spacing

    @property
    def orientation(self) -> tuple[float, ...] | None:
        """Directions of a row and of a column in the patient (LPS), 6 numbers."""
        return self._own.orientation

    @property
    def position(self) -> tuple[float, ...] | None:
        """The place of the first voxel in the patient (LPS), in millimetres."""
        return self._own.position

    @property
    def affine(self) -> np.ndarray:
        """The matrix from voxels (x, y, z, 1) to the patient (LPS): float64 (4, 4)."""
        return self._own.affine

    @property
    def rescale(self) -> tuple[np.ndarray, np.ndarray]:
        """The slopes and intercepts of stored integers: of all slices, or one of each slice."""
        return self._own.slopes, self._own.intercepts

    @property
    def header(self) -> dict[str, Any]:
        """The stored attributes of the series, by their keywords."""
        return self._own.header

    @property
    def _own(self) -> DicomHead:
        return DicomHead.parse(TileHead.parse(self.head).more)
