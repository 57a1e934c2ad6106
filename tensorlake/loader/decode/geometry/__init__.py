"""Geometric steps, and the placement of an image that they make."""

from tensorlake.loader.decode.geometry.crop import CenterCrop, RandomResizedCrop
from tensorlake.loader.decode.geometry.flip import Flip
from tensorlake.loader.decode.geometry.placement import Area, Placement
from tensorlake.loader.decode.geometry.resize import Letterbox, Resize
from tensorlake.loader.decode.geometry.rotate import Rotate90

__all__ = [
    "Area",
    "CenterCrop",
    "Flip",
    "Letterbox",
    "Placement",
    "RandomResizedCrop",
    "Resize",
    "Rotate90",
]
