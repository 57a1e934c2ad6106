"""Files of several images, as the items of a `Sequence` of images.

    GIF, animated WebP, animated PNG     its frames, as they are shown: composed, all of one size
    TIFF of several pages                its pages, which may differ in size
    a file of one image                  the file itself

Frames are decoded and encoded again by the codec of the items, so that it must be lossless. When
they are shown is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import missing_extra
from tensorlake.types.vision.headers.encoded import image_format, png_frames
from tensorlake.types.vision.headers.tiff import tiff_pages
from tensorlake.types.vision.rle import MAX_PIXELS

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["frames_of", "has_frames"]

_ANIMATED_WEBP = 0x02  # of the flags of VP8X
_GIF_END = b";"
_GRAY, _ALPHA = 1, 4
_FRAMES_MAX = 10_000  # each is encoded by itself, in a millisecond: longer ones are videos


def has_frames(content: Buffer) -> bool:
    r"""Whether a file has frames or pages, which no codec of a single image reads.

    >>> has_frames(b"GIF89a"), has_frames(b"\xff\xd8\xff")
    (True, False)
    """
    match image_format(content):
        case "GIF":
            return True
        case "TIFF":
            return len(tiff_pages(content)) > 1
        case "WebP":
            return bytes(content[12:16]) == b"VP8X" and bool(content[20] & _ANIMATED_WEBP)
        case "PNG":
            return png_frames(content) > 0
        case _:
            return False


def frames_of(content: Buffer, channels: int) -> Iterator[np.ndarray]:
    """Decode the frames of a file, one at a time: (height, width, channels).

    A frame has an alpha channel if ``channels`` is 4, or if it is transparent somewhere. It is gray
    if ``channels`` is 1, and it has no colours.

    Raises:
        ValueError: The file is damaged or cut short, or its frames are too large.
    """
    if image_format(content) == "TIFF":
        return _pages(content)
    return _animation(content, channels)


def _pages(content: Buffer) -> Iterator[np.ndarray]:
    try:
        import imagecodecs
    except ImportError as error:
        raise missing_extra("reading pages of TIFF files", "media") from error
    library: Any = imagecodecs  # it ships no types
    sizes = tiff_pages(content)
    _check_pixels(sum(height * width for height, width in sizes), len(sizes))
    for number in range(len(sizes)):
        try:
            page: np.ndarray = library.tiff_decode(bytes(content), index=number)
        except (library.TiffError, RuntimeError, IndexError, TypeError) as error:
            raise ValueError(f"page {number}: {error}") from error
        yield page


def _animation(content: Buffer, channels: int) -> Iterator[np.ndarray]:
    try:
        import PIL.Image
    except ImportError as error:
        raise missing_extra("reading frames of GIF and WebP files", "media") from error
    data = bytes(content)
    if image_format(data) == "GIF" and not data.rstrip(b"\0").endswith(_GIF_END):
        raise ValueError("data end before the last frame does")
    try:
        with PIL.Image.open(BytesIO(data)) as image:
            count: int = getattr(image, "n_frames", 1)
            _check_pixels(image.width * image.height * count, count)
            for number in range(count):
                image.seek(number)
                yield _pixels(image, channels)
    except (
        *(OSError, EOFError, SyntaxError, IndexError, KeyError),
        PIL.Image.DecompressionBombError,
    ) as error:
        raise ValueError(str(error) or "its data are damaged") from error


def _pixels(image: Any, channels: int) -> np.ndarray:
    """Return a frame as pixels, without an alpha channel that is opaque everywhere."""
    is_transparent = "A" in image.getbands() or "transparency" in image.info
    if channels == _ALPHA:
        return np.asarray(image.convert("RGBA"))
    if is_transparent:
        pixels = np.asarray(image.convert("RGBA"))
        if (pixels[:, :, 3] < np.iinfo(np.uint8).max).any():
            return pixels
    pixels = np.asarray(image.convert("RGB"))
    if channels == _GRAY and (pixels == pixels[:, :, :1]).all():
        return pixels[:, :, :1]
    return pixels


def _check_pixels(pixels: int, count: int) -> None:
    if count > _FRAMES_MAX:
        raise ValueError(
            f"{count:,} frames, more than {_FRAMES_MAX:,}: tl.Video() takes GIF files, too"
        )
    if pixels > MAX_PIXELS:
        raise ValueError(f"{count:,} frames of {pixels:,} pixels, more than {MAX_PIXELS:,}")
