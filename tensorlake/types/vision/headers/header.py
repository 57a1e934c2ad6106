"""What an encoded picture says of itself: the value that every format's header parser gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["ImageFormat", "ImageHeader"]

ImageFormat: TypeAlias = Literal["JPEG", "PNG", "WebP", "AVIF", "JPEG 2000", "TIFF"]


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Size, channels and orientation of an encoded picture, as stored.

    Attributes:
        channels: Stored colour channels, alpha not counted: 1 gray, 3 colour, 4 CMYK.
        depth: Bits of one channel of one pixel.
        has_alpha: Whether a further channel, or a transparent colour, says how opaque pixels are.
        orientation: EXIF's: 1 as stored, 2–8 turned or mirrored when shown.
    """

    format: ImageFormat
    height: int
    width: int
    channels: int
    depth: int
    has_alpha: bool = False
    orientation: int = 1
