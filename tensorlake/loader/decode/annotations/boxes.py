"""Boxes move with their image: the same placement, clipped to what is left of the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import UnsupportedFeatureError, shown

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry import Placement

__all__ = ["BOX_FORMATS", "MIN_AREA", "move_boxes"]

MIN_AREA = 1.0  # square pixels of the output; a smaller remainder of a box is useless for training
BOX_FORMATS = frozenset({"xyxy", "xywh", "cxcywh"})


def move_boxes(
    boxes: NDArray[np.floating], placement: Placement, *, box_format: str
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Move boxes (n, 4) as ``placement`` moves the image.

    Returns:
        All boxes, clipped, in their original format; and which of them keep at least one square
        pixel.
    """
    edges = _to_edges(boxes.astype(np.float64), box_format)
    placement.move_points(edges.reshape(-1, 2, 2))
    height, width = placement.output
    if placement.mirror_x:
        edges[:, 0::2] = edges[:, 2::-2]
    if placement.mirror_y:
        edges[:, 1::2] = edges[:, 3::-2]
    edges[:, 0::2] = edges[:, 0::2].clip(0, width)
    edges[:, 1::2] = edges[:, 1::2].clip(0, height)
    areas = (edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1])
    return _from_edges(edges, box_format).astype(boxes.dtype), areas >= MIN_AREA


def _to_edges(boxes: NDArray[np.float64], box_format: str) -> NDArray[np.float64]:
    edges = boxes.reshape(-1, 4).copy()
    if box_format == "xyxy":
        return edges
    if box_format == "cxcywh":
        edges[:, :2] -= edges[:, 2:] / 2
    elif box_format != "xywh":
        raise UnsupportedFeatureError(
            f"boxes of format {shown(box_format)} cannot be moved with their image;"
            f" known: {', '.join(sorted(BOX_FORMATS))}",
            actual=box_format,
        )
    edges[:, 2:] += edges[:, :2]
    return edges


def _from_edges(edges: NDArray[np.float64], box_format: str) -> NDArray[np.float64]:
    if box_format == "xyxy":
        return edges
    boxes = edges.copy()
    boxes[:, 2:] -= boxes[:, :2]
    if box_format == "cxcywh":
        boxes[:, :2] += boxes[:, 2:] / 2
    return boxes
