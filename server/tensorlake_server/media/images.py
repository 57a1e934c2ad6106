"""Images for browsers: thumbnails of stored samples, and arrays drawn as images.

JPEG samples are decoded at a fraction of their size (the codec skips what a thumbnail would throw
away: 8 times faster on camera images), everything else by Pillow. An image too small for JPEG's
blocks, and one with transparency, becomes PNG.

Samples are whatever their writers put into the lake: their type is detected from
their first bytes, never from a name or a declared type, and sizes are checked before decoding.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import simplejpeg
from PIL import Image

from tensorlake.errors import CorruptSampleError
from tensorlake.types import Buffer
from tensorlake_server.http.problems import ImageTooLargeError
from tensorlake_server.media.windows import DEEP_DTYPES, Window, is_deep, to_greys

__all__ = [
    "PASSIVE_IMAGES",
    "EncodedImage",
    "check_pixels",
    "decode_deep",
    "is_drawable",
    "render_array",
    "render_sample",
    "sniff",
]

# Image types that no browser runs anything of. SVG is none of them.
PASSIVE_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/avif"})

MAX_PIXELS = 1 << 27  # 384 MiB decoded: beyond it a thumbnail is refused
MAX_PLANE_NBYTES = 1 << 29
READ_INSTEAD = "read it with the SDK: ds['image'][row]; ?raw downloads its stored bytes"
LOSSLESS_SIDE = 96  # digits, icons: JPEG would blur them and PNG is as small
JPEG_QUALITY = 82
HALF = "premature end"  # in libjpeg's warning
GREY_NDIM = 2
COLOUR_NDIM = 3
SMALLEST_SIDE = 8  # less is a table of numbers
DRAWN_DTYPES = frozenset({"uint8", "bool"}) | DEEP_DTYPES


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An encoded image, and the size of the sample that it shows."""

    media_type: Literal["image/jpeg", "image/png"]
    data: bytes
    width: int
    height: int


def sniff(data: Buffer) -> str | None:
    """Detect an image's type from its first bytes; None if its type is not known here."""
    head = bytes(data[:16])
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    return "image/tiff" if head[:4] in (b"II*\0", b"MM\0*") else None


def is_drawable(dtype: np.dtype | None, shape: tuple[int | None, ...]) -> bool:
    """Whether arrays of a tensor are images: grey or colour, of any depth, not a mere vector."""
    if dtype is None or dtype.name not in DRAWN_DTYPES:
        return False
    if len(shape) == COLOUR_NDIM and shape[2] not in (1, 3, 4):
        return False
    if dtype.kind == "f" and len(shape) == GREY_NDIM and (shape[0] is None) != (shape[1] is None):
        return False  # vectors, one below the other
    sides = [length for length in shape[:2] if length is not None]
    return len(shape) in (GREY_NDIM, COLOUR_NDIM) and min(sides, default=SMALLEST_SIDE) >= (
        SMALLEST_SIDE
    )


def render_sample(data: Buffer, *, size: int | None, window: Window | None = None) -> EncodedImage:
    """Make an image of a stored sample that fits into ``size`` × ``size``; None keeps its size.

    A deep one is drawn through the window, or through its own.

    Raises:
        CorruptSampleError: It cannot be decoded.
        ImageTooLargeError: It has more than MAX_PIXELS.
    """
    if sniff(data) == "image/jpeg":
        try:
            return _render_jpeg(bytes(data), size)
        except ValueError as error:
            if HALF in str(error):  # Pillow fills the rest with grey: half an image, shown as whole
                raise _undecodable(data, error) from error
            # else CMYK and other rare kinds, or damage: Pillow decides which
    return _render_by_pillow(bytes(data), size, window)


def decode_deep(data: Buffer) -> np.ndarray | None:
    """Decode a stored image that has more values than a screen has greys; None for others.

    Raises:
        CorruptSampleError: It cannot be decoded.
        ImageTooLargeError: It has more than MAX_PIXELS.
    """
    try:
        with Image.open(io.BytesIO(bytes(data))) as image:
            check_pixels(*image.size)
            return _deep_values(image) if _is_deep_mode(image.mode) else None
    except Image.DecompressionBombError as error:
        raise ImageTooLargeError(f"{error}\n{READ_INSTEAD}") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise _undecodable(data, error) from error


