"""An image and its annotations, by the roles that libraries of transforms know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types import BBox, BinaryMask, Image, InstanceMask, Keypoints, SegmentMask

if TYPE_CHECKING:
    from tensorlake.types import SampleType

__all__ = ["Annotated", "array_of"]

IMAGE_NDIM = 3
MASKS = (BinaryMask, SegmentMask, InstanceMask)


@dataclass(frozen=True, slots=True)
class Annotated:
    """The columns of a row that a library's transform changes.

    Attributes:
        images: Columns of images.
        masks: Columns of masks, of pixels or of objects, each with its image.
        boxes: Columns of boxes, each with its image.
        points: Columns of keypoints, each with its image.
        formats: The format of each column of boxes.
        items: By column with a value per item, the column of the items.
    """

    images: tuple[str, ...]
    masks: Mapping[str, str]
    boxes: Mapping[str, str]
    points: Mapping[str, str]
    formats: Mapping[str, str]
    items: Mapping[str, str]

    @classmethod
    def of(cls, types: Mapping[str, SampleType], *, library: str) -> Annotated:
        """Find the roles of columns.

        Raises:
            UnsupportedFeatureError: The library has no kind of data for one.
        """
        images = tuple(name for name, one in types.items() if isinstance(one, Image))
        belongs = {name: getattr(one, "of", None) for name, one in types.items()}
        owned = {name: image for name, image in belongs.items() if image in images}
        for name, image in owned.items():
            if not isinstance(types[name], (*MASKS, BBox, Keypoints)):
                raise UnsupportedFeatureError(
                    f"transform=: {library} moves no {types[name].describe()}, and {name!r} belongs"
                    f" to {image!r}\nleave {name!r} out of columns=, or use steps of"
                    " tl.decode, which move it",
                    tensor=name,
                )

        def those(kind: Any) -> dict[str, str]:
            return {name: one for name, one in owned.items() if isinstance(types[name], kind)}

        boxes = those(BBox)
        formats = {name: str(getattr(types[name], "format", "xyxy")) for name in boxes}
        items = {
            name: per
            for name, one in types.items()
            if isinstance(per := getattr(one, "per", None), str) and per in types
        }
        return cls(images, those(MASKS), boxes, those(Keypoints), formats, items)


def array_of(value: Any, *, is_image: bool = False) -> NDArray[Any]:
    """Return an array or a torch tensor as an array, the channels of an image last."""
    if isinstance(value, np.ndarray):
        return value
    array = value.detach().cpu().numpy()
    return np.moveaxis(array, 0, -1) if is_image and array.ndim == IMAGE_NDIM else array
