"""BBox: any number of boxes a row, each four numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tensorlake.errors import SchemaError
from tensorlake.types.base import Layout, QueryKind, SampleType, check_default
from tensorlake.types.casting import joined_column, ragged_column

if TYPE_CHECKING:
    from tensorlake.types.column import Column
    from tensorlake.types.ragged import Ragged
    from tensorlake.types.rejection import Place

__all__ = ["BBox", "BoxFormat"]

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
_FORMATS = ("xyxy", "xywh", "cxcywh")


@dataclass(frozen=True, slots=True)
class BBox(SampleType):
    """Boxes in pixels, float32 of shape (number of boxes, 4).

    Attributes:
        format: What the four numbers are: corners, corner and size, or centre and size.
        of: The image tensor that the boxes lie on.
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
    def layout(self) -> Layout:
        """Each row has as many boxes as it has."""
        return "ragged"

    @property
    def dtype(self) -> np.dtype:
        """Always float32."""
        return np.dtype("<f4")

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Any number of boxes, four numbers each."""
        return (None, 4)

    @property
    def query_kind(self) -> QueryKind:
        """An array of numbers."""
        return "number"

    def describe(self) -> str:
        """Name the format and the image: ``BBox(xyxy, of=image)``."""
        return f"BBox({self.format}, of={self.of})" if self.of else f"BBox({self.format})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Take lists or arrays of boxes; [] is no box."""
        return ragged_column(samples, self.dtype, self.shape, place)

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Take them as they lie."""
        return joined_column(samples, self.dtype, self.shape, place)
