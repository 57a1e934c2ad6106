"""Annotations of an image, moved as geometric steps move its pixels."""

from tensorlake.loader.decode.annotations.boxes import move_boxes
from tensorlake.loader.decode.annotations.keypoints import move_keypoints, sides_swapped
from tensorlake.loader.decode.annotations.masks import move_masks
from tensorlake.loader.decode.annotations.mover import Kept, Mover, keep_items, mover_of
from tensorlake.loader.decode.annotations.polygons import move_polygons

__all__ = [
    "Kept",
    "Mover",
    "keep_items",
    "move_boxes",
    "move_keypoints",
    "move_masks",
    "move_polygons",
    "mover_of",
    "sides_swapped",
]
