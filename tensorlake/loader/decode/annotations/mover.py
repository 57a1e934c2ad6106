"""Movers: how the samples of a type follow the placement of the image that they annotate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import CorruptSampleError
from tensorlake.loader.decode.annotations.boxes import move_boxes
from tensorlake.loader.decode.annotations.keypoints import move_keypoints, sides_swapped
from tensorlake.loader.decode.annotations.masks import move_masks
from tensorlake.loader.decode.annotations.polygons import move_polygons
from tensorlake.types import (
    BBox,
    BinaryMask,
    EncodedColumn,
    InstanceMask,
    Keypoints,
    Polygon,
    SegmentMask,
)

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry import Placement
    from tensorlake.types import SampleType

__all__ = ["Kept", "Mover", "keep_items", "mover_of"]

Kept: TypeAlias = NDArray[np.bool_] | None
"""Which items of a sample are left in the image; None: it has no items."""

DENSE = (BinaryMask, SegmentMask)
MOVED = (*DENSE, BBox, InstanceMask, Keypoints, Polygon)


@dataclass(frozen=True, slots=True, eq=False)
class Mover:
    """Moves the samples of one tensor.

    Attributes:
        tensor: Its name.
        type: Its type.
        order: The order of keypoints in an image mirrored once; None: unchanged.
    """

    tensor: str
    type: SampleType
    order: NDArray[np.intp] | None = field(default=None)

    @property
    def is_dense(self) -> bool:
        """Whether a sample has a number for each pixel of the image."""
        return isinstance(self.type, DENSE)

    def move(self, value: Any, placement: Placement, *, row: int) -> tuple[Any, Kept]:
        """Return a sample where its image's pixels went, and which of its items are left.

        Items that are not left are still there: other columns are dropped by the same mask.

        Raises:
            CorruptSampleError: A mask is not of its image's size.
        """
        sample_type = self.type
        if isinstance(sample_type, BBox):
            return move_boxes(value, placement, box_format=sample_type.format)
        if isinstance(sample_type, Keypoints):
            return move_keypoints(value, placement, order=self.order)
        if isinstance(sample_type, Polygon):
            return move_polygons(value, placement)
        if isinstance(sample_type, InstanceMask) and not len(value):
            return np.zeros((0, *placement.output), np.bool_), np.zeros(0, np.bool_)
        if value.shape[-2:] != placement.source:
            raise self._other_size(value.shape[-2:], placement.source, row)
        if isinstance(sample_type, InstanceMask):
            moved = move_masks(value, placement)
            return moved, np.asarray(moved.any(axis=(1, 2)))
        ignored = sample_type.ignore if isinstance(sample_type, SegmentMask) else None
        return move_masks(value, placement, fill=ignored or 0), None

    def stored(self, value: Any) -> bytes:
        """Return a moved sample as it would be stored."""
        column = self.type.convert([value], tensor=self.tensor)
        assert isinstance(column, EncodedColumn)
        return bytes(column.samples[0])

    def _other_size(
        self, size: tuple[int, ...], image: tuple[int, int], row: int
    ) -> CorruptSampleError:
        height, width = size
        return CorruptSampleError(
            f"row {row} of {self.tensor!r} is {height} x {width}, and the image that it annotates"
            f" {image[0]} x {image[1]}: it cannot be moved with it\nstore masks of the image's"
            " size; to train without the row: on_error='skip'",
            tensor=self.tensor,
            row=row,
        )


def keep_items(value: Any, kept: NDArray[np.bool_]) -> Any:
    """Return the items of a sample, an array or a list, that are left."""
    if isinstance(value, np.ndarray):
        return value[kept]
    return [one for one, own in zip(value, kept.tolist(), strict=True) if own]


def mover_of(tensor: str, sample_type: SampleType) -> Mover | None:
    """Return the mover of a tensor; None where its samples cannot be moved."""
    if not isinstance(sample_type, MOVED):
        return None
    names = sample_type.names if isinstance(sample_type, Keypoints) else ()
    return Mover(tensor, sample_type, sides_swapped(names))
