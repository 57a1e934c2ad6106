"""BBox: any number of boxes a row, each four numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tensorlake.errors import SchemaError
from tensorlake.types.base.base import SampleType, check_default
from tensorlake.types.base.float_items import FloatItems

__all__ = ["BBox", "BoxFormat"]

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
_FORMATS = ("xyxy", "xywh", "cxcywh")


@dataclass(frozen=True, slots=True)
class BBox(FloatItems, SampleType):
    """Boxes in pixels, float32 of shape (number of boxes, 4).

    Attributes:
        format: What the four numbers are: corners, corner and size, or centre and size.
        of: The image tensor that the boxes lie on.

    Example:
        >>> BBox("xywh", of="image").describe()
        'BBox(xywh, of=image)'
    """

    kind: ClassVar[str] = "bbox"

    format: BoxFormat = "xyxy"
    of: str | None = None

    def __post_init__(self) -> None:
        if self.format not in _FORMATS:
            raise SchemaError(
                f"{self.format!r} is not a format of boxes"
                f"\nuse one of {', '.join(map(repr, _FORMATS))}",
                actual=self.format,
            )
        check_default(self)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Any number of boxes, four numbers each."""
        return (None, 4)

    def describe(self) -> str:
        """Name the format and the image: ``BBox(xyxy, of=image)``."""
        return f"BBox({self.format}, of={self.of})" if self.of else f"BBox({self.format})"
