"""Thumbnails: small JPEGs as data URIs, from stored images, with boxes drawn on them.

JPEGs are decoded at a reduced scale, and then averaged over squares of pixels. An image of more
than `PIXELS_MAX` is not decoded at all. Alpha is blended on white, 16 bits show their upper 8, one
channel is grey.
"""

from __future__ import annotations

import base64
import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import simplejpeg

from tensorlake.types import Buffer, EncodedColumn, Image, RaggedColumn

__all__ = ["PIXELS_MAX", "thumbnail"]

Pixels: TypeAlias = npt.NDArray[np.uint8]

PIXELS_MAX = 32 << 20
"""Above the largest ordinary cameras, and 100 MB decoded."""

QUALITY = 75
BOXES_MAX = 100
COLOURS = ((230, 60, 60), (60, 160, 250), (250, 190, 40), (90, 200, 90), (200, 90, 220))
GREY, ALPHA = 1, 4


def thumbnail(
    kind: Image,
    sample: Buffer,
    shape: tuple[int, ...],
    *,
    side: int,
    boxes: npt.NDArray[np.float64] | None = None,
) -> str | None:
    """Make a thumbnail of at most ``side`` pixels each way; None for an image that is too large.

    Args:
        kind: The tensor's type.
        sample: The stored image.
        shape: Shape of the decoded image.
        side: Maximum height and width.
        boxes: ``xyxy``, in pixels of the full image.

    Raises:
        ValueError: The image is incomplete.
        CorruptSampleError: Likewise.
    """
    height, width = shape[:2]
    if not 0 < height * width <= PIXELS_MAX:
        return None
    pixels = _shrunk(_plain(_decoded(kind, sample, shape, side)), side)
    if boxes is not None and len(boxes):
        scale = pixels.shape[1] / width, pixels.shape[0] / height
        pixels = _with_boxes(pixels, boxes[:BOXES_MAX], scale)
    encoded = simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels),
        quality=QUALITY,
        colorspace="GRAY" if pixels.shape[2] == GREY else "RGB",
    )
    return "data:image/jpeg;base64," + base64.b64encode(encoded).decode("ascii")


def _decoded(kind: Image, sample: Buffer, shape: tuple[int, ...], side: int) -> npt.NDArray[Any]:
    is_plain = kind.codec_of(sample) == "jpeg" and not kind.upright and kind.dtype == np.uint8
    if is_plain and shape[2] in (GREY, 3) and not kind.is_of_inks(sample):
        share = min(1.0, side / max(shape[:2]))  # the library takes its next larger scale
        return simplejpeg.decode_jpeg(
            bytes(sample),
            colorspace="GRAY" if shape[2] == GREY else "RGB",
            min_height=math.ceil(shape[0] * share),
            min_width=math.ceil(shape[1] * share),
        )
    column = kind.decode(EncodedColumn([sample], np.array([shape], np.int64)), tensor="image")
    assert isinstance(column, RaggedColumn)
    return column.sample(0)


def _plain(pixels: npt.NDArray[Any]) -> Pixels:
    """Convert to eight bits without alpha."""
    if pixels.dtype == np.uint16:
        pixels = pixels >> 8
    if pixels.shape[2] == ALPHA:
        opaque = pixels[:, :, 3:].astype(np.uint16)
        colours = pixels[:, :, :3].astype(np.uint16)
        pixels = (colours * opaque + 255 * (255 - opaque)) // 255
    return pixels.astype(np.uint8)


def _shrunk(pixels: Pixels, side: int) -> Pixels:
    """Average squares of pixels, as large as needed to bring the image within ``side``."""
    factor = -(-max(pixels.shape[:2]) // side)
    if factor <= 1:
        return pixels
    height, width = (max(1, length // factor) for length in pixels.shape[:2])
    rows, columns = (min(factor, length) for length in pixels.shape[:2])
    whole = pixels[: height * rows, : width * columns]
    squares = whole.reshape(height, rows, width, columns, pixels.shape[2])
    return squares.mean(axis=(1, 3)).astype(np.uint8)


def _with_boxes(
    pixels: Pixels, boxes: npt.NDArray[np.float64], scale: tuple[float, float]
) -> Pixels:
    """Draw the outline of each box, two pixels wide."""
    drawn = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == GREY else pixels.copy()
    height, width = drawn.shape[:2]
    shown = np.nan_to_num(boxes, nan=0.0, posinf=1e6, neginf=-1e6) * np.array(scale * 2)
    for number, (left, top, right, bottom) in enumerate(shown.tolist()):
        colour = COLOURS[number % len(COLOURS)]
        x0, x1 = (round(min(max(x, 0), width - 1)) for x in (left, right))
        y0, y1 = (round(min(max(y, 0), height - 1)) for y in (top, bottom))
        if x1 < x0 or y1 < y0:
            continue
        drawn[y0 : y0 + 2, x0 : x1 + 1] = colour
        drawn[max(0, y1 - 1) : y1 + 1, x0 : x1 + 1] = colour
        drawn[y0 : y1 + 1, x0 : x0 + 2] = colour
        drawn[y0 : y1 + 1, max(0, x1 - 1) : x1 + 1] = colour
    return drawn
