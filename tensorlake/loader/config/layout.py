"""Channels first: the layout of a batch's images under ``layout="NCHW"``."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

__all__ = ["IMAGE_NDIM", "channels_first"]

IMAGE_NDIM = 3


def channels_first(entry: Any) -> Any:  # Any: an entry of a batch
    """Move the channels of images before their height, without a copy.

    Images are stacked, with other axes before, or listed; entries without pixels stay unchanged.
    """
    if isinstance(entry, list):
        return [_moved(one, IMAGE_NDIM) for one in cast("list[Any]", entry)]
    return _moved(entry, IMAGE_NDIM + 1)


def _moved(value: Any, least_ndim: int) -> Any:
    is_images = isinstance(value, np.ndarray) and value.ndim >= least_ndim
    return np.moveaxis(value, -1, -IMAGE_NDIM) if is_images else value
