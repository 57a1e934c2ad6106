"""Images and masks in tiles for browsers: small ones from the overview, others from all tiles.

thumbnail of 256                the overview alone: some kilobytes, whatever the image has
1,024 of an image of 24 MP      its tiles
1,024 of one of 900 MP          the overview: the tiles are more than MAX_TILED_NBYTES
full size of one of 900 MP      an error that names the call to read a region
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.types import Overview, TiledSamples
from tensorlake_server.http.problems import ImageTooLargeError
from tensorlake_server.media.images import is_drawable, render_array
from tensorlake_server.media.masks import MASK_KINDS, render_mask

if TYPE_CHECKING:
    from tensorlake.types import SampleHandle
    from tensorlake_server.media.images import EncodedImage
    from tensorlake_server.media.windows import Window

__all__ = ["MAX_TILED_NBYTES", "draw_tiles", "pixels_of_tiles", "too_many_bytes"]

MAX_TILED_NBYTES = 512 << 20  # of tiles, decoded for one answer


def draw_tiles(sample: SampleHandle, *, size: int | None, window: Window | None) -> EncodedImage:
    """Draw an image or a mask in tiles so that it fits into a square; None keeps its size.

    Raises:
        CorruptSampleError: A tile cannot be decoded, or it is not an image.
        ImageTooLargeError: It has no overview, and too many bytes to be decoded.
    """
    height, width = sample.shape[:2]
    pixels = pixels_of_tiles(sample, size)
    kind = sample.type
    if isinstance(kind, TiledSamples) and kind.drawn_as in MASK_KINDS:
        image = render_mask(kind, pixels, size=size)
    elif is_drawable(pixels.dtype, pixels.shape):
        image = render_array(pixels, size=size, window=window)
    else:
        message = f"an array {pixels.dtype} {pixels.shape} is not an image"
        raise CorruptSampleError(message, actual=pixels.shape)
    return replace(image, width=width, height=height)


def pixels_of_tiles(sample: SampleHandle, size: int | None) -> np.ndarray:
    """Decode what an image of this size is drawn from: the overview, or all tiles.

    Raises:
        CorruptSampleError: A tile cannot be decoded.
        ImageTooLargeError: It has no overview, and too many bytes to be decoded.
    """
    assert isinstance(sample.type, TiledSamples)
    head = sample.type.head_of(sample.map, tensor=sample.tensor, row=sample.row)
    is_large = head.nbytes > MAX_TILED_NBYTES
    if head.overview is not None and size is not None and (is_large or size <= max(head.overview)):
        return sample.read(Overview())
    if is_large:
        raise too_many_bytes(head.nbytes, sample.tensor, can_shrink=head.overview is not None)
    return np.asarray(sample)


def too_many_bytes(nbytes: int, tensor: str, *, can_shrink: bool = False) -> ImageTooLargeError:
    """Build the error for tiles that are too many to be decoded."""
    smaller = "ask for it with ?size=, or " if can_shrink else ""
    return ImageTooLargeError(
        f"an array of {nbytes:,} bytes is too large to be sent decoded ({MAX_TILED_NBYTES:,} at"
        f" most)\n{smaller}read a region in Python: ds[{tensor!r}][row, 0:1000, 0:1000]",
        expected=MAX_TILED_NBYTES,
        actual=nbytes,
    )
