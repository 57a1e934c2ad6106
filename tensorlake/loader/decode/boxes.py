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
    boxes: NDArray[np.floating],
    placement: Placement,
    *,
    box_format: str,
    min_area: float = MIN_AREA,
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Move boxes (n, 4) as ``placement`` moves the image.

    Returns:
        The boxes that keep at least ``min_area`` pixels, clipped, in their original format; and
        the indices of these boxes, for the labels that belong to them.
    """
    edges = _to_edges(boxes.astype(np.float64), box_format)
    scale_y = placement.size[0] / placement.crop.height
    scale_x = placement.size[1] / placement.crop.width
    edges[:, 0::2] = (edges[:, 0::2] - placement.crop.left) * scale_x - placement.window.left
    edges[:, 1::2] = (edges[:, 1::2] - placement.crop.top) * scale_y - placement.window.top
    height, width = placement.output
    if placement.mirror_x:
        edges[:, 0::2] = width - edges[:, 2::-2]
    if placement.mirror_y:
        edges[:, 1::2] = height - edges[:, 3::-2]
    edges[:, 0::2] = edges[:, 0::2].clip(0, width)
    edges[:, 1::2] = edges[:, 1::2].clip(0, height)
    areas = (edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1])
    kept = areas >= min_area
    return _from_edges(edges[kept], box_format).astype(boxes.dtype), kept


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
