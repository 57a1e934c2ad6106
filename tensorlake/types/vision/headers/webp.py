"""WebP: size, channels and orientation.

    RIFF | length u32 | WEBP | chunks: name, 4 letters | length u32 | content, padded to even

    VP8X  flags u8 (02 animation, 10 alpha, 08 EXIF) | 3 bytes | width - 1 u24 | height - 1 u24
    VP8   frame tag u24 | 9D 01 2A | width u14 (2 bits scale) | height u14
    VP8L  2F | width - 1: 14 bits, height - 1: 14 bits, alpha: 1 bit

(RFC 9649, section 2.) Numbers are little-endian.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake.types.vision.headers.header import ImageHeader
from tensorlake.types.vision.headers.tiff import exif_orientation

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["is_lossy_webp", "parse_webp_header"]

_HEAD_NBYTES, _CHUNK_NBYTES = 12, 8
_ANIMATED, _HAS_ALPHA = 0x02, 0x10
_SIDE = 0x3FFF
_LOSSLESS_SIGNATURE = 0x2F


def parse_webp_header(data: Buffer) -> ImageHeader:
    """Read the first chunks of a WebP.

    Raises:
        ValueError: The bytes are not a WebP, are damaged, or an animation.
    """
    if bytes(data[:4]) != b"RIFF" or bytes(data[8:12]) != b"WEBP":
        raise ValueError("it does not begin with RIFF … WEBP")
    end = int.from_bytes(data[4:8], "little") + _CHUNK_NBYTES
    if end > len(data):
        raise ValueError("data end before the image does")
    size: tuple[int, int] | None = None
    has_alpha, orientation, at = False, 1, _HEAD_NBYTES
    while at + _CHUNK_NBYTES <= end:  # bytes after the end are not the image's
        name = bytes(data[at : at + 4])
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        content = data[at + _CHUNK_NBYTES : at + _CHUNK_NBYTES + length]
        if len(content) < length:
            raise ValueError(f"data end inside the chunk at byte {at}")
        if name == b"VP8X" and length >= 10:  # noqa: PLR2004 - flags, reserved, two sides
            if content[0] & _ANIMATED:
                raise ValueError('it is an animation, use tl.Sequence(tl.Image("png"))')
            has_alpha = bool(content[0] & _HAS_ALPHA)
            size = _number(content[7:10]) + 1, _number(content[4:7]) + 1
        elif name == b"VP8 " and length >= 10 and size is None:  # noqa: PLR2004 - tag, mark, sides
            if bytes(content[3:6]) != b"\x9d\x01\x2a":
                raise ValueError("its frame does not begin with 9D 01 2A")
            size = _number(content[8:10]) & _SIDE, _number(content[6:8]) & _SIDE
        elif name == b"VP8L" and length >= 5:  # noqa: PLR2004 - signature, sides and alpha
            if content[0] != _LOSSLESS_SIGNATURE:
                raise ValueError("its frame does not begin with 2F")
            bits = _number(content[1:5])
            size = size or (((bits >> 14) & _SIDE) + 1, (bits & _SIDE) + 1)
            has_alpha = has_alpha or bool(bits >> 28 & 1)
        elif name == b"EXIF":
            orientation = exif_orientation(content)
        at += _CHUNK_NBYTES + length + length % 2
    if size is None or not all(size):
        raise ValueError("it has no image")
    return ImageHeader("WebP", *size, 3, 8, has_alpha, orientation)


def is_lossy_webp(data: Buffer) -> bool:
    """Whether a WebP was compressed with loss: its frame is VP8, not VP8L."""
    at = _HEAD_NBYTES
    while at + _CHUNK_NBYTES <= len(data):
        if bytes(data[at : at + 4]) == b"VP8 ":
            return True
        length = _number(data[at + 4 : at + 8])
        at += _CHUNK_NBYTES + length + length % 2
    return False


def _number(content: Buffer) -> int:
    return int.from_bytes(content, "little")
