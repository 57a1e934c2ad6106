"""NiftiVolume: a lazy handle of one volume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorlake.types.base.parts import SampleHandle
from tensorlake.types.tiles import TileHead
from tensorlake.types.volumes.nifti_file import NiftiHeader, nibabel, write_file
from tensorlake.types.volumes.tiled import Voxels

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NiftiVolume"]


class NiftiVolume(SampleHandle):
    """A volume that is decoded when it is asked: an array [z, y, x], or [z, y, x, channel].

    ``np.asarray(volume)`` decodes all of it, ``volume[40:80, 100:200]`` the tiles over this region.

    >>> import numpy as np
    >>> import tensorlake as tl
    >>> ds = tl.create("memory://doc-nifti-volume", {"scan": tl.Nifti()})
    >>> ds.append({"scan": {"voxels": np.zeros((20, 30, 40), "int16"), "affine": np.eye(4)}})
    >>> volume = ds["scan"][0]
    >>> volume.shape, volume.zooms, volume[4:8, 10].shape
    ((20, 30, 40), (1.0, 1.0, 1.0), (4, 40))
    >>> ds.discard()
    """

    __slots__ = ()

    @property
    def affine(self) -> np.ndarray:
        """The matrix from voxels (x, y, z, 1), as in the file, to millimetres: float64 (4, 4)."""
        return self._header.affine.copy()

    @property
    def zooms(self) -> tuple[float, ...]:
        """Lengths of a voxel along the axes of the array, in the units of the header."""
        return self._header.zooms

    @property
    def scaling(self) -> tuple[float, float]:
        """The factor and the summand that make values of stored voxels; (1.0, 0.0) without."""
        return self._header.slope, self._header.inter

    @property
    def header(self) -> Any:
        """The header, as nibabel's ``Nifti1Header`` or ``Nifti2Header``; its texts are empty.

        Raises:
            MissingExtraError: nibabel is not installed.
        """
        library = nibabel()
        block = self._header.block
        is_first = len(block) == library.Nifti1Header.sizeof_hdr
        return (library.Nifti1Header if is_first else library.Nifti2Header)(block, check=False)

    def file(self) -> bytes:
        """Return the volume as a file, ``.nii``: the stored voxels, their scaling and the affine.

        Raises:
            MissingExtraError: nibabel is not installed.
        """
        return write_file(self._header, self.read(Voxels()))

    @property
    def _header(self) -> NiftiHeader:
        return NiftiHeader.parse(TileHead.parse(self.head).more)
