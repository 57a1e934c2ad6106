"""Boxes move with their image: the same placement, clipped to what is left of the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tensorlake.types import convert_boxes

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry import Placement
    from tensorlake.types import BoxFormat

__all__ = ["MIN_AREA", "move_boxes"]

MIN_AREA = 1.0  # square pixels of the output; a smaller remainder of a box is useless for training


def move_boxes(
    boxes: NDArray[np.floating], placement: Placement, *, box_format: BoxFormat
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Move boxes (n, 4) as ``placement`` moves the image.

    Returns:
        All boxes, clipped, in their original format; and which of them keep at least one square
        pixel.
    """
    edges = convert_boxes(boxes, box_format, "xyxy")
    placement.move_points(edges.reshape(-1, 2, 2))
    left, top, right, bottom = placement.visible
    if placement.mirror_x:
        edges[:, 0::2] = edges[:, 2::-2]
    if placement.mirror_y:
        edges[:, 1::2] = edges[:, 3::-2]
    edges[:, 0::2] = edges[:, 0::2].clip(left, right)
    edges[:, 1::2] = edges[:, 1::2].clip(top, bottom)
    areas = (edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1])
    return convert_boxes(edges, "xyxy", box_format).astype(boxes.dtype), areas >= MIN_AREA
