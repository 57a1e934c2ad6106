"""Samples that are declared ``of=`` others: which have their shape, and their place in space.

mask of a volume, array in tiles of another    the lengths of its first axes
mask of an image, in tiles or whole            its height and width
NIfTI or DICOM volume of another               also its affine: voxels at the same places
boxes, polygons, keypoints                     any: they are numbers of pixels
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlake.errors import SchemaError
from tensorlake.types.tiles import TileHead
from tensorlake.types.vision.binary_mask import BinaryMask
from tensorlake.types.vision.boxes import BBox3D
from tensorlake.types.vision.image import Image
from tensorlake.types.vision.instance_mask import InstanceMask
from tensorlake.types.vision.segment_mask import SegmentMask
from tensorlake.types.volumes.tiled import TiledVolume

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.types.base.base import SampleType
    from tensorlake.types.base.column import SampleMap

__all__ = ["SAME_PLACE", "check_scaled", "have_one_shape", "have_places", "voxels_apart"]

SAME_PLACE: Final = 0.01
"""Share of a voxel up to which voxels are at the same place: files round affines to float32."""

_SPATIAL: Final = 3


def have_one_shape(sample_type: SampleType, lead: SampleType) -> bool:
    """Return whether samples of a type have the lengths of those that they are ``of=``.

    >>> have_one_shape(SegmentMask(of="image"), Image("png"))
    True
    """
    if sample_type.has_parts and lead.has_parts:
        return True
    is_mask = isinstance(sample_type, BinaryMask | InstanceMask | SegmentMask)
    return is_mask and isinstance(lead, Image)


def check_scaled(types: Mapping[str, SampleType], there: Mapping[str, SampleType]) -> None:
    """Refuse images that are scaled when they are stored, where others are declared ``of=`` them.

    Boxes and outlines are numbers of pixels: they would no longer fit a smaller image.

    Args:
        types: New types by tensor.
        there: Those of tensors that exist already.

    Raises:
        SchemaError: There are such types.
    """
    known = {**there, **types}
    for name, one in known.items():
        lead = getattr(one, "of", None)
        image = known.get(lead) if isinstance(lead, str) else None
        if not isinstance(image, Image) or image.max_side is None or isinstance(one, BBox3D):
            continue
        raise SchemaError(
            f"{name!r} ({one.describe()}) is of={lead!r}, whose images are scaled to max_side="
            f"{image.max_side} when they are stored: its pixels would be those of the larger image"
            "\nleave max_side= out, and make a copy in which both are scaled:"
            f" view.materialize(url, encode={{{lead!r}: tl.Image(…, max_side={image.max_side})}})",
            tensor=name,
            expected=None,
            actual=image.max_side,
        )


def have_places(sample_type: SampleType, lead: SampleType) -> bool:
    """Return whether samples of both types have affines, which can be compared."""
    return isinstance(sample_type, TiledVolume) and isinstance(lead, TiledVolume)


def voxels_apart(
    sample_type: SampleType, own: SampleMap, lead_type: SampleType, lead: SampleMap
) -> float:
    """Return how far voxels are from those of the volume that they are ``of=``, in its voxels.

    Both types have `have_places`. It is the largest distance at the corners, where it is largest;
    0 where the attributes of a series do not tell where it is.
    """
    assert isinstance(sample_type, TiledVolume)
    assert isinstance(lead_type, TiledVolume)
    heads = [TileHead.parse(one.head) for one in (own, lead)]
    affines = (sample_type.affine_of(heads[0]), lead_type.affine_of(heads[1]))
    lengths = heads[0].shape[:_SPATIAL][::-1]
    ends = [(0, max(0, length - 1)) for length in (*lengths, *(1,) * (_SPATIAL - len(lengths)))]
    corners = np.array([(*corner, 1) for corner in product(*ends)], np.float64).T
    is_used = corners.any(axis=1)  # a series of one slice has no distance between slices
    shifts = (affines[0] - affines[1])[:_SPATIAL, is_used] @ corners[is_used]
    distance = float(np.linalg.norm(shifts, axis=0).max())
    if np.isnan(distance):
        return 0.0
    voxel = float(np.nanmin(np.linalg.norm(affines[1][:_SPATIAL, :_SPATIAL], axis=0)))
    return distance / voxel if voxel > 0 else distance
