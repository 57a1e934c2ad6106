"""Images that are scaled down when they are stored: ``max_side`` and ``quality`` of `Image`.

    a file that fits max_side             stored as it is, byte for byte
    a larger file                         decoded, scaled, encoded by its codec
    pixels                                scaled if they are larger, encoded

The sides keep their ratio, and nothing is scaled up. Resampling is bilinear and antialiased, as in
a loader's ``Resize``. An encoded file has no EXIF: with ``upright=True`` its pixels are rotated
before, otherwise they stay as they were stored. So it is read as the larger one was, but smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.vision.resample import choose_resampler

if TYPE_CHECKING:
    from tensorlake.types.vision.codecs import PixelCodec

__all__ = ["check_scale", "scaled", "scaled_size"]

BEST_QUALITY = 100


def check_scale(
    codec: PixelCodec, name: str, *, max_side: object, quality: object, has_tiles: bool
) -> None:
    """Check the arguments of an image type.

    Raises:
        SchemaError: One is not a number in its range, or the codec has no quality.
    """
    if max_side is not None and not (is_whole_number(max_side) and max_side > 0):
        raise SchemaError(
            f"max_side={shown(max_side)} of Image({name}): give the most pixels that a side may"
            " have, such as 512",
            actual=max_side,
        )
    if max_side is not None and has_tiles:
        raise SchemaError(
            f"max_side={shown(max_side)} of Image({name}, tiles=…): images in tiles are stored at"
            " their size, since a region of them is read\nleave max_side= or tiles= out",
            actual=max_side,
        )
    if quality is None:
        return
    if not codec.has_quality:
        how = "encodes pixels as PNG, without loss" if name == "any" else "compresses without loss"
        raise SchemaError(
            f"quality={shown(quality)} of Image({name}), which {how}"
            "\nleave quality= out, or use 'jpeg', 'webp' or 'avif'",
            actual=quality,
        )
    if not (is_whole_number(quality) and 1 <= quality <= BEST_QUALITY):
        raise SchemaError(
            f"quality={shown(quality)} of Image({name}): give a number from 1 to {BEST_QUALITY}",
            actual=quality,
        )


def scaled_size(height: int, width: int, max_side: int | None) -> tuple[int, int]:
    """Return the height and width with which an image is stored.

    >>> scaled_size(3000, 4000, 512), scaled_size(300, 400, 512), scaled_size(1, 9000, 512)
    ((384, 512), (300, 400), (1, 512))
    """
    longest = max(height, width)
    if max_side is None or longest <= max_side:
        return height, width
    sides = (height, width)
    rounded = (max(1, (2 * side * max_side + longest) // (2 * longest)) for side in sides)
    height, width = rounded
    return height, width


def scaled(pixels: np.ndarray, max_side: int | None) -> np.ndarray:
    """Return pixels (height, width, channels) as they are stored; the same array if they fit."""
    height, width = pixels.shape[:2]
    size = scaled_size(height, width, max_side)
    if size == (height, width):
        return pixels
    return choose_resampler().antialiased(np.ascontiguousarray(pixels), size)