def render_array(
    array: np.ndarray, *, size: int | None, window: Window | None = None
) -> EncodedImage:
    """Draw an array of grey or colour values; deep ones through the window, or through their own.

    Raises:
        ImageTooLargeError: It has more than MAX_PIXELS.
    """
    height, width = array.shape[:2]
    check_pixels(width, height)
    pixels = _to_bytes(array, window)
    if pixels.ndim == COLOUR_NDIM and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return _finish(image, size, width, height, is_lossless=size is None)


def _render_jpeg(data: bytes, size: int | None) -> EncodedImage:
    header: Any = simplejpeg.decode_jpeg_header(data)  # its stub gives SupportsInt
    height, width = int(header[0]), int(header[1])
    check_pixels(width, height)
    if size is None:
        return EncodedImage("image/jpeg", data, width, height)
    target_width, target_height = _fit(width, height, size)
    pixels = simplejpeg.decode_jpeg(
        data, "RGB", fastdct=True, min_width=target_width, min_height=target_height
    )
    return _finish(Image.fromarray(pixels), size, width, height)


def _render_by_pillow(data: bytes, size: int | None, window: Window | None) -> EncodedImage:
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            check_pixels(width, height)
            image.load()
            shown = _to_eight_bits(image, window)
    except Image.DecompressionBombError as error:  # more than MAX_PIXELS: Pillow counts first
        raise ImageTooLargeError(f"{error}\n{READ_INSTEAD}") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise _undecodable(data, error) from error
    return _finish(shown, size, width, height)


def _undecodable(data: Buffer, error: Exception) -> CorruptSampleError:
    sample = bytes(data)
    return CorruptSampleError(
        f"{len(sample):,} bytes beginning with {sample[:8].hex(' ')} are not an image"
        f" that can be decoded: {error}"
        "\nto find all such samples: ds.check(full=False, decode=True)"
    )


def _finish(
    image: Image.Image,
    size: int | None,
    width: int,
    height: int,
    *,
    is_lossless: bool = False,
) -> EncodedImage:
    """Shrink to the target and encode; ``width`` and ``height`` are those of the whole sample."""
    if size is not None:
        target = _fit(width, height, size)
        if target != image.size:
            image = image.resize(target, Image.Resampling.BOX, reducing_gap=2.0)
    if is_lossless or image.mode == "RGBA" or max(image.size) <= LOSSLESS_SIDE:
        out = io.BytesIO()
        image.save(out, "PNG", compress_level=3)
        return EncodedImage("image/png", out.getvalue(), width, height)
    pixels = np.asarray(image.convert("RGB"))
    data = simplejpeg.encode_jpeg(pixels, JPEG_QUALITY, "RGB", "420", fastdct=True)
    return EncodedImage("image/jpeg", data, width, height)


def _fit(width: int, height: int, size: int) -> tuple[int, int]:
    """Largest size of the same shape inside a square; small images are not enlarged."""
    scale = min(1.0, size / max(width, height, 1))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _to_bytes(array: np.ndarray, window: Window | None) -> np.ndarray:
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    return to_greys(array, window) if is_deep(array.dtype) else array


def _is_deep_mode(mode: str) -> bool:
    return mode.startswith("I") or mode == "F"


def _deep_values(image: Image.Image) -> np.ndarray:
    values = np.asarray(image)
    return values.astype(np.float64) if image.mode == "I" else values


def _to_eight_bits(image: Image.Image, window: Window | None) -> Image.Image:
    if _is_deep_mode(image.mode):
        return Image.fromarray(to_greys(_deep_values(image), window))
    if "A" in image.mode or "transparency" in image.info:
        return image.convert("RGBA")
    return image.copy() if image.mode in ("L", "RGB") else image.convert("RGB")


def check_pixels(width: int, height: int, *, planes: int = 1) -> None:
    """Refuse to decode what is too large to show, before any memory is taken for it.

    Args:
        width: In pixels.
        height: In pixels.
        planes: Masks of objects over the same pixels, each a byte a pixel.

    Raises:
        ImageTooLargeError: It has more than MAX_PIXELS, or MAX_PLANE_NBYTES in all planes.
    """
    if width * height > MAX_PIXELS or width * height * planes > MAX_PLANE_NBYTES:
        stacked = f" in {planes:,} planes" if planes > 1 else ""
        raise ImageTooLargeError(
            f"an image of {width:,} × {height:,} pixels{stacked} is too large to show"
            f" ({MAX_PIXELS:,} at most)\n{READ_INSTEAD}",
            expected=MAX_PIXELS,
            actual=width * height * planes,
        )
