"""Masks for browsers: the code of every pixel, as a PNG that loses none.

    red + 256 · green   the code; blue is 0
    binary mask         0 outside, 1 inside
    segmentation        its codes; IGNORED where the type reserves a code for no class
    instances           0 outside, else 1 + the position of the object; where objects overlap,
                        the smaller one shows

A browser colours the codes itself, so that classes can be hidden, and the colours and their opacity
chosen, without asking again. Made smaller, every pixel is one of the mask itself.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from tensorlake.errors import CorruptSampleError
from tensorlake.types import SampleType
from tensorlake_server.media.images import EncodedImage, check_pixels

__all__ = ["IGNORED", "MASK_KINDS", "mask_codes", "render_mask"]

MASK_KINDS = frozenset({"binary_mask", "segment_mask", "instance_mask"})
IGNORED = 0xFFFF
STACK_NDIM = 3


def mask_codes(sample_type: SampleType, sample: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Return one code a pixel: (height, width)."""
    if sample_type.drawn_as == "segment_mask":
        codes = sample.astype(np.uint16)
        ignore = getattr(sample_type, "ignore", None)
        if ignore is not None:
            codes[sample == ignore] = IGNORED
        return codes
    if sample.ndim != STACK_NDIM:
        return sample.astype(np.uint16)
    codes = np.zeros(sample.shape[1:], dtype=np.uint16)
    sizes = sample.reshape(len(sample), -1).sum(axis=1)
    for position in np.argsort(-sizes, kind="stable").tolist():
        codes[sample[position]] = position + 1
    return codes


def render_mask(
    sample_type: SampleType, sample: npt.NDArray[Any], *, size: int | None = None
) -> EncodedImage:
    """Make the PNG of a mask, that fits into ``size`` × ``size``; None keeps its size.

    Raises:
        CorruptSampleError: It has no pixels.
        ImageTooLargeError: It has too many.
    """
    height, width = sample.shape[-2:]
    check_pixels(width, height)
    if not height * width:
        raise CorruptSampleError(
            f"a mask of {width:,} × {height:,} pixels has nothing to show",
            expected=1,
            actual=height * width,
        )
    codes = mask_codes(sample_type, sample)
    step = 1.0 if size is None else max(1.0, max(height, width) / size)
    rows = _chosen(height, step)
    columns = _chosen(width, step)
    shown = codes[np.ix_(rows, columns)]
    pixels = np.zeros((*shown.shape, 3), dtype=np.uint8)
    pixels[..., 0] = shown & 0xFF
    pixels[..., 1] = shown >> 8
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=3)
    return EncodedImage("image/png", out.getvalue(), width, height)


def _chosen(length: int, step: float) -> npt.NDArray[np.int64]:
    """Return the pixels at the middles of `length / step` equal pieces."""
    count = max(1, round(length / step))
    middles = (np.arange(count) + 0.5) * (length / count)
    return np.minimum(middles.astype(np.int64), length - 1)
