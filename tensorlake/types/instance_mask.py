"""InstanceMask: any number of masks a row, one for each object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.types.base import MEDIA_CHUNK_NBYTES, Layout, QueryKind, SampleType, check_default
from tensorlake.types.casting import ragged_column
from tensorlake.types.mask_pixels import as_bools, mask_array
from tensorlake.types.rejection import Place, shape_mismatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.column import Column

__all__ = ["InstanceMask"]

_NDIM = 3


@dataclass(frozen=True, slots=True)
class InstanceMask(SampleType):
    """Masks that may overlap: bool (objects, height, width), packed by bits and compressed.

    Takes arrays of three axes, and lists of masks: arrays, PNG files, PIL images, COCO's run
    lengths; [] is no object.

    >>> column = InstanceMask().convert([[{"size": [1, 2], "counts": [1, 1]}], []], tensor="mask")
    >>> column.shapes
    array([[1, 1, 2],
           [0, 0, 0]])

    Attributes:
        of: The image tensor that they lie on.
    """

    kind: ClassVar[str] = "instance_mask"

    of: str | None = None

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def layout(self) -> Layout:
        """Each row has as many masks as it has, of its own size."""
        return "ragged"

    @property
    def dtype(self) -> np.dtype:
        """Bool."""
        return np.dtype(np.bool_)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Objects, height and width."""
        return (None, None, None)

    @property
    def query_kind(self) -> QueryKind:
        """An array of truth values."""
        return "bool"

    @property
    def chunk_nbytes(self) -> int:
        """That of pictures: a mask has as many pixels, and packs to a hundredth."""
        return MEDIA_CHUNK_NBYTES

    def describe(self) -> str:
        """Name the image: ``InstanceMask(of=image)``."""
        return f"InstanceMask(of={self.of})" if self.of else "InstanceMask"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Take masks in any of the forms above."""
        stacks = [_stack(sample, place, position) for position, sample in enumerate(samples)]
        return ragged_column(stacks, self.dtype, self.shape, place)


def _stack(sample: Any, place: Place, position: int) -> np.ndarray:
    if not isinstance(sample, (list, tuple)) or not any(map(_is_mask, sample)):
        return as_bools(mask_array(sample, place, position, ndim=_NDIM), place, position)
    return _stacked(sample, place, position)


def _is_mask(item: Any) -> bool:
    return not isinstance(item, (list, tuple))


def _stacked(sample: Sequence[Any], place: Place, position: int) -> np.ndarray:
    masks = [as_bools(mask_array(item, place, position), place, position) for item in sample]
    sizes = {mask.shape for mask in masks}
    if len(sizes) > 1:
        shown = ", ".join(f"{height} × {width}" for height, width in sorted(sizes))
        raise shape_mismatch(place, position, f"masks of different sizes: {shown}")
    return np.stack(masks)
