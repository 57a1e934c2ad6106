"""The boxes that an annotation can have; COCO, VOC and YOLO files are refused with others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["FLOAT32_MAX", "are_boxes", "box_problem"]

FLOAT32_MAX = float(np.finfo(np.float32).max)


def are_boxes(corners: np.ndarray, sizes: np.ndarray) -> bool:
    """Whether `box_problem` finds nothing wrong with any of many boxes.

    Args:
        corners: float64 (boxes, 4): left, top, right, bottom.
        sizes: (boxes, 2): width and height of the image of each; zeros if unknown.
    """
    first, second = corners[:, :2], corners[:, 2:]
    is_inside = (second >= 0) & (first <= np.where(sizes, sizes, np.inf))
    is_box = (np.abs(corners) <= FLOAT32_MAX).all() and (first <= second).all()
    return bool(is_box and is_inside.all())


def box_problem(corners: Sequence[float], size: tuple[int, int]) -> str | None:
    """Return the reason why a box cannot be one of its image, as words that follow it.

    A box may have no width or height, and lie across the edge of its image.

    >>> box_problem((1, 2, 0, 9), (8, 6)), box_problem((0, 0, 9, 6), (8, 6))
    ('of negative width or height', None)

    Args:
        corners: Left, top, right, bottom, in pixels.
        size: Width and height of the image; zeros if unknown.
    """
    left, top, right, bottom = corners
    width, height = size
    if not all(abs(edge) <= FLOAT32_MAX for edge in corners):
        return "which float32 cannot hold"
    if right < left or bottom < top:
        return "of negative width or height"
    if right < 0 or bottom < 0 or (width and left > width) or (height and top > height):
        given = f" of {width} × {height} (width × height)" if width and height else ""
        return f"which is outside of its image{given}"
    return None
