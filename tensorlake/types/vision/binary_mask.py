"""BinaryMask: one boolean mask per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.types.base.base import (
    MEDIA_CHUNK_NBYTES,
    Layout,
    QueryKind,
    SampleType,
    check_default,
)
from tensorlake.types.base.casting import ragged_column
from tensorlake.types.vision.pixels import as_bools, mask_array

if TYPE_CHECKING:
    from tensorlake.types.base.column import Column
    from tensorlake.types.base.errors import Place

__all__ = ["BinaryMask"]


@dataclass(frozen=True, slots=True)
class BinaryMask(SampleType):
    """A boolean for each pixel: bool (height, width), packed by bits and compressed.

    Accepts arrays of bools, of 0 and 1, or of 0 and 255; PNG files and PIL images of one channel;
    COCO's RLE.

    >>> BinaryMask(of="image").convert([[[0, 1]]], tensor="mask").sample(0)
    array([[False,  True]])

    Attributes:
        of: The image tensor that it annotates.
    """

    kind: ClassVar[str] = "binary_mask"

    of: str | None = None

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def layout(self) -> Layout:
        """Each row has a mask of its own size."""
        return "ragged"

    @property
    def dtype(self) -> np.dtype:
        """Bool."""
        return np.dtype(np.bool_)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Height and width."""
        return (None, None)

    @property
    def query_kind(self) -> QueryKind:
        """An array of booleans."""
        return "bool"

    @property
    def chunk_nbytes(self) -> int:
        """The same as for images: a mask has as many pixels, and compresses to a hundredth."""
        return MEDIA_CHUNK_NBYTES

    def describe(self) -> str:
        """Show the image: ``BinaryMask(of=image)``."""
        return f"BinaryMask(of={self.of})" if self.of else "BinaryMask"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept masks in any of the forms above."""
        masks = [
            as_bools(mask_array(sample, place, position), place, position)
            for position, sample in enumerate(samples)
        ]
        return ragged_column(masks, self.dtype, self.shape, place)
