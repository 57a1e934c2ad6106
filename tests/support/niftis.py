"""NIfTI files, made by nibabel."""

import gzip
from typing import Any

import nibabel
import numpy as np

__all__ = ["in_our_order", "nifti_bytes"]


def nifti_bytes(
    voxels: np.ndarray,
    *,
    version: int = 1,
    order: str = "<",
    scaling: tuple[float, float] | None = None,
    is_zipped: bool = False,
    **texts: Any,
) -> bytes:
    """Write stored voxels (x, y, z, …) as a file, with scaling and texts of its header."""
    kinds = {1: nibabel.Nifti1Image, 2: nibabel.Nifti2Image}
    affine = np.array([[2, 0, 0.5, -9], [0, 3, 0, 7], [0, 0, -4, 1], [0, 0, 0, 1]], np.float64)
    header = kinds[version].header_class(endianness=order)
    header.set_data_dtype(voxels.dtype)
    image = kinds[version](np.zeros(voxels.shape, voxels.dtype), affine, header)
    image.header.set_data_dtype(voxels.dtype)
    for name, text in texts.items():
        image.header[name] = text
    content = bytearray(image.to_bytes())
    made = kinds[version].header_class(bytes(content[: header.sizeof_hdr]))
    if scaling is not None:
        made["scl_slope"], made["scl_inter"] = scaling
    start = int(made["vox_offset"])
    content[: header.sizeof_hdr] = made.binaryblock
    stored = voxels.astype(made.get_data_dtype()) if voxels.dtype.names is None else voxels
    content[start:] = stored.tobytes(order="F")
    return gzip.compress(bytes(content)) if is_zipped else bytes(content)


def in_our_order(voxels: np.ndarray) -> np.ndarray:
    """Turn (x, y, z, …) into [z, y, x, …]."""
    spatial = min(3, voxels.ndim)
    return voxels.transpose(*reversed(range(spatial)), *range(spatial, voxels.ndim))
