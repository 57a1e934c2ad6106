"""Masks move with their image: each pixel takes the value of the nearest stored one.

The nearest is the one under the centre of the new pixel, computed in integers: as Pillow's NEAREST
and torch's "nearest-exact", so masks stay aligned with images, which are resampled about the same
centres.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry import Placement

__all__ = ["move_masks"]


def move_masks(
    masks: NDArray[np.generic], placement: Placement, *, fill: int = 0
) -> NDArray[np.generic]:
    """Move masks (…, height, width); pixels that the image pads are ``fill``."""
    is_turned = placement.transposed
    rows, above, below = _sources(
        placement.crop.top,
        placement.crop.height,
        placement.size[0],
        placement.window.top,
        placement.window.height,
        is_mirrored=placement.mirror_x if is_turned else placement.mirror_y,
    )
    columns, left, right = _sources(
        placement.crop.left,
        placement.crop.width,
        placement.size[1],
        placement.window.left,
        placement.window.width,
        is_mirrored=placement.mirror_y if is_turned else placement.mirror_x,
    )
    # rows first: fewer pixels are left for the columns, which are not adjacent in memory
    visible = masks.take(rows, axis=-2).take(columns, axis=-1)
    height, width = placement.window.height, placement.window.width
    moved = visible
    if visible.shape[-2:] != (height, width):
        moved = np.full((*masks.shape[:-2], height, width), fill, masks.dtype)
        moved[..., above : height - below, left : width - right] = visible
    return np.ascontiguousarray(moved.swapaxes(-2, -1)) if is_turned else moved


def _sources(
    start: int, length: int, size: int, window: int, output: int, *, is_mirrored: bool
) -> tuple[NDArray[np.intp], int, int]:
    """Return the stored pixel of each visible new one, and the padding before and after them."""
    before, after = max(0, -window), max(0, window + output - size)
    at = np.arange(window + before, max(window + output - after, window + before))
    before, after = min(before, output), min(after, output)
    found = start + (2 * at + 1) * length // (2 * size)
    return (found[::-1], after, before) if is_mirrored else (found, before, after)
