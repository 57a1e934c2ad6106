"""Channels first: how a batch's pictures are shown where ``layout="NCHW"`` asks for it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

__all__ = ["PICTURE_NDIM", "channels_first"]

PICTURE_NDIM = 3


def channels_first(entry: Any) -> Any:  # Any: an entry of a batch
    """Move the channels of pictures before their height, without a copy.

    Pictures are stacked, with other axes before, or listed; what has no pixels stays as it is.
    """
    if isinstance(entry, list):
        return [_moved(one, PICTURE_NDIM) for one in cast("list[Any]", entry)]
    return _moved(entry, PICTURE_NDIM + 1)


def _moved(value: Any, least_ndim: int) -> Any:
    is_pictures = isinstance(value, np.ndarray) and value.ndim >= least_ndim
    return np.moveaxis(value, -1, -PICTURE_NDIM) if is_pictures else value
