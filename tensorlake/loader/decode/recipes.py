"""Recipes: lists of steps shared by many training setups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake.loader.decode.geometry.crop import CenterCrop, RandomResizedCrop
from tensorlake.loader.decode.geometry.flip import Flip
from tensorlake.loader.decode.geometry.resize import Resize
from tensorlake.loader.decode.values import Normalize, ToFloat
from tensorlake.quantities import check_flags

if TYPE_CHECKING:
    from tensorlake.loader.decode.step import Step

__all__ = ["imagenet"]

# Channel statistics of ImageNet's training images, as published with every pretrained model.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
EVALUATION_MARGIN = 256 / 224  # the short side before the central crop, over the crop's


def imagenet(*, train: bool, size: int = 224) -> list[Step]:
    """Return the usual steps of ImageNet training or evaluation, float32 and normalized.

    >>> imagenet(train=False)[0]
    Resize(height=256, width=None, antialias=True, exact=False)
    """
    check_flags(train=train)
    values: list[Step] = [ToFloat(), Normalize(IMAGENET_MEAN, IMAGENET_STD)]
    if train:
        return [RandomResizedCrop(size, size), Flip(), *values]
    return [Resize(round(size * EVALUATION_MARGIN)), CenterCrop(size, size), *values]
