"""Which samples have the shape of those that they are declared ``of=``.

mask of a volume, array in tiles of another    the lengths of its first axes
mask of an image, in tiles or whole            its height and width
boxes, polygons, keypoints                     any: they are numbers of pixels
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake.types.vision.binary_mask import BinaryMask
from tensorlake.types.vision.image import Image
from tensorlake.types.vision.instance_mask import InstanceMask
from tensorlake.types.vision.segment_mask import SegmentMask

if TYPE_CHECKING:
    from tensorlake.types.base.base import SampleType

__all__ = ["have_one_shape"]


def have_one_shape(sample_type: SampleType, lead: SampleType) -> bool:
    """Return whether samples of a type have the lengths of those that they are ``of=``.

    >>> have_one_shape(SegmentMask(of="image"), Image("png"))
    True
    """
    if sample_type.has_parts and lead.has_parts:
        return True
    is_mask = isinstance(sample_type, BinaryMask | InstanceMask | SegmentMask)
    return is_mask and isinstance(lead, Image)
