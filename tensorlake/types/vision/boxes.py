"""BBox and BBox3D: any number of boxes per row, in an image or in space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorlake.errors import SchemaError, shown
from tensorlake.types.base.base import SampleType, check_default
from tensorlake.types.base.errors import is_one_of
from tensorlake.types.base.mixins import FloatItems

__all__ = ["BBox", "BBox3D", "BoxFormat", "BoxFormat3D", "convert_boxes"]

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
_FORMATS = ("xyxy", "xywh", "cxcywh")
BoxFormat3D = Literal["xyzlwhr", "xyzlwhq", "corners"]
_SHAPES: dict[str, tuple[int | None, ...]] = {
    "xyzlwhr": (None, 7),
    "xyzlwhq": (None, 10),
    "corners": (None, 8, 3),
}


@dataclass(frozen=True, slots=True)
class BBox(FloatItems, SampleType):
    """Boxes in pixels, float32 of shape (number of boxes, 4).

    Attributes:
        format: The meaning of the four numbers: corners, corner and size, or centre and size.
        of: The image tensor that the boxes annotate.

    Example:
        >>> BBox("xywh", of="image").describe()
        'BBox(xywh, of=image)'
    """

    kind: ClassVar[str] = "bbox"

    format: BoxFormat = "xyxy"
    of: str | None = None

    def __post_init__(self) -> None:
        if not is_one_of(self.format, _FORMATS):
            raise SchemaError(
                f"{shown(self.format)} is not a format of boxes"
                f"\nuse one of {', '.join(map(repr, _FORMATS))}",
                actual=self.format,
            )
        check_default(self)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Any number of boxes, four numbers each."""
        return (None, 4)

    def describe(self) -> str:
        """Show the format and the image: ``BBox(xyxy, of=image)``."""
        return f"BBox({self.format}, of={self.of})" if self.of else f"BBox({self.format})"


@dataclass(frozen=True, slots=True)
class BBox3D(FloatItems, SampleType):
    """Boxes in metres, float32.

    >>> BBox3D().shape, BBox3D("corners").shape
    ((None, 7), (None, 8, 3))

    Attributes:
        format: "xyzlwhr": centre, length, width, height, and the rotation about z in radians
            (KITTI,
            Open3D); "xyzlwhq": the rotation as a quaternion w, x, y, z (nuScenes); "corners": eight
            points, the lower four first.
        of: The point cloud or image tensor that they annotate.
    """

    kind: ClassVar[str] = "bbox_3d"

    format: BoxFormat3D = "xyzlwhr"
    of: str | None = None

    def __post_init__(self) -> None:
        if not is_one_of(self.format, _SHAPES):
            raise SchemaError(
                f"{shown(self.format)} is not a format of boxes in space"
                f"\nuse one of {', '.join(map(repr, _SHAPES))}",
                actual=self.format,
            )
        check_default(self)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Any number of boxes, then a box's shape."""
        return _SHAPES[self.format]

    def describe(self) -> str:
        """Show the format: ``BBox3D(xyzlwhr, of=points)``."""
        return f"BBox3D({self.format}{f', of={self.of}' if self.of else ''})"


def convert_boxes(boxes: ArrayLike, given: BoxFormat, wanted: BoxFormat) -> NDArray[np.float64]:
    """Convert boxes of one format to another.

    Corner and size are between all formats, so that a size which both have stays as it is.

    >>> convert_boxes([[10, 20, 4, 2]], "cxcywh", "xyxy")
    array([[ 8., 19., 12., 21.]])

    Args:
        boxes: Numbers of shape (boxes, 4), or as many in any shape.
        given: Their format.
        wanted: The format of the result.

    Returns:
        A new array, float64 of shape (boxes, 4).
    """
    found = np.array(boxes, np.float64).reshape(-1, 4)
    if given == wanted:
        return found
    first, second = found[:, :2], found[:, 2:]
    if given == "xyxy":
        second -= first
    if given == "cxcywh":
        first -= second / 2
    if wanted == "xyxy":
        second += first
    if wanted == "cxcywh":
        first += second / 2
    return found
