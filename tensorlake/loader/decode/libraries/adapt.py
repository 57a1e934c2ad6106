"""Recognition of other libraries' transforms, without importing a library that is not loaded.

    torchvision.transforms.v2   draws from torch's functions, which get the row's generator anyway
    albumentations.Compose      has generators of its own, which are set to the row's
    any other function          takes the row as it is

The image, and the tensors declared ``of=`` it, are given as the library's own kinds of data;
results are arrays as a loader's steps make them, images with their channels last. Other columns
pass unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorlake.types import SampleType

__all__ = ["adapted"]


def adapted(
    transform: Callable[..., Any], types: Mapping[str, SampleType]
) -> Callable[..., Mapping[str, Any]]:
    """Return a function of a row that applies a transform; a user's own function is returned as is.

    Args:
        transform: The user's.
        types: The types of the columns of a row.

    Raises:
        UnsupportedFeatureError: The library has no kind of data for a tensor.
    """
    torchvision = sys.modules.get("torchvision.transforms.v2")
    if torchvision is not None and isinstance(transform, torchvision.Transform):
        from tensorlake.loader.decode.libraries.torchvision import TorchvisionTransform

        return TorchvisionTransform.of(transform, types)
    albumentations = sys.modules.get("albumentations")
    if albumentations is not None and isinstance(
        transform, albumentations.BaseCompose | albumentations.BasicTransform
    ):
        from tensorlake.loader.decode.libraries.albumentations import AlbumentationsTransform

        return AlbumentationsTransform.of(transform, types)
    return transform
